//! Selects the functions that a name or glob matches.

use std::collections::BTreeMap;

use fxtrec_units::glob::{self, Pattern};

use super::functions::{Function, Functions};
use super::names::{Budget, Names, squeeze};

/// A selected function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Selection<'a> {
    /// The function, by the name that matched.
    pub function: &'a Function,
    /// Its displayed name: the readable name without parameters, or with them if they are needed to distinguish it from another selected
    /// function.
    pub name: String,
}

/// How a pattern matched a name, the most reliable way first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum MatchKind {
    Raw,
    /// The readable name with parameters.
    Full,
    /// The readable name without parameters.
    Short,
    /// The readable name without parameters and without generic arguments.
    Family,
    Glob,
}

/// The functions that `pattern` matches, by address, each address once.
///
/// A pattern that is a name is used as that name, even if it contains a `*` like C++ types. Among the ways to interpret a name, only the
/// most exact one that matches something counts: `f` does not match `f<int>` if there is an `f`.
pub fn select<'a>(functions: &'a Functions, pattern: &str) -> Vec<Selection<'a>> {
    let wanted = squeeze(pattern);
    let glob = glob::is_glob(pattern).then(|| glob::of_name(&wanted));
    let mut found: BTreeMap<MatchKind, BTreeMap<u64, (&'a Function, Names<'a>)>> = BTreeMap::new();
    let mut budget = Budget::default();
    for function in &functions.all {
        let names = Names::within(&mut budget, &function.raw);
        // A glob never matches the parts that the compiler split off functions.
        let glob = glob.as_ref().filter(|_| !function.is_split_off());
        if let Some(way) = meant(&wanted, glob, &names) {
            // The best name of an address comes first and is used.
            found.entry(way).or_default().entry(function.address).or_insert((function, names));
        }
    }
    let Some((_, chosen)) = found.pop_first() else { return Vec::new() };
    let mut shorts: BTreeMap<String, usize> = BTreeMap::new();
    for (_, names) in chosen.values() {
        *shorts.entry(names.short.to_string()).or_default() += 1;
    }
    chosen
        .into_values()
        .map(|(function, names)| {
            let ambiguous = shorts.get(&*names.short).is_some_and(|count| *count > 1);
            let name = if ambiguous { names.full } else { names.short };
            Selection { function, name: name.into_owned() }
        })
        .collect()
}

fn meant(wanted: &str, glob: Option<&Pattern>, names: &Names<'_>) -> Option<MatchKind> {
    let ways = [
        (MatchKind::Raw, names.raw),
        (MatchKind::Full, &names.full),
        (MatchKind::Short, &names.short),
    ];
    let literal = ways
        .into_iter()
        .chain([(MatchKind::Family, names.family())])
        .find(|(_, name)| *squeeze(name) == *wanted);
    if let Some((way, _)) = literal {
        return Some(way);
    }
    let by_glob = |glob: &Pattern| ways.iter().any(|(_, name)| glob.matches(&squeeze(name)));
    glob.is_some_and(by_glob).then_some(MatchKind::Glob)
}
