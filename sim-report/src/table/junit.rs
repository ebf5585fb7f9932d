//! Checks as JUnit XML, which build services show as tests.

use std::io::{self, Write};

use quick_xml::events::{BytesDecl, BytesText, Event};
use quick_xml::writer::Writer;

use crate::compare::Check;

/// Writes the checks, a test suite a subject.
///
/// # Errors
/// If `out` cannot be written.
pub fn junit(out: impl Write, suite: &str, checks: &[Check]) -> io::Result<()> {
    let mut xml = Writer::new_with_indent(out, b' ', 2);
    xml.write_event(Event::Decl(BytesDecl::new("1.0", Some("UTF-8"), None)))?;
    let (all, failed, broken) = counts(checks.iter());
    let mut subjects: Vec<&str> = Vec::new();
    for check in checks {
        if !subjects.contains(&check.subject.as_str()) {
            subjects.push(&check.subject);
        }
    }
    xml.create_element("testsuites")
        .with_attribute(("name", clean(suite).as_str()))
        .with_attribute(("tests", all.as_str()))
        .with_attribute(("failures", failed.as_str()))
        .with_attribute(("errors", broken.as_str()))
        .write_inner_content(|xml| {
            for subject in &subjects {
                one(xml, subject, checks)?;
            }
            Ok(())
        })?;
    xml.into_inner().write_all(b"\n")
}

/// How many there are, have failed, and could not be made.
fn counts<'c>(checks: impl Iterator<Item = &'c Check>) -> (String, String, String) {
    let (mut all, mut failed, mut broken) = (0_usize, 0_usize, 0_usize);
    for check in checks {
        all += 1;
        failed += usize::from(check.failure.is_some());
        broken += usize::from(check.error.is_some());
    }
    (all.to_string(), failed.to_string(), broken.to_string())
}

fn one<W: Write>(xml: &mut Writer<W>, subject: &str, checks: &[Check]) -> io::Result<()> {
    let own: Vec<&Check> = checks.iter().filter(|c| c.subject == subject).collect();
    let (all, failed, broken) = counts(own.iter().copied());
    let subject = clean(subject);
    xml.create_element("testsuite")
        .with_attribute(("name", subject.as_str()))
        .with_attribute(("tests", all.as_str()))
        .with_attribute(("failures", failed.as_str()))
        .with_attribute(("errors", broken.as_str()))
        .write_inner_content(|xml| {
            for check in own {
                let element = xml
                    .create_element("testcase")
                    .with_attribute(("classname", subject.as_str()))
                    .with_attribute(("name", clean(&check.name).as_str()));
                element.write_inner_content(|xml| {
                    for (element, why) in [("failure", &check.failure), ("error", &check.error)] {
                        let Some(why) = why else { continue };
                        xml.create_element(element).with_attribute(("message", clean(why).as_str())).write_empty()?;
                    }
                    xml.create_element("system-out").write_text_content(BytesText::new(&clean(&check.found)))?;
                    Ok(())
                })?;
            }
            Ok(())
        })?;
    Ok(())
}

/// Without control characters, which XML can't hold.
fn clean(text: &str) -> String {
    text.chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .filter(|c| !matches!(c, '\u{fffe}' | '\u{ffff}'))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suites_cases_and_failures() {
        let check = |subject: &str, failure: Option<&str>, error: Option<&str>| Check {
            subject: subject.to_owned(),
            name: "large messages".to_owned(),
            found: "3 rows".to_owned(),
            failure: failure.map(str::to_owned),
            error: error.map(str::to_owned),
        };
        let mut out = Vec::new();
        let checks = [
            check("a<b>&\"\u{1}.log", None, None),
            check("b.log", Some("worse & \"wrong\""), None),
            check("c.log", None, Some("cannot read it")),
        ];
        junit(&mut out, "compare", &checks).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert!(text.starts_with("<?xml version=\"1.0\" encoding=\"UTF-8\"?>"), "{text}");
        assert!(text.contains("<testsuites name=\"compare\" tests=\"3\" failures=\"1\" errors=\"1\">"), "{text}");
        assert!(text.contains("name=\"a&lt;b&gt;&amp;&quot; .log\" tests=\"1\" failures=\"0\" errors=\"0\""), "{text}");
        assert!(text.contains("<failure message=\"worse &amp; &quot;wrong&quot;\"/>"), "{text}");
        assert!(text.contains("<error message=\"cannot read it\"/>"), "{text}");
        let mut reader = quick_xml::Reader::from_str(&text);
        while !matches!(reader.read_event().unwrap(), Event::Eof) {}
    }
}
