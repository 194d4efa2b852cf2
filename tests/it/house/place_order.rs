//! The house inside `src/place`: boxes import downwards only, and no files import each other in a
//! circle.
//!
//! A box is an entry of `src/place`: a file, or a folder as a whole. Imports are read from the text:
//! `use` trees, and paths that begin with `crate`, `self` or `super`. Comments and unit tests are
//! left out, and so are the declarations and re-exports of `place/mod.rs`.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// The boxes, from the ground up. A box imports itself and those before it.
const ORDER: [&str; 17] = [
    "gang",
    "error",
    "failure",
    "layout",
    "request",
    "certificate",
    "topology",
    "commit",
    "scoring",
    "cache",
    "outcome",
    "verify",
    "kueue",
    "sequential",
    "search",
    "planner",
    "explain",
];

/// Imports between files that are still to be turned around: importer, imported, and the branch
/// that does it.
const PENDING: &[(&str, &str, &str)] = &[
    ("cache/capacity.rs", "cache/fits.rs", "cache"),
    ("scoring/classes/index.rs", "scoring/classes/plugins.rs", "cache"),
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src/place")
}

/// The text of each file, by its path below `src/place`.
fn sources(folder: &Path, found: &mut BTreeMap<String, String>) {
    for entry in fs::read_dir(folder).expect("the folder is there") {
        let path = entry.expect("the entry is readable").path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let name = path.strip_prefix(root()).expect("the file is in place");
            let name = name.to_string_lossy().replace('\\', "/");
            found.insert(name, fs::read_to_string(&path).expect("the file is text"));
        }
    }
}

/// The path of a file's module below `place`.
fn module(file: &str) -> Vec<String> {
    let stem = file.trim_end_matches(".rs");
    let stem = stem.strip_suffix("/mod").unwrap_or(stem);
    stem.split('/').filter(|part| *part != "mod").map(String::from).collect()
}

/// The text without comments and unit tests.
fn code(text: &str) -> String {
    let tests = text.find("#[cfg(test)]\nmod tests").unwrap_or(text.len());
    let is_code = |line: &&str| !line.trim_start().starts_with("//");
    text[..tests].lines().filter(is_code).collect::<Vec<_>>().join("\n")
}

/// The paths of a `use` tree: `a::{b, c::d as e}` is `a::b` and `a::c::d`.
fn expand(tree: &str) -> Vec<String> {
    let Some(open) = tree.find('{') else {
        let path = tree.split(" as ").next().unwrap_or_default();
        return vec![path.chars().filter(|c| !c.is_whitespace()).collect()];
    };
    let (before, inner) = (&tree[..open], &tree[open + 1..tree.rfind('}').unwrap_or(tree.len())]);
    let (mut depth, mut first, mut found) = (0, 0, Vec::new());
    for (at, c) in inner.char_indices().chain([(inner.len(), ',')]) {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                let part = inner[first..at].trim();
                if !part.is_empty() {
                    found.extend(expand(&format!("{before}{part}")));
                }
                first = at + 1;
            }
            _ => {}
        }
    }
    found
}

/// The paths that a text names: those of its `use` trees, and those written out.
fn paths(code: &str) -> Vec<String> {
    let mut found = Vec::new();
    for (at, _) in code.match_indices("use ") {
        let starts = code[..at].chars().next_back().is_none_or(char::is_whitespace);
        if let (true, Some(end)) = (starts, code[at..].find(';')) {
            found.extend(expand(&code[at + 4..at + end]));
        }
    }
    for prefix in ["crate::", "self::", "super::"] {
        for (at, _) in code.match_indices(prefix) {
            let outside = code[..at].chars().next_back();
            if outside.is_none_or(|c| !c.is_alphanumeric() && c != '_' && c != ':') {
                let part = |c: char| c.is_alphanumeric() || c == '_' || c == ':';
                let end = code[at..].find(|c| !part(c)).map_or(code.len(), |end| at + end);
                found.push(code[at..end].trim_end_matches(':').to_owned());
            }
        }
    }
    found
}

/// The file below `src/place` that a path in a module leads to, if it leads to one.
fn file_of(path: &str, own: &[String], files: &BTreeMap<Vec<String>, String>) -> Option<String> {
    let mut parts: Vec<&str> = path.split("::").collect();
    let mut full: Vec<String> = match parts.first()? {
        &"crate" if parts.get(1) == Some(&"place") => {
            parts.drain(..2);
            Vec::new()
        }
        &"crate" => return None,
        &"self" => {
            parts.remove(0);
            own.to_vec()
        }
        &"super" => {
            let ups = parts.iter().take_while(|part| **part == "super").count();
            parts.drain(..ups);
            own[..own.len().checked_sub(ups)?].to_vec()
        }
        // A name without a prefix is a module declared here, or another crate.
        first => {
            let inner = own.iter().map(String::as_str).chain([*first]);
            let inner: Vec<String> = inner.map(String::from).collect();
            return files
                .contains_key(&inner)
                .then(|| file_of(&format!("self::{path}"), own, files))?;
        }
    };
    full.extend(parts.into_iter().map(String::from));
    while !full.is_empty() {
        if let Some(file) = files.get(&full) {
            return Some(file.clone());
        }
        full.pop();
    }
    None
}

/// Which files each file imports.
fn imports() -> BTreeMap<String, BTreeSet<String>> {
    let mut texts = BTreeMap::new();
    sources(&root(), &mut texts);
    assert!(texts.len() > 40, "only {} files found", texts.len());
    texts.remove("mod.rs");
    let files: BTreeMap<_, _> = texts.keys().map(|file| (module(file), file.clone())).collect();
    let of = |(file, text): (&String, &String)| {
        let own = module(file);
        let named = paths(&code(text)).into_iter().filter_map(|path| file_of(&path, &own, &files));
        (file.clone(), named.filter(|other| other != file).collect())
    };
    texts.iter().map(of).collect()
}

fn box_of(file: &str) -> &str {
    file.split('/').next().unwrap_or(file).trim_end_matches(".rs")
}

fn is_pending(importer: &str, imported: &str) -> bool {
    PENDING.iter().any(|(from, to, _)| (*from, *to) == (importer, imported))
}

#[test]
fn boxes_import_downwards_only() {
    let level = |file: &str| ORDER.iter().position(|name| *name == box_of(file));
    let mut wrong = Vec::new();
    for (file, others) in imports() {
        let own = level(&file).unwrap_or_else(|| panic!("{file} is in no box that is known"));
        for other in others {
            if level(&other).is_none_or(|level| level > own) && !is_pending(&file, &other) {
                wrong.push(format!("{file} imports {other}"));
            }
        }
    }
    assert!(wrong.is_empty(), "upward imports:\n{}", wrong.join("\n"));
}

#[test]
fn files_import_each_other_in_no_circle() {
    let mut graph = imports();
    for (file, others) in &mut graph {
        others.retain(|other| !is_pending(file, other));
    }
    // Files that import nothing that is left are taken away until only circles are left.
    loop {
        let done: BTreeSet<String> =
            graph.iter().filter(|(_, o)| o.is_empty()).map(|(file, _)| file.clone()).collect();
        if done.is_empty() {
            break;
        }
        graph.retain(|file, _| !done.contains(file));
        for others in graph.values_mut() {
            others.retain(|other| !done.contains(other));
        }
    }
    assert!(graph.is_empty(), "circles among, or above:\n{graph:#?}");
}

#[test]
fn what_is_pending_is_there() {
    let graph = imports();
    for (file, other, branch) in PENDING {
        let there = graph.get(*file).is_some_and(|others| others.contains(*other));
        assert!(there, "{file} does not import {other} any more: {branch} is done, take it off");
    }
}

#[test]
fn the_boxes_are_those_in_order() {
    let mut texts = BTreeMap::new();
    sources(&root(), &mut texts);
    let found: BTreeSet<&str> = texts.keys().map(|file| box_of(file)).collect();
    let known: BTreeSet<&str> = ORDER.into_iter().chain(["mod"]).collect();
    assert_eq!(found, known);
}

#[test]
fn the_reading_of_imports_is_right() {
    let text =
        "use super::{a, b::{C, d::E as F}};\npub use self::x::Y;\nlet z = crate::place::k::f();";
    let expected = ["super::a", "super::b::C", "super::b::d::E", "self::x::Y"];
    let found = paths(text);
    assert_eq!(found[..4], expected);
    assert!(found.contains(&"crate::place::k::f".to_owned()));
    let known = ["k.rs", "m/mod.rs", "m/n.rs"];
    let files = known.iter().map(|file| (module(file), (*file).to_owned())).collect();
    let own = module("m/n.rs");
    let to = |path: &str| file_of(path, &own, &files);
    assert_eq!(to("super::super::k::f").as_deref(), Some("k.rs"));
    assert_eq!(to("super::Thing").as_deref(), Some("m/mod.rs"));
    assert_eq!(to("crate::place::m::n::g").as_deref(), Some("m/n.rs"));
    assert_eq!(to("crate::state::Row"), None);
    assert_eq!(code("use a;\n// use b;\n#[cfg(test)]\nmod tests { use c; }"), "use a;");
}
