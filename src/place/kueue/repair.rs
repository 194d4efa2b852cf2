//! Pod sets that run already: elastic ones that grow or shrink, and hosts to replace.
//!
//! Source: Kueue's `tas_elastic_workloads.go` and `tas_flavor_snapshot.go`.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use super::input::{KueuePodSet, SliceLayer};
use super::outcome::{KueueAssignment, PodSetOutcome};
use super::pass::{Pass, Request};
use super::request::{level_of, size_of};
use super::tree::Tree;
use crate::place::failure::Failure;

impl Pass<'_> {
    /// The outcome for an elastic unit; `None` if it has to be placed afresh.
    pub(super) fn elastic(
        &mut self,
        workers: &KueuePodSet,
        leader: Option<&KueuePodSet>,
    ) -> Option<Vec<PodSetOutcome>> {
        if !self.gates.elastic || !workers.elastic {
            return None;
        }
        let previous = workers.previous.as_ref()?;
        let kept_leader = leader.and_then(|leader| leader.previous.as_ref().map(|at| (leader, at)));
        let stale = |assignment| stale_domain(self.tree, assignment).is_some();
        if stale(previous) || kept_leader.is_some_and(|(_, assignment)| stale(assignment)) {
            return None;
        }
        let (running, wanted) = (previous.pods(), u64::from(workers.count));
        let size = workers.topology.slices.first().and_then(|layer| layer.size);
        let size = u64::from(size.unwrap_or(1).max(1));
        if running % size != 0 || wanted % size != 0 {
            return None;
        }
        if wanted <= running {
            if leader.is_some() && kept_leader.is_none() {
                return None;
            }
            let result = first_pods(previous, workers.count);
            self.charge(workers, &result);
            let mut outcomes = Vec::from([done(workers, result)]);
            if let Some((leader, assignment)) = kept_leader {
                self.charge(leader, assignment);
                outcomes.push(done(leader, assignment.clone()));
            }
            return Some(outcomes);
        }

        self.charge(workers, previous);
        if let Some((leader, assignment)) = kept_leader {
            self.charge(leader, assignment);
        }
        let missing = Request {
            pod_set: workers,
            count: u32::try_from(wanted - running).unwrap_or(u32::MAX),
            slices: &workers.topology.slices,
            leader: leader.filter(|_| kept_leader.is_none()),
            within: None,
        };
        let (more, new_leader) = match self.place(&missing) {
            Ok(placed) => placed,
            Err(failure) => {
                let name = workers.name.clone();
                return Some(Vec::from([PodSetOutcome { name, result: Err(failure) }]));
            }
        };
        self.charge(workers, &more);
        let mut outcomes = Vec::from([done(workers, merge(self.tree, &more, previous))]);
        if let Some(leader) = leader {
            let assignment = if let Some((_, assignment)) = kept_leader {
                assignment.clone()
            } else {
                self.charge(leader, &new_leader);
                new_leader
            };
            outcomes.push(done(leader, assignment));
        }
        Some(outcomes)
    }

    /// Places the pods of a host again; the others stay.
    ///
    /// The pods that stay are not charged: the caller has them in the usage of the cluster.
    pub(super) fn replace(
        &mut self,
        pod_set: &KueuePodSet,
        previous: &KueueAssignment,
        node: &str,
    ) -> Result<KueueAssignment, Failure> {
        let (gone, stay): (Vec<_>, Vec<_>) = previous
            .domains
            .iter()
            .cloned()
            .partition(|domain| domain.values.last().is_some_and(|value| value == node));
        let stay = KueueAssignment { levels: previous.levels.clone(), domains: stay };
        let count = gone.last().map_or(0, |domain| domain.count);
        let placed = self.place_lost(pod_set, &stay, count)?;
        if placed.domains.is_empty() {
            return Err(Failure::NoReplacement { node: node.into() });
        }
        Ok(merge(self.tree, &placed, &stay))
    }

    /// Places `count` pods of a pod set beside those that stay, and charges them.
    pub(super) fn place_lost(
        &mut self,
        pod_set: &KueuePodSet,
        stay: &KueueAssignment,
        count: u32,
    ) -> Result<KueueAssignment, Failure> {
        if let Some(domain) = stale_domain(self.tree, stay) {
            return Err(Failure::StaleAssignment { domain });
        }
        let layers = &pod_set.topology.slices;
        for layer in layers {
            size_of(layer)?;
        }
        let broken =
            |layer: &SliceLayer| layer.size.is_some_and(|size| !count.is_multiple_of(size));
        let within = self.domain_to_repair(pod_set, stay, count, broken);

        // A torn slice is put together again from the largest units that the lost pods make up.
        let mut units = layers.as_slice();
        let torn = layers.first().is_some_and(broken) && within.is_some();
        if torn {
            let whole = layers.iter().rposition(|layer| !broken(layer));
            units = whole.and_then(|at| layers.get(at..=at)).unwrap_or_default();
        }
        let request = Request { pod_set, count, slices: units, leader: None, within };
        let (placed, _) = self.place(&request)?;
        self.charge(pod_set, &placed);
        Ok(placed)
    }

    /// The only domain that the lost pods may go to, if there is such a limit: that of the
    /// innermost torn slice, else the required one.
    fn domain_to_repair(
        &self,
        pod_set: &KueuePodSet,
        stay: &KueueAssignment,
        lost: u32,
        broken: impl Fn(&SliceLayer) -> bool,
    ) -> Option<usize> {
        let layers = &pod_set.topology.slices;
        let level = self.tree.level(level_of(self.tree, pod_set, layers).0?)?;
        let leaf = self.tree.leaf(&stay.domains.first()?.values)?;
        if layers.first().is_some_and(&broken) {
            let layer = layers.iter().rev().find(|layer| broken(layer))?;
            let (level, size) = (self.tree.level(&layer.level)?, u64::from(layer.size?));
            let mut pods: BTreeMap<usize, u64> = BTreeMap::new();
            for domain in &stay.domains {
                if let Some(leaf) = self.tree.leaf(&domain.values) {
                    *pods.entry(self.tree.above(leaf, level)).or_default() +=
                        u64::from(domain.count);
                }
            }
            let torn = |&(_, &pods): &(&usize, &u64)| (pods + u64::from(lost)) % size == 0;
            return pods.iter().find(torn).map(|(&domain, _)| domain);
        }
        pod_set.topology.required.as_ref().map(|_| self.tree.above(leaf, level))
    }
}

fn done(pod_set: &KueuePodSet, assignment: KueueAssignment) -> PodSetOutcome {
    PodSetOutcome { name: pod_set.name.clone(), result: Ok(assignment) }
}

/// The first value of a domain that is not a leaf any more.
fn stale_domain(tree: &Tree, assignment: &KueueAssignment) -> Option<alloc::string::String> {
    let gone = assignment.domains.iter().find(|domain| tree.leaf(&domain.values).is_none())?;
    Some(gone.values.first().cloned().unwrap_or_default())
}

/// The first `count` pods of an assignment.
fn first_pods(assignment: &KueueAssignment, count: u32) -> KueueAssignment {
    let mut result = KueueAssignment { levels: assignment.levels.clone(), domains: Vec::new() };
    let mut left = count;
    for domain in &assignment.domains {
        if left == 0 {
            break;
        }
        let mut domain = domain.clone();
        domain.count = domain.count.min(left);
        left -= domain.count;
        result.domains.push(domain);
    }
    result
}

/// Both assignments in one, in the order of the leaves' paths.
fn merge(tree: &Tree, one: &KueueAssignment, other: &KueueAssignment) -> KueueAssignment {
    let mut pods: BTreeMap<usize, i64> = BTreeMap::new();
    for domain in one.domains.iter().chain(&other.domains) {
        if let Some(leaf) = tree.leaf(&domain.values) {
            *pods.entry(tree.leaves[leaf].domain).or_default() += i64::from(domain.count);
        }
    }
    tree.assignment(&pods)
}
