//! Tenancy: the owner of tenants, of charges of groups, and of groups that wait for quota.
//!
//! Tenancy reads the [`Owners`] and never calls the driver. It returns groups to wake, and times
//! after which a search for victims may find more.

mod admission;
mod charges;
pub(in crate::queue) mod claims;
mod owners;
#[cfg(feature = "serde")]
pub(in crate::queue) mod saved;
mod shortage;
mod sleepers;
mod standing;
mod turns;

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use self::charges::{Charge, flavors_on};
use self::claims::{is_node_of, preemptible};
use self::sleepers::{Place, QuotaSleepers};
use crate::base::{ObjectName, Time};
use crate::model::PodGroup;
use crate::queue::groups::{MemberState, QueuedGroup, full_name};
use crate::queue::holds::KeptQuota;
use crate::queue::terms::ids::{GroupId, QueueKey};
use crate::queue::world::World;
use crate::quota::{
    Claim, FlavorResource, Heads, HolderId, QueueId, QueueKind, QueueReport, Tenants, Usage,
};
use crate::state::{NodeView, PodView};

pub(in crate::queue) use self::admission::{Admitted, Refusal, Sought};
pub(in crate::queue) use self::owners::Owners;
pub(in crate::queue) use self::standing::whole_victim;

/// The tenants of a scheduler, with all that the queue knows of them.
#[derive(Debug)]
pub(in crate::queue) struct Tenancy {
    tenants: Tenants,
    heads: Heads,
    /// When the order of heads was last brought in line with past usage.
    heads_at: Option<Time>,
    charges: BTreeMap<GroupId, Charge>,
    /// Charged pods, by full name.
    charged: BTreeMap<String, GroupId>,
    sleepers: QuotaSleepers,
    /// Requests of groups that were refused, where requests are divided by: from the first refusal
    /// on, except while the group is tried.
    asked: BTreeMap<GroupId, (QueueId, Usage)>,
    /// Places where quota has become free since groups were last woken.
    moved: BTreeSet<Place>,
    /// Queues with a group whose turn has ended since, with the first such group. If quota has not
    /// moved, only groups behind it may be woken next.
    ended: BTreeMap<String, QueueKey>,
    /// The group that quota is put aside for.
    aside: Option<GroupId>,
    /// When quota was last put aside no longer.
    aside_ended: Time,
    /// Number of sleeping groups that were looked at.
    looked_at: u64,
    /// Groups that quota does not name as victims, and until when; `None`: until they change.
    kept: BTreeMap<GroupId, Option<Time>>,
    /// Groups that are being evicted whole.
    leaving: BTreeSet<GroupId>,
    /// Roots of the trees in which more may be taken back than when claims were last refused.
    reclaim_due: BTreeSet<QueueId>,
}

/// Charges of a group that were taken out of the sums for a moment.
pub(in crate::queue) struct Lifted {
    id: GroupId,
    charge: Charge,
    #[expect(
        clippy::option_option,
        reason = "an entry of a map that was taken out, if there was one"
    )]
    kept: Option<Option<Time>>,
    is_leaving: bool,
    due: BTreeSet<QueueId>,
}

/// Time passes for past usage.
pub(in crate::queue) fn advance(tenancy: &mut Tenancy, now: Time) {
    tenancy.tenants.advance(now);
}

impl Tenancy {
    pub(in crate::queue) fn new(tenants: Tenants) -> Tenancy {
        Tenancy {
            heads: tenants.heads(),
            heads_at: None,
            tenants,
            charges: BTreeMap::new(),
            charged: BTreeMap::new(),
            sleepers: QuotaSleepers::default(),
            asked: BTreeMap::new(),
            moved: BTreeSet::new(),
            ended: BTreeMap::new(),
            aside: None,
            aside_ended: Time::ZERO,
            looked_at: 0,
            kept: BTreeMap::new(),
            leaving: BTreeSet::new(),
            reclaim_due: BTreeSet::new(),
        }
    }

    pub(in crate::queue) fn tenants(&self) -> &Tenants {
        &self.tenants
    }

    /// Number of sleeping groups that were looked at.
    pub(in crate::queue) fn looked_at(&self) -> u64 {
        self.looked_at
    }

    /// The report of a leaf.
    pub(in crate::queue) fn report(&self, queue: &str) -> Option<QueueReport> {
        self.tenants.report(self.leaf(queue)?)
    }

    fn leaf(&self, queue: &str) -> Option<QueueId> {
        self.tenants.tree().queue(QueueKind::Leaf, queue)
    }

    /// Notes that the sums of a queue have changed. Its place among the heads may change, and the
    /// entitlement of claims of its tree.
    fn changed(&mut self, queue: &str) {
        if let Some(leaf) = self.leaf(queue) {
            self.heads.changed(&mut self.tenants, leaf);
            self.reclaim_due.extend(self.tenants.tree().path(leaf).last());
        }
    }

    /// The root of a leaf's tree.
    pub(in crate::queue) fn root_of(&self, queue: &str) -> Option<QueueId> {
        self.tenants.tree().path(self.leaf(queue)?).last()
    }

    /// Takes the roots in whose trees more may be taken back than when claims were last refused.
    pub(in crate::queue) fn take_reclaim_due(&mut self) -> BTreeSet<QueueId> {
        core::mem::take(&mut self.reclaim_due)
    }

    /// Enters roots again that were taken, and whose claims are not decided yet.
    pub(in crate::queue) fn put_off_reclaim(&mut self, roots: BTreeSet<QueueId>) {
        self.reclaim_due.extend(roots);
    }

    /// Notes that a leaf and the queues above it have more room. A leaf that drains may go with what
    /// it gives back: then this comes first.
    fn note_moved(&mut self, leaf: QueueId, usage: &Usage) {
        let path: Vec<QueueId> = self.tenants.tree().path(leaf).collect();
        for &(of, _) in usage.iter().filter(|(_, amount)| *amount > 0) {
            self.moved.extend(path.iter().map(|&queue| (queue, of)));
        }
        if usage.is_empty() {
            // Work that asks for nothing counts where the number of claims is bounded.
            let all = path.iter().flat_map(|queue| self.tenants.tree().books(*queue));
            for (of, _) in all {
                self.moved.extend(path.iter().map(|&queue| (queue, of)));
            }
        }
        self.reclaim_due.extend(path.last());
    }

    /// The usage of pods, by number.
    fn usage(&mut self, pods: &BTreeMap<String, Vec<(String, String, i64)>>) -> Usage {
        let mut sums: BTreeMap<(&str, &str), i64> = BTreeMap::new();
        for (flavor, resource, amount) in pods.values().flatten() {
            let sum = sums.entry((flavor, resource)).or_default();
            *sum = sum.saturating_add(*amount);
        }
        let intern = |((flavor, resource), sum)| (self.tenants.intern(flavor, resource), sum);
        sums.into_iter().map(intern).collect()
    }

    /// Replaces the charge of a group.
    fn charge(&mut self, id: GroupId, mut charge: Charge) {
        let before = self.holder_of(id);
        let former = before.and_then(|_| self.charges.get(&id)).map(|own| own.queue.clone());
        if charge.pods.is_empty() {
            if let Some(holder) = before {
                let _ = self.tenants.release(holder);
            }
            self.charges.remove(&id);
            self.kept.remove(&id);
            self.leaving.remove(&id);
        } else {
            if self.tenants.find(&charge.holder).is_some_and(|other| Some(other) != before) {
                // A group of this name was removed, and its pods still run.
                charge.set_apart(id);
            }
            let mut claim = Claim::new(charge.holder.clone(), charge.queue.clone());
            (claim.priority, claim.created) = (charge.priority, charge.created);
            claim.preemptible = charge.preemptible;
            claim.owner.clone_from(&charge.owner);
            let usage = self.usage(&charge.pods);
            let held = match before {
                Some(holder) => self.tenants.renew(holder, &claim, &usage, charge.since),
                None => self.tenants.restore(&claim, &usage, charge.since),
            };
            if let Ok(holder) = held {
                if self.leaving.contains(&id) {
                    let _ = self.tenants.set_leaving(holder, true);
                }
                if self.kept.contains_key(&id) {
                    let _ = self.tenants.set_kept(holder, true);
                }
            } else {
                // A queue that is not there has nothing to charge. The name is left to others.
                charge.set_apart(id);
            }
            self.charged.extend(charge.pods.keys().map(|pod| (pod.clone(), id)));
            let queue = charge.queue.clone();
            self.charges.insert(id, charge);
            self.changed(&queue);
        }
        if former.is_some_and(|queue| self.leaf(&queue).is_none()) {
            self.leave_names();
        }
    }

    /// Leaves names of holders to others that went with their queue: holders of nothing do not keep it.
    fn leave_names(&mut self) {
        for (id, charge) in &mut self.charges {
            if self.tenants.find(&charge.holder).is_none() {
                charge.set_apart(*id);
            }
        }
    }

    /// Charges a member that was found bound, for the flavor of its node.
    pub(in crate::queue) fn charge_bound(&mut self, owners: Owners<'_>, id: GroupId, seq: u64) {
        let Owners { world, groups, .. } = owners;
        let Some(queued) = groups.get(&id) else { return };
        let Some(member) = queued.members().get(&seq) else { return };
        let in_cluster = !matches!(member.state(), MemberState::Pending | MemberState::Done);
        let pod = full_name(member.pod());
        if !in_cluster || self.charged.contains_key(&pod) {
            return;
        }
        let node = world.cluster().pod(member.pod().namespace(), &member.pod().name);
        let node = node.and_then(PodView::node);
        let charged = flavors_on(&self.tenants, &queued.root().queue, node, member.pod());
        let mut charge = self.charges.get(&id).cloned().unwrap_or_else(|| Charge {
            holder: queued.name().to_string(),
            queue: queued.root().queue.clone(),
            priority: i64::from(queued.root().priority),
            created: queued.since(),
            since: world.now(),
            preemptible: preemptible(queued.root(), member.pod().shape()),
            owner: queued.root().owner.clone(),
            pods: BTreeMap::new(),
        });
        charge.pods.insert(pod, charged);
        self.charge(id, charge);
    }

    /// Charges a group anew that has changed: in its queue, with its priority.
    pub(in crate::queue) fn group_changed(&mut self, owners: Owners<'_>, id: GroupId) {
        let Some(root) = owners.groups.get(&id).map(QueuedGroup::root) else { return };
        let Some(before) = self.charges.get(&id) else { return };
        let mut charge = before.clone();
        charge.priority = i64::from(root.priority);
        let pods = charge.pods.keys().filter_map(|pod| pod_of(owners.world, pod));
        charge.preemptible = pods.fold(None, |own, pod| own.or(preemptible(root, pod.shape())));
        charge.owner.clone_from(&root.owner);
        let former = before.clone();
        if root.queue == former.queue {
            if charge != former {
                let is_passed_on = charge.owner != former.owner;
                self.charge(id, charge);
                // The former user has more room.
                if is_passed_on && let Some(leaf) = self.leaf(&former.queue) {
                    let usage = self.usage(&former.pods);
                    self.note_moved(leaf, &usage);
                }
            }
            return;
        }
        charge.queue.clone_from(&root.queue);
        self.set_flavors(owners.world, &mut charge);
        let usage = self.usage(&former.pods);
        if let Some(leaf) = self.leaf(&former.queue) {
            self.note_moved(leaf, &usage);
        }
        self.charge(id, charge);
        self.changed(&former.queue);
    }

    /// Charges the pods of a group for the flavors of its queue that their nodes are of.
    fn set_flavors(&self, world: &World, charge: &mut Charge) {
        for (pod, charged) in &mut charge.pods {
            let Some(view) = pod_of(world, pod) else { continue };
            *charged = flavors_on(&self.tenants, &charge.queue, view.node(), &view.to_pod());
        }
    }

    /// Charges groups that run in a queue which was not there until now.
    pub(in crate::queue) fn charge_known(&mut self, owners: Owners<'_>) {
        let is_new = |own: &Charge| {
            self.tenants.find(&own.holder).is_none() && self.leaf(&own.queue).is_some()
        };
        let new = self.charges.iter().filter(|(_, own)| is_new(own));
        for (id, mut charge) in new.map(|(id, own)| (*id, own.clone())).collect::<Vec<_>>() {
            if let Some(queued) = owners.groups.get(&id) {
                charge.holder = queued.name().to_string();
            }
            self.set_flavors(owners.world, &mut charge);
            self.charge(id, charge);
        }
    }

    /// Lets a group that has changed be named as a victim again. Returns whether it was kept.
    pub(in crate::queue) fn release_kept(&mut self, id: GroupId) -> bool {
        let was_kept = self.kept.remove(&id).is_some();
        if was_kept {
            self.offer(id);
        }
        was_kept
    }

    /// Lets groups be named as victims again that were protected until now.
    pub(in crate::queue) fn release_kept_until(&mut self, now: Time) {
        let is_over = |until: &Option<Time>| until.is_some_and(|until| until <= now);
        let over = self.kept.iter().filter(|(_, until)| is_over(until));
        for id in over.map(|(id, _)| *id).collect::<Vec<_>>() {
            self.kept.remove(&id);
            self.offer(id);
        }
    }

    /// Records whether a group is being evicted whole.
    pub(in crate::queue) fn set_leaving(&mut self, id: GroupId, leaving: bool) {
        let Some(charge) = self.charges.get(&id) else { return };
        let Some(holder) = self.tenants.find(&charge.holder) else { return };
        let _ = self.tenants.set_leaving(holder, leaving);
        if leaving {
            self.leaving.insert(id);
        } else {
            self.leaving.remove(&id);
            self.reclaim_due.extend(self.root_of(&charge.queue));
        }
    }

    /// The holder of the charge of a group.
    fn holder_of(&self, id: GroupId) -> Option<HolderId> {
        self.tenants.find(&self.charges.get(&id)?.holder)
    }

    /// Lets a group be named as a victim again.
    fn offer(&mut self, id: GroupId) {
        let Some(charge) = self.charges.get(&id) else { return };
        if let Some(holder) = self.tenants.find(&charge.holder) {
            let _ = self.tenants.set_kept(holder, false);
        }
        self.reclaim_due.extend(self.root_of(&charge.queue));
    }

    /// The quota that a pod is charged with.
    pub(in crate::queue) fn charge_of(&mut self, pod: &str) -> Usage {
        let charge = self.charged.get(pod).and_then(|id| self.charges.get(id)?.pods.get(pod));
        let Some(own) = charge.cloned() else { return Usage::new() };
        self.usage(&BTreeMap::from([(String::from(pod), own)]))
    }

    /// Keeps a tree to the members that quota would be given for, on the nodes of their flavors; `None`
    /// if there are none. Nothing is kept of it.
    pub(in crate::queue) fn would_admit(
        &mut self,
        world: &World,
        queued: &QueuedGroup,
        tree: &mut PodGroup,
    ) -> Option<()> {
        claims::would_admit(&mut self.tenants, world, queued, tree)
    }

    /// Ends the charge for a pod that is gone.
    pub(in crate::queue) fn discharge(&mut self, pod: &str) {
        let Some(id) = self.charged.remove(pod) else { return };
        let Some(mut charge) = self.charges.get(&id).cloned() else { return };
        let Some(gone) = charge.pods.remove(pod) else { return };
        let queue = charge.queue.clone();
        let pods = BTreeMap::from([(String::new(), gone)]);
        let usage = self.usage(&pods);
        if let Some(leaf) = self.leaf(&queue) {
            self.note_moved(leaf, &usage);
        }
        self.charge(id, charge);
        self.changed(&queue);
    }

    /// Whether a node is of the flavors that a pod is charged with.
    pub(in crate::queue) fn keeps_flavors(&self, pod: &str, node: NodeView<'_>) -> bool {
        let Some(charge) = self.charged.get(pod).and_then(|id| self.charges.get(id)) else {
            return true;
        };
        let mut charged = charge.pods.get(pod).into_iter().flatten();
        charged.all(|(flavor, ..)| {
            self.tenants.flavor(flavor).is_none_or(|flavor| is_node_of(flavor, node))
        })
    }

    /// Whether a group is charged for a pod.
    pub(in crate::queue) fn is_charged(&self, id: GroupId, pod: &str) -> bool {
        self.charged.get(pod) == Some(&id)
    }

    /// Pods run in place of others, with the quota that these were charged with.
    pub(in crate::queue) fn pass_charges(&mut self, id: GroupId, pods: &[(String, String)]) {
        let Some(charge) = self.charges.get_mut(&id) else { return };
        for (old, new) in pods.iter().filter(|(old, new)| old != new) {
            if let Some(own) = charge.pods.remove(old) {
                self.charged.remove(old);
                self.charged.insert(new.clone(), id);
                charge.pods.insert(new.clone(), own);
            }
        }
    }

    /// Takes charges of a group out of the sums for a moment: of pods that have left their nodes,
    /// and whose places are held. `None` if there are none.
    pub(in crate::queue) fn lift_charges(
        &mut self,
        id: GroupId,
        pods: &[String],
    ) -> Option<Lifted> {
        let before = self.charges.get(&id)?.clone();
        let mut rest = before.clone();
        rest.pods.retain(|pod, _| !pods.contains(pod));
        if rest.pods.len() == before.pods.len() {
            return None;
        }
        for pod in before.pods.keys().filter(|pod| pods.contains(pod)) {
            self.charged.remove(pod);
        }
        let state = (self.kept.get(&id).copied(), self.leaving.contains(&id));
        let due = self.reclaim_due.clone();
        self.charge(id, rest);
        Some(Lifted { id, charge: before, kept: state.0, is_leaving: state.1, due })
    }

    /// Enters charges again that were taken out for a moment.
    pub(in crate::queue) fn restore_charges(&mut self, lifted: Lifted) {
        let Lifted { id, charge, kept, is_leaving, due } = lifted;
        if let Some(until) = kept {
            self.kept.insert(id, until);
        }
        if is_leaving {
            self.leaving.insert(id);
        }
        self.charge(id, charge);
        self.reclaim_due = due;
    }

    /// Whether a group is charged for pods that have left their nodes, and whose places are held.
    fn is_moving(&self, owners: Owners<'_>, id: GroupId) -> bool {
        let is_away = |pod: &String| {
            let (namespace, name) = pod.split_once('/').unwrap_or(("", pod));
            owners.world.cluster().pod(namespace, name).is_none()
        };
        self.charges.get(&id).is_some_and(|charge| charge.pods.keys().any(is_away))
    }

    /// Checks the charges. Each is of a pod that is in the cluster or has a place held for it. Each
    /// holder has the amounts that its group is charged with, and each leaf uses the sum of its
    /// holders. Quota is reserved as claims keep it, and put aside for the group that is known here.
    pub(in crate::queue) fn check(&self, owners: Owners<'_>) -> Result<(), String> {
        let is_there = |pod: &str| {
            let (namespace, name) = pod.split_once('/').unwrap_or(("", pod));
            owners.world.cluster().pod(namespace, name).is_some() || owners.holds.has_place(pod)
        };
        let tree = self.tenants.tree();
        let mut pods = 0;
        for (id, charge) in &self.charges {
            for pod in charge.pods.keys() {
                pods += 1;
                if self.charged.get(pod) != Some(id) {
                    return Err(format!("the charge of pod {pod} leads elsewhere"));
                }
                if !is_there(pod) {
                    return Err(format!("pod {pod} is charged, and is nowhere"));
                }
            }
            let holder = self.tenants.find(&charge.holder);
            let Some(holder) = holder.and_then(|holder| self.tenants.holder(holder)) else {
                // Its queue is gone.
                continue;
            };
            let mut sums: BTreeMap<(&str, &str), i64> = BTreeMap::new();
            for (flavor, resource, amount) in charge.pods.values().flatten() {
                *sums.entry((flavor, resource)).or_default() += *amount;
            }
            let held = holder.usage.iter().map(|&(of, amount)| (tree.names(of), amount));
            if held.collect::<BTreeMap<_, _>>() != sums {
                return Err(format!("{} holds other quota than its pods", charge.holder));
            }
        }
        if pods != self.charged.len() {
            return Err(format!("{} charged pods, {pods} charges", self.charged.len()));
        }
        self.check_leaves()?;
        self.check_kept(owners)
    }

    /// Checks what is kept for groups that wait.
    fn check_kept(&self, owners: Owners<'_>) -> Result<(), String> {
        let tree = self.tenants.tree();
        let name_of = |id: &GroupId| owners.groups.get(id).map(QueuedGroup::name);
        let mut kept = BTreeSet::new();
        for id in owners.holds.with_quota() {
            let name = name_of(&id).map_or("", |name| name.as_str());
            let own = owners.holds.quota(id).map(KeptQuota::amounts).unwrap_or_default();
            let usage = self.tenants.reserved(name).into_iter().flat_map(|(_, usage)| usage);
            let usage = usage.filter(|(_, amount)| *amount != 0);
            let reserved = usage.map(|&(of, amount)| (tree.names(of), amount));
            if reserved.collect::<BTreeMap<_, _>>() != own {
                return Err(format!("other quota is reserved for {name} than its claim keeps"));
            }
            kept.insert(name);
        }
        if let Some(name) = self.tenants.reserving().find(|name| !kept.contains(name)) {
            return Err(format!("quota is reserved for {name}, and no claim keeps it"));
        }
        let aside = self.aside.and_then(|id| name_of(&id)).map(ObjectName::as_str);
        match self.tenants.aside() {
            Some(name) if self.aside.is_none() || aside.is_some_and(|own| own != name) => {
                Err(format!("quota is put aside for {name}, and not known to be"))
            }
            _ => Ok(()),
        }
    }

    fn check_leaves(&self) -> Result<(), String> {
        let tree = self.tenants.tree();
        for leaf in tree.queues(QueueKind::Leaf) {
            let mut used: BTreeMap<FlavorResource, i64> = BTreeMap::new();
            for holder in self.tenants.holders(leaf) {
                let usage = self.tenants.holder(holder).map(|own| &own.usage);
                for &(of, amount) in usage.into_iter().flatten() {
                    *used.entry(of).or_default() += amount;
                }
            }
            for (of, amount) in used {
                if tree.sums(leaf, of).used != amount {
                    let name = tree.spec(leaf).map_or("", |spec| &spec.name);
                    return Err(format!("queue {name} uses other quota than its groups"));
                }
            }
        }
        Ok(())
    }

    /// Counts the request of a group no longer.
    pub(super) fn unask(&mut self, id: GroupId) {
        let Some((leaf, usage)) = self.asked.remove(&id) else { return };
        for (of, amount) in usage {
            let _ = self.tenants.wait(leaf, of, -amount);
        }
    }
}

/// A pod in the cluster, by its full name.
fn pod_of<'a>(world: &'a World, pod: &str) -> Option<PodView<'a>> {
    let pod = ObjectName::of_text(pod);
    world.cluster().pod(pod.namespace(), pod.name())
}
