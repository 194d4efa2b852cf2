//! Walks of the queue's driver, and their limits.

use std::collections::BTreeSet;

use crate::limits::WalkLimit;
use crate::sources::{Names, Sources, within};
use crate::walk::{Walk, Walker};

/// The walk from a method of a type: over its own methods alone, and over those of owners too.
#[derive(Debug)]
pub struct Walks {
    pub own: Walk,
    pub with_owners: Walk,
}

/// The walk of a limit; `None` if there is no such method.
#[must_use]
pub fn walks(sources: &Sources, limit: &WalkLimit, owners: &BTreeSet<Names>) -> Option<Walks> {
    let mut types = sources.structs.iter().filter(|found| found.name == limit.of);
    let of = types.find(|found| sources.file_of(&found.module).starts_with(limit.folder))?;
    let of = within(&of.module, &of.name);
    let walk = |types: &BTreeSet<Names>| Walker::new(sources, types).walk(&of, limit.method);
    let mut all = owners.clone();
    all.insert(of.clone());
    Some(Walks { own: walk(&BTreeSet::from([of.clone()]))?, with_owners: walk(&all)? })
}

/// Walks beyond their limits. The walk over owners counts.
#[must_use]
pub fn long(sources: &Sources, limits: &[WalkLimit], owners: &BTreeSet<Names>) -> Vec<String> {
    let mut found = Vec::new();
    for limit in limits {
        let name = format!("{}::{}", limit.of, limit.method);
        let Some(Walks { with_owners: walk, .. }) = walks(sources, limit, owners) else {
            found.push(format!("there is no {name}: put its new name in the table"));
            continue;
        };
        let mut tell = |what: &str, number: usize, limit: Option<usize>| {
            if let Some(limit) = limit.filter(|limit| number > *limit) {
                let mut rooms = walk.rooms.clone();
                rooms.sort_by_key(|(_, stays)| std::cmp::Reverse(*stays));
                let rooms: Vec<String> =
                    rooms.iter().map(|(room, stays)| format!("{room} {stays}")).collect();
                found.push(format!(
                    "{name} takes {number} {what}, {limit} are allowed ({walk}): let owners return \
                     facts instead of calling on; stays by room: {}",
                    rooms.join(", ")
                ));
            }
        };
        tell("rooms", walk.rooms.len(), limit.rooms);
        tell("returns", walk.returns(), limit.returns);
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sources() -> Sources {
        Sources::of(&[
            ("lib.rs", "mod queue;"),
            ("queue/mod.rs", "mod driver; mod timers; mod holds; mod view;"),
            (
                "queue/driver.rs",
                "use super::holds::Holds; use super::view::View;
                 pub struct Driver { holds: Holds, view: Option<View> }
                 impl Driver {
                     fn handle(&mut self) { self.expire(); self.held(); self.expire(); }
                     fn held(&mut self) { self.holds.lift(&self.view); self.fired(); }
                 }",
            ),
            (
                "queue/timers.rs",
                "impl super::driver::Driver { fn expire(&self) { self.fired() } fn fired(&self) {} }",
            ),
            (
                "queue/holds.rs",
                "use super::view::View; pub struct Holds;
                 impl Holds { fn lift(&self, seen: &View) { seen.look(); seen.unknown(); } }",
            ),
            (
                "queue/view.rs",
                "pub struct View; impl View { fn look(&self) { Self::deeper() } fn deeper() {} }",
            ),
        ])
    }

    fn limit(rooms: usize, returns: usize) -> WalkLimit {
        let (rooms, returns) = (Some(rooms), Some(returns));
        WalkLimit { of: "Driver", folder: "queue/", method: "handle", rooms, returns }
    }

    #[test]
    fn walks_are_counted() {
        let name = |module: &str, name: &str| ["queue", module, name].map(str::to_owned).to_vec();
        let owners = BTreeSet::from([name("holds", "Holds"), name("view", "View")]);
        let Walks { own, with_owners } =
            walks(&sources(), &limit(9, 9), &owners).expect("the method is there");
        // driver, timers, driver.
        assert_eq!(own.to_string(), "3 stays / 2 rooms / 1 returns, 4 methods");
        // driver, timers, driver, holds, view, holds, driver.
        assert_eq!(with_owners.to_string(), "7 stays / 4 rooms / 3 returns, 7 methods");
        assert_eq!(with_owners.rooms[0], ("queue/driver.rs".to_owned(), 3));
        assert_eq!(long(&sources(), &[limit(4, 3)], &owners), [""; 0]);
        assert!(long(&sources(), &[limit(3, 3)], &owners)[0].contains("takes 4 rooms, 3 are"));
        assert!(long(&sources(), &[limit(4, 2)], &owners)[0].contains("takes 3 returns, 2 are"));
        let gone = WalkLimit { method: "gone", ..limit(4, 3) };
        assert_eq!(long(&sources(), &[gone], &owners).len(), 1);
    }
}
