//! Manifests by their structure: kinds that name each other, read as files and heard as watch lines.

use arbitrary::Arbitrary;
use phalanx::kubernetes::watch::{Store, WatchEvent};
use phalanx::kubernetes::{Manifests, Mode, Reader};
use phalanx::queue::Settings;
use phalanx::{Cluster, Decision, Framework, Outcome, Planner, Scheduler, Time};
use serde_json::{Value, json};

use crate::dice::{Dice, play};
use crate::marred::mar;

/// Objects, and bytes that say what is altered.
#[derive(Debug, Arbitrary)]
pub struct Case {
    is_stored: bool,
    objects: Vec<Object>,
    altered: Vec<u8>,
}

#[derive(Debug, Arbitrary)]
enum Object {
    Node { at: u8, cpu: u8, gpu: u8, labels: u8, taint: bool, unschedulable: bool },
    Pod { at: u8, node: Option<u8>, group: Option<u8>, spec: Spec, gone: bool },
    PodGroup { at: u8, min: Option<u8>, level: u8, parent: Option<u8>, priority: i8 },
    Composite { at: u8, min: u8, parent: Option<u8> },
    Coscheduling { at: u8, min: u8, timeout: i8 },
    VolcanoGroup { at: u8, min: i8, queue: u8, members: [u8; 2] },
    Job { at: u8, parallelism: i8, completions: Option<i8>, suspend: bool, spec: Spec },
    JobSet { at: u8, jobs: Vec<(u8, u8, u8)>, after: bool, spec: Spec },
    LeaderWorkerSet { at: u8, replicas: i8, size: i8, subgroup: u8, spec: Spec },
    PyTorch { at: u8, master: i8, workers: i8, min: Option<i8>, elastic: bool, spec: Spec },
    Ray { at: u8, groups: Vec<(u8, u8, u8)>, hosts: u8, spec: Spec },
    VolcanoJob { at: u8, min: i8, tasks: Vec<(i8, Option<i8>)>, level: u8, spec: Spec },
    StatefulSet { at: u8, replicas: i8, spec: Spec },
    ClusterQueue { at: u8, cohort: u8, cpu: i8, lend: Option<i8>, borrow: Option<i8>, policy: u8 },
    LocalQueue { at: u8, queue: u8 },
    Cohort { at: u8, parent: u8 },
    KueueWorkload { at: u8, queue: u8, count: i8, min: Option<i8>, level: u8, spec: Spec },
    Slice { node: u8, devices: Vec<(u8, u8)>, counters: u8 },
    Class { at: u8, model: u8 },
    Claim { at: u8, class: u8, count: u8, template: bool, all: bool, same: bool },
    Budget { at: u8, min: Option<i8>, max: Option<i8>, allowed: i8 },
    Priority { at: u8, value: i32, never: bool },
    Volume { at: u8, claim: u8, node: Option<u8>, bound: bool },
    Namespace { labels: u8 },
}

#[derive(Debug, Arbitrary)]
struct Spec {
    cpu: u8,
    gpu: u8,
    queue: Option<u8>,
    bits: u8,
    claim: Option<u8>,
    volume: Option<u8>,
    priority: Option<u8>,
    gated: bool,
}

fn name(kind: &str, at: u8) -> String {
    format!("{kind}{}", at % 3)
}

fn meta(kind: &str, at: u8) -> Value {
    json!({"name": name(kind, at), "namespace": "default", "uid": format!("{kind}-{at}")})
}

const KEYS: [&str; 3] = ["topology.kubernetes.io/zone", "rack", "kubernetes.io/hostname"];

fn level(at: u8) -> Option<&'static str> {
    KEYS.get(usize::from(at % 5)).copied()
}

impl Spec {
    /// A pod's labels, annotations and specification.
    fn pod(&self) -> Value {
        let mut requests = json!({"cpu": format!("{}m", u32::from(self.cpu % 9) * 500)});
        if self.gpu % 4 > 0 {
            requests["nvidia.com/gpu"] = (self.gpu % 4).to_string().into();
        }
        let mut spec = json!({"schedulerName": "phalanx", "containers":
            [{"name": "main", "image": "app:1", "resources": {"requests": requests}}]});
        let bit = |bit: u8| self.bits & 1 << bit != 0;
        let selector = json!({"matchLabels": {"app": "a"}});
        if bit(0) {
            spec["nodeSelector"] = json!({"disk": "ssd"});
        }
        if bit(1) {
            spec["tolerations"] = json!([{"key": "t", "operator": "Exists"}]);
        }
        if bit(2) {
            spec["topologySpreadConstraints"] = json!([{"maxSkew": 1, "topologyKey": KEYS[0],
                "whenUnsatisfiable": "DoNotSchedule", "labelSelector": selector}]);
        }
        if bit(3) {
            let term = json!([{"topologyKey": KEYS[1], "labelSelector": selector}]);
            let rule = if bit(4) { "podAffinity" } else { "podAntiAffinity" };
            spec["affinity"] =
                json!({rule: {"requiredDuringSchedulingIgnoredDuringExecution": term}});
        }
        if bit(5) {
            spec["containers"][0]["ports"] = json!([{"containerPort": 80, "hostPort": 80}]);
        }
        if bit(6) {
            spec["initContainers"] = json!([{"name": "init", "restartPolicy": "Always",
                "resources": {"requests": {"cpu": "1"}}}]);
            spec["overhead"] = json!({"cpu": "100m"});
        }
        if let Some(claim) = self.claim {
            let of = if bit(7) { "resourceClaimTemplateName" } else { "resourceClaimName" };
            spec["resourceClaims"] = json!([{"name": "c", of: name("claim", claim)}]);
            spec["containers"][0]["resources"]["claims"] = json!([{"name": "c"}]);
        }
        if let Some(volume) = self.volume {
            spec["volumes"] = json!([{"name": "v",
                "persistentVolumeClaim": {"claimName": name("pvc", volume)}}]);
        }
        if let Some(priority) = self.priority {
            spec["priorityClassName"] = name("class", priority).into();
        }
        if self.gated {
            spec["schedulingGates"] = json!([{"name": "wait"}]);
        }
        json!({"metadata": {"labels": self.labels()}, "spec": spec})
    }

    fn labels(&self) -> Value {
        let mut labels = json!({"app": if self.bits & 1 == 0 { "a" } else { "b" }});
        if let Some(queue) = self.queue {
            labels["kueue.x-k8s.io/queue-name"] = name("lq", queue).into();
        }
        labels
    }
}

/// An object of a kind, with its version, its metadata and its specification.
fn object(version: &str, kind: &str, metadata: Value, spec: Value) -> Value {
    json!({"apiVersion": version, "kind": kind, "metadata": metadata, "spec": spec})
}

/// Metadata with the labels of a specification.
fn labelled(kind: &str, at: u8, spec: &Spec) -> Value {
    let mut metadata = meta(kind, at);
    metadata["labels"] = spec.labels();
    metadata
}

fn topology(at: u8) -> Value {
    level(at).map_or(Value::Null, |key| json!({"topology": [{"key": key}]}))
}

impl Object {
    fn write(&self) -> Value {
        use Object as O;
        match self {
            O::Node { at, cpu, gpu, labels, taint, unschedulable } => {
                let mut metadata = meta("n", *at);
                metadata["labels"] = json!({KEYS[2]: name("n", *at),
                    KEYS[0]: format!("z{}", labels & 1), "rack": format!("r{}", labels >> 1 & 3),
                    "disk": if labels & 8 == 0 { "ssd" } else { "hdd" }});
                let amount = json!({"cpu": (cpu % 17).to_string(), "memory": "64Gi", "pods": "8",
                    "nvidia.com/gpu": (gpu % 9).to_string()});
                let taint = taint.then(|| json!([{"key": "t", "effect": "NoSchedule"}]));
                let spec = json!({"unschedulable": unschedulable, "taints": taint});
                let mut node = object("v1", "Node", metadata, spec);
                node["status"] = json!({"allocatable": amount, "capacity": amount});
                node
            }
            O::Pod { at, node, group, spec, gone } => {
                let mut pod = spec.pod();
                pod["apiVersion"] = "v1".into();
                pod["kind"] = "Pod".into();
                pod["metadata"]["name"] = format!("p{}", at % 8).into();
                pod["metadata"]["uid"] = format!("p-{at}").into();
                if let Some(node) = node {
                    pod["spec"]["nodeName"] = name("n", *node).into();
                }
                if let Some(group) = group {
                    match group % 3 {
                        0 => {
                            pod["spec"]["schedulingGroup"] =
                                json!({"podGroupName": name("pg", *at)});
                        }
                        1 => {
                            pod["metadata"]["labels"]["scheduling.x-k8s.io/pod-group"] =
                                name("cos", *at).into();
                        }
                        _ => {
                            pod["metadata"]["annotations"] =
                                json!({"scheduling.k8s.io/group-name": name("vg", *at)});
                        }
                    }
                }
                if *gone {
                    pod["status"] = json!({"phase": "Succeeded"});
                }
                pod
            }
            O::PodGroup { at, min, level, parent, priority } => {
                let policy = match min {
                    Some(min) => json!({"gang": {"minCount": min}}),
                    None => json!({"basic": {}}),
                };
                let parent = parent.map(|parent| name("cg", parent));
                let spec = json!({"schedulingPolicy": policy, "priority": priority,
                    "schedulingConstraints": topology(*level),
                    "parentCompositePodGroupName": parent});
                object("scheduling.k8s.io/v1alpha3", "PodGroup", meta("pg", *at), spec)
            }
            O::Composite { at, min, parent } => {
                let parent = parent.map(|parent| name("cg", parent));
                let spec = json!({"schedulingPolicy": {"gang": {"minGroupCount": min}},
                    "parentCompositePodGroupName": parent});
                object("scheduling.k8s.io/v1alpha3", "CompositePodGroup", meta("cg", *at), spec)
            }
            O::Coscheduling { at, min, timeout } => {
                let spec = json!({"minMember": min, "scheduleTimeoutSeconds": timeout});
                object("scheduling.x-k8s.io/v1alpha1", "PodGroup", meta("cos", *at), spec)
            }
            O::VolcanoGroup { at, min, queue, members } => {
                let spec = json!({"minMember": min, "queue": name("q", *queue),
                    "minTaskMember": {"a": members[0], "b": members[1]}});
                object("scheduling.volcano.sh/v1beta1", "PodGroup", meta("vg", *at), spec)
            }
            O::Job { at, parallelism, completions, suspend, spec: own } => {
                let spec = json!({"parallelism": parallelism, "completions": completions,
                    "suspend": suspend, "template": own.pod()});
                object("batch/v1", "Job", labelled("job", *at, own), spec)
            }
            O::JobSet { at, jobs, after, spec: own } => {
                let mut list = Vec::new();
                for (number, (replicas, parallelism, completions)) in jobs.iter().enumerate() {
                    let mut job = json!({"name": format!("j{number}"), "replicas": replicas % 4,
                        "template": {"spec": {"parallelism": parallelism,
                            "completions": completions, "template": own.pod()}}});
                    if *after && number > 0 {
                        job["dependsOn"] = json!([{"name": "j0", "status": "Ready"}]);
                    }
                    list.push(job);
                }
                let spec = json!({"replicatedJobs": list});
                object("jobset.x-k8s.io/v1alpha2", "JobSet", labelled("set", *at, own), spec)
            }
            O::LeaderWorkerSet { at, replicas, size, subgroup, spec: own } => {
                let mut template = json!({"size": size, "leaderTemplate": own.pod(),
                    "workerTemplate": own.pod()});
                if subgroup % 4 > 0 {
                    template["subGroupPolicy"] = json!({"subGroupSize": subgroup % 4});
                }
                let spec = json!({"replicas": replicas, "leaderWorkerTemplate": template});
                object(
                    "leaderworkerset.x-k8s.io/v1",
                    "LeaderWorkerSet",
                    labelled("lws", *at, own),
                    spec,
                )
            }
            O::PyTorch { at, master, workers, min, elastic, spec: own } => {
                let replicas = json!({"Master": {"replicas": master, "template": own.pod()},
                    "Worker": {"replicas": workers, "template": own.pod()}});
                let mut spec = json!({"pytorchReplicaSpecs": replicas,
                    "runPolicy": {"schedulingPolicy": {"minAvailable": min}}});
                if *elastic {
                    spec["elasticPolicy"] = json!({"minReplicas": min, "maxReplicas": workers});
                }
                object("kubeflow.org/v1", "PyTorchJob", labelled("py", *at, own), spec)
            }
            O::Ray { at, groups, hosts, spec: own } => {
                let workers: Vec<Value> = groups
                    .iter()
                    .enumerate()
                    .map(|(number, (replicas, min, max))| {
                        json!({"groupName": format!("w{number}"), "replicas": replicas % 5,
                            "minReplicas": min % 5, "maxReplicas": max, "numOfHosts": hosts % 4,
                            "template": own.pod()})
                    })
                    .collect();
                let spec = json!({"headGroupSpec": {"template": own.pod()},
                    "workerGroupSpecs": workers});
                object("ray.io/v1", "RayCluster", labelled("ray", *at, own), spec)
            }
            O::VolcanoJob { at, min, tasks, level: at_level, spec: own } => {
                let tasks: Vec<Value> = tasks
                    .iter()
                    .enumerate()
                    .map(|(number, (replicas, min))| {
                        json!({"name": format!("t{number}"), "replicas": replicas,
                            "minAvailable": min, "template": own.pod()})
                    })
                    .collect();
                let mut spec = json!({"minAvailable": min, "tasks": tasks,
                    "schedulerName": "volcano", "queue": "q0"});
                if let Some(key) = level(*at_level) {
                    spec["networkTopology"] = json!({"mode": "hard", "highestTierName": key,
                        "highestTierAllowed": at_level});
                }
                object("batch.volcano.sh/v1alpha1", "Job", meta("vj", *at), spec)
            }
            O::StatefulSet { at, replicas, spec: own } => {
                let spec = json!({"replicas": replicas, "selector": {}, "template": own.pod()});
                object("apps/v1", "StatefulSet", labelled("sts", *at, own), spec)
            }
            O::ClusterQueue { at, cohort, cpu, lend, borrow, policy } => {
                let quota = json!({"name": "cpu", "nominalQuota": cpu, "lendingLimit": lend,
                    "borrowingLimit": borrow});
                let policies = ["Never", "LowerPriority", "Any", "LowerOrNewerEqualPriority"];
                let policy = |shift: u8| policies[usize::from(policy >> shift & 3)];
                let spec = json!({"cohort": name("co", *cohort), "namespaceSelector": {},
                    "resourceGroups": [{"coveredResources": ["cpu"],
                        "flavors": [{"name": "f", "resources": [quota]}]}],
                    "preemption": {"withinClusterQueue": policy(0), "reclaimWithinCohort": policy(2)}});
                object("kueue.x-k8s.io/v1beta2", "ClusterQueue", meta("cq", *at), spec)
            }
            O::LocalQueue { at, queue } => {
                let spec = json!({"clusterQueue": name("cq", *queue)});
                object("kueue.x-k8s.io/v1beta2", "LocalQueue", meta("lq", *at), spec)
            }
            O::Cohort { at, parent } => {
                let spec = json!({"parentName": name("co", *parent)});
                object("kueue.x-k8s.io/v1beta2", "Cohort", meta("co", *at), spec)
            }
            O::KueueWorkload { at, queue, count, min, level: at_level, spec: own } => {
                let request = level(*at_level).map(|key| json!({"required": key}));
                let set = json!({"name": "main", "count": count, "minCount": min,
                    "topologyRequest": request, "template": own.pod()});
                let spec = json!({"queueName": name("lq", *queue), "podSets": [set]});
                object("kueue.x-k8s.io/v1beta2", "Workload", meta("wl", *at), spec)
            }
            O::Slice { node, devices, counters } => {
                let node = name("n", *node);
                let counter = |amount: u8| json!({"parts": {"value": amount.to_string()}});
                let devices: Vec<Value> = devices
                    .iter()
                    .enumerate()
                    .map(|(number, (island, parts))| {
                        let mut device = json!({"name": format!("g{number}"),
                            "attributes": {"island": {"int": island % 2}},
                            "capacity": {"memory": {"value": format!("{parts}Gi")}}});
                        if counters % 3 == 1 {
                            device["consumesCounters"] =
                                json!([{"counterSet": "set", "counters": counter(parts % 4)}]);
                        }
                        device
                    })
                    .collect();
                let mut spec = json!({"driver": "gpu.example.com", "nodeName": node,
                    "pool": {"name": node, "generation": 1, "resourceSliceCount": 1},
                    "devices": devices});
                if counters % 3 == 1 {
                    spec["sharedCounters"] = json!([{"name": "set", "counters": counter(4)}]);
                }
                object("resource.k8s.io/v1", "ResourceSlice", json!({"name": node}), spec)
            }
            O::Class { at, model } => {
                let text = match model % 3 {
                    0 => r#"device.driver == "gpu.example.com""#,
                    1 => r#"device.attributes["gpu.example.com"].island == 1"#,
                    _ => {
                        r#"device.capacity["gpu.example.com"].memory.isGreaterThan(quantity("2Gi"))"#
                    }
                };
                let spec = json!({"selectors": [{"cel": {"expression": text}}]});
                object("resource.k8s.io/v1", "DeviceClass", meta("dc", *at), spec)
            }
            O::Claim { at, class, count, template, all, same } => {
                let mut exactly = json!({"deviceClassName": name("dc", *class)});
                if *all {
                    exactly["allocationMode"] = "All".into();
                } else {
                    exactly["count"] = (count % 5).into();
                }
                let mut devices = json!({"requests": [{"name": "r", "exactly": exactly}]});
                if *same {
                    devices["constraints"] = json!([{"matchAttribute": "gpu.example.com/island"}]);
                }
                let spec = json!({ "devices": devices });
                let (kind, spec) = match template {
                    true => ("ResourceClaimTemplate", json!({ "spec": spec })),
                    false => ("ResourceClaim", spec),
                };
                object("resource.k8s.io/v1", kind, meta("claim", *at), spec)
            }
            O::Budget { at, min, max, allowed } => {
                let spec = json!({"minAvailable": min, "maxUnavailable": max,
                    "selector": {"matchLabels": {"app": "a"}}});
                let mut budget = object("policy/v1", "PodDisruptionBudget", meta("b", *at), spec);
                budget["status"] = json!({"disruptionsAllowed": allowed});
                budget
            }
            O::Priority { at, value, never } => json!({"apiVersion": "scheduling.k8s.io/v1",
                "kind": "PriorityClass", "metadata": {"name": name("class", *at)}, "value": value,
                "globalDefault": *at == 9, "preemptionPolicy": never.then_some("Never")}),
            O::Volume { at, claim, node, bound } => {
                if let Some(node) = node {
                    let term = json!({"matchExpressions": [{"key": KEYS[2], "operator": "In",
                        "values": [name("n", *node)]}]});
                    let reference =
                        bound.then(|| json!({"name": name("pvc", *claim), "namespace": "default"}));
                    let spec = json!({"capacity": {"storage": "1Gi"}, "claimRef": reference,
                        "accessModes": ["ReadWriteOnce"],
                        "nodeAffinity": {"required": {"nodeSelectorTerms": [term]}}});
                    return object(
                        "v1",
                        "PersistentVolume",
                        json!({"name": name("pv", *at)}),
                        spec,
                    );
                }
                let spec = json!({"resources": {"requests": {"storage": "1Gi"}},
                    "accessModes": ["ReadWriteOnce"],
                    "volumeName": bound.then(|| name("pv", *at))});
                object("v1", "PersistentVolumeClaim", meta("pvc", *claim), spec)
            }
            O::Namespace { labels } => json!({"apiVersion": "v1", "kind": "Namespace",
                "metadata": {"name": "default", "labels": {"team": format!("t{}", labels % 2)}}}),
        }
    }
}

/// Reads the objects as a file, places what waits, and hears them as lines of watches.
///
/// # Panics
/// An error is forgotten, something unsound is read, or a scheduler disagrees with itself.
pub fn run(case: &Case) {
    let mut documents: Vec<Value> = case.objects.iter().take(24).map(Object::write).collect();
    if !case.altered.is_empty() && !documents.is_empty() {
        play(&case.altered);
        let mut dice = Dice(0);
        let at = dice.roll(documents.len() as u64) as usize;
        mar(&mut dice, &mut documents[at]);
    }
    let mode = if case.is_stored { Mode::AsStored } else { Mode::AsWritten };
    let mut reader = Reader::new(mode);
    let mut is_read = true;
    for document in &documents {
        let text = document.to_string();
        is_read &= reader.read("input", &mut serde_json::Deserializer::from_str(&text)).is_ok();
    }
    let finished = reader.finish();
    assert!(is_read || finished.is_err(), "an error is not forgotten");
    if let Ok(manifests) = finished {
        place(manifests);
    }
    hear(&documents);
}

fn place(manifests: Manifests) {
    let mut cluster = Cluster::new();
    for (name, labels) in manifests.namespaces {
        cluster.set_namespace(&*name, labels);
    }
    for node in manifests.nodes {
        node.check().expect("what is read is sound");
        let _ = cluster.add_node(node);
    }
    for object in manifests.claims {
        let _ = cluster.set_claim_object(object);
    }
    for pod in manifests.bound {
        pod.check().expect("what is read is sound");
        let _ = cluster.add_pod(pod);
    }
    let framework = Framework::kubernetes();
    for group in manifests.groups {
        group.check().expect("what is read is sound");
        let members = group.all_pods().len();
        // A template may stand for any number of pods.
        if members > 200 {
            continue;
        }
        let outcome = Planner::new().place(&cluster, &framework, &group);
        if let Ok(Outcome::Placed(plan)) = outcome {
            cluster.commit(&framework, &plan).expect("nothing has moved");
        }
    }
}

fn hear(documents: &[Value]) {
    let mut store = Store::new("phalanx");
    let mut scheduler = Scheduler::new(Cluster::new(), Framework::kubernetes(), Settings::new());
    for (at, document) in documents.iter().enumerate() {
        let mut object = document.clone();
        if object["metadata"].is_object() {
            object["metadata"]["resourceVersion"] = (at + 1).to_string().into();
        }
        let now = Time::from_secs(at as u64);
        let line = json!({"type": "ADDED", "object": object});
        let Ok(event) = serde_json::from_value::<WatchEvent>(line) else { continue };
        let Ok(updates) = store.apply(event) else { continue };
        for update in updates {
            let _ = update.pass_to(&mut scheduler, now);
        }
        for _ in 0..20 {
            let Some(decision) = scheduler.poll_decision(now) else { break };
            if let Decision::Bind { ticket, .. } = decision {
                let _ = scheduler.handle_bound(ticket, now);
            }
        }
        scheduler.check().expect("it agrees with itself");
    }
}
