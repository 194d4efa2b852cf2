//! Parts that kinds of several files have: selectors, claims, plain keys.

use super::rule::Rule::{Each, Fields, Honoured, Part, Whole};
use super::rule::{Entry, Keys, Rule};

/// The reason for fields of features that few clusters have.
pub(super) const FEATURES: &str =
    "it asks for features of the node behind an alpha gate of Kubernetes";

/// The label selector of a part that is in force as a whole.
pub(super) const SELECTOR: Rule = Fields(&[
    ("matchLabels", Each(&Part)),
    ("matchExpressions", Fields(&[("key", Part), ("operator", Part), ("values", Part)])),
]);

/// A term of a node selector.
pub(super) const NODE_TERM: &[Entry] = &[
    ("matchExpressions", Fields(&[("key", Part), ("operator", Part), ("values", Part)])),
    ("matchFields", Fields(&[("key", Part), ("operator", Part), ("values", Part)])),
];

/// The claims of a pod, or those that members of a group may share.
pub(super) const CLAIMS: Rule = Whole(&[
    ("name", Part),
    ("resourceClaimName", Part),
    ("resourceClaimTemplateName", Part),
    ("source", Fields(&[("resourceClaimName", Part), ("resourceClaimTemplateName", Part)])),
]);

/// Labels that count, whatever they are.
pub(super) static ANY_LABEL: Keys =
    Keys { name: "any labels", known: &[], prefixes: &[], other: Honoured };
