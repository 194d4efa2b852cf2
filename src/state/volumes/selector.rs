//! Selectors of nodes by labels, as storage objects have them.

use crate::model::{LabelSelector, NodeSelector, NodeSelectorTerm, Requirement};
use crate::state::view::NodeView;

fn meets(node: NodeView<'_>, requirement: &Requirement) -> bool {
    requirement.check().is_ok() && requirement.matches(node.label(&requirement.key))
}

/// Whether a term matches the labels of a node; names and other fields are not looked at.
pub(super) fn term_matches(term: &NodeSelectorTerm, node: NodeView<'_>) -> bool {
    !term.is_empty() && term.match_expressions.iter().all(|requirement| meets(node, requirement))
}

/// Whether a node is reached by what has this node affinity; `None` reaches all.
pub(super) fn reaches(affinity: Option<&NodeSelector>, node: NodeView<'_>) -> bool {
    affinity.is_none_or(|affinity| affinity.terms.iter().any(|term| term_matches(term, node)))
}

/// Whether the labels of a node meet a selector.
pub(super) fn selects(selector: &LabelSelector, node: NodeView<'_>) -> bool {
    let has = |(key, value): (&alloc::string::String, &alloc::string::String)| {
        node.label(key) == Some(value)
    };
    selector.check().is_ok()
        && selector.match_labels.iter().all(has)
        && selector.match_expressions.iter().all(|rule| rule.matches(node.label(&rule.key)))
}
