//! An application of `YuniKorn` as a group.

use alloc::format;
use alloc::string::ToString;

use super::GroupObject;
use crate::kubernetes::membership::{Application, Family};
use crate::model::GroupPolicy;

/// The group of an application: each task group is a role.
pub(in crate::kubernetes) fn application(of: Application, namespace: &str) -> GroupObject {
    let label = format!("application {namespace}/{}", of.name);
    let mut group = GroupObject::new(Family::YuniKorn, namespace.to_string(), of.name, label);
    let sum = of.groups.values().fold(0_u32, |sum, min| sum.saturating_add(*min));
    group.policy = GroupPolicy::Gang { min_count: sum.max(1) };
    group.roles = of.groups;
    group.timeout = Some(of.timeout);
    group
}
