//! Claims of groups: the quota that their pending members ask for, and the nodes of their flavors.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::sync::Arc;
use alloc::vec::Vec;

use crate::base::Time;
use crate::model::resources::PODS;
use crate::model::{
    Amounts, DeviceAsk, GroupPolicy, NodeSelector, NodeSelectorTerm, Operator, Pod, PodGroup,
    PodShape, Requirement,
};
use crate::queue::groups::{QueuedGroup, full_name};
use crate::queue::world::World;
use crate::quota::{
    AssignmentMode, Claim, Flavor, PREEMPTIBLE_LABEL, PodSet, QuotaAssignment, Tenants,
};
use crate::state::{Cluster, NodeView};

/// The thousandths of a whole device.
const DEVICE: i64 = 1_000;
/// The unit of a device of which a share counts as a part of the device.
const COMPUTE: &str = "compute";

/// The amounts that a pod is charged for: its requests, and its devices under their kind in
/// thousandths. Units of shares beside `compute` are under `kind/unit`.
pub(in crate::queue) fn amounts_of(shape: &PodShape) -> Amounts {
    let mut amounts = shape.requests.clone();
    let mut add = |name: &str, amount: i64| {
        amounts.set(name, amounts.of(name).saturating_add(amount));
    };
    for device in &shape.devices {
        match &device.ask {
            DeviceAsk::Whole { count } => add(&device.kind, i64::from(*count) * DEVICE),
            DeviceAsk::Shares { count, each } => {
                for (unit, amount) in each.iter() {
                    let amount = amount.saturating_mul(i64::from(*count));
                    if unit == COMPUTE {
                        add(&device.kind, amount);
                    } else {
                        add(&format!("{}/{unit}", device.kind), amount);
                    }
                }
            }
        }
    }
    amounts
}

/// Whether quota may be taken back from a pod, as its group says or the pod by [`PREEMPTIBLE_LABEL`];
/// `None`: neither does.
pub(in crate::queue) fn preemptible(root: &PodGroup, shape: &PodShape) -> Option<bool> {
    let label = shape.labels.get(PREEMPTIBLE_LABEL);
    (root.non_preemptible || label.is_some_and(|value| value == "false")).then_some(false)
}

/// The claim of a group's pending members.
#[derive(Clone)]
pub(in crate::queue) struct GroupClaim {
    pub(in crate::queue) claim: Claim,
    /// By pod set: full names of its pods, and the amounts that each is charged for.
    pods: Vec<(Vec<String>, Amounts)>,
}

impl GroupClaim {
    /// Pod sets are runs of equal pods in one leaf. A group of one set whose minimum is smaller is
    /// elastic.
    pub(in crate::queue) fn new(
        queued: &QueuedGroup,
        now: Time,
        counted: &dyn Fn(&str) -> bool,
    ) -> GroupClaim {
        let mut claim = Claim::new(queued.name().clone(), queued.root().queue.clone())
            .owner(queued.root().owner.clone())
            .priority(i64::from(queued.root().priority))
            .created(queued.ready_since().unwrap_or(now));
        let mut sets: Vec<(usize, &Arc<PodShape>, Vec<String>)> = Vec::new();
        let turn = queued.in_turn();
        let pending = queued.members().iter().filter(|(seq, member)| {
            member.is_ready() && turn.as_ref().is_none_or(|turn| turn.contains(seq))
        });
        for (_, member) in pending {
            let shape = member.pod().shape();
            let own =
                sets.iter_mut().find(|(leaf, other, _)| *leaf == member.leaf() && *other == shape);
            let name = full_name(member.pod());
            match own {
                Some((_, _, names)) => names.push(name),
                None => sets.push((member.leaf(), shape, alloc::vec![name])),
            }
        }
        let mut pods = Vec::new();
        for (index, (_, shape, names)) in sets.into_iter().enumerate() {
            let mut each = Amounts::new();
            for (name, amount) in amounts_of(shape).iter().filter(|(name, _)| counted(name)) {
                each.set(name, amount);
            }
            claim.preemptible = claim.preemptible.or(preemptible(queued.root(), shape));
            let count = u32::try_from(names.len()).unwrap_or(u32::MAX);
            let mut set = PodSet::new(index.to_string(), count, times(&each, count));
            set.node_selector.clone_from(&shape.node_selector);
            set.affinity = shape.node_affinity.as_ref().and_then(|own| own.required.clone());
            set.tolerations.clone_from(&shape.tolerations);
            claim.pod_sets.push(set);
            pods.push((names, each));
        }
        if let ([set], [count]) = (&mut claim.pod_sets[..], &queued.counts()[..])
            && let GroupPolicy::Gang { min_count } = queued.root().policy
        {
            let there = count.existing.saturating_sub(count.pending).saturating_add(count.done);
            let least = queued
                .turn_minimum()
                .unwrap_or(min_count)
                .saturating_sub(u32::try_from(there).unwrap_or(u32::MAX));
            set.min_count = Some(least.clamp(1, set.count.max(1)));
        }
        GroupClaim { claim, pods }
    }

    /// The charges of each pod: flavor, resource, amount.
    pub(in crate::queue) fn charges(
        &self,
        assignment: &QuotaAssignment,
        tenants: &Tenants,
    ) -> BTreeMap<String, Vec<(String, String, i64)>> {
        let mut charges = BTreeMap::new();
        for set in &assignment.pod_sets {
            let Some((names, each)) = self.pods.get(set.pod_set) else { continue };
            let mut charged = Vec::new();
            for choice in &set.flavors {
                let (flavor, resource) = tenants.tree().names(choice.of);
                let amount = if resource == PODS { 1 } else { each.of(resource) };
                charged.push((flavor.into(), resource.into(), amount));
            }
            for name in names {
                charges.insert(name.clone(), charged.clone());
            }
        }
        charges
    }
}

/// The claim of a group's pending members.
pub(super) fn claim_of(tenants: &Tenants, world: &World, queued: &QueuedGroup) -> GroupClaim {
    let counted = tenants.counts_known_only();
    let known = |name: &str| !counted || tenants.tree().knows(name);
    GroupClaim::new(queued, world.now(), &known)
}

/// Keeps a tree to the members that quota would be given for; `None` if there are none.
pub(super) fn would_admit(
    tenants: &mut Tenants,
    world: &World,
    queued: &QueuedGroup,
    tree: &mut PodGroup,
) -> Option<()> {
    let claim = claim_of(tenants, world, queued);
    if claim.claim.pod_sets.is_empty() {
        return Some(());
    }
    tenants.advance(world.now());
    let assignment = tenants.decide(&claim.claim).ok()?.assignment;
    let assignment = if assignment.mode == AssignmentMode::Fit {
        assignment
    } else {
        // Dialects may prefer more pods with victims to fewer that fit.
        most_that_fit(tenants, &claim)?
    };
    restrict(tree, &claim, &assignment, tenants, world.cluster());
    Some(())
}

/// The assignment of the most pods, fewer than all, of a claim of one pod set that fit without victims;
/// `None` if fewer than its least number do.
fn most_that_fit(tenants: &mut Tenants, claim: &GroupClaim) -> Option<QuotaAssignment> {
    let ([set], [(_, each)]) = (&claim.claim.pod_sets[..], &claim.pods[..]) else { return None };
    let (mut least, mut most) = (set.min_count.unwrap_or(set.count).max(1), set.count);
    let mut found = None;
    while least < most {
        let count = least + (most - least) / 2;
        let mut part = claim.claim.clone();
        for own in &mut part.pod_sets {
            (own.count, own.min_count, own.requests) = (count, None, times(each, count));
        }
        let assignment = tenants.decide(&part).ok().map(|decision| decision.assignment);
        match assignment.filter(|own| own.mode == AssignmentMode::Fit) {
            Some(assignment) => {
                found = Some(assignment);
                least = count + 1;
            }
            None => most = count,
        }
    }
    found
}

/// The amounts of so many pods.
fn times(each: &Amounts, count: u32) -> Amounts {
    let mut all = Amounts::new();
    for (name, amount) in each.iter() {
        all.set(name, amount.saturating_mul(i64::from(count)));
    }
    all
}

/// Keeps the pods of a tree on the nodes of the flavors that their claim is given. Pods without
/// quota are left out.
pub(in crate::queue) fn restrict(
    tree: &mut PodGroup,
    claim: &GroupClaim,
    assignment: &QuotaAssignment,
    tenants: &Tenants,
    cluster: &Cluster,
) {
    let mut left_out: Vec<&str> = Vec::new();
    for set in &assignment.pod_sets {
        let Some((names, _)) = claim.pods.get(set.pod_set) else { continue };
        let count = usize::try_from(set.count).unwrap_or(usize::MAX).min(names.len());
        left_out.extend(names[count..].iter().map(String::as_str));
        let mut flavors: Vec<&Flavor> = set
            .flavors
            .iter()
            .filter_map(|choice| tenants.flavor(tenants.tree().names(choice.of).0))
            .filter(|flavor| {
                !flavor.node_labels.is_empty()
                    || !flavor.node_taints.is_empty()
                    || !flavor.tolerations.is_empty()
            })
            .collect();
        flavors.sort_by(|a, b| a.name.cmp(&b.name));
        flavors.dedup();
        if flavors.is_empty() {
            continue;
        }
        let mut made: Option<(Arc<PodShape>, Arc<PodShape>)> = None;
        let mut names: Vec<&str> = names.iter().map(String::as_str).collect();
        names.sort_unstable();
        visit(tree, &mut |pods| {
            for pod in pods {
                if names.binary_search(&full_name(pod).as_str()).is_err() {
                    continue;
                }
                let same = made.as_ref().filter(|(from, _)| **from == **pod.shape());
                let shape = if let Some((_, to)) = same {
                    Arc::clone(to)
                } else {
                    let to = Arc::new(on_flavors(pod.shape(), &flavors, cluster));
                    made = Some((Arc::clone(pod.shape()), Arc::clone(&to)));
                    to
                };
                *pod = pod.clone().with_shape(shape);
            }
        });
    }
    if !left_out.is_empty() {
        left_out.sort_unstable();
        visit(tree, &mut |pods| {
            pods.retain(|pod| left_out.binary_search(&full_name(pod).as_str()).is_err());
        });
    }
}

fn visit(tree: &mut PodGroup, change: &mut dyn FnMut(&mut Vec<Pod>)) {
    change(&mut tree.pods);
    for inner in &mut tree.groups {
        visit(inner, change);
    }
}

/// Whether a node is of a flavor: it has its labels and its taints.
pub(in crate::queue) fn is_node_of(flavor: &Flavor, node: NodeView<'_>) -> bool {
    flavor.node_labels.iter().all(|(key, value)| node.has_label(key, value))
        && flavor.node_taints.iter().all(|taint| node.taints().contains(taint))
}

/// A shape that stays on the nodes of flavors.
fn on_flavors(shape: &PodShape, flavors: &[&Flavor], cluster: &Cluster) -> PodShape {
    let mut shape = shape.clone();
    for flavor in flavors {
        for (key, value) in &flavor.node_labels {
            shape.node_selector.insert(key.clone(), value.clone());
        }
        shape.tolerations.extend(flavor.tolerations.iter().cloned());
    }
    // No selector names taints. If nodes of the labels lack them, the nodes with them are named.
    let labelled: Vec<NodeView<'_>> = if flavors.iter().all(|own| own.node_taints.is_empty()) {
        Vec::new()
    } else {
        let has = |node: &NodeView<'_>, flavor: &&&Flavor| {
            flavor.node_labels.iter().all(|(key, value)| node.has_label(key, value))
        };
        cluster.nodes().filter(|node| flavors.iter().all(|own| has(node, &own))).collect()
    };
    let is_of = |node: &&NodeView<'_>| flavors.iter().all(|own| is_node_of(own, **node));
    let tainted: Vec<&NodeView<'_>> = labelled.iter().filter(is_of).collect();
    if tainted.len() == labelled.len() {
        return shape;
    }
    let mut affinity = shape.node_affinity.take().unwrap_or_default();
    let whole = NodeSelector { terms: alloc::vec![NodeSelectorTerm::default()] };
    let mut required = affinity.required.take();
    if let Some(required) = &mut required {
        // A term without any requirement matches nothing.
        required.terms.retain(|term| *term != NodeSelectorTerm::default());
    }
    let mut terms = Vec::new();
    for term in &required.unwrap_or(whole).terms {
        for node in &tainted {
            let mut term = term.clone();
            let name = Requirement::new("metadata.name", Operator::In, [node.name()]);
            term.match_fields.push(name);
            terms.push(term);
        }
    }
    affinity.required = Some(NodeSelector { terms });
    shape.node_affinity = Some(affinity);
    shape
}
