//! Walk: a trace of the calls that a method leads to.
//!
//! A walk begins at a method and goes depth first, in the order of the text, over the methods of
//! the same type and of the owners. Each method is entered once and every branch is taken. Rooms are
//! files. A stay is a stretch of the walk in one room; it ends as a call leads into another room, or
//! as the walk returns to a caller in another room. Returns are stays in a room that was visited
//! before: stays less rooms.
//!
//! A walk does not see free functions, function tables, closures in fields and trait objects.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use crate::sources::{Block, Call, Method, Names, Sources, joined};

/// The measures of a walk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Walk {
    pub methods: usize,
    pub stays: usize,
    /// Rooms in the order they are entered first, each with the number of stays in it.
    pub rooms: Vec<(String, usize)>,
}

impl Walk {
    #[must_use]
    pub fn returns(&self) -> usize {
        self.stays - self.rooms.len()
    }
}

impl fmt::Display for Walk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (stays, rooms, returns) = (self.stays, self.rooms.len(), self.returns());
        write!(f, "{stays} stays / {rooms} rooms / {returns} returns, {} methods", self.methods)
    }
}

/// A method of a type, with the module of its block.
type Found<'a> = (&'a Names, &'a Names, &'a Method);

/// Types over which walks go.
#[derive(Debug)]
pub struct Walker<'a> {
    sources: &'a Sources,
    methods: BTreeMap<(&'a Names, &'a str), Vec<Found<'a>>>,
    /// Owners by the names of fields that hold them.
    fields: BTreeMap<&'a str, BTreeSet<&'a Names>>,
    types: &'a BTreeSet<Names>,
}

impl<'a> Walker<'a> {
    /// A walker over the methods of types; calls on fields and parameters of these types count.
    #[must_use]
    pub fn new(sources: &'a Sources, types: &'a BTreeSet<Names>) -> Walker<'a> {
        let mut methods: BTreeMap<_, Vec<Found>> = BTreeMap::new();
        for (of, blocks) in &sources.blocks_by_type() {
            let Some(of) = types.get(of) else { continue };
            for Block { module, methods: inner, .. } in blocks {
                for method in inner {
                    let key = (of, method.name.as_str());
                    methods.entry(key).or_default().push((of, module, method));
                }
            }
        }
        let mut fields: BTreeMap<_, BTreeSet<&Names>> = BTreeMap::new();
        for found in &sources.structs {
            if !types.contains(&crate::sources::within(&found.module, &found.name)) {
                continue;
            }
            for field in &found.fields {
                let held = field
                    .types
                    .iter()
                    .filter_map(|path| types.get(&sources.type_of(&found.module, path)?));
                fields.entry(field.name.as_str()).or_default().extend(held);
            }
        }
        Walker { sources, methods, fields, types }
    }

    /// Methods that a call may go to.
    fn called(&self, from: Found<'a>, call: &'a Call) -> Vec<Found<'a>> {
        let (of, module, method) = from;
        let (types, name): (BTreeSet<&Names>, &str) = match call {
            Call::Own(name) => ([of].into(), name),
            Call::Path(path) => {
                let (name, before) = path.split_last().expect("a path has names");
                let found = self.sources.type_of(module, before);
                (found.iter().filter_map(|found| self.types.get(found)).collect(), name)
            }
            Call::On { name, method: called } => {
                let declared = method.parameters.get(name);
                let found = match declared {
                    Some(paths) => paths
                        .iter()
                        .filter_map(|path| self.sources.type_of(module, path))
                        .filter_map(|found| self.types.get(&found))
                        .collect(),
                    None => self.fields.get(name.as_str()).cloned().unwrap_or_default(),
                };
                (found, called)
            }
        };
        types
            .into_iter()
            .filter_map(|of| self.methods.get(&(of, name)))
            .flatten()
            .copied()
            .collect()
    }

    /// The walk from a method; `None` if the type has no such method.
    #[must_use]
    pub fn walk(&self, of: &Names, method: &str) -> Option<Walk> {
        let start = self.methods.get(&(self.types.get(of)?, method))?;
        let mut seen = BTreeSet::new();
        let mut path = Vec::new();
        for found in start {
            self.enter(*found, &mut seen, &mut path);
        }
        path.dedup();
        let mut rooms: Vec<(String, usize)> = Vec::new();
        for room in &path {
            match rooms.iter_mut().find(|(known, _)| known == room) {
                Some((_, stays)) => *stays += 1,
                None => rooms.push(((*room).to_owned(), 1)),
            }
        }
        Some(Walk { methods: seen.len(), stays: path.len(), rooms })
    }

    fn enter(
        &self,
        found: Found<'a>,
        seen: &mut BTreeSet<(String, &'a str, &'a str)>,
        path: &mut Vec<&'a str>,
    ) {
        let (of, module, method) = found;
        let room = self.sources.file_of(module);
        if !seen.insert((joined(of), method.name.as_str(), room)) {
            return;
        }
        path.push(room);
        for call in &method.calls {
            for next in self.called(found, call) {
                self.enter(next, seen, path);
                path.push(room);
            }
        }
    }
}
