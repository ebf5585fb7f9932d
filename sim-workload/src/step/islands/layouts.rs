//! How the links of several operations lie among each other.
//!
//! Operations that share links are one program to the engine. What it does depends on the operations' forms, and on which of
//! their links are the same and how all are ordered: the *layout*. A layout is its parent (the layout of the operations before)
//! and one more form, each of whose links is told by how many of the parent's come before it and whether it is one of them.

use rustc_hash::FxHashMap;

use super::forms::{Forms, NONE};

/// A form more than in its parent.
#[derive(Debug)]
struct Layout {
    parent: u32,
    form: u32,
    /// For each link of the form: twice the number of the parent's links before it, and 1 if it is one of them.
    codes: Box<[u32]>,
    /// What all links are, in order.
    classes: Box<[u32]>,
}

/// Where the links of a parent and of the form that is added come to lie.
#[derive(Debug)]
pub(super) struct Places {
    pub(super) parent: Vec<u32>,
    pub(super) own: Vec<u32>,
}

/// Operations in the order in which they started.
#[derive(Debug)]
struct Instance {
    layout: u32,
    links: Box<[u32]>,
}

/// All layouts that were met, and the sequences of operations that have them.
#[derive(Debug, Default)]
pub(super) struct Layouts {
    layouts: Vec<Layout>,
    of_form: Vec<u32>,
    extended: FxHashMap<(u32, u32, Box<[u32]>), u32>,
    instances: Vec<Instance>,
    of_operation: Vec<u32>,
    followed: FxHashMap<(u32, u32), u32>,
    /// Numbers that all this keeps.
    kept: u64,
}

/// The number at `index`, in a list that grows as need be.
fn entry(list: &mut Vec<u32>, index: u32) -> &mut u32 {
    let index = index as usize;
    if list.len() <= index {
        list.resize(index + 1, NONE);
    }
    &mut list[index]
}

/// Links of an operation among `before`, as a layout tells them.
fn codes(before: &[u32], links: &[u32]) -> Box<[u32]> {
    let mut at = 0;
    let code = |link: &u32| {
        while before.get(at).is_some_and(|other| other < link) {
            at += 1;
        }
        2 * at as u32 + u32::from(before.get(at) == Some(link))
    };
    links.iter().map(code).collect()
}

/// Where the links of a parent of `before` links, and those of a form with these codes, come to lie.
fn places(before: usize, codes: &[u32]) -> Places {
    let mut parent = Vec::with_capacity(before);
    let mut own = vec![0; codes.len()];
    let mut new = codes.iter().enumerate().filter(|(_, code)| *code % 2 == 0).peekable();
    let mut put = 0;
    for i in 0..=before as u32 {
        while let Some((link, _)) = new.next_if(|(_, code)| **code / 2 == i) {
            own[link] = put;
            put += 1;
        }
        if (i as usize) < before {
            parent.push(put);
            put += 1;
        }
    }
    for (link, code) in codes.iter().enumerate().filter(|(_, code)| *code % 2 == 1) {
        own[link] = parent[*code as usize / 2];
    }
    Places { parent, own }
}

impl Layouts {
    /// The instance of an operation alone.
    pub(super) fn alone(&mut self, forms: &Forms, operation: u32) -> u32 {
        let known = entry(&mut self.of_operation, operation);
        if *known != NONE {
            return *known;
        }
        *known = self.instances.len() as u32;
        let known = *known;
        let of = forms.operation(operation);
        let layout = self.of_form(forms, of.form);
        self.instances.push(Instance { layout, links: of.links.clone() });
        known
    }

    /// The layout of a form alone.
    fn of_form(&mut self, forms: &Forms, form: u32) -> u32 {
        let known = entry(&mut self.of_form, form);
        if *known == NONE {
            *known = self.layouts.len() as u32;
            let classes = forms.form(form).classes.clone();
            let codes = (0..classes.len()).map(|_| 0).collect();
            self.layouts.push(Layout { parent: NONE, form, codes, classes });
        }
        *known
    }

    /// The instance with one more operation.
    pub(super) fn follow(&mut self, forms: &Forms, instance: u32, operation: u32) -> u32 {
        if let Some(known) = self.followed.get(&(instance, operation)) {
            return *known;
        }
        let (before, of) = (&self.instances[instance as usize], forms.operation(operation));
        let codes = codes(&before.links, &of.links);
        let mut links: Vec<u32> = before.links.iter().chain(of.links.iter()).copied().collect();
        links.sort_unstable();
        links.dedup();
        let layout = self.extend(forms, before.layout, of.form, codes);
        let next = self.instances.len() as u32;
        self.kept += links.len() as u64;
        self.instances.push(Instance { layout, links: links.into() });
        self.followed.insert((instance, operation), next);
        next
    }

    fn extend(&mut self, forms: &Forms, parent: u32, form: u32, codes: Box<[u32]>) -> u32 {
        let key = (parent, form, codes);
        if let Some(known) = self.extended.get(&key) {
            return *known;
        }
        let before = &self.layouts[parent as usize].classes;
        let of_form = &forms.form(form).classes;
        let places = places(before.len(), &key.2);
        let new = key.2.iter().filter(|code| **code % 2 == 0).count();
        let mut classes = vec![0; before.len() + new];
        for (class, place) in before.iter().zip(&places.parent).chain(of_form.iter().zip(&places.own)) {
            classes[*place as usize] = *class;
        }
        let layout = self.layouts.len() as u32;
        self.kept += (classes.len() + 2 * key.2.len()) as u64;
        self.layouts.push(Layout { parent, form, codes: key.2.clone(), classes: classes.into() });
        self.extended.insert(key, layout);
        layout
    }

    /// Bytes that layouts and what has them take, about.
    pub(super) const fn bytes(&self) -> u64 {
        4 * self.kept
    }

    pub(super) fn layout_of(&self, instance: u32) -> u32 {
        self.instances[instance as usize].layout
    }

    /// What the links of a layout are.
    pub(super) fn classes(&self, layout: u32) -> &[u32] {
        &self.layouts[layout as usize].classes
    }

    /// The form that was added last, and where its links and those before lie.
    pub(super) fn last(&self, layout: u32) -> (u32, Places) {
        let of = &self.layouts[layout as usize];
        let before = if of.parent == NONE { 0 } else { self.classes(of.parent).len() };
        (of.form, places(before, &of.codes))
    }

    /// The forms of a layout in order, each with where its links lie.
    pub(super) fn forms(&self, layout: u32) -> Vec<(u32, Vec<u32>)> {
        let mut to: Vec<u32> = (0..self.classes(layout).len() as u32).collect();
        let mut out = Vec::new();
        let mut at = layout;
        while at != NONE {
            let (form, places) = self.last(at);
            out.push((form, places.own.iter().map(|place| to[*place as usize]).collect()));
            to = places.parent.iter().map(|place| to[*place as usize]).collect();
            at = self.layouts[at as usize].parent;
        }
        out.reverse();
        out
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn places_are_those_of_the_union(
            before in prop::collection::btree_set(0u32..40, 0..20), links in prop::collection::btree_set(0u32..40, 1..20),
        ) {
            let union: Vec<u32> = before.union(&links).copied().collect();
            let (before, links): (Vec<u32>, Vec<u32>) = (before.into_iter().collect(), links.into_iter().collect());
            let places = places(before.len(), &codes(&before, &links));
            let at = |places: &[u32]| places.iter().map(|place| union[*place as usize]).collect::<Vec<_>>();
            prop_assert_eq!(at(&places.parent), before);
            prop_assert_eq!(at(&places.own), links);
        }
    }
}
