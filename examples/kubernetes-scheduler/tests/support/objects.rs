//! Objects as a test writes them, and quantities as it reads them.

use std::time::Duration;

use futures::{StreamExt, stream};
use http::Method;
use serde_json::{Value, json};

use super::api::{Api, Failure, IN_FLIGHT};

/// The label whose value the pods of a gang with a rack constraint share.
pub const RACK: &str = "topology.kubernetes.io/rack";

/// CPUs of a node.
pub const NODE_CPU: u64 = 32;

/// A node that is ready: 32 CPUs, 256 GiB, 8 GPUs, 110 pods.
pub fn node(name: &str, rack: &str) -> Value {
    let resources = json!({"cpu": NODE_CPU.to_string(), "memory": "256Gi", "pods": "110", "nvidia.com/gpu": "8"});
    json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, RACK: rack}},
        "status": {
            "capacity": resources, "allocatable": resources,
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    })
}

/// Nodes `node-0000` and so on, some to a rack.
pub fn nodes(count: usize, per_rack: usize) -> Vec<Value> {
    (0..count).map(|n| node(&format!("node-{n:04}"), &format!("rack-{}", n / per_rack))).collect()
}

/// A gang and what its pods ask for. With `..Gang::default()`: 4 pods of 1 CPU, anywhere.
#[derive(Clone, Copy, Debug)]
pub struct Gang<'a> {
    /// Name of the group; its pods have it as a prefix.
    pub name: &'a str,
    /// Pods that there are.
    pub pods: usize,
    /// Pods that the group needs, if not all that there are.
    pub min: Option<usize>,
    /// CPUs of a pod.
    pub cpu: u64,
    /// Whether all pods must share a rack.
    pub one_rack: bool,
    /// The priority class.
    pub class: Option<&'a str>,
    /// Whether it is disrupted whole.
    pub whole: bool,
    /// The queue of tenants.
    pub queue: Option<&'a str>,
}

impl Default for Gang<'_> {
    fn default() -> Self {
        Self {
            name: "gang",
            pods: 4,
            min: None,
            cpu: 1,
            one_rack: false,
            class: None,
            whole: false,
            queue: None,
        }
    }
}

impl Gang<'_> {
    /// Pods that must be bound together.
    pub fn min(&self) -> usize {
        self.min.unwrap_or(self.pods)
    }

    /// The name of a pod.
    pub fn pod_name(&self, index: usize) -> String {
        format!("{}-{index}", self.name)
    }

    /// The group.
    pub fn group(&self) -> Value {
        let keys = if self.one_rack { json!([{"key": RACK}]) } else { json!([]) };
        let mut group = json!({
            "apiVersion": "scheduling.k8s.io/v1alpha2", "kind": "PodGroup",
            "metadata": {"name": self.name},
            "spec": {
                "schedulingPolicy": {"gang": {"minCount": self.min()}},
                "schedulingConstraints": {"topology": keys},
                "disruptionMode": if self.whole { "PodGroup" } else { "Pod" },
            },
        });
        if let Some(class) = self.class {
            group["spec"]["priorityClassName"] = class.into();
        }
        if let Some(queue) = self.queue {
            group["metadata"]["labels"] = json!({"kueue.x-k8s.io/queue-name": queue});
        }
        group
    }

    /// One of its pods.
    pub fn pod(&self, index: usize, scheduler: &str) -> Value {
        let mut pod = pod(&self.pod_name(index), self.cpu, scheduler);
        pod["spec"]["schedulingGroup"] = json!({"podGroupName": self.name});
        pod["metadata"]["labels"] = json!({"gang": self.name});
        if let Some(class) = self.class {
            pod["spec"]["priorityClassName"] = class.into();
        }
        pod
    }

    /// All of its pods.
    pub fn all_pods(&self, scheduler: &str) -> Vec<Value> {
        (0..self.pods).map(|index| self.pod(index, scheduler)).collect()
    }
}

/// A pod without a group.
pub fn pod(name: &str, cpu: u64, scheduler: &str) -> Value {
    let requests = json!({"cpu": cpu.to_string(), "memory": "1Gi"});
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name},
        "spec": {
            "schedulerName": scheduler,
            "containers": [{"name": "main", "image": "none", "resources": {"requests": requests}}],
        },
    })
}

/// A quantity in thousandths, in the forms that these objects have: `2`, `500m`, `1Gi`.
pub fn milli(quantity: &Value) -> u64 {
    let text = quantity.as_str().unwrap_or("0");
    let (digits, factor) = if let Some(digits) = text.strip_suffix("Gi") {
        (digits, 1000 << 30)
    } else if let Some(digits) = text.strip_suffix('m') {
        (digits, 1)
    } else {
        (text, 1000)
    };
    let digits: u64 = digits.parse().unwrap_or_else(|_| panic!("quantity {quantity}"));
    digits * factor
}

/// The path of a namespace's pods.
pub fn pods(namespace: &str) -> String {
    format!("/api/v1/namespaces/{namespace}/pods")
}

/// The path and the body of a request that binds a pod, by its metadata, to a node of a name.
pub fn binding(namespace: &str, pod: &Value, node: &str) -> (String, Value) {
    let path = format!("{}/{}/binding", pods(namespace), pod["name"].as_str().unwrap_or_default());
    let body = json!({
        "apiVersion": "v1", "kind": "Binding", "target": {"kind": "Node", "name": node},
        "metadata": {"name": pod["name"], "uid": pod["uid"]},
    });
    (path, body)
}

/// The path of a namespace's groups.
pub fn groups(namespace: &str) -> String {
    format!("/apis/scheduling.k8s.io/v1alpha2/namespaces/{namespace}/podgroups")
}

/// A field of an object's metadata.
fn meta<'a>(object: &'a Value, field: &str) -> &'a str {
    object["metadata"][field].as_str().unwrap_or_default()
}

/// Claims of devices in all namespaces.
const CLAIMS: &str = "/apis/resource.k8s.io/v1/resourceclaims";

/// Deletes the pods, groups and claims of all namespaces.
pub async fn clear_pods(api: &Api) {
    let path = |collection: fn(&str) -> String, object: &Value| {
        format!("{}/{}", collection(meta(object, "namespace")), meta(object, "name"))
    };
    let list = api.list("/api/v1/pods").await;
    let list: Vec<String> = list.iter().map(|pod| path(pods, pod)).collect();
    api.delete_all(&list).await;
    // Where kube-controller-manager does not run, nothing else takes the finalizers off; and claims of pods
    // that are gone would keep their devices.
    let mut list = api.list("/apis/scheduling.k8s.io/v1alpha2/podgroups").await;
    let mut held: Vec<String> = list.iter().map(|group| path(groups, group)).collect();
    list = api.list(CLAIMS).await;
    held.extend(list.iter().map(|claim| path(claims, claim)));
    free_all(api, &held).await;
    api.delete_all(&held).await;
}

/// The path of a namespace's claims of devices.
fn claims(namespace: &str) -> String {
    CLAIMS.replace("/v1/", &format!("/v1/namespaces/{namespace}/"))
}

/// Takes the finalizers off the objects at many paths; one that is gone meanwhile needs none.
async fn free_all(api: &Api, paths: &[String]) {
    let change = json!({"metadata": {"finalizers": null}});
    stream::iter(paths)
        .for_each_concurrent(IN_FLIGHT, async |path| {
            loop {
                match api.send::<Value>(&Method::PATCH, path, Some(&change)).await {
                    Ok(_) | Err(Failure::Refused(404, _)) => return,
                    Err(_) => tokio::time::sleep(Duration::from_millis(100)).await,
                }
            }
        })
        .await;
}

/// Deletes all nodes.
pub async fn clear_nodes(api: &Api) {
    let list = api.list("/api/v1/nodes").await;
    let list: Vec<String> =
        list.iter().map(|node| format!("/api/v1/nodes/{}", meta(node, "name"))).collect();
    api.delete_all(&list).await;
}
