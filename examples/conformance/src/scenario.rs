//! A cluster, what waits for it, and the profile it is scheduled with.

use phalanx::claims::Cel;
use phalanx::kubernetes::{self, Mode};
use phalanx::plugins::{
    AllocationScore, KubernetesProfile, LeastAllocated, MostAllocated, RequestedToCapacityRatio,
    Utilization,
};
use phalanx::{Cluster, Framework, Pod, PodGroup};
use serde_json::Value;

use super::claims::{self, Groups};
use super::expect::{list, text};

/// The subject of a case.
pub(super) struct Scenario {
    pub(super) cluster: Cluster,
    /// In the order in which they are tried.
    pub(super) pending: Vec<Pod>,
    /// kube-scheduler's profile, with the strategy that the scenario names.
    pub(super) framework: Framework,
    /// The least number of members, and the topology key; `None` for lone pods.
    pub(super) gang: Option<(u32, Option<String>)>,
}

impl Scenario {
    /// The pending pods as one group.
    pub(super) fn group(&self) -> Result<PodGroup, String> {
        let (minimum, key) = self.gang.clone().ok_or("scenario.gang: is required")?;
        let mut group = PodGroup::gang("gang", minimum);
        group.pods.clone_from(&self.pending);
        group.topology.require = key;
        Ok(group)
    }
}

/// Lists of storage objects, and their kinds.
const STORAGE: [(&str, &str); 7] = [
    ("storageClasses", "StorageClass"),
    ("persistentVolumes", "PersistentVolume"),
    ("persistentVolumeClaims", "PersistentVolumeClaim"),
    ("csiNodes", "CSINode"),
    ("csiDrivers", "CSIDriver"),
    ("csiStorageCapacities", "CSIStorageCapacity"),
    ("volumeAttachments", "VolumeAttachment"),
];

/// Whether a scenario has volumes.
pub(super) fn has_storage(scenario: &Value) -> bool {
    let lists = STORAGE.iter().any(|(list, _)| scenario.get(list).is_some());
    let mounts = |pod: &Value| pod.pointer("/spec/volumes").is_some();
    let pending = scenario.get("pending").and_then(Value::as_array);
    lists || pending.is_some_and(|pods| pods.iter().any(mounts))
}

/// Whether a gate of kube-scheduler is switched on.
fn has_gate(scenario: &Value, gate: &str) -> bool {
    let gates = scenario.get("gates").and_then(Value::as_array);
    gates.is_some_and(|gates| gates.iter().any(|name| name.as_str() == Some(gate)))
}

/// Reads a scenario; the place of a node in the list decides ties.
pub(super) fn read(scenario: Value) -> Result<Scenario, String> {
    let fit = scenario.get("fitStrategy").filter(|fit| !fit.is_null()).map(strategy).transpose()?;
    let gang = scenario.get("gang").filter(|gang| !gang.is_null()).map(gang).transpose()?;
    let storage_scoring = has_gate(&scenario, "StorageCapacityScoring");
    let mut lists = scenario;
    let mut objects = |name: &str| -> Result<Vec<kubernetes::Value>, String> {
        match lists.get_mut(name).map(Value::take) {
            None | Some(Value::Null) => Ok(Vec::new()),
            Some(list) => {
                serde_json::from_value(list).map_err(|error| format!("scenario.{name}: {error}"))
            }
        }
    };
    let mut cluster = Cluster::new();
    let with_claims = claims::publish(&mut cluster, &mut objects)?;
    let groups = claims::groups(&objects("podGroups")?);
    let pod = |object: &kubernetes::Value| pod(object, with_claims.then_some(&groups));
    for object in objects("namespaces")? {
        let (name, labels) =
            kubernetes::namespace(&object, Mode::AsStored).map_err(|error| error.to_string())?;
        cluster.set_namespace(name, labels);
    }
    for (rank, object) in objects("nodes")?.iter().enumerate() {
        let node = kubernetes::node(object, Mode::AsStored).map_err(|error| error.to_string())?;
        cluster.add_node(node.tie_rank(rank as i64)).map_err(|error| error.to_string())?;
    }
    for (list, kind) in STORAGE {
        for object in objects(list)? {
            let object = kubernetes::storage_object(kind, &object, Mode::AsStored);
            let object = object.map_err(|error| error.to_string())?;
            let object = object.ok_or_else(|| format!("{kind}: is not read"))?;
            cluster.set_storage(object).map_err(|error| error.to_string())?;
        }
    }
    for object in objects("bound")? {
        if let Some(pod) = pod(&object)? {
            cluster.add_pod(pod).map_err(|error| error.to_string())?;
        }
    }
    let pending = objects("pending")?;
    let pending = pending.iter().filter_map(|object| pod(object).transpose());
    let mut profile = KubernetesProfile::new();
    if let Some(fit) = fit {
        profile = profile.fit_strategy(fit);
    }
    if storage_scoring {
        let shape = Utilization::new([(0, 10), (100, 0)]).map_err(|error| error.to_string())?;
        profile = profile.storage_capacity_scoring(shape);
    }
    if with_claims {
        profile = profile.claims(Cel);
    }
    let pending = pending.collect::<Result<_, _>>()?;
    Ok(Scenario { cluster, pending, framework: profile.framework(), gang })
}

/// A pod, with its claims if there are groups to look them up in.
fn pod(object: &kubernetes::Value, groups: Option<&Groups>) -> Result<Option<Pod>, String> {
    let mut pod = kubernetes::pod(object, Mode::AsStored).map_err(|error| error.to_string())?;
    if let Some(pod) = &mut pod {
        // No recorded node limits the volumes that a driver serves in place of a plug-in.
        pod.scheduling_gates.retain(|gate| !gate.contains("in place of a plug-in"));
    }
    let (Some(mut pod), Some(groups)) = (pod.clone(), groups) else { return Ok(pod) };
    let group = claims::group_of(object, groups);
    let claims = kubernetes::pod_claims(object, Mode::AsStored, group);
    pod.shape_mut().claims = claims.map_err(|error| error.to_string())?;
    Ok(Some(pod))
}

fn gang(gang: &Value) -> Result<(u32, Option<String>), String> {
    let minimum = gang.get("minCount").and_then(Value::as_u64).and_then(|n| n.try_into().ok());
    let minimum = minimum.ok_or("scenario.gang.minCount: is no count")?;
    let key = gang.get("topologyKey").and_then(Value::as_str).filter(|key| !key.is_empty());
    Ok((minimum, key.map(Into::into)))
}

/// The scoring strategy of `NodeResourcesFit`.
fn strategy(fit: &Value) -> Result<AllocationScore, String> {
    let mut resources: Vec<(String, u32)> = Vec::new();
    if fit.get("Resources").is_some_and(|resources| !resources.is_null()) {
        for resource in list(fit, "Resources")? {
            let weight = resource.get("Weight").and_then(Value::as_u64).unwrap_or(0);
            let weight = u32::try_from(weight).map_err(|error| error.to_string())?;
            // As versioned configuration is defaulted.
            resources.push((text(resource, "Name")?.into(), weight.max(1)));
        }
    }
    if resources.is_empty() {
        resources = vec![("cpu".into(), 1), ("memory".into(), 1)];
    }
    match text(fit, "Type")? {
        "LeastAllocated" => Ok(LeastAllocated::of(resources)),
        "MostAllocated" => Ok(MostAllocated::of(resources)),
        "RequestedToCapacityRatio" => {
            let ratio = fit.get("RequestedToCapacityRatio").unwrap_or(&Value::Null);
            let number = |point: &Value, name: &str| {
                let number = point.get(name).and_then(Value::as_u64).unwrap_or(0);
                u8::try_from(number).map_err(|error| format!("fitStrategy: {name}: {error}"))
            };
            let points = list(ratio, "Shape")?
                .iter()
                .map(|point| Ok((number(point, "Utilization")?, number(point, "Score")?)))
                .collect::<Result<Vec<_>, String>>()?;
            let curve = Utilization::new(points).map_err(|error| error.to_string())?;
            Ok(RequestedToCapacityRatio::of(curve, resources))
        }
        other => Err(format!("fitStrategy.Type: {other:?} is not known")),
    }
}
