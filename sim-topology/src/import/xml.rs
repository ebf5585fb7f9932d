//! XML as a flat list of elements with places, read within limits and without entities.

use core::ops::Range;

use quick_xml::errors::{Error, SyntaxError};
use quick_xml::events::{BytesStart, Event};
use quick_xml::{Reader, XmlVersion};

use super::finding::Refusal;

/// Deepest nesting that is read; real files have 8 levels.
const DEEPEST: usize = 128;
/// Most elements that are read; NCCL itself takes 65,536 of a graph file.
const MOST_ELEMENTS: usize = 1 << 20;

/// An element.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Element {
    /// Its name.
    pub(super) name: String,
    /// The bytes of its start tag.
    pub(super) at: Range<usize>,
    /// The element that it is in.
    pub(super) parent: Option<usize>,
    /// The elements in it, in order.
    pub(super) children: Vec<usize>,
    attributes: Vec<Attribute>,
}

/// An attribute: name, value, and the bytes of the value.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Attribute {
    name: String,
    value: String,
    at: Range<usize>,
}

impl Element {
    /// The value of an attribute, trimmed; `None` if it is absent.
    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.attributes.iter().find(|a| a.name == name).map(|a| a.value.trim())
    }

    /// The bytes of an attribute's value, or of the start tag if it is absent.
    pub(super) fn place(&self, name: &str) -> Range<usize> {
        self.attributes.iter().find(|a| a.name == name).map_or_else(|| self.at.clone(), |a| a.at.clone())
    }

    /// An attribute as a number of this type; `None` if it is absent or another thing.
    pub(super) fn number<T: core::str::FromStr>(&self, name: &str) -> Option<T> {
        self.get(name)?.parse().ok()
    }
}

/// All elements in the order of their start tags, parents before children.
#[derive(Clone, Debug, Default)]
pub(super) struct Tree {
    /// The elements.
    pub(super) elements: Vec<Element>,
    /// Where the text ends inside an element, if it does.
    pub(super) cut: Option<usize>,
}

impl Tree {
    /// The children of an element, in order.
    pub(super) fn children(&self, of: usize) -> impl Iterator<Item = (usize, &Element)> {
        self.elements[of].children.iter().map(|&i| (i, &self.elements[i]))
    }
}

/// Reads the elements of `text`. A text that ends too early gives what it has.
///
/// # Errors
/// If it is not XML, declares a document type (entities), or goes beyond the limits.
pub(super) fn read(text: &str) -> Result<Tree, Refusal> {
    let mut reader = Reader::from_str(text);
    let mut tree = Tree::default();
    let mut open: Vec<usize> = Vec::new();
    loop {
        let before = usize::try_from(reader.buffer_position()).unwrap_or(text.len());
        let event = match reader.read_event() {
            Ok(event) => event,
            // Only the end of the text can leave a tag, comment or declaration open.
            Err(Error::Syntax(why)) if !tree.elements.is_empty() && is_open(&why) => {
                tree.cut = Some(text.len());
                return Ok(tree);
            }
            Err(error) => {
                let at = usize::try_from(reader.error_position()).unwrap_or(before).min(text.len());
                return Err(Refusal::new("the XML is not well-formed").at(at..at + 1, error.to_string()));
            }
        };
        let after = usize::try_from(reader.buffer_position()).unwrap_or(text.len());
        match event {
            Event::Start(tag) => {
                push(&mut tree, open.last().copied(), &tag, text, before..after)?;
                open.push(tree.elements.len() - 1);
                if open.len() > DEEPEST {
                    let what = format!("XML nested more than {DEEPEST} levels deep");
                    return Err(Refusal::new(what).at(before..after, "this goes deeper than any machine"));
                }
            }
            Event::Empty(tag) => push(&mut tree, open.last().copied(), &tag, text, before..after)?,
            Event::End(_) => {
                open.pop();
            }
            Event::DocType(_) => {
                let why = "document types and entities are not read";
                return Err(Refusal::new("the XML has a DOCTYPE").at(before..after, why));
            }
            Event::Eof => break,
            Event::Text(_)
            | Event::CData(_)
            | Event::Comment(_)
            | Event::Decl(_)
            | Event::PI(_)
            | Event::GeneralRef(_) => {}
        }
    }
    if !open.is_empty() {
        tree.cut = Some(text.len());
    }
    Ok(tree)
}

const fn is_open(error: &SyntaxError) -> bool {
    !matches!(error, SyntaxError::InvalidBangMarkup)
}

fn push(
    tree: &mut Tree,
    parent: Option<usize>,
    tag: &BytesStart<'_>,
    text: &str,
    at: Range<usize>,
) -> Result<(), Refusal> {
    if tree.elements.len() >= MOST_ELEMENTS {
        return Err(Refusal::new(format!("more than {MOST_ELEMENTS} XML elements")).at(at, "the rest is not read"));
    }
    let mut attributes = Vec::new();
    for attribute in tag.attributes().with_checks(false) {
        let attribute = attribute.map_err(|error| {
            Refusal::new("the XML is not well-formed").at(at.clone(), format!("attribute: {error}"))
        })?;
        // The raw value lies in the text itself.
        let start = (attribute.value.as_ptr() as usize).wrapping_sub(text.as_ptr() as usize);
        let end = start.wrapping_add(attribute.value.len());
        let place = if start >= at.start && end <= at.end && start <= end { start..end } else { at.clone() };
        // What has entities of its own stays as it is written.
        let value = match attribute.normalized_value(XmlVersion::Implicit1_0) {
            Ok(value) => value.into_owned(),
            Err(_) => attribute.value.to_string(),
        };
        attributes.push(Attribute { name: attribute.key.as_ref().to_owned(), value, at: place });
        if attributes.len() >= 64 {
            break;
        }
    }
    let index = tree.elements.len();
    if let Some(parent) = parent {
        tree.elements[parent].children.push(index);
    }
    let name = tag.name().as_ref().to_owned();
    tree.elements.push(Element { name, at, parent, children: Vec::new(), attributes });
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_have_places_and_parents() {
        let text =
            "<?xml version=\"1.0\"?>\n<system version='1'><cpu numaid=\"0\"><pci busid=\"a&amp;b\"/></cpu></system>";
        let tree = read(text).unwrap();
        let names: Vec<_> = tree.elements.iter().map(|e| (e.name.as_str(), e.parent)).collect();
        assert_eq!(names, [("system", None), ("cpu", Some(0)), ("pci", Some(1))]);
        assert_eq!(&text[tree.elements[1].place("numaid")], "0");
        assert_eq!(&text[tree.elements[1].place("missing")], "<cpu numaid=\"0\">");
        assert_eq!(tree.elements[2].get("busid"), Some("a&b"));
        assert_eq!(tree.cut, None);
        assert_eq!(tree.children(0).count(), 1);
    }

    #[test]
    fn cut_texts_give_what_they_have() {
        let text = "<system><cpu numaid=\"0\"><pci busid=\"x\"/><pci busid=\"y";
        let tree = read(text).unwrap();
        assert_eq!(tree.elements.len(), 3);
        assert_eq!(tree.cut, Some(text.len()));
    }

    #[test]
    fn hostile_texts_are_refused() {
        let refused = |text: &str| read(text).unwrap_err();
        assert!(refused(&"<a>".repeat(10_000)).message.contains("128 levels"));
        let bomb = "<!DOCTYPE x [<!ENTITY a \"aaaa\"><!ENTITY b \"&a;&a;\">]><x y=\"&b;\"/>";
        assert!(refused(bomb).message.contains("DOCTYPE"));
        assert!(refused("<system><cpu></system>").message.contains("well-formed"));
        assert!(refused("<system a=1/>").message.contains("well-formed"));
        assert_eq!(read("<x y=\"&b;\"/>").unwrap().elements[0].get("y"), Some("&b;"));
    }
}
