//! Moves: a pod that finds no room gets some by a few others that go elsewhere.
//!
//! It sees the cluster as it is, and the pod. A node is looked at if some of its pods leave room by
//! going. For each device that the pod needs these are the pods that hold the device. For CPU and
//! memory that are still short, they are those that have most. Fewest moves go first. The moves are
//! made if the planner has places for all of them beside the pod, by the framework's own score.

use std::collections::BTreeMap;
use std::error::Error;
use std::sync::Arc;

use phalanx::model::{DeviceAsk, DeviceRequest, PodShape};
use phalanx::state::{NodeView, PodView, Row};
use phalanx::{Cluster, Framework, Planner, Pod, PodGroup};

use crate::trace::{GPU, TracePod, UNIT};

/// Placed pods for each move.
pub(crate) const PLACED_FOR_ONE: usize = 100;
/// GPUs that a move must gain, in thousandths.
const LEAST: i64 = GPU / 6;
/// The most nodes that are tried for a pod.
const TRIED: usize = 24;
/// The most moves for one pod.
const MOST: usize = 6;

/// A strategy with moves, and how many it has made.
#[derive(Debug, Default)]
pub(crate) struct Moves {
    pub(crate) made: usize,
    /// Shapes for which no moves were found, with the number of pods placed and moves allowed then.
    in_vain: BTreeMap<Arc<PodShape>, (usize, usize)>,
}

/// Pods of a node that leave room by going.
struct Leave {
    /// Their number, and what they hold: fewer and smaller ones go first.
    key: (usize, i64, i64),
    pods: Vec<Pod>,
}

impl Moves {
    /// Places a pod that has no room as things are. Returns whether it is placed.
    pub(crate) fn place(
        &mut self,
        cluster: &mut Cluster,
        (framework, planner): (&Framework, &mut Planner),
        (pod, group): (&TracePod, &PodGroup),
        placed: usize,
    ) -> Result<bool, Box<dyn Error>> {
        let allowed = (placed / PLACED_FOR_ONE).saturating_sub(self.made);
        let worth = (pod.milli / LEAST) as usize;
        let most = allowed.min(worth).min(MOST);
        // As long as nothing is placed, and no more may move, the answer is that of the last time.
        let now = (placed, most);
        if most == 0 || self.in_vain.get(&pod.shape) == Some(&now) {
            return Ok(false);
        }
        let nodes = || Row::all(cluster.rows()).filter_map(|row| cluster.view(row));
        // Pods that hold more of a device than any has left cannot go elsewhere.
        let room = nodes().filter_map(|node| {
            let (room, unit) = (node.device_room()?, cluster.device_term(UNIT)?);
            let unit = room.unit(unit)?;
            (0..room.len()).map(|device| room.free(device, unit)).max()
        });
        let largest = room.max().unwrap_or(0);
        let mut ways: Vec<Leave> =
            nodes().filter_map(|node| leave(cluster, node, pod, (most, largest))).collect();
        ways.sort_by_key(|way| way.key);
        for way in ways.into_iter().take(TRIED) {
            if carry_out(cluster, framework, planner, group, &way.pods)? {
                self.made += way.pods.len();
                return Ok(true);
            }
        }
        self.in_vain.insert(Arc::clone(&pod.shape), now);
        Ok(false)
    }
}

/// Devices that a pod holds, in thousandths of one.
fn size(shape: &PodShape) -> i64 {
    let of = |request: &DeviceRequest| {
        let each = match &request.ask {
            DeviceAsk::Shares { each, .. } => each.of(UNIT),
            _ => GPU,
        };
        each * i64::from(request.count())
    };
    shape.devices.iter().map(of).sum()
}

/// The free amount of a resource.
fn free(cluster: &Cluster, node: NodeView<'_>, name: &str) -> i64 {
    cluster.resource(name).map_or(0, |resource| node.free(resource))
}

/// Few pods of a node without which the pod has room there.
fn leave(
    cluster: &Cluster,
    node: NodeView<'_>,
    pod: &TracePod,
    (most, largest): (usize, i64),
) -> Option<Leave> {
    let request = pod.shape.devices.first()?;
    let models = &request.models;
    if !models.is_empty() && !node.devices().first().is_some_and(|own| models.contains(&own.model))
    {
        return None;
    }
    let count = request.count() as usize;
    let share = pod.milli / count.max(1) as i64;
    let room = node.device_room()?;
    let unit = room.unit(cluster.device_term(UNIT)?)?;
    let running: Vec<PodView<'_>> = node.pods().collect();
    let holds = |pod: &PodView<'_>, device: usize| {
        pod.device_indexes().iter().flatten().any(|index| *index as usize == device)
    };
    let sizes: Vec<i64> = running.iter().map(|pod| size(pod.shape())).collect();
    // By device: the pods that hold it, if it has too little left.
    let mut devices: Vec<(usize, i64, Vec<usize>)> = (0..room.len())
        .map(|device| {
            let left = room.free(device, unit);
            let needed = if share >= GPU { left < GPU } else { left < share };
            let on = |at: &usize| holds(&running[*at], device);
            let on: Vec<usize> =
                if needed { (0..running.len()).filter(on).collect() } else { Vec::new() };
            (on.len(), on.iter().map(|at| sizes[*at]).sum(), on)
        })
        .collect();
    devices.retain(|(_, _, on)| on.iter().all(|at| sizes[*at] <= largest));
    devices.sort();
    if devices.len() < count {
        return None;
    }
    let mut leaving: Vec<usize> =
        devices.into_iter().take(count).flat_map(|(_, _, on)| on).collect();
    leaving.sort_unstable();
    leaving.dedup();
    if leaving.len() > most {
        return None;
    }
    for name in ["cpu", "memory"] {
        let of = |at: &usize| running[*at].shape().requests.of(name);
        let gone: i64 = leaving.iter().map(of).sum();
        let mut short = pod.shape.requests.of(name) - free(cluster, node, name) - gone;
        while short > 0 {
            // The smallest by devices that makes room alone, else the one that has most.
            let others =
                (0..running.len()).filter(|at| !leaving.contains(at) && sizes[*at] <= largest);
            let best = others.max_by_key(|at| {
                let own = of(at);
                (own.min(short), -sizes[*at], -own)
            })?;
            short -= of(&best);
            leaving.push(best);
            if leaving.len() > most {
                return None;
            }
        }
    }
    if leaving.is_empty() {
        return None;
    }
    let cpu = leaving.iter().map(|at| running[*at].shape().requests.of("cpu")).sum();
    let key = (leaving.len(), leaving.iter().map(|at| sizes[*at]).sum(), cpu);
    let pods: Vec<Pod> = leaving.into_iter().map(|at| running[at].to_pod()).collect();
    Some(Leave { key, pods })
}

/// Places one pod where the planner says. Returns whether it has a place.
fn put(
    cluster: &mut Cluster,
    framework: &Framework,
    planner: &mut Planner,
    group: &PodGroup,
) -> Result<bool, Box<dyn Error>> {
    let outcome = planner.place(cluster, framework, group)?;
    let Some(plan) = outcome.plan() else { return Ok(false) };
    phalanx::reference::is_sound(plan, group, cluster, framework)?;
    cluster.commit(framework, plan)?;
    Ok(true)
}

/// Lets pods leave, places the new one, and then those. If one has no place, all is as it was.
fn carry_out(
    cluster: &mut Cluster,
    framework: &Framework,
    planner: &mut Planner,
    group: &PodGroup,
    leaving: &[Pod],
) -> Result<bool, Box<dyn Error>> {
    for pod in leaving {
        cluster.remove_pod(pod.namespace(), &pod.name)?;
    }
    let mut done: Vec<(String, String)> = Vec::new();
    let name = |pod: &Pod| (pod.namespace().to_string(), pod.name.clone());
    let mut all = put(cluster, framework, planner, group)?;
    if all {
        done.extend(group.pods.iter().map(name));
    }
    for pod in leaving {
        let member = Pod::of_shape(pod.shape().clone()).name(pod.name.clone());
        let group = PodGroup::gang(format!("moved-{}", pod.name), 1).pod(member);
        all = all && put(cluster, framework, planner, &group)?;
        if !all {
            break;
        }
        done.push(name(pod));
    }
    if !all {
        for (namespace, name) in done {
            cluster.remove_pod(&namespace, &name)?;
        }
        for pod in leaving {
            cluster.add_pod(pod.clone())?;
        }
    }
    Ok(all)
}
