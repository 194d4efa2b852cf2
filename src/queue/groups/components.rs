//! The parts that a gang group falls into when a group leaves it.

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::vec::Vec;

use crate::queue::terms::ids::GroupId;

/// The groups that a group names or is named by, found one by one; some perhaps twice.
pub(in crate::queue) type Neighbours<'a> = Box<dyn Iterator<Item = GroupId> + 'a>;

/// The remaining parts of a gang group.
#[derive(Debug, Default)]
pub(in crate::queue) struct Components {
    /// The first neighbour of the group that left in each part, and the groups of the part. Those
    /// of the last part may be missing.
    pub(in crate::queue) parts: Vec<(GroupId, Vec<GroupId>)>,
    /// Number of groups looked at.
    pub(in crate::queue) checked: u64,
}

impl Components {
    /// The parts that the neighbours of a group fall into without it.
    ///
    /// A search begins at each neighbour. The searches take turns, a group at a time; two that meet
    /// become one, and the last one left is not finished. So a split costs as much as the smaller
    /// parts, O(n log n) groups in all while n groups that form a forest are removed. Where the
    /// group held nothing together it costs as much as the searches take to meet.
    pub(in crate::queue) fn new<'a>(
        open: &BTreeSet<GroupId>,
        neighbours: impl Fn(GroupId) -> Neighbours<'a>,
    ) -> Components {
        let Components { mut parts, mut checked } = Components::default();
        let searches = open.iter().map(|group| Some(Search::new(*group)));
        let mut searches: Vec<Option<Search<'a>>> = searches.collect();
        let numbers = open.iter().zip(0..);
        let mut search_of: BTreeMap<GroupId, usize> = numbers.map(|(id, at)| (*id, at)).collect();
        // The search that each has joined; itself, if none.
        let mut joined: Vec<usize> = (0..searches.len()).collect();
        let mut turns: VecDeque<usize> = (0..searches.len()).collect();
        while turns.len() > 1
            && let Some(at) = turns.pop_front()
        {
            // A search that joined another has no turn any more.
            let Some(search) = &mut searches[at] else { continue };
            let Some(group) = search.next(&neighbours) else {
                parts.extend(searches[at].take().map(|search| (search.first, search.found)));
                continue;
            };
            turns.push_back(at);
            checked += 1;
            let Some(&met) = search_of.get(&group) else {
                search_of.insert(group, at);
                search.insert(group);
                continue;
            };
            let met = last_of(&mut joined, met);
            let size = |at: usize| searches[at].as_ref().map_or(0, |search| search.found.len());
            let (from, into) = if size(at) > size(met) { (met, at) } else { (at, met) };
            if from != into
                && let Some(small) = searches[from].take()
                && let Some(large) = &mut searches[into]
            {
                large.join(small);
                joined[from] = into;
            }
        }
        parts.extend(searches.into_iter().flatten().map(|search| (search.first, search.found)));
        Components { parts, checked }
    }
}

/// The last of a chain of searches that joined each other; halves the chain on the way.
fn last_of(joined: &mut [usize], mut at: usize) -> usize {
    while joined[at] != at {
        joined[at] = joined[joined[at]];
        at = joined[at];
    }
    at
}

/// A search of the groups that hang together with a neighbour.
struct Search<'a> {
    /// The first of the neighbours it began at.
    first: GroupId,
    found: Vec<GroupId>,
    /// Groups found whose neighbours have not been looked at.
    waiting: VecDeque<GroupId>,
    /// The neighbours of the others that are left.
    under_way: VecDeque<Neighbours<'a>>,
}

impl<'a> Search<'a> {
    fn new(first: GroupId) -> Search<'a> {
        let (found, waiting) = (Vec::from([first]), VecDeque::from([first]));
        Search { first, found, waiting, under_way: VecDeque::new() }
    }

    fn insert(&mut self, group: GroupId) {
        self.found.push(group);
        self.waiting.push_back(group);
    }

    /// The next neighbour of a group found; `None` if there is no other.
    fn next(&mut self, neighbours: impl Fn(GroupId) -> Neighbours<'a>) -> Option<GroupId> {
        loop {
            if let Some(current) = self.under_way.front_mut() {
                if let Some(group) = current.next() {
                    return Some(group);
                }
                self.under_way.pop_front();
            } else {
                self.under_way.push_back(neighbours(self.waiting.pop_front()?));
            }
        }
    }

    fn join(&mut self, other: Search<'a>) {
        self.first = self.first.min(other.first);
        self.found.extend(other.found);
        self.waiting.extend(other.waiting);
        self.under_way.extend(other.under_way);
    }
}

#[cfg(test)]
mod tests;
