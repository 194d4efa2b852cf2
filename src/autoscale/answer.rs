//! Answers: nodes to add, the groups that they start, and the claim.

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use crate::base::ObjectName;
use crate::model::Node;
use crate::state::{Assignment, Plan};

/// The answer to a request for nodes.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "camelCase", rename_all_fields = "camelCase"))]
#[non_exhaustive]
#[must_use]
pub enum ScaleUpOutcome {
    /// All groups start whole once these nodes are there.
    Start(ScaleUp),
    /// No nodes of the templates, within the limits, start all groups.
    Impossible {
        /// Groups that cannot start even alone, by counting, in the order of the request. Empty where
        /// each might, and all together cannot.
        groups: Vec<ObjectName>,
    },
    /// The budget of steps ran out before a set was found. There may be one.
    Exhausted {
        /// Lower bound of the price of any set.
        lower_bound: u64,
    },
}

/// Nodes to add, and the plans that hold once they are there.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "camelCase"))]
#[non_exhaustive]
pub struct ScaleUp {
    /// The blocks to add, by the order of templates. Empty where all groups fit as it is.
    pub blocks: Vec<NewBlock>,
    /// Price of the blocks.
    pub price: u64,
    /// Lower bound of the price of any set. Where it is the price, the set is proved to be
    /// cheapest.
    pub lower_bound: u64,
    /// The claim about it.
    pub claim: ScaleUpClaim,
    /// Plans that start the groups once the nodes are there, to be committed in this order. There
    /// is one plan a group, or one for all groups if they fit only when laid out together.
    pub plans: Vec<Plan>,
    /// Steps that the search has taken.
    pub steps: u64,
}

/// Nodes that are added together.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "camelCase"))]
#[non_exhaustive]
pub struct NewBlock {
    /// The template, by name.
    pub template: String,
    /// Its price.
    pub price: u64,
    /// The nodes, with their names and labels.
    pub nodes: Vec<Node>,
}

/// The claim about a set of nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "camelCase"))]
#[non_exhaustive]
pub enum ScaleUpClaim {
    /// Every set that comes before it was looked at or ruled out by a bound. So none costs less,
    /// and none that costs as much has fewer nodes. Among sets of as many nodes, none has more
    /// nodes of an earlier template.
    First,
    /// None costs less.
    Cheapest,
    /// The budget of steps ran out: the best that was found.
    Found,
}

impl ScaleUpOutcome {
    /// The nodes to add, if there is such a set.
    pub fn start(&self) -> Option<&ScaleUp> {
        match self {
            ScaleUpOutcome::Start(answer) => Some(answer),
            _ => None,
        }
    }
}

impl ScaleUp {
    /// Whether no set costs less.
    pub fn is_cheapest(&self) -> bool {
        self.price == self.lower_bound
    }

    /// All new nodes, block by block.
    pub fn nodes(&self) -> impl Iterator<Item = &Node> {
        self.blocks.iter().flat_map(|block| &block.nodes)
    }

    /// The groups that have pods on the nodes of a block, by full name. O(pods · nodes of the block).
    pub fn groups_on(&self, block: &NewBlock) -> Vec<ObjectName> {
        let is_on = |assignment: &Assignment<'_>| {
            block.nodes.iter().any(|node| node.name == assignment.node())
        };
        let mut names: Vec<ObjectName> = Vec::new();
        for plan in &self.plans {
            for assignment in plan.assignments().filter(is_on) {
                let pod = assignment.pod();
                let name = match &pod.group {
                    Some(group) => ObjectName::new(pod.namespace(), group),
                    None => plan.group(),
                };
                if !names.contains(&name) {
                    names.push(name);
                }
            }
        }
        names
    }
}

impl fmt::Display for ScaleUpOutcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ScaleUpOutcome::Start(answer) => {
                let nodes = answer.nodes().count();
                write!(f, "{nodes} nodes for {}, at least {}", answer.price, answer.lower_bound)
            }
            ScaleUpOutcome::Impossible { groups } if groups.is_empty() => {
                f.write_str("no nodes of the templates start all groups together")
            }
            ScaleUpOutcome::Impossible { groups } => {
                f.write_str("no nodes of the templates start")?;
                for (at, group) in groups.iter().enumerate() {
                    write!(f, "{} {group}", if at == 0 { "" } else { "," })?;
                }
                Ok(())
            }
            ScaleUpOutcome::Exhausted { lower_bound } => {
                write!(f, "no nodes found within the budget; at least {lower_bound}")
            }
        }
    }
}
