//! Node selectors and node affinity terms, resolved to a cluster's label numbers.

use alloc::string::String;
use alloc::vec::Vec;

use crate::model::{NodeSelectorTerm, Operator, PodShape, Requirement};
use crate::state::{Cluster, LabelKey, LabelValue, NodeView, Row};

/// The field of a node that terms may name.
const NAME: &str = "metadata.name";

/// A pod's requirements of the labels and the name of its node: every pair of the node selector,
/// and one of the required terms.
///
/// Source: `k8s.io/component-helpers/scheduling/corev1/nodeaffinity`, `RequiredNodeAffinity`.
pub(super) struct NodeRules {
    pairs: Vec<(Option<LabelKey>, Option<LabelValue>)>,
    /// `None` requires nothing; no terms match no node.
    terms: Option<Vec<Term>>,
}

/// A term with at least one requirement, and none that is malformed.
pub(super) struct Term {
    labels: Vec<(Option<LabelKey>, Rule)>,
    fields: Vec<Field>,
}

/// How the value of a label is judged.
enum Rule {
    In(Vec<LabelValue>),
    NotIn(Vec<LabelValue>),
    Exists,
    Absent,
    Above(i64),
    Below(i64),
}

/// How a field is judged.
enum Field {
    /// The name is (or is not) that of a row; `None` is a name that no node has.
    Name { is: bool, row: Option<Row> },
    /// Another field: none exists, so all compare as empty, and the answer is known.
    Known(bool),
}

impl NodeRules {
    pub(super) fn new(cluster: &Cluster, pod: &PodShape) -> NodeRules {
        let required = pod.node_affinity.as_ref().and_then(|affinity| affinity.required.as_ref());
        NodeRules {
            pairs: pod
                .node_selector
                .iter()
                .map(|(key, value)| (cluster.label_key(key), cluster.find_label_value(value)))
                .collect(),
            terms: required.map(|selector| resolve(cluster, &selector.terms)),
        }
    }

    /// Whether every node will do.
    pub(super) fn ask_nothing(&self) -> bool {
        self.pairs.is_empty() && self.terms.is_none()
    }

    pub(super) fn matches(&self, node: NodeView<'_>) -> bool {
        let pair = |&(key, value): &(Option<LabelKey>, Option<LabelValue>)| {
            value.is_some() && key.and_then(|key| node.label_value(key)) == value
        };
        self.pairs.iter().all(pair)
            && self.terms.as_ref().is_none_or(|terms| terms.iter().any(|term| term.matches(node)))
    }
}

/// The terms that can match: malformed and empty ones never do.
pub(super) fn resolve(cluster: &Cluster, terms: &[NodeSelectorTerm]) -> Vec<Term> {
    terms.iter().filter_map(|term| Term::new(cluster, term)).collect()
}

impl Term {
    /// `None` for a term that is empty or malformed, and so matches no node.
    pub(super) fn new(cluster: &Cluster, term: &NodeSelectorTerm) -> Option<Term> {
        if term.is_empty() {
            return None;
        }
        let rule = |requirement| Rule::new(cluster, requirement);
        let labels = term
            .match_expressions
            .iter()
            .map(|requirement| Some((cluster.label_key(&requirement.key), rule(requirement)?)));
        let fields = term.match_fields.iter().map(|requirement| Field::new(cluster, requirement));
        Some(Term {
            labels: labels.collect::<Option<_>>()?,
            fields: fields.collect::<Option<_>>()?,
        })
    }

    pub(super) fn matches(&self, node: NodeView<'_>) -> bool {
        let label = |(key, rule): &(Option<LabelKey>, Rule)| {
            rule.matches(node, key.and_then(|key| node.label_value(key)))
        };
        self.labels.iter().all(label) && self.fields.iter().all(|field| field.matches(node))
    }
}

impl Rule {
    fn new(cluster: &Cluster, requirement: &Requirement) -> Option<Rule> {
        requirement.check().ok()?;
        let values = || {
            let values = requirement.values.iter();
            values.filter_map(|value| cluster.find_label_value(value)).collect()
        };
        let limit = || requirement.values.first()?.parse().ok();
        Some(match requirement.operator {
            Operator::In => Rule::In(values()),
            Operator::NotIn => Rule::NotIn(values()),
            Operator::Exists => Rule::Exists,
            Operator::DoesNotExist => Rule::Absent,
            Operator::Gt => Rule::Above(limit()?),
            Operator::Lt => Rule::Below(limit()?),
            Operator::Unknown(_) => return None,
        })
    }

    fn matches(&self, node: NodeView<'_>, value: Option<LabelValue>) -> bool {
        let number = |value: LabelValue| node.cluster().label_text(value).parse::<i64>().ok();
        match self {
            Rule::In(values) => value.is_some_and(|value| values.contains(&value)),
            Rule::NotIn(values) => value.is_none_or(|value| !values.contains(&value)),
            Rule::Exists => value.is_some(),
            Rule::Absent => value.is_none(),
            Rule::Above(limit) => value.and_then(number).is_some_and(|have| have > *limit),
            Rule::Below(limit) => value.and_then(number).is_some_and(|have| have < *limit),
        }
    }
}

impl Field {
    fn new(cluster: &Cluster, requirement: &Requirement) -> Option<Field> {
        let is = match requirement.operator {
            Operator::In => true,
            Operator::NotIn => false,
            _ => return None,
        };
        let [value] = requirement.values.as_slice() else { return None };
        Some(if requirement.key == NAME {
            Field::Name { is, row: cluster.node(value).map(NodeView::row) }
        } else {
            Field::Known(value.is_empty() == is)
        })
    }

    fn matches(&self, node: NodeView<'_>) -> bool {
        match self {
            Field::Name { is, row } => (*row == Some(node.row())) == *is,
            Field::Known(matches) => *matches,
        }
    }
}

/// The rows that terms name, if each of them names its nodes. A term names the names that all of
/// its `In` requirements on `metadata.name` share, and the rows are the union over terms. Unlike
/// matching, it takes requirements with several values, or none.
///
/// `None` if some term leaves the name open. The flag tells whether any name is left, be it that
/// of no node.
///
/// Source: kube-scheduler, `nodeaffinity/node_affinity.go`, `PreFilter`.
pub(super) fn named<'a>(terms: &'a [NodeSelectorTerm]) -> Option<Vec<&'a str>> {
    let mut names: Vec<&str> = Vec::new();
    for term in terms {
        let mut own: Option<Vec<&'a str>> = None;
        let namings = term
            .match_fields
            .iter()
            .filter(|field| field.key == NAME && field.operator == Operator::In);
        for naming in namings {
            match &mut own {
                None => own = Some(naming.values.iter().map(String::as_str).collect()),
                Some(own) => own.retain(|name| naming.values.iter().any(|value| value == name)),
            }
        }
        names.extend(own?);
    }
    (!terms.is_empty()).then_some(names)
}
