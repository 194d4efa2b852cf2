//! Imports of plugins: the plugins of the crate use what an outsider could write, and no more.

use crate::sources::{Names, Sources, Target, joined, within};

/// Imports of files below a folder from beyond it by a path that is not public.
#[must_use]
pub fn private_imports(sources: &Sources, folder: &str) -> Vec<String> {
    let mut found = Vec::new();
    for mention in &sources.mentions {
        let path = &mention.path;
        let (Some("crate"), Some(rest)) = (path.first().map(String::as_str), path.get(1..)) else {
            continue;
        };
        let is_inside = mention.module.first().is_some_and(|first| first == folder);
        let leaves = rest.first().is_some_and(|first| first != folder);
        let is_public = is_public(sources, rest) || is_at_root(sources, rest);
        if is_inside && leaves && !is_public {
            found.push(format!("{}: {}", sources.file_of(&mention.module), joined(path)));
        }
    }
    found
}

/// Whether each step of a path from the root of the crate is public, up to the first item.
pub(crate) fn is_public(sources: &Sources, path: &[String]) -> bool {
    (1..=path.len()).all(|end| {
        let (before, name) = (&path[..end - 1], &path[end - 1]);
        let Some(module) = sources.modules.get(before) else { return true };
        let is_by_glob = |glob: &Names| match sources.resolve(before, glob) {
            Some(Target::Module(other)) => sources.public.contains(&within(&other, name)),
            _ => false,
        };
        sources.public.contains(&path[..end]) || module.public_globs.iter().any(is_by_glob)
    })
}

/// Whether a path leads by way of an item that is public at the root of the crate, by its name.
fn is_at_root(sources: &Sources, path: &[String]) -> bool {
    let file = |path: &[String]| match sources.resolve(&[], path) {
        Some(target @ Target::Item(_)) => Some(sources.file_of_target(&target)),
        _ => None,
    };
    (1..=path.len()).any(|end| {
        let name = &path[end - 1..end];
        let inner = file(&path[..end]);
        inner.is_some() && is_public(sources, name) && file(name) == inner
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn private_imports_are_found() {
        let sources = Sources::of(&[
            ("lib.rs", "pub mod a; mod b; pub mod p; pub mod q; pub use b::B;"),
            (
                "a.rs",
                "pub struct A; pub(crate) struct Inner; pub enum E { X } \
                 pub(crate) use crate::b::B;",
            ),
            (
                "q.rs",
                "pub use g::*; mod g { pub use crate::b::G; } \
                 pub(crate) use h::*; mod h { pub use crate::b::H; }",
            ),
            ("b.rs", "pub struct B; pub struct G; pub struct H;"),
            (
                "p.rs",
                "use crate::a::{A, Inner}; use crate::{B, b}; use crate::b::B as C; \
                 use crate::a::B as D; use crate::q::{G, H}; \
                 fn f() { crate::a::E::X; crate::a::Inner::new(); super::p::g() }",
            ),
        ]);
        // `B` is public at the root, whatever the path it is named by.
        let expected = ["a::Inner", "b", "q::H", "a::Inner::new"];
        let expected = expected.map(|path| format!("p.rs: crate::{path}"));
        assert_eq!(private_imports(&sources, "p"), expected);
        assert!(private_imports(&sources, "a").is_empty());
    }
}
