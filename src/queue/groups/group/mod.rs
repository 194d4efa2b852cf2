//! A root group in the scheduler, with its members.

#[cfg(feature = "serde")]
mod saved;
mod turn;

use alloc::collections::BTreeSet;
use alloc::string::String;
use alloc::vec::Vec;
use core::mem;

#[cfg(feature = "serde")]
pub(in crate::queue) use self::saved::SavedGroup;
use crate::base::{ObjectName, Time};
use crate::framework::Strategy;
use crate::model::{Pod, PodGroup};
use crate::queue::groups::counts::{MemberCounts, deficit, part_of_inner};
use crate::queue::groups::losses::Turn;
use crate::queue::groups::members::{Member, MemberState, Members};
use crate::queue::groups::phase::{Health, HealthChange, Phase, Vitals, add_wait};
use crate::queue::groups::run_time::RunTime;
use crate::queue::groups::tree::{build, minima, tree_names};
use crate::queue::settings::{Backoff, Waiting};
use crate::queue::terms::ids::{GroupId, QueueKey, Ticket};
use crate::queue::terms::observe::{Gate, Waits};
use crate::queue::terms::shortage::Shortage;
use crate::queue::terms::wake::WakeCondition;

/// A root group, its members, and its phase.
#[derive(Debug, Clone)]
pub(in crate::queue) struct QueuedGroup {
    /// The tree, without pods.
    root: PodGroup,
    name: ObjectName,
    /// Full names of the leaves, in tree order.
    leaves: Vec<String>,
    members: Members,
    phase: Phase,
    phase_since: Time,
    waits: Waits,
    /// Whether the embedder has paused it.
    paused: bool,
    health: Health,
    run_time: RunTime,
    turn: Turn,
    /// Time at which the group was first ready to be tried since it last ran.
    ready_since: Option<Time>,
    /// Sort key in its queue, while the group waits.
    key: Option<QueueKey>,
    /// Time at which the group joined the queue, or was last demoted.
    since: Time,
    /// Consecutive failures.
    attempts: u32,
    /// Consecutive conflicts.
    conflicts: u32,
    not_before: Time,
    strategy: Option<Strategy>,
    wake_on: WakeCondition,
    shortage: Option<Shortage>,
    /// Searches for victims in a row that found none.
    searches: u32,
    /// Claims to the room of victims since the group was bound.
    claims: u32,
    no_search_before: Time,
}

/// Full name of a pod.
pub(in crate::queue) fn full_name(pod: &Pod) -> String {
    pod.full_name().into()
}

impl QueuedGroup {
    pub(in crate::queue) fn new(root: PodGroup, leaves: Vec<String>, now: Time) -> QueuedGroup {
        QueuedGroup {
            name: root.full_name(),
            root,
            leaves,
            members: Members::default(),
            phase: Phase::Idle,
            phase_since: now,
            waits: Waits::default(),
            paused: false,
            health: Health::default(),
            run_time: RunTime::default(),
            turn: Turn::default(),
            ready_since: None,
            key: None,
            since: now,
            attempts: 0,
            conflicts: 0,
            not_before: Time::ZERO,
            strategy: None,
            wake_on: WakeCondition::Never,
            shortage: None,
            searches: 0,
            claims: 0,
            no_search_before: Time::ZERO,
        }
    }

    pub(in crate::queue) fn root(&self) -> &PodGroup {
        &self.root
    }

    /// Full name of the root.
    pub(in crate::queue) fn name(&self) -> &ObjectName {
        &self.name
    }

    /// Full names of the leaves, in tree order.
    pub(in crate::queue) fn leaves(&self) -> &[String] {
        &self.leaves
    }

    pub(in crate::queue) fn members(&self) -> &Members {
        &self.members
    }

    /// The members, to change. Counts follow by themselves; health and phase are the caller's.
    pub(in crate::queue) fn members_mut(&mut self) -> &mut Members {
        &mut self.members
    }

    pub(in crate::queue) fn phase(&self) -> &Phase {
        &self.phase
    }

    pub(in crate::queue) fn is_paused(&self) -> bool {
        self.paused
    }

    pub(in crate::queue) fn health(&self) -> Health {
        self.health
    }

    pub(in crate::queue) fn health_mut(&mut self) -> &mut Health {
        &mut self.health
    }

    /// Whether it has started, and has not left since.
    pub(in crate::queue) fn started(&self) -> bool {
        self.health.started()
    }

    /// Whether it is to leave whole.
    pub(in crate::queue) fn leaves_whole(&self) -> bool {
        self.health.leaves()
    }

    /// Since when it is below its minimum.
    pub(in crate::queue) fn below_since(&self) -> Option<Time> {
        self.health.below_since()
    }

    /// The time at which its run time is over; `None` if it does not run, or has no bound.
    pub(in crate::queue) fn run_limit(&self) -> Option<Time> {
        self.run_time.limit(self.root.max_run_time?)
    }

    /// The first pod of the present run began at this time, if that is known.
    pub(in crate::queue) fn began_at(&mut self, start: Option<Time>) {
        self.run_time.began_at(start);
    }

    /// The time that the present run, or else the next one, may take; `None`: no bound.
    pub(in crate::queue) fn run_time_left(&self) -> Option<core::time::Duration> {
        Some(self.run_time.left(self.root.max_run_time?))
    }

    pub(in crate::queue) fn ready_since(&self) -> Option<Time> {
        self.ready_since
    }

    pub(in crate::queue) fn key(&self) -> Option<&QueueKey> {
        self.key.as_ref()
    }

    pub(in crate::queue) fn since(&self) -> Time {
        self.since
    }

    pub(in crate::queue) fn attempts(&self) -> u32 {
        self.attempts
    }

    pub(in crate::queue) fn not_before(&self) -> Time {
        self.not_before
    }

    pub(in crate::queue) fn strategy(&self) -> Option<Strategy> {
        self.strategy
    }

    pub(in crate::queue) fn wake_on(&self) -> &WakeCondition {
        &self.wake_on
    }

    pub(in crate::queue) fn shortage(&self) -> Option<&Shortage> {
        self.shortage.as_ref()
    }

    pub(in crate::queue) fn no_search_before(&self) -> Time {
        self.no_search_before
    }

    /// Another tree of the same name. Members stay in leaves of their name; those whose leaf is gone
    /// are returned.
    pub(in crate::queue) fn set_tree(&mut self, tree: PodGroup, leaves: Vec<String>) -> Vec<u64> {
        if minima(&tree) > minima(&self.root) {
            self.health.raise();
        }
        self.root = tree;
        let old = mem::replace(&mut self.leaves, leaves);
        let leaves = &self.leaves;
        self.members.move_to(|leaf| {
            let name = old.get(leaf)?;
            leaves.iter().position(|other| other == name)
        })
    }

    /// Whether a tree has the same groups and partners.
    pub(in crate::queue) fn is_same_tree(&self, tree: &PodGroup) -> bool {
        tree_names(&self.root) == tree_names(tree) && self.root.gang_group == tree.gang_group
    }

    /// Sets whether the embedder has paused it. Returns whether it had.
    pub(in crate::queue) fn set_paused(&mut self, paused: bool) -> bool {
        mem::replace(&mut self.paused, paused)
    }

    pub(in crate::queue) fn set_strategy(&mut self, strategy: Option<Strategy>) {
        self.strategy = strategy;
    }

    pub(in crate::queue) fn set_shortage(&mut self, shortage: Option<Shortage>) {
        self.shortage = shortage;
    }

    /// Sets the wake condition. Returns the one before.
    pub(in crate::queue) fn set_wake_on(&mut self, wake_on: WakeCondition) -> WakeCondition {
        mem::replace(&mut self.wake_on, wake_on)
    }

    /// Enters a phase. Returns the one before.
    pub(in crate::queue) fn enter(&mut self, phase: Phase, now: Time) -> Phase {
        let elapsed = now.since(self.phase_since);
        add_wait(&mut self.waits, &self.phase, elapsed);
        self.phase_since = now;
        if phase.waits() {
            self.ready_since.get_or_insert(now);
        }
        mem::replace(&mut self.phase, phase)
    }

    /// Time spent in each state, the present one included.
    pub(in crate::queue) fn waits(&self, now: Time) -> Waits {
        let mut waits = self.waits;
        add_wait(&mut waits, &self.phase, now.since(self.phase_since));
        waits
    }

    /// The view that an embedder's order reads.
    pub(in crate::queue) fn waiting(&self) -> Waiting<'_> {
        Waiting {
            group: &self.root,
            since: self.since,
            attempts: self.attempts,
            pending: self.members.ready(),
        }
    }

    /// Sets the sort key of its rank. Returns it.
    pub(in crate::queue) fn set_rank(&mut self, id: GroupId, rank: i64, grown: u32) -> QueueKey {
        let priority = core::cmp::Reverse(self.root.priority);
        let key = QueueKey { rank, priority, grown, since: self.since, group: id };
        self.key = Some(key.clone());
        key
    }

    pub(in crate::queue) fn take_key(&mut self) -> Option<QueueKey> {
        self.key.take()
    }

    /// The group joins the queue behind its equals.
    pub(in crate::queue) fn join_behind(&mut self, now: Time) {
        self.since = now;
    }

    /// Counts an attempt that failed, without a back-off.
    pub(in crate::queue) fn count_attempt(&mut self) {
        self.attempts = self.attempts.saturating_add(1);
    }

    /// Counts a failure: the back-off grows. Returns the number of failures in a row.
    pub(in crate::queue) fn count_failure(&mut self, now: Time, backoff: Backoff) -> u32 {
        self.count_attempt();
        self.not_before = now.after(backoff.after(self.attempts));
        self.attempts
    }

    /// Counts a conflict: from the second one on the group backs off.
    pub(in crate::queue) fn count_conflict(&mut self, now: Time, backoff: Backoff) {
        self.conflicts = self.conflicts.saturating_add(1);
        if self.conflicts > 1 {
            self.not_before = now.after(backoff.after(self.conflicts - 1));
        }
    }

    /// A plan of the group has been bound, with all of its pods if `whole`.
    pub(in crate::queue) fn succeeded(&mut self, whole: bool) {
        self.conflicts = 0;
        if whole {
            self.attempts = 0;
            self.claims = 0;
            self.not_before = Time::ZERO;
            self.shortage = None;
        }
    }

    /// A search for victims has found some, or not. Returns the number of such answers in a row:
    /// searches since some were found, or claims since the group was bound.
    pub(in crate::queue) fn count_search(&mut self, is_found: bool) -> u32 {
        if is_found {
            self.searches = 0;
            self.claims = self.claims.saturating_add(1);
            return self.claims;
        }
        self.searches = self.searches.saturating_add(1);
        self.searches
    }

    /// Sets the time before which no victims are searched.
    pub(in crate::queue) fn set_no_search_before(&mut self, until: Time) {
        self.no_search_before = until;
    }

    /// Puts the next search for victims off.
    pub(in crate::queue) fn put_search_off(&mut self, until: Time) {
        self.no_search_before = self.no_search_before.max(until);
    }

    /// Follows a change of members or of its plan: whether it has started, and whether it is below
    /// its minimum. With the change, how long it waited if it has started now. O(tree).
    pub(in crate::queue) fn update_health(
        &mut self,
        now: Time,
        watches_half_bound: bool,
    ) -> (HealthChange, core::time::Duration) {
        let counts = self.counts();
        let own = &self.members;
        let bound = own.of(MemberState::Bound);
        let vitals = Vitals {
            has_minimum: self.has_minimum(&counts),
            is_gone: bound + own.of(MemberState::Done) + own.of(MemberState::Planned) == 0,
            has_left: bound + own.of(MemberState::Unbinding) == 0,
            runs: own.running() > 0,
            is_busy: self.phase.busy(),
            watches_half_bound,
        };
        let before = self.health;
        let change = self.health.update(now, vitals);
        if change.started {
            self.run_time.begin(now);
        } else if before.started() && !self.health.started() {
            self.run_time.end(now, before.is_overdue());
        }
        if !self.health.started() {
            self.turn.forget_losses();
        }
        let waited = self.ready_since.map(|since| now.since(since)).unwrap_or_default();
        if change.started {
            self.ready_since = None;
        }
        (change, waited)
    }

    /// Member counts, leaf by leaf. O(leaves).
    pub(in crate::queue) fn counts(&self) -> Vec<MemberCounts> {
        self.members.counts(self.leaves.len())
    }

    /// The gate of a tree: its first group with too few members, if that keeps the root below its
    /// minimum.
    pub(in crate::queue) fn gate(&self, counts: &[MemberCounts]) -> Option<Gate> {
        let existing = |leaf: &MemberCounts| leaf.existing + leaf.done;
        deficit(&self.root, &mut counts.iter(), &existing).0
    }

    /// Whether enough members run or have finished.
    pub(in crate::queue) fn has_minimum(&self, counts: &[MemberCounts]) -> bool {
        let running = |leaf: &MemberCounts| leaf.running + leaf.done;
        deficit(&self.root, &mut counts.iter(), &running).0.is_none()
    }

    /// Whether the members that run or are planned satisfy the minimum.
    pub(in crate::queue) fn keeps_minimum(&self) -> bool {
        let mut counts = self.counts();
        for count in &mut counts {
            count.running = count.existing.saturating_sub(count.pending);
        }
        self.has_minimum(&counts)
    }

    /// The first group of the tree that would get some of these members, yet less than its minimum;
    /// or the root, if it would stay below its own. Members that run, are planned or have finished
    /// count. O(these members).
    pub(in crate::queue) fn part_of(&self, members: &BTreeSet<u64>) -> Option<Gate> {
        let mut counts = self.counts();
        // From here on, `existing` is what there would be, and `pending` what would be new.
        for count in &mut counts {
            count.existing = count.existing.saturating_sub(count.pending) + count.done;
            count.pending = 0;
        }
        for member in members.iter().filter_map(|seq| self.members.get(seq)) {
            let Some(count) = counts.get_mut(member.leaf()) else { continue };
            count.pending += 1;
            if matches!(member.state(), MemberState::Pending | MemberState::Unbinding) {
                count.existing += 1;
            }
        }
        let root = deficit(&self.root, &mut counts.iter(), &|count| count.existing).0;
        part_of_inner(&self.root, &mut counts.as_slice()).or(root)
    }

    /// Whether every group of the tree that keeps members that run keeps its minimum without some.
    /// O(these members).
    pub(in crate::queue) fn keeps_minima(&self, gone: &BTreeSet<u64>) -> bool {
        let mut counts = self.counts();
        // From here on, `existing` is what would count, and `pending` what of it would run.
        for count in &mut counts {
            count.pending = count.running;
        }
        for member in gone.iter().filter_map(|seq| self.members.get(seq)) {
            if let Some(count) = counts.get_mut(member.leaf())
                && member.state() == MemberState::Bound
            {
                count.pending = count.pending.saturating_sub(1);
            }
        }
        for count in &mut counts {
            count.existing = count.pending + count.done;
        }
        let root = deficit(&self.root, &mut counts.iter(), &|count| count.existing).0;
        root.is_none() && part_of_inner(&self.root, &mut counts.as_slice()).is_none()
    }

    /// Whether no member runs but for these, and one of these does. O(these members).
    pub(in crate::queue) fn is_left_without(&self, members: &BTreeSet<u64>) -> bool {
        let own = members.iter().filter_map(|seq| self.members.get(seq));
        let running = self.members.running();
        running > 0 && own.filter(|member| member.runs()).count() == running
    }

    /// The tree of the pending members. The planner counts running members itself; finished ones
    /// are subtracted from the minimum.
    pub(in crate::queue) fn pending_tree(&self) -> PodGroup {
        self.tree_of(&self.members)
    }

    /// The tree of the pending ones of some members.
    pub(in crate::queue) fn tree_of(&self, members: &Members) -> PodGroup {
        self.tree_with(members, None)
    }

    fn tree_with(&self, members: &Members, turn: Option<&BTreeSet<u64>>) -> PodGroup {
        let mut pods: Vec<Vec<Pod>> = alloc::vec![Vec::new(); self.leaves.len()];
        if let [all] = &mut pods[..] {
            all.reserve_exact(members.ready());
        }
        for (_, member) in in_tree(members, turn) {
            if let Some(pods) = pods.get_mut(member.leaf()) {
                pods.push(member.pod().clone());
            }
        }
        let counts = members.counts(self.leaves.len());
        build(&self.root, &mut counts.iter().zip(pods))
    }

    /// Number of members that can be placed.
    pub(in crate::queue) fn pending(&self) -> usize {
        self.members.ready()
    }

    /// The ticket of the plan that is held or being bound.
    pub(in crate::queue) fn ticket(&self) -> Option<Ticket> {
        self.phase.ticket()
    }
}

/// The ready ones of some members, of a turn if there is one.
fn in_tree<'a>(
    members: &'a Members,
    turn: Option<&'a BTreeSet<u64>>,
) -> impl Iterator<Item = (&'a u64, &'a Member)> {
    members.iter().filter(move |(seq, member)| {
        member.is_ready() && turn.is_none_or(|turn| turn.contains(seq))
    })
}

#[cfg(test)]
mod tests;
