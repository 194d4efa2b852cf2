//! Public names: one name, one public thing, at one path.

use std::collections::BTreeMap;

use crate::limits::Twice;
use crate::rules::plugins::is_public;
use crate::sources::{Names, Sources, joined};

/// Public paths by the name at their end. Modules are no things.
fn public_paths(sources: &Sources) -> BTreeMap<&str, Vec<&Names>> {
    let mut found: BTreeMap<&str, Vec<&Names>> = BTreeMap::new();
    let things = sources.public.iter().filter(|path| !sources.modules.contains_key(*path));
    for path in things.filter(|path| is_public(sources, path)) {
        if let Some(name) = path.last() {
            found.entry(name).or_default().push(path);
        }
    }
    found
}

/// Names with more than one public path, be it to one thing or to several.
#[must_use]
pub fn taken_twice(sources: &Sources, allowed: &[Twice]) -> Vec<String> {
    let mut found = Vec::new();
    for (name, paths) in public_paths(sources) {
        let is_allowed = allowed.iter().any(|own| own.name == name);
        if paths.len() > 1 && !is_allowed {
            let paths: Vec<String> = paths.into_iter().map(|path| joined(path)).collect();
            found.push(format!("{name}: {}", paths.join(", ")));
        }
    }
    found
}

/// Names that are allowed twice, and are not.
#[must_use]
pub fn allowed_in_vain(sources: &Sources, allowed: &[Twice]) -> Vec<String> {
    let paths = public_paths(sources);
    let is_vain = |own: &&Twice| paths.get(own.name).is_none_or(|paths| paths.len() < 2);
    allowed.iter().filter(is_vain).map(|own| own.name.to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_two_things_and_of_two_paths_are_found() {
        let sources = Sources::of(&[
            ("lib.rs", "pub mod a; pub mod b; mod c; pub use c::Once; pub use a::Same;"),
            ("a.rs", "pub struct Victim; pub struct Same; pub(crate) struct Inner;"),
            ("b.rs", "mod d; pub use d::Taken as Victim; pub struct Inner; pub fn alone() {}"),
            ("b/d.rs", "pub struct Taken; pub struct Once;"),
            ("c.rs", "pub struct Once; pub struct Victim;"),
        ]);
        let both = ["Same: Same, a::Same", "Victim: a::Victim, b::Victim"];
        assert_eq!(taken_twice(&sources, &[]), both);
        let allowed = [Twice { name: "Victim", why: "" }, Twice { name: "alone", why: "" }];
        assert_eq!(taken_twice(&sources, &allowed), both[..1]);
        assert_eq!(allowed_in_vain(&sources, &allowed), ["alone"]);
    }
}
