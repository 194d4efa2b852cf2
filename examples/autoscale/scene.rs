//! A cluster at 95 percent with a backlog, and what can be bought.

use std::error::Error;

use phalanx::autoscale::NodeTemplate;
use phalanx::preempt::RunningWork;
use phalanx::{Cluster, Node, Pod, PodGroup};

use crate::common::dice::Dice;
use crate::common::files;

const NODES: &[u8] = include_bytes!("../data/openb/nodes.csv.gz");
pub(crate) const GPU: &str = "nvidia.com/gpu";
pub(crate) const RACK: &str = "rack";
pub(crate) const MODEL: &str = "gpu-model";
/// Nodes of a rack.
const RACK_NODES: usize = 16;

/// Nodes to buy: the node models of openb that are common there, with prices of our own (cents an
/// hour, made up: they say nothing of what anybody charges). By name: model, CPUs, memory in GiB,
/// GPUs, price, and nodes that come together in a rack of their own.
const OFFERS: [(&str, &str, i64, i64, i64, u64, u32); 10] = [
    ("t4-2", "T4", 104, 512, 2, 260, 1),
    ("t4-4", "T4", 96, 384, 4, 380, 1),
    ("g2-8", "G2", 96, 384, 8, 800, 1),
    ("g3-8", "G3", 128, 768, 8, 1_900, 1),
    ("p100-2", "P100", 64, 256, 2, 240, 1),
    ("v100m16-4", "V100M16", 32, 128, 4, 620, 1),
    ("v100m16-8", "V100M16", 64, 256, 8, 1_200, 1),
    ("v100m32-8", "V100M32", 96, 768, 8, 1_500, 1),
    ("g2-rack", "G2", 96, 384, 8, 5_600, 8),
    ("v100m32-rack", "V100M32", 96, 768, 8, 5_400, 4),
];

/// A cluster, what runs on it, what waits, and what can be bought.
pub(crate) struct Scene {
    pub(crate) cluster: Cluster,
    pub(crate) running: RunningWork,
    pub(crate) backlog: Vec<PodGroup>,
    pub(crate) templates: Vec<NodeTemplate>,
    pub(crate) gpus: i64,
    pub(crate) used: i64,
}

/// A node of a model.
fn node(name: &str, cpu_milli: i64, memory_mib: i64, gpus: i64, model: &str) -> Node {
    Node::new(name)
        .capacity("cpu", format!("{cpu_milli}m"))
        .capacity("memory", format!("{memory_mib}Mi"))
        .capacity(GPU, gpus)
        .capacity("pods", 110)
        .label(MODEL, model)
}

/// The templates. Nodes that come one by one are in no rack.
pub(crate) fn templates() -> Vec<NodeTemplate> {
    let template = |&(name, model, cpu, memory, gpus, price, nodes): &(_, _, _, _, _, _, _)| {
        let node = node(name, cpu * 1_000, memory * 1_024, gpus, model);
        let template = NodeTemplate::new(node, price).limit(200);
        if nodes == 1 { template } else { template.block(nodes).own_domain(RACK) }
    };
    OFFERS.iter().map(template).collect()
}

/// Price of a node of the cluster: its GPUs at the price of the cheapest template of its model; 100
/// for each GPU of a model that cannot be bought.
pub(crate) fn price(model: &str, gpus: i64) -> u64 {
    let of_model = OFFERS.iter().filter(|offer| offer.1 == model);
    let each = of_model.map(|offer| offer.5 / (offer.4 as u64 * u64::from(offer.6))).min();
    each.unwrap_or(100) * gpus as u64
}

/// Running work: gangs of up to eight pods, one in four of which is evicted whole.
struct Filling {
    running: RunningWork,
    used: i64,
    gangs: usize,
    /// The gang under way, and how many pods it still has to come.
    gang: String,
    left: u64,
}

impl Filling {
    /// Places the next pod on a node: so many GPUs, with three quarters of the CPU that is theirs.
    fn add(
        &mut self,
        (cluster, dice): (&mut Cluster, &mut Dice),
        node: &str,
        (gpus, cpu_milli): (i64, i64),
    ) -> Result<(), Box<dyn Error>> {
        if self.left == 0 {
            self.left = 1 + dice.below(8);
            self.gang = format!("job-{}", self.gangs);
            self.gangs += 1;
            let group = PodGroup::gang(&self.gang, self.left as u32);
            let whole = dice.below(4) == 0;
            self.running.set_group(&if whole { group.evicted_whole() } else { group })?;
        }
        let pod = Pod::new()
            .name(format!("{}-{}", self.gang, self.left))
            .in_group(&self.gang)
            .request("cpu", format!("{}m", gpus * cpu_milli * 3 / 4))
            .request(GPU, gpus);
        cluster.add_pod(pod.on(node))?;
        self.left -= 1;
        self.used += gpus;
        Ok(())
    }
}

/// The nodes of openb, of whose GPUs 95 of 100 are taken by gangs, and a backlog.
pub(crate) fn openb(seed: u64, gangs: usize) -> Result<Scene, Box<dyn Error>> {
    let mut dice = Dice(seed);
    let mut cluster = Cluster::builder().levels([RACK]).build()?;
    let running = RunningWork::new();
    let mut filling = Filling { running, used: 0, gangs: 0, gang: String::new(), left: 0 };
    let mut gpus = 0;
    // Nodes with room: the name, the GPUs that are free, and the CPU of each.
    let mut open: Vec<(&str, i64, i64)> = Vec::new();
    let table = files::text("nodes.csv.gz", files::unpack("nodes.csv.gz", NODES.to_vec())?)?;
    for (number, line) in table.lines().skip(1).enumerate() {
        let fields: Vec<&str> = line.split(',').collect();
        let [own, cpu_milli, memory_mib, count, model] = fields[..] else {
            return Err(format!("{line:?} has not 5 fields").into());
        };
        let mut free: i64 = count.parse()?;
        let (cpu, memory): (i64, i64) = (cpu_milli.parse()?, memory_mib.parse()?);
        let rack = format!("r{:02}", number / RACK_NODES);
        cluster.add_node(node(own, cpu, memory, free, model).label(RACK, rack))?;
        let share = cpu / free.max(1);
        gpus += free;
        // One node in seven is left half empty: more than a twentieth of the GPUs.
        let keep = if dice.below(7) == 0 { free - free / 2 } else { 0 };
        while free > keep {
            let size = (1_i64 << dice.below(4)).min(free - keep);
            free -= size;
            filling.add((&mut cluster, &mut dice), own, (size, share))?;
        }
        if free > 0 {
            open.push((own, free, share));
        }
    }
    // Pods of one GPU, one a node in turn, take what is above a twentieth.
    while !open.is_empty() && filling.used * 100 < gpus * 95 {
        for (own, free, share) in &mut open {
            if filling.used * 100 < gpus * 95 {
                filling.add((&mut cluster, &mut dice), own, (1, *share))?;
                *free -= 1;
            }
        }
        open.retain(|(_, free, _)| *free > 0);
    }
    let backlog = (0..gangs).map(|at| pending(&mut dice, at)).collect();
    let Filling { running, used, .. } = filling;
    Ok(Scene { cluster, running, backlog, templates: templates(), gpus, used })
}

/// A gang that waits: training in one rack or anywhere, inference on small GPUs, notebooks.
fn pending(dice: &mut Dice, at: usize) -> PodGroup {
    let pod = |cpu: i64, memory: i64, gpus: i64| {
        let memory = format!("{memory}Gi");
        Pod::new().request("cpu", cpu).request("memory", memory).request(GPU, gpus)
    };
    let gang = |kind: &str, count: u64, pod: Pod| {
        PodGroup::gang(format!("{kind}-{at}"), count as u32).pods(count as usize, pod)
    };
    match dice.below(8) {
        0 => gang("pretrain", 4 + dice.below(5), pod(80, 256, 8).node_selector(MODEL, "G2"))
            .require(RACK),
        1 => gang("finetune", 2 + dice.below(3), pod(48, 192, 8).node_selector(MODEL, "V100M32"))
            .require(RACK),
        2 => gang("sweep", 2 + dice.below(7), pod(12, 48, 2)),
        3 => gang("render", 1 + dice.below(6), pod(6, 24, 1).node_selector(MODEL, "T4")),
        4 => gang("serve", 2 + dice.below(6), pod(24, 64, 1).node_selector(MODEL, "T4")),
        5 => gang("batch", 1 + dice.below(4), pod(7, 28, 1).node_selector(MODEL, "V100M16")),
        6 => gang("large", 1 + dice.below(2), pod(100, 600, 8)),
        _ => gang("notebook", 1 + dice.below(3), pod(8, 32, 1)),
    }
}

/// For the measurement: a cluster of so many nodes at 95 percent, and gangs of ten kinds.
pub(crate) fn synthetic(nodes: usize, gangs: usize) -> Result<Scene, Box<dyn Error>> {
    let mut dice = Dice(7);
    let mut cluster = Cluster::builder().levels([RACK]).build()?;
    let (mut gpus, mut used) = (0, 0);
    for number in 0..nodes {
        let (_, model, cpu, memory, count, ..) = OFFERS[number % 8];
        let name = format!("node-{number:04}");
        let rack = format!("r{:03}", number / RACK_NODES);
        cluster
            .add_node(node(&name, cpu * 1_000, memory * 1_024, count, model).label(RACK, rack))?;
        let busy = if dice.below(20) == 0 { count / 2 } else { count };
        let pod = Pod::new().name(format!("busy-{number}")).request("cpu", cpu / 2);
        cluster.add_pod(pod.request(GPU, busy).on(&name))?;
        gpus += count;
        used += busy;
    }
    let backlog = (0..gangs).map(|at| pending(&mut dice, at)).collect();
    let templates = templates();
    Ok(Scene { cluster, running: RunningWork::new(), backlog, templates, gpus, used })
}
