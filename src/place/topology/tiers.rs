//! Tiers of a group: the keys that confine it, best first, and the labels that tell the domains of
//! a key apart.
//!
//! This is the one definition of what a request asks of the topology. Strategies, certificates and
//! their check all read it.

use alloc::string::String;
use alloc::vec::Vec;

use smallvec::SmallVec;

use crate::framework::Strategy;
use crate::model::{IslandRule, PodGroup, TopologyRequest};
use crate::state::plan::{PlanDomain, PlanLabel};
use crate::state::{Cluster, LabelKey, LabelValue};

/// The meaning of a node's domain of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DomainSense {
    /// The value of the key alone, as Kubernetes has it: racks of one name in two zones are one
    /// rack.
    Value,
    /// The domain of a declared level is the path of values from the coarsest level down to its
    /// own. So racks of one name in two zones are two racks, and so are a rack of a zone and one of
    /// no zone. The domain of any other key is its value.
    Path,
}

impl DomainSense {
    /// The sense of a strategy.
    pub(crate) fn of(strategy: Strategy) -> DomainSense {
        match strategy {
            Strategy::Kubernetes => DomainSense::Value,
            #[cfg(feature = "peers")]
            Strategy::Kueue => DomainSense::Path,
            Strategy::Search => DomainSense::Path,
        }
    }
}

/// The keys whose values tell domains apart, the domain's own last.
pub(crate) type Keys = SmallVec<[LabelKey; 4]>;

/// The values of a domain, one a key; `None` where nodes lack the label.
pub(crate) type Path = SmallVec<[Option<LabelValue>; 4]>;

/// A key that a group is confined by: what tells its domains apart, and which part of that is
/// required.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct DomainKey {
    pub(crate) keys: Keys,
    /// How many of the keys, from the first, make up the required domain; 0 if none does.
    pub(crate) required: usize,
}

impl DomainKey {
    /// How a group with a requirement, if any, is confined by one of its keys; `None` if no node
    /// can be in such a domain.
    ///
    /// Under a requirement, a domain of a preferred key lies within one required domain: by its
    /// path, or, where values count alone, by the required value beside its own.
    pub(crate) fn new(
        cluster: &Cluster,
        sense: DomainSense,
        require: Option<&str>,
        key: &str,
    ) -> Option<DomainKey> {
        let own = cluster.label_key(key)?;
        let require = match require {
            Some(require) => Some(cluster.label_key(require)?),
            None => None,
        };
        let keys = match sense {
            DomainSense::Path => path_keys(cluster, own),
            DomainSense::Value => {
                require.into_iter().filter(|key| *key != own).chain([own]).collect()
            }
        };
        let place = |require| keys.iter().position(|key| *key == require);
        let required = require.and_then(place).map_or(0, |place| place + 1);
        Some(DomainKey { keys, required })
    }

    /// Whether a domain is within a required one: its nodes have the required label.
    pub(crate) fn admits(&self, path: &[Option<LabelValue>]) -> bool {
        self.required.checked_sub(1).and_then(|at| path.get(at)).is_none_or(Option::is_some)
    }

    /// How many labels of a domain, from the first, running members are held to. A requirement
    /// holds them to the labels of the required domain. Without one they are held to the labels of
    /// the highest level that a preference may fall back to. They are held to all labels where that
    /// level does not tell the domain apart.
    fn held(
        &self,
        cluster: &Cluster,
        asked: &TopologyRequest,
        path: &[Option<LabelValue>],
    ) -> usize {
        let highest = asked.highest.as_deref().filter(|_| asked.prefer.is_some());
        let Some(highest) = highest.filter(|_| asked.require.is_none()) else {
            return self.required;
        };
        let highest = cluster.label_key(highest);
        let place = self.keys.iter().position(|key| Some(*key) == highest);
        let place = place.filter(|&at| path.get(at).is_some_and(Option::is_some));
        place.map_or(path.len(), |at| at + 1)
    }

    /// A domain as a plan records it, of a group and what it asks, for the members of the plan in
    /// a range. Without what is asked, members that run are not held to it.
    pub(crate) fn record(
        &self,
        cluster: &Cluster,
        (group, asked): (String, Option<&TopologyRequest>),
        path: &[Option<LabelValue>],
        (first, end): (usize, usize),
    ) -> PlanDomain {
        let label = |(key, value): (&LabelKey, &Option<LabelValue>)| PlanLabel {
            key: cluster.label_key_text(*key).into(),
            value: value.map(|value| cluster.label_text(value).into()),
        };
        let required = asked.map_or(0, |asked| self.held(cluster, asked, path));
        let path = self.keys.iter().zip(path).map(label).collect();
        PlanDomain { group, path, island: false, required, first, end }
    }
}

/// The keys of a path down to a key: of a level, it and those above, coarsest first; else itself.
pub(crate) fn path_keys(cluster: &Cluster, key: LabelKey) -> Keys {
    match cluster.levels.iter().position(|level| *level == key) {
        Some(level) => Keys::from_slice(&cluster.levels[..=level]),
        None => Keys::from_slice(&[key]),
    }
}

/// The keys that confine a group, best first; `None` stands for no confinement.
///
/// A requirement is binding: it is the last key, and every key before it is finer. A preference
/// not finer than the requirement asks nothing more and is left out. Else it is its own level and
/// each level above, up to the highest allowed, to the required one, or, without either, to the
/// whole. A highest level that is not above the preferred one allows no other level; one that is
/// no declared level leaves the levels declared.
pub(crate) fn keys<'a>(
    cluster: &'a Cluster,
    topology: &'a TopologyRequest,
) -> SmallVec<[Option<&'a str>; 2]> {
    let place = |key: &str| cluster.levels().position(|level| level == key);
    let require = topology.require.as_deref();
    let prefer = topology.prefer.as_deref().filter(|prefer| {
        require.is_none_or(|require| match (place(prefer), place(require)) {
            (Some(prefer), Some(require)) => require < prefer,
            _ => false,
        })
    });
    let mut keys = SmallVec::new();
    if let Some(prefer) = prefer {
        keys.push(Some(prefer));
        let own = place(prefer).unwrap_or(0);
        let highest = topology.highest.as_deref().and_then(place).unwrap_or(0);
        // The required level comes last.
        let highest = highest.max(require.and_then(place).map_or(0, |require| require + 1));
        let above: Vec<&str> = cluster.levels().take(own).skip(highest).collect();
        keys.extend(above.into_iter().rev().map(Some));
    }
    match require {
        Some(require) => keys.push(Some(require)),
        None if prefer.is_none() || topology.highest.is_none() => keys.push(None),
        None => {}
    }
    keys
}

/// One tier of candidate domains.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Tier {
    /// The islands of nodes.
    Island,
    /// The domains of a key.
    Key(String),
    /// The whole, without confinement.
    Whole,
}

/// The tiers of a group, best first.
///
/// An island that is required is the only tier, one that is preferred comes before all keys.
pub(crate) fn tiers(cluster: &Cluster, group: &PodGroup) -> SmallVec<[Tier; 2]> {
    let mut tiers = SmallVec::new();
    let TopologyRequest { require, prefer, .. } = &group.topology;
    let island = group.wants_island();
    if !island && require.is_none() && prefer.is_none() {
        tiers.push(Tier::Whole);
        return tiers;
    }
    if island {
        tiers.push(Tier::Island);
    }
    if !island || group.topology.island != IslandRule::Required {
        let keys = keys(cluster, &group.topology);
        tiers.extend(
            keys.into_iter().map(|key| key.map_or(Tier::Whole, |key| Tier::Key(key.into()))),
        );
    }
    tiers
}
