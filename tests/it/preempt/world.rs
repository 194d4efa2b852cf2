//! Small clusters with running groups, as plain data, and what sets of their pods cost.

use std::collections::BTreeSet;

use phalanx::model::{DisruptionMode, LabelSelector, PodAffinityTerm};
use phalanx::preempt::{Cost, RunningWork};
use phalanx::{Cluster, Node, Pod, PodGroup, Time};

use super::work::{Budget, leaves, random_budgets, running};
use crate::support::dice::Dice;

/// The time of all requests, in seconds.
pub(super) const NOW: u64 = 1_000;
pub(super) const GPU: &str = "example.com/gpu";

#[derive(Debug, Clone)]
pub(super) struct RunningPod {
    pub(super) name: String,
    pub(super) node: usize,
    /// The place of its group among [`World::groups`].
    pub(super) group: Option<usize>,
    pub(super) priority: i32,
    /// Seconds.
    pub(super) start: Option<u64>,
    pub(super) deleting: bool,
    pub(super) app: u64,
    pub(super) gpus: u64,
    /// Whether the gang must not be in its rack.
    pub(super) apart: bool,
}

/// A running group, flat: what is inside names it.
#[derive(Debug, Clone)]
pub(super) struct RunningGroup {
    pub(super) parent: Option<usize>,
    pub(super) all: bool,
    pub(super) minimum: u32,
    pub(super) priority: i32,
    pub(super) min_run_time: Option<u64>,
    pub(super) non_preemptible: bool,
}

#[derive(Debug)]
pub(super) struct World {
    /// Rack and GPUs.
    pub(super) nodes: Vec<(u64, u64)>,
    pub(super) pods: Vec<RunningPod>,
    pub(super) groups: Vec<RunningGroup>,
    pub(super) budgets: Vec<Budget>,
    pub(super) gang: PodGroup,
}

impl World {
    pub(super) fn random(seed: u64) -> World {
        let mut dice = Dice(seed);
        let racks = 1 + dice.roll(3);
        let nodes: Vec<(u64, u64)> =
            (0..2 + dice.roll(4)).map(|_| (dice.roll(racks), 2 + dice.roll(3))).collect();
        let mut groups = Vec::new();
        for number in 0..dice.roll(4) as usize {
            let parent = (number > 0 && dice.one_in(3)).then(|| dice.roll(number as u64) as usize);
            groups.push(RunningGroup {
                parent,
                all: dice.one_in(2),
                minimum: 1 + dice.roll(3) as u32,
                priority: dice.roll(4) as i32,
                min_run_time: dice.one_in(6).then(|| dice.roll(1_000)),
                non_preemptible: dice.one_in(12),
            });
        }
        let parents: Vec<_> = groups.iter().map(|group: &RunningGroup| group.parent).collect();
        let interplay = dice.one_in(4);
        let mut pods = Vec::new();
        let mut free: Vec<u64> = nodes.iter().map(|(_, gpus)| *gpus).collect();
        for number in 0..5 + dice.roll(5) {
            let node = dice.roll(nodes.len() as u64) as usize;
            let gpus = 1 + dice.roll(2);
            if free[node] < gpus {
                continue;
            }
            free[node] -= gpus;
            let leaves = leaves(&parents);
            let group = (!leaves.is_empty() && !dice.one_in(3)).then(|| dice.of(&leaves));
            pods.push(RunningPod {
                name: format!("r{number}"),
                node,
                group,
                priority: dice.roll(4) as i32,
                start: (!dice.one_in(4)).then(|| dice.roll(NOW)),
                deleting: dice.one_in(10),
                app: dice.roll(3),
                gpus,
                apart: interplay && dice.one_in(3),
            });
        }
        let budgets = random_budgets(&mut dice, pods.iter().map(|pod| &pod.name));
        let mut pod = Pod::new().request(GPU, 1 + dice.roll(3) as i64);
        if interplay {
            pod = pod
                .anti_affinity(PodAffinityTerm::new("rack", LabelSelector::label("apart", "yes")));
        }
        let members = 1 + dice.roll(3) as usize;
        let least = 1 + dice.roll(members as u64) as u32;
        let gang = if dice.one_in(4) {
            let part = |name: &str, dice: &mut Dice| {
                let group = PodGroup::gang(name, 1).pods(1 + dice.roll(2) as usize, pod.clone());
                if dice.one_in(2) { group.require("rack") } else { group }
            };
            let (a, b) = (part("new-a", &mut dice), part("new-b", &mut dice));
            PodGroup::gang("new", 2).group(a).group(b)
        } else {
            let gang = PodGroup::gang("new", least).pods(members, pod.clone());
            if dice.one_in(3) {
                // Members of another shape, some of which may be all it takes.
                let mut other = pod;
                other = other.request(GPU, 1 + dice.roll(3) as i64);
                gang.pods(1 + dice.roll(2) as usize, other)
            } else {
                gang
            }
        };
        let gang = gang.priority(1 + dice.roll(3) as i32);
        let gang = if dice.one_in(2) { gang.require("rack") } else { gang };
        World { nodes, pods, groups, budgets, gang }
    }

    pub(super) fn cluster(&self) -> Cluster {
        let mut cluster = Cluster::builder().levels(["rack"]).build().unwrap();
        for (number, (rack, gpus)) in self.nodes.iter().enumerate() {
            let node = Node::new(format!("n{number}")).capacity(GPU, *gpus as i64);
            cluster.add_node(node.label("rack", format!("k{rack}"))).unwrap();
        }
        for pod in &self.pods {
            let mut bound = Pod::new()
                .name(&pod.name)
                .request(GPU, pod.gpus as i64)
                .label("app", format!("a{}", pod.app))
                .priority(pod.priority)
                .on(format!("n{}", pod.node));
            if pod.apart {
                bound = bound.label("apart", "yes");
            }
            bound.deleting = pod.deleting;
            bound.start = pod.start.map(Time::from_secs);
            bound.group = pod.group.map(|group| format!("g{group}"));
            cluster.add_pod(bound).unwrap();
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
        group.disruption = if own.all { DisruptionMode::All } else { DisruptionMode::Single };
        group.non_preemptible = own.non_preemptible;
        group.min_run_time = own.min_run_time.map(std::time::Duration::from_secs);
        for inner in self.inside(number) {
            group = group.group(self.tree(inner));
        }
        group
    }

    fn inside(&self, number: usize) -> Vec<usize> {
        (0..self.groups.len()).filter(|&inner| self.groups[inner].parent == Some(number)).collect()
    }

    /// The outermost group that goes whole with a pod.
    fn whole(&self, pod: usize) -> Option<usize> {
        let mut found = None;
        let mut group = self.pods[pod].group;
        while let Some(number) = group {
            if self.groups[number].all {
                found = Some(number);
            }
            group = self.groups[number].parent;
        }
        found
    }

    /// Pods of each set that goes as one.
    pub(super) fn atoms(&self) -> Vec<Vec<usize>> {
        let mut atoms: Vec<(Option<usize>, Vec<usize>)> = Vec::new();
        for pod in (0..self.pods.len()).filter(|&pod| !self.pods[pod].deleting) {
            let whole = self.whole(pod);
            match atoms.iter_mut().find(|(known, _)| whole.is_some() && *known == whole) {
                Some((_, pods)) => pods.push(pod),
                None => atoms.push((whole, vec![pod])),
            }
        }
        atoms.into_iter().map(|(_, pods)| pods).collect()
    }

    fn below(&self, group: usize, pod: usize) -> bool {
        let mut own = self.pods[pod].group;
        while let Some(number) = own {
            if number == group {
                return true;
            }
            own = self.groups[number].parent;
        }
        false
    }

    fn stays(&self, group: usize, gone: &BTreeSet<usize>) -> bool {
        let stays = |pod: usize| !self.pods[pod].deleting && !gone.contains(&pod);
        let own = &self.groups[group];
        if own.all {
            return (0..self.pods.len()).any(|pod| self.below(group, pod) && stays(pod));
        }
        let pods = (0..self.pods.len())
            .filter(|&pod| self.pods[pod].group == Some(group) && stays(pod))
            .count();
        let groups = self.inside(group).into_iter().filter(|&inner| self.stays(inner, gone));
        pods + groups.count() >= own.minimum as usize
    }

    /// Whether no group is left that does not count any more, nor part of one that goes whole.
    pub(super) fn is_sound(&self, gone: &BTreeSet<usize>) -> bool {
        (0..self.groups.len()).all(|group| {
            let own: Vec<usize> = (0..self.pods.len())
                .filter(|&pod| self.below(group, pod) && !self.pods[pod].deleting)
                .collect();
            let lost = own.iter().filter(|pod| gone.contains(pod)).count();
            lost == 0 || lost == own.len() || !self.groups[group].all && self.stays(group, gone)
        })
    }

    /// Whether an atom may be taken by the gang.
    pub(super) fn is_free(&self, atom: &[usize]) -> bool {
        let whole = self.whole(atom[0]);
        let header = whole.or(self.pods[atom[0]].group).map(|group| &self.groups[group]);
        if let Some(group) = header {
            let start = |pod: &usize| self.pods[*pod].start.unwrap_or(NOW);
            let latest = atom.iter().map(start).max().unwrap();
            if group.non_preemptible || group.min_run_time.is_some_and(|run| NOW < latest + run) {
                return false;
            }
        }
        self.priority(atom) < self.gang.priority
    }

    fn priority(&self, atom: &[usize]) -> i32 {
        match self.whole(atom[0]) {
            Some(group) => self.groups[group].priority,
            None => self.pods[atom[0]].priority,
        }
    }

    /// The cost of a sound set of atoms.
    pub(super) fn cost(&self, atoms: &[&Vec<usize>]) -> Cost {
        let gone: BTreeSet<usize> = atoms.iter().copied().flatten().copied().collect();
        let run = |pod: &usize| NOW - self.pods[*pod].start.unwrap_or(NOW);
        let broken = self.budgets.iter().map(|(app, allowed, counted)| {
            let of = |pod: &&usize| {
                self.pods[**pod].app == *app && !counted.contains(&self.pods[**pod].name)
            };
            (gone.iter().filter(of).count() as i64 - allowed).max(0) as u64
        });
        let mut units = 0;
        for group in 0..self.groups.len() {
            let alone =
                |pod: &usize| self.pods[*pod].group == Some(group) && self.whole(*pod).is_none();
            let taken = gone.iter().filter(|pod| alone(pod)).count() as u64;
            let all = (0..self.pods.len()).filter(|pod| alone(pod) && !self.pods[*pod].deleting);
            let minimum = u64::from(self.groups[group].minimum);
            let most = (all.count() as u64 + 1).saturating_sub(minimum).max(1);
            units += taken.min(most);
        }
        let whole = atoms.iter().filter(|atom| self.whole(atom[0]).is_some()).count();
        let plain = gone.iter().filter(|pod| self.pods[**pod].group.is_none()).count();
        let mut cost = Cost::NOTHING;
        cost.budgets_broken = broken.sum();
        cost.highest_priority = atoms.iter().map(|atom| self.priority(atom)).max();
        cost.work_lost = gone.iter().map(run).sum::<u64>() * 1_000;
        cost.units = units + (whole + plain) as u64;
        cost.pods = gone.len() as u64;
        cost
    }
}
