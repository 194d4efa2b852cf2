//! The order in which queues' heads are admitted.
//!
//! Source: Kueue's `scheduler.go` and `fair_sharing_iterator.go`.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::cmp::Ordering;

use super::Tenants;
use crate::Time;
use crate::base::hash::FixedMap;
use crate::quota::books::Books;
use crate::quota::books::cells::{Cells, NONE};
use crate::quota::books::share::{ShareValue, borrows_any};
use crate::quota::books::tree::QueueId;
use crate::quota::dialect::First;
use crate::quota::engine::head_rules::{HeadRules, HeadStanding};
use crate::quota::model::claim::Usage;

/// The head of a queue, as it was decided on.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Head {
    /// The name of the claim.
    pub name: String,
    /// Decides ties, before the name.
    pub uid: String,
    /// The priority.
    pub priority: i64,
    /// Since when it waits.
    pub since: Time,
    /// Its usage, if it is admitted.
    pub usage: Usage,
    /// How far up the tree it borrows from.
    pub level: u32,
    /// Whether it needs victims.
    pub preempts: bool,
}

impl Head {
    /// The head of a claim with its usage. It has waited since time zero and borrows nothing.
    pub fn new(name: impl Into<String>, usage: Usage) -> Head {
        let (name, uid) = (name.into(), String::new());
        let (priority, since, level, preempts) = (0, Time::ZERO, 0, false);
        Head { name, uid, priority, since, usage, level, preempts }
    }
}

/// The place of a head in a set of them.
#[derive(Debug, Clone)]
struct Key {
    rules: HeadRules,
    standing: HeadStanding,
    /// Uid and name.
    identity: Arc<(String, String)>,
    leaf: u32,
}

impl Key {
    /// Whether two keys of one queue are alike in all that they say.
    fn is_same(&self, other: &Key) -> bool {
        self.leaf == other.leaf
            && self.standing == other.standing
            && Arc::ptr_eq(&self.identity, &other.identity)
    }
}

impl Ord for Key {
    fn cmp(&self, other: &Key) -> Ordering {
        self.rules
            .compare(&self.standing, &other.standing)
            .then_with(|| self.identity.cmp(&other.identity))
            .then(self.leaf.cmp(&other.leaf))
    }
}

impl PartialOrd for Key {
    fn partial_cmp(&self, other: &Key) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Key {
    fn eq(&self, other: &Key) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Key {}

/// The heads of queues, one a leaf, in the order in which they are admitted.
///
/// With fair sharing, every inner queue chooses among its children: the side of the smallest share
/// wins, with the head that won on that side counted in. A head that is taken, and a change of a
/// queue's use ([`Heads::changed`]), cost O(depth² + depth · log). So the order of n heads costs
/// O(n log n), and follows the amounts that the heads before have been given.
#[derive(Debug, Clone)]
pub struct Heads {
    rules: HeadRules,
    entries: BTreeMap<u32, (Head, Arc<(String, String)>)>,
    /// By inner queue: its children's winners. The winners of trees are under [`NONE`].
    sets: FixedMap<u32, BTreeSet<(Key, u32)>>,
    /// By queue: what stands of it in the set of its parent.
    entered: FixedMap<u32, Key>,
}

impl Tenants {
    /// An order of heads without any.
    pub fn heads(&self) -> Heads {
        Heads::new(self.head_rules())
    }
}

impl Heads {
    /// No heads.
    pub fn new(rules: HeadRules) -> Heads {
        let (sets, entered) = (FixedMap::default(), FixedMap::default());
        Heads { rules, entries: BTreeMap::new(), sets, entered }
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The head of a leaf.
    pub fn get(&self, queue: QueueId) -> Option<&Head> {
        self.entries.get(&queue.slot).map(|(head, _)| head)
    }

    /// Sets the head of a leaf, in place of any before.
    pub fn set(&mut self, tenants: &mut Tenants, queue: QueueId, head: Head) {
        let identity = Arc::new((head.uid.clone(), head.name.clone()));
        self.entries.insert(queue.slot, (head, identity));
        self.changed(tenants, queue);
    }

    /// Takes the head of a leaf out.
    pub fn remove(&mut self, tenants: &mut Tenants, queue: QueueId) -> Option<Head> {
        let (head, _) = self.entries.remove(&queue.slot)?;
        self.changed(tenants, queue);
        Some(head)
    }

    /// Takes the head that goes first.
    pub fn pop(&mut self, tenants: &mut Tenants) -> Option<(QueueId, Head)> {
        let heads = self.entries.iter().map(|(slot, (head, _))| (*slot, &head.usage));
        let heads: Vec<(u32, &Usage)> = heads.collect();
        let first = match tenants.dialect.first(&tenants.books, &heads) {
            First::ByRules => self.sets.get(&NONE)?.first()?.0.leaf,
            First::Leaf(leaf) => leaf?,
        };
        let queue = tenants.tree().id(first);
        Some((queue, self.remove(tenants, queue)?))
    }

    /// Brings the order in line with a change of what a leaf uses.
    pub fn changed(&mut self, tenants: &mut Tenants, queue: QueueId) {
        tenants.books.with_cells(|books, cells| self.refresh(books, cells, queue.slot));
    }

    /// Brings the order in line with time that has passed. O(heads · depth · log).
    pub(crate) fn time_passed(&mut self, tenants: &mut Tenants) {
        let leaves: Vec<u32> = self.entries.keys().copied().collect();
        tenants.books.with_cells(|books, cells| {
            for leaf in leaves {
                self.refresh(books, cells, leaf);
            }
        });
    }

    fn refresh(&mut self, books: &Books, cells: &mut Cells, leaf: u32) {
        let mut at = leaf;
        loop {
            let parent = if self.rules.fair { books.tree.slots[at as usize].parent } else { NONE };
            let winner = if at == leaf {
                self.entries.contains_key(&at).then_some(at)
            } else {
                self.sets.get(&at).and_then(|set| set.first()).map(|(key, _)| key.leaf)
            };
            let key = winner.and_then(|winner| self.key(books, cells, at, winner));
            let old = self.entered.get(&at);
            let is_same = match (old, &key) {
                (Some(old), Some(key)) => old.is_same(key),
                (old, key) => old.is_none() && key.is_none(),
            };
            // The queues above may stand otherwise all the same: their sums have changed.
            if !is_same {
                let set = self.sets.entry(parent).or_default();
                if let Some(old) = self.entered.remove(&at) {
                    set.remove(&(old, at));
                }
                if let Some(key) = key {
                    set.insert((key.clone(), at));
                    self.entered.insert(at, key);
                }
            }
            if parent == NONE {
                return;
            }
            at = parent;
        }
    }

    /// The standing of a leaf's head on a side of the tree.
    fn key(&self, books: &Books, cells: &mut Cells, at: u32, leaf: u32) -> Option<Key> {
        let tree = &books.tree;
        let (head, identity) = self.entries.get(&leaf)?;
        let mut standing = HeadStanding {
            preempts: head.preempts,
            borrows: false,
            share: ShareValue::NONE,
            level: head.level,
            priority: head.priority,
            since: head.since,
        };
        let slot = &tree.slots[leaf as usize];
        let is_ranked = self.rules.fair && tree.slots[at as usize].parent != NONE;
        if is_ranked && at == leaf && head.usage.iter().all(|(of, _)| slot.cell(of.0).is_some()) {
            // Nothing else of the leaf changes.
            standing.share = (books.share)(tree, cells, at, &head.usage);
            standing.borrows = head.usage.iter().any(|(of, amount)| {
                let cell = slot.cell(of.0).map(|cell| &cells[cell]);
                cell.is_some_and(|cell| cell.drawn.saturating_add(*amount) > cell.subtree)
            });
        } else if is_ranked {
            let charge = |cells: &mut Cells, sign: i64| {
                for (of, amount) in &head.usage {
                    if let Some(cell) = slot.cell(of.0) {
                        cells.charge(cell, sign * amount);
                    }
                }
            };
            charge(cells, 1);
            standing.share = (books.share)(tree, cells, at, &[]);
            standing.borrows = borrows_any(tree, cells, at, head.usage.iter().map(|(of, _)| *of));
            charge(cells, -1);
        }
        if is_ranked && books.past.is_counted() {
            let past = (books.past_share)(books, cells, tree.id(at));
            standing.share = standing.share.plus(past);
        }
        Some(Key { rules: self.rules, standing, identity: identity.clone(), leaf })
    }

    /// All that are left, in order, if nothing changes meanwhile. O(n log n).
    pub fn drain(&mut self, tenants: &mut Tenants) -> Vec<(QueueId, Head)> {
        core::iter::from_fn(|| self.pop(tenants)).collect()
    }
}
