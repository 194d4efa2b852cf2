//! The house: no circle of files that import each other.
//!
//! What a file imports is read from its text: `use` declarations and paths in code, each resolved
//! to the file that defines the name, also where a `mod.rs` re-exports it. A re-export by itself,
//! a declaration `mod x;`, comments and unit tests import nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use super::layers::sources;

/// Circles that are meant, by their files in order, and why. The head of each file says so too.
const MEANT: [(&[&str], &str); 1] = [(
    &["kubernetes/queues/mod.rs", "kubernetes/queues/workload.rs"],
    "the reader of all kinds holds the record of one, and its file reads that record",
)];
/// Folders whose entries, folders taken as one, form no circle, and how many entries there may be.
const BOXES: [(&str, usize); 1] = [("place", 18)];

/// Names from the root of the crate to a module, or of a path in code.
type Names = Vec<String>;

/// What is known of a module, inline ones included.
#[derive(Debug, Default)]
struct Module {
    file: usize,
    defines: BTreeSet<String>,
    /// What is imported by name, and as what it is known here.
    uses: BTreeMap<String, Names>,
    globs: Vec<Names>,
}

/// What a path leads to.
#[derive(Debug, Clone, PartialEq)]
enum Target {
    Module(Names),
    /// An item, by the file that defines it.
    Item(usize),
}

/// A place in code that names something.
struct Mention {
    module: Names,
    path: Names,
    kind: Kind,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Kind {
    Import,
    Reexport,
    Glob,
    Code,
}

#[derive(Debug, Clone, PartialEq)]
enum Token {
    Name(String),
    /// `::`
    Join,
    Other(char),
}

/// The sources below a folder, read and resolved.
#[derive(Default)]
struct Sources {
    /// Paths from the folder, with `/`.
    files: Vec<String>,
    modules: BTreeMap<Names, Module>,
    mentions: Vec<Mention>,
    /// Modules that exist in tests only.
    tests: BTreeSet<Names>,
    /// What is declared or re-exported `pub`, without restriction, by its module.
    public: BTreeSet<Names>,
}

impl Sources {
    fn of(texts: &[(&str, &str)]) -> Sources {
        let mut sources = Sources::default();
        for (file, text) in texts {
            let number = sources.files.len();
            sources.files.push((*file).to_owned());
            Reader { file: number, tokens: &tokens(text), sources: &mut sources }
                .read(module(file));
        }
        sources
    }

    fn of_folder(root: &Path) -> Sources {
        let mut paths = Vec::new();
        sources(root, &mut paths);
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

    fn is_test(&self, module: &[String]) -> bool {
        (0..=module.len()).any(|end| self.tests.contains(&module[..end]))
    }

    /// Whether each step of a path from the root of the crate is public, up to the first item.
    fn is_public(&self, path: &[String]) -> bool {
        (1..=path.len()).all(|end| {
            let before = &path[..end - 1];
            !self.modules.contains_key(before) || self.public.contains(&path[..end])
        })
    }

    /// What files below a folder of the crate import from beyond it by a path that is not public.
    fn private_imports(&self, folder: &str) -> Vec<String> {
        let mut found = Vec::new();
        for Mention { module, path, .. } in &self.mentions {
            let (Some("crate"), Some(rest)) = (path.first().map(String::as_str), path.get(1..))
            else {
                continue;
            };
            let is_inside = module.first().is_some_and(|first| first == folder);
            let leaves = rest.first().is_some_and(|first| first != folder);
            let is_public = self.is_public(rest) || self.is_at_root(rest);
            if is_inside && leaves && !self.is_test(module) && !is_public {
                let file = &self.files[self.modules[module].file];
                found.push(format!("{file}: {}", path.join("::")));
            }
        }
        found
    }

    /// Whether a path leads by way of an item that is public at the root of the crate, by its name.
    fn is_at_root(&self, path: &[String]) -> bool {
        let item = |path: &[String]| match self.resolve(&[], path, path.len() + 8) {
            Some(Target::Item(file)) => Some(file),
            _ => None,
        };
        (1..=path.len()).any(|end| {
            let name = &path[end - 1..end];
            let inner = item(&path[..end]);
            inner.is_some() && self.is_public(name) && item(name) == inner
        })
    }

    /// What a path leads to, seen from a module; `None` for what is outside the crate.
    fn resolve(&self, from: &[String], path: &[String], depth: usize) -> Option<Target> {
        let (first, rest) = path.split_first()?;
        let start = match first.as_str() {
            "crate" => Target::Module(Vec::new()),
            "self" => Target::Module(from.to_vec()),
            "super" => Target::Module(from[..from.len().checked_sub(1)?].to_vec()),
            name => self.look_up(from, name, depth)?,
        };
        rest.iter().try_fold(start, |target, name| match target {
            Target::Module(module) if name == "super" => {
                Some(Target::Module(module[..module.len().checked_sub(1)?].to_vec()))
            }
            Target::Module(module) => self.look_up(&module, name, depth),
            item @ Target::Item(_) => Some(item),
        })
    }

    fn look_up(&self, within: &[String], name: &str, depth: usize) -> Option<Target> {
        // Imports that lead to each other lead nowhere.
        let depth = depth.checked_sub(1)?;
        let module = self.modules.get(within)?;
        let child: Names = within.iter().cloned().chain([name.to_owned()]).collect();
        // Of a module and an item of one name, the module: the item is called by its path.
        if self.modules.contains_key(&child) {
            return Some(Target::Module(child));
        }
        if module.defines.contains(name) {
            return Some(Target::Item(module.file));
        }
        if let Some(path) = module.uses.get(name) {
            return self.resolve(within, path, depth);
        }
        module.globs.iter().find_map(|glob| match self.resolve(within, glob, depth)? {
            Target::Module(other) if other != within => self.look_up(&other, name, depth),
            _ => None,
        })
    }

    /// The files that each file imports, with a name of each; or the paths that lead nowhere.
    fn imports(&self) -> Result<Vec<BTreeMap<usize, String>>, Vec<String>> {
        const DEPTH: usize = 16;
        let mut imports = vec![BTreeMap::new(); self.files.len()];
        let mut lost = Vec::new();
        let mut named: BTreeSet<(usize, &str)> = BTreeSet::new();
        for mention in self.mentions.iter().filter(|mention| mention.kind == Kind::Code) {
            if let Some(first) = mention.path.first() {
                named.insert((self.modules[&mention.module].file, first));
            }
        }
        for Mention { module, path, kind } in &self.mentions {
            if self.is_test(module) {
                continue;
            }
            let file = self.modules[module].file;
            let is_own = path.first().is_some_and(|first| OWN.contains(&first.as_str()));
            if *kind == Kind::Code && path.len() < 2 {
                continue;
            }
            // A name that is only passed on is no import of this file.
            let last = path.last().map_or("", String::as_str);
            if *kind == Kind::Reexport && !named.contains(&(file, last)) {
                continue;
            }
            let other = match self.resolve(module, path, DEPTH) {
                Some(Target::Item(other)) => other,
                Some(Target::Module(other)) if *kind == Kind::Glob => self.modules[&other].file,
                None if is_own => {
                    lost.push(format!("{}: {}", self.files[file], path.join("::")));
                    continue;
                }
                // Outside the crate; or a module, of which what is used is found where it is used.
                None | Some(Target::Module(_)) => continue,
            };
            if other != file {
                imports[file].entry(other).or_insert_with(|| path.join("::"));
            }
        }
        if lost.is_empty() { Ok(imports) } else { Err(lost) }
    }
}

/// First names of paths that stay in the crate.
const OWN: [&str; 3] = ["crate", "self", "super"];

/// The module that a file holds.
fn module(file: &str) -> Names {
    let stem = file.strip_suffix(".rs").unwrap_or(file);
    let mut names: Names = stem.split('/').map(str::to_owned).collect();
    if matches!(names.last().map(String::as_str), Some("mod" | "lib")) {
        names.pop();
    }
    names
}

/// Names, joints and marks; without comments, texts, characters, lifetimes and numbers.
fn tokens(text: &str) -> Vec<Token> {
    let chars: Vec<char> = text.chars().collect();
    let starts = |at: usize, what: &str| {
        what.chars().enumerate().all(|(i, c)| chars.get(at + i) == Some(&c))
    };
    let is_name = |c: &char| c.is_alphanumeric() || *c == '_';
    let mut tokens = Vec::new();
    let mut at = 0;
    while let Some(&c) = chars.get(at) {
        if starts(at, "//") {
            at += chars[at..].iter().take_while(|c| **c != '\n').count();
        } else if starts(at, "/*") {
            let mut depth = 0;
            loop {
                if starts(at, "/*") {
                    depth += 1;
                    at += 2;
                } else if starts(at, "*/") {
                    depth -= 1;
                    at += 2;
                } else {
                    at += 1;
                }
                if depth == 0 || at >= chars.len() {
                    break;
                }
            }
        } else if c == '"' {
            at += 1;
            while at < chars.len() && chars[at] != '"' {
                at += if chars[at] == '\\' { 2 } else { 1 };
            }
            at += 1;
        } else if starts(at, "r\"") || starts(at, "r#\"") {
            let hashes = chars[at + 1..].iter().take_while(|c| **c == '#').count();
            let end = format!("\"{}", "#".repeat(hashes));
            at += hashes + 2;
            while at < chars.len() && !starts(at, &end) {
                at += 1;
            }
            at += end.len();
        } else if c == '\'' {
            let is_char = chars.get(at + 1) == Some(&'\\') || chars.get(at + 2) == Some(&'\'');
            at += if is_char { 2 } else { 1 };
            if is_char {
                // Past what is escaped, to the closing mark.
                at += usize::from(chars.get(at - 1) == Some(&'\\'));
                at += chars[at.min(chars.len())..].iter().take_while(|c| **c != '\'').count() + 1;
            } else {
                at += chars[at..].iter().take_while(|c| is_name(c)).count();
            }
        } else if is_name(&c) {
            let length = chars[at..].iter().take_while(|c| is_name(c)).count();
            if !c.is_ascii_digit() {
                tokens.push(Token::Name(chars[at..at + length].iter().collect()));
            }
            at += length;
        } else if starts(at, "::") {
            tokens.push(Token::Join);
            at += 2;
        } else {
            if !c.is_whitespace() {
                tokens.push(Token::Other(c));
            }
            at += 1;
        }
    }
    tokens
}

/// Reads the tokens of one file.
struct Reader<'a> {
    file: usize,
    tokens: &'a [Token],
    sources: &'a mut Sources,
}

impl Reader<'_> {
    fn is(&self, at: usize, c: char) -> bool {
        self.tokens.get(at) == Some(&Token::Other(c))
    }

    fn name(&self, at: usize) -> Option<&str> {
        match self.tokens.get(at) {
            Some(Token::Name(name)) => Some(name),
            _ => None,
        }
    }

    /// Behind the bracket that closes the one here.
    fn behind(&self, mut at: usize) -> usize {
        let mut depth = 0;
        while let Some(token) = self.tokens.get(at) {
            match token {
                Token::Other('(' | '[' | '{') => depth += 1,
                Token::Other(')' | ']' | '}') => depth -= 1,
                _ => {}
            }
            at += 1;
            if depth == 0 {
                break;
            }
        }
        at
    }

    /// Behind the item here.
    fn behind_item(&self, mut at: usize) -> usize {
        while self.is(at, '#') {
            at = self.behind(at + 1);
        }
        let is_use = self.name(at) == Some("use");
        loop {
            match self.tokens.get(at) {
                None => return at,
                Some(Token::Other(';')) => return at + 1,
                Some(Token::Other('{')) if !is_use => return self.behind(at),
                Some(Token::Other('(' | '[' | '{')) => at = self.behind(at),
                Some(_) => at += 1,
            }
        }
    }

    fn read(self, module: Names) {
        // Modules that are open, with the depth of brackets inside.
        let mut open = vec![(module, 0)];
        let mut depth = 0;
        let (mut is_public, mut is_open) = (false, false);
        let mut at = 0;
        let file = self.file;
        let enter = |sources: &mut Sources, module: &Names| {
            sources.modules.entry(module.clone()).or_default().file = file;
        };
        enter(self.sources, &open[0].0);
        while at < self.tokens.len() {
            let (module, level) = open.last().expect("the file's own module is open").clone();
            let outside = depth == level;
            let was_public = std::mem::take(&mut is_public);
            let was_open = std::mem::take(&mut is_open);
            match &self.tokens[at] {
                Token::Other('#') => {
                    let start = at + 1 + usize::from(self.is(at + 1, '!'));
                    let end = self.behind(start);
                    let only = self.tokens[start..end] == tokens("[cfg(test)]")
                        || self.tokens[start..end] == tokens("[cfg(doctest)]");
                    at = end;
                    if only {
                        let end = self.behind_item(at);
                        // `mod name;`, whatever stands before it.
                        if self.name(end.saturating_sub(3)) == Some("mod")
                            && let Some(name) = self.name(end - 2)
                        {
                            let tests = [&module[..], &[name.to_owned()]].concat();
                            self.sources.tests.insert(tests);
                        }
                        at = end;
                    }
                    continue;
                }
                Token::Other('{' | '(' | '[') => depth += 1,
                Token::Other('}' | ')' | ']') => {
                    depth -= 1;
                    if depth < level {
                        open.pop();
                    }
                }
                Token::Name(word) => match word.as_str() {
                    "pub" => {
                        is_public = true;
                        is_open = !self.is(at + 1, '(');
                        at = if self.is(at + 1, '(') { self.behind(at + 1) } else { at + 1 };
                        continue;
                    }
                    "use" if !self.is(at + 1, '<') => {
                        let (mut found, mut globs) = (Vec::new(), Vec::new());
                        at = self.tree(at + 1, &mut Vec::new(), &mut found, &mut globs);
                        let kind = if was_public { Kind::Reexport } else { Kind::Import };
                        let own = self.sources.modules.entry(module.clone()).or_default();
                        for (known, path) in &found {
                            own.uses.insert(known.clone(), path.clone());
                            if was_open {
                                let name = [&module[..], std::slice::from_ref(known)].concat();
                                self.sources.public.insert(name);
                            }
                        }
                        own.globs.extend(globs.iter().cloned());
                        let found = found.into_iter().map(|(_, path)| (path, kind));
                        let globs = globs.into_iter().map(|path| (path, Kind::Glob));
                        for (path, kind) in found.chain(globs) {
                            self.sources.mentions.push(Mention {
                                module: module.clone(),
                                path,
                                kind,
                            });
                        }
                        continue;
                    }
                    "mod" if outside => {
                        let name = self.name(at + 1).expect("a module has a name").to_owned();
                        let inner = [&module[..], &[name]].concat();
                        if was_open {
                            self.sources.public.insert(inner.clone());
                        }
                        if self.is(at + 2, '{') {
                            enter(self.sources, &inner);
                            depth += 1;
                            open.push((inner, depth));
                        }
                        at += 3;
                        continue;
                    }
                    "struct" | "enum" | "trait" | "fn" | "const" | "static" | "type" | "union"
                        if outside =>
                    {
                        if let Some(name) = self.name(at + 1) {
                            let name = name.to_owned();
                            if name != "fn" {
                                if was_open {
                                    let name = [&module[..], std::slice::from_ref(&name)].concat();
                                    self.sources.public.insert(name);
                                }
                                let own = self.sources.modules.entry(module).or_default();
                                own.defines.insert(name);
                                at += 1;
                            }
                        }
                    }
                    _ if outside && self.is(at + 1, '!') => {
                        // Names given to a macro may be what it defines.
                        let start = at + 2 + usize::from(self.name(at + 2).is_some());
                        let end = self.behind(start);
                        let names = self.tokens[at + 2..end].iter();
                        let names: Vec<String> = names
                            .filter_map(|token| match token {
                                Token::Name(name) => Some(name.clone()),
                                _ => None,
                            })
                            .collect();
                        self.sources.modules.entry(module).or_default().defines.extend(names);
                        at = end;
                        continue;
                    }
                    _ => {
                        let mut path = vec![word.clone()];
                        let before = at.checked_sub(1).map(|at| &self.tokens[at]);
                        let is_inner = matches!(before, Some(Token::Join | Token::Other('.')));
                        while self.tokens.get(at + 1) == Some(&Token::Join)
                            && let Some(name) = self.name(at + 2)
                        {
                            path.push(name.to_owned());
                            at += 2;
                        }
                        if !is_inner {
                            self.sources.mentions.push(Mention { module, path, kind: Kind::Code });
                        }
                    }
                },
                Token::Join | Token::Other(_) => {}
            }
            at += 1;
        }
    }

    /// The paths of a `use`, each with the name it is known by; behind it.
    fn tree(
        &self,
        mut at: usize,
        stem: &mut Names,
        found: &mut Vec<(String, Names)>,
        globs: &mut Vec<Names>,
    ) -> usize {
        let length = stem.len();
        loop {
            if let Some(name) = self.name(at) {
                if name == "as" {
                    let path = found.pop().expect("something is renamed").1;
                    found.push((self.name(at + 1).unwrap_or("_").to_owned(), path));
                    at += 2;
                } else if self.tokens.get(at + 1) == Some(&Token::Join) {
                    stem.push(name.to_owned());
                    at += 2;
                } else {
                    // `a::{self}` is `a`.
                    if name != "self" {
                        stem.push(name.to_owned());
                    }
                    found.push((stem.last().cloned().unwrap_or_default(), stem.clone()));
                    stem.truncate(length);
                    at += 1;
                }
            } else if self.is(at, '*') {
                globs.push(stem.clone());
                stem.truncate(length);
                at += 1;
            } else if self.is(at, '{') {
                at = self.tree(at + 1, stem, found, globs);
                stem.truncate(length);
            } else {
                let is_end = !self.is(at, ',');
                at += 1;
                if is_end {
                    return at;
                }
            }
        }
    }
}

/// Groups of more than one that reach each other, each in order.
fn circles<T>(edges: &[BTreeMap<usize, T>]) -> Vec<Vec<usize>> {
    let reach: Vec<BTreeSet<usize>> = (0..edges.len())
        .map(|start| {
            let mut seen = BTreeSet::new();
            let mut next = vec![start];
            while let Some(at) = next.pop() {
                next.extend(edges[at].keys().copied().filter(|other| seen.insert(*other)));
            }
            seen
        })
        .collect();
    let mut circles: Vec<Vec<usize>> = (0..edges.len())
        .map(|at| reach[at].iter().copied().filter(|other| reach[*other].contains(&at)).collect())
        .filter(|circle: &Vec<usize>| circle.len() > 1)
        .collect();
    circles.sort();
    circles.dedup();
    circles
}

fn source() -> Sources {
    let sources = Sources::of_folder(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"));
    assert!(sources.files.len() > 40, "only {} files found", sources.files.len());
    sources
}

/// The circles of files, outside folders that are left out, each as text.
fn circles_of_files(sources: &Sources, left_out: &[&str], meant: &[&[&str]]) -> Vec<String> {
    let imports = match sources.imports() {
        Ok(imports) => imports,
        Err(lost) => {
            return lost.into_iter().map(|path| format!("leads nowhere: {path}")).collect();
        }
    };
    let mut found = Vec::new();
    for circle in circles(&imports) {
        let names: Vec<&str> = circle.iter().map(|&file| sources.files[file].as_str()).collect();
        let is_out =
            |name: &&str| left_out.iter().any(|folder| name.split('/').next() == Some(folder));
        if names.iter().all(is_out) || meant.contains(&names.as_slice()) {
            continue;
        }
        let mut text = names.join(" ");
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

/// The entries of a folder, and which of them imports which.
fn boxes(sources: &Sources, folder: &str) -> (Vec<String>, Vec<BTreeMap<usize, String>>) {
    let entry = |file: &String| {
        let inner = file.strip_prefix(folder)?.strip_prefix('/')?;
        let name = inner.split('/').next()?;
        Some(name.strip_suffix(".rs").unwrap_or(name).to_owned())
    };
    let entries: BTreeSet<String> = sources.files.iter().filter_map(entry).collect();
    let entries: Vec<String> = entries.into_iter().collect();
    let place = |file: usize| entries.binary_search(&entry(&sources.files[file])?).ok();
    let mut edges = vec![BTreeMap::new(); entries.len()];
    for (file, imports) in sources.imports().unwrap_or_default().iter().enumerate() {
        for (other, name) in imports {
            if let (Some(from), Some(to)) = (place(file), place(*other))
                && from != to
            {
                edges[from].entry(to).or_insert_with(|| name.clone());
            }
        }
    }
    (entries, edges)
}

#[test]
fn no_files_import_each_other() {
    let meant = MEANT.map(|(files, _)| files);
    let found = circles_of_files(&source(), &[], &meant);
    assert!(found.is_empty(), "{} circles:\n{}", found.len(), found.join("\n"));
}

#[test]
fn circles_that_are_meant_are_there_and_say_why() {
    let sources = source();
    let all = circles_of_files(&sources, &[], &[]);
    for (files, why) in MEANT {
        assert!(!why.is_empty());
        assert!(all.iter().any(|text| text.starts_with(&files.join(" "))), "{files:?} is none");
        for file in files {
            let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("src").join(file);
            let text = fs::read_to_string(path).expect("the file is there");
            let head = text.lines().take_while(|line| line.starts_with("//!"));
            assert!(
                head.collect::<String>().contains("import each other"),
                "{file} does not say why"
            );
        }
    }
}

#[test]
fn entries_of_a_folder_form_no_circle_and_are_few() {
    let sources = source();
    for (folder, limit) in &BOXES {
        let (entries, edges) = boxes(&sources, folder);
        assert!(entries.len() <= *limit, "{folder} has {} entries", entries.len());
        let found: Vec<Vec<&String>> = circles(&edges)
            .iter()
            .map(|circle| circle.iter().map(|&at| &entries[at]).collect())
            .collect();
        assert!(found.is_empty(), "{found:?} of {folder} import each other");
    }
}

/// What an outsider could not write, the plugins of the crate do not use either.
#[test]
fn plugins_import_public_names_only() {
    let sources = source();
    let found = sources.private_imports("plugins");
    assert!(found.is_empty(), "plugins import what is not public:\n{}", found.join("\n"));
    let sources = Sources::of(&[
        ("lib.rs", "pub mod a; mod b; pub mod p; pub use b::B;"),
        (
            "a.rs",
            "pub struct A; pub(crate) struct Inner; pub enum E { X } pub(crate) use crate::b::B;",
        ),
        ("b.rs", "pub struct B;"),
        (
            "p.rs",
            "use crate::a::{A, Inner}; use crate::{B, b}; use crate::b::B as C; use crate::a::B as D; \
             fn f() { crate::a::E::X; crate::a::Inner::new(); super::p::g() }",
        ),
    ]);
    // `B` is public at the root, whatever the path it is named by.
    let expected = ["a::Inner", "b", "a::Inner::new"];
    assert_eq!(sources.private_imports("p"), expected.map(|path| format!("p.rs: crate::{path}")));
    assert!(sources.private_imports("a").is_empty());
}

#[test]
fn the_reading_of_imports_is_right() {
    let imports = |texts: &[(&str, &str)]| {
        let sources = Sources::of(texts);
        let imports = sources.imports().expect("all paths lead somewhere");
        let names = |(from, to): (usize, &usize)| format!("{} {}", texts[from].0, texts[*to].0);
        let pairs =
            imports.iter().enumerate().flat_map(|(from, all)| all.keys().map(move |to| (from, to)));
        pairs.map(names).collect::<Vec<_>>()
    };
    let lib = ("lib.rs", "mod a; mod b; pub use b::B; pub use b::{self, x as y};");
    let b = ("b.rs", "pub struct B; pub fn x() {} pub const C: i64 = 1;");
    let of = |text| imports(&[lib, ("a.rs", text), b]);
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
        "impl<'a> F<'a> { fn f() -> impl Fn() + use<'a> { crate::b::x } }",
    ] {
        assert_eq!(of(text), ["a.rs b.rs"], "{text}");
    }
    for text in [
        "use super::b;",
        "use core::b::B; use alloc::{b::B};",
        "pub use crate::b::B;",
        "// use crate::b::B;\n/* use crate::b::B; /* */ */",
        "/// [`crate::b::B`]\nfn f() {}",
        "#[cfg(test)]\nmod tests { use crate::b::B; }",
        "#[cfg(test)]\nuse crate::b::B;",
        "const X: &str = \"use crate::b::B;\";",
        "pub(in crate::b) struct A; fn f(a: A) { a.b::<u8>(); a.self_ }",
    ] {
        assert_eq!(of(text), [""; 0], "{text}");
    }
    // Files of tests are tests.
    let tests = ("lib.rs", "#[cfg(test)]\nmod a; mod b;");
    assert_eq!(imports(&[tests, ("a.rs", "use crate::b::B;"), b]), [""; 0]);
    // A path that leads nowhere is told.
    let lost = Sources::of(&[lib, ("a.rs", "use crate::b::Gone;"), b]).imports();
    assert_eq!(lost, Err(vec!["a.rs: crate::b::Gone".to_owned()]));
}

#[test]
fn circles_are_found() {
    let edges = |pairs: &[(usize, usize)]| {
        let mut edges = vec![BTreeMap::new(); 6];
        for (from, to) in pairs {
            edges[*from].insert(*to, *to);
        }
        circles(&edges)
    };
    assert_eq!(edges(&[(0, 1), (1, 2), (0, 2), (3, 2)]), [[0; 0]; 0]);
    assert_eq!(
        edges(&[(0, 1), (1, 0), (2, 3), (3, 4), (4, 2), (4, 5)]),
        [vec![0, 1], vec![2, 3, 4]]
    );
    let sources = Sources::of(&[
        ("lib.rs", "mod a; mod f;"),
        ("a.rs", "use crate::f::B;"),
        ("f/mod.rs", "mod b; mod c; pub use b::B;"),
        ("f/b.rs", "pub struct B; use super::c::C; use crate::a;"),
        ("f/c.rs", "pub struct C; use crate::f::B;"),
    ]);
    let told = circles_of_files(&sources, &[], &[]);
    let line = |from, to, name| format!("\n    f/{from}.rs imports f/{to}.rs as {name}");
    let expected =
        format!("f/b.rs f/c.rs{}{}", line("b", "c", "super::c::C"), line("c", "b", "crate::f::B"));
    assert_eq!(told, [expected]);
    assert_eq!(circles_of_files(&sources, &["f"], &[]), [""; 0]);
    assert_eq!(circles_of_files(&sources, &[], &[&["f/b.rs", "f/c.rs"]]), [""; 0]);
    let (entries, edges) = boxes(&sources, "f");
    assert_eq!(entries, ["b", "c", "mod"]);
    assert_eq!(circles(&edges), [[0, 1]]);
}
