//! Candidates for victims, one after the other in their order, without a pass over queues.

use alloc::collections::{BTreeSet, BinaryHeap, btree_set};
use alloc::vec::Vec;
use core::cmp::Reverse;

use smallvec::SmallVec;

use super::preemptor::Preemptor;
use crate::Time;
use crate::base::hash::FixedMap;
use crate::quota::books::Books;
use crate::quota::books::index::VictimKey;
use crate::quota::engine::climb::is_candidate;
use crate::quota::model::queue::{QueueKind, QueuePreemptionPolicy};

/// The holders of one leaf that use any of some resources in flavors.
pub(super) struct LeafCandidates<'a> {
    sets: SmallVec<[core::iter::Peekable<btree_set::Iter<'a, VictimKey>>; 2]>,
}

impl<'a> LeafCandidates<'a> {
    pub(super) fn new(books: &'a Books, leaf: u32, pairs: &[u32]) -> LeafCandidates<'a> {
        let users = |&pair: &u32| books.index.users(leaf, pair).iter().peekable();
        LeafCandidates { sets: pairs.iter().map(users).collect() }
    }

    pub(super) fn peek(&mut self) -> Option<&'a VictimKey> {
        self.sets.iter_mut().filter_map(|set| set.peek().copied()).min()
    }

    fn advance(&mut self, past: &VictimKey) {
        for set in &mut self.sets {
            set.next_if(|key| *key == past);
        }
    }
}

impl<'a> Iterator for LeafCandidates<'a> {
    type Item = &'a VictimKey;

    fn next(&mut self) -> Option<&'a VictimKey> {
        let key = self.peek()?;
        self.advance(key);
        Some(key)
    }
}

/// Whether a policy makes a holder a candidate.
pub(super) fn satisfies(
    policy: QueuePreemptionPolicy,
    preemptor: &Preemptor<'_>,
    books: &Books,
    key: &VictimKey,
) -> bool {
    let created = match policy {
        QueuePreemptionPolicy::LowerOrNewerEqualPriority => books.holder_at(key.holder),
        _ => None,
    };
    let created = created.map_or(Time::ZERO, |holder| holder.created);
    is_candidate(policy, (preemptor.priority, preemptor.created), (key.priority, created))
}

/// Whether no holder of a priority, nor any behind it, satisfies a policy.
pub(super) fn is_past(
    policy: QueuePreemptionPolicy,
    preemptor: &Preemptor<'_>,
    key: &VictimKey,
) -> bool {
    key.staying
        && match policy {
            QueuePreemptionPolicy::Never => true,
            QueuePreemptionPolicy::LowerPriority => key.priority >= preemptor.priority,
            QueuePreemptionPolicy::LowerOrNewerEqualPriority => key.priority > preemptor.priority,
            QueuePreemptionPolicy::Any => false,
        }
}

enum Source<'a> {
    Children(btree_set::Iter<'a, (VictimKey, u32)>),
    Leaf(LeafCandidates<'a>),
}

/// The holders that use any of some resources in flavors, in leaves below inner queues, in the
/// order of victims. Only queues are entered that draw more than their guarantees of any of them.
///
/// A child of an inner queue is looked at when its first holder is next: O(log) for each queue looked
/// at and each holder taken.
pub(super) struct Candidates<'a, 'p> {
    books: &'a Books,
    pairs: &'p [u32],
    heap: BinaryHeap<Reverse<(&'a VictimKey, u32)>>,
    sources: Vec<Source<'a>>,
    seen: FixedMap<u32, ()>,
}

impl<'a, 'p> Candidates<'a, 'p> {
    pub(super) fn new(books: &'a Books, pairs: &'p [u32]) -> Candidates<'a, 'p> {
        let (heap, sources, seen) = (BinaryHeap::new(), Vec::new(), FixedMap::default());
        Candidates { books, pairs, heap, sources, seen }
    }

    /// Adds the leaves below an inner queue, but for those below one of its children.
    pub(super) fn add(&mut self, inner: u32, except: u32) {
        self.seen.insert(except, ());
        self.expand(inner);
    }

    fn expand(&mut self, inner: u32) {
        for &pair in self.pairs {
            if let Some(cell) = self.books.tree.slots[inner as usize].cell(pair) {
                let over: &'a BTreeSet<_> = self.books.index.over(cell);
                self.sources.push(Source::Children(over.iter()));
                self.push(self.sources.len() as u32 - 1);
            }
        }
    }

    /// Puts a source in its place among the others.
    fn push(&mut self, at: u32) {
        let next = match &mut self.sources[at as usize] {
            Source::Children(children) => children.clone().next().map(|(key, _)| key),
            Source::Leaf(leaf) => leaf.peek(),
        };
        if let Some(key) = next {
            self.heap.push(Reverse((key, at)));
        }
    }

    /// The next holder, which stays the next.
    pub(super) fn peek(&mut self) -> Option<&'a VictimKey> {
        loop {
            let Reverse((key, at)) = *self.heap.peek()?;
            let Source::Children(children) = &mut self.sources[at as usize] else {
                return Some(key);
            };
            let child = children.next().map(|(_, child)| *child);
            self.heap.pop();
            self.push(at);
            let Some(child) = child else { continue };
            if self.seen.insert(child, ()).is_some() {
                continue;
            }
            if self.books.tree.slots[child as usize].spec.kind == QueueKind::Leaf {
                let leaf = LeafCandidates::new(self.books, child, self.pairs);
                self.sources.push(Source::Leaf(leaf));
                self.push(self.sources.len() as u32 - 1);
            } else {
                self.expand(child);
            }
        }
    }
}

impl<'a> Iterator for Candidates<'a, '_> {
    type Item = &'a VictimKey;

    fn next(&mut self) -> Option<&'a VictimKey> {
        let key = self.peek()?;
        let Reverse((_, at)) = self.heap.pop()?;
        if let Source::Leaf(leaf) = &mut self.sources[at as usize] {
            leaf.next();
        }
        self.push(at);
        Some(key)
    }
}
