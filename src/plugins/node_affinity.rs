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
mod tests {
    use super::super::testing::{cluster, passing, refused, scores};
    use super::*;
    use crate::model::{
        Node, NodeSelector, NodeSelectorTerm, Operator, Pod, PreferredNodeTerm, Requirement,
    };
    use crate::state::Cluster;

    fn nodes() -> Cluster {
        cluster([
            Node::new("a").label("gen", "2").label("disk", "ssd"),
            Node::new("b").label("gen", "10").label("disk", ""),
            Node::new("c").label("gen", "+7"),
            Node::new("d").label("gen", "x"),
        ])
    }

    fn expression(key: &str, operator: Operator, values: &[&str]) -> NodeSelectorTerm {
        NodeSelectorTerm::labels([Requirement::new(key, operator, values.iter().copied())])
    }

    fn names(operator: Operator, values: &[&str]) -> NodeSelectorTerm {
        NodeSelectorTerm {
            match_fields: alloc::vec![Requirement::new(
                "metadata.name",
                operator,
                values.iter().copied()
            )],
            ..NodeSelectorTerm::default()
        }
    }

    fn requiring(terms: &[NodeSelectorTerm]) -> Pod {
        Pod::new().node_affinity(model::NodeAffinity {
            required: Some(NodeSelector { terms: terms.to_vec() }),
            preferred: Vec::new(),
        })
    }

    #[test]
    fn operators_judge_as_kubernetes_does() {
        let cluster = nodes();
        for (operator, values, expected) in [
            (Operator::In, &["2", "x"][..], &["a", "d"][..]),
            (Operator::NotIn, &["2"], &["b", "c", "d"]),
            (Operator::Gt, &["2"], &["b", "c"]),
            (Operator::Lt, &["8"], &["a", "c"]),
            (Operator::Gt, &["-5"], &[]),
            (Operator::Gt, &["1", "2"], &[]),
            (Operator::In, &[], &[]),
            (Operator::Unknown("Near".into()), &["2"], &[]),
        ] {
            let pod = requiring(&[expression("gen", operator.clone(), values)]);
            assert_eq!(
                passing(NodeAffinityPlugin::new(), &cluster, &pod),
                expected,
                "{operator:?}"
            );
        }
        let disk = |operator| requiring(&[expression("disk", operator, &[])]);
        assert_eq!(
            passing(NodeAffinityPlugin::new(), &cluster, &disk(Operator::Exists)),
            ["a", "b"]
        );
        let absent = disk(Operator::DoesNotExist);
        assert_eq!(passing(NodeAffinityPlugin::new(), &cluster, &absent), ["c", "d"]);
    }

    #[test]
    fn requirements_without_a_sound_term_match_nothing() {
        let cluster = nodes();
        let broken = expression("gen", Operator::In, &[]);
        for terms in [&[][..], &[NodeSelectorTerm::default()], core::slice::from_ref(&broken)] {
            assert!(passing(NodeAffinityPlugin::new(), &cluster, &requiring(terms)).is_empty());
        }
        let pod = requiring(&[broken, expression("gen", Operator::In, &["2"])]);
        assert_eq!(passing(NodeAffinityPlugin::new(), &cluster, &pod), ["a"]);
    }

    #[test]
    fn names_narrow_the_nodes() {
        let cluster = nodes();
        let pod = requiring(&[names(Operator::In, &["a"]), names(Operator::In, &["d"])]);
        assert_eq!(passing(NodeAffinityPlugin::new(), &cluster, &pod), ["a", "d"]);
        // Several values narrow, but never match.
        let pod = requiring(&[names(Operator::In, &["a", "b"])]);
        assert!(passing(NodeAffinityPlugin::new(), &cluster, &pod).is_empty());
        let pod = requiring(&[names(Operator::NotIn, &["a"])]);
        assert_eq!(passing(NodeAffinityPlugin::new(), &cluster, &pod), ["b", "c", "d"]);
        let mut term = names(Operator::In, &["a"]);
        term.match_fields.push(Requirement::new("metadata.name", Operator::In, ["b"]));
        assert!(refused(NodeAffinityPlugin::new(), &cluster, &requiring(&[term])));
        let mut unknown = names(Operator::In, &[""]);
        unknown.match_fields[0].key = "metadata.uid".into();
        let pod = requiring(&[unknown]);
        assert_eq!(passing(NodeAffinityPlugin::new(), &cluster, &pod), ["a", "b", "c", "d"]);
    }

    #[test]
    fn node_selectors_are_compared_as_they_are() {
        let cluster = nodes();
        let pod = Pod::new().node_selector("disk", "");
        assert_eq!(passing(NodeAffinityPlugin::new(), &cluster, &pod), ["b"]);
        let pod = Pod::new().node_selector("not a key!", "v");
        assert!(passing(NodeAffinityPlugin::new(), &cluster, &pod).is_empty());
    }

    #[test]
    fn preferences_add_up_and_scale_to_the_highest() {
        let cluster = nodes();
        let prefer = |weight, term| PreferredNodeTerm { weight, preference: term };
        let affinity = model::NodeAffinity {
            required: None,
            preferred: alloc::vec![
                prefer(30, expression("disk", Operator::Exists, &[])),
                prefer(60, expression("gen", Operator::Gt, &["5"])),
                prefer(0, expression("gen", Operator::In, &[])),
                prefer(50, NodeSelectorTerm::default()),
            ],
        };
        let pod = Pod::new().node_affinity(affinity.clone());
        assert_eq!(scores(NodeAffinityPlugin::new(), &cluster, &pod), [33, 100, 66, 0]);
        let added = NodeAffinityPlugin::with_added(affinity);
        assert_eq!(scores(added, &cluster, &Pod::new()), [33, 100, 66, 0]);
    }

    #[test]
    fn added_affinity_holds_beside_the_pods_own() {
        let cluster = nodes();
        let added = NodeAffinityPlugin::with_added(model::NodeAffinity {
            required: Some(NodeSelector {
                terms: alloc::vec![expression("gen", Operator::Gt, &["5"])],
            }),
            preferred: Vec::new(),
        });
        assert_eq!(passing(added.clone(), &cluster, &Pod::new()), ["b", "c"]);
        let pod = Pod::new().node_selector("disk", "");
        assert_eq!(passing(added, &cluster, &pod), ["b"]);
    }
}
