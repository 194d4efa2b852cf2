//! Hosts that a pod set may use: taints, node selector, node affinity.
//!
//! Source: Kueue's `simulator/default.go`; Kubernetes' toleration and node-affinity helpers.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;

use super::input::{
    Expression, KueueFlavor, KueueNode, KueueOperator, KueuePodSet, KueueTaint, KueueToleration,
    KueueTolerationOperator, PreferredTerm,
};
use crate::framework::KueueGates;
use crate::place::failure::Failure;

/// The conditions of one pod set on a host.
pub(super) struct Filter<'a> {
    flavor: &'a KueueFlavor,
    pod_set: &'a KueuePodSet,
    preferred: &'a [PreferredTerm],
}

/// Why a host is out of the question.
pub(super) enum Mismatch {
    KueueTaint(String),
    NodeSelector,
    Affinity,
}

impl<'a> Filter<'a> {
    /// Checks the affinity expressions and prepares the filter.
    pub(super) fn new(
        pod_set: &'a KueuePodSet,
        flavor: &'a KueueFlavor,
        gates: KueueGates,
    ) -> Result<Filter<'a>, Failure> {
        let preferred: &[PreferredTerm] =
            if gates.preferred_affinity { &pod_set.affinity.preferred } else { &[] };
        let terms = pod_set.affinity.required.iter().map(|term| (term, true));
        let weighted = preferred.iter().map(|term| (&term.expressions, term.weight != 0));
        for (term, counts) in terms.chain(weighted) {
            if let Some(broken) = term.iter().find(|expression| counts && !well_formed(expression))
            {
                return Err(Failure::InvalidAffinity { key: broken.key.clone() });
            }
        }
        Ok(Filter { flavor, pod_set, preferred })
    }

    /// The affinity score of a host, or why it is out of the question.
    pub(super) fn check(&self, node: &KueueNode) -> Result<i64, Mismatch> {
        let tolerated = |taint: &KueueTaint| {
            let own = self.pod_set.tolerations.iter();
            own.chain(&self.flavor.tolerations).any(|toleration| tolerates(toleration, taint))
        };
        let repels =
            |taint: &&KueueTaint| matches!(taint.effect.as_str(), "NoSchedule" | "NoExecute");
        if let Some(taint) =
            node.taints.iter().filter(repels).find(|taint: &&KueueTaint| !tolerated(taint))
        {
            return Err(Mismatch::KueueTaint(taint_text(taint)));
        }
        let selector = &self.pod_set.node_selector;
        if !selector.iter().all(|(key, value)| node.labels.get(key) == Some(value)) {
            return Err(Mismatch::NodeSelector);
        }
        let required = &self.pod_set.affinity.required;
        if !required.is_empty() && !required.iter().any(|term| matches_term(term, &node.labels)) {
            return Err(Mismatch::Affinity);
        }
        let matching =
            self.preferred.iter().filter(|term| matches_term(&term.expressions, &node.labels));
        Ok(matching.map(|term| i64::from(term.weight)).sum())
    }
}

fn taint_text(taint: &KueueTaint) -> String {
    if taint.value.is_empty() {
        format!("{}:{}", taint.key, taint.effect)
    } else {
        format!("{}={}:{}", taint.key, taint.value, taint.effect)
    }
}

fn tolerates(toleration: &KueueToleration, taint: &KueueTaint) -> bool {
    let integers = || {
        let taint: i64 = taint.value.parse().ok()?;
        Some((taint, toleration.value.parse::<i64>().ok()?))
    };
    toleration.effect.as_ref().is_none_or(|effect| effect.is_empty() || *effect == taint.effect)
        && (toleration.key.is_empty() || toleration.key == taint.key)
        && match toleration.operator {
            KueueTolerationOperator::Equal => toleration.value == taint.value,
            KueueTolerationOperator::Exists => true,
            KueueTolerationOperator::Gt => integers().is_some_and(|(have, limit)| have > limit),
            KueueTolerationOperator::Lt => integers().is_some_and(|(have, limit)| have < limit),
        }
}

fn well_formed(expression: &Expression) -> bool {
    match expression.operator {
        KueueOperator::In | KueueOperator::NotIn => !expression.values.is_empty(),
        KueueOperator::Exists | KueueOperator::DoesNotExist => expression.values.is_empty(),
        KueueOperator::Gt | KueueOperator::Lt => {
            matches!(expression.values.as_slice(), [one] if one.parse::<i64>().is_ok())
        }
    }
}

fn matches_term(term: &[Expression], labels: &BTreeMap<String, String>) -> bool {
    !term.is_empty() && term.iter().all(|expression| matches(expression, labels))
}

fn matches(expression: &Expression, labels: &BTreeMap<String, String>) -> bool {
    let label = labels.get(&expression.key);
    let integers = || {
        let label: i64 = label?.parse().ok()?;
        Some((label, expression.values.first()?.parse::<i64>().ok()?))
    };
    match expression.operator {
        KueueOperator::In => label.is_some_and(|label| expression.values.contains(label)),
        KueueOperator::NotIn => label.is_none_or(|label| !expression.values.contains(label)),
        KueueOperator::Exists => label.is_some(),
        KueueOperator::DoesNotExist => label.is_none(),
        KueueOperator::Gt => integers().is_some_and(|(have, limit)| have > limit),
        KueueOperator::Lt => integers().is_some_and(|(have, limit)| have < limit),
    }
}

#[cfg(test)]
mod tests;
