//! What a group asks of the topology.

use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

use super::candidates::running;
use super::partition::{path_of, split};
use crate::model::{Pod, PodGroup};
use crate::state::{Cluster, PodView, Row};

/// The keys that confine a group, best first.
///
/// A requirement is one key. A preference is its own level and each level above, up to the highest
/// allowed, the required one, or the whole.
pub(crate) fn keys<'a>(cluster: &'a Cluster, group: &'a PodGroup) -> Vec<Option<&'a str>> {
    let topology = &group.topology;
    let levels: Vec<&str> = cluster.levels().collect();
    let place = |key: &str| levels.iter().position(|level| *level == key);
    let require = topology.require.as_deref();
    let mut keys = Vec::new();
    // A preference counts where it is finer than what is required.
    let prefer = topology.prefer.as_deref().filter(|prefer| {
        require.is_none_or(|require| match (place(prefer), place(require)) {
            (Some(prefer), Some(require)) => require < prefer,
            _ => false,
        })
    });
    if let Some(prefer) = prefer {
        keys.push(Some(prefer));
        let stop = topology.highest.as_deref().or(require);
        if stop != Some(prefer) {
            let own = place(prefer).unwrap_or(0);
            for level in levels[..own].iter().rev() {
                keys.push(Some(*level));
                if Some(*level) == stop {
                    break;
                }
            }
        }
    }
    match require {
        Some(require) if !keys.contains(&Some(require)) => keys.push(Some(require)),
        None if prefer.is_none() || topology.highest.is_none() => keys.push(None),
        _ => {}
    }
    keys
}

/// A group or a slice, read from the request.
#[derive(Debug)]
pub(crate) struct Requirement<'a> {
    pub(crate) name: String,
    pub(crate) group: &'a PodGroup,
    /// The keys it is confined by, best first; `None` stands for no confinement.
    keys: Vec<Option<&'a str>>,
    /// Its own pods, if they are not cut into slices.
    pub(crate) pods: Vec<&'a Pod>,
    pub(crate) inside: Vec<Requirement<'a>>,
    /// What it counts for in the one it is inside of.
    pub(crate) weight: u32,
    /// How much must be placed: of pods, or of the weight of what is inside.
    pub(crate) need: u32,
    slice: bool,
}

impl<'a> Requirement<'a> {
    /// What a group asks, less what runs.
    pub(crate) fn new(cluster: &'a Cluster, group: &'a PodGroup) -> Requirement<'a> {
        let mut ask = Requirement {
            name: group.full_name(),
            group,
            keys: keys(cluster, group),
            pods: Vec::new(),
            inside: group.groups.iter().map(|inner| Requirement::new(cluster, inner)).collect(),
            weight: 1,
            need: group.policy.minimum(),
            slice: false,
        };
        if group.groups.is_empty() {
            let runs = u32::try_from(running(cluster, group)).unwrap_or(u32::MAX);
            ask.need = ask.need.saturating_sub(runs);
            let open = |pod: &&Pod| pod.scheduling_gates.is_empty();
            ask.cut(group.pods.iter().filter(open).collect(), 0);
        }
        ask
    }

    /// The domains it may go to within some rows, in order.
    pub(crate) fn candidates(&self, cluster: &Cluster, rows: &[Row]) -> Vec<Candidate> {
        let mut found = Vec::new();
        for key in &self.keys {
            let Some(key) = key else {
                found.push(Candidate { key: None, path: Vec::new(), rows: rows.to_vec() });
                continue;
            };
            let Some(id) = cluster.label_key(key) else { continue };
            // Where members run, the others go.
            let mut homes = Vec::new();
            if !self.slice {
                self.group.visit(&mut |group| {
                    let nodes = cluster.pods_of(group).filter_map(PodView::node);
                    homes.extend(nodes.map(|node| path_of(cluster, node.row(), id)));
                });
            }
            let nodes: Vec<u32> = (0..rows.len() as u32).collect();
            for part in split(cluster, rows, &nodes, id) {
                if homes.iter().all(|home| home.as_ref() == Some(&part.path)) {
                    let text = |value| String::from(cluster.label_text(value));
                    found.push(Candidate {
                        key: Some(String::from(*key)),
                        path: part.path.iter().map(|value| value.map(text)).collect(),
                        rows: part.nodes.iter().map(|&node| rows[node as usize]).collect(),
                    });
                }
            }
        }
        found
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
        let each = |ask: &Requirement<'a>| ask.least(of) / i64::from(ask.weight.max(1));
        let mut units: Vec<i64> = self.pods.iter().map(|pod| of(pod)).collect();
        for ask in &self.inside {
            units.extend(core::iter::repeat_n(each(ask), ask.weight as usize));
        }
        units.sort_unstable();
        units.iter().take(self.need as usize).fold(0, |sum, unit| sum.saturating_add(*unit))
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
            let (pods, inside) = (Vec::new(), Vec::new());
            let (group, slice) = (self.group, true);
            let mut inner =
                Requirement { name, group, keys, pods, inside, weight: size, need: size, slice };
            inner.cut(chunk.to_vec(), depth + 1);
            self.inside.push(inner);
        }
    }
}

/// A domain that a group may go to.
#[derive(Debug)]
pub(crate) struct Candidate {
    /// The node label key; `None` where the group is not confined.
    pub(crate) key: Option<String>,
    /// The values of the level and of those above it.
    pub(crate) path: Vec<Option<String>>,
    pub(crate) rows: Vec<Row>,
}
