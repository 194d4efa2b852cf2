//! Imports between layers and between files.

use std::collections::BTreeMap;

use crate::graph::circles;
use crate::limits::{Meant, ROOT};
use crate::sources::Sources;

/// Imports that point upwards, and files in no layer. `layers` are floors from the ground up: a
/// layer imports those of its own floor and of the floors below.
#[must_use]
pub fn upward(sources: &Sources, layers: &[&[&str]]) -> Vec<String> {
    let floor = |layer: &str| {
        let stands_for = ROOT.iter().find(|(name, _)| *name == layer);
        let layer = stands_for.and_then(|(_, layer)| *layer).unwrap_or(layer);
        layers.iter().position(|floor| floor.contains(&layer))
    };
    let mut found: Vec<String> = Vec::new();
    for file in &sources.files {
        let layer = layer_of(file);
        if floor(layer).is_none() && !is_root(layer) {
            found.push(format!("{file} is in no layer: give `{layer}` its place in the table"));
        }
    }
    for mention in &sources.mentions {
        let file = sources.file_of(&mention.module);
        let layer = layer_of(file);
        let Some(own) = floor(layer).filter(|_| !is_root(layer)) else { continue };
        for module in sources.named_modules(mention) {
            let other = module.first().map_or("lib", String::as_str);
            if floor(other).is_none_or(|other| other > own) {
                let path = mention.path.join("::");
                found.push(format!(
                    "{file} imports {path} of `{other}`, which is above: move it down, or pass it in"
                ));
            }
        }
    }
    found.dedup();
    found
}

/// The first name of a file's path.
fn layer_of(file: &str) -> &str {
    file.split('/').next().unwrap_or(file).trim_end_matches(".rs")
}

/// Whether files of the crate's root may import anything.
fn is_root(layer: &str) -> bool {
    ROOT.iter().any(|(name, _)| *name == layer)
}

/// The circles of files, each as text; and paths that lead nowhere, as no circle can be seen then.
#[must_use]
pub fn circles_of_files(sources: &Sources, meant: &[Meant]) -> Vec<String> {
    let imports = match sources.imports() {
        Ok(imports) => imports,
        Err(lost) => {
            return lost.into_iter().map(|path| format!("leads nowhere: {path}")).collect();
        }
    };
    let mut found = Vec::new();
    for circle in circles(&imports) {
        let names: Vec<&str> = circle.iter().map(|&file| sources.files[file].as_str()).collect();
        if meant.iter().any(|meant| meant.files == names) {
            continue;
        }
        let mut text = format!("{}: move what both need into a file below", names.join(" "));
        for &file in &circle {
            for (other, name) in imports[file].iter().filter(|(other, _)| circle.contains(other)) {
                let (file, other) = (&sources.files[file], &sources.files[*other]);
                text = format!("{text}\n    {file} imports {other} as {name}");
            }
        }
        found.push(text);
    }
    found
}

/// Circles of files inside a folder, its `mod.rs` apart, by the modules that paths are written by.
/// Re-exports count: a file of an inner folder takes nothing by way of the `mod.rs` beside it, if
/// that re-exports from the file.
#[must_use]
pub fn circles_as_written(sources: &Sources, folder: &str) -> Vec<String> {
    let is_inside = |file: &str| {
        file.strip_prefix(folder).is_some_and(|rest| rest.starts_with('/') && rest != "/mod.rs")
    };
    let mut edges = vec![BTreeMap::new(); sources.files.len()];
    for mention in &sources.mentions {
        let Some(module) = sources.written_module(mention) else { continue };
        let (from, to) = (sources.modules[&mention.module].file, sources.modules[&module].file);
        if from != to && is_inside(&sources.files[from]) && is_inside(&sources.files[to]) {
            edges[from].entry(to).or_insert_with(|| mention.path.join("::"));
        }
    }
    let told = |circle: &Vec<usize>| {
        let mut text = "name these by the files that define them:".to_owned();
        for &from in circle {
            for (to, path) in edges[from].iter().filter(|(to, _)| circle.contains(to)) {
                let (from, to) = (&sources.files[from], &sources.files[*to]);
                text = format!("{text}\n    {from} names {to} as {path}");
            }
        }
        text
    };
    circles(&edges).iter().map(told).collect()
}

/// Circles that are meant and are none any more.
#[must_use]
pub fn meant_in_vain(sources: &Sources, meant: &[Meant]) -> Vec<String> {
    let all = circles_of_files(sources, &[]);
    let is_there = |meant: &&Meant| all.iter().any(|text| text.starts_with(&meant.files.join(" ")));
    let told = |meant: &Meant| format!("{:?} form no circle: take them off the table", meant.files);
    meant.iter().filter(|meant| !is_there(meant)).map(told).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIB: (&str, &str) = ("lib.rs", "mod a; mod b; pub use b::B; pub use b::{self, x as y};");
    const B: (&str, &str) = ("b.rs", "pub struct B; pub fn x() {} pub const C: i64 = 1;");

    fn imports(texts: &[(&str, &str)]) -> Vec<String> {
        let imports = Sources::of(texts).imports().expect("all paths lead somewhere");
        let names = |(from, to): (usize, &usize)| format!("{} {}", texts[from].0, texts[*to].0);
        let edges = imports.iter().enumerate();
        edges.flat_map(|(from, all)| all.keys().map(move |to| (from, to))).map(names).collect()
    }

    #[test]
    fn imports_are_found() {
        for text in [
            "use crate::b::B;",
            "use super::b::{self, B};",
            "use super::B as Other;",
            "use super::{b::{x}};",
            "use crate::y;",
            "fn f() { super::b::x() }",
            "use super::b; fn f() { b::x() }",
            "fn f() { use crate::b; let a = [b::C]; }",
            "pub use crate::b::B; fn f(_: B) {}",
            "mod inner { use super::super::B; }",
            "use super::b::*;",
            "#[derive(Debug)]\nuse crate::b::B;",
            "// it's\nconst X: char = '\\''; const Y: char = '\"'; use crate::b::B;",
            "const X: &str = \"\\\"\"; const Y: &str = r#\"\"\"#; use crate::b::B;",
            "fn f<'a>(_: &'a str) {} use crate::b::B;",
            "struct F; impl F { fn f<'a>() -> impl Fn() + use<'a> { crate::b::x } }",
            "fn f() { vec![1, crate::b::C]; }",
            "fn f() { matches!(1, crate::b::C if true); }",
            "fn f() { vec![crate::b::C; 3]; }",
            "macro_rules! m { () => { $crate::b::x() } }",
        ] {
            assert_eq!(imports(&[LIB, ("a.rs", text), B]), ["a.rs b.rs"], "{text}");
        }
    }

    #[test]
    fn no_other_imports_are_found() {
        for text in [
            "use super::b;",
            "use core::b::B; use alloc::{b::B};",
            "use ::b::B;",
            "pub use crate::b::B;",
            "// use crate::b::B;\n/* use crate::b::B; /* */ */",
            "/// [`crate::b::B`]\nfn f() {}",
            "#[cfg(test)]\nmod tests { use crate::b::B; }",
            "#[cfg(test)]\nuse crate::b::B;",
            "#[cfg(all(test, unix))]\nfn f() { crate::b::x() }",
            "struct F; impl F { #[cfg(test)] fn f() { crate::b::x() } }",
            "const X: &str = \"use crate::b::B;\";",
            "pub(in crate::b) struct A; fn f(a: A) { a.b::<u8>(); a.self_ }",
        ] {
            assert_eq!(imports(&[LIB, ("a.rs", text), B]), [""; 0], "{text}");
        }
        // Files of tests are tests.
        let tests = ("lib.rs", "#[cfg(test)]\nmod a; mod b;");
        assert_eq!(imports(&[tests, ("a.rs", "use crate::b::B;"), B]), [""; 0]);
        // A path that leads nowhere is told.
        let lost = Sources::of(&[LIB, ("a.rs", "use crate::b::Gone;"), B]);
        assert_eq!(lost.imports(), Err(vec!["a.rs: crate::b::Gone".to_owned()]));
        assert_eq!(circles_of_files(&lost, &[]), ["leads nowhere: a.rs: crate::b::Gone"]);
    }

    #[test]
    fn circles_of_files_are_found() {
        let sources = Sources::of(&[
            ("lib.rs", "mod a; mod f;"),
            ("a.rs", "use crate::f::B;"),
            ("f/mod.rs", "mod b; mod c; pub use b::B;"),
            ("f/b.rs", "pub struct B; use super::c::C; use crate::a;"),
            ("f/c.rs", "pub struct C; use crate::f::B;"),
        ]);
        let told = circles_of_files(&sources, &[]);
        assert_eq!(told.len(), 1);
        assert!(told[0].starts_with("f/b.rs f/c.rs: move"), "{told:?}");
        assert!(told[0].ends_with("f/c.rs imports f/b.rs as crate::f::B"), "{told:?}");
        let meant = [Meant { files: &["f/b.rs", "f/c.rs"], why: "a test" }];
        assert_eq!(circles_of_files(&sources, &meant), [""; 0]);
        assert_eq!(meant_in_vain(&sources, &meant), [""; 0]);
        let vain = [Meant { files: &["a.rs", "f/c.rs"], why: "a test" }];
        assert_eq!(meant_in_vain(&sources, &vain).len(), 1);
    }

    #[test]
    fn circles_as_written_are_found() {
        let of = |b| {
            Sources::of(&[
                ("lib.rs", "mod f;"),
                ("f/mod.rs", "mod g; pub use g::a::A;"),
                ("f/g/mod.rs", "pub mod a; mod b; pub use b::B;"),
                ("f/g/a.rs", "pub struct A; fn f(b: u8) -> u8 { let a = b; a }"),
                ("f/g/b.rs", b),
            ])
        };
        // The way by the folder's own `mod.rs` is free.
        for text in ["pub struct B; use super::a::A;", "pub struct B; use crate::f::A;"] {
            assert_eq!(circles_as_written(&of(text), "f"), [""; 0], "{text}");
        }
        let wrong = "pub struct B; use crate::f::g::B as C;";
        let told = circles_as_written(&of(wrong), "f");
        assert!(told[0].contains("f/g/b.rs names f/g/mod.rs as crate::f::g::B"), "{told:?}");
        assert_eq!(circles_of_files(&of(wrong), &[]), [""; 0]);
    }

    #[test]
    fn upward_imports_are_found() {
        let layers: &[&[&str]] = &[&["a"], &["b", "c"], &["d"]];
        let of = |file, text| {
            let texts = [
                ("lib.rs", "pub mod a; pub mod b; pub mod c; pub mod d; pub use d::D;"),
                ("a/mod.rs", "pub struct A; mod inner;"),
                ("b.rs", "pub struct B; pub use crate::a::A;"),
                ("c.rs", "pub struct C;"),
                ("d.rs", "pub struct D; pub use crate::a::A;"),
                (file, text),
            ];
            upward(&Sources::of(&texts), layers)
        };
        for text in [
            "use crate::d;",
            "use crate::D;",
            "pub use crate::d::D;",
            "fn f() -> super::super::d::D {}",
            // The name is of the ground, but the way to it is not.
            "use crate::d::A;",
            "use crate::*;",
        ] {
            assert_eq!(of("a/inner.rs", text).len(), 1, "{text} {:?}", of("a/inner.rs", text));
        }
        for text in ["use crate::{a::A, b::B, c};", "use core::fmt;", "use super::super::c::C;"] {
            assert_eq!(of("b/inner.rs", text), [""; 0], "{text}");
        }
        assert_eq!(of("e.rs", "").len(), 1, "an unknown layer");
    }
}
