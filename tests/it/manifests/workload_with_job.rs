//! Kubernetes 1.36's own rule by which a job is a gang.

use phalanx::kubernetes::{JobStep, Mode, OrdinaryReason, Value, workload_with_job};
use serde_json::json;

use super::reading::sketch;
use super::workloads::{read, template};

const UID: &str = "0d3a2f6e-5c1b-4b0e-9a39-1f2d3c4b5a69";
/// By a program of its own: `train-`, and the hash of `(types.UID)` and the uid.
const WORKLOAD: &str = "train-54774687d";
/// So: the name of the workload, that of its template, and the hash of both.
const POD_GROUP: &str = "train-54774687d-train-pgt-0-85df68d645";

fn job(changes: &serde_json::Value) -> serde_json::Value {
    let mut job = json!({"apiVersion": "batch/v1", "kind": "Job",
        "metadata": {"name": "train", "namespace": "ml", "uid": UID},
        "spec": {"completionMode": "Indexed", "parallelism": 4, "completions": 4,
            "template": template()}});
    for (path, value) in changes.as_object().unwrap() {
        let (parent, name) = path.rsplit_once('/').unwrap();
        job.pointer_mut(parent).unwrap()[name] = value.clone();
    }
    job
}

fn value(json: &serde_json::Value) -> Value {
    serde_json::from_value(json.clone()).unwrap()
}

fn step(
    job: &serde_json::Value,
    workloads: &[serde_json::Value],
    groups: &[serde_json::Value],
    pods: usize,
) -> JobStep {
    let all = |objects: &[serde_json::Value]| objects.iter().map(value).collect::<Vec<_>>();
    workload_with_job(&value(job), &all(workloads), &all(groups), pods).unwrap()
}

fn workload(name: &str, controller: &str) -> serde_json::Value {
    json!({"apiVersion": "scheduling.k8s.io/v1alpha2", "kind": "Workload",
        "metadata": {"name": name, "namespace": "ml", "uid": "w1", "ownerReferences": [{
            "apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": controller,
            "controller": true, "blockOwnerDeletion": true}]},
        "spec": {"controllerRef": {"apiGroup": "batch", "kind": "Job", "name": "train"},
            "podGroupTemplates": [{"name": "train-pgt-0",
                "schedulingPolicy": {"gang": {"minCount": 4}}}]}})
}

fn group(name: &str, workload: &str, controller: &str) -> serde_json::Value {
    json!({"apiVersion": "scheduling.k8s.io/v1alpha2", "kind": "PodGroup",
        "metadata": {"name": name, "namespace": "ml", "ownerReferences": [
            {"apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": controller,
                "controller": true, "blockOwnerDeletion": true},
            {"apiVersion": "scheduling.k8s.io/v1alpha2", "kind": "Workload", "name": workload,
                "uid": "w1"}]},
        "spec": {"podGroupTemplateRef": {"workload": {
                "workloadName": workload, "podGroupTemplateName": "train-pgt-0"}},
            "schedulingPolicy": {"gang": {"minCount": 4}}}})
}

#[test]
fn only_indexed_jobs_whose_pods_all_run_at_once_are_candidates() {
    for changes in [
        json!({"/spec/parallelism": 1, "/spec/completions": 1}),
        json!({"/spec/parallelism": null, "/spec/completions": 1}),
        json!({"/spec/completionMode": "NonIndexed"}),
        json!({"/spec/completionMode": null}),
        json!({"/spec/completions": 5}),
        json!({"/spec/completions": 3}),
        json!({"/spec/completions": null}),
        json!({"/spec/template/spec/schedulingGroup": {"podGroupName": "g"}}),
    ] {
        let reason = JobStep::Ordinary(OrdinaryReason::NoCandidate);
        assert_eq!(step(&job(&changes), &[], &[], 0), reason, "{changes}");
    }
    for changes in [
        json!({}),
        json!({"/spec/suspend": true}),
        json!({"/spec/managedBy": "example.com/other"}),
        json!({"/spec/template/spec/priorityClassName": "high"}),
        json!({"/spec/template/spec/schedulingGroup": null}),
        json!({"/spec/parallelism": 2, "/spec/completions": 2}),
    ] {
        let step = step(&job(&changes), &[], &[], 0);
        assert!(matches!(step, JobStep::CreateWorkload(_)), "{changes}");
    }
}

#[test]
fn a_workload_is_made_only_for_a_new_job() {
    let not_new = JobStep::Ordinary(OrdinaryReason::NotNew);
    assert_eq!(step(&job(&json!({})), &[], &[], 1), not_new);
    for status in [
        json!({"startTime": "2026-11-22T00:00:00Z"}),
        json!({"succeeded": 1}),
        json!({"failed": 1}),
        json!({"conditions": [{"type": "Suspended", "status": "False"}]}),
    ] {
        assert_eq!(step(&job(&json!({"/status": status})), &[], &[], 0), not_new, "{status}");
    }
    let other = json!({"active": 0, "conditions": [{"type": "Complete", "status": "False"}]});
    let step = step(&job(&json!({"/status": other})), &[], &[], 0);
    assert!(matches!(step, JobStep::CreateWorkload(_)));
}

#[test]
fn objects_are_made_as_the_controller_makes_them() {
    let mut expected = workload(WORKLOAD, UID);
    expected["metadata"].as_object_mut().unwrap().remove("uid");
    let created = step(&job(&json!({})), &[], &[], 0);
    assert!(matches!(&created, JobStep::CreateWorkload(made) if same(made, &value(&expected))));
    let exists = [workload(WORKLOAD, UID)];
    // A group is made even for a job that is not new.
    let created = step(&job(&json!({"/status": {"failed": 1}})), &exists, &[], 3);
    let expected = value(&group(POD_GROUP, WORKLOAD, UID));
    assert!(matches!(&created, JobStep::CreatePodGroup(made) if same(made, &expected)));
    let pods = step(&job(&json!({})), &exists, &[group("any", WORKLOAD, UID)], 0);
    assert_eq!(pods, JobStep::CreatePods { pod_group: "any".into() });
    // The policy of the template is copied, whatever it is; nothing else of it is.
    let mut basic = workload(WORKLOAD, UID);
    basic["spec"]["podGroupTemplates"][0] = json!({"name": "train-pgt-0",
        "schedulingPolicy": {"basic": {}}, "priorityClassName": "high"});
    let mut expected = group(POD_GROUP, WORKLOAD, UID);
    expected["spec"]["schedulingPolicy"] = json!({"basic": {}});
    let created = step(&job(&json!({})), &[basic], &[], 0);
    assert!(matches!(&created, JobStep::CreatePodGroup(made) if same(made, &value(&expected))));
}

/// Whether two values are the same but for the order of keys.
fn same(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Map(one), Value::Map(others)) => {
            one.len() == others.len()
                && one
                    .iter()
                    .all(|(key, value)| other.entry(key).is_some_and(|found| same(value, found)))
        }
        (Value::List(one), Value::List(other)) => {
            one.len() == other.len() && one.iter().zip(other).all(|(one, other)| same(one, other))
        }
        _ => one == other,
    }
}

#[test]
fn what_refers_to_the_job_and_is_of_others_or_of_another_shape_is_left_alone() {
    use OrdinaryReason::{Ambiguous, Foreign, OtherShape};
    let own = || workload(WORKLOAD, UID);
    let mut two = own();
    two["spec"]["podGroupTemplates"] = json!([{"name": "a"}, {"name": "b"}]);
    let of = |workloads: &[serde_json::Value], groups: &[serde_json::Value]| {
        step(&job(&json!({})), workloads, groups, 0)
    };
    assert_eq!(of(&[workload("w", "other")], &[]), JobStep::Ordinary(Foreign));
    assert_eq!(of(&[own(), workload("w", UID)], &[]), JobStep::Ordinary(Ambiguous));
    assert_eq!(of(&[two], &[]), JobStep::Ordinary(OtherShape));
    let foreign = group("g", WORKLOAD, "other");
    assert_eq!(of(&[own()], std::slice::from_ref(&foreign)), JobStep::Ordinary(Foreign));
    let both = [foreign, group("h", WORKLOAD, UID)];
    assert_eq!(of(&[own()], &both), JobStep::Ordinary(Ambiguous));
    // References to others, and objects of other namespaces, do not count.
    for (path, changed) in [
        ("/spec/controllerRef/apiGroup", "batch.volcano.sh"),
        ("/spec/controllerRef/kind", "JobSet"),
        ("/spec/controllerRef/name", "other"),
        ("/metadata/namespace", "other"),
    ] {
        let mut elsewhere = own();
        *elsewhere.pointer_mut(path).unwrap() = changed.into();
        assert!(matches!(of(&[elsewhere], &[]), JobStep::CreateWorkload(_)), "{path}");
    }
    let made = of(&[own()], &[group("g", "other", UID)]);
    assert!(matches!(made, JobStep::CreatePodGroup(_)));
}

#[test]
fn the_reader_follows_the_rule() {
    let groups = |objects: &[serde_json::Value]| -> Vec<String> {
        let manifests = read(Mode::AsStored, objects).unwrap();
        manifests.groups.iter().map(sketch).collect()
    };
    let pods = "train-0 train-1 train-2 train-3";
    assert_eq!(groups(&[job(&json!({}))]), [format!("{POD_GROUP}[4: {pods}]")]);
    assert_eq!(
        groups(&[job(&json!({})), workload(WORKLOAD, UID)]),
        [format!("{POD_GROUP}[4: {pods}]")]
    );
    let objects = [group("g", "w", UID), job(&json!({})), workload("w", UID)];
    assert_eq!(groups(&objects), [format!("g[4: {pods}]")]);
    let foreign = read(Mode::AsStored, &[job(&json!({})), workload("w", "other")]).unwrap();
    assert_eq!(sketch(&foreign.groups[0]), format!("train[any: {pods}]"));
    let note = "its pods are scheduled one by one: the workload or pod group that refers to it is \
                not controlled by it";
    assert_eq!(foreign.notes[0].text, note);
    // A job that was suspended once is not new.
    let status = json!({"conditions": [{"type": "Suspended", "status": "False"}]});
    assert_eq!(groups(&[job(&json!({"/status": status}))]), [format!("train[any: {pods}]")]);
}
