//! Topologies of the dialects: the levels that objects declare, and the requests of groups.

mod hyper_node;
mod pattern;
mod wish;

pub(super) use wish::{
    Level, Wish, kai, kai_constraint, koordinator, kueue, volcano, volcano_labels,
};

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use super::field::{Fault, Field};
use super::metadata;
use crate::model::{Node, Slice, TopologyRequest};
use hyper_node::HyperNode;

/// The levels that objects declare.
#[derive(Debug, Default)]
pub(super) struct Topologies {
    /// Node label keys, coarsest first, by the name of Kueue's topology.
    kueue: BTreeMap<String, Vec<String>>,
    /// Node label keys and their aliases, coarsest first, by the name of KAI's topology.
    kai: BTreeMap<String, Vec<(String, Option<String>)>>,
    /// Koordinator's layers: the layer above, and the node label key.
    layers: BTreeMap<String, (Option<String>, String)>,
    /// Volcano's nodes of nodes.
    hyper_nodes: BTreeMap<String, HyperNode>,
    /// The levels of the cluster, coarsest first, once everything is read.
    levels: Vec<String>,
    /// Whether the cluster stands already: groups may require a key that is no level of it.
    is_live: bool,
}

/// Koordinator's layers that are there without being declared.
const WHOLE: &str = "ClusterTopologyLayer";
const NODE: &str = "NodeTopologyLayer";
const HOSTNAME: &str = "kubernetes.io/hostname";

/// The label that stands for a tier of Volcano's.
fn tier_key(tier: u32) -> String {
    format!("topology.volcano.sh/tier-{tier}")
}

impl Topologies {
    /// Takes an object, if it declares levels.
    pub(super) fn take(&mut self, group: &str, kind: &str, root: &Field<'_>) -> Fault<()> {
        match (group, kind) {
            ("kueue.x-k8s.io", "Topology") => {
                let levels = levels(root)?.into_iter().map(|(key, _)| key).collect();
                self.kueue.insert(metadata::name(root)?, levels);
            }
            ("kai.scheduler", "Topology") => {
                self.kai.insert(metadata::name(root)?, levels(root)?);
            }
            ("topology.volcano.sh", "HyperNode") => {
                self.hyper_nodes.insert(metadata::name(root)?, HyperNode::read(root)?);
            }
            ("scheduling.koordinator.sh", "ClusterNetworkTopology") => self.layers(root)?,
            _ => {}
        }
        Ok(())
    }

    fn layers(&mut self, root: &Field<'_>) -> Fault<()> {
        // Koordinator reads the one of this name.
        if metadata::name(root)? != "default" {
            return Ok(());
        }
        let Some(spec) = root.get("spec")? else {
            self.layers.clear();
            return Ok(());
        };
        let mut layers = BTreeMap::new();
        spec.each("networkTopologySpec", |layer| {
            let name = String::from(layer.need("topologyLayer")?.text()?);
            let keys = layer.texts("labelKey")?;
            let key = match keys.as_slice() {
                [key] => key.clone(),
                [] if name == NODE => HOSTNAME.to_string(),
                [] => return Ok(()),
                _ => return Err(layer.fail_at("labelKey", one_key())),
            };
            layers.insert(name, (layer.name_of("parentTopologyLayer")?, key));
            Ok(())
        })?;
        self.layers = layers;
        Ok(())
    }

    /// Forgets an object.
    #[cfg(feature = "scheduler")]
    pub(super) fn forget(&mut self, kind: &str, name: &str) {
        match kind {
            "HyperNode" => drop(self.hyper_nodes.remove(name)),
            "ClusterNetworkTopology" if name == "default" => self.layers.clear(),
            "Topology" => drop(self.kai.remove(name)),
            _ => {}
        }
    }

    /// Puts nodes into tiers.
    #[cfg(feature = "scheduler")]
    pub(super) fn label(&self, nodes: &mut [Node]) {
        if !self.hyper_nodes.is_empty() {
            hyper_node::label(&self.hyper_nodes, nodes, tier_key);
        }
    }

    /// Declares the levels of a cluster that stands already.
    #[cfg(feature = "scheduler")]
    pub(super) fn set_levels(&mut self, levels: Vec<String>) {
        self.levels = levels;
        self.is_live = true;
    }

    /// Puts nodes into tiers, and declares the levels of the cluster: of the first of Kueue's and
    /// KAI's topologies by name, Koordinator's layers and Volcano's tiers that there are.
    pub(super) fn settle(&mut self, nodes: &mut [Node]) {
        let tiers = hyper_node::label(&self.hyper_nodes, nodes, tier_key);
        let kueue = self.kueue.values().next().cloned();
        let kai = self.kai.values().next();
        let kai = kai.map(|levels| levels.iter().map(|(key, _)| key.clone()).collect());
        let layers = (!self.layers.is_empty()).then(|| self.layer_keys());
        let tiers = (!tiers.is_empty())
            .then(|| tiers.iter().rev().map(|tier| tier_key(*tier)).collect::<Vec<_>>());
        self.levels = kueue.or(kai).or(layers).or(tiers).unwrap_or_default();
    }

    /// The levels of the cluster, coarsest first.
    pub(super) fn cluster_levels(&self) -> &[String] {
        &self.levels
    }

    /// Koordinator's layers from the top.
    fn layer_keys(&self) -> Vec<String> {
        let mut keys = Vec::new();
        let mut above: Option<&str> = None;
        // A layer that is its own parent, by way of others or not, is not reached from the top.
        for _ in 0..=self.layers.len() {
            let next = self.layers.iter().find(|(name, (parent, _))| {
                let parent = parent.as_deref().filter(|parent| *parent != WHOLE);
                parent == above && name.as_str() != WHOLE
            });
            let Some((name, (_, key))) = next else { break };
            keys.push(key.clone());
            above = Some(name);
        }
        keys
    }

    /// The request of a group for levels, by their keys.
    ///
    /// # Errors
    /// A level is not declared, or not of the topology that the cluster is divided by.
    pub(super) fn request(&self, wish: &Wish) -> Result<TopologyRequest, String> {
        let mut request = TopologyRequest::default();
        let key = |level: &Level| self.key(level, wish);
        request.require = wish.require.as_ref().map(key).transpose()?.flatten();
        request.prefer = wish.prefer.as_ref().map(key).transpose()?.flatten();
        for (level, size) in &wish.slices {
            if let Some(level) = key(level)? {
                request.slices.push(Slice { level, size: *size });
            }
        }
        if wish.closest {
            request.prefer = self.levels.last().cloned();
        }
        if request.prefer == request.require {
            request.prefer = None;
        }
        let require = request.require.iter().filter(|_| !self.is_live);
        for key in require.chain(&request.prefer) {
            if !self.levels.is_empty() && !self.levels.contains(key) {
                return Err(
                    wish.fault(&format!("{key} is no level of the first topology declared"))
                );
            }
        }
        if request.prefer.is_some() && self.levels.is_empty() {
            return Err(wish.fault("the levels above are not declared"));
        }
        Ok(request)
    }

    /// The node label key of a level; `None` for the whole cluster.
    fn key(&self, level: &Level, wish: &Wish) -> Result<Option<String>, String> {
        let found = match level {
            Level::Kueue(key) => {
                let known =
                    self.kueue.is_empty() || self.kueue.values().any(|all| all.contains(key));
                known.then(|| key.clone())
            }
            Level::Kai { topology, level } => {
                let levels = self.kai.get(topology).ok_or_else(|| {
                    wish.fault(&format!("the topology {topology:?} is not there"))
                })?;
                let named = |(key, alias): &&(String, Option<String>)| {
                    key == level || alias.as_ref() == Some(level)
                };
                levels.iter().find(named).map(|(key, _)| key.clone())
            }
            Level::Tier(tier) => {
                let tiers = self.hyper_nodes.values().map(|node| node.tier);
                // Within a tier that is not there, what is below it is.
                tiers.filter(|known| known <= tier).max().map(tier_key)
            }
            Level::TierName(name) => {
                let named = |node: &&HyperNode| node.tier_name.as_ref() == Some(name);
                self.hyper_nodes.values().find(named).map(|node| tier_key(node.tier))
            }
            Level::Layer(layer) if layer == WHOLE => return Ok(None),
            Level::Layer(layer) if layer == NODE && !self.layers.contains_key(NODE) => {
                Some(HOSTNAME.to_string())
            }
            Level::Layer(layer) => self.layers.get(layer).map(|(_, key)| key.clone()),
        };
        found.map(Some).ok_or_else(|| wish.fault(&format!("the level {level} is not there")))
    }
}

fn one_key() -> crate::model::Problem {
    crate::model::Problem::Invalid("more than one label key is not read".to_string())
}

/// The levels of a topology: keys of node labels, and their aliases.
fn levels(root: &Field<'_>) -> Fault<Vec<(String, Option<String>)>> {
    let spec = root.need("spec")?;
    let mut levels = Vec::new();
    spec.each("levels", |level| {
        let key = String::from(level.need("nodeLabel")?.text()?);
        levels.push((key, level.name_of("alias")?));
        Ok(())
    })?;
    Ok(levels)
}
