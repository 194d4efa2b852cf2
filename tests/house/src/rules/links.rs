//! Links: pages that rustdoc shows as modules lead to modules.
//!
//! `src/lib.rs` puts definitions of labels before each page. A link of another form leads to a file of the
//! repository, which is not beside the module.

use std::collections::BTreeSet;

/// Labels that `lib.rs` defines before each page.
#[must_use]
pub fn labels(lib: &str) -> BTreeSet<String> {
    let of = |line: &str| {
        let (label, _) = line.trim().strip_prefix("#[doc = \"[")?.split_once("]: ")?;
        Some(label.to_lowercase())
    };
    lib.lines().filter_map(of).collect()
}

/// Files of `docs` that `lib.rs` makes modules of.
#[must_use]
pub fn pages(lib: &str) -> Vec<&str> {
    let files = lib.lines().filter_map(|line| {
        let (_, file) = line.trim().strip_suffix('"')?.split_once(" \"")?;
        Some(file)
    });
    files.filter(|file| file.ends_with(".md")).collect()
}

/// Links of a page to files.
#[must_use]
pub fn lost(file: &str, text: &str, labels: &BTreeSet<String>) -> Vec<String> {
    let mut found = Vec::new();
    for line in text.lines() {
        if let Some((label, target)) = line.strip_prefix('[').and_then(|own| own.split_once("]: "))
        {
            if target.contains(".md") && !labels.contains(&label.to_lowercase()) {
                found.push(format!("{file}: `src/lib.rs` defines no label [{label}] for {target}"));
            }
        } else {
            let inline = line.split("](").skip(1).filter_map(|rest| rest.split(')').next());
            let to_file = inline.filter(|to| to.contains(".md") && !to.contains(':'));
            found.extend(to_file.map(|to| format!("{file}: the link to {to} has no label")));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIB: &str = "#[doc = \"[claims]: claims\"]\npages! {\n    claims \"claims.md\"\n}\n";

    #[test]
    fn links_to_files_are_found() {
        let labels = labels(LIB);
        assert_eq!(pages(LIB), ["claims.md"]);
        let text = "See [claims], [it](x.md) and [there](https://a/b.md).\n\n[Claims]: claims.md\n[y]: y.md\n";
        let found = lost("p.md", text, &labels);
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found[0].contains("x.md") && found[1].contains("[y]"), "{found:?}");
    }
}
