//! Ceilings: numbers that only go down. A number below its ceiling fails too, so that it stays low.

use std::collections::{BTreeMap, BTreeSet};

use super::boxes::Boxes;
use crate::limits::{Folder, Spread};
use crate::sources::{Names, Sources, joined};

/// Files and folders that the blocks of a type may stand in, if no ceiling says otherwise.
pub const USUAL: (usize, usize) = (3, 1);

/// Compares a number with its ceiling.
fn compare(thing: &str, number: usize, ceiling: usize) -> Option<String> {
    match number.cmp(&ceiling) {
        std::cmp::Ordering::Equal => None,
        std::cmp::Ordering::Less => Some(format!(
            "{thing}: {number}, below the ceiling of {ceiling}: lower the ceiling in the table"
        )),
        std::cmp::Ordering::Greater => {
            Some(format!("{thing}: {number}, above the ceiling of {ceiling}: bring it down"))
        }
    }
}

/// Folders whose boxes or circles of boxes differ from their ceilings. `apart` have other rules.
#[must_use]
pub fn folders(sources: &Sources, ceilings: &[Folder], apart: &[&str]) -> Vec<String> {
    let names: BTreeSet<&str> =
        sources.files.iter().filter_map(|file| Some(file.split_once('/')?.0)).collect();
    let mut found = Vec::new();
    for name in &names {
        if apart.contains(name) {
            continue;
        }
        let boxes = Boxes::of(sources, name);
        let circles = boxes.circles();
        let inside = circles.iter().map(Vec::len).sum();
        let Some(ceiling) = ceilings.iter().find(|ceiling| ceiling.name == *name) else {
            let (boxes, circles) = (boxes.count(), circles.len());
            found.push(format!(
                "{name} has no ceiling: add it to the table, with {boxes} boxes, {circles} circles \
                 and {inside} boxes in circles"
            ));
            continue;
        };
        let compared = [
            compare(&format!("boxes of {name}"), boxes.count(), ceiling.boxes),
            compare(&format!("circles of boxes in {name}"), circles.len(), ceiling.circles),
            compare(&format!("boxes of {name} in circles"), inside, ceiling.in_circles),
        ];
        found.extend(compared.into_iter().flatten());
        if circles.len() > ceiling.circles || inside > ceiling.in_circles {
            found.extend(boxes.told());
        }
    }
    let gone = ceilings.iter().filter(|ceiling| !names.contains(ceiling.name));
    found.extend(gone.map(|gone| format!("{} is no folder: take it off the table", gone.name)));
    found
}

/// Files and folders of the `impl` blocks by type.
#[must_use]
pub fn spread(sources: &Sources) -> BTreeMap<Names, (BTreeSet<&str>, BTreeSet<&str>)> {
    let mut found: BTreeMap<Names, (BTreeSet<&str>, BTreeSet<&str>)> = BTreeMap::new();
    for (of, blocks) in sources.blocks_by_type() {
        let (files, folders) = found.entry(of).or_default();
        for block in blocks {
            let file = sources.file_of(&block.module);
            files.insert(file);
            folders.insert(file.rsplit_once('/').map_or("", |(folder, _)| folder));
        }
    }
    found
}

/// Types whose blocks are spread otherwise than their ceilings say. `apart` have other rules.
#[must_use]
pub fn spreads(sources: &Sources, ceilings: &[Spread], apart: &BTreeSet<Names>) -> Vec<String> {
    let spread = spread(sources);
    let mut found = Vec::new();
    for (of, (files, folders)) in spread.iter().filter(|(of, _)| !apart.contains(*of)) {
        let name = joined(of);
        let (files_now, folders_now) = (files.len(), folders.len());
        let is_usual = files_now <= USUAL.0 && folders_now <= USUAL.1;
        match ceilings.iter().find(|ceiling| ceiling.name == name) {
            None if is_usual => {}
            None => found.push(format!(
                "{name} has impl blocks in {files_now} files and {folders_now} folders, {} and {} \
                 are allowed: split the type, not its impl; {files:?}",
                USUAL.0, USUAL.1
            )),
            Some(_) if is_usual => {
                found.push(format!("{name} needs no ceiling any more: take it off the table"));
            }
            Some(ceiling) => {
                let of_files = compare(&format!("files of {name}"), files_now, ceiling.files);
                let of_folders =
                    compare(&format!("folders of {name}"), folders_now, ceiling.folders);
                found.extend(of_files.into_iter().chain(of_folders));
            }
        }
    }
    let is_there = |name: &str| spread.keys().any(|of| !apart.contains(of) && joined(of) == name);
    let gone = ceilings.iter().filter(|ceiling| !is_there(ceiling.name));
    found.extend(gone.map(|gone| format!("{} is not there: take it off the table", gone.name)));
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_are_held_from_both_sides() {
        let sources = Sources::of(&[
            ("lib.rs", "mod f; mod g;"),
            ("f/mod.rs", "mod a; mod b; mod c;"),
            ("f/a.rs", "pub struct A; use super::b::B;"),
            ("f/b.rs", "pub struct B; use super::a::A;"),
            ("f/c.rs", ""),
            ("g/mod.rs", ""),
        ]);
        let of = |boxes, circles, in_circles| {
            let ceiling = Folder { name: "f", boxes, circles, in_circles };
            folders(&sources, &[ceiling], &["g"])
        };
        assert_eq!(of(3, 1, 2), [""; 0]);
        assert!(of(2, 1, 2)[0].contains("bring it down"));
        assert!(of(4, 1, 2)[0].contains("lower the ceiling"));
        assert!(of(3, 0, 0).iter().any(|text| text.contains("a, b import each other")));
        assert!(of(3, 1, 3)[0].contains("lower the ceiling"));
        let ceiling = Folder { name: "h", boxes: 0, circles: 0, in_circles: 0 };
        let told = folders(&sources, &[ceiling], &["f"]);
        assert!(told[0].contains("g has no ceiling") && told[1].contains("h is no folder"));
    }

    #[test]
    fn spreads_are_held_from_both_sides() {
        let block = "impl crate::f::A {}";
        let sources = Sources::of(&[
            ("lib.rs", "mod f; mod g;"),
            ("f/mod.rs", "pub struct A; pub struct B; impl B {} impl A {}"),
            ("f/a.rs", block),
            ("f/b.rs", block),
            // Blocks for a type of others, a parameter, and in a test do not count.
            ("f/c.rs", "impl X for u8 {} impl<T> X for T {} #[cfg(test)] impl super::B {}"),
            ("g.rs", "impl<'a> Clone for &'a crate::f::A {}"),
        ]);
        let of = |name, files, folders| {
            spreads(&sources, &[Spread { name, files, folders }], &BTreeSet::new())
        };
        assert_eq!(of("f::A", 4, 2), [""; 0]);
        assert!(of("f::A", 3, 2)[0].contains("bring it down"));
        assert!(of("f::A", 4, 3)[0].contains("lower the ceiling"));
        let told = of("f::B", 4, 1);
        assert!(told[0].contains("f::A has impl blocks in 4 files and 2 folders"), "{told:?}");
        assert!(told[1].contains("f::B needs no ceiling"), "{told:?}");
        assert!(of("f::C", 4, 1)[1].contains("f::C is not there"));
    }
}
