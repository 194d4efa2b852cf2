//! The tree of groups and slices as a request asks for it.

use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

use super::partition::{Candidate, partition};
use super::pinned::{Home, home, leaders_of, running};
use super::tiers::{DomainKey, DomainSense, keys};
use crate::model::{Pod, PodGroup};
use crate::place::error::PlaceError;
use crate::place::numbers::{Leaf, least_sum};
use crate::state::{Cluster, Row};

/// A group or a slice, read from the request.
#[derive(Debug)]
pub(crate) struct Requirement<'a> {
    pub(crate) name: String,
    pub(crate) group: &'a PodGroup,
    /// The siblings that lead it.
    pub(crate) leaders: Vec<&'a PodGroup>,
    /// The keys it is confined by, best first; `None` stands for no confinement.
    keys: Vec<Option<&'a str>>,
    /// Its own pods, if they are not cut into slices.
    pub(crate) pods: Vec<&'a Pod>,
    pub(crate) inside: Vec<Requirement<'a>>,
    /// Its weight in the group around it.
    pub(crate) weight: u32,
    /// How much must be placed: of pods, or of the weight of what is inside.
    pub(crate) need: u32,
    slice: bool,
}

impl<'a> Requirement<'a> {
    /// The request of a group, less its running members.
    pub(crate) fn new(cluster: &'a Cluster, group: &'a PodGroup) -> Requirement<'a> {
        let mut ask = Requirement {
            name: group.full_name().into(),
            group,
            leaders: Vec::new(),
            keys: keys(cluster, &group.topology).into_vec(),
            pods: Vec::new(),
            inside: group.groups.iter().map(|inner| Requirement::new(cluster, inner)).collect(),
            weight: 1,
            need: group.policy.minimum(),
            slice: false,
        };
        for inner in &mut ask.inside {
            inner.leaders = leaders_of(group, inner.group);
        }
        if group.groups.is_empty() {
            let runs = u32::try_from(running(cluster, group)).unwrap_or(u32::MAX);
            ask.need = ask.need.saturating_sub(runs);
            let open = |pod: &&Pod| pod.scheduling_gates.is_empty();
            ask.cut(group.pods.iter().filter(open).collect(), 0);
        }
        ask
    }

    /// The domains it may go to within some rows, in order, with their keys.
    ///
    /// # Errors
    /// [`PlaceError::Scattered`]
    pub(crate) fn candidates(
        &self,
        cluster: &Cluster,
        rows: &[Row],
    ) -> Result<Vec<(Option<&'a str>, Candidate)>, PlaceError> {
        self.candidates_in(DomainSense::Path, cluster, rows)
    }

    /// The same, by the sense of a strategy.
    pub(crate) fn candidates_in(
        &self,
        sense: DomainSense,
        cluster: &Cluster,
        rows: &[Row],
    ) -> Result<Vec<(Option<&'a str>, Candidate)>, PlaceError> {
        let mut found = Vec::new();
        for key in &self.keys {
            let Some(key) = *key else {
                found.push((None, Candidate::whole()));
                continue;
            };
            let domain_key = self.domain_key_in(sense, cluster, key);
            // Where members run, the others go.
            let home = if self.slice {
                Home::Nowhere
            } else {
                home(cluster, (self.group, &self.leaders), key, domain_key.as_ref())?
            };
            let Some(domain_key) = domain_key else { continue };
            for candidate in partition(cluster, rows, &domain_key.keys).iter() {
                if domain_key.admits(&candidate.path) && home.allows(&candidate.path) {
                    found.push((Some(key), candidate.clone()));
                }
            }
        }
        Ok(found)
    }

    /// The last of the keys it is confined by, if it is.
    pub(crate) fn loosest(&self) -> Option<&'a str> {
        self.keys.last().copied().flatten()
    }

    /// A key that it is confined by.
    pub(crate) fn domain_key(&self, cluster: &Cluster, key: &str) -> Option<DomainKey> {
        self.domain_key_in(DomainSense::Path, cluster, key)
    }

    fn domain_key_in(&self, sense: DomainSense, cluster: &Cluster, key: &str) -> Option<DomainKey> {
        let require = self.group.topology.require.as_deref().filter(|_| !self.slice);
        DomainKey::new(cluster, sense, require, key)
    }

    pub(crate) fn all(&self) -> u32 {
        self.pods.len() as u32 + self.inside.iter().map(|ask| ask.weight).sum::<u32>()
    }

    /// Whether it could count in a cluster with room for everything.
    pub(crate) fn countable(&self) -> bool {
        let can = |ask: &&Requirement<'a>| ask.countable();
        let inside: u32 = self.inside.iter().filter(can).map(|ask| ask.weight).sum();
        self.pods.len() as u32 + inside >= self.need
    }

    pub(crate) fn find(&self, name: &str) -> Option<&Requirement<'a>> {
        if self.name == name {
            return Some(self);
        }
        self.inside.iter().find_map(|ask| ask.find(name))
    }

    /// The least that placing it takes of something.
    pub(crate) fn least(&self, of: &dyn Fn(&Pod) -> i64) -> i64 {
        let own = self.pods.iter().map(|pod| (of(pod), 1));
        let inside = self.inside.iter().map(|ask| {
            let weight = i64::from(ask.weight);
            (ask.least(of) / weight.max(1), weight)
        });
        least_sum(own.chain(inside), self.need.into())
    }

    /// The groups and slices inside, if all of them must be placed.
    pub(crate) fn needed(&self) -> &[Requirement<'a>] {
        if self.need >= self.all() { &self.inside } else { &[] }
    }

    /// The leaves and slices that are needed for certain, with pods by number of shape. A request
    /// that lacks nothing places one pod at least.
    pub(crate) fn leaves(
        &self,
        number: impl FnMut(&'a PodGroup, &'a Pod) -> Option<usize>,
    ) -> Vec<Leaf> {
        let (mut leaves, mut number) = (Vec::new(), number);
        self.add_leaves(&mut number, &mut leaves);
        if let ([leaf], true) = (&mut leaves[..], self.inside.is_empty()) {
            leaf.need = leaf.need.max(1);
        }
        leaves
    }

    fn add_leaves(
        &self,
        number: &mut impl FnMut(&'a PodGroup, &'a Pod) -> Option<usize>,
        leaves: &mut Vec<Leaf>,
    ) {
        if self.inside.is_empty() {
            let mut counts: Vec<(usize, i64)> = Vec::new();
            for shape in self.pods.iter().filter_map(|pod| number(self.group, pod)) {
                match counts.iter_mut().find(|(own, _)| *own == shape) {
                    Some((_, count)) => *count += 1,
                    None => counts.push((shape, 1)),
                }
            }
            leaves.push(Leaf { need: self.need.into(), counts });
        }
        for inside in self.needed() {
            inside.add_leaves(number, leaves);
        }
    }

    /// The pods that must all be placed, with their groups.
    pub(crate) fn required(&self) -> Vec<(&'a PodGroup, &'a Pod)> {
        if self.need < self.all() {
            return Vec::new();
        }
        let own = self.pods.iter().map(|&pod| (self.group, pod));
        own.chain(self.inside.iter().flat_map(Requirement::required)).collect()
    }

    /// Cuts the members into slices, and those into finer ones.
    fn cut(&mut self, pods: Vec<&'a Pod>, depth: usize) {
        let Some(slice) = self.group.topology.slices.get(depth) else {
            self.pods = pods;
            return;
        };
        for (number, chunk) in pods.chunks(slice.size.max(1) as usize).enumerate() {
            let (name, size) = (format!("{}[{number}]", self.name), chunk.len() as u32);
            let keys = vec![Some(slice.level.as_str())];
            let mut inner = Requirement {
                name,
                group: self.group,
                leaders: Vec::new(),
                keys,
                pods: Vec::new(),
                inside: Vec::new(),
                weight: size,
                need: size,
                slice: true,
            };
            inner.cut(chunk.to_vec(), depth + 1);
            self.inside.push(inner);
        }
    }
}
