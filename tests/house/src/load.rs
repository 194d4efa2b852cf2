//! Loading of sources from a folder, or from texts.

use std::fs;
use std::path::{Path, PathBuf};

use crate::reader;
use crate::sources::{Names, Sources};

impl Sources {
    /// Sources by file and text.
    ///
    /// # Panics
    /// A text is no Rust.
    #[must_use]
    pub fn of(texts: &[(&str, &str)]) -> Sources {
        let mut sources = Sources::default();
        for (file, text) in texts {
            let number = sources.files.len();
            sources.files.push((*file).to_owned());
            sources.lines.push(lines_of_code(text));
            let parsed = syn::parse_file(text).unwrap_or_else(|error| {
                panic!("{file}, line {}: {error}", error.span().start().line)
            });
            reader::read(&mut sources, number, module_of(file), &parsed);
        }
        sources.drop_tests();
        sources
    }

    /// Sources in a folder and those inside it.
    ///
    /// # Panics
    /// The folder cannot be read, or a file is no Rust.
    #[must_use]
    pub fn of_folder(root: &Path) -> Sources {
        let mut paths = Vec::new();
        collect(root, &mut paths);
        let texts: Vec<(String, String)> = paths
            .iter()
            .map(|path| {
                let inner = path.strip_prefix(root).expect("the file is in the folder");
                let names: Vec<_> = inner.iter().map(|name| name.to_string_lossy()).collect();
                (names.join("/"), fs::read_to_string(path).expect("the file is text"))
            })
            .collect();
        let texts: Vec<(&str, &str)> =
            texts.iter().map(|(file, text)| (file.as_str(), text.as_str())).collect();
        Sources::of(&texts)
    }

    /// A file may say that it is a test after it was read, so tests are dropped at the end.
    fn drop_tests(&mut self) {
        let tests = std::mem::take(&mut self.tests);
        let is_kept =
            |module: &Names| !(0..=module.len()).any(|end| tests.contains(&module[..end]));
        self.modules.retain(|module, _| is_kept(module));
        self.mentions.retain(|mention| is_kept(&mention.module));
        self.structs.retain(|found| is_kept(&found.module));
        self.blocks.retain(|block| is_kept(&block.module));
        self.tests = tests;
    }
}

/// The module that a file holds.
fn module_of(file: &str) -> Names {
    let stem = file.strip_suffix(".rs").unwrap_or(file);
    let mut names: Names = stem.split('/').map(str::to_owned).collect();
    if matches!(names.last().map(String::as_str), Some("mod" | "lib")) {
        names.pop();
    }
    names
}

/// Adds the source files in a folder and those inside it, in order.
fn collect(folder: &Path, files: &mut Vec<PathBuf>) {
    let mut entries: Vec<PathBuf> = fs::read_dir(folder)
        .expect("the folder is there")
        .map(|entry| entry.expect("the entry is readable").path())
        .collect();
    entries.sort();
    for path in entries {
        if path.is_dir() {
            collect(&path, files);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
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
