//! The level at which a `LeaderWorkerSet` states its scheduling.

use super::groups::{CONSTRAINTS, POLICY};
use super::parts::CLAIMS;
use super::rule::Rule::{Fields, Honoured, Refused, Whole};
use super::rule::{Choice, Entry};
use crate::kubernetes::value::Value;

/// The level of a set whose groups its scheduling describes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::kubernetes) enum Level {
    /// One group of all replicas.
    Set,
    /// A group of each replica.
    Replica,
    /// The leader and the workers of each replica by themselves.
    Roles,
    /// More than one of them: groups of groups.
    Several,
}

/// The level of a set's scheduling. An empty one means replicas.
pub(in crate::kubernetes) fn level(own: &Value) -> Level {
    const SAYS: [&str; 4] =
        ["schedulingPolicy", "schedulingConstraints", "disruptionMode", "resourceClaims"];
    let is_there = |value: &Value| *value != Value::Null;
    let says = |value: &Value| SAYS.iter().any(|name| value.entry(name).is_some_and(is_there));
    let replica = own.entry("replica");
    let role = |name| replica.and_then(|replica| replica.entry(name)).is_some_and(is_there);
    match (says(own), replica.is_some_and(says), role("leader") || role("worker")) {
        (true, false, false) => Level::Set,
        (false, _, false) => Level::Replica,
        (false, false, true) => Level::Roles,
        _ => Level::Several,
    }
}

const LEAF: &[Entry] = &[
    ("schedulingPolicy", POLICY),
    ("schedulingConstraints", CONSTRAINTS),
    ("disruptionMode", Honoured),
    ("resourceClaims", CLAIMS),
];
const NO_CLAIMS: &str = "claims are shared by the leader alone, or by the workers";

/// The scheduling of a set.
pub(super) static SET: Choice = Choice {
    options: &[
        (
            "at one level",
            Whole(&[
                ("schedulingPolicy", POLICY),
                ("schedulingConstraints", CONSTRAINTS),
                ("disruptionMode", Honoured),
                ("resourceClaims", Refused(NO_CLAIMS)),
                (
                    "replica",
                    Whole(&[
                        ("schedulingPolicy", POLICY),
                        ("schedulingConstraints", CONSTRAINTS),
                        ("disruptionMode", Honoured),
                        ("resourceClaims", Refused(NO_CLAIMS)),
                        ("leader", Fields(LEAF)),
                        ("worker", Fields(LEAF)),
                    ]),
                ),
            ]),
        ),
        ("at several levels", Refused("groups of groups of a set are not read")),
    ],
    pick: |spot, _| usize::from(level(spot.value) == Level::Several),
};
