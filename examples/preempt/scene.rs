//! A full cluster: the nodes of openb, filled with gangs.

use std::error::Error;

use phalanx::preempt::RunningWork;
use phalanx::{Cluster, Node, Pod, PodGroup, Time};

use crate::common::dice::Dice;
use crate::common::files;

const NODES: &[u8] = include_bytes!("../data/openb/nodes.csv.gz");
pub(crate) const GPU: &str = "nvidia.com/gpu";
pub(crate) const RACK: &str = "rack";
/// Nodes of a rack.
const RACK_NODES: usize = 16;
/// The time of the request, in seconds.
pub(crate) const NOW: u64 = 86_400;
const PRIORITIES: [i32; 3] = [10, 20, 30];

/// A cluster and the groups that run on it.
pub(crate) struct Scene {
    pub(crate) cluster: Cluster,
    pub(crate) running: RunningWork,
    gpus: i64,
}

/// Every GPU taken by gangs of 2 to 12 pods, each within two racks at most.
pub(crate) fn filled(seed: u64) -> Result<Scene, Box<dyn Error>> {
    let mut dice = Dice(seed);
    let mut cluster = Cluster::builder().levels([RACK]).build()?;
    let mut running = RunningWork::new();
    let mut gpus = 0;
    let (mut left, mut next) = (0, 0);
    let (mut name, mut template) = (String::new(), Pod::new());
    let table = files::text("nodes.csv.gz", files::unpack("nodes.csv.gz", NODES.to_vec())?)?;
    for (number, line) in table.lines().skip(1).enumerate() {
        let fields: Vec<&str> = line.split(',').collect();
        let [node, cpu_milli, memory_mib, count, _model] = fields[..] else {
            return Err(format!("{line:?} has not 5 fields").into());
        };
        let mut free: i64 = count.parse()?;
        gpus += free;
        let rack = format!("r{:02}", number / RACK_NODES);
        let view = Node::new(node)
            .capacity("cpu", format!("{cpu_milli}m"))
            .capacity("memory", format!("{memory_mib}Mi"))
            .capacity(GPU, free)
            .label(RACK, rack);
        cluster.add_node(view)?;
        while free > 0 {
            if left == 0 {
                left = 2 + dice.below(11);
                name = format!("job-{next}");
                next += 1;
                let priority = PRIORITIES[dice.below(3) as usize];
                let group = PodGroup::gang(&name, left as u32).priority(priority);
                running.set_group(&group.evicted_whole())?;
                let start = Time::from_secs(dice.below(NOW));
                template = Pod::new().priority(priority).since(start).in_group(&name);
            }
            let size = (1_i64 << dice.below(4)).min(free);
            free -= size;
            let pod = template.clone().request(GPU, size).name(format!("{name}-{left}"));
            cluster.add_pod(pod.on(node))?;
            left -= 1;
        }
    }
    Ok(Scene { cluster, running, gpus })
}

/// The gang that comes.
pub(crate) fn gang(members: usize, priority: i32) -> PodGroup {
    let pod = Pod::new().request("cpu", 8).request("memory", "32Gi").request(GPU, 8);
    PodGroup::gang("trainer", members as u32).pods(members, pod).priority(priority).require(RACK)
}

impl Scene {
    pub(crate) fn title(&self, gang: &PodGroup) -> String {
        format!(
            "openb (Alibaba): {} nodes, {} GPUs, all taken by {} gangs of {} pods\n\
             {} wants {} pods of 8 GPUs in one rack, at priority {}\n\n",
            self.cluster.node_count(),
            self.gpus,
            self.running.groups().len(),
            self.cluster.pod_count(),
            gang.name,
            gang.pods.len(),
            gang.priority,
        )
    }
}
