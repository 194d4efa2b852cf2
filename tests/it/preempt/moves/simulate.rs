//! The order of moves, step by step, against raw capacities: a third piece of code, which reads the
//! cluster, the running groups and the answer alone.

use std::collections::{BTreeMap, BTreeSet};

use phalanx::preempt::{Preempt, RunningWork};
use phalanx::{Cluster, Framework};

/// Carries out an answer step by step.
///
/// Returns the fault where a node is over its capacity in between, a pod moves from where it is not,
/// only part of a group moves that goes whole, a group is not within the domain it requires at the
/// end, or the plan does not hold.
pub(crate) fn carry_out(
    before: &Cluster,
    running: &RunningWork,
    framework: &Framework,
    preempt: &Preempt,
) -> Result<Cluster, String> {
    let mut cluster = before.clone();
    let text = |error: &dyn std::error::Error| error.to_string();
    let going: Vec<(String, String)> = before
        .pods()
        .filter(|pod| pod.deleting())
        .map(|pod| (pod.namespace().to_string(), pod.name().to_string()))
        .collect();
    for (namespace, name) in going {
        cluster.remove_pod(&namespace, &name).map_err(|e| text(&e))?;
    }
    for pod in preempt.victims.iter().flat_map(|victim| &victim.pods) {
        cluster.remove_pod(&pod.namespace, &pod.name).map_err(|e| text(&e))?;
    }
    // What stops leaves first.
    let mut stopped = BTreeMap::new();
    for step in preempt.moves.iter().filter(|step| step.stops) {
        let pod = cluster.pod(&step.pod.namespace, &step.pod.name);
        let pod = pod.ok_or_else(|| format!("{} does not run", step.pod.name))?.to_pod();
        cluster.remove_pod(&step.pod.namespace, &step.pod.name).map_err(|e| text(&e))?;
        stopped.insert(step.pod.name.clone(), pod);
    }
    let mut moved = BTreeSet::new();
    let mut late = false;
    for step in &preempt.moves {
        let name = &step.pod.name;
        if !moved.insert((step.pod.namespace.clone(), name.clone())) {
            return Err(format!("{name} moves twice"));
        }
        let pod = if let Some(pod) = stopped.remove(name) {
            pod
        } else {
            let pod = cluster.pod(&step.pod.namespace, name);
            let pod = pod.ok_or_else(|| format!("{name} does not run"))?.to_pod();
            cluster.remove_pod(&step.pod.namespace, name).map_err(|e| text(&e))?;
            pod
        };
        if step.stops {
            late = true;
        } else if late {
            return Err(format!("{name} moves after what has stopped starts"));
        }
        if pod.node.as_deref() != Some(&step.pod.node) {
            return Err(format!("{name} is not on {}", step.pod.node));
        }
        let mut pod = pod.on(&step.to);
        pod.device_indexes.clone_from(&step.devices);
        cluster.add_pod(pod).map_err(|e| text(&e))?;
        check_capacity(&cluster, &step.to)?;
    }
    check_groups((before, &cluster), running, preempt, &moved)?;
    cluster.commit(framework, &preempt.plan).map_err(|e| text(&e))?;
    for node in cluster.nodes() {
        check_capacity(&cluster, node.name())?;
    }
    Ok(cluster)
}

/// Whether a node has no more on it than it has of anything, devices included.
fn check_capacity(cluster: &Cluster, name: &str) -> Result<(), String> {
    let node = cluster.node(name).ok_or_else(|| format!("no node {name}"))?;
    let mut used: BTreeMap<String, i64> = BTreeMap::new();
    let mut devices = BTreeSet::new();
    for pod in node.pods() {
        for (resource, amount) in pod.shape().requests.iter() {
            *used.entry(resource.to_string()).or_default() += amount;
        }
        for device in pod.device_indexes().iter().flatten() {
            if !devices.insert(*device) {
                return Err(format!("{name}: device {device} is held twice"));
            }
        }
    }
    for (resource, used) in used {
        let all = cluster.resource(&resource).map_or(0, |id| node.allocatable(id));
        if used > all {
            return Err(format!("{name}: {used} of {all} {resource} are used"));
        }
    }
    if node.pods().count() as i64 > node.pod_limit() {
        return Err(format!("{name}: too many pods"));
    }
    Ok(())
}

/// Whether groups that go whole have moved whole, and all that have moved are within the domains
/// they require.
fn check_groups(
    (before, after): (&Cluster, &Cluster),
    running: &RunningWork,
    preempt: &Preempt,
    moved: &BTreeSet<(String, String)>,
) -> Result<(), String> {
    for group in running.groups() {
        let pods: Vec<_> = after.pods_of(group).collect();
        let has_moved = |pod: &&phalanx::state::PodView<'_>| {
            moved.contains(&(pod.namespace().to_string(), pod.name().to_string()))
        };
        let count = pods.iter().filter(has_moved).count();
        if count == 0 {
            continue;
        }
        if group.non_preemptible {
            return Err(format!("{} is not to move", group.name));
        }
        let all = group.disruption == phalanx::model::DisruptionMode::All;
        let left = pods.len() - count;
        if left > 0 && (all || left < group.policy.minimum() as usize) {
            return Err(format!("{} of {} pods of {} move", count, pods.len(), group.name));
        }
        if let Some(level) = &group.topology.require {
            let domains: BTreeSet<_> =
                pods.iter().map(|pod| pod.node().and_then(|node| node.label(level))).collect();
            if domains.len() > 1 {
                return Err(format!("{} is in {domains:?}", group.name));
            }
        }
        let victims = || preempt.victims.iter().flat_map(|victim| &victim.pods);
        let stays = |pod: &phalanx::state::PodView<'_>| {
            let same = |gone: &phalanx::preempt::EvictedPod| {
                (&*gone.namespace, &*gone.name) == (pod.namespace(), pod.name())
            };
            !pod.deleting() && !victims().any(same)
        };
        let kept = before.pods_of(group).filter(stays).count();
        if kept != pods.len() {
            return Err(format!("{} had {kept} pods and has {}", group.name, pods.len()));
        }
    }
    Ok(())
}
