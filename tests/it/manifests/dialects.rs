//! Manifests in: the examples of every dialect, what becomes of fields, and broken documents.

#[path = "../../../benches/support/dump.rs"]
mod dump;
use std::fs;
use std::time::Duration;

use super::reading::{example, examples, pod_with, read_yaml, sketch, stored, written};
use phalanx::kubernetes::{Error, Manifests, Mode, Reader, Value};
use phalanx::model::{
    DisruptionMode, Effect, LabelSelector, Operator, PodGroup, Requirement, TolerationOperator,
};
use proptest::prelude::*;

#[test]
fn every_example_reads_in_both_modes_and_says_its_gang() {
    let cluster = example("cluster.yaml");
    let four = "trainer-0 trainer-1 trainer-2 trainer-3";
    let roles = "trainer[2: trainer-ps[1: trainer-ps-0] trainer-worker[3: trainer-worker-0 \
                 trainer-worker-1 trainer-worker-2 trainer-worker-3]]";
    let workers = "workers[4: worker-0 worker-1 worker-2 worker-3]";
    let halves = "serving-root[2: serving-prefill[2: prefill-0 prefill-1] serving-decode[4: \
                  decode-0 decode-1 decode-2 decode-3]]";
    let expected = [
        ("coscheduling.yaml", vec![format!("trainer[3: {four} trainer-4]")]),
        ("koordinator.yaml", vec![workers.into(), "ps[1: ps-0]".into()]),
        ("kubernetes-1.35.yaml", vec![format!("trainer/workers[4: {four}]")]),
        ("kubernetes-1.36.yaml", vec![format!("trainer[4: {four}]")]),
        ("kubernetes-1.37-composite.yaml", vec![halves.into()]),
        ("label-pair.yaml", vec!["trainer[3: trainer-0 trainer-1 trainer-2]".into()]),
        ("volcano-job.yaml", vec![roles.into()]),
        ("volcano-podgroup.yaml", vec![roles.into()]),
    ];
    let files = examples();
    let names = files.iter().map(|path| path.file_name().unwrap().to_str().unwrap());
    let names: Vec<&str> = names.filter(|name| *name != "cluster.yaml").collect();
    assert_eq!(names, expected.each_ref().map(|(name, _)| *name));
    for (name, groups) in expected {
        for mode in [Mode::AsWritten, Mode::AsStored] {
            let text = example(name);
            let manifests = read_yaml(mode, &[("cluster.yaml", &cluster), (name, &text)]).unwrap();
            assert_eq!((manifests.nodes.len(), manifests.bound.len()), (8, 1), "{name}");
            let sketches: Vec<String> = manifests.groups.iter().map(sketch).collect();
            assert_eq!(sketches, groups, "{name} {mode:?}");
            for group in &manifests.groups {
                group.check().unwrap();
                assert_eq!(group.namespace, "team-a");
            }
        }
    }
}

#[test]
fn the_fields_of_a_dialect_arrive_in_the_group() {
    let composite = written(&example("kubernetes-1.37-composite.yaml")).unwrap();
    let inner = &composite.groups[0].groups[0];
    assert_eq!(inner.topology.require.as_deref(), Some("topology.kubernetes.io/rack"));
    assert_eq!(inner.disruption, DisruptionMode::Single);
    let coscheduling = written(&example("coscheduling.yaml")).unwrap();
    assert_eq!(coscheduling.groups[0].schedule_timeout, Some(Duration::from_secs(30)));
    assert!(!coscheduling.groups[0].keep_running);
    let koordinator = written(&example("koordinator.yaml")).unwrap();
    for group in &koordinator.groups {
        assert!(group.keep_running);
        assert_eq!(group.schedule_timeout, Some(Duration::from_secs(300)));
        assert_eq!(group.gang_group, ["team-a/ps", "team-a/workers"]);
    }
    let pair = written(&example("label-pair.yaml")).unwrap();
    assert_eq!(pair.groups[0].priority, 100);
    let job = written(&example("volcano-job.yaml")).unwrap();
    assert_eq!(job.groups[0].queue, "research");
    let worker = &job.groups[0].groups[1].pods[0];
    assert_eq!(worker.shape().requests.of("nvidia.com/gpu"), 8);
    assert_eq!(worker.group.as_deref(), Some("trainer-worker"));
}

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
fn groups_come_by_priority_and_then_in_the_order_of_the_input() {
    let pod = |metadata: &str, spec: &str, rest: &str| {
        format!(
            "\n---\n{{apiVersion: v1, kind: Pod, metadata: {{{metadata}}}, spec: {{containers: \
             [{{name: c}}], {spec}}}, {rest}}}"
        )
    };
    let volumes = "volumes: [{name: v, persistentVolumeClaim: {claimName: d}}]";
    let text = [
        &pod("name: low", "", ""),
        "\n---\n{apiVersion: scheduling.k8s.io/v1, kind: PriorityClass, metadata: {name: high}, \
         value: 9}",
        &pod("name: b, namespace: x", "priorityClassName: high", ""),
        &pod("name: a", "priority: 9, schedulingGates: [{name: wait}]", ""),
        &pod("name: done", "nodeName: n", "status: {phase: Failed}"),
        &pod("name: gone, deletionTimestamp: x", "", ""),
        &pod("name: vol", volumes, ""),
        "\n---\n{apiVersion: apps/v1, kind: Deployment, metadata: {name: d}}",
        "\n---\n{apiVersion: v1, kind: ConfigMap, metadata: {name: d}}",
    ]
    .concat();
    let manifests = written(&text).unwrap();
    let names: Vec<String> = manifests.groups.iter().map(PodGroup::full_name).collect();
    assert_eq!(names, ["x/b", "default/a", "default/low", "default/vol"]);
    assert_eq!(manifests.groups[1].pods[0].scheduling_gates, ["wait"]);
    assert!(manifests.bound.is_empty());
    let notes: Vec<String> = manifests.notes.iter().map(ToString::to_string).collect();
    let left_out = "pod default/gone: is being deleted before it ran: left out";
    let gated = "pod default/a: waits for scheduling gates: wait";
    assert_eq!(notes, [gated, left_out, "pod default/vol: volumes not modelled"]);
    let ignored: Vec<&str> = manifests.ignored.keys().map(String::as_str).collect();
    assert_eq!(ignored, ["ConfigMap", "apps/Deployment"]);
}

#[test]
fn services_and_controllers_tell_which_pods_to_spread() {
    let text = "
{apiVersion: v1, kind: Service, metadata: {name: s}, spec: {selector: {app: web}}}
---
{apiVersion: v1, kind: Service, metadata: {name: t}, spec: {selector: {app: other}}}
---
{apiVersion: apps/v1, kind: ReplicaSet, metadata: {name: r}, spec: {selector: {matchExpressions: [{key: app, operator: Exists}]}}}
---
{apiVersion: v1, kind: Pod, metadata: {name: a, labels: {app: web}, ownerReferences: [{kind: ReplicaSet, name: r, controller: true}]}, spec: {containers: [{name: c}]}}
---
{apiVersion: v1, kind: Pod, metadata: {name: b}, spec: {containers: [{name: c}]}}
";
    let manifests = written(text).unwrap();
    let mut expected = LabelSelector::label("app", "web");
    expected.match_expressions = vec![Requirement::new("app", Operator::Exists, [""; 0])];
    assert_eq!(manifests.groups[0].pods[0].shape().owner_selector, Some(expected));
    assert_eq!(manifests.groups[1].pods[0].shape().owner_selector, None);
}

#[test]
fn running_members_of_a_tree_count_towards_its_minimum() {
    let running = example("kubernetes-1.37-composite.yaml").replace(
        "spec:\n  schedulingGroup:\n    podGroupName: serving-prefill",
        "spec:\n  nodeName: gpu-1\n  schedulingGroup:\n    podGroupName: serving-prefill",
    );
    let manifests = written(&running).unwrap();
    assert_eq!(manifests.bound.len(), 2);
    assert_eq!(manifests.bound[0].group.as_deref(), Some("serving-prefill"));
    assert_eq!(
        sketch(&manifests.groups[0]),
        "serving-root[1: serving-decode[4: decode-0 decode-1 decode-2 decode-3]]"
    );
}

#[test]
fn replicas_of_a_group_of_1_35_are_gangs_of_their_own() {
    let text = "
{apiVersion: scheduling.k8s.io/v1alpha1, kind: Workload, metadata: {name: w}, spec: {podGroups: [{name: g, policy: {gang: {minCount: 1}}}]}}
---
{apiVersion: v1, kind: Pod, metadata: {name: a}, spec: {workloadRef: {name: w, podGroup: g, podGroupReplicaKey: '0'}, containers: [{name: c}]}}
---
{apiVersion: v1, kind: Pod, metadata: {name: b}, spec: {workloadRef: {name: w, podGroup: g, podGroupReplicaKey: '1'}, containers: [{name: c}]}}
";
    let manifests = written(text).unwrap();
    let sketches: Vec<String> = manifests.groups.iter().map(sketch).collect();
    assert_eq!(sketches, ["w/g/0[1: a]", "w/g/1[1: b]"]);
}

#[test]
fn volcano_ignores_role_minima_above_the_minimum_of_the_job() {
    let text = example("volcano-job.yaml").replace("  minAvailable: 4", "  minAvailable: 2");
    let flat = "trainer[2: trainer-ps-0 trainer-worker-0 trainer-worker-1 trainer-worker-2 \
                trainer-worker-3]";
    assert_eq!(sketch(&written(&text).unwrap().groups[0]), flat);
    let text = example("volcano-job.yaml").replace("minAvailable: 3", "minAvailable: 2");
    assert_eq!(written(&text).unwrap().groups[0].min_pods, Some(4));
}

#[test]
fn a_volcano_job_whose_pods_are_in_the_input_is_not_expanded() {
    let pod = "\n---\n{apiVersion: v1, kind: Pod, metadata: {name: trainer-ps-0, namespace: \
               team-a, annotations: {volcano.sh/job-name: trainer, volcano.sh/task-spec: ps, \
               scheduling.k8s.io/group-name: trainer}}, spec: {schedulerName: volcano, \
               containers: [{name: c}]}}";
    let manifests = written(&(example("volcano-job.yaml") + pod)).unwrap();
    assert_eq!(sketch(&manifests.groups[0]), "trainer[2: trainer-ps[1: trainer-ps-0]]");
    let done = example("volcano-job.yaml") + "status: {state: {phase: Completed}}\n";
    assert!(written(&done).unwrap().groups.is_empty());
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
fn lists_may_state_kind_and_items_in_any_order() {
    let node = r#"{"metadata": {"name": "n1"}}"#;
    let whole = r#"{"kind": "Node", "apiVersion": "v1", "metadata": {"name": "n1"}}"#;
    for text in [
        format!(r#"{{"kind": "NodeList", "apiVersion": "v1", "items": [{node}]}}"#),
        format!(r#"{{"items": [{node}], "kind": "NodeList", "apiVersion": "v1"}}"#),
        format!("[{whole}]"),
        format!(r#"{{"items": [{whole}], "kind": "List", "apiVersion": "v1"}}"#),
        format!(r#"{{"kind": "List", "items": [{{"kind": "List", "items": [{whole}]}}]}}"#),
    ] {
        let mut reader = Reader::new(Mode::AsWritten);
        reader.read("x", &mut serde_json::Deserializer::from_str(&text)).unwrap();
        assert_eq!(reader.finish().unwrap().nodes[0].name, "n1", "{text}");
        let mut reader = Reader::new(Mode::AsWritten);
        reader.take("x", serde_json::from_str(&text).unwrap()).unwrap();
        assert_eq!(reader.finish().unwrap().nodes[0].name, "n1", "{text}");
    }
}

#[test]
fn a_dump_of_a_cluster_loads_as_written_and_as_stored() {
    let mut text = Vec::new();
    dump::write_dump(4, 300, &mut text).unwrap();
    for mode in [Mode::AsWritten, Mode::AsStored] {
        let mut reader = Reader::new(mode);
        let mut streamed = serde_json::Deserializer::from_reader(text.as_slice());
        reader.read("dump.json", &mut streamed).unwrap();
        let manifests = reader.finish().unwrap();
        assert_eq!((manifests.nodes.len(), manifests.bound.len()), (4, 297));
        assert_eq!(manifests.groups.len(), 3);
        // Pods of one replica set share one shape.
        let shapes: Vec<_> = manifests.bound[..49].iter().map(phalanx::model::Pod::shape).collect();
        assert!(shapes.iter().all(|shape| std::sync::Arc::ptr_eq(shape, shapes[0])));
    }
}

#[test]
fn keys_that_occur_twice_are_refused_from_persons_and_the_last_counts_from_servers() {
    let text = r#"{"kind": "Node", "apiVersion": "v1", "metadata": {"name": "n1", "name": "n2"}}"#;
    let read = |mode| {
        let mut reader = Reader::new(mode);
        reader.read("x.json", &mut serde_json::Deserializer::from_str(text))?;
        reader.finish()
    };
    let refused = read(Mode::AsWritten).unwrap_err().to_string();
    assert_eq!(refused, "x.json: node n2: metadata: \"name\" occurs twice");
    assert_eq!(read(Mode::AsStored).unwrap().nodes[0].name, "n2");
}

#[test]
fn broken_documents_are_syntax_errors_and_end_the_reading() {
    let whole = r#"{"kind": "Node", "apiVersion": "v1", "metadata": {"name": "n1"}}"#;
    let deep = format!(r#"{{"spec": {}"#, r#"{"affinity":"#.repeat(200));
    let inputs: [&[u8]; 5] =
        [&whole.as_bytes()[..40], b"", b"{\"kind\": \"N\xff\"}", b"nodes", deep.as_bytes()];
    for input in inputs {
        let mut reader = Reader::new(Mode::AsWritten);
        let error =
            reader.read("x.json", &mut serde_json::Deserializer::from_slice(input)).unwrap_err();
        assert!(matches!(error, Error::Syntax { .. }), "{error}");
        assert!(error.to_string().starts_with("x.json: "), "{error}");
        let mut again = serde_json::Deserializer::from_str(whole);
        assert_eq!(reader.read("y.json", &mut again).unwrap_err(), error);
        assert_eq!(reader.finish().unwrap_err(), error);
        let mut reader = Reader::new(Mode::AsWritten);
        let mut streamed = serde_json::Deserializer::from_reader(input);
        assert!(matches!(reader.read("x.json", &mut streamed), Err(Error::Syntax { .. })));
    }
    for text in ["a: [1", "a: b: c", "\"open"] {
        assert!(serde_saphyr::from_multiple::<Value>(text).is_err(), "{text}");
    }
    for text in ["5", "true", "\"text\""] {
        let mut reader = Reader::new(Mode::AsStored);
        assert!(reader.read("x", &mut serde_json::Deserializer::from_str(text)).is_err());
        let value = serde_json::from_str(text).unwrap();
        assert!(Reader::new(Mode::AsStored).take("x", value).is_err());
    }
}

#[test]
fn nothing_is_nothing() {
    let mut reader = Reader::new(Mode::AsWritten);
    reader.read("x", &mut serde_json::Deserializer::from_str("null")).unwrap();
    assert_eq!(reader.finish().unwrap(), Manifests::default());
}

/// Replaces the `at`-th value of a document, counted depth first.
fn replace(value: &mut serde_json::Value, at: &mut usize, with: &serde_json::Value) {
    if *at == 0 {
        *value = with.clone();
    }
    *at = at.wrapping_sub(1);
    match value {
        serde_json::Value::Array(values) => values.iter_mut().for_each(|v| replace(v, at, with)),
        serde_json::Value::Object(map) => map.values_mut().for_each(|v| replace(v, at, with)),
        _ => {}
    }
}

fn odd_values() -> impl Strategy<Value = serde_json::Value> {
    prop_oneof![
        Just(serde_json::json!(null)),
        Just(serde_json::json!([])),
        Just(serde_json::json!({})),
        Just(serde_json::json!([null, 1, "x", {}])),
        any::<bool>().prop_map(Into::into),
        any::<i64>().prop_map(Into::into),
        any::<f64>().prop_map(Into::into),
        "[ -~]{0,12}".prop_map(Into::into),
        "(trainer|workers|ps|team-a|serving-root|Infinity|-1|0|9e99|1Ei)".prop_map(Into::into),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn reading_mutated_manifests_never_panics(
        file in 0..9_usize,
        changes in prop::collection::vec((0..400_usize, odd_values()), 1..6),
        stored in any::<bool>(),
    ) {
        let text = fs::read_to_string(&examples()[file]).unwrap();
        let mut documents: Vec<serde_json::Value> = serde_saphyr::from_multiple(&text).unwrap();
        for (at, with) in changes {
            let mut at = at;
            for document in &mut documents {
                replace(document, &mut at, &with);
            }
        }
        let mode = if stored { Mode::AsStored } else { Mode::AsWritten };
        let mut reader = Reader::new(mode);
        for document in documents {
            let text = document.to_string();
            let _ = reader.read("x", &mut serde_json::Deserializer::from_str(&text));
        }
        if let Ok(manifests) = reader.finish() {
            for group in &manifests.groups {
                prop_assert!(group.check().is_ok());
            }
            for node in &manifests.nodes {
                prop_assert!(node.check().is_ok());
            }
        }
    }

    #[test]
    fn reading_mutilated_text_never_panics(
        file in 0..9_usize,
        cut in 0..200_usize,
        bytes in prop::collection::vec((0..4_000_usize, any::<u8>()), 0..6),
    ) {
        let text = fs::read_to_string(&examples()[file]).unwrap();
        let documents: Vec<serde_json::Value> = serde_saphyr::from_multiple(&text).unwrap();
        let mut text = serde_json::to_vec(&documents).unwrap();
        for (at, byte) in bytes {
            let length = text.len();
            text[at % length] = byte;
        }
        text.truncate(text.len().saturating_sub(cut));
        let mut reader = Reader::new(Mode::AsWritten);
        let _ = reader.read("x", &mut serde_json::Deserializer::from_slice(&text));
        let _ = reader.finish();
    }
}
