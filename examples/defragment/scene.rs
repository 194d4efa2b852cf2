//! A cluster in use: single pods and small gangs, with gaps.

use std::error::Error;

use phalanx::preempt::RunningWork;
use phalanx::{Cluster, Node, Pod, PodGroup, Time};

use crate::common::dice::Dice;

pub(crate) const GPU: &str = "nvidia.com/gpu";
pub(crate) const RACK: &str = "rack";
/// The time of the request, in seconds.
pub(crate) const NOW: u64 = 86_400;
/// GPUs of a node.
pub(crate) const GPUS: i64 = 8;

/// Size and seed of the scene.
#[derive(Debug, Clone)]
pub(crate) struct Shape {
    pub(crate) seed: u64,
    pub(crate) nodes: u32,
    /// Nodes of a rack.
    pub(crate) rack: u32,
    /// Percent of the GPUs that are used.
    pub(crate) used: u32,
    pub(crate) members: u32,
    /// GPUs of a member.
    pub(crate) gpus: u32,
    pub(crate) anywhere: bool,
}

/// A cluster and the groups that run on it.
pub(crate) struct Scene {
    pub(crate) cluster: Cluster,
    pub(crate) running: RunningWork,
}

/// Nodes of 8 GPUs on which single pods, and gangs of two that go whole and keep to a rack, take so
/// many of all.
pub(crate) fn filled(shape: &Shape) -> Result<Scene, Box<dyn Error>> {
    let mut dice = Dice(shape.seed);
    let mut cluster = Cluster::builder().levels([RACK]).build()?;
    let mut running = RunningWork::new();
    let rack_of = |node: u32| node / shape.rack;
    for node in 0..shape.nodes {
        let rack = format!("r{:02}", rack_of(node));
        let view = Node::new(format!("n{node:03}")).capacity(GPU, GPUS).label(RACK, rack);
        cluster.add_node(view)?;
    }
    let mut free = vec![GPUS; shape.nodes as usize];
    let mut left = GPUS * i64::from(shape.nodes) * i64::from(shape.used) / 100;
    let mut number = 0;
    // Beyond so many tries the gaps are too small for what comes.
    for _ in 0..shape.nodes * 200 {
        if left <= 0 {
            break;
        }
        let size = 1_i64 << dice.below(3);
        let first = dice.below(shape.nodes.into()) as usize;
        let start = Time::from_secs(dice.below(NOW));
        let pair = dice.below(4) == 0;
        let second = first + 1;
        let pod = Pod::new().request(GPU, size).since(start);
        if !pair {
            if free[first] >= size && size <= left {
                let pod = pod.name(format!("pod-{number}"));
                cluster.add_pod(pod.on(format!("n{first:03}")))?;
                (free[first], left, number) = (free[first] - size, left - size, number + 1);
            }
        } else if second < free.len()
            && rack_of(first as u32) == rack_of(second as u32)
            && free[first].min(free[second]) >= size
            && 2 * size <= left
        {
            let name = format!("pair-{number}");
            running.set_group(&PodGroup::gang(&name, 2).require(RACK).evicted_whole())?;
            for (member, node) in [first, second].into_iter().enumerate() {
                let pod = pod.clone().name(format!("{name}-{member}")).in_group(&name);
                cluster.add_pod(pod.on(format!("n{node:03}")))?;
                free[node] -= size;
            }
            (left, number) = (left - 2 * size, number + 1);
        }
    }
    Ok(Scene { cluster, running })
}

/// The gang that room is wanted for.
pub(crate) fn gang(shape: &Shape) -> PodGroup {
    let pod = Pod::new().request(GPU, i64::from(shape.gpus));
    let gang = PodGroup::gang("trainer", shape.members).pods(shape.members as usize, pod);
    if shape.anywhere { gang } else { gang.require(RACK) }
}

pub(crate) fn title(shape: &Shape, cluster: &Cluster) -> String {
    let used = cluster.resource(GPU).map_or(0, |gpu| cluster.nodes().map(|n| n.used(gpu)).sum());
    format!(
        "{} nodes of {GPUS} GPUs, {} to a rack; {} pods take {used} of {} GPUs\n\
         a gang of {} pods of {} GPUs wants room{}\n\n",
        shape.nodes,
        shape.rack,
        cluster.pod_count(),
        GPUS * i64::from(shape.nodes),
        shape.members,
        shape.gpus,
        if shape.anywhere { "" } else { " in one rack" },
    )
}
