//! Sources of a crate, read and resolved: modules, imports, types, methods and calls.
//!
//! An import is a `use` declaration, or a path in code. Each is resolved to the file that defines
//! the name, also if a `mod.rs` re-exports it. A re-export by itself, a declaration `mod x;`,
//! comments and code of tests import nothing. Macros of the crate are not expanded.

use std::collections::{BTreeMap, BTreeSet};

use crate::graph::Edges;

/// Names from the root of the crate to a module or an item; or a path as it is written.
pub type Names = Vec<String>;

/// First names of paths that stay in the crate.
const OWN: [&str; 3] = ["crate", "self", "super"];

/// A module, inline ones included.
#[derive(Debug, Default)]
pub struct Module {
    pub(crate) file: usize,
    pub(crate) defines: BTreeSet<String>,
    /// Names that are imported, each with its path.
    pub(crate) uses: BTreeMap<String, Names>,
    pub(crate) globs: Vec<Names>,
    /// Globs that are re-exported `pub`, without restriction.
    pub(crate) public_globs: Vec<Names>,
}

/// The end of a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    Module(Names),
    /// An item, by its own path from the root of the crate.
    Item(Names),
}

/// A place in code that names something.
#[derive(Debug)]
pub struct Mention {
    pub(crate) module: Names,
    pub(crate) path: Names,
    pub(crate) kind: Kind,
}

impl Mention {
    /// Whether it is a name alone in code: a local one, or one that a `use` brought.
    fn is_bare(&self) -> bool {
        self.kind == Kind::Code && self.path.len() < 2
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Import,
    Reexport,
    Glob,
    Code,
}

/// A struct with its named fields.
#[derive(Debug)]
pub struct Struct {
    pub(crate) module: Names,
    pub(crate) name: String,
    pub(crate) fields: Vec<Field>,
}

#[derive(Debug)]
pub(crate) struct Field {
    pub(crate) name: String,
    pub(crate) is_private: bool,
    /// Paths in the field's type.
    pub(crate) types: Vec<Names>,
}

/// An `impl` block.
#[derive(Debug)]
pub struct Block {
    pub(crate) module: Names,
    /// The self type as it is written, without references and arguments.
    pub(crate) of: Names,
    pub(crate) methods: Vec<Method>,
}

/// A method, or another function of an `impl` block.
#[derive(Debug, Default)]
pub struct Method {
    pub(crate) name: String,
    /// Parameters by name, each with the paths in its type.
    pub(crate) parameters: BTreeMap<String, Vec<Names>>,
    /// Calls in the order of the text.
    pub(crate) calls: Vec<Call>,
}

/// A call that may go to a method.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Call {
    /// `self.method()` or `Self::method`.
    Own(String),
    /// `path::Type::method`.
    Path(Names),
    /// `name.method()` or `some.name.method()`.
    On { name: String, method: String },
}

impl Call {
    /// The call of a method on a name, or on `self`.
    pub(crate) fn on(name: String, method: String) -> Call {
        if name == "self" { Call::Own(method) } else { Call::On { name, method } }
    }
}

/// Sources below a folder.
#[derive(Debug, Default)]
pub struct Sources {
    /// Paths from the folder, with `/`.
    pub(crate) files: Vec<String>,
    pub(crate) modules: BTreeMap<Names, Module>,
    pub(crate) mentions: Vec<Mention>,
    pub(crate) structs: Vec<Struct>,
    pub(crate) blocks: Vec<Block>,
    /// Modules that exist in tests only.
    pub(crate) tests: BTreeSet<Names>,
    /// Items that their module declares or re-exports `pub`, without restriction.
    pub(crate) public: BTreeSet<Names>,
    /// Lines of code by file, tests included.
    pub(crate) lines: Vec<usize>,
}

/// `a::b` of its parts.
pub(crate) fn joined(path: &[String]) -> String {
    path.join("::")
}

/// The path of a name in a module.
pub(crate) fn within(module: &[String], name: &str) -> Names {
    module.iter().cloned().chain([name.to_owned()]).collect()
}

impl Sources {
    /// Number of files.
    #[must_use]
    pub fn len(&self) -> usize {
        self.files.len()
    }

    /// Whether there is no file.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.files.is_empty()
    }

    pub(crate) fn file_of(&self, module: &[String]) -> &str {
        &self.files[self.modules[module].file]
    }

    /// Files that are no tests, in order.
    pub(crate) fn code_files(&self) -> impl Iterator<Item = &str> {
        let used: BTreeSet<usize> = self.modules.values().map(|module| module.file).collect();
        used.into_iter().map(|file| &*self.files[file])
    }

    /// The file that a target stands in.
    pub(crate) fn file_of_target(&self, target: &Target) -> usize {
        match target {
            Target::Module(module) => self.modules[module].file,
            Target::Item(item) => self.modules[&item[..item.len() - 1]].file,
        }
    }

    /// The target of a path, seen from a module; `None` outside the crate.
    pub(crate) fn resolve(&self, from: &[String], path: &[String]) -> Option<Target> {
        const DEPTH: usize = 16;
        self.resolve_within(from, path, DEPTH)
    }

    fn resolve_within(&self, from: &[String], path: &[String], depth: usize) -> Option<Target> {
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

    fn look_up(&self, inside: &[String], name: &str, depth: usize) -> Option<Target> {
        // Imports that lead to each other lead nowhere.
        let depth = depth.checked_sub(1)?;
        let module = self.modules.get(inside)?;
        let child = within(inside, name);
        // If a module and an item share a name, the module wins: the item is called by its path.
        if self.modules.contains_key(&child) {
            return Some(Target::Module(child));
        }
        if module.defines.contains(name) {
            return Some(Target::Item(child));
        }
        if let Some(path) = module.uses.get(name) {
            return self.resolve_within(inside, path, depth);
        }
        module.globs.iter().find_map(|glob| match self.resolve_within(inside, glob, depth)? {
            Target::Module(other) if other != inside => self.look_up(&other, name, depth),
            _ => None,
        })
    }

    /// The last module that a mention is written by: `a` of `a::A`, also if `a` only re-exports `A`.
    /// The root does not count, as all paths begin there, unless all of it is imported.
    pub(crate) fn written_module(&self, mention: &Mention) -> Option<Names> {
        let Mention { module, path, kind } = mention;
        if mention.is_bare() {
            return None;
        }
        let inner = |end: usize| match self.resolve(module, &path[..end]) {
            Some(Target::Module(inner)) => Some(inner),
            _ => None,
        };
        let found = (1..=path.len()).rev().find_map(inner);
        found.filter(|found| !found.is_empty() || *kind == Kind::Glob)
    }

    /// Modules that a mention names: the one that it is written by, and the one of its item.
    pub(crate) fn named_modules(&self, mention: &Mention) -> BTreeSet<Names> {
        if mention.is_bare() {
            return BTreeSet::new();
        }
        let item = self.type_of(&mention.module, &mention.path);
        let item = item.map(|item| item[..item.len() - 1].to_vec());
        self.written_module(mention).into_iter().chain(item).collect()
    }

    /// Files that each file imports, each with a name of it.
    ///
    /// # Errors
    /// Paths that lead nowhere.
    pub fn imports(&self) -> Result<Edges<String>, Vec<String>> {
        let mut imports = vec![BTreeMap::new(); self.files.len()];
        let mut lost = Vec::new();
        let mut named: BTreeSet<(usize, &str)> = BTreeSet::new();
        for mention in self.mentions.iter().filter(|mention| mention.kind == Kind::Code) {
            if let Some(first) = mention.path.first() {
                named.insert((self.modules[&mention.module].file, first));
            }
        }
        for mention in self.mentions.iter().filter(|mention| !mention.is_bare()) {
            let Mention { module, path, kind } = mention;
            let file = self.modules[module].file;
            let is_own = path.first().is_some_and(|first| OWN.contains(&first.as_str()));
            // A name that is only passed on is no import of this file.
            let last = path.last().map_or("", String::as_str);
            if *kind == Kind::Reexport && !named.contains(&(file, last)) {
                continue;
            }
            let target = self.resolve(module, path);
            let other = match &target {
                Some(target @ Target::Item(_)) => self.file_of_target(target),
                Some(target @ Target::Module(_)) if *kind == Kind::Glob => {
                    self.file_of_target(target)
                }
                None if is_own => {
                    lost.push(format!("{}: {}", self.files[file], joined(path)));
                    continue;
                }
                // Outside the crate; or a module, whose items are found where they are used.
                None | Some(Target::Module(_)) => continue,
            };
            if other != file {
                imports[file].entry(other).or_insert_with(|| joined(path));
            }
        }
        if lost.is_empty() { Ok(imports) } else { Err(lost) }
    }

    /// The item that a path leads to, by its own path from the root of the crate.
    pub(crate) fn type_of(&self, from: &[String], path: &[String]) -> Option<Names> {
        match self.resolve(from, path)? {
            Target::Item(item) => Some(item),
            Target::Module(_) => None,
        }
    }

    /// `impl` blocks by self type, for types of the crate.
    pub(crate) fn blocks_by_type(&self) -> BTreeMap<Names, Vec<&Block>> {
        let mut found: BTreeMap<Names, Vec<&Block>> = BTreeMap::new();
        for block in &self.blocks {
            if let Some(of) = self.type_of(&block.module, &block.of) {
                found.entry(of).or_default().push(block);
            }
        }
        found
    }
}
