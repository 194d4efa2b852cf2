//! Volcano's nodes of nodes.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::String;
use alloc::vec::Vec;

use super::pattern::Pattern;
use crate::kubernetes::affinity::label_selector;
use crate::kubernetes::field::{Fault, Field};
use crate::model::{LabelSelector, Node};

/// A part of the network: nodes, and smaller parts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct HyperNode {
    /// How far apart its nodes are; smaller is closer.
    pub(super) tier: u32,
    pub(super) tier_name: Option<String>,
    members: Vec<Member>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Member {
    is_node: bool,
    selector: Selector,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Selector {
    Exact(String),
    Matching(Pattern),
    Labelled(LabelSelector),
}

impl HyperNode {
    pub(super) fn read(root: &Field<'_>) -> Fault<HyperNode> {
        let spec = root.need("spec")?;
        let tier = spec.get("tier")?.map_or(Ok(0), |tier| tier.within(0, i32::MAX.into()))?;
        let mut members = Vec::new();
        spec.each("members", |member| {
            let is_node = member.text_of("type")? == "Node";
            let selector = member.need("selector")?;
            members.push(Member { is_node, selector: read_selector(&selector)? });
            Ok(())
        })?;
        Ok(HyperNode {
            tier: u32::try_from(tier).unwrap_or(0),
            tier_name: spec.name_of("tierName")?,
            members,
        })
    }

    /// Whether it has a node, or a smaller part, of this name.
    fn has(&self, is_node: bool, name: &str, node: Option<&Node>) -> bool {
        let members = self.members.iter().filter(|member| member.is_node == is_node);
        members.into_iter().any(|member| match &member.selector {
            Selector::Exact(exact) => exact == name,
            Selector::Matching(pattern) => pattern.matches(name),
            Selector::Labelled(selector) => node.is_some_and(|node| selector.matches(&node.labels)),
        })
    }
}

fn read_selector(field: &Field<'_>) -> Fault<Selector> {
    if let Some(exact) = field.get("exactMatch")? {
        return Ok(Selector::Exact(String::from(exact.need("name")?.text()?)));
    }
    if let Some(regex) = field.get("regexMatch")? {
        let pattern = regex.need("pattern")?;
        return Pattern::new(pattern.text()?)
            .map(Selector::Matching)
            .ok_or_else(|| pattern.invalid("is no regular expression that is read"));
    }
    match label_selector(field, "labelMatch")? {
        Some(selector) => Ok(Selector::Labelled(selector)),
        None => Err(field.invalid("must be one of exactMatch, regexMatch, labelMatch")),
    }
}

/// Labels nodes with the part that they are in at each tier; answers with the tiers, closest first.
/// A node that is in none of a tier is, there, in what it is in below.
///
/// O(nodes · members), and O(parts²) for parts in parts.
pub(super) fn label(
    parts: &BTreeMap<String, HyperNode>,
    nodes: &mut [Node],
    key: fn(u32) -> String,
) -> BTreeSet<u32> {
    let tiers: BTreeSet<u32> = parts.values().map(|part| part.tier).collect();
    let mut above: BTreeMap<&str, Vec<(&str, u32)>> = BTreeMap::new();
    for name in parts.keys() {
        let holds = parts.iter().filter(|(_, part)| part.has(false, name, None));
        above.insert(name, holds.map(|(name, part)| (name.as_str(), part.tier)).collect());
    }
    for node in nodes {
        let mut at: BTreeMap<u32, &str> = BTreeMap::new();
        let direct = parts.iter().filter(|(_, part)| part.has(true, &node.name, Some(node)));
        let mut open: Vec<(&str, u32)> =
            direct.map(|(name, part)| (name.as_str(), part.tier)).collect();
        let mut seen = BTreeSet::new();
        while let Some((name, tier)) = open.pop() {
            if seen.insert(name) {
                // The first by name counts of several parts of one tier.
                let entry = at.entry(tier).or_insert(name);
                *entry = name.min(*entry);
                open.extend(above.get(name).into_iter().flatten().copied());
            }
        }
        for tier in &tiers {
            if let Some((_, name)) = at.range(..=*tier).next_back() {
                node.labels.insert(key(*tier), String::from(*name));
            }
        }
    }
    tiers
}
