//! The domain of a node, and the records of a plan about it.

use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use super::broken::Broken;
use super::devices;
use super::members::Member;
use crate::framework::Strategy;
use crate::model::TopologyRequest;
use crate::state::{Cluster, NodeView, Plan};

/// The label that tells hosts apart; a node without it is, to Kueue, told by its name.
const HOSTNAME: &str = "kubernetes.io/hostname";

/// Domains in the sense of a strategy.
pub(super) struct Domains<'a> {
    levels: Vec<&'a str>,
    strategy: Strategy,
}

impl<'a> Domains<'a> {
    pub(super) fn new(cluster: &'a Cluster, strategy: Strategy) -> Domains<'a> {
        Domains { levels: cluster.levels().collect(), strategy }
    }

    /// The value that a node has of a key.
    fn value(&self, node: NodeView<'a>, key: &str) -> Option<&'a str> {
        let host = self.strategy.is_kueue() && key == HOSTNAME;
        node.label(key).or_else(|| host.then(|| node.name()))
    }

    /// The domain of a key that a node is in: its value; for a level, where levels count, the
    /// values of all levels above first. `None` for a node that lacks the key.
    fn of(&self, node: NodeView<'a>, key: &str) -> Option<Vec<Option<&'a str>>> {
        let own = self.value(node, key)?;
        let level = self.levels.iter().position(|level| *level == key);
        let above = match level {
            Some(level) if self.strategy != Strategy::Kubernetes => &self.levels[..level],
            _ => &[],
        };
        let above = above.iter().map(|level| self.value(node, level));
        Some(above.chain([Some(own)]).collect())
    }

    /// Topology keys, coarsest first: all members must share one value of at least one of them.
    /// Empty if the group has no topology requirement. Several keys are a preference's levels:
    /// where keys do not nest, each will do.
    pub(super) fn required<'t>(&'t self, topology: &'t TopologyRequest) -> Vec<&'t str> {
        if let Some(require) = &topology.require {
            return Vec::from([&**require]);
        }
        let (Some(prefer), Some(highest)) = (&topology.prefer, &topology.highest) else {
            return Vec::new();
        };
        let level = |key: &str| self.levels.iter().position(|level| *level == key);
        match (level(prefer), level(highest)) {
            // There is nothing above it.
            (None, _) => Vec::from([&**prefer]),
            (Some(prefer), Some(above)) if above <= prefer => self.levels[above..=prefer].to_vec(),
            // No such bound: the preference may go up to the coarsest level.
            (Some(_), _) => Vec::new(),
        }
    }

    /// The fault if members are not all in one domain of one of some keys.
    pub(super) fn unmet<'m>(
        &self,
        group: &str,
        keys: &[&str],
        members: &(impl Iterator<Item = &'m Member<'a>> + Clone),
    ) -> Option<Broken>
    where
        'a: 'm,
    {
        let mut first = None;
        for key in keys {
            let wrong = self.scattered(group, key, members.clone())?;
            first = first.or(Some(wrong));
        }
        first
    }

    /// The fault if members are not all in one domain of a key.
    pub(super) fn scattered<'m>(
        &self,
        group: &str,
        key: &str,
        members: impl Iterator<Item = &'m Member<'a>>,
    ) -> Option<Broken>
    where
        'a: 'm,
    {
        let (mut domains, mut none) = (BTreeSet::new(), BTreeSet::new());
        let mut nodes: BTreeSet<&str> = BTreeSet::new();
        for member in members.filter(|member| nodes.insert(member.node.name())) {
            match self.of(member.node, key) {
                Some(domain) => domains.insert(domain),
                None => none.insert(format!("node {}", member.node.name())),
            };
        }
        if domains.len() <= 1 && none.is_empty() {
            return None;
        }
        let text = |domain: Vec<Option<&str>>| {
            domain.iter().map(|value| value.unwrap_or("-")).collect::<Vec<_>>().join("/")
        };
        let domains = domains.into_iter().map(text).chain(none).collect();
        Some(Broken::Scattered { group: group.to_string(), key: key.to_string(), domains })
    }
}

/// Records of a plan about domains and islands.
pub(super) struct Records<'a>(Vec<Record<'a>>);

struct Record<'a> {
    group: &'a str,
    key: &'a str,
    value: &'a str,
    island: bool,
    /// The fault, as far as it was read; a group and a slice can be spelt alike.
    wrong: Option<Broken>,
}

impl<'a> Records<'a> {
    pub(super) fn of(plan: &'a Plan) -> Records<'a> {
        let record = |(group, key, value): (&'a str, &'a str, &'a str), island: bool| {
            let wrong = Some(Broken::UnknownRecord(group.to_string()));
            Record { group, key, value, island, wrong }
        };
        let domains = plan.domains().map(|domain| record(domain, false));
        Records(domains.chain(plan.islands().map(|island| record(island, true))).collect())
    }

    /// Whether a group has a domain recorded.
    pub(super) fn has(&self, group: &str) -> bool {
        self.0.iter().any(|record| record.group == group && !record.island)
    }

    /// Whether a group has an island recorded.
    pub(super) fn has_island(&self, group: &str) -> bool {
        self.0.iter().any(|record| record.group == group && record.island)
    }

    /// Holds the records of a group to where its members are.
    pub(super) fn read(&mut self, group: &str, planned: &[Member<'a>], domains: &Domains<'a>) {
        let own = self.0.iter_mut().filter(|record| record.group == group);
        for record in own.filter(|record| record.wrong.is_some()) {
            let holds = |member: &&Member<'a>| {
                if record.island {
                    let within = |island| island == Some(record.value);
                    member.node.name() == record.key
                        && devices::islands_of(member).into_iter().all(within)
                } else {
                    domains.value(member.node, record.key) == Some(record.value)
                }
            };
            let name = || String::from(group);
            let misplaced = planned.iter().find(|member| !holds(member));
            record.wrong = match misplaced {
                Some(member) => Some(Broken::Misrecorded {
                    group: name(),
                    key: record.key.to_string(),
                    value: record.value.to_string(),
                    pod: member.full_name(),
                }),
                None if record.island => None,
                // One value, and yet two domains.
                None => domains.scattered(group, record.key, planned.iter()),
            };
        }
    }

    /// Faults of the records that were read, and of those that were not.
    pub(super) fn wrong(&self) -> Vec<Broken> {
        self.0.iter().filter_map(|record| record.wrong.clone()).collect()
    }
}
