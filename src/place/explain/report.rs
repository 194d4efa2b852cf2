//! Explanations as data, and their text.

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use super::claims::{ClaimLack, Relaxation};
use crate::base::ObjectName;
use crate::base::clip::clip;
use crate::model::Node;
use crate::place::certificate::Lack;
use crate::place::outcome::Outcome;
use crate::state::VolumeRefusal;

/// Why a group is not placed, and what would change that.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Explanation {
    /// The full name of the group.
    pub group: ObjectName,
    /// The answer that is explained.
    pub outcome: Outcome,
    /// For each kind of pod, the nodes each filter rejects, first rejections only.
    pub rejections: Vec<Rejections>,
    /// For each level, coarsest first, and for all nodes together: the best domains.
    pub levels: Vec<LevelReport>,
    /// The member or the group inside that blocks the rest, if one does.
    pub blocked: Option<String>,
    /// Changes after which the group is placed, those that touch the fewest members first. One step
    /// less does not do. [`Remedy::Free`] is counted, the others were tried.
    pub remedies: Vec<Remedy>,
}

/// The nodes that filters reject for one kind of pod.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Rejections {
    /// The first pod of the kind, and how many there are.
    pub pod: String,
    /// How many pods are like it.
    pub pods: usize,
    /// Nodes looked at.
    pub nodes: usize,
    /// How many of them each filter is the first to reject, most first; `None` stands for nodes
    /// that a filter's preparation left out.
    pub by: Vec<(Option<String>, usize)>,
    /// Why resource claims of the pod are not served.
    pub claims: Vec<ClaimLack>,
    /// Why claims of the pod cannot be met, and on how many of the nodes, most first; at most 5.
    pub volumes: Vec<(VolumeRefusal, usize)>,
}

/// The domains of one level.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct LevelReport {
    /// The node label key; `None` for all nodes together.
    pub key: Option<String>,
    /// How many domains there are.
    pub domains: usize,
    /// The best of them, best first.
    pub best: Vec<DomainReport>,
}

/// How much of a group a domain holds.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct DomainReport {
    /// The label value; empty for all nodes together.
    pub value: String,
    /// How much of the group fits at most: members, or groups inside. Exact for identical pods that
    /// are not confined to an island of devices; islands are not looked at.
    pub fits: u32,
    /// How much is needed.
    pub need: u32,
    /// Its lack, if sums and counts show one.
    pub lack: Option<Lack>,
}

/// A change after which a group is placed.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
#[allow(clippy::large_enum_variant, reason = "an explanation has a few")]
pub enum Remedy {
    /// Ask for a coarser level, or for none.
    LevelUp {
        /// The level that does; `None` to require none.
        to: Option<String>,
    },
    /// Ask for fewer members, or fewer groups inside.
    LowerMinimum {
        /// The largest minimum that does.
        to: u32,
        /// The minimum asked for.
        from: u32,
    },
    /// Take away pods that leave room for so many more members. Only for identical pods.
    Free {
        /// The node label key; `None` for all nodes.
        key: Option<String>,
        /// The domain.
        value: String,
        /// How many members' worth of room, each on one node.
        members: u32,
        /// Their amounts in all, by resource.
        amounts: Vec<(String, i64)>,
    },
    /// Change resource claims that pods have for themselves alone.
    RelaxClaim {
        /// The first of the claims, as `pod/claim`.
        claim: String,
        /// The change.
        change: Relaxation,
        /// How many pods have such a claim.
        pods: usize,
    },
    /// Add nodes like a template.
    AddNodes {
        /// How many; one less does not do.
        count: usize,
        /// The node label key and the value the nodes need; `None` for any.
        domain: Option<(String, String)>,
        /// The template, with the labels of the domain.
        template: Node,
    },
}

impl Remedy {
    /// How many members, groups, nodes or devices it touches; what remedies are ordered by.
    pub fn cost(&self) -> u64 {
        match self {
            Remedy::LevelUp { .. } => 0,
            Remedy::LowerMinimum { to, from } => u64::from(from.saturating_sub(*to)),
            Remedy::Free { members, .. } => u64::from(*members),
            Remedy::RelaxClaim { change: Relaxation::Fewer { to, from, .. }, pods, .. } => {
                from.saturating_sub(*to).saturating_mul(*pods as u64)
            }
            Remedy::RelaxClaim { pods, .. } => *pods as u64,
            Remedy::AddNodes { count, .. } => *count as u64,
        }
    }
}

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.group, self.outcome.word())?;
        for kind in &self.rejections {
            let total: usize = kind.by.iter().map(|(_, count)| count).sum();
            let passing = kind.nodes - total.min(kind.nodes);
            write!(f, "\n{} pods like {}: {passing} of {} nodes", kind.pods, kind.pod, kind.nodes)?;
            for (name, count) in &kind.by {
                write!(f, "; {} rejects {count}", name.as_deref().unwrap_or("preparation"))?;
            }
            for lack in &kind.claims {
                write!(f, "\n  {lack}")?;
            }
            for (refusal, count) in &kind.volumes {
                write!(f, "\n  on {count}: {refusal}")?;
            }
        }
        for level in &self.levels {
            let name = level.key.as_deref().unwrap_or("all nodes");
            write!(f, "\n{name} ({} domains), best:", level.domains)?;
            for domain in &level.best {
                write!(f, "\n  {}: ", if domain.value.is_empty() { "-" } else { &domain.value })?;
                match &domain.lack {
                    Some(lack) => write!(f, "{lack}")?,
                    None => write!(f, "room for {} of {}", domain.fits, domain.need)?,
                }
            }
        }
        if let Some(blocked) = &self.blocked {
            write!(f, "\nblocked by {blocked}")?;
        }
        for remedy in &self.remedies {
            write!(f, "\nto place it: {remedy}")?;
        }
        Ok(())
    }
}

impl fmt::Display for Remedy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Remedy::LevelUp { to: Some(to) } => write!(f, "require {to} only"),
            Remedy::LevelUp { to: None } => f.write_str("require no level"),
            Remedy::LowerMinimum { to, from } => write!(f, "lower the minimum from {from} to {to}"),
            Remedy::Free { key, value, members, amounts } => {
                match key {
                    Some(key) => {
                        write!(f, "free room for {members} more members in {key}={value}")?;
                    }
                    None => write!(f, "free room for {members} more members")?,
                }
                for (at, (name, amount)) in amounts.iter().enumerate() {
                    write!(f, "{}{amount} of {name}", if at == 0 { ": " } else { ", " })?;
                }
                Ok(())
            }
            Remedy::RelaxClaim { claim, change, pods: 1 } => {
                write!(f, "in claim {} {change}", clip(claim))
            }
            Remedy::RelaxClaim { claim, change, pods } => {
                write!(f, "in {pods} claims like {} {change}", clip(claim))
            }
            Remedy::AddNodes { count, domain, template } => {
                write!(f, "add {count} nodes like {}", template.name)?;
                match domain {
                    Some((key, value)) => write!(f, " in {key}={value}"),
                    None => Ok(()),
                }
            }
        }
    }
}
