//! Selectors, affinity, tolerations and spread constraints of a pod.

use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use super::field::{Fault, Field};
use super::metadata::{check_label_name, check_subdomain, unsupported};
use super::node::EFFECTS;
use crate::base::clip::clip;
use crate::model::selector::{check_key, check_value};
use crate::model::{
    Effect, LabelSelector, Labels, NodeAffinity, NodeInclusion, NodeSelector, NodeSelectorTerm,
    Operator, PodAffinityTerm, PodShape, PreferredNodeTerm, Problem, Requirement, SelectorError,
    SpreadConstraint, Toleration, TolerationOperator, WeightedPodAffinityTerm, WhenUnsatisfiable,
};

/// A label selector; `None` if the field is absent.
pub(super) fn label_selector(of: &Field<'_>, name: &str) -> Fault<Option<LabelSelector>> {
    let Some(field) = of.get(name)? else { return Ok(None) };
    let mut selector =
        LabelSelector { match_labels: field.labels("matchLabels")?, match_expressions: Vec::new() };
    field.each("matchExpressions", |expression| {
        let requirement = requirement(&expression)?;
        if field.strict() && matches!(requirement.operator, Operator::Gt | Operator::Lt) {
            let error = SelectorError::Operator(requirement.operator.clone().into());
            return Err(expression.fail_at("operator", Problem::Invalid(error.to_string())));
        }
        selector.match_expressions.push(requirement);
        Ok(())
    })?;
    Ok(Some(selector))
}

fn requirement(field: &Field<'_>) -> Fault<Requirement> {
    let requirement = Requirement {
        key: field.text_of("key")?,
        operator: Operator::from(field.text_of("operator")?),
        values: field.texts("values")?,
    };
    if field.strict() {
        requirement.check().map_err(|error| {
            let place = match &error {
                SelectorError::Operator(_) => "operator",
                SelectorError::Key(_) => "key",
                _ => "values",
            };
            field.fail_at(place, Problem::Invalid(error.to_string()))
        })?;
    }
    Ok(requirement)
}

/// All wishes of a pod about nodes and company.
pub(super) fn affinity(spec: &Field<'_>, shape: &mut PodShape) -> Fault<()> {
    let Some(affinity) = spec.get("affinity")? else { return Ok(()) };
    if let Some(field) = affinity.get("nodeAffinity")? {
        shape.node_affinity = Some(node_affinity(&field)?);
    }
    let labels = shape.labels.clone();
    for (name, required, preferred) in [
        ("podAffinity", &mut shape.pod_affinity, &mut shape.preferred_pod_affinity),
        ("podAntiAffinity", &mut shape.pod_anti_affinity, &mut shape.preferred_pod_anti_affinity),
    ] {
        let Some(field) = affinity.get(name)? else { continue };
        field.each("requiredDuringSchedulingIgnoredDuringExecution", |term| {
            required.push(pod_term(&term, &labels)?);
            Ok(())
        })?;
        field.each("preferredDuringSchedulingIgnoredDuringExecution", |weighted| {
            let weight = weight(&weighted)?;
            let term = match weighted.get("podAffinityTerm")? {
                Some(term) => pod_term(&term, &labels)?,
                None if weighted.strict() => {
                    return Err(weighted.fail_at("podAffinityTerm", Problem::Required));
                }
                None => PodAffinityTerm::default(),
            };
            preferred.push(WeightedPodAffinityTerm { weight, term });
            Ok(())
        })?;
    }
    Ok(())
}

/// The weight of a preferred term.
fn weight(field: &Field<'_>) -> Fault<i32> {
    let weight = match field.get("weight")? {
        Some(weight) if field.strict() => weight.within(1, 100)?,
        Some(weight) => return weight.int32(),
        None if field.strict() => return Err(field.fail_at("weight", Problem::Required)),
        None => 0,
    };
    Ok(weight as i32)
}

fn node_affinity(field: &Field<'_>) -> Fault<NodeAffinity> {
    let mut affinity = NodeAffinity::default();
    if let Some(required) = field.get("requiredDuringSchedulingIgnoredDuringExecution")? {
        let selector = node_selector(&required)?;
        if field.strict() && selector.terms.is_empty() {
            return Err(required.fail_at("nodeSelectorTerms", Problem::Required));
        }
        affinity.required = Some(selector);
    }
    field.each("preferredDuringSchedulingIgnoredDuringExecution", |preferred| {
        let weight = weight(&preferred)?;
        let preference = preferred
            .get("preference")?
            .map_or(Ok(NodeSelectorTerm::default()), |term| node_term(&term))?;
        affinity.preferred.push(PreferredNodeTerm { weight, preference });
        Ok(())
    })?;
    Ok(affinity)
}

/// A node selector.
pub(super) fn node_selector(field: &Field<'_>) -> Fault<NodeSelector> {
    let mut selector = NodeSelector::default();
    field.each("nodeSelectorTerms", |term| {
        selector.terms.push(node_term(&term)?);
        Ok(())
    })?;
    Ok(selector)
}

fn node_term(field: &Field<'_>) -> Fault<NodeSelectorTerm> {
    let mut term = NodeSelectorTerm::default();
    field.each("matchExpressions", |expression| {
        term.match_expressions.push(requirement(&expression)?);
        Ok(())
    })?;
    field.each("matchFields", |expression| {
        let requirement =
            if field.strict() { match_field(&expression)? } else { requirement(&expression)? };
        term.match_fields.push(requirement);
        Ok(())
    })?;
    Ok(term)
}

/// A requirement on a field of a node, as a person may write it.
fn match_field(field: &Field<'_>) -> Fault<Requirement> {
    let invalid = |name, text: String| Err(field.fail_at(name, Problem::Invalid(text)));
    let requirement = Requirement {
        key: field.text_of("key")?,
        operator: Operator::from(field.text_of("operator")?),
        values: field.texts("values")?,
    };
    if requirement.key != "metadata.name" {
        return invalid("key", format!("{:?} is not a field of nodes", clip(&requirement.key)));
    }
    if !matches!(requirement.operator, Operator::In | Operator::NotIn) {
        return invalid("operator", "is neither In nor NotIn".into());
    }
    let [name] = requirement.values.as_slice() else {
        return invalid("values", "must be exactly one value".into());
    };
    check_subdomain(&field.need("values")?, name)?;
    Ok(requirement)
}

fn pod_term(field: &Field<'_>, own: &Labels) -> Fault<PodAffinityTerm> {
    let mut term = PodAffinityTerm {
        label_selector: label_selector(field, "labelSelector")?,
        topology_key: topology_key(field)?,
        namespaces: field.texts("namespaces")?,
        namespace_selector: label_selector(field, "namespaceSelector")?,
    };
    if field.strict() {
        field.each("namespaces", |name| check_label_name(&name, name.text()?))?;
        // The API server merges these keys into the selector when it takes the pod; what it has
        // stored is merged already.
        let selector = term.label_selector.as_ref();
        let matched = own_keys(field, "matchLabelKeys", selector, (own, &Operator::In))?;
        let mismatched = own_keys(field, "mismatchLabelKeys", selector, (own, &Operator::NotIn))?;
        if let Some(key) = matched.iter().find(|key| mismatched.contains(key)) {
            let text = format!("{:?} is in mismatchLabelKeys too", clip(key));
            return Err(field.fail_at("matchLabelKeys", Problem::Invalid(text)));
        }
        if let Some(selector) = &mut term.label_selector {
            for (keys, operator) in [(matched, Operator::In), (mismatched, Operator::NotIn)] {
                for key in keys {
                    let Some(value) = own.get(&key) else { continue };
                    let merged = Requirement::new(key, operator.clone(), [value.clone()]);
                    if !selector.match_expressions.contains(&merged) {
                        selector.match_expressions.push(merged);
                    }
                }
            }
        }
    }
    Ok(term)
}

/// Label keys whose values in the pod's own labels join a selector, by an operator.
///
/// A key must not be in the selector already, unless that is how an API server merged it.
fn own_keys(
    field: &Field<'_>,
    name: &str,
    selector: Option<&LabelSelector>,
    (own, operator): (&Labels, &Operator),
) -> Fault<Vec<String>> {
    let mut keys = Vec::new();
    field.each(name, |element| {
        let key = element.text()?;
        if element.strict() {
            check_key(key).map_err(|error| element.selector_error(&error))?;
            let Some(selector) = selector else {
                return Err(element.invalid("needs a labelSelector beside it"));
            };
            let named = selector.match_labels.contains_key(key)
                || selector.match_expressions.iter().any(|requirement| {
                    let merged = requirement.operator == *operator
                        && requirement.values.iter().eq(own.get(key));
                    requirement.key == key && !merged
                });
            if named {
                return Err(element.invalid(format!("{:?} is in the labelSelector too", clip(key))));
            }
        }
        keys.push(String::from(key));
        Ok(())
    })?;
    Ok(keys)
}

fn topology_key(field: &Field<'_>) -> Fault<String> {
    let key = field.text_of("topologyKey")?;
    if field.strict() {
        if key.is_empty() {
            return Err(field.fail_at("topologyKey", Problem::Required));
        }
        check_key(&key)
            .map_err(|error| field.fail_at("topologyKey", Problem::Invalid(error.to_string())))?;
    }
    Ok(key)
}

/// The tolerations of a pod.
pub(super) fn tolerations(spec: &Field<'_>) -> Fault<Vec<Toleration>> {
    let mut tolerations: Vec<Toleration> = Vec::new();
    let mut seen = BTreeSet::new();
    // API servers take a toleration twice, so pods that run may have it twice.
    let waits = spec.name_of("nodeName")?.is_none();
    spec.each("tolerations", |field| {
        let effect = field.name_of("effect")?.map(Effect::from);
        let toleration = Toleration {
            key: field.text_of("key")?,
            operator: TolerationOperator::from(field.text_of("operator")?),
            value: field.text_of("value")?,
            effect,
        };
        if field.strict() {
            check_toleration(&field, &toleration)?;
            if waits && !seen.insert(toleration.clone()) {
                let mut name = toleration.key;
                if let Some(effect) = toleration.effect {
                    name = format!("{name}:{}", String::from(effect));
                }
                return Err(field.fail(Problem::Duplicate(name)));
            }
        }
        tolerations.push(toleration);
        Ok(())
    })?;
    Ok(tolerations)
}

/// Source: `k8s.io/kubernetes/pkg/apis/core/validation`, `ValidateTolerations`.
fn check_toleration(field: &Field<'_>, toleration: &Toleration) -> Fault<()> {
    let invalid = |name, text: String| Err(field.fail_at(name, Problem::Invalid(text)));
    if !toleration.key.is_empty() {
        check_key(&toleration.key)
            .map_err(|error| field.fail_at("key", Problem::Invalid(error.to_string())))?;
    }
    match &toleration.operator {
        TolerationOperator::Unknown(operator) => {
            return Err(unsupported(&field.need("operator")?, operator, &["Equal", "Exists"]));
        }
        TolerationOperator::Exists if !toleration.value.is_empty() => {
            return invalid("value", "must be empty when the operator is Exists".into());
        }
        TolerationOperator::Equal if toleration.key.is_empty() => {
            return invalid("operator", "must be Exists when the key is empty".into());
        }
        TolerationOperator::Equal => check_value(&toleration.value)
            .map_err(|error| field.fail_at("value", Problem::Invalid(error.to_string())))?,
        TolerationOperator::Exists => {}
    }
    if let Some(Effect::Unknown(effect)) = &toleration.effect {
        return Err(unsupported(&field.need("effect")?, effect, &EFFECTS));
    }
    if let Some(seconds) = field.get("tolerationSeconds")? {
        seconds.integer()?;
        if toleration.effect != Some(Effect::NoExecute) {
            return invalid("effect", "must be NoExecute when tolerationSeconds is set".into());
        }
    }
    Ok(())
}

/// The spread constraints of a pod.
pub(super) fn spread(spec: &Field<'_>, own: &Labels) -> Fault<Vec<SpreadConstraint>> {
    let mut constraints = Vec::new();
    let mut seen = BTreeSet::new();
    spec.each("topologySpreadConstraints", |field| {
        let when = match field.text_of("whenUnsatisfiable")?.as_str() {
            "DoNotSchedule" => WhenUnsatisfiable::DoNotSchedule,
            "ScheduleAnyway" => WhenUnsatisfiable::ScheduleAnyway,
            _ if !field.strict() => return Ok(()), // Neither filters nor scores.
            "" => return Err(field.fail_at("whenUnsatisfiable", Problem::Required)),
            other => {
                let at = field.need("whenUnsatisfiable")?;
                return Err(unsupported(&at, other, &["DoNotSchedule", "ScheduleAnyway"]));
            }
        };
        let label_selector = label_selector(&field, "labelSelector")?;
        let constraint = SpreadConstraint {
            max_skew: max_skew(&field)?,
            topology_key: topology_key(&field)?,
            when_unsatisfiable: when,
            min_domains: min_domains(&field, when)?,
            node_affinity_policy: inclusion(&field, "nodeAffinityPolicy", NodeInclusion::Honor)?,
            node_taints_policy: inclusion(&field, "nodeTaintsPolicy", NodeInclusion::Ignore)?,
            match_label_keys: own_keys(
                &field,
                "matchLabelKeys",
                label_selector.as_ref(),
                (own, &Operator::In),
            )?,
            label_selector,
        };
        if field.strict() && !seen.insert((constraint.topology_key.clone(), when)) {
            let twice = format!("{}, {when:?}", constraint.topology_key);
            return Err(field.fail(Problem::Duplicate(twice)));
        }
        constraints.push(constraint);
        Ok(())
    })?;
    Ok(constraints)
}

fn max_skew(field: &Field<'_>) -> Fault<i32> {
    match field.get("maxSkew")? {
        Some(skew) if field.strict() => Ok(skew.within(1, i32::MAX.into())? as i32),
        Some(skew) => skew.int32(),
        None if field.strict() => Err(field.fail_at("maxSkew", Problem::Required)),
        None => Ok(0),
    }
}

fn min_domains(field: &Field<'_>, when: WhenUnsatisfiable) -> Fault<Option<i32>> {
    let Some(domains) = field.get("minDomains")? else { return Ok(None) };
    if !field.strict() {
        return domains.int32().map(Some);
    }
    if when == WhenUnsatisfiable::ScheduleAnyway {
        return Err(domains.invalid("is allowed with DoNotSchedule only"));
    }
    Ok(Some(domains.within(1, i32::MAX.into())? as i32))
}

fn inclusion(field: &Field<'_>, name: &str, default: NodeInclusion) -> Fault<NodeInclusion> {
    let Some(policy) = field.get(name)? else { return Ok(default) };
    match policy.text()? {
        "Honor" => Ok(NodeInclusion::Honor),
        "Ignore" => Ok(NodeInclusion::Ignore),
        other if field.strict() => Err(unsupported(&policy, other, &["Honor", "Ignore"])),
        // kube-scheduler asks only whether it is Honor.
        _ => Ok(NodeInclusion::Ignore),
    }
}
