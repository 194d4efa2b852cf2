//! Small worlds as plain data: several resources, host ports, selectors, racks, groups of mixed
//! priorities, terminating pods, budgets, queues.

use phalanx::model::{DisruptionMode, LabelSelector, PodAffinityTerm};
use phalanx::preempt::{
    Candidate, LowerPriority, OtherQueues, Policy, Preemptor, RunningWork, SameQueue,
};
use phalanx::{Cluster, Node, Pod, PodGroup, Time};

use super::super::work::{Budget, leaves, random_budgets, running};
use crate::support::dice::Dice;

/// The time of all requests, in seconds.
pub(super) const NOW: u64 = 1_000;
pub(super) const RESOURCES: [&str; 3] = ["cpu", "gpu", "example.com/nic"];

pub(super) type Amounts = [i64; 3];

#[derive(Debug, Clone)]
pub(super) struct RunningPod {
    pub(super) name: String,
    pub(super) node: usize,
    pub(super) amounts: Amounts,
    /// The place of its group among [`World::groups`].
    pub(super) group: Option<usize>,
    pub(super) priority: i32,
    /// Seconds.
    pub(super) start: Option<u64>,
    pub(super) deleting: bool,
    pub(super) app: u64,
    pub(super) port: bool,
    /// Whether it is a member of the gang.
    pub(super) own: bool,
}

/// A running group, flat: each names its parent.
#[derive(Debug, Clone)]
pub(super) struct RunningGroup {
    pub(super) parent: Option<usize>,
    pub(super) all: bool,
    pub(super) minimum: u32,
    pub(super) min_pods: Option<u32>,
    pub(super) priority: i32,
    pub(super) queue: u64,
    pub(super) min_run_time: Option<u64>,
    pub(super) non_preemptible: bool,
}

#[derive(Debug, Clone)]
pub(super) struct Machine {
    pub(super) rack: u64,
    pub(super) amounts: Amounts,
    pub(super) pods: Option<i64>,
}

/// A shape of members.
#[derive(Debug, Clone)]
pub(super) struct Shape {
    pub(super) amounts: Amounts,
    pub(super) port: bool,
    /// The only node it may go to.
    pub(super) host: Option<usize>,
    /// It goes to no rack with a pod of app 2.
    pub(super) apart: bool,
    /// It goes to racks with a pod of app 1 alone.
    pub(super) beside: bool,
}

/// A leaf of the gang.
#[derive(Debug, Clone)]
pub(super) struct Leaf {
    pub(super) minimum: usize,
    /// A shape for each member.
    pub(super) members: Vec<usize>,
    pub(super) in_rack: bool,
}

/// The rule of what may be taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Rule {
    Lower,
    Same,
    Other,
    LowerAndSame,
    LowerAndOther,
    /// No pod of app 0 in a unit's first pod's place, and work is the number of pods.
    Ours,
}

#[derive(Debug)]
pub(super) struct World {
    pub(super) machines: Vec<Machine>,
    pub(super) pods: Vec<RunningPod>,
    pub(super) groups: Vec<RunningGroup>,
    pub(super) budgets: Vec<Budget>,
    pub(super) shapes: Vec<Shape>,
    pub(super) leaves: Vec<Leaf>,
    /// How many of the leaves are needed.
    pub(super) leaves_needed: usize,
    pub(super) in_rack: bool,
    pub(super) priority: i32,
    pub(super) queue: u64,
    pub(super) rule: Rule,
}

/// A rule of one's own.
#[derive(Debug)]
pub(super) struct Ours;

impl Policy for Ours {
    fn allows(&self, preemptor: &Preemptor<'_>, unit: &Candidate<'_>) -> bool {
        unit.priority <= preemptor.group.priority
    }

    fn work_lost(&self, _: &Preemptor<'_>, unit: &Candidate<'_>, _: u64) -> u64 {
        unit.pods as u64 * 7
    }
}

impl Rule {
    pub(super) fn policy(self) -> &'static dyn Policy {
        match self {
            Rule::Lower => &LowerPriority,
            Rule::Same => &SameQueue,
            Rule::Other => &OtherQueues,
            Rule::LowerAndSame => &(LowerPriority, SameQueue),
            Rule::LowerAndOther => &(LowerPriority, OtherQueues),
            Rule::Ours => &Ours,
        }
    }
}

fn queue(number: u64) -> String {
    format!("u{number}")
}

impl World {
    pub(super) fn random(seed: u64) -> World {
        let mut dice = Dice(seed ^ 0x5151_0000);
        let kinds = 1 + dice.roll(3) as usize;
        let racks = 1 + dice.roll(3);
        let amounts = |dice: &mut Dice, least: u64, sides: u64| {
            let mut amounts = [0; 3];
            for amount in amounts.iter_mut().take(kinds) {
                *amount = (least + dice.roll(sides)) as i64;
            }
            amounts
        };
        let machines: Vec<Machine> = (0..2 + dice.roll(3))
            .map(|_| Machine {
                rack: dice.roll(racks),
                amounts: amounts(&mut dice, 2, 4),
                pods: dice.one_in(6).then(|| 1 + dice.roll(4) as i64),
            })
            .collect();
        let mut groups: Vec<RunningGroup> = Vec::new();
        for number in 0..dice.roll(4) {
            groups.push(RunningGroup {
                parent: (number > 0 && dice.one_in(3)).then(|| dice.roll(number) as usize),
                all: dice.one_in(3),
                minimum: 1 + dice.roll(3) as u32,
                min_pods: dice.one_in(6).then(|| 1 + dice.roll(3) as u32),
                priority: dice.roll(4) as i32,
                queue: dice.roll(3),
                min_run_time: dice.one_in(8).then(|| dice.roll(1_000)),
                non_preemptible: dice.one_in(14),
            });
        }
        let parents: Vec<_> = groups.iter().map(|group| group.parent).collect();
        let ports = dice.one_in(3);
        let own = dice.one_in(12);
        let mut pods = Vec::new();
        let mut free: Vec<Amounts> = machines.iter().map(|machine| machine.amounts).collect();
        let mut room: Vec<i64> =
            machines.iter().map(|machine| machine.pods.unwrap_or(i64::MAX)).collect();
        let mut ported = vec![false; machines.len()];
        for number in 0..4 + dice.roll(6) {
            let node = dice.roll(machines.len() as u64) as usize;
            let wanted = amounts(&mut dice, 0, 3);
            if (0..3).any(|at| free[node][at] < wanted[at]) || room[node] == 0 {
                continue;
            }
            (0..3).for_each(|at| free[node][at] -= wanted[at]);
            room[node] -= 1;
            let leaves = leaves(&parents);
            let own = own && dice.one_in(4);
            let group = (!own && !leaves.is_empty() && !dice.one_in(3)).then(|| dice.of(&leaves));
            let port = ports && !ported[node] && dice.one_in(2);
            ported[node] |= port;
            pods.push(RunningPod {
                name: format!("r{number}"),
                node,
                amounts: wanted,
                group,
                priority: dice.roll(4) as i32,
                start: (!dice.one_in(4)).then(|| dice.roll(NOW)),
                deleting: dice.one_in(9),
                app: dice.roll(3),
                port,
                own,
            });
        }
        let budgets = random_budgets(&mut dice, pods.iter().map(|pod| &pod.name));
        let (apart, beside) = (dice.one_in(8), dice.one_in(12));
        let shapes: Vec<Shape> = (0..1 + dice.roll(2))
            .map(|_| Shape {
                amounts: amounts(&mut dice, 0, 4),
                port: ports && dice.one_in(2),
                host: dice.one_in(8).then(|| dice.roll(machines.len() as u64) as usize),
                apart,
                beside,
            })
            .collect();
        let leaf = |dice: &mut Dice, most: u64, in_rack: bool| {
            let count = 1 + dice.roll(most);
            let mut members: Vec<usize> =
                (0..count).map(|_| dice.roll(shapes.len() as u64) as usize).collect();
            members.sort_unstable();
            Leaf { minimum: 1 + dice.roll(count) as usize, members, in_rack }
        };
        let (leaves, leaves_needed) = if dice.one_in(4) && !own {
            let leaves = (0..2).map(|_| {
                let in_rack = dice.one_in(2);
                leaf(&mut dice, 2, in_rack)
            });
            (leaves.collect(), 1 + dice.roll(2) as usize)
        } else {
            let most = if dice.one_in(2) { 1 } else { 4 };
            (vec![leaf(&mut dice, most, false)], 1)
        };
        let rules = [
            Rule::Lower,
            Rule::Lower,
            Rule::Same,
            Rule::Other,
            Rule::LowerAndSame,
            Rule::LowerAndOther,
            Rule::Ours,
        ];
        World {
            machines,
            pods,
            groups,
            budgets,
            shapes,
            leaves,
            leaves_needed,
            // Members of one domain that run in several are an error.
            in_rack: dice.one_in(2) && !own,
            priority: 1 + dice.roll(3) as i32,
            queue: dice.roll(3),
            rule: dice.of(&rules),
        }
    }

    /// Whether pods that go never take a place away.
    pub(super) fn is_monotone(&self) -> bool {
        self.shapes.iter().all(|shape| !shape.beside)
    }

    /// Whether members of the gang run.
    pub(super) fn has_own(&self) -> bool {
        self.pods.iter().any(|pod| pod.own)
    }

    fn member(&self, shape: &Shape) -> Pod {
        let mut pod = Pod::new();
        for (resource, amount) in RESOURCES.iter().zip(shape.amounts) {
            if amount > 0 {
                pod = pod.request(resource, amount);
            }
        }
        if shape.port {
            pod = pod.host_port("TCP", 80);
        }
        if let Some(host) = shape.host {
            pod = pod.node_selector("host", format!("n{host}"));
        }
        let term = |app: &str| PodAffinityTerm::new("rack", LabelSelector::label("app", app));
        if shape.apart {
            pod = pod.anti_affinity(term("a2"));
        }
        if shape.beside {
            pod = pod.affinity(term("a1"));
        }
        pod
    }

    pub(super) fn gang(&self) -> PodGroup {
        let leaf_of = |name: String, leaf: &Leaf| {
            let mut group = PodGroup::gang(name, leaf.minimum as u32);
            for &shape in &leaf.members {
                group = group.pods(1, self.member(&self.shapes[shape]));
            }
            if leaf.in_rack { group.require("rack") } else { group }
        };
        let mut gang = match &self.leaves[..] {
            [leaf] => leaf_of("new".into(), leaf),
            leaves => {
                let mut gang = PodGroup::gang("new", self.leaves_needed as u32);
                for (number, leaf) in leaves.iter().enumerate() {
                    gang = gang.group(leaf_of(format!("new-{number}"), leaf));
                }
                gang
            }
        };
        gang = gang.priority(self.priority).queue(queue(self.queue));
        if self.in_rack { gang.require("rack") } else { gang }
    }

    pub(super) fn cluster(&self) -> Cluster {
        let mut cluster = Cluster::builder().levels(["rack"]).build().unwrap();
        for (number, machine) in self.machines.iter().enumerate() {
            let name = format!("n{number}");
            let mut node = Node::new(&name).label("rack", format!("k{}", machine.rack));
            for (resource, amount) in RESOURCES.iter().zip(machine.amounts) {
                if amount > 0 {
                    node = node.capacity(resource, amount);
                }
            }
            if let Some(pods) = machine.pods {
                node = node.capacity("pods", pods);
            }
            cluster.add_node(node.label("host", name)).unwrap();
        }
        for own in &self.pods {
            let mut pod = Pod::new().name(&own.name).label("app", format!("a{}", own.app));
            for (resource, amount) in RESOURCES.iter().zip(own.amounts) {
                if amount > 0 {
                    pod = pod.request(resource, amount);
                }
            }
            if own.port {
                pod = pod.host_port("TCP", 80);
            }
            pod = pod.priority(own.priority).on(format!("n{}", own.node));
            pod.deleting = own.deleting;
            pod.start = own.start.map(Time::from_secs);
            pod.group = own.group.map(|group| format!("g{group}"));
            if own.own {
                pod.group = Some("new".into());
            }
            cluster.add_pod(pod).unwrap();
        }
        cluster
    }

    pub(super) fn running(&self) -> RunningWork {
        let roots = (0..self.groups.len()).filter(|&group| self.groups[group].parent.is_none());
        running(roots.map(|root| self.tree(root)), &self.budgets)
    }

    fn tree(&self, number: usize) -> PodGroup {
        let own = &self.groups[number];
        let mut group = PodGroup::gang(format!("g{number}"), own.minimum).priority(own.priority);
        group = group.queue(queue(own.queue));
        group.disruption = if own.all { DisruptionMode::All } else { DisruptionMode::Single };
        group.min_pods = own.min_pods;
        group.non_preemptible = own.non_preemptible;
        group.min_run_time = own.min_run_time.map(std::time::Duration::from_secs);
        for inner in 0..self.groups.len() {
            if self.groups[inner].parent == Some(number) {
                group = group.group(self.tree(inner));
            }
        }
        group
    }
}
