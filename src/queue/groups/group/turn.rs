//! Turns of a gang: the members that its next attempt is for.

use alloc::collections::BTreeSet;
use alloc::sync::Arc;

use super::QueuedGroup;
use crate::base::Time;
use crate::model::{DisruptionMode, GroupPolicy, PodGroup};
use crate::queue::terms::decision::RepairWay;

impl QueuedGroup {
    /// Sets whether it starts with its minimum and grows member by member, and whether lost members are
    /// placed together.
    pub(in crate::queue) fn set_turns(&mut self, by_turns: bool, repairs: bool) {
        (self.turn.by_turns, self.turn.repairs) = (by_turns, repairs);
    }

    /// The minimum of a group of pods, raised so that all members that replace lost ones are placed
    /// together; `None`: its own minimum holds.
    pub(in crate::queue) fn repair_minimum(&self) -> Option<u32> {
        if !self.turn.repairs || !self.is_repaired() || !grows_singly(&self.root) {
            return None;
        }
        let [count] = self.counts()[..] else { return None };
        let there = count.existing.saturating_sub(count.pending).saturating_add(count.done);
        let there = u32::try_from(there).unwrap_or(u32::MAX);
        let least = there.saturating_add(self.missing());
        (least > self.root.policy.minimum()).then_some(least)
    }

    /// The minimum that its next attempt is held to, if that is not its own.
    pub(in crate::queue) fn turn_minimum(&self) -> Option<u32> {
        self.repair_minimum().filter(|_| !self.stays_below())
    }

    /// Whether it stays below its size until there is room: any of the members may come back.
    pub(in crate::queue) fn stays_below(&self) -> bool {
        matches!(self.turn.said, Some((RepairWay::Stay, _)))
    }

    /// The tree of the pending members that the next attempt is for.
    pub(in crate::queue) fn turn_tree(&self) -> PodGroup {
        if let Some(tree) = self.repair_tree().filter(|_| !self.stays_below()) {
            return tree;
        }
        self.tree_with(&self.members, self.in_turn().as_ref())
    }

    /// The tree of the pending members that replace lost ones together, beside others that may.
    pub(in crate::queue) fn repair_tree(&self) -> Option<PodGroup> {
        let least = self.repair_minimum()?;
        let mut tree = self.tree_with(&self.members, self.in_turn().as_ref());
        let done = self.counts().first().map_or(0, |count| count.done);
        let least = least.saturating_sub(u32::try_from(done).unwrap_or(u32::MAX));
        tree.policy = GroupPolicy::Gang { min_count: least.max(1) };
        Some(tree)
    }

    /// Whether its waiting members only let it grow: its minimum runs, and no failing node took them.
    pub(in crate::queue) fn only_grows(&self) -> bool {
        let is_gang =
            matches!(self.root.policy, GroupPolicy::Gang { .. }) && self.root.groups.is_empty();
        is_gang
            && self.started()
            && self.runs_minimum()
            && !self.is_repaired()
            && !self.leaves_whole()
    }

    /// Its place among growing groups of its priority: one more than its members above the minimum. It is
    /// 0 if it has not started, or does not only grow.
    pub(in crate::queue) fn grown(&self) -> u32 {
        let grows = self.started() && self.below_since().is_none() && !self.is_repaired();
        if !self.turn.by_turns || !grows || !grows_singly(&self.root) {
            return 0;
        }
        let there: u64 = self.counts().iter().map(|count| count.existing - count.pending).sum();
        let above = there.saturating_sub(self.root.policy.minimum().into());
        u32::try_from(above).unwrap_or(u32::MAX).saturating_add(1)
    }

    /// A plan was made for a group that runs: its next turn comes behind its equals.
    pub(in crate::queue) fn end_turn(&mut self, now: Time) {
        if self.turn.by_turns && self.started() {
            self.join_behind(now);
            self.ready_since = None;
        }
    }

    /// Numbers of the ready members that the next attempt is for; `None`: all of them.
    pub(in crate::queue) fn in_turn(&self) -> Option<BTreeSet<u64>> {
        if !self.turn.by_turns || !grows_singly(&self.root) {
            return None;
        }
        let [count] = self.counts()[..] else { return None };
        let there = count.existing.saturating_sub(count.pending).saturating_add(count.done);
        let short = u64::from(self.root.policy.minimum()).saturating_sub(there);
        let turn = short.max(self.turn.lost.into()).max(1);
        let ready = || self.members.iter().filter(|(_, member)| member.is_ready());
        if turn >= ready().count() as u64 {
            return None;
        }
        let mut shapes = alloc::vec::Vec::new();
        let mut first = BTreeSet::new();
        for (seq, member) in ready() {
            let shape = member.pod().shape();
            if !shapes.contains(shape) {
                shapes.push(Arc::clone(shape));
                first.insert(*seq);
            }
        }
        if turn == 1 {
            return Some(first);
        }
        let of_one_shape = shapes.len() == 1;
        let turn = usize::try_from(turn).unwrap_or(usize::MAX);
        of_one_shape.then(|| ready().take(turn).map(|(seq, _)| *seq).collect())
    }

    /// Number of members that may go one by one so that the minimum runs on. It is 0 of a group of
    /// groups, of one that goes whole, and of one without a minimum.
    pub(in crate::queue) fn surplus(&self) -> u64 {
        let GroupPolicy::Gang { min_count } = self.root.policy else { return 0 };
        let [count] = self.counts()[..] else { return 0 };
        if !self.root.groups.is_empty() || self.root.disruption != DisruptionMode::Single {
            return 0;
        }
        count.running.saturating_add(count.done).saturating_sub(min_count.into())
    }

    /// Failing nodes took members of a group that runs.
    pub(in crate::queue) fn lose(&mut self, members: u32) {
        if self.started() {
            self.turn.lost = self.turn.lost.saturating_add(members);
        }
    }

    /// Members run that did not. One that was lost counts as replaced by each.
    pub(in crate::queue) fn regain(&mut self, members: u32) {
        self.turn.lost = self.turn.lost.saturating_sub(members);
        if self.turn.lost == 0 {
            self.turn.said = None;
        }
    }

    /// Whether it waits to replace members that failing nodes took.
    pub(in crate::queue) fn is_repaired(&self) -> bool {
        self.turn.lost > 0 && self.started() && !self.leaves_whole()
    }

    /// Number of waiting members that replace lost ones.
    pub(in crate::queue) fn missing(&self) -> u32 {
        self.turn.lost.min(u32::try_from(self.pending()).unwrap_or(u32::MAX))
    }

    /// Whether the minimum runs.
    pub(in crate::queue) fn runs_minimum(&self) -> bool {
        self.has_minimum(&self.counts())
    }

    /// Notes that a way of repair is said. Returns whether that is news.
    pub(in crate::queue) fn say_repair(&mut self, way: RepairWay) -> bool {
        let said = Some((way, self.missing()));
        core::mem::replace(&mut self.turn.said, said) != said
    }
}

/// Whether any number of members of a group can be placed beside those that run.
fn grows_singly(group: &PodGroup) -> bool {
    matches!(group.policy, GroupPolicy::Gang { .. })
        && group.groups.is_empty()
        && group.topology.slices.is_empty()
        && group.topology.spread.is_none()
        && !group.topology.balanced
}
