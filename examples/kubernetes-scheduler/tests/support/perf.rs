//! Workloads of scheduler_perf, kube-scheduler's own benchmark: nodes, pods that are bound beforehand, and
//! pods that are measured. And its figure: the mean of samples that are taken once a second.

use serde_json::{Value, json};

/// A workload: its row in scheduler_perf, and its objects.
pub struct Workload {
    pub name: &'static str,
    pub nodes: usize,
    node: fn(usize) -> Value,
    /// Pods before the measurement: count and template.
    before: usize,
    pod_before: fn(usize) -> Value,
    pub measured: usize,
    pod: fn(usize) -> Value,
    /// Members of a gang; 0 for pods by themselves.
    pub gang: usize,
    /// Whether a gang needs one rack.
    rack: bool,
}

/// Objects of a workload, each list in order.
pub struct Objects {
    pub nodes: Vec<Value>,
    pub before: Vec<Value>,
    pub groups: Vec<Value>,
    pub measured: Vec<Value>,
}

const fn plain(
    name: &'static str,
    before: usize,
    measured: usize,
    pod: fn(usize) -> Value,
) -> Workload {
    Workload {
        name,
        nodes: 5_000,
        node: zone1,
        before,
        pod_before: pod,
        measured,
        pod,
        gang: 0,
        rack: false,
    }
}

const fn gangs(name: &'static str, groups: usize, size: usize, rack: bool) -> Workload {
    Workload {
        node: racked,
        before: 0,
        gang: size,
        rack,
        ..plain(name, 0, groups * size, default_pod)
    }
}

/// The rows of scheduler_perf that are run: misc, affinity, spreading, secrets, preemption and groups.
pub const WORKLOADS: [Workload; 17] = [
    plain("SchedulingBasic", 1_000, 10_000, default_pod),
    Workload { nodes: 15_001, node: named, ..plain("SchedulingDaemonset", 0, 30_000, daemon) },
    Workload { node: own_resource, ..plain("SchedulingWithExtendedResource", 0, 5_000, extended) },
    plain("SchedulingPodAntiAffinity", 1_000, 2_000, anti),
    Workload {
        pod_before: anti,
        ..plain("SchedulingPodMatchingAntiAffinity", 1_000, 5_000, green)
    },
    plain("SchedulingPodAffinity", 5_000, 5_000, affine),
    plain("SchedulingPreferredPodAffinity", 5_000, 5_000, preferred_affine),
    plain("SchedulingPreferredPodAntiAffinity", 5_000, 5_000, preferred_anti),
    plain("SchedulingNodeAffinity", 5_000, 10_000, on_zone),
    Workload {
        node: moons,
        pod_before: default_pod,
        ..plain("TopologySpreading", 5_000, 5_000, spread)
    },
    Workload {
        node: moons,
        pod_before: default_pod,
        ..plain("PreferredTopologySpreading", 5_000, 5_000, preferred_spread)
    },
    plain("SchedulingSecrets", 1_000, 10_000, secret),
    Workload { nodes: 1_000, pod_before: low, ..plain("PreemptionBasic", 4_000, 1_000, high) },
    gangs("GangScheduling 1000x3", 1_000, 3, false),
    gangs("GangScheduling 3x1000", 3, 1_000, false),
    gangs("TopologyAwareScheduling 750x4", 750, 4, true),
    gangs("TopologyAwareScheduling 3x1000", 3, 1_000, true),
];

impl Workload {
    /// The objects, of one part in `divisor` of the size, for a scheduler of some name.
    pub fn objects(&self, divisor: usize, scheduler: &str) -> Objects {
        let part = |count: usize| count.div_ceil(divisor);
        let owned = |mut pod: Value, name: String, namespace: &str| {
            pod["apiVersion"] = "v1".into();
            pod["kind"] = "Pod".into();
            pod["metadata"]["name"] = name.into();
            pod["metadata"]["namespace"] = namespace.into();
            pod["spec"]["schedulerName"] = scheduler.into();
            pod
        };
        let before = (0..part(self.before))
            .map(|index| owned((self.pod_before)(index), format!("before-{index}"), "sched-0"));
        // A gang keeps its size while there are enough pods for one.
        let size = self.gang.min(part(self.measured));
        let count = match size {
            0 => part(self.measured),
            size => part(self.measured) / size * size,
        };
        let measured = (0..count).map(|index| {
            let mut pod = owned((self.pod)(index), format!("measured-{index}"), "sched-1");
            if let Some(number) = index.checked_div(size) {
                pod["spec"]["schedulingGroup"] = json!({"podGroupName": format!("group-{number}")});
            }
            pod
        });
        let groups = (0..count.checked_div(size).unwrap_or(0)).map(|index| {
            let topology = json!([{"key": "topology.kubernetes.io/rack"}]);
            let mut group = json!({
                "apiVersion": "scheduling.k8s.io/v1alpha2", "kind": "PodGroup",
                "metadata": {"name": format!("group-{index}"), "namespace": "sched-1"},
                "spec": {"schedulingPolicy": {"gang": {"minCount": size}}},
            });
            if self.rack {
                group["spec"]["schedulingConstraints"] = json!({"topology": topology});
            }
            group
        });
        let nodes = (0..part(self.nodes)).map(|index| (self.node)(index));
        Objects {
            nodes: nodes.collect(),
            before: before.collect(),
            groups: groups.collect(),
            measured: measured.collect(),
        }
    }
}

/// The mean of the rates of samples, as scheduler_perf takes it: the first sample that sees a bound pod sets
/// the base, and one without progress leaves its time to the next. None for fewer than two samples.
pub fn average(samples: &[(f64, usize)]) -> Option<f64> {
    let mut rates: Vec<f64> = Vec::new();
    let mut last: Option<(f64, usize)> = None;
    for &(at, bound) in samples.iter().filter(|(_, bound)| *bound > 0) {
        let Some((since, before)) = last else {
            last = Some((at, bound));
            continue;
        };
        if bound == before {
            continue;
        }
        let seconds = at - since;
        let rate = (bound - before) as f64 / seconds;
        // A rate over several seconds counts once for each.
        rates.extend(std::iter::repeat_n(rate, (seconds.round() as usize).max(1)));
        last = Some((at, bound));
    }
    (rates.len() >= 2).then(|| rates.iter().sum::<f64>() / rates.len() as f64)
}

fn node(index: usize, labels: Value) -> Value {
    let name = format!("perf-{index:05}");
    let resources = json!({"cpu": "4", "memory": "32Gi", "pods": "110"});
    let mut node = json!({
        "apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels},
        "status": {
            "capacity": resources, "allocatable": resources,
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    });
    node["metadata"]["labels"]["kubernetes.io/hostname"] = name.into();
    node
}

fn zone1(index: usize) -> Value {
    node(index, json!({"topology.kubernetes.io/zone": "zone1"}))
}

fn moons(index: usize) -> Value {
    node(index, json!({"topology.kubernetes.io/zone": format!("moon-{}", index % 3 + 1)}))
}

fn racked(index: usize) -> Value {
    node(
        index,
        json!({
            "topology.kubernetes.io/zone": format!("zone-{}", index / 1_000),
            "topology.kubernetes.io/rack": format!("rack-{}", index / 100),
        }),
    )
}

fn named(index: usize) -> Value {
    let mut own = node(index, json!({}));
    if index == 0 {
        own["metadata"]["name"] = "scheduler-perf-node".into();
        own["status"]["allocatable"]["pods"] = "90000".into();
        own["status"]["capacity"]["pods"] = "90000".into();
    }
    own
}

fn own_resource(index: usize) -> Value {
    let mut own = node(index, json!({}));
    for field in ["capacity", "allocatable"] {
        own["status"][field][format!("foo.com/bar-{index}")] = "1".into();
    }
    own
}

fn pod(requests: Value, labels: Value) -> Value {
    let resources = json!({"requests": requests, "limits": requests});
    json!({
        "metadata": {"labels": labels},
        "spec": {"containers": [
            {"name": "pause", "image": "registry.k8s.io/pause:3.10", "resources": resources},
        ]},
    })
}

fn default_pod(_: usize) -> Value {
    pod(json!({"cpu": "100m", "memory": "500Mi"}), json!({}))
}

fn coloured(colour: &str) -> Value {
    pod(json!({"cpu": "100m", "memory": "500Mi"}), json!({"color": colour}))
}

fn term(colour: &str, key: &str) -> Value {
    json!({
        "labelSelector": {"matchLabels": {"color": colour}}, "topologyKey": key,
        "namespaces": ["sched-0", "sched-1"],
    })
}

const HOST: &str = "kubernetes.io/hostname";
const ZONE: &str = "topology.kubernetes.io/zone";
const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";

fn anti(_: usize) -> Value {
    let mut own = coloured("green");
    own["spec"]["affinity"] = json!({"podAntiAffinity": {REQUIRED: [term("green", HOST)]}});
    own
}

fn green(_: usize) -> Value {
    coloured("green")
}

fn affine(_: usize) -> Value {
    let mut own = coloured("blue");
    own["spec"]["affinity"] = json!({"podAffinity": {REQUIRED: [term("blue", ZONE)]}});
    own
}

fn preferred_affine(_: usize) -> Value {
    let mut own = coloured("red");
    let wish = json!({"weight": 1, "podAffinityTerm": term("red", HOST)});
    own["spec"]["affinity"] = json!({"podAffinity": {PREFERRED: [wish]}});
    own
}

fn preferred_anti(_: usize) -> Value {
    let mut own = coloured("yellow");
    let wish = json!({"weight": 1, "podAffinityTerm": term("yellow", HOST)});
    own["spec"]["affinity"] = json!({"podAntiAffinity": {PREFERRED: [wish]}});
    own
}

fn on_zone(index: usize) -> Value {
    let mut own = default_pod(index);
    let zones = json!({"key": ZONE, "operator": "In", "values": ["zone1", "zone2"]});
    let terms = json!({"nodeSelectorTerms": [{"matchExpressions": [zones]}]});
    own["spec"]["affinity"] = json!({"nodeAffinity": {REQUIRED: terms}});
    own
}

fn daemon(_: usize) -> Value {
    let mut own = pod(json!({}), json!({}));
    let field =
        json!({"key": "metadata.name", "operator": "In", "values": ["scheduler-perf-node"]});
    let terms = json!({"nodeSelectorTerms": [{"matchFields": [field]}]});
    own["spec"]["affinity"] = json!({"nodeAffinity": {REQUIRED: terms}});
    own
}

fn extended(index: usize) -> Value {
    let name = format!("foo.com/bar-{index}");
    pod(json!({name: "1"}), json!({}))
}

fn spread_by(when: &str) -> Value {
    let mut own = coloured("blue");
    own["spec"]["topologySpreadConstraints"] = json!([{
        "maxSkew": 5, "topologyKey": ZONE, "whenUnsatisfiable": when,
        "labelSelector": {"matchLabels": {"color": "blue"}},
    }]);
    own
}

fn spread(_: usize) -> Value {
    spread_by("DoNotSchedule")
}

fn preferred_spread(_: usize) -> Value {
    spread_by("ScheduleAnyway")
}

fn secret(index: usize) -> Value {
    let mut own = default_pod(index);
    own["spec"]["volumes"] = json!([{"name": "secret", "secret": {"secretName": "secret"}}]);
    own
}

fn low(_: usize) -> Value {
    let mut own = pod(json!({"cpu": "900m", "memory": "500Mi"}), json!({}));
    own["spec"]["terminationGracePeriodSeconds"] = 0.into();
    own["spec"]["priority"] = 0.into();
    own
}

fn high(_: usize) -> Value {
    let mut own = pod(json!({"cpu": "3", "memory": "500Mi"}), json!({}));
    own["spec"]["priority"] = 10.into();
    own
}
