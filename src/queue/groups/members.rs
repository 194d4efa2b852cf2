//! Members of a group, counted by leaf and state as they change.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use super::counts::MemberCounts;
use crate::model::Pod;
use crate::queue::terms::ids::Ticket;

/// A pod of a group.
#[derive(Debug, Clone)]
pub(in crate::queue) struct Member {
    leaf: usize,
    pod: Pod,
    state: MemberState,
    on_node: bool,
    ticket: Option<Ticket>,
}

/// State of a member.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub(in crate::queue) enum MemberState {
    /// Waits for a placement; not in the cluster.
    Pending,
    /// Planned; in the cluster.
    Planned,
    /// Bound; in the cluster.
    Bound,
    /// Being unbound; in the cluster until that is reported.
    Unbinding,
    /// Finished.
    Done,
}

impl Member {
    /// A pending member of a leaf.
    pub(in crate::queue) fn new(leaf: usize, pod: Pod) -> Member {
        let pod = without_run(pod);
        Member { leaf, pod, state: MemberState::Pending, on_node: false, ticket: None }
    }

    /// Index of its leaf.
    pub(in crate::queue) fn leaf(&self) -> usize {
        self.leaf
    }

    pub(in crate::queue) fn pod(&self) -> &Pod {
        &self.pod
    }

    pub(in crate::queue) fn state(&self) -> MemberState {
        self.state
    }

    /// The last plan that placed it.
    pub(in crate::queue) fn ticket(&self) -> Option<Ticket> {
        self.ticket
    }

    /// Whether it can be placed: it is pending, and no gate holds it.
    pub(in crate::queue) fn is_ready(&self) -> bool {
        self.state == MemberState::Pending && self.pod.scheduling_gates.is_empty()
    }

    /// Whether it is bound to a node that exists.
    pub(in crate::queue) fn runs(&self) -> bool {
        self.state == MemberState::Bound && self.on_node
    }

    fn tally(&self) -> Tally {
        let mut tally = Tally::default();
        let field = match self.state {
            MemberState::Pending if self.pod.scheduling_gates.is_empty() => &mut tally.pending,
            MemberState::Pending => &mut tally.gated,
            MemberState::Planned => &mut tally.planned,
            MemberState::Bound if self.on_node => &mut tally.running,
            MemberState::Bound => &mut tally.lost,
            MemberState::Unbinding => &mut tally.unbinding,
            MemberState::Done => &mut tally.done,
        };
        *field = 1;
        tally
    }
}

/// Members by state.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Tally {
    gated: u64,
    pending: u64,
    planned: u64,
    /// Bound to a node that exists.
    running: u64,
    /// Bound to a node that is gone.
    lost: u64,
    unbinding: u64,
    done: u64,
}

impl Tally {
    fn change(&mut self, by: Tally, change: impl Fn(u64, u64) -> u64) {
        self.gated = change(self.gated, by.gated);
        self.pending = change(self.pending, by.pending);
        self.planned = change(self.planned, by.planned);
        self.running = change(self.running, by.running);
        self.lost = change(self.lost, by.lost);
        self.unbinding = change(self.unbinding, by.unbinding);
        self.done = change(self.done, by.done);
    }

    fn counts(&self) -> MemberCounts {
        let existing = self.pending + self.planned + self.running;
        let Tally { running, pending, done, .. } = *self;
        MemberCounts { existing, running, pending, done }
    }
}

/// A pod as it can be placed anew: without what only its present run says. The cluster has that.
fn without_run(mut pod: Pod) -> Pod {
    pod.start = None;
    if pod.node.take().is_some() {
        (pod.device_indexes, pod.deleting) = (Vec::new(), false);
        pod.zone_shares = Vec::new();
    }
    pod
}

/// The members of a group. Every change of a member keeps the tallies in step: O(log members).
#[derive(Debug, Clone, Default)]
pub(in crate::queue) struct Members {
    /// By number of arrival, the order in which they are tried.
    by_seq: BTreeMap<u64, Member>,
    /// By index of the leaf.
    leaves: BTreeMap<usize, Tally>,
    all: Tally,
    /// Whether a member runs now that did not when this was last taken.
    has_arrived: bool,
}

impl Members {
    #[allow(clippy::trivially_copy_pass_by_ref, reason = "as a map")]
    pub(in crate::queue) fn get(&self, seq: &u64) -> Option<&Member> {
        self.by_seq.get(seq)
    }

    pub(in crate::queue) fn iter(&self) -> impl Iterator<Item = (&u64, &Member)> {
        self.by_seq.iter()
    }

    pub(in crate::queue) fn values(&self) -> impl Iterator<Item = &Member> {
        self.by_seq.values()
    }

    pub(in crate::queue) fn len(&self) -> usize {
        self.by_seq.len()
    }

    /// Adds a member as it was saved.
    #[cfg(feature = "serde")]
    pub(in crate::queue) fn restore(
        &mut self,
        seq: u64,
        leaf: usize,
        pod: Pod,
        (state, ticket): (MemberState, Option<Ticket>),
    ) {
        self.insert(seq, Member { leaf, pod, state, on_node: false, ticket });
    }

    /// Adds a member, or replaces it.
    pub(in crate::queue) fn insert(&mut self, seq: u64, member: Member) {
        self.remove(seq);
        self.count((member.leaf, member.tally()), u64::wrapping_add);
        self.has_arrived |= member.runs();
        self.by_seq.insert(seq, member);
    }

    pub(in crate::queue) fn remove(&mut self, seq: u64) -> Option<Member> {
        let member = self.by_seq.remove(&seq)?;
        self.count((member.leaf, member.tally()), u64::wrapping_sub);
        Some(member)
    }

    /// Changes a member; `None` if it is not known.
    fn change<T>(&mut self, seq: u64, change: impl FnOnce(&mut Member) -> T) -> Option<T> {
        let member = self.by_seq.get_mut(&seq)?;
        let before = (member.leaf, member.tally());
        let answer = change(member);
        let after = (member.leaf, member.tally());
        self.has_arrived |= before.1.running < after.1.running;
        self.count(before, u64::wrapping_sub);
        self.count(after, u64::wrapping_add);
        Some(answer)
    }

    /// The member goes to a state. One that is not in the cluster is on no node.
    pub(in crate::queue) fn set_state(&mut self, seq: u64, state: MemberState) {
        self.change(seq, |member| {
            member.state = state;
            member.on_node &= !matches!(state, MemberState::Pending | MemberState::Done);
        });
    }

    /// A plan has placed the member.
    pub(in crate::queue) fn plan(&mut self, seq: u64, ticket: Ticket) {
        self.change(seq, |member| {
            member.state = MemberState::Planned;
            member.on_node = true;
            member.ticket = Some(ticket);
        });
    }

    /// Whether the member is on a node that exists.
    pub(in crate::queue) fn set_on_node(&mut self, seq: u64, on_node: bool) {
        if self.by_seq.get(&seq).is_some_and(|member| member.on_node != on_node) {
            self.change(seq, |member| member.on_node = on_node);
        }
    }

    /// Another specification of a pending member.
    pub(in crate::queue) fn replace(&mut self, seq: u64, leaf: usize, pod: Pod) {
        self.change(seq, |member| (member.leaf, member.pod) = (leaf, without_run(pod)));
    }

    /// Other leaves: `to` gives the new leaf of an old one. Returns members without a leaf.
    pub(in crate::queue) fn move_to(&mut self, to: impl Fn(usize) -> Option<usize>) -> Vec<u64> {
        let mut homeless = Vec::new();
        let members = core::mem::take(&mut self.by_seq);
        (self.leaves, self.all) = (BTreeMap::new(), Tally::default());
        for (seq, mut member) in members {
            match to(member.leaf) {
                Some(leaf) => member.leaf = leaf,
                None => homeless.push(seq),
            }
            self.insert(seq, member);
        }
        homeless
    }

    /// The members that are not pending, and of the pending ones those that are named, as ready to
    /// be placed anew wherever they are.
    pub(in crate::queue) fn placed_anew(&self, named: &BTreeSet<u64>) -> Members {
        let mut members = Members::default();
        for (&seq, member) in &self.by_seq {
            let mut member = member.clone();
            if named.contains(&seq) {
                (member.state, member.on_node) = (MemberState::Pending, false);
            } else if member.state == MemberState::Pending {
                continue;
            }
            members.insert(seq, member);
        }
        members
    }

    /// The members with planned ones pending again, as they were when the plan was made.
    pub(in crate::queue) fn before_plan(&self) -> Members {
        let mut members = self.clone();
        let planned: Vec<u64> = self
            .iter()
            .filter(|(_, member)| member.state == MemberState::Planned)
            .map(|(seq, _)| *seq)
            .collect();
        for seq in planned {
            members.set_state(seq, MemberState::Pending);
        }
        members
    }

    /// Counts, leaf by leaf, of so many leaves.
    pub(in crate::queue) fn counts(&self, leaves: usize) -> Vec<MemberCounts> {
        let tally = |leaf| self.leaves.get(&leaf).copied().unwrap_or_default();
        (0..leaves).map(|leaf| tally(leaf).counts()).collect()
    }

    /// Number of members that can be placed.
    pub(in crate::queue) fn ready(&self) -> usize {
        usize::try_from(self.all.pending).unwrap_or(usize::MAX)
    }

    /// Number of members bound to a node that exists.
    pub(in crate::queue) fn running(&self) -> usize {
        usize::try_from(self.all.running).unwrap_or(usize::MAX)
    }

    /// Whether a member runs that did not when this was last taken.
    pub(in crate::queue) fn has_arrived(&self) -> bool {
        self.has_arrived
    }

    pub(in crate::queue) fn take_arrived(&mut self) -> bool {
        core::mem::take(&mut self.has_arrived)
    }

    /// Number of members of a state.
    pub(in crate::queue) fn of(&self, state: MemberState) -> usize {
        let all = &self.all;
        let count = match state {
            MemberState::Pending => all.pending + all.gated,
            MemberState::Planned => all.planned,
            MemberState::Bound => all.running + all.lost,
            MemberState::Unbinding => all.unbinding,
            MemberState::Done => all.done,
        };
        usize::try_from(count).unwrap_or(usize::MAX)
    }

    /// Whether there are members, and all have finished.
    pub(in crate::queue) fn have_finished(&self) -> bool {
        self.len() > 0 && self.of(MemberState::Done) == self.len()
    }

    fn count(&mut self, (leaf, tally): (usize, Tally), change: impl Fn(u64, u64) -> u64) {
        self.leaves.entry(leaf).or_default().change(tally, &change);
        self.all.change(tally, &change);
    }

    /// Whether the tallies are those of the members, each of which is on a node as it says. O(members).
    pub(in crate::queue) fn is_in_step(&self, is_on_node: impl Fn(&Member) -> bool) -> bool {
        let mut anew = Members::default();
        for (&seq, member) in &self.by_seq {
            anew.insert(seq, member.clone());
        }
        let is_same = |(leaf, tally): (&usize, &Tally)| {
            *tally == anew.leaves.get(leaf).copied().unwrap_or_default()
        };
        anew.all == self.all
            && self.leaves.iter().all(is_same)
            && self
                .values()
                .all(|own| own.state != MemberState::Bound || own.on_node == is_on_node(own))
    }
}
