//! Node selectors and node affinity, as a filter and a score.

use alloc::sync::Arc;
use alloc::vec::Vec;

use super::node_rules::{NodeRules, Term, named, resolve};
use crate::framework::{
    Context, Declaration, FilterPlugin, FilterPreparation, Normalization, PreparedFilter,
    PreparedScore, ScorePlugin, ScorePreparation, Verdict,
};
use crate::model::{self, PodShape};
use crate::state::NodeView;
use crate::state::RowSet;

/// Lets pods only on nodes with the labels and names they require, and prefers nodes with those
/// they prefer.
///
/// As a filter: every pair of the node selector is equal, and one of the required terms matches.
/// A requirement without terms, or with only empty or malformed ones, matches no node. If every
/// term names its nodes by `metadata.name In`, all others are left out while preparing; if no name
/// is left, the pod is refused. All rejections are [`Unresolvable`](Verdict::Unresolvable).
///
/// As a score: the weights of the preferred terms that match, in proportion to the highest.
/// Malformed terms match nothing. (kube-scheduler fails the whole attempt with an error where a
/// preferred term with a weight is malformed and more than one node is left.)
///
/// O(terms × log labels) a node; skipped for pods that ask nothing.
///
/// Source: kube-scheduler, `nodeaffinity/node_affinity.go`.
#[derive(Debug, Clone, Default)]
pub struct NodeAffinityPlugin {
    added: model::NodeAffinity,
}

/// Terms that the filter resolves.
struct Required {
    added: Option<Vec<Term>>,
    rules: NodeRules,
}

/// Terms that the score resolves.
struct Preferred(Vec<(i64, Term)>);

impl NodeAffinityPlugin {
    /// Judges by the requests of each pod.
    pub fn new() -> NodeAffinityPlugin {
        NodeAffinityPlugin::default()
    }

    /// Judges by the requests of each pod, and by `added` for all of them (`addedAffinity`).
    pub fn with_added(added: model::NodeAffinity) -> NodeAffinityPlugin {
        NodeAffinityPlugin { added }
    }
}

impl FilterPlugin for NodeAffinityPlugin {
    fn name(&self) -> &'static str {
        "NodeAffinity"
    }

    fn prepare(self: Arc<Self>, cx: &Context<'_>) -> FilterPreparation {
        let (cluster, pod) = (cx.cluster(), cx.pod());
        let rules = NodeRules::new(cluster, pod);
        let added = self.added.required.as_ref().map(|added| resolve(cluster, &added.terms));
        if added.is_none() && rules.ask_nothing() {
            return FilterPreparation::Skip;
        }
        let required = Required { added, rules };
        let own = pod.node_affinity.as_ref().and_then(|affinity| affinity.required.as_ref());
        match own.and_then(|own| named(&own.terms)) {
            None => FilterPreparation::ready(required),
            Some(names) if names.is_empty() => FilterPreparation::Reject(Verdict::Unresolvable),
            Some(names) => {
                let rows = names.iter().filter_map(|name| cluster.node(name));
                let rows: RowSet = rows.map(NodeView::row).collect();
                FilterPreparation::narrow(required, rows)
            }
        }
    }

    fn declare(&self, _: &PodShape) -> Declaration {
        Declaration::constant()
    }
}

impl PreparedFilter for Required {
    fn filter(&self, _: &Context<'_>, node: NodeView<'_>) -> Verdict {
        let added = &self.added;
        let passes = added.as_ref().is_none_or(|terms| terms.iter().any(|term| term.matches(node)))
            && self.rules.matches(node);
        Verdict::pass_or_unresolvable(passes)
    }
}

impl ScorePlugin for NodeAffinityPlugin {
    fn name(&self) -> &'static str {
        "NodeAffinity"
    }

    fn prepare(self: Arc<Self>, cx: &Context<'_>) -> ScorePreparation {
        let own = cx.pod().node_affinity.iter().flat_map(|affinity| &affinity.preferred);
        let terms: Vec<(i64, Term)> = self
            .added
            .preferred
            .iter()
            .chain(own)
            .filter(|preferred| preferred.weight != 0)
            .filter_map(|preferred| {
                let term = Term::new(cx.cluster(), &preferred.preference)?;
                Some((i64::from(preferred.weight), term))
            })
            .collect();
        if terms.is_empty() {
            return ScorePreparation::Skip;
        }
        ScorePreparation::ready(Preferred(terms))
    }

    fn normalization(&self) -> Normalization {
        Normalization::Max
    }

    fn declare(&self, _: &PodShape) -> Declaration {
        Declaration::constant()
    }
}

impl PreparedScore for Preferred {
    fn score(&self, _: &Context<'_>, node: NodeView<'_>) -> i64 {
        self.0.iter().filter(|(_, term)| term.matches(node)).map(|(weight, _)| weight).sum()
    }
}

#[cfg(test)]
mod tests;
