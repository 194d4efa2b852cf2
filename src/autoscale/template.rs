//! Templates: nodes that can be bought, alone or in blocks.

use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

use super::error::AutoscaleError;
use crate::model::Node;
use crate::state::Cluster;

/// The label by which a node is told apart from all others.
pub(super) const HOSTNAME: &str = "kubernetes.io/hostname";

/// A node that can be added, at a price: one by one, or in blocks.
///
/// New nodes are like the template's node but for their names, `<name>-<block>` or, in blocks of
/// several, `<name>-<block>-<index>`, and the labels that say where they are. A template whose node
/// has a label `kubernetes.io/hostname` gives its nodes their names there.
///
/// ```
/// use phalanx::Node;
/// use phalanx::autoscale::NodeTemplate;
///
/// let gpu = |name: &str| Node::new(name).capacity("nvidia.com/gpu", 8);
/// // One node, in either zone, ten at most.
/// let single = NodeTemplate::new(gpu("a100"), 32).among("zone", ["a", "b"]).limit(10);
/// // A rack of eight in zone `a`: eight nodes that share a label `rack`, whose value no other has.
/// let rack = gpu("a100-rack").label("zone", "a");
/// let rack = NodeTemplate::new(rack, 200).block(8).own_domain("rack");
/// # assert_eq!((single.limit, rack.nodes), (Some(10), 8));
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "camelCase"))]
#[non_exhaustive]
pub struct NodeTemplate {
    /// The model of each node. Its name is the template's.
    pub node: Node,
    /// Price of a block, in units of the caller's own.
    pub price: u64,
    /// How many nodes a block has.
    pub nodes: u32,
    /// How many blocks may be added at most, over all domains; `None` sets no limit of its own.
    pub limit: Option<u32>,
    /// Labels with a value of its own for each block, `<name>-<block>`.
    pub own_domains: Vec<String>,
    /// The domain that a block goes to is one of these: a label, and its values in order.
    pub among: Option<(String, Vec<String>)>,
}

impl NodeTemplate {
    /// The highest price of a block.
    pub const MAX_PRICE: u64 = 1 << 40;
    /// The most nodes of a block.
    pub const MAX_BLOCK: u32 = 4_096;

    /// A node that is added one by one, at a price.
    pub fn new(node: Node, price: u64) -> NodeTemplate {
        NodeTemplate { node, price, nodes: 1, limit: None, own_domains: Vec::new(), among: None }
    }

    /// Makes it come in blocks of so many nodes; the price is that of a block.
    #[must_use]
    pub fn block(mut self, nodes: u32) -> NodeTemplate {
        self.nodes = nodes;
        self
    }

    /// Gives each block a domain of its own: its nodes share a value of the label that no other node
    /// has.
    #[must_use]
    pub fn own_domain(mut self, label: impl Into<String>) -> NodeTemplate {
        self.own_domains.push(label.into());
        self
    }

    /// Lets a block go to any of some domains: its nodes get the label with one of the values.
    #[must_use]
    pub fn among<S: Into<String>>(
        mut self,
        label: impl Into<String>,
        values: impl IntoIterator<Item = S>,
    ) -> NodeTemplate {
        self.among = Some((label.into(), values.into_iter().map(Into::into).collect()));
        self
    }

    /// Sets how many blocks may be added at most.
    #[must_use]
    pub fn limit(mut self, blocks: u32) -> NodeTemplate {
        self.limit = Some(blocks);
        self
    }

    /// The name.
    pub fn name(&self) -> &str {
        &self.node.name
    }

    /// The numbers of blocks whose domain some node has already, or would have by a template.
    fn taken(&self, cluster: &Cluster, templates: &[NodeTemplate]) -> Vec<u32> {
        let number = |value: &str| -> Option<u32> {
            value.strip_prefix(self.name())?.strip_prefix('-')?.parse().ok()
        };
        let mut taken = Vec::new();
        for label in &self.own_domains {
            taken.extend(cluster.nodes().filter_map(|node| number(node.label(label)?)));
            for other in templates {
                taken.extend(other.node.labels.get(label).and_then(|value| number(value)));
                let among = other.among.iter().filter(|(key, _)| key == label);
                taken.extend(among.flat_map(|(_, values)| values).filter_map(|v| number(v)));
            }
        }
        taken.sort_unstable();
        taken.dedup();
        taken
    }

    fn check(&self) -> Result<(), AutoscaleError> {
        self.node.check()?;
        let fault = |reason| AutoscaleError::Template { name: self.name().into(), reason };
        if self.nodes == 0 || self.nodes > NodeTemplate::MAX_BLOCK {
            return Err(fault("a block has from 1 to 4096 nodes"));
        }
        if self.price > NodeTemplate::MAX_PRICE {
            return Err(fault("its price is above 2^40"));
        }
        if self.among.as_ref().is_some_and(|(_, values)| values.is_empty()) {
            return Err(fault("there is no domain for it to go to"));
        }
        Ok(())
    }
}

/// A template in one of its domains: what sets are counted in.
#[derive(Debug, Clone)]
pub(super) struct Variant {
    /// The template, by its place.
    pub(super) template: usize,
    /// The node, with the label of the domain.
    pub(super) node: Node,
    pub(super) nodes: u32,
    pub(super) price: u64,
    own_domains: Vec<String>,
    /// Numbers of blocks whose domain is taken already, ascending.
    taken: Vec<u32>,
}

/// The variants of templates: template by template, in the order of their domains.
pub(super) fn variants(
    cluster: &Cluster,
    templates: &[NodeTemplate],
) -> Result<Vec<Variant>, AutoscaleError> {
    let mut variants = Vec::new();
    for (template, own) in templates.iter().enumerate() {
        own.check()?;
        if templates[..template].iter().any(|other| other.name() == own.name()) {
            return Err(AutoscaleError::DuplicateTemplate(own.name().into()));
        }
        let nodes = match &own.among {
            None => vec![own.node.clone()],
            Some((label, values)) => {
                values.iter().map(|value| own.node.clone().label(label, value)).collect()
            }
        };
        let taken = own.taken(cluster, templates);
        variants.extend(nodes.into_iter().map(|node| Variant {
            template,
            node,
            nodes: own.nodes,
            price: own.price,
            own_domains: own.own_domains.clone(),
            taken: taken.clone(),
        }));
    }
    Ok(variants)
}

impl Variant {
    /// Whether each node is told apart from all others by a label.
    pub(super) fn is_named(&self) -> bool {
        self.node.labels.contains_key(HOSTNAME)
    }

    /// Whether a label has a value of its own in each block.
    pub(super) fn owns(&self, label: &str) -> bool {
        self.own_domains.iter().any(|own| own == label)
    }

    /// The nodes of a block, by its number; `None` if a name or a domain of that number is taken.
    pub(super) fn block(&self, cluster: &Cluster, number: u32) -> Option<Vec<Node>> {
        let block = format!("{}-{number}", self.node.name);
        if self.taken.binary_search(&number).is_ok() {
            return None;
        }
        let mut nodes = Vec::with_capacity(self.nodes as usize);
        for index in 0..self.nodes {
            let name = if self.nodes == 1 { block.clone() } else { format!("{block}-{index}") };
            if cluster.node(&name).is_some() {
                return None;
            }
            let mut node = self.node.clone();
            node.name = name;
            for label in &self.own_domains {
                node.labels.insert(label.clone(), block.clone());
            }
            if self.is_named() {
                node.labels.insert(HOSTNAME.into(), node.name.clone());
            }
            nodes.push(node);
        }
        Some(nodes)
    }
}
