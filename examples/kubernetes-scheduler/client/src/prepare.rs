//! Needs of pods before they are bound: devices for their claims, volumes for theirs.
//!
//! | write | where | undone by |
//! |---|---|---|
//! | a finalizer on a claim | `metadata` | whoever takes the allocation away |
//! | devices of a claim, and for whom | `status.allocation`, `status.reservedFor` | our entry goes; with the last entry the devices go |
//! | the claim of a volume | `spec.claimRef` of the volume | it goes, if the claim is not bound yet |
//! | the node to provision for | an annotation of the claim | it goes, if the claim is not bound yet |
//!
//! Every write states the version that was read, so that of two writers one reads again. All pods
//! of a plan are prepared before the first is bound.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use phalanx::kubernetes::watch::Store;
use phalanx::model::{Allocation, ClaimSource, NodeSelector, Requirement};
use phalanx::state::Assignment;
use phalanx::{ObjectName, Pod};
use serde_json::{Map, Value, json};

use crate::api::{Answer, Api};
use crate::bind::Placement;
use crate::log;

/// The finalizer that keeps a claim as long as it has devices.
const FINALIZER: &str = "resource.kubernetes.io/delete-protection";
const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";
const BIND_COMPLETED: &str = "pv.kubernetes.io/bind-completed";
const BOUND_BY_CONTROLLER: &str = "pv.kubernetes.io/bound-by-controller";

/// Needs of one pod.
#[derive(Debug, Clone, Default)]
pub struct Needs {
    pub claims: Vec<ClaimNeed>,
    /// Claims of volumes in the pod's namespace, and the volumes that they get.
    pub bind: Vec<(ObjectName, String)>,
    /// Claims for which a volume is made on the pod's node.
    pub provision: Vec<ObjectName>,
}

/// A claim that a pod uses.
#[derive(Debug, Clone)]
pub struct ClaimNeed {
    pub name: String,
    /// The devices that the plan gives it; `None` if it had its own before.
    pub allocation: Option<Arc<Allocation>>,
    /// The entry of `reservedFor`.
    pub user: Value,
}

/// The reason why a step has failed.
type Failure = String;

impl Needs {
    /// Needs of a pod by its plan; `None` if there is nothing to prepare.
    pub fn of(store: &Store, group: Option<&str>, assignment: Assignment<'_>) -> Option<Needs> {
        let pod = assignment.pod();
        let mut needs = Needs::default();
        for claim in &pod.shape().claims {
            let (ClaimSource::Named(name) | ClaimSource::Made { claim: name, .. }) = &claim.source
            else {
                continue;
            };
            let given = assignment.allocations().iter().find(|own| own.claim == claim.name);
            needs.claims.push(ClaimNeed {
                name: name.clone(),
                allocation: given.map(|own| Arc::clone(&own.allocation)),
                user: user(store, group, pod, name),
            });
        }
        if let Some(volumes) = assignment.volumes() {
            needs.bind.clone_from(&volumes.bind);
            needs.provision.clone_from(&volumes.provision);
        }
        (!needs.is_empty()).then_some(needs)
    }

    fn is_empty(&self) -> bool {
        self.claims.is_empty() && self.bind.is_empty() && self.provision.is_empty()
    }
}

/// Whom a claim is reserved for: the pod, or the group that the claim was made for.
fn user(store: &Store, group: Option<&str>, pod: &Pod, claim: &str) -> Value {
    let group = group.and_then(|group| store.pod_group(group));
    let owner = store.resource_claim(pod.namespace(), claim).map_or("", |claim| &claim.owner);
    match group.filter(|group| !owner.is_empty() && group.uid == owner) {
        Some(group) => json!({
            "apiGroup": "scheduling.k8s.io", "resource": "podgroups",
            "name": group.name, "uid": group.uid,
        }),
        None => json!({ "resource": "pods", "name": pod.name, "uid": pod.uid }),
    }
}

/// Prepares the pods of a plan: claims of devices first, then volumes, until all are there.
///
/// An error names the pod. What was written until then stays for [`undo`].
pub async fn prepare(
    api: &Api,
    pods: &[Placement],
    time: Duration,
    cancelled: &AtomicBool,
) -> Result<(), Failure> {
    let deadline = Instant::now() + time;
    for pod in pods {
        let Some(needs) = &pod.needs else { continue };
        for claim in &needs.claims {
            check(deadline, cancelled)?;
            let done = reserve(api, pod, claim, deadline).await;
            done.map_err(|error| format!("{}: claim {}: {error}", pod.full_name(), claim.name))?;
        }
    }
    for pod in pods {
        let Some(needs) = &pod.needs else { continue };
        for (claim, volume) in &needs.bind {
            check(deadline, cancelled)?;
            let done = bind_volume(api, claim, volume, deadline).await;
            done.map_err(|error| format!("{}: volume {volume}: {error}", pod.full_name()))?;
        }
        for claim in &needs.provision {
            check(deadline, cancelled)?;
            let done = select_node(api, claim, &pod.node, deadline).await;
            done.map_err(|error| format!("{}: claim {claim}: {error}", pod.full_name()))?;
        }
    }
    for pod in pods {
        let Some(needs) = &pod.needs else { continue };
        let bound = needs.bind.iter().map(|(claim, _)| (claim, false));
        for (claim, selects) in bound.chain(needs.provision.iter().map(|claim| (claim, true))) {
            let node = selects.then_some(pod.node.as_str());
            let done = until_bound(api, claim, node, deadline, cancelled).await;
            done.map_err(|error| format!("{}: claim {claim}: {error}", pod.full_name()))?;
        }
    }
    Ok(())
}

/// Takes back what was written for a pod that is not bound, alone or with its whole plan. Goes on until
/// the server has answered for good.
pub async fn undo(api: &Api, pod: &Placement, whole: bool) {
    let Some(needs) = &pod.needs else { return };
    for claim in &needs.claims {
        // Other members may use the claim of their group: it goes with the plan that allocated it.
        let is_of_group = claim.user["resource"] == "podgroups";
        if is_of_group && !(whole && claim.allocation.is_some()) {
            continue;
        }
        release(api, &pod.namespace, &claim.name, &claim.user).await;
    }
    for claim in &needs.provision {
        change(api, &claim_path(claim), None, |stored| {
            let annotations = &stored["metadata"]["annotations"];
            let is_ours = annotations[SELECTED_NODE] == pod.node.as_str();
            let change = json!({ "metadata": { "annotations": { SELECTED_NODE: null } } });
            (is_ours && !is_bound(stored)).then_some(change)
        })
        .await
        .ok();
    }
    for (claim, volume) in &needs.bind {
        change(api, &format!("/api/v1/persistentvolumes/{volume}"), None, |stored| {
            let of = &stored["spec"]["claimRef"];
            let is_ours = of["namespace"] == claim.namespace() && of["name"] == claim.name();
            let annotations = json!({ BOUND_BY_CONTROLLER: null });
            let change = json!({
                "metadata": { "annotations": annotations }, "spec": { "claimRef": null },
            });
            (is_ours && stored["status"]["phase"] != "Bound").then_some(change)
        })
        .await
        .ok();
    }
}

/// Takes the reservation of a user away, and the devices with the last one.
pub async fn release(api: &Api, namespace: &str, claim: &str, user: &Value) {
    let path = device_claim_path(namespace, claim);
    let taken = change_at(api, &path, "/status", None, |stored| {
        let users = users(stored);
        let rest: Vec<Value> =
            users.iter().filter(|own| own["uid"] != user["uid"]).cloned().collect();
        if rest.len() == users.len() {
            return None;
        }
        let mut status = json!({ "reservedFor": rest });
        if rest.is_empty() {
            status["allocation"] = Value::Null;
            status["reservedFor"] = Value::Null;
        }
        Some(json!({ "status": status }))
    })
    .await;
    match taken {
        Ok(Some(_)) => log!(info, "a claim is released", claim = format!("{namespace}/{claim}")),
        Ok(None) => {}
        Err(reason) => log!(warn, "a claim is not released", claim = claim, reason = reason),
    }
}

fn check(deadline: Instant, cancelled: &AtomicBool) -> Result<(), Failure> {
    if cancelled.load(Ordering::Relaxed) {
        return Err("its plan is taken back".to_owned());
    }
    if Instant::now() >= deadline { Err("the time for it is over".to_owned()) } else { Ok(()) }
}

fn device_claim_path(namespace: &str, name: &str) -> String {
    format!("/apis/resource.k8s.io/v1/namespaces/{namespace}/resourceclaims/{name}")
}

fn claim_path(claim: &ObjectName) -> String {
    let (namespace, name) = (claim.namespace(), claim.name());
    format!("/api/v1/namespaces/{namespace}/persistentvolumeclaims/{name}")
}

fn users(claim: &Value) -> Vec<Value> {
    claim["status"]["reservedFor"].as_array().cloned().unwrap_or_default()
}

fn is_bound(claim: &Value) -> bool {
    let volume = claim["spec"]["volumeName"].as_str().unwrap_or_default();
    !volume.is_empty() && claim["metadata"]["annotations"][BIND_COMPLETED].is_string()
}

/// Gives a claim its devices, and reserves it.
async fn reserve(
    api: &Api,
    pod: &Placement,
    need: &ClaimNeed,
    deadline: Instant,
) -> Result<(), Failure> {
    let path = device_claim_path(&pod.namespace, &need.name);
    if need.allocation.is_some() {
        change(api, &path, Some(deadline), |stored| {
            let finalizers = stored["metadata"]["finalizers"].as_array();
            let mut finalizers = finalizers.cloned().unwrap_or_default();
            if finalizers.iter().any(|own| own == FINALIZER) {
                return None;
            }
            finalizers.push(FINALIZER.into());
            Some(json!({ "metadata": { "finalizers": finalizers } }))
        })
        .await?;
    }
    let classes = match &need.allocation {
        Some(_) => class_configs(api, &path).await?,
        None => BTreeMap::new(),
    };
    let mut conflict = None;
    change_at(api, &path, "/status", Some(deadline), |stored| {
        conflict = None;
        let (mut users, had) = (users(stored), &stored["status"]["allocation"]);
        if stored["metadata"]["deletionTimestamp"].is_string() {
            conflict = Some("is being deleted");
            return None;
        }
        let mut status = Map::new();
        match &need.allocation {
            Some(given) if had.is_null() => {
                status.insert("allocation".into(), allocation(given, stored, &classes));
            }
            Some(given) if !is_same(given, had) => {
                conflict = Some("has other devices by now");
                return None;
            }
            None if had.is_null() => {
                conflict = Some("has no devices any more");
                return None;
            }
            _ => {}
        }
        let is_new = !users.iter().any(|own| own["uid"] == need.user["uid"]);
        if !is_new && status.is_empty() {
            return None;
        }
        if is_new {
            users.push(need.user.clone());
        }
        status.insert("reservedFor".into(), users.into());
        Some(json!({ "status": status }))
    })
    .await?;
    conflict.map_or(Ok(()), |reason: &str| Err(reason.to_owned()))
}

/// Configurations that the classes of a claim's requests have for their drivers, by class.
async fn class_configs(api: &Api, claim: &str) -> Result<BTreeMap<String, Value>, Failure> {
    let mut configs = BTreeMap::new();
    let stored = read(api, claim).await?;
    for (_, _, demand) in demands(&stored) {
        let class = demand["deviceClassName"].as_str().unwrap_or_default();
        if !configs.contains_key(class) {
            let stored =
                read(api, &format!("/apis/resource.k8s.io/v1/deviceclasses/{class}")).await?;
            configs.insert(class.to_owned(), stored["spec"]["config"].clone());
        }
    }
    Ok(configs)
}

/// The requests of a claim, with the names of their alternatives.
fn demands(claim: &Value) -> Vec<(&str, Option<&str>, &Value)> {
    let mut demands = Vec::new();
    for request in claim["spec"]["devices"]["requests"].as_array().into_iter().flatten() {
        let name = request["name"].as_str().unwrap_or_default();
        if request["exactly"].is_object() {
            demands.push((name, None, &request["exactly"]));
        }
        for own in request["firstAvailable"].as_array().into_iter().flatten() {
            demands.push((name, own["name"].as_str(), own));
        }
    }
    demands
}

/// `status.allocation` of a claim.
fn allocation(given: &Allocation, claim: &Value, classes: &BTreeMap<String, Value>) -> Value {
    let demands = demands(claim);
    let mut results = Vec::new();
    let mut config = Vec::new();
    for (request, alternative, demand) in &demands {
        let full =
            alternative.map_or_else(|| (*request).to_owned(), |of| format!("{request}/{of}"));
        let own = given.devices.iter().filter(|device| device.request == full);
        let before = results.len();
        results.extend(own.map(|device| {
            let mut result = json!({
                "request": device.request, "driver": device.driver,
                "pool": device.pool, "device": device.device,
            });
            if device.admin {
                result["adminAccess"] = true.into();
            }
            if demand["tolerations"].is_array() {
                result["tolerations"] = demand["tolerations"].clone();
            }
            if let Some(share) = &device.share {
                let consumed = share.iter();
                let consumed: Map<String, Value> =
                    consumed.map(|(name, of)| (name.clone(), of.to_string().into())).collect();
                result["shareID"] = identity().into();
                result["consumedCapacity"] = consumed.into();
            }
            result
        }));
        let class = demand["deviceClassName"].as_str().unwrap_or_default();
        if results.len() > before {
            for entry in classes.get(class).and_then(Value::as_array).into_iter().flatten() {
                let mut entry = entry.clone();
                entry["source"] = "FromClass".into();
                entry["requests"] = json!([full]);
                config.push(entry);
            }
        }
    }
    for entry in claim["spec"]["devices"]["config"].as_array().into_iter().flatten() {
        let mut entry = entry.clone();
        entry["source"] = "FromClaim".into();
        config.push(entry);
    }
    let mut devices = json!({ "results": results });
    if !config.is_empty() {
        devices["config"] = config.into();
    }
    let mut allocation = json!({ "devices": devices, "allocationTimestamp": log::seconds() });
    if let Some(nodes) = &given.nodes {
        allocation["nodeSelector"] = selector(nodes);
    }
    allocation
}

/// A random identity for a share of a device.
fn identity() -> String {
    let text = std::fs::read_to_string("/proc/sys/kernel/random/uuid").unwrap_or_default();
    text.trim().to_owned()
}

fn selector(nodes: &NodeSelector) -> Value {
    let requirement = |of: &Requirement| {
        let operator = of.operator.as_str();
        json!({ "key": of.key, "operator": operator, "values": of.values })
    };
    let terms = nodes.terms.iter().map(|term| {
        let mut object = Map::new();
        for (name, list) in
            [("matchExpressions", &term.match_expressions), ("matchFields", &term.match_fields)]
        {
            if !list.is_empty() {
                object.insert(name.into(), list.iter().map(requirement).collect());
            }
        }
        Value::Object(object)
    });
    json!({ "nodeSelectorTerms": terms.collect::<Vec<_>>() })
}

/// Whether a claim has the devices that a plan gives it.
fn is_same(given: &Allocation, stored: &Value) -> bool {
    let results = stored["devices"]["results"].as_array();
    let mut stored: Vec<[&str; 4]> = results
        .into_iter()
        .flatten()
        .map(|own| {
            ["request", "driver", "pool", "device"].map(|at| own[at].as_str().unwrap_or_default())
        })
        .collect();
    let own = given.devices.iter();
    let mut own: Vec<[&str; 4]> =
        own.map(|of| [&*of.request, &*of.driver, &*of.pool, &*of.device]).collect();
    stored.sort_unstable();
    own.sort_unstable();
    stored == own
}

/// Sets a volume aside for a claim.
async fn bind_volume(
    api: &Api,
    claim: &ObjectName,
    volume: &str,
    deadline: Instant,
) -> Result<(), Failure> {
    let of = read(api, &claim_path(claim)).await?;
    let uid = of["metadata"]["uid"].as_str().unwrap_or_default().to_owned();
    let mut conflict = false;
    let path = format!("/api/v1/persistentvolumes/{volume}");
    change(api, &path, Some(deadline), |stored| {
        let had = &stored["spec"]["claimRef"];
        let is_ours = had["namespace"] == claim.namespace() && had["name"] == claim.name();
        conflict = !had.is_null() && !is_ours;
        if conflict || is_ours && had["uid"] == uid.as_str() {
            return None;
        }
        Some(json!({
            "metadata": { "annotations": { BOUND_BY_CONTROLLER: "yes" } },
            "spec": { "claimRef": {
                "apiVersion": "v1", "kind": "PersistentVolumeClaim",
                "namespace": claim.namespace(), "name": claim.name(), "uid": uid,
            } },
        }))
    })
    .await?;
    if conflict { Err("is of another claim by now".to_owned()) } else { Ok(()) }
}

/// Names the node that a volume is to be made for.
async fn select_node(
    api: &Api,
    claim: &ObjectName,
    node: &str,
    deadline: Instant,
) -> Result<(), Failure> {
    let mut conflict = false;
    change(api, &claim_path(claim), Some(deadline), |stored| {
        let had = stored["metadata"]["annotations"][SELECTED_NODE].as_str();
        conflict = had.is_some_and(|had| had != node) && !is_bound(stored);
        if had.is_some() || is_bound(stored) {
            return None;
        }
        Some(json!({ "metadata": { "annotations": { SELECTED_NODE: node } } }))
    })
    .await?;
    if conflict { Err("has another node by now".to_owned()) } else { Ok(()) }
}

/// Waits until a claim is bound.
async fn until_bound(
    api: &Api,
    claim: &ObjectName,
    node: Option<&str>,
    deadline: Instant,
    cancelled: &AtomicBool,
) -> Result<(), Failure> {
    let mut pause = Duration::from_millis(100);
    loop {
        if let Ok(stored) = read(api, &claim_path(claim)).await {
            if is_bound(&stored) {
                return Ok(());
            }
            let selected = stored["metadata"]["annotations"][SELECTED_NODE].as_str();
            if node.is_some() && selected != node {
                return Err("its provisioner gives the node up".to_owned());
            }
        }
        check(deadline, cancelled)?;
        tokio::time::sleep(pause.min(deadline.saturating_duration_since(Instant::now()))).await;
        pause = (pause * 2).min(Duration::from_secs(1));
    }
}

/// An object; an error if there is none.
async fn read(api: &Api, path: &str) -> Result<Value, Failure> {
    let answer = api.get(path).await?;
    match answer.status {
        200 => serde_json::from_slice(&answer.body).map_err(|error| error.to_string()),
        _ => Err(answer.message()),
    }
}

/// Changes an object as it is stored, as [`change_at`] does.
async fn change(
    api: &Api,
    path: &str,
    deadline: Option<Instant>,
    change: impl FnMut(&Value) -> Option<Value>,
) -> Result<Option<()>, Failure> {
    change_at(api, path, "", deadline, change).await
}

/// Reads an object and patches it by what `change` makes of it, until no other writer comes between.
/// Answers whether anything was written. An object that is gone needs no change.
///
/// Without a deadline it goes on until the server has answered for good.
async fn change_at(
    api: &Api,
    path: &str,
    subresource: &str,
    deadline: Option<Instant>,
    mut change: impl FnMut(&Value) -> Option<Value>,
) -> Result<Option<()>, Failure> {
    let mut pause = Duration::from_millis(50);
    loop {
        let failure = match api.get(path).await {
            Ok(Answer { status: 404, .. }) if deadline.is_none() => return Ok(None),
            Ok(answer @ Answer { status: 200, .. }) => {
                let stored: Value =
                    serde_json::from_slice(&answer.body).map_err(|error| error.to_string())?;
                let Some(mut change) = change(&stored) else { return Ok(None) };
                let metadata = &stored["metadata"];
                change["metadata"]["uid"] = metadata["uid"].clone();
                change["metadata"]["resourceVersion"] = metadata["resourceVersion"].clone();
                match api.merge(&format!("{path}{subresource}"), &change).await {
                    Ok(Answer { status: 200..=299, .. }) => return Ok(Some(())),
                    Ok(answer) if !is_passing(&answer) => return Err(answer.message()),
                    Ok(answer) => answer.message(),
                    Err(error) => error,
                }
            }
            Ok(answer) if !is_passing(&answer) => return Err(answer.message()),
            Ok(answer) => answer.message(),
            Err(error) => error,
        };
        if deadline.is_some_and(|deadline| Instant::now() >= deadline) {
            return Err(failure);
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(Duration::from_secs(5));
    }
}

/// Whether a request may do better later: another writer came between, or the server has trouble.
fn is_passing(answer: &Answer) -> bool {
    matches!(answer.status, 409 | 429 | 500..)
}
