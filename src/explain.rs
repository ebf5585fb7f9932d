//! The pages behind `fabricsim explain`: diagnostic codes and the field's terms.

mod terms;

use crate::diagnostic::{Code, similar};

pub use terms::{TERMS, Term};

/// A page found by [`find`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    /// The code or term.
    pub name: &'static str,
    /// A line saying what it is.
    pub title: &'static str,
    /// The page.
    pub body: &'static str,
}

/// All names that have a page: codes first, then terms.
#[must_use]
pub fn names() -> Vec<&'static str> {
    Code::ALL.iter().map(|c| c.id()).chain(TERMS.iter().map(|t| t.name)).collect()
}

/// The page on a code or a term; terms are also found by their aliases, and case doesn't matter.
///
/// # Errors
/// The name most like it, if there is no page of that name.
pub fn find(name: &str) -> Result<Page, Option<&'static str>> {
    if let Some(code) = Code::find(name) {
        let entry = code.entry();
        return Ok(Page { name: entry.id, title: entry.title, body: entry.page });
    }
    let wanted = name.trim().to_lowercase().replace(['_', ' '], "-");
    let hit = TERMS.iter().find(|t| t.name == wanted || t.aliases.contains(&wanted.as_str()));
    match hit {
        Some(term) => Ok(Page { name: term.name, title: term.title, body: term.page }),
        None => {
            let candidates = names().into_iter().chain(TERMS.iter().flat_map(|t| t.aliases.iter().copied()));
            Err(similar(name, candidates))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_page_is_found_by_its_name_and_says_something() {
        for name in names() {
            let page = find(name).unwrap();
            assert_eq!(page.name, name);
            assert!(page.body.len() > 80, "{name}: a page of {} bytes", page.body.len());
            assert!(!page.title.ends_with('.'), "{name}");
        }
    }

    #[test]
    fn ids_are_unique_and_sorted_within_errors_and_warnings() {
        for letter in ['E', 'W'] {
            let ids: Vec<_> = Code::ALL.iter().map(|c| c.id()).filter(|i| i.starts_with(letter)).collect();
            assert!(ids.windows(2).all(|w| w[0] < w[1]), "{ids:?}");
        }
        assert!(Code::ALL.iter().all(|c| c.id().len() == 4 && c.id()[1..].parse::<u16>().is_ok()));
    }

    #[test]
    fn a_near_miss_is_suggested() {
        assert_eq!(find("bussbw"), Err(Some("busbw")));
        assert_eq!(find("n1/2").map(|p| p.name), Ok("nhalf"));
        assert_eq!(find("e12"), Err(Some("E012")));
        assert_eq!(find("xyzzyq"), Err(None));
    }
}
