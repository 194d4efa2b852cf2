//! Pods and nodes as a person wrote them, and as a server stored them.

use phalanx::model::{Effect, LabelSelector, Operator, Requirement, TolerationOperator};

use super::reading::{pod_with, sketch, stored, written};

#[test]
fn a_pod_written_by_a_person_is_defaulted_and_merged() {
    let text = "apiVersion: v1
kind: Pod
metadata:
  name: a
  labels: {app: web, rev: '7'}
spec:
  hostNetwork: true
  containers:
    - name: c
      image: web:2
      ports: [{containerPort: 80}]
      resources:
        limits: {cpu: 2, memory: 1Gi}
        requests: {cpu: 0.5}
  initContainers:
    - name: side
      restartPolicy: Always
      resources: {requests: {cpu: 250m}}
  tolerations: [{key: k, value: v}]
  affinity:
    podAntiAffinity:
      requiredDuringSchedulingIgnoredDuringExecution:
        - topologyKey: zone
          labelSelector: {matchLabels: {app: web}}
          matchLabelKeys: [rev, absent]
        - topologyKey: zone
          labelSelector: {matchLabels: {app: web}}
          mismatchLabelKeys: [rev]
";
    let manifests = written(text).unwrap();
    let shape = manifests.groups[0].pods[0].shape();
    assert_eq!(shape.requests.of("cpu"), 750);
    assert_eq!(shape.requests.of("memory"), 1 << 30);
    let port = &shape.ports[0];
    assert_eq!((port.ip.as_str(), port.protocol.as_str(), port.port), ("0.0.0.0", "TCP", 80));
    assert_eq!(shape.images, ["", "web:2"]);
    assert_eq!(shape.containers, 2);
    assert_eq!(shape.tolerations[0].operator, TolerationOperator::Equal);
    let selector = |term: usize| shape.pod_anti_affinity[term].label_selector.clone().unwrap();
    let mut expected = LabelSelector::label("app", "web");
    expected.match_expressions = vec![Requirement::new("rev", Operator::In, ["7"])];
    assert_eq!(selector(0), expected);
    expected.match_expressions = vec![Requirement::new("rev", Operator::NotIn, ["7"])];
    assert_eq!(selector(1), expected);

    let manifests = stored(text).unwrap();
    let shape = manifests.groups[0].pods[0].shape();
    assert_eq!((shape.requests.of("cpu"), shape.requests.of("memory")), (750, 0));
    assert!(shape.ports.is_empty());
    assert_eq!(shape.pod_anti_affinity[0].label_selector, Some(LabelSelector::label("app", "web")));
}

#[test]
fn requests_of_the_pod_as_a_whole_are_defaulted_from_containers_and_limits() {
    let text = pod_with(
        "resources: {limits: {cpu: 4, memory: 8Gi}}\noverhead: {cpu: 100m}",
        "resources: {requests: {cpu: 1500m}}",
    );
    let manifests = written(&text).unwrap();
    let shape = manifests.groups[0].pods[0].shape();
    assert_eq!((shape.requests.of("cpu"), shape.requests.of("memory")), (1_600, 8 << 30));
    let manifests = stored(&text).unwrap();
    let shape = manifests.groups[0].pods[0].shape();
    assert_eq!((shape.requests.of("cpu"), shape.requests.of("memory")), (1_600, 0));
}

#[test]
fn what_is_stored_means_what_the_scheduler_makes_of_it() {
    let spec = "tolerations: [{key: k, operator: Gt, value: '1', effect: Never}]
affinity:
  nodeAffinity:
    requiredDuringSchedulingIgnoredDuringExecution:
      nodeSelectorTerms: [{matchExpressions: [{key: k, operator: Near, values: [x]}]}]
topologySpreadConstraints:
  - {maxSkew: 0, topologyKey: z, whenUnsatisfiable: Sometimes}
  - {maxSkew: 1, topologyKey: z, whenUnsatisfiable: DoNotSchedule, nodeTaintsPolicy: Odd}";
    let text = pod_with(spec, "resources: {requests: {gpu: 1, pods: 3, memory: 1500m}}");
    let manifests = stored(&text).unwrap();
    let shape = manifests.groups[0].pods[0].shape();
    assert_eq!(shape.tolerations[0].operator, TolerationOperator::Unknown("Gt".into()));
    assert_eq!(shape.tolerations[0].effect, Some(Effect::Unknown("Never".into())));
    let required = shape.node_affinity.as_ref().unwrap().required.as_ref().unwrap();
    let operator = &required.terms[0].match_expressions[0].operator;
    assert_eq!(*operator, Operator::Unknown("Near".into()));
    assert_eq!(shape.spread.len(), 1);
    assert_eq!(shape.spread[0].label_selector, None);
    assert!(!shape.requests.lists("gpu") && !shape.requests.lists("pods"));
    assert_eq!(shape.requests.of("memory"), 2);
    let error = stored(&pod_with("", "resources: {requests: {cpu: 10P}}")).unwrap_err();
    assert_eq!(
        error.to_string(),
        "m.yaml: pod default/a: spec.containers[0].resources.requests[cpu]: does not fit 64 bits"
    );
}

#[test]
fn nodes_without_a_count_of_pods_take_none() {
    let text = "apiVersion: v1
kind: Node
metadata: {name: n1}
spec:
  unschedulable: true
  taints: [{key: k, effect: NoSchedule}]
status:
  capacity: {cpu: '4', memory: 8Gi}
  images: [{names: ['a:1', 'a@sha'], sizeBytes: 7}]
";
    for (manifests, cpu) in [(written(text).unwrap(), 4_000), (stored(text).unwrap(), 0)] {
        let node = &manifests.nodes[0];
        assert!(node.allocatable.lists("pods"));
        assert_eq!((node.allocatable.of("pods"), node.allocatable.of("cpu")), (0, cpu));
        assert_eq!(node.capacity.of("cpu"), 4_000);
        assert!(node.unschedulable && node.taints[0].repels());
        assert_eq!(node.images[0].names, ["a:1", "a@sha"]);
    }
}

#[test]
fn a_resized_pod_takes_the_most_of_what_it_has_and_asks_for() {
    let pod = |reason: &str| {
        format!(
            "apiVersion: v1
kind: Pod
metadata: {{name: a, deletionTimestamp: '2026-01-01T00:00:00Z'}}
spec:
  nodeName: n1
  containers: [{{name: c, resources: {{requests: {{cpu: 3, memory: 1Gi}}}}}}]
status:
  phase: Running
  conditions: [{{type: PodResizePending, reason: {reason}}}]
  containerStatuses:
    - name: c
      allocatedResources: {{cpu: 2}}
      resources: {{requests: {{cpu: 1, memory: 2Gi}}}}
"
        )
    };
    for (reason, cpu) in [("Deferred", 3_000), ("Infeasible", 2_000)] {
        let manifests = stored(&pod(reason)).unwrap();
        let pod = &manifests.bound[0];
        assert!(pod.deleting);
        assert_eq!(pod.shape().requests.of("cpu"), cpu, "{reason}");
        assert_eq!(pod.shape().requests.of("memory"), 2 << 30);
    }
}

#[test]
fn a_stored_group_that_the_scheduler_would_park_is_gated_with_its_reason() {
    let text = pod_with("schedulingGroup: {podGroupName: g}", "");
    let lost = stored(&text).unwrap();
    assert_eq!(sketch(&lost.groups[0]), "g[any: a]");
    let reason = "the group \"g\" does not exist";
    assert_eq!(lost.groups[0].pods[0].scheduling_gates, [reason]);
    assert_eq!(lost.notes[0].to_string(), format!("pod group default/g: {reason}"));
}

#[test]
fn a_pod_runs_since_its_status_says_so() {
    let pod = |status: &str| {
        format!(
            "{{apiVersion: v1, kind: Pod, metadata: {{name: a}}, status: {status}, \
             spec: {{nodeName: n1, containers: [{{name: c}}]}}}}"
        )
    };
    let start = |status: &str| stored(&pod(status)).map(|manifests| manifests.bound[0].start);
    let since = Some(phalanx::Time::from_secs(1_767_225_600));
    assert_eq!(start("{phase: Running, startTime: '2026-01-01T00:00:00Z'}").unwrap(), since);
    for unknown in ["{phase: Pending}", "{startTime: null}", "{}", "null"] {
        assert_eq!(start(unknown).unwrap(), None, "{unknown}");
    }
    let error = start("{startTime: yesterday}").unwrap_err().to_string();
    assert!(error.contains("status.startTime"), "{error}");
    let list = format!(
        "{{apiVersion: v1, kind: List, items: [{}]}}",
        pod("{startTime: '2026-01-01T00:00:00Z'}")
    );
    assert_eq!(stored(&list).unwrap().bound[0].start, since);
}
