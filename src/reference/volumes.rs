//! Volumes of a plan: each claim gets one that it may have, and none is given twice.
//!
//! Written from the rules, without the code that chooses volumes.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use super::broken::Broken;
use crate::framework::Framework;
use crate::model::{
    AttachLimits, BindingMode, LabelSelector, NodeSelectorTerm, PodShape, PodVolume, Requirement,
    Volume, VolumeClaim,
};
use crate::state::{Assignment, Cluster, NodeView, Plan};

/// Checks the claims of every pod of a plan, if the framework has the filters for volumes.
pub(super) fn check(
    plan: &Plan,
    cluster: &Cluster,
    framework: &Framework,
    broken: &mut Vec<Broken>,
) {
    let has = |name: &str| framework.filters().iter().any(|filter| filter.name() == name);
    if has("VolumeBinding") {
        let mut given = Given::default();
        for assignment in plan.assignments() {
            if let Some(node) = cluster.node(assignment.node())
                && let Err(problem) = given.pod(cluster, assignment, node)
            {
                let pod = assignment.pod().full_name().into();
                broken.push(Broken::Volumes { pod, problem });
            }
        }
    }
    if has("VolumeRestrictions") {
        one_pod(plan, cluster, broken);
    }
    if has("NodeVolumeLimits") {
        limits(plan, cluster, broken);
    }
}

/// Volumes that a plan gives, as far as it was read.
#[derive(Default)]
struct Given<'a> {
    /// The claims that get volumes, by volume.
    volumes: BTreeMap<&'a str, String>,
    /// Where the storage of each claim comes from: its volume, or the node it is made for.
    claims: BTreeMap<String, (bool, &'a str)>,
}

fn meets(node: NodeView<'_>, rules: &[Requirement]) -> bool {
    rules.iter().all(|rule| rule.matches(node.label(&rule.key)))
}

fn is_of_term(node: NodeView<'_>, terms: &[NodeSelectorTerm]) -> bool {
    terms.iter().any(|term| !term.is_empty() && meets(node, &term.match_expressions))
}

fn is_selected(node: NodeView<'_>, selector: &LabelSelector) -> bool {
    let mut pairs = selector.match_labels.iter();
    pairs.all(|(key, value)| node.has_label(key, value)) && meets(node, &selector.match_expressions)
}

fn is_reached(volume: &Volume, node: NodeView<'_>) -> bool {
    volume.node_affinity.as_ref().is_none_or(|affinity| is_of_term(node, &affinity.terms))
}

/// Whether a node reaches a volume that a claim is bound to: by the labels of its driver, where that
/// stands in for the plug-in.
fn is_reached_bound(volume: &Volume, node: NodeView<'_>, cluster: &Cluster) -> bool {
    let limits = cluster.storage().limits(node.name());
    match &volume.migrated {
        Some(own) if limits.is_some_and(|limits| limits.migrated.contains(&own.plugin)) => {
            own.node_affinity.as_ref().is_none_or(|affinity| is_of_term(node, &affinity.terms))
        }
        _ => is_reached(volume, node),
    }
}

fn claims(pod: &PodShape) -> impl Iterator<Item = &str> {
    pod.volumes.iter().filter_map(|volume| volume.claim())
}

impl<'a> Given<'a> {
    fn pod(
        &mut self,
        cluster: &Cluster,
        assignment: Assignment<'a>,
        node: NodeView<'a>,
    ) -> Result<(), String> {
        let shape: &PodShape = assignment.pod().shape();
        let storage = cluster.storage();
        for name in claims(shape) {
            let claim = storage.claim(&shape.namespace, name);
            let claim = claim.ok_or_else(|| format!("there is no claim {name}"))?;
            if claim.is_bound() {
                let volume = storage.volume(&claim.volume);
                if !volume.is_some_and(|volume| is_reached_bound(volume, node, cluster)) {
                    return Err(format!("claim {name}: its volume is out of reach"));
                }
                continue;
            }
            let class = storage.class(&claim.class);
            let binding = class.and_then(|class| class.binding);
            if binding != Some(BindingMode::WaitForFirstConsumer) || !claim.volume.is_empty() {
                return Err(format!("claim {name} is not bound"));
            }
            let full = String::from(claim.full_name());
            let bindings = assignment.volumes();
            let bound = bindings.iter().flat_map(|all| &all.bind).find(|(own, _)| *own == *full);
            let made = bindings.is_some_and(|all| all.provision.iter().any(|own| *own == *full));
            let source = match bound {
                Some((_, volume)) if !made => {
                    self.bind(cluster, claim, volume, node)?;
                    (true, &**volume)
                }
                None if made => {
                    provision(cluster, claim, node)?;
                    (false, assignment.node())
                }
                _ => return Err(format!("claim {name} gets no storage, or twice")),
            };
            if *self.claims.entry(full).or_insert(source) != source {
                return Err(format!("claim {name} gets other storage for another pod"));
            }
        }
        Ok(())
    }

    fn bind(
        &mut self,
        cluster: &Cluster,
        claim: &VolumeClaim,
        name: &'a str,
        node: NodeView<'_>,
    ) -> Result<(), String> {
        let storage = cluster.storage();
        let volume = storage.volume(name).ok_or_else(|| format!("there is no volume {name}"))?;
        let holder = storage.holder(volume);
        let alike = volume.class == claim.class
            && volume.capacity >= claim.request.unwrap_or(0)
            && volume.mode == claim.mode
            && volume.attributes_class == claim.attributes_class
            && !volume.deleting;
        let free = if let Some(holder) = &holder {
            holder.means(claim)
        } else {
            let offered = &volume.access_modes;
            volume.available
                && claim.selector.as_ref().is_none_or(|own| own.matches(&volume.labels))
                && claim.access_modes.iter().all(|mode| offered.contains(mode))
        };
        if !alike || !free || !is_reached(volume, node) {
            return Err(format!("claim {}: volume {name} does not suit it", claim.name));
        }
        let full = String::from(claim.full_name());
        let known = self.volumes.entry(name).or_insert_with(|| full.clone());
        if *known == full { Ok(()) } else { Err(format!("volume {name} is given to {known}, too")) }
    }
}

fn provision(cluster: &Cluster, claim: &VolumeClaim, node: NodeView<'_>) -> Result<(), String> {
    let storage = cluster.storage();
    let refuse = |why: &str| Err(format!("claim {}: {why}", claim.name));
    if storage.selected_node(claim).is_some_and(|selected| selected != node.name()) {
        return refuse("its volume is made for another node");
    }
    let Some(class) = storage.class(&claim.class) else { return refuse("it has no class") };
    if matches!(&*class.provisioner, "" | "kubernetes.io/no-provisioner") {
        return refuse("its class makes no volumes");
    }
    let allowed = &class.allowed_topologies;
    if !allowed.is_empty() && !is_of_term(node, allowed) {
        return refuse("its class makes no volumes for the node");
    }
    let tracked = storage.driver(&class.provisioner).is_some_and(|driver| driver.tracks_capacity);
    let Some(bytes) = claim.request.filter(|_| tracked) else { return Ok(()) };
    let serves = |pool: &crate::model::StorageCapacity| {
        pool.class == claim.class
            && pool.limit().is_some_and(|limit| limit >= bytes)
            && pool.nodes.as_ref().is_some_and(|nodes| is_selected(node, nodes))
    };
    if storage.capacities().any(serves) { Ok(()) } else { refuse("no pool has room for it") }
}

/// Checks that claims of one pod have one, pods that run included.
fn one_pod(plan: &Plan, cluster: &Cluster, broken: &mut Vec<Broken>) {
    let mut used = BTreeSet::new();
    for assignment in plan.assignments() {
        let shape: &PodShape = assignment.pod().shape();
        let named: BTreeSet<&str> = claims(shape).collect();
        for name in named {
            let claim = cluster.storage().claim(&shape.namespace, name);
            if !claim.is_some_and(VolumeClaim::is_of_one_pod) {
                continue;
            }
            let runs = cluster.pods().any(|pod| {
                let own = pod.shape();
                pod.node().is_some()
                    && own.namespace == shape.namespace
                    && claims(own).any(|other| other == name)
            });
            if runs || !used.insert((&*shape.namespace, name)) {
                let pod = assignment.pod().full_name().into();
                let problem = format!("claim {name} is of one pod, and has another");
                broken.push(Broken::Volumes { pod, problem });
            }
        }
    }
}

/// The driver of a claim's volume, and its name there.
fn attached(
    cluster: &Cluster,
    (namespace, name): (&str, &str),
    limits: Option<&AttachLimits>,
) -> Option<(String, String)> {
    let storage = cluster.storage();
    let claim = storage.claim(namespace, name)?;
    if let Some(volume) = storage.volume(&claim.volume) {
        let has_migrated = |plugin: &String| {
            limits.is_some_and(|limits| limits.migrated.iter().any(|own| own == plugin))
        };
        let moved = volume.migrated.as_ref().filter(|own| has_migrated(&own.plugin));
        let driver = volume.driver.as_ref().or(moved.map(|own| &own.volume))?;
        return Some((driver.driver.clone(), driver.handle.clone()));
    }
    let class = storage.class(&claim.class)?;
    Some((class.provisioner.clone(), claim.full_name().into()))
}

/// The volumes of plug-ins that drivers serve on a node.
fn of_plugins(shape: &PodShape, limits: &AttachLimits) -> Vec<(String, String)> {
    let mut found = Vec::new();
    for volume in &shape.volumes {
        if let PodVolume::Migrated { plugin, volume } = volume
            && limits.migrated.iter().any(|own| own == plugin)
        {
            found.push((volume.driver.clone(), volume.handle.clone()));
        }
    }
    found
}

/// Checks that nodes that get volumes attach no more of a driver than they can.
fn limits(plan: &Plan, cluster: &Cluster, broken: &mut Vec<Broken>) {
    let mut new: BTreeMap<&str, BTreeSet<(String, String)>> = BTreeMap::new();
    for assignment in plan.assignments() {
        let shape: &PodShape = assignment.pod().shape();
        let limits = cluster.storage().limits(assignment.node());
        let own = |name| attached(cluster, (&shape.namespace, name), limits);
        let found = claims(shape).filter_map(own);
        let new = new.entry(assignment.node()).or_default();
        new.extend(found);
        if let Some(limits) = limits {
            new.extend(of_plugins(shape, limits));
        }
    }
    for (name, new) in new {
        let (Some(node), Some(limits)) = (cluster.node(name), cluster.storage().limits(name))
        else {
            continue;
        };
        let mut all: BTreeSet<(String, String)> = BTreeSet::new();
        for pod in node.pods() {
            let shape = pod.shape();
            let own = |name| attached(cluster, (&shape.namespace, name), Some(limits));
            all.extend(claims(shape).filter_map(own));
            all.extend(of_plugins(shape, limits));
        }
        let more: Vec<String> = new.difference(&all).map(|(driver, _)| driver.clone()).collect();
        all.extend(new);
        for (driver, limit) in &limits.drivers {
            let count = all.iter().filter(|(own, _)| own == driver).count() as i64;
            if more.contains(driver) && limit.is_some_and(|limit| count > limit) {
                let node = String::from(name);
                broken.push(Broken::Attached { node, driver: driver.clone(), count });
            }
        }
    }
}
