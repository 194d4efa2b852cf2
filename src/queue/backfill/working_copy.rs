//! The cluster at a later time: one working copy that follows the cluster.
//!
//! The copy differs from the cluster by groups that have ended by then, and by plans that are taken up
//! then. From one time to another only these are changed, so its planner stays warm.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::String;
use alloc::vec::Vec;

use super::line::{Alike, RoomId};
use super::reads::Reads;
use super::room::Rooms;
use crate::base::Row;
use crate::framework::Framework;
use crate::model::Pod;
use crate::queue::line::capacity::is_by_room;
use crate::queue::terms::ids::GroupId;
use crate::state::journal::{Change, Journal, Moment};
use crate::state::{Assignment, Cluster, NodeView, Plan, PodView};

/// With more changed rows than this, a new copy costs less than to follow.
const MOST_ROWS: usize = 256;

/// The most classes that are counted node by node at a time.
const MOST_ROOMS: usize = 64;

/// The row of a pod; `None` for a pod whose node is not there.
type Place = Option<Row>;

/// A working copy of the cluster at a later time.
#[derive(Debug)]
pub(super) struct WorkingCopy {
    copy: Cluster,
    /// The change of the cluster up to which the copy has followed it.
    seen: Moment,
    /// The change of the copy up to which nothing but pods was changed in it.
    own: Moment,
    /// Pods of the groups that have ended, with their rows.
    gone: BTreeMap<GroupId, Vec<(Place, Pod)>>,
    /// The groups with such pods, by row.
    gone_from: BTreeMap<Place, BTreeSet<GroupId>>,
    /// Groups that have changed since they ended in the copy.
    stale: BTreeSet<GroupId>,
    /// Plans that are taken up, latest last.
    plans: Vec<Plan>,
    /// The bounds of classes, in step with the copy.
    rooms: Rooms,
}

/// How a plan went beside the one that was taken up last.
pub(super) enum Beside {
    /// It is taken up, before that one.
    Both,
    /// It is taken up in place of that one, which is handed back.
    Alone(Plan),
    /// It has no place, and all is as it was.
    Neither,
}

impl WorkingCopy {
    /// The copy that was kept, in step with the cluster and without plans; or a new one.
    /// O(what has changed).
    pub(super) fn follow(kept: Option<WorkingCopy>, reads: Reads<'_>) -> WorkingCopy {
        let followed = kept.and_then(|mut own| own.catch_up(reads).then_some(own));
        followed.unwrap_or_else(|| WorkingCopy::new(reads.cluster()))
    }

    fn new(cluster: &Cluster) -> WorkingCopy {
        let copy = cluster.clone();
        let (seen, own) = (cluster.journal.now(), copy.journal.now());
        let (gone, gone_from, stale) = Default::default();
        WorkingCopy {
            copy,
            seen,
            own,
            gone,
            gone_from,
            stale,
            plans: Vec::new(),
            rooms: Rooms::new(),
        }
    }

    /// The copy.
    pub(super) fn cluster(&self) -> &Cluster {
        &self.copy
    }

    /// Whether as many pods of a class have room in the copy as must have, or may.
    pub(super) fn has_room_for(
        &mut self,
        framework: &Framework,
        (number, alike): (RoomId, &Alike),
    ) -> bool {
        if !alike.has_bound(framework) {
            return true;
        }
        if self.rooms.len() >= MOST_ROOMS && !self.rooms.contains_key(&number) {
            self.rooms.clear();
        }
        self.rooms.entry(number).or_default().suffices(&self.copy, framework, alike)
    }

    /// A group that runs has changed: its pods are looked up again.
    pub(super) fn note_group(&mut self, id: GroupId) {
        if self.gone.contains_key(&id) {
            self.stale.insert(id);
        }
    }

    /// Takes plans back and follows the cluster; `false` if more than pods have changed.
    fn catch_up(&mut self, reads: Reads<'_>) -> bool {
        let cluster = reads.cluster();
        let Some(mut places) = changed_places(&cluster.journal, self.seen) else { return false };
        let is_of_pods = |change| matches!(change, Change::Pods { .. });
        let own = self.copy.journal.since(self.own);
        let is_known = own.is_some_and(|mut own| own.all(is_of_pods));
        if places.len() > MOST_ROWS || !is_known || !all_have_nodes_or_wait(cluster) {
            return false;
        }
        // The journal has no pods without a node.
        places.insert(None);
        while let Some(plan) = self.plans.pop() {
            // On a row that has changed every pod is compared.
            let is_compared = |own: Assignment<'_>| {
                let pod = self.copy.pod(own.pod().namespace(), &own.pod().name)?;
                let (id, _) = reads.groups().named(pod.group()?)?;
                Some(places.contains(&place_of(pod)) && !self.gone.contains_key(&id))
            };
            if !plan.assignments().all(|own| is_compared(own).unwrap_or(false)) {
                self.take_out(&plan);
            }
        }
        for id in core::mem::take(&mut self.stale) {
            if !self.restore(id) {
                return false;
            }
        }
        for place in &places {
            self.drop_changed(cluster, *place);
        }
        let are_added = places.iter().all(|place| self.add_missing(reads, *place));
        (self.seen, self.own) = (cluster.journal.now(), self.copy.journal.now());
        are_added
    }

    /// Takes the pods out of a row that are not there in the cluster.
    fn drop_changed(&mut self, cluster: &Cluster, place: Place) {
        for id in self.gone_from.remove(&place).unwrap_or_default() {
            if let Some(pods) = self.gone.get_mut(&id) {
                pods.retain(|(own, _)| *own != place);
            }
        }
        let has_left = |pod: &PodView<'_>| {
            let now = cluster.pod(pod.namespace(), pod.name());
            !now.is_some_and(|now| is_same(*pod, now))
        };
        let left = pods_at(&self.copy, place).into_iter().filter(has_left).map(full_name);
        for (namespace, name) in left.collect::<Vec<_>>() {
            let _ = self.copy.remove_pod(&namespace, &name);
        }
    }

    /// Adds the pods of a row that are not in the copy. Pods of groups that have ended stay out.
    fn add_missing(&mut self, reads: Reads<'_>, place: Place) -> bool {
        for pod in pods_at(reads.cluster(), place) {
            if self.copy.pod(pod.namespace(), pod.name()).is_some() {
                continue;
            }
            let group = pod.group().and_then(|group| reads.groups().named(group));
            if let Some((id, _)) = group
                && let Some(pods) = self.gone.get_mut(&id)
            {
                pods.push((place, pod.to_pod()));
                self.gone_from.entry(place).or_default().insert(id);
            } else if self.copy.add_pod(pod.to_pod()).is_err() {
                return false;
            }
        }
        true
    }

    /// Lets exactly these groups have ended. O(pods of those that differ). `false` if that cannot be:
    /// a new copy is wanted.
    fn let_end(&mut self, reads: Reads<'_>, ended: &[GroupId]) -> bool {
        let mut wanted = ended.to_vec();
        wanted.sort_unstable();
        let stays = |id: &GroupId| wanted.binary_search(id).is_ok();
        let back: Vec<GroupId> = self.gone.keys().copied().filter(|id| !stays(id)).collect();
        if !back.into_iter().all(|id| self.restore(id)) {
            return false;
        }
        for id in ended {
            if !self.gone.contains_key(id) {
                self.end(reads, *id);
            }
        }
        true
    }

    /// [`WorkingCopy::follow`], with exactly these groups ended.
    pub(super) fn at_end_of(
        kept: Option<WorkingCopy>,
        reads: Reads<'_>,
        ended: &[GroupId],
    ) -> WorkingCopy {
        let own = WorkingCopy::follow_to(kept, reads, ended);
        debug_assert!(own.is_as_new(reads, ended, 0), "a change of the cluster was not followed");
        own
    }

    fn follow_to(kept: Option<WorkingCopy>, reads: Reads<'_>, ended: &[GroupId]) -> WorkingCopy {
        let mut own = WorkingCopy::follow(kept, reads);
        if !own.let_end(reads, ended) {
            own = WorkingCopy::new(reads.cluster());
            own.let_end(reads, ended);
        }
        own
    }

    /// [`WorkingCopy::at_end_of`] with a plan taken up; `false` if it does not hold. If it was taken
    /// up last, and none of its nodes has changed since, it is not judged again.
    pub(super) fn with_plan(
        mut kept: Option<WorkingCopy>,
        reads: Reads<'_>,
        ended: &[GroupId],
        plan: &Plan,
    ) -> (WorkingCopy, bool) {
        let framework = reads.framework();
        let is_there = |own: Assignment<'_>| {
            reads.cluster().pod(own.pod().namespace(), &own.pod().name).is_some()
        };
        let set_aside = |own: &mut WorkingCopy| {
            let is_same = own.plans.last() == Some(plan) && own.is_by_room(framework, plan);
            let is_kept = is_same && !plan.assignments().any(is_there);
            is_kept.then(|| own.plans.pop().map(|_| own.copy.journal.now())).flatten()
        };
        let aside = kept.as_mut().and_then(set_aside);
        let mut own = WorkingCopy::follow_to(kept, reads, ended);
        if let Some(then) = aside {
            let changed = own.copy.journal.rows_since(then);
            let is_as_before = changed.is_some_and(|changed| {
                let row = |name| own.copy.row_of(name);
                let mut rows = plan.assignments().map(|own| row(own.node()));
                rows.all(|row| row.is_some_and(|row| changed.binary_search(&row).is_err()))
            });
            if is_as_before {
                debug_assert!(
                    own.is_as_new(reads, ended, plan.len()),
                    "more than ends has changed"
                );
                own.plans.push(plan.clone());
                return (own, true);
            }
            own.take_out(plan);
        }
        debug_assert!(own.is_as_new(reads, ended, 0), "a change of the cluster was not followed");
        let holds = own.take(framework, plan);
        (own, holds)
    }

    /// Lets the rest of these groups end, of which the first `known` have: no time has passed since.
    pub(super) fn end_more(&mut self, reads: Reads<'_>, ended: &[GroupId], known: usize) {
        ended.iter().skip(known).for_each(|id| self.end(reads, *id));
        debug_assert!(self.is_as_new(reads, ended, 0), "more than ends has changed");
    }

    /// Whether the copy is what a new one would be, with so many pods `beside`.
    fn is_as_new(&self, reads: Reads<'_>, ended: &[GroupId], beside: usize) -> bool {
        let mut new = reads.cluster().clone();
        for id in ended {
            reads.release_from(*id, &mut new);
        }
        let is_there = |pod: PodView<'_>| {
            let own = self.copy.pod(pod.namespace(), pod.name());
            own.is_some_and(|own| is_same(own, pod))
        };
        let mut gone = self.gone.values().flatten();
        self.copy.pod_count() == new.pod_count() + beside
            && new.pods().all(is_there)
            && gone.all(|(_, pod)| reads.cluster().pod(pod.namespace(), &pod.name).is_some())
    }

    /// Takes the pods of a group out. Its pods in a plan stay.
    fn end(&mut self, reads: Reads<'_>, id: GroupId) {
        let mut pods: Vec<(Place, Pod)> = Vec::new();
        reads.visit(id, &mut |part| {
            pods.extend(reads.cluster().pods_of(part).map(|pod| (place_of(pod), pod.to_pod())));
        });
        for (place, pod) in &pods {
            let _ = self.copy.remove_pod(pod.namespace(), &pod.name);
            self.gone_from.entry(*place).or_default().insert(id);
        }
        self.gone.insert(id, pods);
    }

    /// Puts the pods of a group back.
    fn restore(&mut self, id: GroupId) -> bool {
        for (place, pod) in self.gone.remove(&id).unwrap_or_default() {
            if let Some(groups) = self.gone_from.get_mut(&place) {
                groups.remove(&id);
                if groups.is_empty() {
                    self.gone_from.remove(&place);
                }
            }
            if self.copy.add_pod(pod).is_err() {
                return false;
            }
        }
        true
    }

    /// Takes a plan up, if it holds.
    pub(super) fn take(&mut self, framework: &Framework, plan: &Plan) -> bool {
        let holds = self.copy.commit_in_place(framework, plan).is_ok();
        if holds {
            self.plans.push(plan.clone());
        }
        holds
    }

    /// Takes the latest plan back.
    pub(super) fn pop(&mut self) -> Option<Plan> {
        let plan = self.plans.pop()?;
        self.take_out(&plan);
        Some(plan)
    }

    fn take_out(&mut self, plan: &Plan) {
        for assignment in plan.assignments() {
            let pod = assignment.pod();
            let _ = self.copy.remove_pod(pod.namespace(), &pod.name);
        }
    }

    /// Whether counting decides about a plan: with more room it holds all the more.
    fn is_by_room(&self, framework: &Framework, plan: &Plan) -> bool {
        plan.roster.shapes().iter().all(|shape| is_by_room(framework, &self.copy, shape))
    }

    /// Puts a plan back that was taken up before; it is judged no more. `false` if it has no place.
    pub(super) fn put_back(&mut self, plan: Plan) -> bool {
        let is_there = self.copy.bind_plan(&plan).is_ok();
        if is_there {
            self.plans.push(plan);
        }
        is_there
    }

    /// Takes a plan up beside the latest one, and as if that one were not there.
    pub(super) fn take_beside(&mut self, framework: &Framework, plan: &Plan) -> Beside {
        let mut is_beside = self.take(framework, plan);
        if is_beside && self.is_by_room(framework, plan) {
            let last = self.plans.len() - 1;
            self.plans.swap(last, last.saturating_sub(1));
            return Beside::Both;
        }
        if is_beside {
            self.pop();
        }
        let Some(latest) = self.pop() else { return Beside::Neither };
        if !self.take(framework, plan) {
            self.put_back(latest);
            return Beside::Neither;
        }
        is_beside = is_beside && self.put_back(latest.clone());
        if is_beside { Beside::Both } else { Beside::Alone(latest) }
    }
}

/// The rows whose pods have changed since a moment; `None` if more has, or it is not known.
fn changed_places(journal: &Journal, since: Moment) -> Option<BTreeSet<Place>> {
    let place = |change: Change| matches!(change, Change::Pods { .. }).then(|| change.row());
    journal.since(since)?.map(place).collect()
}

fn place_of(pod: PodView<'_>) -> Place {
    pod.node().map(NodeView::row)
}

/// Whether every pod that is on no node waits for one that is not there.
fn all_have_nodes_or_wait(cluster: &Cluster) -> bool {
    cluster.pods.tally.unplaced == cluster.parked.len()
}

/// The pods of a row, or those that wait for a node. O(those).
fn pods_at(cluster: &Cluster, place: Place) -> Vec<PodView<'_>> {
    match place {
        Some(row) => cluster.view(row).into_iter().flat_map(NodeView::pods).collect(),
        None => cluster.parked.iter().filter_map(|(_, slot)| cluster.pod_view(slot)).collect(),
    }
}

fn full_name(pod: PodView<'_>) -> (String, String) {
    (pod.namespace().into(), pod.name().into())
}

/// Whether two pods are the same to every plugin, on the same node.
fn is_same(one: PodView<'_>, other: PodView<'_>) -> bool {
    let rest = |pod: PodView<'_>| (pod.priority(), pod.deleting(), pod.start(), pod.key());
    (core::ptr::eq(one.shape(), other.shape()) || one.shape() == other.shape())
        && place_of(one) == place_of(other)
        && one.waits_for() == other.waits_for()
        && one.group() == other.group()
        && rest(one) == rest(other)
        && one.uid() == other.uid()
        && one.device_indexes() == other.device_indexes()
        && one.allocations() == other.allocations()
        && one.zone_shares() == other.zone_shares()
}
