//! One claim and the devices that it gets on a node.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use super::amounts::taken;
use super::published::{Pool, home, is_among, reaches};
use crate::claims::DeviceFacts;
use crate::framework::Framework;
use crate::model::{
    AllocatedDevice, Allocation, Attribute, AttributeRule, ClaimConstraint, ClaimSpec,
    DeviceAmount, DeviceDemand, NodeReach, ResourceSlice, SliceDevice,
};
use crate::state::{Cluster, NodeView};

/// The most devices of a claim.
const MOST: usize = 32;

/// A device of an allocation, as it is published.
#[derive(Clone, Copy)]
struct Given<'a> {
    own: &'a AllocatedDevice,
    slice: &'a ResourceSlice,
    device: &'a SliceDevice,
}

/// Checks that an allocation is one that a claim may have on a node.
pub(super) fn serves(
    cluster: &Cluster,
    framework: &Framework,
    spec: &ClaimSpec,
    allocation: &Allocation,
    node: NodeView<'_>,
) -> Result<(), String> {
    if allocation.devices.len() > MOST {
        return Err(format!("gets {} devices, and may have {MOST}", allocation.devices.len()));
    }
    let mut given = Vec::with_capacity(allocation.devices.len());
    let mut seen = BTreeSet::new();
    for own in &allocation.devices {
        let AllocatedDevice { driver, pool, device: name, .. } = own;
        let full = || format!("{driver}/{pool}/{name}");
        let found = Pool::of(cluster, driver, pool).device(name);
        let (slice, device) = found.ok_or_else(|| format!("{} is not published", full()))?;
        if !reaches(slice, device, node) {
            return Err(format!("node {} does not reach {}", node.name(), full()));
        }
        if !seen.insert((driver, pool, name)) && (own.admin || !device.shareable) {
            return Err(format!("gets {} twice", full()));
        }
        given.push(Given { own, slice, device });
    }
    requests(cluster, framework, spec, &given, node)?;
    spec.constraints.iter().try_for_each(|rule| keeps(spec, rule, &given))?;
    confines(cluster, allocation, &given, node)
}

/// Checks that each request, or one of its alternatives, gets the devices that it asks for.
fn requests(
    cluster: &Cluster,
    framework: &Framework,
    spec: &ClaimSpec,
    given: &[Given<'_>],
    node: NodeView<'_>,
) -> Result<(), String> {
    let mut served: BTreeMap<&str, usize> = BTreeMap::new();
    let mut known = 0;
    for (request, sub, demand) in spec.demands() {
        let name = sub.map_or_else(|| request.into(), |sub| format!("{request}/{sub}"));
        let own: Vec<Given<'_>> =
            given.iter().filter(|given| given.own.request == name).copied().collect();
        let times = served.entry(request).or_default();
        if sub.is_some() && own.is_empty() && demand.amount != DeviceAmount::Count(0) {
            continue;
        }
        if sub.is_some() && demand.amount == DeviceAmount::Count(0) && *times > 0 {
            continue;
        }
        *times += 1;
        known += own.len();
        amount(cluster, framework, (&name, demand), &own, node)?;
        for given in &own {
            suits(cluster, framework, (&name, demand), *given)?;
        }
    }
    // An alternative of no devices leaves no trace where another one was taken.
    if let Some((name, times)) = served.iter().find(|(_, times)| **times != 1) {
        return Err(format!("request {name} is served {times} times"));
    }
    if known < given.len() {
        return Err(String::from("gets devices for requests that it does not have"));
    }
    Ok(())
}

fn amount(
    cluster: &Cluster,
    framework: &Framework,
    (name, demand): (&str, &DeviceDemand),
    own: &[Given<'_>],
    node: NodeView<'_>,
) -> Result<(), String> {
    let wanted = match demand.amount {
        DeviceAmount::Count(count) => count,
        DeviceAmount::Unknown => return Err(format!("request {name} has no known mode")),
        DeviceAmount::All => {
            let mut pools: Vec<(&str, &str)> = Vec::new();
            for slice in cluster.claims().slices() {
                pools.push((&slice.driver, &slice.pool));
            }
            pools.sort_unstable();
            pools.dedup();
            let (mut all, mut whole) = (0, 0);
            for (driver, pool) in pools {
                for (slice, device) in Pool::of(cluster, driver, pool).devices() {
                    let is_one = reaches(slice, device, node)
                        && taken(device, &demand.capacity).is_some()
                        && is_selected(cluster, framework, demand, slice, device)?;
                    all += u64::from(is_one);
                    whole += u64::from(is_one && !device.shareable);
                }
            }
            // Shared devices without room are left out.
            if (whole.max(1)..=all).contains(&(own.len() as u64)) {
                return Ok(());
            }
            all.max(1)
        }
    };
    if own.len() as u64 == wanted {
        return Ok(());
    }
    Err(format!("request {name} gets {} of {wanted} devices", own.len()))
}

/// Checks that a device is one that a request may have.
fn suits(
    cluster: &Cluster,
    framework: &Framework,
    (name, demand): (&str, &DeviceDemand),
    Given { own, slice, device }: Given<'_>,
) -> Result<(), String> {
    let refuse = |why: &str| Err(format!("request {name}: device {} {why}", device.name));
    if !is_selected(cluster, framework, demand, slice, device)? {
        return refuse("does not match");
    }
    if own.admin != demand.admin {
        return refuse("has another kind of access than the request");
    }
    let repels = |taint: &&crate::model::Taint| {
        use crate::model::Effect::{NoExecute, NoSchedule};
        matches!(taint.effect, NoSchedule | NoExecute)
            && !demand.tolerations.iter().any(|own| own.tolerates(taint))
    };
    if let Some(taint) = device.taints.iter().find(repels) {
        return refuse(&format!("has the taint {}, which is not tolerated", taint.key));
    }
    let Some(amounts) = taken(device, &demand.capacity) else {
        return refuse("has no such capacity, or forbids the amount");
    };
    let fits = |(name, amount): (&String, &crate::base::Quantity)| {
        device.capacity.get(name).is_some_and(|there| *amount <= there.value)
    };
    if !amounts.iter().all(fits) {
        return refuse("has less capacity");
    }
    match &own.share {
        None if device.shareable => refuse("is given whole, and is shared"),
        Some(_) if !device.shareable => refuse("is given in part, and is not shared"),
        Some(share) if *share != amounts => refuse("is given in another part"),
        _ => Ok(()),
    }
}

/// Whether all selectors of a demand and its class hold of a device.
fn is_selected(
    cluster: &Cluster,
    framework: &Framework,
    demand: &DeviceDemand,
    slice: &ResourceSlice,
    device: &SliceDevice,
) -> Result<bool, String> {
    let class = cluster.claims().classes().find(|class| class.name == demand.class);
    let class = class.ok_or_else(|| format!("there is no device class {}", demand.class))?;
    for expression in class.selectors.iter().chain(&demand.selectors) {
        let program = framework.selectors().compile(expression)?;
        if !program.matches(DeviceFacts::new(&slice.driver, device))? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Checks a constraint over the devices in the order in which they were given.
fn keeps(spec: &ClaimSpec, rule: &ClaimConstraint, given: &[Given<'_>]) -> Result<(), String> {
    let concerned = given.iter().filter(|given| {
        let name = &*given.own.request;
        let request = name.split_once('/').map_or(name, |(request, _)| request);
        rule.requests.is_empty() || rule.requests.iter().any(|own| own == name || own == request)
    });
    let (attribute, is_same) = match &rule.rule {
        AttributeRule::Match(attribute) => (attribute, true),
        AttributeRule::Distinct(attribute) => (attribute, false),
        AttributeRule::Unknown => return Err("has a constraint that is not understood".into()),
    };
    let mut first: Option<&Attribute> = None;
    // The value of the last device of each request: kube-scheduler remembers no more.
    let mut last: BTreeMap<&str, &Attribute> = BTreeMap::new();
    for Given { own, slice, device } in concerned {
        let value = device.attribute_of(&slice.driver, attribute);
        let lacks = || format!("device {} has no {attribute}", device.name);
        let value = value.ok_or_else(lacks)?;
        if is_same && *first.get_or_insert(value) != value {
            return Err(format!("has devices of more than one {attribute}"));
        }
        let request = spec.requests.iter().find(|asks| {
            let rest = own.request.strip_prefix(&*asks.name);
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        });
        let request = request.map_or("", |request| &request.name);
        if !is_same && last.values().any(|other| *other == value) {
            return Err(format!("has two devices of one {attribute}"));
        }
        last.insert(request, value);
    }
    Ok(())
}

/// Checks the nodes that an allocation names: the own one is among them, and no other that does not
/// reach all devices.
fn confines(
    cluster: &Cluster,
    allocation: &Allocation,
    given: &[Given<'_>],
    node: NodeView<'_>,
) -> Result<(), String> {
    let bound = given.iter().any(|own| {
        own.device.binds_to_node || matches!(home(own.slice, own.device), NodeReach::Node(_))
    });
    let Some(nodes) = &allocation.nodes else {
        let open = |own: &Given<'_>| matches!(home(own.slice, own.device), NodeReach::All);
        let open = !bound && given.iter().all(open);
        return if open { Ok(()) } else { Err("names no nodes".into()) };
    };
    if !is_among(nodes, node) {
        return Err(format!("names other nodes than {}", node.name()));
    }
    if let [term] = &nodes.terms[..]
        && let ([], [rule]) = (&term.match_expressions[..], &term.match_fields[..])
        && rule.values.len() == 1
        && rule.operator == crate::model::Operator::In
    {
        // The own node alone.
        return Ok(());
    }
    for other in cluster.nodes().filter(|other| is_among(nodes, *other)) {
        let out = given.iter().any(|own| !reaches(own.slice, own.device, other));
        if out || bound && other.name() != node.name() {
            return Err(format!("names node {}, which does not reach its devices", other.name()));
        }
    }
    Ok(())
}
