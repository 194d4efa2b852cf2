//! `DaemonSet` of `apps`.

use alloc::format;
use alloc::string::String;
use alloc::vec;

use super::submitted::{MAX_PODS, Minimum, Names, Role, Submitted};
use crate::kubernetes::field::{Fault, Field};
use crate::kubernetes::membership::WorkloadKind;
use crate::model::{
    Effect, ModelError, Node, NodeSelector, NodeSelectorTerm, Operator, PodShape, Problem,
    Requirement, Toleration,
};

/// Taints that pods of a daemon set tolerate whatever they say.
///
/// Source: `k8s.io/kubernetes/pkg/controller/daemon/util`, `AddOrUpdateDaemonPodTolerations`.
const TOLERATED: [(&str, Effect); 6] = [
    ("node.kubernetes.io/not-ready", Effect::NoExecute),
    ("node.kubernetes.io/unreachable", Effect::NoExecute),
    ("node.kubernetes.io/disk-pressure", Effect::NoSchedule),
    ("node.kubernetes.io/memory-pressure", Effect::NoSchedule),
    ("node.kubernetes.io/pid-pressure", Effect::NoSchedule),
    ("node.kubernetes.io/unschedulable", Effect::NoSchedule),
];
/// The same of pods on the network of their node.
const TOLERATED_ON_HOST: (&str, Effect) =
    ("node.kubernetes.io/network-unavailable", Effect::NoSchedule);

/// A daemon set: one role, of one pod until the nodes are known.
pub(super) fn daemon_set(root: &Field<'_>) -> Fault<Submitted> {
    let mut set = Submitted::new(WorkloadKind::DaemonSet, root)?;
    let spec = root.need("spec")?;
    let at = spec.need("template")?;
    let mut template = set.template(&at)?;
    let on_host = at.need("spec")?.flag("hostNetwork")?;
    let more = on_host.then_some(TOLERATED_ON_HOST);
    for (key, effect) in TOLERATED.into_iter().chain(more) {
        let toleration = Toleration { effect: Some(effect), ..Toleration::exists(key) };
        template.pod.shape_mut().tolerations.push(toleration);
    }
    let name = set.workload.name.clone();
    let mut role = Role::new("main", 1, name.clone(), template);
    role.names = Names::One(name.clone());
    set.add_group(name, vec![role], Minimum::Any);
    Ok(set.finish())
}

/// Makes a pod for each node that the pods of a daemon set may run on, and binds it to that node by a
/// rule, as its controller does. O(nodes · rules of the template).
///
/// Source: `k8s.io/kubernetes/pkg/controller/daemon`, `NodeShouldRunDaemonPod`.
///
/// # Errors
/// There are more nodes than pods are made of one object.
pub(in crate::kubernetes) fn on_nodes(
    set: &mut Submitted,
    nodes: &[Node],
) -> Result<(), ModelError> {
    let Some(template) = set.sets.pop() else { return Ok(()) };
    let shape = template.template.pod.shape().clone();
    let chosen = || nodes.iter().filter(|node| runs_on(&shape, node));
    let count = chosen().count();
    if count as u64 > MAX_PODS.unsigned_abs() {
        let value = i64::try_from(count).unwrap_or(i64::MAX);
        let problem = Problem::OutOfRange { value, min: 0, max: MAX_PODS };
        return Err(set.fail("spec", problem));
    }
    for node in chosen() {
        let mut own = template.clone();
        own.name(format!("{}-{}", set.workload.name, node.name));
        let pinned = own.template.pod.shape_mut();
        let key = String::from("metadata.name");
        let rule = Requirement::new(key, Operator::In, [node.name.clone()]);
        let only = NodeSelector::any_of([NodeSelectorTerm::default().field(rule)]);
        pinned.node_affinity.get_or_insert_default().required = Some(only);
        set.sets.push(own);
    }
    for role in &mut set.workload.roles {
        role.count = u32::try_from(count).unwrap_or(u32::MAX);
    }
    if count == 0 {
        set.groups.clear();
        set.workload.groups.clear();
    }
    if count == 0 && !set.begun {
        set.notes.push("no node may run its pods".into());
    }
    Ok(())
}

/// Whether the rules of a template allow a node.
fn runs_on(shape: &PodShape, node: &Node) -> bool {
    let label = |rule: &Requirement| {
        rule.check().is_ok() && rule.matches(node.labels.get(&rule.key).map(|value| &**value))
    };
    let field =
        |rule: &Requirement| rule.key == "metadata.name" && rule.matches(Some(node.name.as_str()));
    let required = shape.node_affinity.as_ref().and_then(|own| own.required.as_ref());
    let mut repelling = node.taints.iter().filter(|taint| taint.repels());
    shape.node_selector.iter().all(|(key, value)| node.labels.get(key) == Some(value))
        && required.is_none_or(|selector| {
            selector.terms.iter().any(|term| {
                !term.is_empty()
                    && term.match_expressions.iter().all(label)
                    && term.match_fields.iter().all(field)
            })
        })
        && repelling.all(|taint| shape.tolerations.iter().any(|own| own.tolerates(taint)))
}
