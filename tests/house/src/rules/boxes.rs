//! Boxes: the entries of a folder, a file or an inner folder as a whole.

use std::collections::{BTreeMap, BTreeSet};

use crate::graph::{Edges, circles};
use crate::sources::Sources;

/// The boxes of a folder, and which of them imports which.
#[derive(Debug)]
pub struct Boxes {
    /// Names in order; `mod` stands for the folder's own `mod.rs`.
    pub names: Vec<String>,
    /// Imports between boxes, each with an example.
    pub edges: Edges<String>,
}

impl Boxes {
    /// The boxes of a folder.
    #[must_use]
    pub fn of(sources: &Sources, folder: &str) -> Boxes {
        let entries: BTreeSet<&str> =
            sources.code_files().filter_map(|file| box_of(file, folder)).collect();
        let names: Vec<&str> = entries.into_iter().collect();
        let place = |file: usize| names.binary_search(&box_of(&sources.files[file], folder)?).ok();
        let mut edges = vec![BTreeMap::new(); names.len()];
        for (file, imports) in sources.imports().unwrap_or_default().iter().enumerate() {
            for (other, name) in imports {
                if let (Some(from), Some(to)) = (place(file), place(*other))
                    && from != to
                {
                    edges[from]
                        .entry(to)
                        .or_insert_with(|| format!("{} imports {name}", sources.files[file]));
                }
            }
        }
        Boxes { names: names.into_iter().map(str::to_owned).collect(), edges }
    }

    /// Number of boxes. A `mod.rs` that only declares and re-exports is none.
    #[must_use]
    pub fn count(&self) -> usize {
        self.names.iter().filter(|name| *name != "mod").count()
    }

    /// Groups of boxes that import each other.
    #[must_use]
    pub fn circles(&self) -> Vec<Vec<&str>> {
        let names = |circle: &Vec<usize>| circle.iter().map(|&at| &*self.names[at]).collect();
        circles(&self.edges).iter().map(names).collect()
    }

    /// Circles as text, with an example of each import.
    #[must_use]
    pub fn told(&self) -> Vec<String> {
        let told = |circle: &Vec<usize>| {
            let names: Vec<&str> = circle.iter().map(|&at| &*self.names[at]).collect();
            let mut text = format!("{} import each other", names.join(", "));
            for &from in circle {
                for (to, example) in self.edges[from].iter().filter(|(to, _)| circle.contains(to)) {
                    let (from, to) = (&self.names[from], &self.names[*to]);
                    text = format!("{text}\n    {from} -> {to}: {example}");
                }
            }
            text
        };
        circles(&self.edges).iter().map(told).collect()
    }
}

/// The box of a file in a folder.
fn box_of<'a>(file: &'a str, folder: &str) -> Option<&'a str> {
    let inner = file.strip_prefix(folder)?.strip_prefix('/')?;
    let name = inner.split('/').next()?;
    Some(name.strip_suffix(".rs").unwrap_or(name))
}

/// Circles of boxes, and boxes beyond a limit.
#[must_use]
pub fn few_without_circle(sources: &Sources, folder: &str, limit: usize) -> Vec<String> {
    let boxes = Boxes::of(sources, folder);
    let mut found = Vec::new();
    if boxes.count() > limit {
        let names: Vec<&String> = boxes.names.iter().filter(|name| *name != "mod").collect();
        let count = names.len();
        found.push(format!(
            "{folder} has {count} boxes, {limit} are allowed: move files into the folder of the box \
             they belong to, of {names:?}"
        ));
    }
    let told = |text| format!("{folder}: {text}\n    turn one of these imports round");
    found.extend(boxes.told().into_iter().map(told));
    found
}

/// Imports between the boxes of a folder that point upwards, and boxes that are not in the order.
/// A box imports itself and those before it in the order. Re-exports count.
#[must_use]
pub fn against_order(sources: &Sources, folder: &str, order: &[&str]) -> Vec<String> {
    let level = |name: &str| order.iter().position(|known| *known == name);
    let boxes = Boxes::of(sources, folder);
    let mut found = Vec::new();
    for name in boxes.names.iter().filter(|name| *name != "mod" && level(name).is_none()) {
        found.push(format!("{folder}/{name} has no place in the order: give it one"));
    }
    for name in order.iter().filter(|known| !boxes.names.iter().any(|name| name == *known)) {
        found.push(format!("{folder}/{name} is not there: take it off the order"));
    }
    for mention in &sources.mentions {
        let file = sources.file_of(&mention.module);
        let Some(own) = box_of(file, folder).filter(|own| *own != "mod") else { continue };
        for module in sources.named_modules(mention) {
            let other = box_of(sources.file_of(&module), folder);
            // The way leads through the folder, to one of its boxes or out of it.
            let Some(other) = other.filter(|other| *other != "mod") else { continue };
            if level(other) > level(own) {
                let path = mention.path.join("::");
                found.push(format!("{file} imports {path} of {folder}/{other}, which is above"));
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sources(b: &str) -> Sources {
        Sources::of(&[
            ("lib.rs", "mod f;"),
            ("f/mod.rs", "mod a; mod b; mod c; pub use c::C; #[cfg(test)] mod tests;"),
            ("f/tests.rs", "use super::b;"),
            ("f/a.rs", "pub struct A;"),
            ("f/b/mod.rs", "mod inner; pub struct B;"),
            ("f/b/inner.rs", b),
            ("f/c.rs", "pub struct C; use super::b::B;"),
        ])
    }

    #[test]
    fn circles_of_boxes_are_found() {
        let right = sources("use crate::f::a::A; use super::B;");
        assert_eq!(few_without_circle(&right, "f", 3), [""; 0]);
        assert!(few_without_circle(&right, "f", 2)[0].contains("f has 3 boxes, 2 are allowed"));
        let wrong = sources("use crate::f::C;");
        assert_eq!(Boxes::of(&wrong, "f").circles(), [["b", "c"]]);
        assert!(few_without_circle(&wrong, "f", 3)[0].contains("b -> c"));
    }

    #[test]
    fn imports_against_the_order_are_found() {
        let right = sources("use crate::f::a::A; use super::B;");
        assert_eq!(against_order(&right, "f", &["a", "b", "c"]), [""; 0]);
        assert!(against_order(&right, "f", &["a", "c", "b"])[0].contains("which is above"));
        assert!(against_order(&right, "f", &["a", "b"])[0].contains("no place in the order"));
        assert!(against_order(&right, "f", &["a", "b", "c", "d"])[0].contains("is not there"));
        for text in ["use crate::f::C;", "pub use super::super::c::C;", "use crate::f::c;"] {
            let told = against_order(&sources(text), "f", &["a", "b", "c"]);
            assert_eq!(told.len(), 1, "{text} {told:?}");
        }
    }
}
