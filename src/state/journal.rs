//! What has changed lately, for those who keep results between looks.

use alloc::vec::Vec;
use core::sync::atomic::{AtomicUsize, Ordering};

/// How many changes are remembered; who is further behind starts anew.
const REMEMBERED: usize = 4_096;

/// A point in the history of a cluster: which history, and how many changes into it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Moment {
    lineage: usize,
    pub(crate) generation: u64,
}

/// One change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Change {
    /// The pods of a row came, went or changed.
    Pods(u32),
    /// Nodes came, went or changed.
    Nodes,
    /// Labels of a namespace changed.
    Namespaces,
}

/// A change in four bytes: the row, or one of two numbers that no row has.
#[derive(Debug, Clone, Copy)]
struct Packed(u32);

impl Packed {
    fn of(change: Change) -> Packed {
        match change {
            Change::Pods(row) => Packed(row),
            Change::Nodes => Packed(u32::MAX),
            Change::Namespaces => Packed(u32::MAX - 1),
        }
    }

    fn change(self) -> Change {
        match self.0 {
            u32::MAX => Change::Nodes,
            row if row == u32::MAX - 1 => Change::Namespaces,
            row => Change::Pods(row),
        }
    }
}

/// The last changes of a cluster.
///
/// A clone shares its original's history up to the moment it was made. Its first own change
/// begins a history of its own, so that equal moments always mean equal states.
#[derive(Debug)]
pub(crate) struct Journal {
    now: Moment,
    /// Where this history branched off another.
    origin: Moment,
    shared: bool,
    /// The last changes, each at its [`place`].
    recent: Vec<Packed>,
}

/// Where the change that follows a generation is kept.
fn place(generation: u64) -> usize {
    generation as usize % REMEMBERED
}

fn new_lineage() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

impl Default for Journal {
    fn default() -> Journal {
        let now = Moment { lineage: new_lineage(), generation: 0 };
        Journal { now, origin: now, shared: false, recent: Vec::new() }
    }
}

impl Clone for Journal {
    fn clone(&self) -> Journal {
        Journal { now: self.now, origin: self.origin, shared: true, recent: self.recent.clone() }
    }
}

impl Journal {
    pub(crate) fn now(&self) -> Moment {
        self.now
    }

    /// Records a change and returns its generation.
    pub(crate) fn record(&mut self, change: Change) -> u64 {
        if self.shared {
            self.shared = false;
            self.origin = self.now;
            self.now.lineage = new_lineage();
        }
        // The first change leads to generation 1, so what follows comes in order.
        match self.recent.get_mut(place(self.now.generation)) {
            Some(oldest) => *oldest = Packed::of(change),
            None => self.recent.push(Packed::of(change)),
        }
        self.now.generation += 1;
        self.now.generation
    }

    /// The changes since a moment, oldest first; `None` if they are not all known.
    pub(crate) fn since(&self, then: Moment) -> Option<impl Iterator<Item = Change> + '_> {
        let known = then.lineage == self.now.lineage && then.generation >= self.origin.generation
            || then.lineage == self.origin.lineage && then.generation <= self.origin.generation;
        let missed = usize::try_from(self.now.generation.checked_sub(then.generation)?).ok()?;
        let generations = then.generation..self.now.generation;
        (known && missed <= self.recent.len())
            .then(|| generations.map(|generation| self.recent[place(generation)].change()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    #[test]
    fn a_clone_continues_its_original_but_not_its_siblings() {
        let mut a = Journal::default();
        a.record(Change::Pods(1));
        let seen = a.now();
        let mut b = a.clone();
        assert_eq!(b.now(), a.now());
        a.record(Change::Pods(2));
        b.record(Change::Pods(3));
        assert_eq!(b.since(seen).unwrap().collect::<Vec<_>>(), [Change::Pods(3)]);
        assert_eq!(a.since(seen).unwrap().collect::<Vec<_>>(), [Change::Pods(2)]);
        assert!(a.since(b.now()).is_none() && b.since(a.now()).is_none());
        for row in 0..REMEMBERED as u32 - 1 {
            let then = a.now();
            a.record(Change::Pods(row));
            a.record(Change::Nodes);
            let since = [Change::Pods(row), Change::Nodes];
            assert_eq!(a.since(then).unwrap().collect::<Vec<_>>(), since);
            assert_eq!(a.since(a.now()).unwrap().count(), 0);
        }
        assert!(a.since(seen).is_none());
        assert_eq!(a.recent.len(), REMEMBERED);
    }
}
