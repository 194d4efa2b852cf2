//! Bad manifests: each is refused with the object and the field that are at fault.

use super::reading::pod_with;
use super::refusals::*;

#[test]
fn tolerations() {
    let case = |tolerations: &str, expected: &str| {
        let text = pod_with(&format!("tolerations: [{tolerations}]"), "");
        (text, format!("pod default/a: spec.tolerations{expected}"))
    };
    refused(&[
        case(
            "{key: a}, {key: b, operator: Near}",
            "[1].operator: \"Near\" is not one of Equal, Exists",
        ),
        case("{key: a}, {key: a, operator: Equal}", "[1]: \"a\" occurs twice"),
        case("{operator: Equal}", "[0].operator: must be Exists when the key is empty"),
        case("{key: a b, operator: Exists}", "[0].key: \"a b\" is not a label key"),
        case("{key: a, operator: Exists, value: v}", "[0].value: must be empty when"),
        case(
            "{key: a, effect: Never}",
            "[0].effect: \"Never\" is not one of NoSchedule, PreferNoSchedule, NoExecute",
        ),
        case(
            "{key: a, effect: NoSchedule, tolerationSeconds: 5}",
            "[0].effect: must be NoExecute when tolerationSeconds is set",
        ),
    ]);
}

#[test]
fn containers() {
    let case = |container: &str, expected: &str| {
        (pod_with("", container), format!("m.yaml: pod default/a: spec.containers[0].{expected}"))
    };
    refused(&[
        case("resources: {requests: {cpu: sixty}}", "resources.requests[cpu]: \"sixty\" is not a"),
        case("resources: {requests: {cpu: -1}}", "resources.requests[cpu]: must not be negative"),
        case(
            "resources: {requests: {memory: 10E}}",
            "resources.requests[memory]: \"10E\" is larger than any quantity can be",
        ),
        case("resources: {requests: {cpu: 10P}}", "resources.requests[cpu]: does not fit 64 bits"),
        case(
            "resources: {requests: {cpu: 2}, limits: {cpu: 1}}",
            "resources.requests[cpu]: 2 is more than the limit 1",
        ),
        case(
            "resources: {requests: {nvidia.com/gpu: 1}, limits: {nvidia.com/gpu: 2}}",
            "resources.requests[nvidia.com/gpu]: 1 must equal the limit 2",
        ),
        case(
            "resources: {limits: {nvidia.com/gpu: 500m}}",
            "resources.limits[nvidia.com/gpu]: must be an integer",
        ),
        case("resources: {limits: {gpu: 1}}", "resources.limits[gpu]: is neither a standard"),
        case(
            "ports: [{containerPort: 80, hostPort: 70000}]",
            "ports[0].hostPort: 70000 is not between 1 and 65535",
        ),
        case(
            "ports: [{containerPort: 80, protocol: ICMP}]",
            "ports[0].protocol: \"ICMP\" is not one of TCP, UDP, SCTP",
        ),
        case(
            "ports: [{containerPort: 80, hostPort: 9}, {containerPort: 81, hostPort: 9}]",
            "ports[1].hostPort: \"TCP/9\" occurs twice",
        ),
        pair(
            pod_with("hostNetwork: true", "ports: [{containerPort: 80, hostPort: 81}]"),
            "ports[0].hostPort: must equal containerPort with hostNetwork",
        ),
        pair(
            pod_with("initContainers: [{name: c}]", ""),
            "pod default/a: spec.initContainers[0].name: \"c\" occurs twice",
        ),
        pair(
            pod_with("resources: {requests: {nvidia.com/gpu: 1}}", ""),
            "pod default/a: spec.resources.requests[nvidia.com/gpu]: is not supported for a pod",
        ),
        pair(
            pod_with(
                "initContainers: [{name: d, resources: {requests: {cpu: 1}}}, {name: e, restartPolicy: Always, resources: {requests: {cpu: 1e16}}}]",
                "",
            ),
            "pod default/a: spec.initContainers[1].resources.requests[cpu]: does not fit 64 bits",
        ),
        pair(
            "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec: {}\n".into(),
            "pod default/a: spec.containers: is required",
        ),
    ]);
}

#[test]
fn sums_that_overflow() {
    let most = "resources: {requests: {memory: 9223372036854775807}}";
    let text =
        pod_with(&format!("initContainers: [{{name: s, restartPolicy: Always, {most}}}]"), most);
    refused(&[(text, "pod default/a: spec.containers: does not fit 64 bits".into())]);
}

#[test]
fn spread_constraints() {
    let case = |rest: &str, expected: &str| {
        let text = pod_with(&format!("topologySpreadConstraints: [{{{rest}}}]"), "");
        (text, format!("pod default/a: spec.topologySpreadConstraints[0].{expected}"))
    };
    let base = "whenUnsatisfiable: ScheduleAnyway, labelSelector: {}";
    refused(&[
        case(
            &format!("maxSkew: 1, topologyKey: z, minDomains: 2, {base}"),
            "minDomains: is allowed with DoNotSchedule only",
        ),
        case(&format!("maxSkew: 0, topologyKey: z, {base}"), "maxSkew: 0 is not between 1 and"),
        case(&format!("topologyKey: z, {base}"), "maxSkew: is required"),
        case(&format!("maxSkew: 1, {base}"), "topologyKey: is required"),
        case("maxSkew: 1, topologyKey: z", "whenUnsatisfiable: is required"),
        case(
            "maxSkew: 1, topologyKey: z, whenUnsatisfiable: Maybe",
            "whenUnsatisfiable: \"Maybe\" is not one of DoNotSchedule, ScheduleAnyway",
        ),
        case(
            &format!("maxSkew: 1, topologyKey: z, nodeTaintsPolicy: Odd, {base}"),
            "nodeTaintsPolicy: \"Odd\" is not one of Honor, Ignore",
        ),
        case(
            "maxSkew: 1, topologyKey: z, whenUnsatisfiable: DoNotSchedule, matchLabelKeys: [k]",
            "matchLabelKeys[0]: needs a labelSelector beside it",
        ),
    ]);
}

#[test]
fn affinity() {
    let required = "requiredDuringSchedulingIgnoredDuringExecution";
    let pods = |term: &str, expected: &str| {
        let text = pod_with(&format!("affinity: {{podAffinity: {{{required}: [{term}]}}}}"), "");
        (text, format!("pod default/a: spec.affinity.podAffinity.{required}[0].{expected}"))
    };
    let nodes = |terms: &str, expected: &str| {
        let text = pod_with(
            &format!(
                "affinity: {{nodeAffinity: {{{required}: {{nodeSelectorTerms: [{terms}]}}}}}}"
            ),
            "",
        );
        let field = format!("spec.affinity.nodeAffinity.{required}.nodeSelectorTerms");
        (text, format!("pod default/a: {field}{expected}"))
    };
    refused(&[
        pods("{topologyKey: '', labelSelector: {}}", "topologyKey: is required"),
        pods(
            "{topologyKey: z, labelSelector: {matchExpressions: [{key: k, operator: In}]}}",
            "labelSelector.matchExpressions[0].values: operator In does not take 0 values",
        ),
        pods(
            "{topologyKey: z, labelSelector: {matchExpressions: [{key: k, operator: Gt, values: \
             ['1']}]}}",
            "labelSelector.matchExpressions[0].operator: operator \"Gt\" is not allowed here",
        ),
        pods(
            "{topologyKey: z, labelSelector: {matchLabels: {k: 'a b'}}}",
            "labelSelector.matchLabels[k]: \"a b\" is not a label value",
        ),
        pods("{topologyKey: z, namespaces: [A]}", "namespaces[0]: \"A\" is not a DNS-1123 label"),
        pods(
            "{topologyKey: z, labelSelector: {matchLabels: {k: v}}, matchLabelKeys: [k]}",
            "matchLabelKeys[0]: \"k\" is in the labelSelector too",
        ),
        nodes("", ": is required"),
        nodes(
            "{matchFields: [{key: spec.x, operator: In, values: [a]}]}",
            "[0].matchFields[0].key: \"spec.x\" is not a field of nodes",
        ),
        nodes(
            "{matchFields: [{key: metadata.name, operator: In, values: [a, b]}]}",
            "[0].matchFields[0].values: must be exactly one value",
        ),
        nodes(
            "{matchExpressions: [{key: k, operator: Near}]}",
            "[0].matchExpressions[0].operator: operator \"Near\" is not allowed here",
        ),
        nodes(
            "{matchExpressions: [{key: k, operator: Lt, values: [x]}]}",
            "[0].matchExpressions[0].values: \"x\" is not an integer",
        ),
        pair(
            pod_with(
                "affinity: {nodeAffinity: {preferredDuringSchedulingIgnoredDuringExecution: \
                 [{weight: 101, preference: {}}]}}",
                "",
            ),
            "preferredDuringSchedulingIgnoredDuringExecution[0].weight: 101 is not between 1 and",
        ),
    ]);
}

#[test]
fn names_and_references() {
    let case = |spec: &str, expected: &str| {
        (pod_with(spec, ""), format!("m.yaml: pod default/a: spec.{expected}"))
    };
    let plain = || pod_with("", "");
    refused(&[
        case("nodeSelector: {bad key: x}", "nodeSelector[bad key]: \"bad key\" is not a label key"),
        case(
            "schedulingGates: [{name: g}, {name: g}]",
            "schedulingGates[1].name: \"g\" occurs twice",
        ),
        case("priorityClassName: gold", "priorityClassName: \"gold\" does not exist"),
        case(
            "priorityClassName: system-node-critical\npriority: 3",
            "priority: 3 is not the 2000001000 of class \"system-node-critical\"",
        ),
        case("priority: much", "priority: is a string, not an integer"),
        case(
            "schedulingGroup: {podGroupName: g}",
            "schedulingGroup.podGroupName: \"g\" does not exist",
        ),
        case("workloadRef: {name: w, podGroup: g}", "workloadRef: \"w/g\" does not exist"),
        case("workloadRef: {name: w}", "workloadRef.podGroup: is required"),
        case(
            "schedulingGroup: {podGroupName: g}\nworkloadRef: {name: w, podGroup: g}",
            "workloadRef: names a group, and so does spec.schedulingGroup.podGroupName",
        ),
        pair(
            plain().replace("name: a", "name: A_b"),
            "pod default/A_b: metadata.name: \"A_b\" is not a DNS-1123 subdomain",
        ),
        pair(plain().replace("  name: a\n", "  labels: {}\n"), "metadata.name: is required"),
        pair(plain() + "---\n" + &plain(), "pod default/a: metadata.name: \"a\" occurs twice"),
        pair("apiVersion: v1\nmetadata: {name: a}\n".into(), "object a: kind: is required"),
    ]);
}

#[test]
fn nodes() {
    let node = |rest: &str| format!("apiVersion: v1\nkind: Node\nmetadata: {{name: n1}}\n{rest}\n");
    let case = |rest: &str, expected: &str| (node(rest), format!("m.yaml: node n1: {expected}"));
    refused(&[
        case(
            "spec: {taints: [{key: k, effect: Never}]}",
            "spec.taints[0].effect: \"Never\" is not",
        ),
        case(
            "spec: {taints: [{key: k, effect: NoSchedule}, {key: k, value: v, effect: NoSchedule}]}",
            "spec.taints[1]: \"k:NoSchedule\" occurs twice",
        ),
        case("status: {allocatable: {cpu: -4}}", "status.allocatable[cpu]: must not be negative"),
        case("status: {capacity: {cpu: 4x}}", "status.capacity[cpu]: \"4x\" is not a quantity"),
        case("status: {allocatable: {gpu: 4}}", "status.allocatable[gpu]: is neither a standard"),
        case("status: [1]", "status: is a list, not an object"),
        pair(node("") + "---\n" + &node(""), "node n1: metadata.name: \"n1\" occurs twice"),
    ]);
}
