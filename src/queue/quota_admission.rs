//! Admission before placement: what groups are given of quota, and charged for.

use alloc::borrow::ToOwned;
use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use super::claims::{GroupClaim, amounts_of, is_node_of, preemptible, restrict};
use super::ids::GroupId;
use super::queued_group::{MemberState, full_name};
use super::quota_sleepers::{Place, Sleeper};
use super::scheduler::Scheduler;
use super::shortage::{QuotaReason, Shortage};
use super::tenancy::Charge;
use super::wake::hints::WakeCondition;
use crate::model::{Pod, PodGroup};
use crate::quota::{Assignment, Mode, QueueId, QueueKind, Tenants};
use crate::state::{NodeView, Plan, PodView};

/// What a group has been admitted with, until its pods are placed.
pub(super) struct Admitted {
    pub(super) id: GroupId,
    pub(super) leaf: QueueId,
    pub(super) claim: GroupClaim,
    pub(super) assignment: Assignment,
    /// Whether it is what was reserved for the group while its victims went.
    pub(super) is_reserved: bool,
}

impl Scheduler {
    /// The claim of a group's pending members.
    pub(super) fn group_claim(&self, id: GroupId) -> Option<GroupClaim> {
        let queued = self.groups.get(&id)?;
        let tenancy = self.tenancy.as_ref()?;
        let tree = tenancy.tenants.tree();
        let counted = tenancy.tenants.counts_known_only();
        let known = |resource: &str| !counted || tree.knows(resource);
        Some(GroupClaim::new(queued, &self.cluster, self.now, &known))
    }

    /// Admits groups to quota, all or none, and keeps the tree on the nodes of their flavors. What
    /// they are given is kept for them until [`Scheduler::charge_plan`] or [`Scheduler::withdraw`].
    pub(super) fn admit(
        &mut self,
        gang: &[GroupId],
        tree: &mut PodGroup,
    ) -> Result<Vec<Admitted>, Box<(Shortage, WakeCondition)>> {
        let mut admitted: Vec<Admitted> = Vec::new();
        for &id in gang {
            if let Some(tenancy) = &mut self.tenancy {
                tenancy.unask(id);
            }
            let Some(claim) = self.group_claim(id).filter(|claim| !claim.claim.pod_sets.is_empty())
            else {
                continue;
            };
            if let Some(given) = self.take_reserved(id, &claim) {
                admitted.push(given);
                continue;
            }
            let decision = match self.decide_claim(&claim) {
                Ok(found) => found.decision,
                Err(error) => {
                    let reason = error.to_string();
                    let place = (None, 0, 0, QuotaReason::Refused { reason });
                    self.withdraw(admitted);
                    return Err(Box::new(refusal(self, &claim, place)));
                }
            };
            let refused = if decision.assignment.mode == Mode::Fit {
                match self.keep_given(id, claim, decision.assignment.clone()) {
                    Ok(given) => {
                        admitted.push(given);
                        continue;
                    }
                    Err(claim) => *claim,
                }
            } else {
                claim
            };
            let mut short = (None, 0, 0, QuotaReason::Inactive);
            if let Some(tenancy) = &self.tenancy
                && let Some(leaf) = tenancy.leaf(&refused.claim.queue)
                && tenancy.tenants.is_active(leaf)
            {
                let found = tenancy.shortage(leaf, &refused.claim, &decision);
                short = (found.place, found.needed, found.available, found.reason);
            }
            self.withdraw(admitted);
            return Err(Box::new(refusal(self, &refused, short)));
        }
        self.restrict_to(tree, &admitted);
        Ok(admitted)
    }

    /// Keeps what a claim is given for its group; the claim again, if no sum can hold that.
    pub(super) fn keep_given(
        &mut self,
        id: GroupId,
        claim: GroupClaim,
        assignment: Assignment,
    ) -> Result<Admitted, Box<GroupClaim>> {
        let Some(tenancy) = &mut self.tenancy else { return Err(Box::new(claim)) };
        match tenancy.leaf(&claim.claim.queue) {
            Some(leaf) if tenancy.tenants.keep(leaf, &assignment.usage, 1).is_ok() => {
                Ok(Admitted { id, leaf, claim, assignment, is_reserved: false })
            }
            _ => Err(Box::new(claim)),
        }
    }

    /// Keeps a tree on the nodes of the flavors that its groups are given.
    pub(super) fn restrict_to(&self, tree: &mut PodGroup, admitted: &[Admitted]) {
        let Some(tenancy) = &self.tenancy else { return };
        for given in admitted {
            restrict(tree, &given.claim, &given.assignment, &tenancy.tenants, &self.cluster);
        }
    }

    /// Takes back what groups were admitted with.
    pub(super) fn withdraw(&mut self, admitted: Vec<Admitted>) {
        let Some(tenancy) = &mut self.tenancy else { return };
        for given in admitted {
            let _ = tenancy.tenants.keep(given.leaf, &given.assignment.usage, -1);
        }
    }

    /// Charges the groups of a plan for the pods that are placed.
    pub(super) fn charge_plan(&mut self, admitted: Vec<Admitted>, plan: &Plan) {
        let placed: BTreeSet<String> =
            plan.assignments().map(|assignment| full_name(assignment.pod())).collect();
        let now = self.now;
        let Some(tenancy) = &mut self.tenancy else { return };
        for given in admitted {
            let _ = tenancy.tenants.keep(given.leaf, &given.assignment.usage, -1);
            let pods = given.claim.charges(&given.assignment, &tenancy.tenants);
            let pods = pods.into_iter().filter(|(pod, _)| placed.contains(pod));
            let mut charge = tenancy.charges.get(&given.id).cloned().unwrap_or_else(|| Charge {
                holder: given.claim.claim.name.clone(),
                queue: given.claim.claim.queue.clone(),
                priority: given.claim.claim.priority,
                created: given.claim.claim.created,
                since: now,
                preemptible: given.claim.claim.preemptible,
                pods: BTreeMap::new(),
            });
            charge.pods.extend(pods);
            tenancy.charge(given.id, charge);
        }
    }

    /// Ends the charge for a pod that is gone.
    pub(super) fn discharge(&mut self, pod: &str) {
        if let Some(tenancy) = &mut self.tenancy {
            tenancy.discharge(pod);
        }
    }

    /// Charges a member that was found bound, for the flavor of its node.
    pub(super) fn charge_bound(&mut self, id: GroupId, seq: u64) {
        let Some(tenancy) = &self.tenancy else { return };
        let Some(queued) = self.groups.get(&id) else { return };
        let Some(member) = queued.members.get(&seq) else { return };
        let in_cluster = !matches!(member.state, MemberState::Pending | MemberState::Done);
        let pod = full_name(&member.pod);
        if !in_cluster || tenancy.charged.contains_key(&pod) {
            return;
        }
        let node = self.cluster.pod(member.pod.namespace(), &member.pod.name);
        let node = node.and_then(PodView::node);
        let charged = flavors_on(&tenancy.tenants, &queued.root.queue, node, &member.pod);
        let mut charge = tenancy.charges.get(&id).cloned().unwrap_or_else(|| Charge {
            holder: queued.name.to_string(),
            queue: queued.root.queue.clone(),
            priority: i64::from(queued.root.priority),
            created: queued.since,
            since: self.now,
            preemptible: preemptible(&queued.root, member.pod.shape()),
            pods: BTreeMap::new(),
        });
        charge.pods.insert(pod, charged);
        if let Some(tenancy) = &mut self.tenancy {
            tenancy.charge(id, charge);
        }
    }

    /// Enters a group that waits for quota.
    pub(super) fn sleep_for_quota(&mut self, id: GroupId) {
        let Some(tenancy) = &mut self.tenancy else { return };
        let Some(queued) = self.groups.get(&id) else { return };
        let Some(key) = &queued.key else { return };
        let WakeCondition::Quota { inner, queue, flavor, resource, needed, pooled } =
            &queued.wake_on
        else {
            tenancy.wake(id);
            return;
        };
        let tree = tenancy.tenants.tree();
        let kind = if *inner { QueueKind::Inner } else { QueueKind::Leaf };
        let at = tree.queue(kind, queue);
        let own = tenancy.leaf(&queued.root.queue);
        let place = at.zip(tree.flavor_resource(flavor, resource));
        let places = at.map(|at| tenancy.places(own, at, flavor, resource)).unwrap_or_default();
        let pending = match &queued.shortage {
            // Elsewhere all that the group requests is counted.
            Some(Shortage::Quota { needed, .. }) if tenancy.tenants.elastic().is_none() => {
                own.zip(place).map(|(leaf, (_, of))| (leaf, of, *needed))
            }
            _ => None,
        };
        tenancy.sleep(Sleeper {
            pending,
            key: key.clone(),
            queue: queued.root.queue.clone(),
            places,
            needed: *needed,
            pooled_since: queued.ready_since.filter(|_| *pooled),
        });
    }

    /// Counts what a group that was refused requests of its queue.
    pub(super) fn ask_for_quota(&mut self, id: GroupId) {
        if self.tenancy.as_ref().is_none_or(|tenancy| tenancy.tenants.elastic().is_none()) {
            return;
        }
        let Some(claim) = self.group_claim(id) else { return };
        let Some(tenancy) = &mut self.tenancy else { return };
        if let Some(leaf) = tenancy.leaf(&claim.claim.queue) {
            let usage = tenancy.tenants.requested(leaf, &claim.claim);
            tenancy.ask(id, leaf, usage);
        }
    }

    /// Notes that a group has been tried, so that the next of its queue may be woken.
    pub(super) fn tried(&mut self, id: GroupId, refused: bool) {
        let Some(tenancy) = &mut self.tenancy else { return };
        let Some(queued) = self.groups.get(&id) else { return };
        let behind = queued.key.clone().filter(|_| refused);
        tenancy.tried.insert(queued.root.queue.clone(), behind);
    }
}

/// The shortage of a claim, and what wakes its group.
fn refusal(
    scheduler: &Scheduler,
    claim: &GroupClaim,
    (place, needed, available, reason): (Option<Place>, i64, i64, QuotaReason),
) -> (Shortage, WakeCondition) {
    let tree = scheduler.tenants().map(Tenants::tree);
    let names = place.and_then(|(_, of)| Some(tree?.names(of)));
    let (flavor, resource) = names.unwrap_or_default();
    let at = place.and_then(|(at, _)| tree?.spec(at));
    let pooled = place.is_some_and(|(at, _)| tree.is_some_and(|tree| tree.parent(at).is_none()))
        && !matches!(reason, QuotaReason::Limit { .. });
    let lends = tree.zip(place).is_some_and(|(tree, (_, of))| {
        let leaf = tree.queue(QueueKind::Leaf, &claim.claim.queue);
        leaf.is_some_and(|leaf| tree.path(leaf).any(|at| tree.sums(at, of).local > 0))
    });
    let wake_on = WakeCondition::Quota {
        inner: at.is_some_and(|spec| spec.kind == QueueKind::Inner),
        queue: at.map(|spec| spec.name.clone()).unwrap_or_default(),
        flavor: flavor.to_owned(),
        resource: resource.to_owned(),
        // What the root has left says nothing of what a queue keeps for itself.
        needed: if pooled && lends { i64::MIN } else { needed },
        pooled,
    };
    let shortage = Shortage::Quota {
        queue: claim.claim.queue.clone(),
        flavor: flavor.to_owned(),
        resource: resource.to_owned(),
        needed,
        available,
        reason,
    };
    (shortage, wake_on)
}

/// What a pod that runs is charged for: of each resource that its queue has quota of, the first
/// flavor that its node is of, else the first.
fn flavors_on(
    tenants: &Tenants,
    queue: &str,
    node: Option<NodeView<'_>>,
    pod: &Pod,
) -> Vec<(String, String, i64)> {
    let tree = tenants.tree();
    let leaf = tree.queue(QueueKind::Leaf, queue);
    let Some(spec) = leaf.and_then(|leaf| tree.spec(leaf)) else { return Vec::new() };
    let amounts = amounts_of(pod.shape());
    let mut charged = Vec::new();
    for (resource, amount) in amounts.iter().filter(|(_, amount)| *amount > 0) {
        let covers = |group: &&crate::quota::ResourceGroup| {
            group.covered_resources.iter().any(|own| own == resource)
        };
        let Some(group) = spec.groups.iter().find(covers) else { continue };
        let is_of = |name: &str| {
            let (Some(flavor), Some(node)) = (tenants.flavor(name), node) else { return false };
            is_node_of(flavor, node)
        };
        let own = group.flavors.iter().find(|flavor| is_of(&flavor.name));
        if let Some(flavor) = own.or(group.flavors.first()) {
            charged.push((flavor.name.clone(), resource.to_owned(), amount));
        }
    }
    charged
}
