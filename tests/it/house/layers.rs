//! The house: imports point downwards only, and files stay short.

use std::fs;
use std::path::{Path, PathBuf};

/// From the ground up. A layer imports itself and those before it.
const LAYERS: [&str; 11] = [
    "base",
    "model",
    "state",
    "framework",
    "plugins",
    "place",
    "preempt",
    "queue",
    "simulate",
    "kubernetes",
    "reference",
];
/// Layers beside others, and what they stand beside.
const BESIDE: [(&str, &str); 2] = [("quota", "preempt"), ("autoscale", "preempt")];
/// Lines of code a file may have, tests included; comments and blank lines are free.
const LIMIT: usize = 500;

fn level(layer: &str) -> Option<usize> {
    let layer = BESIDE.iter().find(|(name, _)| *name == layer).map_or(layer, |(_, beside)| beside);
    LAYERS.iter().position(|name| *name == layer)
}

/// Adds the source files in a folder and those inside it, in order.
pub(super) fn sources(folder: &Path, files: &mut Vec<PathBuf>) {
    let mut entries: Vec<PathBuf> = fs::read_dir(folder)
        .expect("the folder is there")
        .map(|entry| entry.expect("the entry is readable").path())
        .collect();
    entries.sort();
    for path in entries {
        if path.is_dir() {
            sources(&path, files);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src")
}

/// The layers that a text names by `crate::`, also within braces: `use crate::{base, model::Pod}`.
fn imports(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for (at, prefix) in text.match_indices("crate::") {
        let outside = text[..at].chars().next_back();
        if outside.is_some_and(|before| before.is_alphanumeric() || before == '_') {
            continue;
        }
        let rest = &text[at + prefix.len()..];
        let names = match rest.strip_prefix('{') {
            None => vec![rest],
            Some(list) => top_level(list),
        };
        for name in names {
            let end = name.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(name.len());
            found.push(name[..end].to_owned());
        }
    }
    found
}

/// The parts of `a, b::{c, d}, e}` between commas that are in no inner brace.
fn top_level(list: &str) -> Vec<&str> {
    let (mut depth, mut first, mut parts) = (0, 0, Vec::new());
    for (at, c) in list.char_indices() {
        match c {
            '{' => depth += 1,
            '}' if depth == 0 => {
                parts.push(list[first..at].trim());
                break;
            }
            '}' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(list[first..at].trim());
                first = at + 1;
            }
            _ => {}
        }
    }
    parts
}

/// The text without comments (doc comments may link anywhere) and without unit tests.
fn code_outside_tests(text: &str) -> String {
    let tests = text.find("#[cfg(test)]\nmod tests").unwrap_or(text.len());
    let is_code = |line: &&str| !line.trim_start().starts_with("//");
    text[..tests].lines().filter(is_code).collect::<Vec<_>>().join("\n")
}

/// Lines that are neither blank nor comment. Block comments count as comments.
fn lines_of_code(text: &str) -> usize {
    let mut inside = false;
    let mut count = 0;
    for line in text.lines().map(str::trim) {
        if inside || line.starts_with("/*") {
            inside = !line.contains("*/");
        } else if !line.is_empty() && !line.starts_with("//") {
            count += 1;
        }
    }
    count
}

#[test]
fn imports_point_downwards_only() {
    let mut files = Vec::new();
    sources(&root(), &mut files);
    assert!(files.len() > 40, "only {} files found", files.len());
    let mut wrong = Vec::new();
    for path in files {
        let inner = path.strip_prefix(root()).expect("the file is in src");
        let first = inner.components().next().expect("the file has a name");
        let layer = first.as_os_str().to_string_lossy().trim_end_matches(".rs").to_owned();
        if layer == "lib" || layer == "laws" {
            continue;
        }
        let own = level(&layer).unwrap_or_else(|| panic!("{layer} is no layer that is known"));
        let code = code_outside_tests(&fs::read_to_string(&path).expect("the file is text"));
        for name in imports(&code) {
            // What `lib.rs` re-exports from above counts as the layer it comes from.
            let other = match name.as_str() {
                "Time" | "Quantity" | "QuantityError" => level("base"),
                "Cluster" | "Plan" | "StateError" | "Txn" => level("state"),
                "Framework" | "Strategy" | "laws" => level("framework"),
                name => level(name),
            };
            if other.is_none_or(|other| other > own) {
                wrong.push(format!("{} imports {name}", inner.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "upward or unknown imports:\n{}", wrong.join("\n"));
}

#[test]
fn files_stay_short() {
    let mut files = Vec::new();
    sources(&root(), &mut files);
    let long: Vec<String> = files
        .iter()
        .filter_map(|path| {
            let lines = lines_of_code(&fs::read_to_string(path).expect("the file is text"));
            (lines > LIMIT).then(|| format!("{}: {lines}", path.display()))
        })
        .collect();
    assert!(long.is_empty(), "files of more than {LIMIT} lines of code:\n{}", long.join("\n"));
}

#[test]
fn the_reading_of_sources_is_right() {
    let text = "use crate::{base::Time, model::{Node, Pod},\n    place};\nuse crate::state::Txn;\n";
    assert_eq!(imports(text), ["base", "model", "place", "state"]);
    assert_eq!(imports("pub(crate) fn f() { crate::base::g(); mycrate::x(); }"), ["base"]);
    let text =
        "//! [`crate::place`]\nuse crate::base;\n#[cfg(test)]\nmod tests { use crate::place; }";
    assert_eq!(imports(&code_outside_tests(text)), ["base"]);
    assert_eq!(lines_of_code("// a\n\n/* b\n c */\nlet d; // e\n/// f\nlet g;"), 2);
}
