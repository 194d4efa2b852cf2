//! Gangs with devices and volumes on the real API server, with its own controllers: claims are made
//! of templates and volumes are bound by kube-controller-manager.

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::scenario::{CONFIGURATION, Cluster, NAME, SOON, scenario};
use crate::support::objects::{self, Gang};
use crate::support::random::Random;

const DRIVER: &str = "gpu.example.com";
const CLASSES: &str = "/apis/resource.k8s.io/v1/deviceclasses";
const SLICES: &str = "/apis/resource.k8s.io/v1/resourceslices";
const SELECTED: &str = "volume.kubernetes.io/selected-node";

/// Devices of a node.
const DEVICES: usize = 8;

/// kube-controller-manager, for as long as this is there: other tests go without it.
struct Controllers<'a>(&'a Cluster<'a>);

impl<'a> Controllers<'a> {
    fn start(cluster: &'a Cluster<'a>) -> Self {
        cluster.plane.run(&["start", "--with-controllers"]);
        Self(cluster)
    }
}

impl Drop for Controllers<'_> {
    fn drop(&mut self) {
        self.0.plane.run(&["stop", "kube-controller-manager"]);
    }
}

fn claims(namespace: &str) -> String {
    format!("/apis/resource.k8s.io/v1/namespaces/{namespace}/resourceclaims")
}

fn volume_claims(namespace: &str) -> String {
    format!("/api/v1/namespaces/{namespace}/persistentvolumeclaims")
}

fn name(object: &Value) -> &str {
    object["metadata"]["name"].as_str().unwrap_or_default()
}

/// The spec of a claim of so many devices.
fn request(count: usize) -> Value {
    json!({"devices": {"requests": [{"name": "gpus", "exactly": {
        "deviceClassName": "gpu", "allocationMode": "ExactCount", "count": count,
    }}]}})
}

/// Nodes with eight devices each, their class, and a template of a claim of so many.
async fn add_devices(cluster: &Cluster<'_>, nodes: usize, count: usize) {
    let api = &cluster.api;
    let old = api.list(SLICES).await;
    let old: Vec<String> = old.iter().map(|slice| format!("{SLICES}/{}", name(slice))).collect();
    api.delete_all(&old).await;
    let class = json!({
        "metadata": {"name": "gpu"},
        "spec": {"selectors": [{"cel": {"expression": format!("device.driver == '{DRIVER}'")}}]},
    });
    api.create(CLASSES, &class).await;
    cluster.add_nodes(nodes, nodes).await;
    let devices: Vec<Value> = (0..DEVICES).map(|at| json!({"name": format!("gpu-{at}")})).collect();
    let slice = |node: usize| {
        let node = format!("node-{node:04}");
        json!({
            "metadata": {"name": format!("{node}-gpus")},
            "spec": {
                "driver": DRIVER, "nodeName": node, "devices": devices,
                "pool": {"name": node, "generation": 1, "resourceSliceCount": 1},
            },
        })
    };
    let slices: Vec<Value> = (0..nodes).map(slice).collect();
    api.create_all(SLICES, &slices).await;
    let template = json!({"metadata": {"name": "gpus"}, "spec": {"spec": request(count)}});
    let templates = claims(cluster.namespace).replace("resourceclaims", "resourceclaimtemplates");
    api.create(&templates, &template).await;
}

/// The pods of a gang, each with a claim of the template.
fn claiming(gang: Gang<'_>) -> Vec<Value> {
    let mut pods = gang.all_pods(NAME);
    for pod in &mut pods {
        pod["spec"]["resourceClaims"] =
            json!([{"name": "gpus", "resourceClaimTemplateName": "gpus"}]);
        pod["spec"]["containers"][0]["resources"]["claims"] = json!([{"name": "gpus"}]);
    }
    pods
}

/// Faults that may never be seen, whenever one looks: a device of two claims.
fn twice(claims: &[Value]) -> Vec<String> {
    let mut owners: BTreeMap<(String, String), Vec<&str>> = BTreeMap::new();
    for claim in claims {
        for device in
            claim["status"]["allocation"]["devices"]["results"].as_array().into_iter().flatten()
        {
            let key = (device["pool"].to_string(), device["device"].to_string());
            owners.entry(key).or_default().push(name(claim));
        }
    }
    let shared = owners.into_iter().filter(|(_, claims)| claims.len() > 1);
    shared.map(|(device, claims)| format!("{device:?} is of {claims:?}")).collect()
}

/// Claims in use by no pod that is there.
fn stale(claims: &[Value], pods: &[Value]) -> Vec<String> {
    let present: BTreeSet<&str> =
        pods.iter().filter_map(|pod| pod["metadata"]["uid"].as_str()).collect();
    let is_stale = |claim: &&Value| {
        let users = claim["status"]["reservedFor"].as_array();
        let gone = |user: &Value| !present.contains(user["uid"].as_str().unwrap_or_default());
        users.into_iter().flatten().any(gone)
    };
    claims.iter().filter(is_stale).map(|claim| name(claim).to_owned()).collect()
}

/// Faults of claims of pods that are all bound: devices elsewhere, or reserved for another.
fn misplaced(claims: &[Value], pods: &[Value], count: usize) -> Vec<String> {
    let mut wrong = Vec::new();
    for pod in pods {
        let of_pod = |claim: &&Value| {
            claim["metadata"]["ownerReferences"][0]["uid"] == pod["metadata"]["uid"]
        };
        let own: Vec<&Value> = claims.iter().filter(of_pod).collect();
        let [claim] = own.as_slice() else {
            wrong.push(format!("{} has {} claims", name(pod), own.len()));
            continue;
        };
        let results = claim["status"]["allocation"]["devices"]["results"].as_array();
        let there = |device: &&Value| device["pool"] == pod["spec"]["nodeName"];
        let found = results.into_iter().flatten().filter(there).count();
        let user = &claim["status"]["reservedFor"][0]["uid"];
        if found != count || *user != pod["metadata"]["uid"] {
            wrong.push(format!("{}: {}", name(pod), claim["status"]));
        }
    }
    wrong
}

/// Waits until the claims of a namespace are as asked.
async fn until(cluster: &Cluster<'_>, path: &str, hint: &str, met: impl Fn(&[Value]) -> bool) {
    let begin = Instant::now();
    loop {
        let list = cluster.api.list(path).await;
        if met(&list) {
            return;
        }
        assert!(begin.elapsed() < SOON, "not within {SOON:?}: {hint}; {list:?}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

fn allocated(claims: &[Value]) -> usize {
    claims.iter().filter(|claim| claim["status"]["allocation"].is_object()).count()
}

#[test]
fn a_gang_with_claims_of_a_template_is_bound_whole_though_the_scheduler_is_killed_ten_times() {
    scenario("claims-killed", async |cluster| {
        let _controllers = Controllers::start(cluster);
        let gang = Gang { pods: 64, ..Gang::default() };
        add_devices(cluster, 16, 2).await;
        cluster.add_gangs(&[Gang { pods: 0, min: Some(64), ..gang }]).await;
        let (own, mut random) = (claims(cluster.namespace), Random(31));
        for life in 0..10 {
            // New pods each time: the claims of those before go with them, whatever they hold.
            for index in 0..gang.pods {
                cluster.delete_pod(&gang.pod_name(index)).await;
            }
            cluster.add_pods(claiming(gang)).await;
            let moment = 1 + random.below(64) as usize;
            let scheduler = cluster.scheduler();
            until(cluster, &own, "claims are allocated", |list| allocated(list) >= moment).await;
            scheduler.kill();
            let list = cluster.api.list(&own).await;
            assert_eq!(twice(&list), Vec::<String>::new(), "life {life}");
        }
        let _scheduler = cluster.scheduler();
        cluster.until_bound(64).await;
        let (list, pods) = (cluster.api.list(&own).await, cluster.api.list(&cluster.pods()).await);
        assert_eq!(twice(&list), Vec::<String>::new());
        assert_eq!(misplaced(&list, &pods, 2), Vec::<String>::new());
        // Claims of pods that are gone are taken away by their controllers.
        let present = |list: &[Value]| list.len() == 64 && stale(list, &pods).is_empty();
        until(cluster, &own, "no claim is left of a pod that is gone", present).await;
        // Each device of each node is given.
        assert_eq!(allocated(&cluster.api.list(&own).await), 64);
    });
}

/// Gives each pod a volume of the class `fast`, which is provisioned where the pod goes.
async fn add_volumes(cluster: &Cluster<'_>, pods: &mut [Value]) {
    let class = json!({
        "metadata": {"name": "fast"}, "provisioner": "csi.example.com",
        "volumeBindingMode": "WaitForFirstConsumer",
    });
    cluster.api.create("/apis/storage.k8s.io/v1/storageclasses", &class).await;
    for pod in pods {
        let claim = format!("{}-data", name(pod));
        pod["spec"]["volumes"] =
            json!([{"name": "data", "persistentVolumeClaim": {"claimName": claim}}]);
        let object = json!({
            "metadata": {"name": claim},
            "spec": {
                "accessModes": ["ReadWriteOnce"], "storageClassName": "fast",
                "resources": {"requests": {"storage": "1Gi"}},
            },
        });
        cluster.api.create(&volume_claims(cluster.namespace), &object).await;
    }
}

/// A gang on some nodes, each pod with four devices and a volume.
async fn add_storing(cluster: &Cluster<'_>, nodes: usize, pods: usize) {
    let gang = Gang { pods, ..Gang::default() };
    add_devices(cluster, nodes, 4).await;
    cluster.add_gangs(&[Gang { pods: 0, min: Some(pods), ..gang }]).await;
    let mut pods = claiming(gang);
    add_volumes(cluster, &mut pods).await;
    cluster.add_pods(pods).await;
}

/// A provisioner: for each claim whose node is chosen it makes a volume that only that node reaches.
async fn provision(cluster: &Cluster<'_>) -> Infallible {
    loop {
        for claim in cluster.api.list(&volume_claims(cluster.namespace)).await {
            let Some(node) = claim["metadata"]["annotations"][SELECTED].as_str() else { continue };
            if claim["spec"]["volumeName"].is_string() {
                continue;
            }
            let terms = json!([{"matchExpressions": [
                {"key": "kubernetes.io/hostname", "operator": "In", "values": [node]},
            ]}]);
            let volume = json!({
                "metadata": {
                    "name": format!("pv-{}", claim["metadata"]["uid"].as_str().unwrap_or_default()),
                    "annotations": {"pv.kubernetes.io/provisioned-by": "csi.example.com"},
                },
                "spec": {
                    "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"],
                    "storageClassName": "fast", "persistentVolumeReclaimPolicy": "Retain",
                    "csi": {"driver": "csi.example.com", "volumeHandle": claim["metadata"]["uid"]},
                    "nodeAffinity": {"required": {"nodeSelectorTerms": terms}},
                    "claimRef": {
                        "apiVersion": "v1", "kind": "PersistentVolumeClaim",
                        "namespace": cluster.namespace, "name": name(&claim),
                        "uid": claim["metadata"]["uid"],
                    },
                },
            });
            cluster.api.create("/api/v1/persistentvolumes", &volume).await;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

#[test]
fn volumes_are_provisioned_where_the_gang_goes_before_it_is_bound() {
    scenario("volumes", async |cluster| {
        let _controllers = Controllers::start(cluster);
        add_storing(cluster, 4, 8).await;
        let _scheduler = cluster.scheduler();
        tokio::select! {
            _ = provision(cluster) => {},
            () = cluster.until_bound(8) => {},
        }
        let pods = cluster.api.list(&cluster.pods()).await;
        let list = cluster.api.list(&claims(cluster.namespace)).await;
        assert_eq!(misplaced(&list, &pods, 4), Vec::<String>::new());
        let volumes = cluster.api.list(&volume_claims(cluster.namespace)).await;
        for pod in &pods {
            let claim = format!("{}-data", name(pod));
            let claim = volumes.iter().find(|volume| name(volume) == claim).expect("it is there");
            assert_eq!(claim["status"]["phase"], "Bound");
            assert_eq!(claim["metadata"]["annotations"][SELECTED], pod["spec"]["nodeName"]);
        }
    });
}

#[test]
fn a_provisioner_that_never_answers_gets_the_gang_given_up_and_everything_released() {
    scenario("volumes-never", async |cluster| {
        let _controllers = Controllers::start(cluster);
        add_storing(cluster, 2, 4).await;
        // Else the first try finds no claims, and the next one is minutes away.
        let named = |list: &[Value]| {
            list.iter().all(|pod| pod["status"]["resourceClaimStatuses"].is_array())
        };
        until(cluster, &cluster.pods(), "claims are made", named).await;
        let configuration = "\
bindings: {retryFor: 5s, prepareFor: 3s}
timeouts: {firstBackoff: 120s, longestBackoff: 120s}
";
        let user = cluster.plane.kubeconfig("scheduler");
        let _scheduler = cluster.scheduler_with(&user, configuration, &[]);
        let (devices, volumes) = (claims(cluster.namespace), volume_claims(cluster.namespace));
        let chosen = |claim: &Value| claim["metadata"]["annotations"][SELECTED].is_string();
        let all = |list: &[Value]| list.iter().filter(|claim| chosen(claim)).count() == 4;
        until(cluster, &volumes, "nodes are chosen for the volumes", all).await;
        until(cluster, &volumes, "nodes are taken back", |list| !list.iter().any(chosen)).await;
        let free = |list: &[Value]| {
            let used = |claim: &Value| {
                claim["status"]["reservedFor"].as_array().is_some_and(|users| !users.is_empty())
            };
            allocated(list) == 0 && !list.iter().any(used)
        };
        until(cluster, &devices, "devices are taken back", free).await;
        // The gang waits for its next turn, and another takes the devices meanwhile: its claims are
        // there before its pods.
        let other = Gang { name: "other", pods: 4, ..Gang::default() };
        let mut pods = other.all_pods(NAME);
        for pod in &mut pods {
            let claim = format!("{}-own", name(pod));
            let object = json!({"metadata": {"name": claim}, "spec": request(4)});
            cluster.api.create(&devices, &object).await;
            pod["spec"]["resourceClaims"] = json!([{"name": "gpus", "resourceClaimName": claim}]);
        }
        cluster.add_gangs(&[Gang { pods: 0, min: Some(4), ..other }]).await;
        cluster.add_pods(pods).await;
        cluster.until_bound(4).await;
        assert_eq!(cluster.bound_of("gang"), 0);
    });
}

/// The objects of the manifest with the rights of the scheduler.
fn rights() -> Vec<(&'static str, Value)> {
    let text = include_str!("../../manifests/rbac.yaml");
    let path = |kind: &str| match kind {
        "ServiceAccount" => Some("/api/v1/namespaces/kube-system/serviceaccounts"),
        "ClusterRole" => Some("/apis/rbac.authorization.k8s.io/v1/clusterroles"),
        "ClusterRoleBinding" => Some("/apis/rbac.authorization.k8s.io/v1/clusterrolebindings"),
        "Role" => Some("/apis/rbac.authorization.k8s.io/v1/namespaces/kube-system/roles"),
        "RoleBinding" => {
            Some("/apis/rbac.authorization.k8s.io/v1/namespaces/kube-system/rolebindings")
        }
        _ => None,
    };
    let parts = text.split("\n---\n");
    let parsed = parts.map(|part| serde_saphyr::from_str::<Value>(part).expect("it is YAML"));
    let objects = parsed.filter(Value::is_object);
    objects
        .map(|object| {
            let kind = object["kind"].as_str().unwrap_or_default();
            (path(kind).unwrap_or_else(|| panic!("no path for {kind}")), object)
        })
        .collect()
}

#[test]
fn the_rights_of_the_manifest_are_enough() {
    scenario("rights", async |cluster| {
        let _controllers = Controllers::start(cluster);
        for (path, object) in rights() {
            cluster.api.create(path, &object).await;
        }
        // The admin's file, but every request is made as the account of the manifest.
        let admin =
            std::fs::read_to_string(cluster.plane.kubeconfig("admin")).expect("it is there");
        let mut file: Value = serde_saphyr::from_str(&admin).expect("it is YAML");
        for user in file["users"].as_array_mut().into_iter().flatten() {
            user["user"]["as"] = json!("system:serviceaccount:kube-system:phalanx");
            user["user"]["as-groups"] = json!(["system:serviceaccounts", "system:authenticated"]);
        }
        let path = cluster.plane.state().join("rights.kubeconfig");
        std::fs::write(&path, file.to_string()).expect("the state folder can be written");

        add_storing(cluster, 4, 8).await;
        let scheduler = cluster.scheduler_with(&path, CONFIGURATION, &[]);
        tokio::select! {
            _ = provision(cluster) => {},
            () = cluster.until_bound(8) => {},
        }
        let group = format!("{}/gang", objects::groups(cluster.namespace));
        cluster.until_condition(&group, "PodGroupScheduled", "True").await;
        let output = scheduler.output();
        assert!(!output.contains("forbidden"), "{output}");
    });
}
