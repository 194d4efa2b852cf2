//! Owners of the queue: a type of each folder with private fields, whose code stays in the folder.

use std::collections::{BTreeMap, BTreeSet};

use crate::graph::circles;
use crate::limits::Owner;
use crate::sources::{Call, Names, Sources, Struct, joined, within};

/// Whether a file belongs to a folder: `folder.rs`, or a file inside.
fn is_in(file: &str, folder: &str) -> bool {
    file.strip_prefix(folder).is_some_and(|rest| rest == ".rs" || rest.starts_with('/'))
}

/// The struct of an owner, in its folder.
fn find<'a>(sources: &'a Sources, owner: &Owner) -> Option<&'a Struct> {
    let is_it = |found: &&Struct| {
        found.name == owner.name && is_in(sources.file_of(&found.module), owner.folder)
    };
    sources.structs.iter().find(is_it)
}

/// The types of those owners that are there.
#[must_use]
pub fn types(sources: &Sources, owners: &[Owner]) -> BTreeSet<Names> {
    let found = owners.iter().filter_map(|owner| find(sources, owner));
    found.map(|found| within(&found.module, &found.name)).collect()
}

/// Owners that are missing.
#[must_use]
pub fn missing(sources: &Sources, owners: &[Owner]) -> Vec<String> {
    let missing = owners.iter().filter(|owner| find(sources, owner).is_none());
    let told = |Owner { name, folder, .. }: &Owner| {
        format!("no struct {name} in {folder}: define it there, in {folder}.rs or in {folder}/")
    };
    missing.map(told).collect()
}

/// Fields of owners that are not private.
#[must_use]
pub fn open_fields(sources: &Sources, owners: &[Owner]) -> Vec<String> {
    let mut found = Vec::new();
    for Struct { module, name, fields } in owners.iter().filter_map(|owner| find(sources, owner)) {
        let open = fields.iter().filter(|field| !field.is_private);
        let open: Vec<&str> = open.map(|field| field.name.as_str()).collect();
        if !open.is_empty() {
            found.push(format!(
                "{}: {} fields of {name} are not private: {}; make them private, and give {name} a \
                 method for each thing that others did with them",
                sources.file_of(module),
                open.len(),
                open.join(", ")
            ));
        }
    }
    found
}

/// `impl` blocks of owners outside their folder, and owners with blocks in too many files.
#[must_use]
pub fn scattered_blocks(sources: &Sources, owners: &[Owner]) -> Vec<String> {
    let blocks = sources.blocks_by_type();
    let mut found = Vec::new();
    for owner in owners {
        let Owner { name, folder, files: limit } = owner;
        let Some(of) = find(sources, owner) else { continue };
        let blocks = blocks.get(&within(&of.module, name)).map_or(&[][..], Vec::as_slice);
        let files: BTreeSet<&str> =
            blocks.iter().map(|block| sources.file_of(&block.module)).collect();
        let outside: Vec<&str> =
            files.iter().copied().filter(|file| !is_in(file, folder)).collect();
        if !outside.is_empty() {
            found.push(format!(
                "{name} has impl blocks outside {folder}, in {}; move them into {folder}, or make \
                 them methods of the owner whose fields they use",
                outside.join(", ")
            ));
        }
        if let Some(limit) = limit
            && files.len() > *limit
        {
            found.push(format!(
                "{name} has impl blocks in {} files, {limit} are allowed: {files:?}; split the type, \
                 not its impl",
                files.len()
            ));
        }
    }
    found
}

/// Circles of calls between the files of one type, for the types that a folder defines. A file
/// calls another if a method in it calls a method of the same type there.
#[must_use]
pub fn circles_of_calls(sources: &Sources, folder: &str) -> Vec<String> {
    let mut told = Vec::new();
    for (of, blocks) in sources.blocks_by_type() {
        if !is_in(sources.file_of(&of[..of.len() - 1]), folder) {
            continue;
        }
        let mut places: BTreeMap<&str, BTreeSet<usize>> = BTreeMap::new();
        for block in &blocks {
            for method in &block.methods {
                let file = sources.modules[&block.module].file;
                places.entry(&method.name).or_default().insert(file);
            }
        }
        // Number of calls from a file to another, and one of them.
        let mut edges: Vec<BTreeMap<usize, (usize, String)>> =
            vec![BTreeMap::new(); sources.files.len()];
        for block in &blocks {
            let file = sources.modules[&block.module].file;
            for method in &block.methods {
                for call in &method.calls {
                    let called = match call {
                        Call::Own(name) => name,
                        Call::Path(path) => {
                            let (name, before) = path.split_last().expect("a path has names");
                            if sources.type_of(&block.module, before).as_ref() != Some(&of) {
                                continue;
                            }
                            name
                        }
                        Call::On { .. } => continue,
                    };
                    for other in places.get(called.as_str()).into_iter().flatten() {
                        if *other != file {
                            let example = || (0, format!("{} calls {called}", method.name));
                            edges[file].entry(*other).or_insert_with(example).0 += 1;
                        }
                    }
                }
            }
        }
        for circle in circles(&edges) {
            told.push(tell(sources, &of, &circle, &edges));
        }
    }
    told
}

/// Pairs of files that are shown of a circle.
const SHOWN: usize = 20;

fn tell(
    sources: &Sources,
    of: &Names,
    circle: &[usize],
    edges: &[BTreeMap<usize, (usize, String)>],
) -> String {
    let inner = circle.iter().flat_map(|&from| {
        let inner = edges[from].iter().filter(|(to, _)| circle.contains(to));
        inner.map(move |(to, (calls, example))| (from, *to, *calls, example))
    });
    let mut inner: Vec<_> = inner.collect();
    let calls: usize = inner.iter().map(|(_, _, calls, _)| calls).sum();
    // The edges that are the easiest to cut come first.
    inner.sort_by_key(|(_, _, calls, _)| *calls);
    let mut text = format!(
        "methods of {} in {} files call each other in a circle ({calls} calls between files); let \
         the lower one return what the upper one acts on:",
        joined(of),
        circle.len(),
    );
    for (from, to, calls, example) in inner.iter().take(SHOWN) {
        let (from, to) = (&sources.files[*from], &sources.files[*to]);
        text = format!("{text}\n    {from} -> {to}, {calls} calls: {example}");
    }
    if let Some(more) = inner.len().checked_sub(SHOWN + 1) {
        text = format!("{text}\n    and {} pairs of files more", more + 1);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWNERS: [Owner; 2] = [
        Owner { name: "Holds", folder: "queue/holds", files: Some(2) },
        Owner { name: "Driver", folder: "queue/driver", files: None },
    ];

    fn sources(holds: &str, view: &str, driver: &str) -> Sources {
        Sources::of(&[
            ("lib.rs", "mod queue;"),
            ("queue/mod.rs", "mod holds; mod driver;"),
            ("queue/holds/mod.rs", holds),
            ("queue/holds/view.rs", view),
            ("queue/driver.rs", driver),
        ])
    }

    const HOLDS: &str = "mod view; pub struct Holds { count: u64 }
        impl Holds { pub fn lift(&self) { self.view() } fn count(&self) {} }";
    const VIEW: &str = "impl super::Holds { fn view(&self) {} }";
    const DRIVER: &str = "use super::holds::Holds; pub struct Driver { holds: Holds }
        impl Driver { fn drive(&self) { self.holds.lift() } }";

    #[test]
    fn owners_in_order_pass() {
        let sources = sources(HOLDS, VIEW, DRIVER);
        assert_eq!(missing(&sources, &OWNERS), [""; 0]);
        assert_eq!(open_fields(&sources, &OWNERS), [""; 0]);
        assert_eq!(scattered_blocks(&sources, &OWNERS), [""; 0]);
        assert_eq!(circles_of_calls(&sources, "queue"), [""; 0]);
        assert_eq!(types(&sources, &OWNERS).len(), 2);
    }

    #[test]
    fn missing_owners_are_found() {
        let sources = sources("mod view;", "struct View;", "pub struct Holds; pub struct Driver;");
        assert_eq!(missing(&sources, &OWNERS).len(), 1);
    }

    #[test]
    fn open_fields_are_found() {
        for field in ["pub count: u64", "pub(super) count: u64", "pub(in crate::queue) count: u64"]
        {
            let sources = sources(&HOLDS.replace("count: u64", field), VIEW, DRIVER);
            let told = open_fields(&sources, &OWNERS);
            assert!(told[0].contains("1 fields of Holds are not private: count"), "{told:?}");
        }
    }

    #[test]
    fn blocks_outside_the_folder_are_found() {
        for outside in ["impl Holds { fn x() {} }", "impl Clone for super::holds::Holds {}"] {
            let sources = sources(HOLDS, VIEW, &format!("{DRIVER} {outside}"));
            let told = scattered_blocks(&sources, &OWNERS);
            assert!(told[0].contains("outside queue/holds, in queue/driver.rs"), "{told:?}");
            // The driver's file is the third.
            assert!(told[1].contains("in 3 files, 2 are allowed"), "{told:?}");
        }
        // A trait for another type, and a test, are no block of the owner.
        let other = "impl From<Holds> for Driver {} #[cfg(test)] impl Holds {}";
        let sources = sources(HOLDS, VIEW, &format!("{DRIVER} {other}"));
        assert_eq!(scattered_blocks(&sources, &OWNERS), [""; 0]);
    }

    #[test]
    fn circles_of_calls_are_found() {
        for call in [
            "self.count()",
            "Self::count(self)",
            "Holds::count(self)",
            "[1].map(|_| (self).count())",
            "vec![self.count()]",
            "matches!(self.count(), 1 if true)",
        ] {
            let view = format!("use super::Holds; impl Holds {{ fn view(&self) {{ {call}; }} }}");
            let told = circles_of_calls(&sources(HOLDS, &view, DRIVER), "queue");
            assert_eq!(told.len(), 1, "{call}");
            assert!(told[0].contains("queue::holds::Holds in 2 files"), "{told:?}");
            assert!(told[0].contains("view calls count"), "{told:?}");
        }
        // Calls on another value of the type, and of a method of another type.
        let view = "use super::Holds; impl Holds { fn view(&self, o: Other) { o.count() } }";
        assert_eq!(circles_of_calls(&sources(HOLDS, view, DRIVER), "queue"), [""; 0]);
    }
}
