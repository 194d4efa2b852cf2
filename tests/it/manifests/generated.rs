//! Every field that bears on placement, in every kind that has pods: the account names it, and it is
//! never ignored. A field that nobody knows is named wherever it stands.

use phalanx::kubernetes::{Mode, Reading, Value};
use serde_json::{Value as Json, json};

/// Kinds that have templates of pods: version, kind, the object's fields with `"@"` for a template.
fn kinds() -> Vec<(&'static str, &'static str, Json)> {
    let replicas = json!({"Worker": {"replicas": 2, "template": "@"}});
    let jobs = json!([{"name": "j", "replicas": 2, "template": {"spec": {"parallelism": 2,
        "completions": 2, "template": "@"}}}]);
    let cluster = json!({
        "headGroupSpec": {"template": "@"},
        "workerGroupSpecs": [{"groupName": "g", "replicas": 2, "minReplicas": 1, "maxReplicas": 3,
            "numOfHosts": 2, "template": "@"}],
    });
    let runtime =
        json!({"mlPolicy": {"numNodes": 2}, "template": {"spec": {"replicatedJobs": jobs}}});
    let spec = |spec: Json| json!({ "spec": spec });
    let of_template = || spec(json!({"replicas": 2, "selector": {}, "template": "@"}));
    let job = || json!({"parallelism": 2, "completions": 2, "template": "@"});
    let tasks = || json!([{"name": "t", "replicas": 2, "minAvailable": 1, "template": "@"}]);
    let volcano = || json!({"minAvailable": 1, "tasks": tasks()});
    vec![
        ("v1", "PodTemplate", json!({"template": "@"})),
        ("v1", "ReplicationController", of_template()),
        ("apps/v1", "Deployment", of_template()),
        ("apps/v1", "DaemonSet", of_template()),
        ("apps/v1", "ReplicaSet", of_template()),
        ("apps/v1", "StatefulSet", of_template()),
        ("batch/v1", "Job", spec(job())),
        ("batch/v1", "CronJob", spec(json!({"jobTemplate": {"spec": job()}}))),
        ("jobset.x-k8s.io/v1alpha2", "JobSet", spec(json!({"replicatedJobs": jobs}))),
        (
            "leaderworkerset.x-k8s.io/v1",
            "LeaderWorkerSet",
            spec(json!({"replicas": 2, "leaderWorkerTemplate": {"size": 2, "leaderTemplate": "@",
                "workerTemplate": "@"}})),
        ),
        ("kubeflow.org/v1", "TFJob", spec(json!({"tfReplicaSpecs": replicas}))),
        ("kubeflow.org/v1", "PyTorchJob", spec(json!({"pytorchReplicaSpecs": replicas}))),
        ("kubeflow.org/v1", "XGBoostJob", spec(json!({"xgbReplicaSpecs": replicas}))),
        ("kubeflow.org/v1", "PaddleJob", spec(json!({"paddleReplicaSpecs": replicas}))),
        ("kubeflow.org/v1", "JAXJob", spec(json!({"jaxReplicaSpecs": replicas}))),
        ("kubeflow.org/v2beta1", "MPIJob", spec(json!({"mpiReplicaSpecs": replicas}))),
        ("kubeflow.org/v1alpha1", "MPIJob", spec(json!({"gpus": 4, "template": "@"}))),
        ("trainer.kubeflow.org/v1alpha1", "TrainingRuntime", spec(runtime.clone())),
        ("trainer.kubeflow.org/v1alpha1", "ClusterTrainingRuntime", spec(runtime)),
        ("ray.io/v1", "RayCluster", spec(cluster.clone())),
        (
            "ray.io/v1",
            "RayJob",
            spec(json!({"rayClusterSpec": cluster, "submitterPodTemplate": "@"})),
        ),
        ("ray.io/v1", "RayService", spec(json!({ "rayClusterConfig": cluster }))),
        ("ray.io/v1", "RayCronJob", spec(json!({"jobTemplate": {"rayClusterSpec": cluster}}))),
        ("batch.volcano.sh/v1alpha1", "Job", spec(volcano())),
        ("batch.volcano.sh/v1alpha1", "CronJob", spec(json!({"jobTemplate": {"spec": volcano()}}))),
        ("flow.volcano.sh/v1alpha1", "JobTemplate", spec(volcano())),
        (
            "training.volcano.sh/v1alpha1",
            "HyperJob",
            spec(json!({"replicatedJobs": [{"replicas": 2, "templateSpec": volcano()}]})),
        ),
        (
            "sparkoperator.k8s.io/v1beta2",
            "SparkApplication",
            spec(json!({"driver": {"template": "@"}, "executor": {"instances": 2}})),
        ),
        (
            "kueue.x-k8s.io/v1beta2",
            "Workload",
            spec(json!({"podSets": [{"name": "m", "count": 2, "template": "@"}]})),
        ),
        ("scheduling.koordinator.sh/v1alpha1", "Reservation", spec(json!({"template": "@"}))),
        (
            "grove.io/v1alpha1",
            "PodCliqueSet",
            spec(json!({"template": {"cliques": [{"spec": {"podSpec": "@"}}]}})),
        ),
        ("workload.codeflare.dev/v1beta2", "AppWrapper", spec(json!({"components": ["@"]}))),
    ]
}

/// A template of pods with every field by which pods are placed.
fn template() -> Json {
    serde_saphyr::from_str(include_str!("bearing.yaml")).unwrap()
}

/// Fields that are one requirement each: lists and objects that mean something as a whole.
const WHOLE: [&str; 12] = [
    "tolerations",
    "topologySpreadConstraints",
    "resourceClaims",
    "claims",
    "ports",
    "schedulingGroup",
    "workloadRef",
    "requiredDuringSchedulingIgnoredDuringExecution",
    "preferredDuringSchedulingIgnoredDuringExecution",
    "persistentVolumeClaim",
    "iscsi",
    "rbd",
];

/// Fields that only tell one entry of a list from another, or bear on no place.
const NAMES: [&str; 1] = ["name"];

fn escaped(name: &str) -> String {
    name.replace('~', "~0").replace('/', "~1")
}

/// The paths of everything that is one requirement inside a value.
fn requirements(value: &Json, path: &str, into: &mut Vec<String>) {
    let own = path.rsplit('/').next().unwrap_or_default();
    match value {
        _ if WHOLE.contains(&own) => into.push(path.to_owned()),
        Json::Object(entries) => {
            for (name, value) in entries {
                requirements(value, &format!("{path}/{}", escaped(name)), into);
            }
        }
        Json::Array(values) => {
            for (at, value) in values.iter().enumerate() {
                requirements(value, &format!("{path}/{at}"), into);
            }
        }
        _ if NAMES.contains(&own) && !path.ends_with("/os/name") => {}
        _ => into.push(path.to_owned()),
    }
}

/// The object with a template wherever one belongs, and where it was put.
fn filled(object: &Json, path: &str, template: &Json, at: &mut Vec<String>) -> Json {
    match object {
        Json::String(text) if text == "@" => {
            at.push(path.to_owned());
            template.clone()
        }
        Json::Object(entries) => {
            let entries = entries.iter().map(|(name, value)| {
                let path = format!("{path}/{}", escaped(name));
                (name.clone(), filled(value, &path, template, at))
            });
            entries.collect()
        }
        Json::Array(values) => {
            let values = values.iter().enumerate();
            values
                .map(|(index, value)| filled(value, &format!("{path}/{index}"), template, at))
                .collect()
        }
        other => other.clone(),
    }
}

fn objects() -> Vec<(Json, Vec<String>)> {
    let mut objects = Vec::new();
    for (version, kind, fields) in kinds() {
        let mut at = Vec::new();
        let mut object = filled(&fields, "", &template(), &mut at);
        object["apiVersion"] = version.into();
        object["kind"] = kind.into();
        object["metadata"] = json!({"name": "w"});
        objects.push((object, at));
    }
    let mut pod = template();
    pod["apiVersion"] = "v1".into();
    pod["kind"] = "Pod".into();
    pod["metadata"]["name"] = "w".into();
    objects.push((pod, vec![String::new()]));
    objects
}

fn reading(object: &Json, mode: Mode) -> Reading {
    let value: Value = serde_json::from_value(object.clone()).unwrap();
    Reading::of(&value, mode)
}

fn covers(named: &str, path: &str) -> bool {
    path == named || path.strip_prefix(named).is_some_and(|rest| rest.starts_with('/'))
}

/// Whether one of the names covers a path, or names something below it.
fn is_covered<'a>(names: impl IntoIterator<Item = &'a String>, path: &str) -> bool {
    names.into_iter().any(|named| covers(named, path) || covers(path, named))
}

#[test]
fn every_field_that_bears_is_named_in_every_kind_that_has_pods() {
    let mut paths = Vec::new();
    requirements(&template(), "", &mut paths);
    assert!(paths.len() > 90, "{}", paths.len());
    let mut missing = Vec::new();
    for (object, templates) in objects() {
        let reading = reading(&object, Mode::AsWritten);
        let refused: Vec<String> =
            reading.refused.iter().map(|remark| remark.path.clone()).collect();
        for path in &paths {
            for template in &templates {
                let path = format!("{template}{path}");
                if !is_covered(reading.honoured.iter().chain(&refused), &path) {
                    missing.push(format!("{} {path}", reading.kind));
                }
            }
        }
    }
    assert!(missing.is_empty(), "{missing:#?}");
}

#[test]
fn kinds_without_a_reader_are_refused_by_name_and_not_dropped() {
    for (object, _) in objects() {
        let reading = reading(&object, Mode::AsStored);
        let named = reading.honoured.len() + reading.refused.len();
        assert!(named > 0, "{}", reading.kind);
    }
    let odd = json!({"apiVersion": "odd.example.com/v3", "kind": "Odd", "spec": {"a": 1}, "more": 2,
        "metadata": {"name": "o", "annotations": {"volcano.sh/queue-name": "q"}}});
    let reading = reading(&odd, Mode::AsWritten);
    let mut refused: Vec<&str> =
        reading.refused.iter().map(|remark| remark.path.as_str()).collect();
    refused.sort_unstable();
    assert_eq!(refused, ["/metadata/annotations", "/more", "/spec"]);
}

/// Maps whose names are their writer's own.
const FREE: [&str; 7] =
    ["labels", "annotations", "nodeSelector", "matchLabels", "requests", "limits", "overhead"];

/// The paths of all objects inside a value whose fields are the type's.
fn inner_objects(value: &Json, path: &str, into: &mut Vec<String>) {
    match value {
        Json::Object(entries) => {
            if !FREE.contains(&path.rsplit('/').next().unwrap_or_default()) {
                into.push(path.to_owned());
            }
            for (name, value) in entries {
                inner_objects(value, &format!("{path}/{}", escaped(name)), into);
            }
        }
        Json::Array(values) => {
            for (at, value) in values.iter().enumerate() {
                inner_objects(value, &format!("{path}/{at}"), into);
            }
        }
        _ => {}
    }
}

#[test]
fn a_field_that_nobody_knows_is_named_wherever_it_stands() {
    let mut missing = Vec::new();
    for (object, _) in objects() {
        let mut places = Vec::new();
        inner_objects(&object, "", &mut places);
        for place in places {
            let mut changed = object.clone();
            let field = "fieldOfTomorrow";
            let inside = changed.pointer_mut(&place).unwrap();
            // The names of replicas are free, what stands for one is not.
            let value = if place.ends_with("ReplicaSpecs") { json!({"size": 2}) } else { json!(2) };
            inside[field] = value;
            let reading = reading(&changed, Mode::AsStored);
            let path = format!("{place}/{field}");
            let refused = reading.refused.iter().map(|remark| &remark.path);
            if !is_covered(reading.honoured.iter().chain(refused), &path) {
                missing.push(format!("{} {path}", reading.kind));
            }
        }
    }
    assert!(missing.is_empty(), "{missing:#?}");
}
