//! Random small instances: a cluster, templates and groups, in plain numbers and as the library has
//! them.

use phalanx::autoscale::NodeTemplate;
use phalanx::model::{Effect, Taint, Toleration};
use phalanx::{Cluster, Node, Pod, PodGroup};

use crate::support::dice::Dice;

/// A machine in plain numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Machine {
    pub(crate) cpu: i64,
    pub(crate) gpu: i64,
    pub(crate) pods: i64,
    pub(crate) zone: Option<String>,
    pub(crate) rack: Option<String>,
    pub(crate) model: Option<&'static str>,
    pub(crate) tainted: bool,
}

impl Machine {
    /// Whether one more pod can be on it.
    pub(crate) fn takes(&self, pod: &Kind) -> bool {
        self.cpu >= pod.cpu
            && self.gpu >= pod.gpu
            && self.pods > 0
            && (!self.tainted || pod.tolerates)
            && pod.model.is_none_or(|model| self.model == Some(model))
    }

    /// Its domain by a label: a zone; or a rack, with the zone it is in.
    pub(crate) fn domain(&self, label: &str) -> Option<String> {
        match label {
            "zone" => self.zone.clone(),
            _ => Some(format!("{:?}/{}", self.zone, self.rack.as_ref()?)),
        }
    }
}

/// Nodes to buy.
#[derive(Clone, Debug)]
pub(crate) struct Offer {
    pub(crate) machine: Machine,
    pub(crate) price: u64,
    pub(crate) nodes: u32,
    pub(crate) limit: Option<u32>,
    pub(crate) own_rack: bool,
    pub(crate) among: Option<Vec<&'static str>>,
}

/// Pods that are alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Kind {
    pub(crate) cpu: i64,
    pub(crate) gpu: i64,
    pub(crate) model: Option<&'static str>,
    pub(crate) tolerates: bool,
}

/// A gang: its pods, how many must start, and the label whose domain it must be within.
#[derive(Clone, Debug)]
pub(crate) struct Want {
    pub(crate) pods: Vec<Kind>,
    pub(crate) need: usize,
    pub(crate) require: Option<&'static str>,
    /// Every so many pods, in order, within one rack.
    pub(crate) slice: Option<usize>,
}

#[derive(Clone, Debug)]
pub(crate) struct World {
    pub(crate) machines: Vec<Machine>,
    pub(crate) offers: Vec<Offer>,
    pub(crate) wants: Vec<Want>,
    pub(crate) max_nodes: u32,
}

const MODELS: [&str; 2] = ["a", "b"];
const ZONES: [&str; 2] = ["z1", "z2"];

fn machine(dice: &mut Dice) -> Machine {
    let gpu = [0, 1, 2, 4, 4][dice.roll(5) as usize];
    Machine {
        cpu: 2 + dice.roll(7) as i64,
        gpu,
        pods: if dice.roll(10) < 2 { 1 + dice.roll(3) as i64 } else { 110 },
        zone: (dice.roll(10) < 8).then(|| ZONES[dice.roll(2) as usize].to_string()),
        rack: None,
        model: (gpu > 0).then(|| MODELS[dice.roll(2) as usize]),
        tainted: dice.roll(10) < 2,
    }
}

impl World {
    pub(crate) fn random(seed: u64) -> World {
        let mut dice = Dice(seed);
        let machines = (0..dice.roll(4))
            .map(|_| {
                let mut own = machine(&mut dice);
                own.rack = (dice.roll(10) < 8).then(|| format!("r{}", dice.roll(2)));
                own
            })
            .collect();
        let offers = (0..=dice.roll(4))
            .map(|_| {
                let mut own = machine(&mut dice);
                let nodes = if dice.roll(10) < 3 { 2 + dice.roll(2) as u32 } else { 1 };
                let own_rack = nodes > 1 || dice.roll(10) < 2;
                own.rack = (!own_rack && dice.roll(10) < 6).then(|| format!("r{}", dice.roll(3)));
                let among = (dice.roll(10) < 2).then(|| ZONES.to_vec());
                if among.is_some() {
                    own.zone = None;
                }
                let worth = own.cpu as u64 + 4 * own.gpu as u64;
                let price = (worth + dice.roll(6)) * u64::from(nodes) / 2 + 1;
                let limit = (dice.roll(10) < 5).then(|| 1 + dice.roll(4) as u32);
                Offer { machine: own, price, nodes, limit, own_rack, among }
            })
            .collect();
        let mut left = 9;
        let mut wants = Vec::new();
        for _ in 0..=dice.roll(4) {
            let count = (1 + dice.roll(4) as usize).min(left);
            left -= count;
            if count == 0 {
                break;
            }
            let mut kind = || Kind {
                cpu: 1 + dice.roll(4) as i64,
                gpu: [0, 0, 1, 1, 2, 4][dice.roll(6) as usize],
                model: None,
                tolerates: dice.roll(10) < 4,
            };
            let (first, second) = (kind(), kind());
            let mixed = dice.roll(10) < 2;
            let mut pods: Vec<Kind> =
                (0..count).map(|at| if mixed && at % 2 == 1 { second } else { first }).collect();
            if dice.roll(10) < 2 {
                let model = MODELS[dice.roll(2) as usize];
                for pod in pods.iter_mut().filter(|pod| pod.gpu > 0) {
                    pod.model = Some(model);
                }
            }
            let require = [None, None, Some("rack"), Some("zone")][dice.roll(4) as usize];
            let need = if dice.roll(10) < 2 { 1 + dice.roll(count as u64) as usize } else { count };
            let slice = (need == count && count % 2 == 0 && dice.roll(10) < 2).then_some(2);
            wants.push(Want { pods, need, require, slice });
        }
        World { machines, offers, wants, max_nodes: 6 + dice.roll(7) as u32 }
    }

    /// A list too long to be searched whole: gangs of one to four pods, templates of three sizes.
    pub(crate) fn long(seed: u64, gangs: usize) -> World {
        let mut dice = Dice(seed);
        let machine = |cpu: i64, gpu: i64| Machine {
            cpu,
            gpu,
            pods: 110,
            zone: Some("z1".into()),
            rack: None,
            model: None,
            tainted: false,
        };
        let offer = |machine: Machine, price, nodes| Offer {
            machine,
            price,
            nodes,
            limit: None,
            own_rack: nodes > 1,
            among: None,
        };
        let offers = vec![
            offer(machine(8, 1), 12, 1),
            offer(machine(32, 4), 40 + dice.roll(9), 1),
            offer(machine(64, 8), 70 + dice.roll(25), 1),
            offer(machine(64, 8), 300 + dice.roll(60), 4),
        ];
        let wants = (0..gangs)
            .map(|_| {
                let count = 1 + dice.roll(4) as usize;
                let gpu = [1, 1, 2, 4, 8][dice.roll(5) as usize];
                let kind = Kind { cpu: 1 + gpu * 3, gpu, model: None, tolerates: false };
                let require = (dice.roll(4) == 0).then_some("rack");
                Want { pods: vec![kind; count], need: count, require, slice: None }
            })
            .collect();
        World { machines: vec![machine(64, 8); 3], offers, wants, max_nodes: 1_000 }
    }

    pub(crate) fn cluster(&self) -> Cluster {
        let mut cluster = Cluster::builder().levels(["zone", "rack"]).build().unwrap();
        for (at, machine) in self.machines.iter().enumerate() {
            cluster.add_node(node(&format!("old-{at}"), machine)).unwrap();
        }
        cluster
    }

    pub(crate) fn templates(&self) -> Vec<NodeTemplate> {
        let template = |(at, offer): (usize, &Offer)| {
            let node = node(&format!("t{at}"), &offer.machine);
            let mut template = NodeTemplate::new(node, offer.price).block(offer.nodes);
            template.limit = offer.limit;
            if offer.own_rack {
                template = template.own_domain("rack");
            }
            match &offer.among {
                Some(zones) => template.among("zone", zones.clone()),
                None => template,
            }
        };
        self.offers.iter().enumerate().map(template).collect()
    }

    pub(crate) fn groups(&self) -> Vec<PodGroup> {
        let group = |(at, want): (usize, &Want)| {
            let mut group = PodGroup::gang(format!("g{at}"), want.need as u32);
            for (number, kind) in want.pods.iter().enumerate() {
                let mut pod = Pod::new().name(format!("g{at}-{number}")).request("cpu", kind.cpu);
                if kind.gpu > 0 {
                    pod = pod.request("gpu", kind.gpu);
                }
                if let Some(model) = kind.model {
                    pod = pod.node_selector("model", model);
                }
                if kind.tolerates {
                    pod = pod.toleration(Toleration::exists("special"));
                }
                group = group.pod(pod);
            }
            if let Some(level) = want.require {
                group = group.require(level);
            }
            if let Some(size) = want.slice {
                group = group.slice("rack", size as u32);
            }
            group
        };
        self.wants.iter().enumerate().map(group).collect()
    }

    /// The variants of the offers: an offer, and its zone where it has a choice.
    pub(crate) fn variants(&self) -> Vec<(usize, Machine)> {
        let mut variants = Vec::new();
        for (at, offer) in self.offers.iter().enumerate() {
            match &offer.among {
                None => variants.push((at, offer.machine.clone())),
                Some(zones) => variants.extend(zones.iter().map(|zone| {
                    (at, Machine { zone: Some((*zone).to_string()), ..offer.machine.clone() })
                })),
            }
        }
        variants
    }
}

fn node(name: &str, machine: &Machine) -> Node {
    let mut node = Node::new(name)
        .capacity("cpu", machine.cpu)
        .capacity("gpu", machine.gpu)
        .capacity("pods", machine.pods);
    for (label, value) in [("zone", &machine.zone), ("rack", &machine.rack)] {
        if let Some(value) = value {
            node = node.label(label, value);
        }
    }
    if let Some(model) = machine.model {
        node = node.label("model", model);
    }
    if machine.tainted {
        node = node.taint(Taint::new("special", "", Effect::NoSchedule));
    }
    node
}
