//! Needs of a plan's pods on their nodes: room, devices, taints.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use super::broken::Broken;
use super::members::{Member, Members, Placed};
use crate::framework::Framework;
use crate::model::resources::PODS;
use crate::model::{
    Device, DeviceAsk, DeviceRequest, DeviceSet, Effect, IslandRule, Pod, PodGroup, PodShape,
    Taint, ZonePolicy, ZoneScope,
};
use crate::state::{NodeView, PodView};

/// The key of the taint that a cordoned node stands for.
const CORDON: &str = "node.kubernetes.io/unschedulable";

/// Checks what is taken of every node of the plan.
pub(super) fn check<'a>(
    framework: &Framework,
    placed: impl Iterator<Item = Placed<'a>>,
    broken: &mut Vec<Broken>,
) {
    let mut nodes: BTreeMap<&str, Vec<Placed<'a>>> = BTreeMap::new();
    for pod in placed {
        nodes.entry(pod.node.name()).or_default().push(pod);
    }
    let has = |name: &str| framework.filters().iter().any(|filter| filter.name() == name);
    let (cordons, taints) = (has("NodeUnschedulable"), has("TaintToleration"));
    for pods in nodes.values() {
        let Some(node) = pods.first().map(|placed| placed.node) else { continue };
        for placed in pods {
            broken.extend(repelled(placed.pod, node, cordons, taints));
            devices(placed, broken);
            broken.extend(misaligned(placed));
        }
        overfull_zones(node, pods, broken);
        if pods.iter().all(|placed| framework.judges_room(placed.pod.shape())) {
            room(node, pods, broken);
        }
        owners(node, pods, broken);
    }
}

fn full_name(pod: &Pod) -> String {
    format!("{}/{}", pod.namespace(), pod.name)
}

/// The reason to keep a pod off a node, if the filters that read it are there.
fn repelled(pod: &Pod, node: NodeView<'_>, cordons: bool, taints: bool) -> Option<Broken> {
    let cordon = Taint::new(CORDON, "", Effect::NoSchedule);
    let cordon = (cordons && node.unschedulable()).then_some(&cordon);
    let marks = node.taints().iter().filter(|taint| taints && taint.repels());
    let repels = |taint: &&Taint| {
        !pod.shape().tolerations.iter().any(|toleration| toleration.tolerates(taint))
    };
    let taint = cordon.into_iter().chain(marks).find(repels)?;
    let (node, taint) = (node.name().to_string(), taint.key.clone());
    Some(Broken::Repelled { pod: full_name(pod), node, taint })
}

/// Checks resources and the number of pods. What the plan takes nothing of may be overcommitted.
fn room(node: NodeView<'_>, pods: &[Placed<'_>], broken: &mut Vec<Broken>) {
    let name = || node.name().to_string();
    let count = node.pods().count() + pods.len();
    if i64::try_from(count).is_ok_and(|count| count > node.pod_limit()) {
        let (resource, allocatable) = (PODS.to_string(), node.pod_limit());
        broken.push(Broken::Room { node: name(), resource, taken: count as i128, allocatable });
    }
    let mut taken: BTreeMap<&str, i128> = BTreeMap::new();
    for placed in pods {
        let requests = placed.pod.shape().requests.iter().filter(|(_, amount)| *amount > 0);
        for (resource, amount) in requests {
            *taken.entry(resource).or_default() += i128::from(amount);
        }
    }
    for running in node.pods() {
        for (resource, amount) in running.shape().requests.iter() {
            if let Some(sum) = taken.get_mut(resource) {
                *sum += i128::from(amount);
            }
        }
    }
    for (resource, taken) in taken {
        let id = node.cluster().resource(resource);
        let allocatable = id.map_or(0, |id| node.allocatable(id));
        if taken > i128::from(allocatable) {
            let resource = resource.to_string();
            broken.push(Broken::Room { node: name(), resource, taken, allocatable });
        }
    }
}

/// Checks that a pod has the devices it asks for.
fn devices(placed: &Placed<'_>, broken: &mut Vec<Broken>) {
    let requests = &placed.pod.shape().devices;
    let mut note = |request: usize, what: &'static str| {
        let (pod, node) = (full_name(placed.pod), placed.node.name().to_string());
        broken.push(Broken::Devices { pod, node, request, what });
    };
    if placed.devices.len() != requests.len() {
        return note(placed.devices.len().min(requests.len()), "has no list of devices of its own");
    }
    let mut seen = BTreeSet::new();
    for (number, (request, held)) in requests.iter().zip(placed.devices).enumerate() {
        let all = placed.node.devices();
        let found: Option<Vec<&Device>> =
            held.iter().map(|&index| all.get(index as usize)).collect();
        let what = match found {
            None => Some("names a device that the node does not have"),
            Some(_) if held.len() != request.count() as usize => Some("has another number of them"),
            Some(_) if held.iter().any(|index| !seen.insert(*index)) => {
                Some("names a device twice")
            }
            Some(found) => unfit(request, &found)
                .or_else(|| outside_sets(placed.node, request, held))
                .or_else(|| not_beside(placed, request, &found)),
        };
        if let Some(what) = what {
            note(number, what);
        }
    }
}

/// Faults of the devices found for a request, each by itself and together.
fn unfit(request: &DeviceRequest, found: &[&Device]) -> Option<&'static str> {
    let any = |wrong: &dyn Fn(&Device) -> bool| found.iter().any(|device| wrong(device));
    let several = found.len() > 1;
    let apart = |of: &dyn Fn(&Device) -> Option<String>| {
        let first = found.first().and_then(|device| of(device));
        several && any(&|device| first.is_none() || of(device) != first)
    };
    if any(&|device| device.kind != request.kind) {
        Some("has a device of another kind")
    } else if !request.models.is_empty() && any(&|device| !request.models.contains(&device.model)) {
        Some("has a device of another model")
    } else if !request.islands.is_empty()
        && any(&|device| !device.island.as_ref().is_some_and(|own| request.islands.contains(own)))
    {
        Some("has a device of an island that is not allowed")
    } else if request.island == IslandRule::Required && apart(&|device| device.island.clone()) {
        Some("has devices of several islands, or of none")
    } else if request.numa == IslandRule::Required
        && apart(&|device| device.numa.map(|numa| numa.to_string()))
    {
        Some("has devices of several NUMA nodes, or of none")
    } else {
        None
    }
}

/// The fault of devices that are to be a set of the node's table.
fn outside_sets(node: NodeView<'_>, request: &DeviceRequest, held: &[u32]) -> Option<&'static str> {
    let table = node.partitions();
    let of_table = request.is_whole() && table.rule == IslandRule::Required;
    if request.profile.is_none() && !of_table {
        return None;
    }
    let profile = request.profile.as_deref().unwrap_or("");
    let serves =
        |set: &&DeviceSet| set.profile == profile && set.devices.len() == request.count() as usize;
    let most = table.sets.iter().filter(serves).map(|set| set.score).max();
    let mut sets = table.sets.iter().filter(serves);
    let found =
        sets.any(|set| set.devices == held && (!request.best_set || Some(set.score) == most));
    (!found).then_some("has devices that are no set of the node's table that it may have")
}

/// The fault of devices that are to lie beside those of another request.
fn not_beside(
    placed: &Placed<'_>,
    request: &DeviceRequest,
    found: &[&Device],
) -> Option<&'static str> {
    let beside = request.beside?;
    let all = placed.node.devices();
    let other = placed.devices.get(beside.request as usize)?;
    let own: BTreeSet<Option<&str>> = found.iter().map(|device| device.island.as_deref()).collect();
    let other: BTreeSet<Option<&str>> =
        other.iter().map(|&index| all.get(index as usize)?.island.as_deref()).collect();
    let linked = !own.contains(&None) && !other.contains(&None);
    let lies = if beside.same { own == other } else { own.is_subset(&other) };
    (!linked || !lies).then_some("has devices that do not lie beside those of another request")
}

/// The fault of a pod that holds more of zones than it asks for, or of more zones than its node's policy
/// allows.
fn misaligned(placed: &Placed<'_>) -> Option<Broken> {
    let (own, ask) = (placed.node.zones(), &placed.pod.shape().zones);
    let mut held: BTreeMap<&str, i128> = BTreeMap::new();
    for (resource, amount) in placed.zones.iter().flat_map(|share| share.amounts.iter()) {
        *held.entry(resource).or_default() += i128::from(amount);
    }
    let asked = |resource: &str| {
        let parts = ask.parts.iter().map(|part| i128::from(part.amounts.of(resource)));
        parts.sum::<i128>()
    };
    let one = own.policy == ZonePolicy::SingleNumaNode && own.scope == ZoneScope::Pod;
    let sound = held.iter().all(|(resource, amount)| *amount <= asked(resource))
        && own.policy >= ask.least
        && (!one || placed.zones.len() <= 1);
    let (pod, node) = (full_name(placed.pod), placed.node.name().to_string());
    (!sound).then_some(Broken::Misaligned { pod, node })
}

/// Checks that no zone that the plan touches has less than is taken of it.
fn overfull_zones(node: NodeView<'_>, pods: &[Placed<'_>], broken: &mut Vec<Broken>) {
    for zone in &node.zones().list {
        let mut taken: BTreeMap<&str, i128> = BTreeMap::new();
        let running = node.pods().flat_map(PodView::zone_shares);
        let planned = pods.iter().flat_map(|placed| placed.zones);
        let of = |share: &&crate::model::ZoneShare| share.zone == zone.number;
        for (resource, amount) in planned.filter(of).flat_map(|share| share.amounts.iter()) {
            *taken.entry(resource).or_default() += i128::from(amount);
        }
        for (resource, amount) in running.filter(of).flat_map(|share| share.amounts.iter()) {
            if let Some(sum) = taken.get_mut(resource) {
                *sum += i128::from(amount);
            }
        }
        let over = |(resource, sum): (&&str, &i128)| {
            let left = i128::from(zone.capacity.of(resource)) - i128::from(zone.taken.of(resource));
            zone.capacity.lists(resource) && *sum > left
        };
        if taken.iter().any(over) {
            let (node, zone) = (node.name().to_string(), zone.number);
            broken.push(Broken::ZoneOvertaken { node, zone });
        }
    }
}

/// Checks that no device that the plan touches has too many holders.
fn owners(node: NodeView<'_>, pods: &[Placed<'_>], broken: &mut Vec<Broken>) {
    let mut held: BTreeMap<u32, Vec<&DeviceAsk>> = BTreeMap::new();
    let planned = pods.iter().flat_map(|placed| asks(placed.pod.shape(), placed.devices));
    for (device, ask) in planned {
        held.entry(device).or_default().push(ask);
    }
    let touched: BTreeMap<u32, usize> =
        held.iter().map(|(device, asks)| (*device, asks.len())).collect();
    for pod in node.pods() {
        for (device, ask) in asks(PodView::shape(pod), pod.device_indexes()) {
            if let Some(holders) = held.get_mut(&device) {
                holders.push(ask);
            }
        }
    }
    for (device, holders) in held {
        let whole = holders.iter().any(|ask| matches!(ask, DeviceAsk::Whole { .. }));
        let Some(spec) = node.devices().get(device as usize) else { continue };
        let mut units: BTreeMap<&str, i128> = BTreeMap::new();
        for (place, ask) in holders.iter().enumerate() {
            let DeviceAsk::Shares { each, .. } = ask else { continue };
            let planned = place < touched.get(&device).copied().unwrap_or(0);
            for (unit, amount) in each.iter().filter(|(_, amount)| *amount > 0) {
                if planned {
                    *units.entry(unit).or_default() += i128::from(amount);
                } else if let Some(sum) = units.get_mut(unit) {
                    *sum += i128::from(amount);
                }
            }
        }
        let over = |(unit, sum): (&&str, &i128)| *sum > i128::from(spec.capacity.of(unit));
        if whole && holders.len() > 1 || units.iter().any(over) {
            broken.push(Broken::DeviceOvertaken { node: node.name().to_string(), device });
        }
    }
}

/// The devices that a pod of a shape holds, each with what is held of it.
fn asks<'a>(
    shape: &'a PodShape,
    held: &'a [Vec<u32>],
) -> impl Iterator<Item = (u32, &'a DeviceAsk)> {
    let lists = shape.devices.iter().zip(held);
    lists.flat_map(|(request, held)| held.iter().map(move |&device| (device, &request.ask)))
}

/// Whether a group is to be in one island: it requires one, and has a member with device requests.
pub(super) fn requires_island(group: &PodGroup) -> bool {
    group.topology.island == IslandRule::Required
        && group.all_pods().iter().any(|pod| !pod.shape().devices.is_empty())
}

/// The islands of the devices that a member holds; those that its node does not have are passed
/// over.
pub(super) fn islands_of<'a>(member: &Member<'a>) -> Vec<Option<&'a str>> {
    let all = member.node.devices();
    let held = member.devices.iter().flatten().filter_map(|&index| all.get(index as usize));
    held.map(|device| device.island.as_deref()).collect()
}

/// The fault if members are not on one node with their devices in one island.
pub(super) fn scattered(group: &str, members: &Members<'_>) -> Option<Broken> {
    let nodes: BTreeSet<&str> = members.all().map(|member| member.node.name()).collect();
    let islands = members.all().flat_map(|member| {
        let node = member.node.name();
        islands_of(member).into_iter().map(move |island| (node, island))
    });
    let islands: BTreeSet<(&str, Option<&str>)> = islands.collect();
    let one = islands.len() <= 1 && islands.iter().all(|(_, island)| island.is_some());
    if nodes.len() <= 1 && one {
        return None;
    }
    let named = islands.iter().map(|(node, island)| format!("{node}/{}", island.unwrap_or("-")));
    let places = nodes.iter().map(ToString::to_string).chain(named).collect();
    Some(Broken::Islands { group: group.to_string(), places })
}
