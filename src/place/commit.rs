//! Committing a plan: changed nodes are checked again, then all pods are bound or none.

#[cfg(test)]
mod tests;

use alloc::string::{String, ToString};
use alloc::sync::Arc;
use alloc::vec::Vec;

use crate::base::clip::clip;
use crate::base::{ObjectName, RowSet};
use crate::claims::lost;
use crate::framework::device_fit::still_fit;
use crate::framework::{Evaluation, Framework, Rejection};
use crate::model::{Pod, PodGroup, PodShape};
use crate::place::topology::pinned::leaders_of;
use crate::state::DeviceNeed;
use crate::state::journal::{Change, Moment};
use crate::state::plan::PlanDomain;
use crate::state::{
    Assignment, Cluster, NodeId, NodeView, Plan, PodView, Row, StateError, VolumeRefusal,
};

/// A plan that no longer holds. The cluster is as it was.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CommitError {
    /// A node of the plan is gone.
    #[error("pod {}: node {} is gone", clip(.pod), clip(.node))]
    NodeGone {
        /// The pod.
        pod: ObjectName,
        /// The node.
        node: String,
    },
    /// A filter now rejects a node of the plan.
    #[error("pod {}: {} rejects node {}", clip(.pod), clip(.filter), clip(.node))]
    #[non_exhaustive]
    Conflict {
        /// The pod.
        pod: ObjectName,
        /// The embedder's own number of the pod.
        pod_key: u64,
        /// The node.
        node: String,
        /// The node's id in the cluster that refuses the plan.
        node_id: NodeId,
        /// The embedder's own number of the node.
        node_key: u64,
        /// The filter.
        filter: String,
    },
    /// Devices of the plan, or amounts of NUMA zones, are no longer free.
    #[error("pod {}: its devices on node {} are no longer free", clip(.pod), clip(.node))]
    Devices {
        /// The pod.
        pod: ObjectName,
        /// The node.
        node: String,
    },
    /// A claim cannot have what the plan gives it.
    #[cfg_attr(not(feature = "volumes"), doc(hidden))]
    #[error("pod {}: on node {}: {}", clip(.pod), clip(.node), .problem)]
    Volumes {
        /// The pod.
        pod: ObjectName,
        /// The node.
        node: String,
        /// The claim, and the reason.
        problem: VolumeProblem,
    },
    /// A device that a claim of the plan was to have is no longer free, or the claim has got others.
    #[error("pod {}: {} is no longer free for it on node {}", clip(.pod), clip(.device), clip(.node))]
    Claim {
        /// The pod.
        pod: ObjectName,
        /// The node.
        node: String,
        /// The device, as `driver/pool/device`; or the claim, by its name in the pod.
        device: String,
    },
    /// A node of the plan has left the domain that the plan rests on, or devices their island.
    #[error("group {}: node {} is no longer in {}", clip(.group), clip(.node), clip(.domain))]
    Domain {
        /// The group; a slice has its number after it.
        group: String,
        /// The node.
        node: String,
        /// The domain, as [`PlanDomain`](crate::state::PlanDomain) is shown.
        domain: String,
    },
    /// A member that runs is outside the domain that is required of its group and that the plan has
    /// chosen.
    #[error("group {}: pod {} runs on node {}, which is not in {}", clip(.group), clip(.pod), clip(.node), clip(.domain))]
    Apart {
        /// The group; a slice has its number after it.
        group: String,
        /// The pod that runs.
        pod: ObjectName,
        /// Its node.
        node: String,
        /// The required domain, as [`PlanDomain`](crate::state::PlanDomain) is shown.
        domain: String,
    },
    /// A group would be below its minimum: members that the plan rests on run no longer.
    #[error("group {}: {have} of {need} would run", clip(.group))]
    BelowMinimum {
        /// The group.
        group: ObjectName,
        /// Members with the plan: pods, or groups inside that count.
        have: u32,
        /// The minimum.
        need: u32,
    },
    /// A plan from elsewhere lacks members that it had, or has others.
    #[error("group {}: the plan has {have} of its pods, not {planned}", clip(.group))]
    Incomplete {
        /// The group.
        group: ObjectName,
        /// How many the plan has.
        have: u32,
        /// How many it had when it was made.
        planned: u32,
    },
    /// A plan without pods.
    #[error("group {}: the plan has no pods", clip(.0))]
    Empty(ObjectName),
    /// A pod of the plan is unsound or bound already, or a sum overflows.
    #[error(transparent)]
    State(#[from] StateError),
}

/// A claim that cannot have what a plan gives it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum VolumeProblem {
    /// Another claim has the volume.
    #[error("claim {}: volume {} is of claim {}", clip(.claim), clip(.volume), clip(.holder))]
    Held {
        /// The claim.
        claim: ObjectName,
        /// The volume.
        volume: String,
        /// The claim that has it.
        holder: ObjectName,
    },
    /// It can be met no longer.
    #[error(transparent)]
    Refused(#[from] VolumeRefusal),
}

impl Cluster {
    /// Commits a plan: all of its pods are bound, or none.
    ///
    /// Where something moved since the plan was made, filters run again, and the plan is held to
    /// the promises of its strategy. Every group that gets pods has its minimum, with the members
    /// that run by now. Nodes are in the domains chosen, and so are running members where a domain
    /// is required. Time passes into a filter as `Time::ZERO` here, and permits do not run again.
    ///
    /// A plan that was deserialised holds the same promises, and has all the pods that it had.
    ///
    /// The devices of a plan are bound as they were chosen, or not at all: they are not chosen
    /// anew, since others may have been told of them.
    ///
    /// O(pods) if nothing has moved. Otherwise the changed nodes, and all pods whose filters read
    /// beyond their node, are judged again.
    ///
    /// # Errors
    /// The plan no longer holds; the cluster is unchanged.
    pub fn commit(&mut self, framework: &Framework, plan: &Plan) -> Result<(), CommitError> {
        if plan.is_empty() {
            return Err(CommitError::Empty(plan.group()));
        }
        let moved = Moved::since(self, plan.basis);
        if moved != Moved::Nothing {
            self.recheck(framework, plan, &moved)?;
            self.check_whole(plan)?;
        }
        self.bind_plan(plan)?;
        if !plan.volumes.is_empty() {
            for assignment in plan.assignments() {
                if let Some(bindings) = assignment.volumes() {
                    self.assume_volumes(bindings, assignment.node());
                }
            }
        }
        Ok(())
    }

    /// Whether the nodes are those that the plan was made from, row by row. The plan shares them,
    /// so no change has been written to them since.
    fn has_nodes_of(&self, plan: &Plan) -> bool {
        Arc::ptr_eq(&self.columns.spec, &plan.nodes)
    }

    /// The row of a member's node.
    fn row_in(&self, assignment: Assignment<'_>) -> Option<Row> {
        let wanted = assignment.spec()?;
        let found = self.columns.spec.get(assignment.row().index()).and_then(Option::as_ref);
        match found {
            Some(spec) if Arc::ptr_eq(spec, wanted) => Some(assignment.row()),
            _ => self.row_of(&wanted.name),
        }
    }

    /// [`Cluster::commit`] in a working copy: each pod is judged where it is bound, so that nothing is
    /// copied. If the plan does not hold, the journal has changes that were taken back.
    pub(crate) fn commit_in_place(
        &mut self,
        framework: &Framework,
        plan: &Plan,
    ) -> Result<(), CommitError> {
        let is_plain = |shape: &Arc<PodShape>| shape.volumes.is_empty() && shape.claims.is_empty();
        let moved = Moved::since(self, plan.basis);
        let shapes = plan.roster.shapes();
        if moved == Moved::Nothing || !plan.volumes.is_empty() || !shapes.iter().all(is_plain) {
            return self.commit(framework, plan);
        }
        self.check_whole(plan)?;
        let mut bound = 0;
        let mut bind = |assignment: Assignment<'_>| {
            let row = self.judge(framework, assignment, &moved)?;
            let one = core::iter::once((assignment.pod(), row, assignment.held().cloned()));
            self.bind_all::<_, CommitError>(one, |_, item| Ok(item))?;
            bound += 1;
            Ok(())
        };
        let held = plan.assignments().try_for_each(&mut bind);
        let held = held.and_then(|()| self.check_domains(plan));
        if held.is_err() {
            for assignment in plan.assignments().take(bound) {
                let pod = assignment.pod();
                self.remove_pod(pod.namespace(), &pod.name)?;
            }
        }
        held
    }

    /// Binds all pods of a plan, or none; nothing is judged.
    pub(crate) fn bind_plan(&mut self, plan: &Plan) -> Result<(), CommitError> {
        let same = self.has_nodes_of(plan);
        self.bind_all::<_, CommitError>(plan.assignments(), |cluster, assignment| {
            let row = if same { Some(assignment.row()) } else { cluster.row_in(assignment) };
            let row = row.ok_or_else(|| gone(assignment))?;
            Ok((assignment.pod(), row, assignment.held().cloned()))
        })
    }

    fn recheck(
        &self,
        framework: &Framework,
        plan: &Plan,
        moved: &Moved,
    ) -> Result<(), CommitError> {
        let mut txn = self.txn().rearranging();
        for assignment in plan.assignments() {
            let row = txn.judge(framework, assignment, moved)?;
            let (held, volumes) = (assignment.held().cloned(), assignment.volumes());
            txn.place_bound(assignment.pod(), row, held, volumes)?;
        }
        txn.check_domains(plan)
    }

    /// Whether a pod of a plan can still go where the plan puts it; its row.
    fn judge(
        &self,
        framework: &Framework,
        assignment: Assignment<'_>,
        moved: &Moved,
    ) -> Result<Row, CommitError> {
        let row = self.row_in(assignment).ok_or_else(|| gone(assignment))?;
        self.check_volumes(assignment, row)?;
        let shape = assignment.pod().shape();
        let mut filters = framework.filters().iter();
        let local = filters.all(|filter| filter.declare(shape).is_node_local());
        if !local || moved.concerns(row) || !shape.claims.is_empty() {
            let evaluation = Evaluation::new(framework, self, shape, None, crate::Time::ZERO);
            if let Some(node) = self.view(row)
                && let Err(rejection) = evaluation.filter(node)
            {
                let filter = match rejection {
                    Rejection::Filter(plugin, _) | Rejection::Refused(plugin, _) => {
                        framework.filters()[plugin].name().to_string()
                    }
                    Rejection::Narrowed => String::from("preparation"),
                };
                return Err(CommitError::Conflict {
                    pod: full_name(assignment),
                    pod_key: assignment.pod().key,
                    node: assignment.node().to_string(),
                    node_id: node.id(),
                    node_key: node.key(),
                    filter,
                });
            }
            let held = assignment.held();
            if held.is_some() || !shape.devices.is_empty() {
                let needs = DeviceNeed::of(self, shape);
                if !self.view(row).is_some_and(|node| still_fit(node, &needs, held)) {
                    let node = assignment.node().to_string();
                    return Err(CommitError::Devices { pod: full_name(assignment), node });
                }
            }
        }
        if !shape.claims.is_empty()
            && let Some(device) = lost(self, shape, assignment.allocations())
        {
            let node = assignment.node().to_string();
            return Err(CommitError::Claim { pod: full_name(assignment), node, device });
        }
        Ok(row)
    }

    /// Whether the nodes of a plan, whose pods are on them, are in the domains chosen.
    fn check_domains(&self, plan: &Plan) -> Result<(), CommitError> {
        for domain in &plan.domains {
            for assignment in plan.assignments_in(domain.first, domain.end) {
                let node = self.row_in(assignment).and_then(|row| self.view(row));
                let holds = |node: NodeView<'_>| {
                    let island = domain.value();
                    domain.holds(node)
                        && (!domain.island || within(node, assignment.devices(), island))
                };
                if !node.is_some_and(holds) {
                    return Err(CommitError::Domain {
                        group: domain.group.clone(),
                        node: assignment.node().to_string(),
                        domain: domain.to_string(),
                    });
                }
            }
        }
        Ok(())
    }

    /// Whether the claims of a pod can still have what the plan gives them.
    fn check_volumes(&self, assignment: Assignment<'_>, row: Row) -> Result<(), CommitError> {
        let Some(bindings) = assignment.volumes() else { return Ok(()) };
        let refuse = |problem: VolumeProblem| CommitError::Volumes {
            pod: full_name(assignment),
            node: assignment.node().to_string(),
            problem,
        };
        if let Some((claim, volume, holder)) = self.storage().conflict(bindings) {
            return Err(refuse(VolumeProblem::Held { claim, volume, holder }));
        }
        self.check_bindings(assignment.pod().shape(), row, bindings)
            .map_err(|refusal| refuse(refusal.into()))
    }

    /// Whether a plan leaves its groups whole: every group that gets pods has its minimum, together
    /// with members that run, and members that run are in the domains required. Pods of the plan
    /// that are bound already count once.
    ///
    /// O(groups + members that run); with members that run, O(pods of the plan) more.
    pub(crate) fn check_whole(&self, plan: &Plan) -> Result<(), CommitError> {
        if plan.is_empty() {
            return Err(CommitError::Empty(plan.group()));
        }
        let own = plan.members_by_group();
        let mut bound = Vec::new();
        if self.pods.has_groups() {
            let there = |pod: &Pod| self.pod(pod.namespace(), &pod.name)?.node();
            bound = plan.members_by_group_if(|pod| there(pod).is_some());
            self.check_running(plan)?;
        }
        Whole { cluster: self, plan, own, bound, next: 0 }.group(plan.roster.group())?;
        Ok(())
    }

    /// Whether members that run are in the domains that the plan requires of their groups.
    fn check_running(&self, plan: &Plan) -> Result<(), CommitError> {
        for domain in &plan.domains {
            if domain.required == 0 || domain.first >= domain.end {
                continue;
            }
            let mut apart = None;
            let mut find = |group: &PodGroup| {
                group.visit(&mut |inner| {
                    let mut pods = self.pods_of(inner);
                    apart = apart.or_else(|| pods.find(|pod| is_apart(*pod, domain)));
                });
            };
            let root = plan.roster.group();
            if root.full_name() == domain.group {
                find(root);
            }
            root.visit(&mut |outer| {
                for inner in &outer.groups {
                    if inner.full_name() == domain.group {
                        find(inner);
                        // Kueue leaves leaders where they run.
                        let leaders = leaders_of(outer, inner);
                        leaders.into_iter().filter(|_| plan.minima).for_each(&mut find);
                    }
                }
            });
            if let Some(pod) = apart {
                return Err(CommitError::Apart {
                    group: domain.group.clone(),
                    pod: ObjectName::new(pod.namespace(), pod.name()),
                    node: pod.node().map_or("", NodeView::name).to_string(),
                    domain: domain.text(domain.required),
                });
            }
        }
        Ok(())
    }
}

/// Whether a pod runs outside the required part of a domain.
fn is_apart(pod: PodView<'_>, domain: &PlanDomain) -> bool {
    let Some(node) = pod.node() else { return false };
    let island = || !domain.island || within(node, pod.device_indexes(), domain.value());
    !domain.requires(node) || !island()
}

/// The count of what groups have with a plan, parents first.
struct Whole<'a> {
    cluster: &'a Cluster,
    plan: &'a Plan,
    /// How many members of the plan each group has itself.
    own: Vec<u32>,
    /// How many of those run already; empty if none runs.
    bound: Vec<u32>,
    /// The place of the next group.
    next: usize,
}

/// Members of a group with a plan.
struct Counted {
    /// Whether it counts in the group it is in.
    counts: bool,
    /// Pods that run or are in the plan.
    pods: u32,
    /// Whether some are in the plan.
    planned: bool,
}

impl Whole<'_> {
    /// Counts a group, and refuses one that gets pods and does not count with them, or is the whole.
    fn group(&mut self, group: &PodGroup) -> Result<Counted, CommitError> {
        let place = self.next;
        self.next += 1;
        let own = self.own.get(place).copied().unwrap_or(0);
        if let Some(&planned) = self.plan.planned.get(place)
            && planned != own
        {
            let group = group.full_name();
            return Err(CommitError::Incomplete { group, have: own, planned });
        }
        let mut all = Counted { counts: true, pods: own, planned: own > 0 };
        let mut have = 0;
        for inner in &group.groups {
            let inner = self.group(inner)?;
            all.pods = all.pods.saturating_add(inner.pods);
            all.planned |= inner.planned;
            have += u32::from(inner.counts);
        }
        if !self.bound.is_empty() {
            let pods = self.cluster.pods_of(group);
            let running = pods.filter(|pod| pod.node().is_some()).count() as u32;
            let bound = self.bound.get(place).copied().unwrap_or(0);
            all.pods = all.pods.saturating_add(running.saturating_sub(bound));
        }
        if group.groups.is_empty() {
            have = all.pods;
        }
        let need = group.policy.minimum();
        let pods = group.min_pods.filter(|_| !group.groups.is_empty()).unwrap_or(0);
        all.counts = !self.plan.minima || have >= need && all.pods >= pods;
        if !all.counts && (all.planned || place == 0) {
            let short = have < need;
            let (have, need) = if short { (have, need) } else { (all.pods, pods) };
            return Err(CommitError::BelowMinimum { group: group.full_name(), have, need });
        }
        Ok(all)
    }
}

/// Whether all devices are in an island of their node.
fn within(node: NodeView<'_>, devices: &[Vec<u32>], island: &str) -> bool {
    let mut islands = devices.iter().flatten().map(|&device| {
        let devices = node.device_room()?;
        let device = device as usize;
        if device < devices.len() { devices.island(device) } else { None }
    });
    let island = node.cluster().device_term(island);
    island.is_some() && islands.all(|own| own == island)
}

/// Changes since a plan was made.
#[derive(PartialEq, Eq)]
enum Moved {
    Nothing,
    Rows(RowSet),
    Anything,
}

impl Moved {
    fn since(cluster: &Cluster, moment: Moment) -> Moved {
        if cluster.moment() == moment {
            return Moved::Nothing;
        }
        let Some(changes) = cluster.journal.since(moment) else { return Moved::Anything };
        let mut rows = RowSet::new(cluster.rows());
        // Filters that read namespaces read beyond the node, and are evaluated again anyway.
        for row in changes.filter_map(Change::row) {
            rows.insert(row);
        }
        Moved::Rows(rows)
    }

    fn concerns(&self, row: Row) -> bool {
        match self {
            Moved::Nothing => false,
            Moved::Rows(rows) => rows.contains(row),
            Moved::Anything => true,
        }
    }
}

fn full_name(assignment: Assignment<'_>) -> ObjectName {
    assignment.pod().full_name()
}

fn gone(assignment: Assignment<'_>) -> CommitError {
    CommitError::NodeGone { pod: full_name(assignment), node: assignment.node().to_string() }
}
