//! The size that a group should have: what an embedder may ask for.

use alloc::borrow::ToOwned;
use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::String;

use super::Scheduler;
use crate::base::Time;
use crate::model::{Pod, PodGroup};
use crate::place::{Outcome, PlaceError, Planner};
use crate::queue::groups::{Member, MemberState, QueuedGroup, full_name};
use crate::queue::holds::{HoldId, View};
use crate::queue::terms::error::QueueError;
use crate::queue::terms::ids::GroupId;
use crate::queue::terms::status::DesiredSize;

/// Members that are tried at first; four times as many while all of them fit.
const FIRST: usize = 64;

impl Scheduler {
    /// The number of members that a group of pods should have now, up to `most`. It counts those that run
    /// or are being bound, and as many more as there is room and quota for in the group's domain. A group that is to leave, or has no room to start, should have its minimum.
    ///
    /// Members that wait count first; then come copies of the last of them, or of the last that runs.
    /// Room is counted beside all that is reserved for others, and nobody is evicted for it. Promises of
    /// backfill are not looked at. The state does not change. O(placement of the members).
    ///
    /// ```
    /// use phalanx::queue::Settings;
    /// use phalanx::{Cluster, Framework, Node, Pod, PodGroup, Scheduler, Time};
    ///
    /// let mut cluster = Cluster::new();
    /// cluster.add_node(Node::new("n1").capacity("gpu", 8))?;
    /// let mut scheduler = Scheduler::new(cluster, Framework::default(), Settings::default());
    /// let now = Time::ZERO;
    /// scheduler.handle_group(PodGroup::of("g", 2, Pod::new().request("gpu", 1)), now)?;
    /// let size = scheduler.desired_size("default/g", 6, now)?;
    /// assert_eq!((size.minimum, size.placed, size.desired), (2, 0, 6));
    /// # Ok::<(), phalanx::QueueError>(())
    /// ```
    ///
    /// # Errors
    /// There is no group of pods of that name, or the planner refuses the request.
    pub fn desired_size(
        &mut self,
        group: &str,
        most: u32,
        now: Time,
    ) -> Result<DesiredSize, QueueError> {
        let unknown = || QueueError::UnknownGroup(group.to_owned());
        let (id, leaf) = self.groups.named(group).ok_or_else(unknown)?;
        let (Some(leaf), Some(queued)) = (leaf, self.groups.get(&id)) else {
            return Err(unknown());
        };
        let going = self.removals.going(&self.groups, id);
        let count = |is: &dyn Fn(&Member) -> bool| {
            let own = queued.members().iter();
            let own = own.filter(|(seq, member)| {
                member.leaf() == leaf && is(member) && !going.contains(seq)
            });
            u32::try_from(own.count()).unwrap_or(u32::MAX)
        };
        let is_placed = |member: &Member| member.state() == MemberState::Planned || member.runs();
        let done = count(&|member| member.state() == MemberState::Done);
        let minimum = minimum_of(queued.root(), group).saturating_sub(done);
        let placed = if queued.leaves_whole() { 0 } else { count(&is_placed) };
        let mut more = 0;
        if !queued.leaves_whole() && !queued.is_paused() {
            let open = usize::try_from(most.saturating_sub(placed)).unwrap_or(usize::MAX);
            let mut tried = 0;
            while more == tried && tried < open {
                tried = open.min(tried.saturating_mul(4).max(FIRST));
                more = self.fitting(id, leaf, tried, now.max(self.world.now()))?;
            }
        }
        let more = u32::try_from(more).unwrap_or(u32::MAX);
        let desired = placed.saturating_add(more).max(minimum);
        Ok(DesiredSize { minimum, placed, desired })
    }

    /// Number of members of a leaf that would be placed now, if so many wait.
    fn fitting(
        &mut self,
        id: GroupId,
        leaf: usize,
        count: usize,
        now: Time,
    ) -> Result<usize, QueueError> {
        let trial = self.groups.get(&id).and_then(|queued| waiting(queued, leaf, count));
        let Some((trial, names)) = trial else { return Ok(0) };
        let mut tree = trial.pending_tree();
        if let Some(tenancy) = &mut self.tenancy
            && tenancy.would_admit(&self.world, &trial, &mut tree).is_none()
        {
            return Ok(0);
        }
        let now_refused = self.refusals.avoid(&tree, now, |pod| self.groups.shape_of(pod));
        let tree = now_refused.map_or(tree, |avoiding| avoiding.tree);
        let held = self.holds.placeholders_of(HoldId::Room(id));
        let view = View::of(self.world.cluster()).without_pods(held);
        let request = self.world.request(&tree, trial.strategy(), now);
        match Planner::new().place(view.cluster(), self.world.framework(), request) {
            Ok(Outcome::Placed(plan) | Outcome::Held { plan, .. }) => {
                let is_own = |pod: &Pod| names.contains(&full_name(pod));
                Ok(plan.assignments().filter(|to| is_own(to.pod())).count())
            }
            Ok(_) | Err(PlaceError::Scattered { .. }) => Ok(0),
            Err(error) => Err(error.into()),
        }
    }
}

/// A group of which so many members of a leaf wait, and their full names; `None` if the leaf has had no
/// member yet.
fn waiting(
    queued: &QueuedGroup,
    leaf: usize,
    count: usize,
) -> Option<(QueuedGroup, BTreeSet<String>)> {
    let mut trial = queued.clone();
    trial.set_turns(false, false);
    let own = || queued.members().iter().filter(|(_, member)| member.leaf() == leaf);
    let ready = || own().filter(|(_, member)| member.is_ready());
    let (last, template) = ready().last().or_else(|| own().last())?;
    let mut names: BTreeSet<String> =
        ready().take(count).map(|(_, member)| full_name(member.pod())).collect();
    for (seq, _) in ready().skip(count) {
        trial.members_mut().remove(*seq);
    }
    let last = queued.members().iter().last().map_or(*last, |(seq, _)| *seq);
    for number in names.len()..count {
        let mut pod = template.pod().clone();
        pod.name = format!("{}//{number}", pod.name);
        pod.uid.clear();
        names.insert(full_name(&pod));
        let seq = last.saturating_add(1 + number as u64);
        trial.members_mut().insert(seq, Member::new(leaf, pod));
    }
    Some((trial, names))
}

/// The minimum of the group of a name in a tree.
fn minimum_of(root: &PodGroup, name: &str) -> u32 {
    let mut minimum = 1;
    root.visit(&mut |group| {
        if *group.full_name() == *name {
            minimum = group.policy.minimum();
        }
    });
    minimum
}
