//! The model's own sums of quota: each queue's use, its limit, and what may be borrowed.

use std::collections::BTreeMap;

use super::drive::Waits;
use super::world::{Gang, World};

/// Used and allowed amounts of each queue, as docs/tenants.md and Kueue define them.
pub(super) struct Sums {
    /// Use of a queue and of those below.
    used: BTreeMap<String, i64>,
    /// The part of it that is drawn from the queue's parent and itself, by quota: use of children
    /// within guarantees that they do not lend is not the parent's.
    drawn: BTreeMap<String, i64>,
    subtree: BTreeMap<String, i64>,
    /// Queues in which a permit holds a plan: its pods are charged, and the model does not know which they are.
    held: std::collections::BTreeSet<String>,
}

impl World {
    /// The use of queues by the groups of a scheduler. A pod counts from its plan until it is gone, also
    /// after its group was removed; the pods of a queue that the scheduler does not know count once it does.
    fn leaves_used(&self, owner: usize) -> BTreeMap<String, i64> {
        let mut used: BTreeMap<String, i64> = BTreeMap::new();
        for (name, pod) in &self.pods {
            let gang = pod.root.as_ref().map(|root| &self.gangs[root]);
            let left = pod.charged.as_ref().map(|(of, queue)| (*of, queue));
            let Some((of, queue)) = gang.map(|own| (own.owner, &own.tree.queue)).or(left) else {
                continue;
            };
            let holds = pod.node.is_some() || self.is_in_flight(name) || self.is_leaving(name);
            if of == owner && holds && self.processes[owner].knows_queue(queue) {
                *used.entry(queue.clone()).or_default() += pod.gpus();
            }
        }
        used
    }

    /// Quota of a removed queue goes with the queue, whenever that is.
    pub(super) fn follow_queues(&mut self) {
        let mut drains = std::collections::BTreeSet::new();
        for (name, _) in self.queues.iter().filter(|(_, state)| !state.there) {
            let all = self.processes.iter().enumerate();
            let keep = all.filter(|(_, process)| process.knows_queue(name));
            drains.extend(keep.map(|(owner, _)| (owner, name.clone())));
        }
        if !self.drains.is_subset(&drains) {
            self.quota_changed = self.now;
        }
        self.drains = drains;
    }

    fn children<'a>(&'a self, of: &'a str) -> impl Iterator<Item = &'a String> {
        let is = move |(_, state): &(&String, &super::setup::QueueState)| {
            state.parent.as_deref() == Some(of)
        };
        self.queues.iter().filter(is).map(|(name, _)| name)
    }

    pub(super) fn sums(&self, owner: usize) -> Sums {
        let leaves = self.leaves_used(owner);
        let is_held = |(name, gang): &(&String, &Gang)| {
            gang.owner == owner
                && self.processes[owner].waits(name) == Waits::Held
                && self.members(name).any(|(_, pod)| pod.gpus() > 0)
        };
        let held = self.gangs.iter().filter(is_held).map(|(_, gang)| gang.tree.queue.clone());
        let held = held.collect();
        let mut sums = Sums { used: leaves.clone(), drawn: leaves, subtree: BTreeMap::new(), held };
        self.add_up("root", &mut sums);
        sums
    }

    fn add_up(&self, queue: &str, sums: &mut Sums) {
        let state = &self.queues[queue];
        let (mut used, mut drawn, mut subtree) = (0, 0, state.nominal);
        if state.leaf {
            used = sums.used.get(queue).copied().unwrap_or(0);
            drawn = used;
            // A removed queue keeps its quota until the last of its pods is gone.
            let is_kept = state.there || used > 0 || sums.held.contains(queue);
            subtree = if is_kept { subtree } else { 0 };
        }
        for child in self.children(queue) {
            self.add_up(child, sums);
            let kept = self.kept(child, sums);
            used += sums.used[child];
            drawn += (sums.drawn[child] - kept).max(0);
            subtree += sums.subtree[child] - kept;
        }
        sums.used.insert(queue.to_owned(), used);
        sums.drawn.insert(queue.to_owned(), drawn);
        sums.subtree.insert(queue.to_owned(), subtree);
    }

    /// The part of a queue's guarantees that is not lent.
    fn kept(&self, queue: &str, sums: &Sums) -> i64 {
        let lending = self.queues[queue].lending;
        lending.map_or(0, |lent| (sums.subtree[queue] - lent).max(0))
    }

    /// How much more a queue may use by guarantees, loans and limits on both.
    fn available(&self, queue: &str, sums: &Sums) -> i64 {
        let state = &self.queues[queue];
        let (subtree, drawn) = (sums.subtree[queue], sums.drawn[queue]);
        let Some(parent) = &state.parent else { return subtree - drawn };
        let kept = self.kept(queue, sums);
        let mut above = self.available(parent, sums);
        if let Some(borrowing) = state.borrowing {
            let left = (subtree - kept) - (drawn - kept).max(0) + borrowing;
            above = above.min(left);
        }
        (kept - drawn).max(0) + above
    }

    fn path(&self, queue: &str) -> Vec<String> {
        let mut path = vec![queue.to_owned()];
        while let Some(parent) = self.queues[path.last().unwrap()].parent.clone() {
            path.push(parent);
        }
        path
    }

    /// A group that is given room has quota for it.
    pub(super) fn check_quota(&self, owner: usize, group: &str) {
        let queue = &self.gangs[group].tree.queue;
        // A unit that moves keeps its quota, whatever becomes of the queue; members that come later may take the
        // places that it has left.
        let has_places = self.places_left.get(group).is_some_and(|until| self.now <= *until);
        if !self.rules.tenants || self.moved.contains(group) || has_places {
            return;
        }
        let state = &self.queues[queue];
        assert!(state.there, "{group} is admitted by {queue}, which is removed");
        let sums = self.sums(owner);
        for at in self.path(queue) {
            let used = sums.used[&at];
            let limit = self.queues[&at].limit;
            assert!(
                limit.is_none_or(|limit| used <= limit),
                "{group}: {at} uses {used} of {limit:?}"
            );
        }
        let available = self.available(queue, &sums);
        assert!(
            available >= 0,
            "{group}: {queue} uses {} more than may be borrowed: {:?} {:?}: {}",
            -available,
            sums.used,
            sums.subtree,
            self.processes[owner].queue_story(queue)
        );
    }

    /// A group is named by the quota of another queue: its own queue, and all above it up to where
    /// the two meet, use more than is guaranteed to them.
    pub(super) fn check_borrows(&self, owner: usize, root: &str, by: &str) {
        // What is reserved for other claims, and what a permit holds, counts as used.
        let is_held = |(name, gang): (&String, &Gang)| {
            gang.owner == owner && self.processes[owner].waits(name) == Waits::Held
        };
        let mut claims = self.claims.keys().chain(&self.claiming);
        if claims.any(|(other, group)| *other == owner && group != by)
            || self.gangs.iter().any(is_held)
        {
            return;
        }
        let (theirs, own) = (&self.gangs[root].tree.queue, &self.gangs[by].tree.queue);
        let sums = self.sums(owner);
        let (path, other) = (self.path(theirs), self.path(own));
        // So does what is kept for units that have left their nodes to move, also if their pods are gone.
        let is_kept = |at: &String| {
            let mut gangs = self.gangs.iter().filter(|(_, gang)| gang.owner == owner);
            gangs.any(|(name, gang)| {
                let is_left = self.places_left.get(name).is_some_and(|until| self.now <= *until);
                (is_left || self.places.contains_key(name))
                    && self.path(&gang.tree.queue).contains(at)
            })
        };
        for at in path.iter().take_while(|at| !other.contains(at)) {
            assert!(
                sums.drawn[at] > sums.subtree[at] || is_kept(at),
                "{root} goes for {by}, and {at} uses {} of {} that are guaranteed: {}",
                sums.drawn[at],
                sums.subtree[at],
                self.processes[owner].queue_story(theirs)
            );
        }
    }

    /// Whether a queue has so much of its own guarantee left, within all limits, and nobody has
    /// borrowed it.
    pub(super) fn is_within_guarantee(&self, owner: usize, queue: &str, amount: i64) -> bool {
        let path = self.path(queue);
        if path.iter().any(|at| !self.queues[at].there) {
            return false;
        }
        let sums = self.sums(owner);
        let headroom = path.iter().all(|at| {
            let limit = self.queues[at].limit;
            limit.is_none_or(|limit| sums.used[at] + amount <= limit)
        });
        headroom
            && sums.drawn[queue] + amount <= sums.subtree[queue]
            && amount <= self.available(queue, &sums)
    }
}
