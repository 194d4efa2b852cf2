//! Manifests in: the examples of every dialect, and what becomes of fields.

use std::time::Duration;

use phalanx::kubernetes::{Mode, Reader};
use phalanx::model::{DisruptionMode, LabelSelector, Operator, Requirement};
use phalanx::{ObjectName, PodGroup};

use super::reading::{example, examples, read_yaml, sketch, written};

#[path = "../../../benches/support/dump.rs"]
mod dump;

#[test]
fn every_example_reads_in_both_modes_and_says_its_gang() {
    let cluster = example("cluster.yaml");
    let four = "trainer-0 trainer-1 trainer-2 trainer-3";
    let roles = "trainer[2: trainer-ps[1: trainer-ps-0] trainer-worker[3: trainer-worker-0 \
                 trainer-worker-1 trainer-worker-2 trainer-worker-3]]";
    let workers = "workers[4: worker-0 worker-1 worker-2 worker-3]";
    let halves = "serving-root[2: serving-prefill[2: prefill-0 prefill-1] serving-decode[4: \
                  decode-0 decode-1 decode-2 decode-3]]";
    let ranks = format!("trainer[4: {four}]");
    let worker = |count: u32| {
        let names: Vec<String> = (0..count).map(|at| format!("trainer-worker-{at}")).collect();
        names.join(" ")
    };
    let ray = |name: &str, more: &str| {
        format!(
            "{name}[2: {name}-head[1: {name}-head-0] {name}-gpu[2: {name}-gpu-worker-0 \
             {name}-gpu-worker-1 {name}-gpu-worker-2]{more}]"
        )
    };
    let llm = |at: u32| {
        format!(
            "llm-{at}[2: llm-{at}-leader[1: llm-{at}] llm-{at}-workers[3: llm-{at}-1 llm-{at}-2 \
             llm-{at}-3]]"
        )
    };
    let job_set = "trainer[1: trainer-driver[1: trainer-driver-0-0] trainer-workers[4: \
                   trainer-workers-0-0 trainer-workers-0-1 trainer-workers-1-0 \
                   trainer-workers-1-1]]";
    let mpi = "allreduce[1: allreduce-launcher[1: allreduce-launcher-0] allreduce-worker[4: \
               allreduce-worker-0 allreduce-worker-1 allreduce-worker-2 allreduce-worker-3]]";
    let train = "finetune[4: finetune-node-0-0 finetune-node-0-1 finetune-node-0-2 \
                 finetune-node-0-3]";
    let tf = format!("trainer[6: trainer-chief-0 trainer-ps-0 trainer-ps-1 {}]", worker(4));
    let of_master = |min: u32, count: u32| {
        let workers = worker(count);
        format!("trainer[2: trainer-master[1: trainer-master-0] trainer-worker[{min}: {workers}]]")
    };
    let expected = [
        ("coscheduling.yaml", vec![format!("trainer[3: {four} trainer-4]")]),
        ("job.yaml", vec![ranks]),
        ("jobset.yaml", vec![job_set.into()]),
        ("koordinator.yaml", vec![workers.into(), "ps[1: ps-0]".into()]),
        ("kubernetes-1.35.yaml", vec![format!("trainer/workers[4: {four}]")]),
        ("kubernetes-1.36.yaml", vec![format!("trainer[4: {four}]")]),
        ("kubernetes-1.37-composite.yaml", vec![halves.into()]),
        ("label-pair.yaml", vec!["trainer[3: trainer-0 trainer-1 trainer-2]".into()]),
        ("leaderworkerset.yaml", vec![llm(0), llm(1)]),
        ("mpijob.yaml", vec![mpi.into()]),
        ("pytorchjob.yaml", vec![of_master(2, 4)]),
        ("raycluster.yaml", vec![ray("ray", "")]),
        ("rayjob.yaml", vec![ray("tune", " tune-submitter[1: tune-submitter-0]")]),
        ("statefulset.yaml", vec!["shards[3: shards-0 shards-1 shards-2]".into()]),
        ("tfjob.yaml", vec![tf]),
        ("trainjob.yaml", vec![train.into()]),
        ("volcano-job.yaml", vec![roles.into()]),
        ("volcano-podgroup.yaml", vec![roles.into()]),
        ("xgboostjob.yaml", vec![of_master(3, 3)]),
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
fn groups_come_by_priority_and_then_in_the_order_of_the_input() {
    let pod = |metadata: &str, spec: &str, rest: &str| {
        format!(
            "\n---\n{{apiVersion: v1, kind: Pod, metadata: {{{metadata}}}, spec: {{containers: \
             [{{name: c}}], {spec}}}, {rest}}}"
        )
    };
    let system = "os: {name: windows}";
    let text = [
        &pod("name: low", "", ""),
        "\n---\n{apiVersion: scheduling.k8s.io/v1, kind: PriorityClass, metadata: {name: high}, \
         value: 9}",
        &pod("name: b, namespace: x", "priorityClassName: high", ""),
        &pod("name: a", "priority: 9, schedulingGates: [{name: wait}]", ""),
        &pod("name: done", "nodeName: n", "status: {phase: Failed}"),
        &pod("name: gone, deletionTimestamp: x", "", ""),
        &pod("name: other", system, ""),
        "\n---\n{apiVersion: apps/v1, kind: ControllerRevision, metadata: {name: d}}",
        "\n---\n{apiVersion: v1, kind: ConfigMap, metadata: {name: d}}",
    ]
    .concat();
    let manifests = written(&text).unwrap();
    let names: Vec<ObjectName> = manifests.groups.iter().map(PodGroup::full_name).collect();
    assert_eq!(names, ["x/b", "default/a", "default/low", "default/other"]);
    assert_eq!(manifests.groups[1].pods[0].scheduling_gates, ["wait"]);
    assert!(manifests.bound.is_empty());
    let notes: Vec<String> = manifests.notes.iter().map(ToString::to_string).collect();
    let left_out = "pod default/gone: is being deleted before it ran: left out";
    let gated = "pod default/a: waits for scheduling gates: wait";
    assert_eq!(
        notes,
        [
            gated,
            left_out,
            "pod default/other: /spec/os/name is not in force: kubelet alone looks at it: a node \
             selector says where it runs"
        ]
    );
    let ignored: Vec<&str> = manifests.ignored.keys().map(String::as_str).collect();
    assert_eq!(ignored, ["ConfigMap", "apps/ControllerRevision"]);
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
        let shapes: Vec<_> = manifests.bound[..49].iter().map(phalanx::Pod::shape).collect();
        assert!(shapes.iter().all(|shape| std::sync::Arc::ptr_eq(shape, shapes[0])));
    }
}

#[test]
fn what_koordinator_reserves_of_a_node_is_not_given_to_pods() {
    let left = |reservation: &str| {
        let text = format!(
            "
apiVersion: v1
kind: Node
metadata: {{name: n1, annotations: {{node.koordinator.sh/reservation: '{reservation}'}}}}
status: {{allocatable: {{cpu: 16, memory: 8Gi, pods: 10}}}}
"
        );
        written(&text).map(|manifests| {
            let allocatable = manifests.nodes[0].allocatable.clone();
            (allocatable.of("cpu"), allocatable.of("memory") >> 30)
        })
    };
    for (reservation, expected) in [
        (r#"{"resources": {"cpu": "2500m", "memory": "1Gi"}}"#, (13_500, 7)),
        // The list of CPUs counts, whatever amount stands beside it; one that occurs twice is one.
        (r#"{"resources": {"cpu": "9"}, "reservedCPUs": "0-3,2-4,8"}"#, (10_000, 8)),
        (r#"{"resources": {"cpu": "9"}, "applyPolicy": "ReservedCPUsOnly"}"#, (16_000, 8)),
        (r#"{"resources": {"memory": "9Gi", "example.com/x": 1}}"#, (16_000, 0)),
        ("{}", (16_000, 8)),
    ] {
        assert_eq!(left(reservation).unwrap(), expected, "{reservation}");
    }
    for broken in ["four", "[]", r#"{"reservedCPUs": "4-1"}"#] {
        let error = left(broken).unwrap_err().to_string();
        assert!(error.contains("node.koordinator.sh/reservation"), "{error}");
    }
}

#[test]
fn scores_that_hami_writes_on_a_node_do_not_close_it() {
    let text = "
apiVersion: v1
kind: Node
metadata: {name: n1, annotations: {hami.io/node-nvidia-score: '[]', hami.io/node-handshake: x}}
status: {allocatable: {cpu: 16, pods: 10}}
";
    assert!(!written(text).unwrap().nodes[0].unschedulable);
}
