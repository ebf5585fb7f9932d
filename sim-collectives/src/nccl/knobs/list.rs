//! Lists of names in `NCCL_ALGO` and `NCCL_PROTO`.

use core::str::FromStr;

use crate::nccl::algorithm::UnknownName;
use crate::nccl::operation::Operation;

/// Which names are allowed, for all operations and for some (`allreduce:tree,nvls;broadcast:ring`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NameList<T> {
    rules: Vec<Rule<T>>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Rule<T> {
    /// `None` for all operations.
    operation: Option<Operation>,
    /// Whether the names are the ones that are not allowed.
    negated: bool,
    names: Vec<T>,
}

impl<T: FromStr<Err = UnknownName> + PartialEq + Copy> NameList<T> {
    /// Reads rules divided by `;`, each an optional `operation:`, an optional `^`, and names divided by commas.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let rules = text.split(';').filter(|rule| !rule.trim().is_empty()).map(rule).collect::<Result<Vec<_>, _>>()?;
        if rules.is_empty() { Err("a name".to_owned()) } else { Ok(Self { rules }) }
    }

    fn rule(&self, operation: Operation) -> Option<&Rule<T>> {
        let of = |wanted: Option<Operation>| self.rules.iter().rev().find(move |rule| rule.operation == wanted);
        of(Some(operation)).or_else(|| of(None))
    }

    /// Whether `name` may be used for `operation`; without a rule for it, everything may.
    #[must_use]
    pub fn allows(&self, operation: Operation, name: T) -> bool {
        self.rule(operation).is_none_or(|rule| rule.names.contains(&name) != rule.negated)
    }

    /// Whether the names for `operation` were listed, not merely others excluded.
    #[must_use]
    pub fn names(&self, operation: Operation) -> bool {
        self.rule(operation).is_some_and(|rule| !rule.negated)
    }

    /// Whether any rule is for one operation only, which NCCL reads since 2.24.
    #[must_use]
    pub fn per_operation(&self) -> bool {
        self.rules.iter().any(|rule| rule.operation.is_some())
    }
}

fn rule<T: FromStr<Err = UnknownName>>(text: &str) -> Result<Rule<T>, String> {
    let (operation, names) = match text.split_once(':') {
        Some((operation, names)) => (Some(operation.trim().parse::<Operation>().map_err(|e| e.to_string())?), names),
        None => (None, text),
    };
    let names = names.trim();
    let (negated, names) = match names.strip_prefix('^') {
        Some(rest) => (true, rest),
        None => (false, names),
    };
    let names = names
        .split(',')
        .map(str::trim)
        .filter(|name| !name.is_empty())
        .map(|name| name.parse::<T>().map_err(|e| format!("known names, but {e}")))
        .collect::<Result<Vec<_>, _>>()?;
    if names.is_empty() {
        return Err("a name, or several with commas between".to_owned());
    }
    Ok(Rule { operation, negated, names })
}
