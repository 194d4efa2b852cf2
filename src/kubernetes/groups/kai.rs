//! KAI's `PodGroup`: a tree of groups in one object.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use super::{GroupObject, Nature, object};
use crate::kubernetes::field::{Fault, Field};
use crate::kubernetes::membership::Family;
use crate::kubernetes::topologies;
use crate::model::{GroupPolicy, Problem};

/// A group inside, as it is written.
struct Inner {
    name: String,
    parent: Option<String>,
    /// The minimum of pods.
    pods: Option<u32>,
    /// The minimum of groups.
    groups: Option<u32>,
    group: GroupObject,
}

/// The groups of an object: itself, and those inside, each with the one above it as its parent.
pub(in crate::kubernetes) fn kai(root: &Field<'_>) -> Fault<Vec<GroupObject>> {
    let mut whole = object(root, Family::Kai)?;
    let spec = root.need("spec")?;
    whole.queue = spec.text_of("queue")?;
    whole.priority_class = spec.name_of("priorityClassName")?;
    whole.wish = topologies::kai_constraint(&spec)?;
    let mut inner: Vec<Inner> = Vec::new();
    spec.each("subGroups", |field| {
        let name = String::from(field.need("name")?.text()?);
        if inner.iter().any(|other| other.name == name) {
            return Err(field.fail_at("name", Problem::Duplicate(name)));
        }
        let parent = field.name_of("parent")?;
        let mut group = GroupObject { name: format!("{}/{name}", whole.name), ..whole.clone() };
        let above = parent.as_ref().map(|parent| format!("{}/{parent}", whole.name));
        group.parent = Some(above.unwrap_or_else(|| whole.name.clone()));
        group.wish = topologies::kai_constraint(&field)?;
        let (pods, groups) = minima(&field)?;
        inner.push(Inner { name, parent, pods, groups, group });
        Ok(())
    })?;
    let mut children: BTreeMap<Option<&str>, (u32, u32)> = BTreeMap::new();
    for group in &inner {
        let known = |parent: &String| inner.iter().any(|other| other.name == *parent);
        if let Some(parent) = group.parent.as_ref().filter(|parent| !known(parent)) {
            return Err(spec.fail_at("subGroups", Problem::Unknown(parent.clone())));
        }
        let entry = children.entry(group.parent.as_deref()).or_default();
        *entry = (entry.0 + 1, entry.1.saturating_add(group.pods.unwrap_or(1)));
    }
    let counts: Vec<Option<(u32, u32)>> =
        inner.iter().map(|group| children.get(&Some(group.name.as_str())).copied()).collect();
    let (pods, groups) = minima(&spec)?;
    settle(&mut whole, pods, groups, children.get(&None).copied())?;
    let mut all = alloc::vec![whole];
    for (Inner { pods, groups, mut group, .. }, inside) in inner.into_iter().zip(counts) {
        settle(&mut group, pods, groups, inside)?;
        all.push(group);
    }
    Ok(all)
}

/// The minima of pods and of groups, where they are stated.
fn minima(of: &Field<'_>) -> Fault<(Option<u32>, Option<u32>)> {
    let read = |name: &str| -> Fault<Option<u32>> {
        let field = of.get(name)?;
        let count = field.map(|field| field.within(0, i32::MAX.into())).transpose()?;
        Ok(count.map(|count| count as u32))
    };
    Ok((read("minMember")?, read("minSubGroup")?))
}

/// Makes a group one of pods, or one of so many groups, which need so many pods.
fn settle(
    group: &mut GroupObject,
    pods: Option<u32>,
    groups: Option<u32>,
    inside: Option<(u32, u32)>,
) -> Fault<()> {
    let gang = |min_count: u32| match min_count {
        0 => GroupPolicy::Basic {},
        min_count => GroupPolicy::Gang { min_count },
    };
    let Some((count, needed)) = inside else {
        group.policy = gang(pods.unwrap_or(1));
        return match groups {
            Some(_) => Err(group.fail("spec.minSubGroup", no_groups())),
            None => Ok(()),
        };
    };
    group.nature = Nature::Groups;
    group.policy = gang(groups.unwrap_or(count));
    if groups.is_some_and(|groups| groups > count) {
        let text = format!("is more than the {count} groups inside");
        return Err(group.fail("spec.minSubGroup", Problem::Invalid(text)));
    }
    // A minimum of pods of a group of groups is what those inside need, unless it is more.
    if pods.is_some_and(|pods| pods > needed) {
        let text = format!("is more than the {needed} pods that the groups inside need");
        return Err(group.fail("spec.minMember", Problem::Invalid(text)));
    }
    Ok(())
}

fn no_groups() -> Problem {
    Problem::Invalid("has no groups inside".to_string())
}
