//! Objects of `resource.k8s.io/v1`, and claims of pods.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

use super::affinity::{node_selector, tolerations};
use super::field::{Fault, Field};
use super::metadata::{self, of_controller};
use super::mode::Mode;
use super::node::taint;
use super::resources::is_extended;
use super::timestamp::timestamp;
use super::value::Value;
use crate::base::Quantity;
use crate::model::{
    AllocatedDevice, Allocation, Attribute, AttributeRule, ClaimConstraint, ClaimRequest,
    ClaimSource, ClaimSpec, CounterSet, CounterUse, DeviceAmount, DeviceCapacity, DeviceClass,
    DeviceDemand, ExtendedRequest, ModelError, NodeReach, PodClaim, PolicyRule, RequestChoice,
    RequestPolicy, ResourceClaim, ResourceSlice, SliceDevice, SubRequest,
};

/// The prefix of resources that classes serve by their own names.
const CLASS_RESOURCE: &str = "deviceclass.resource.kubernetes.io/";

/// A device class from its manifest, whatever kind it states.
///
/// # Errors
/// The manifest cannot be taken.
pub fn device_class(manifest: &Value, mode: Mode) -> Result<DeviceClass, ModelError> {
    let object = metadata::object("deviceclass", false, manifest, mode);
    let root = Field::root(&object, manifest);
    let mut class = DeviceClass::new(metadata::name(&root)?);
    let metadata = root.need("metadata")?;
    if let Some(created) = metadata.get("creationTimestamp")? {
        class.created = timestamp(&created)?;
    }
    if let Some(spec) = root.get("spec")? {
        class.selectors = selectors(&spec)?;
        class.extended_resource = spec.name_of("extendedResourceName")?;
    }
    Ok(class)
}

/// A slice of devices from its manifest, whatever kind it states.
///
/// # Errors
/// The manifest cannot be taken.
pub fn resource_slice(manifest: &Value, mode: Mode) -> Result<ResourceSlice, ModelError> {
    let object = metadata::object("resourceslice", false, manifest, mode);
    let root = Field::root(&object, manifest);
    let spec = root.need("spec")?;
    let pool = spec.need("pool")?;
    let driver = spec.need("driver")?;
    let mut slice =
        ResourceSlice::new(metadata::name(&root)?, driver.text()?, pool.text_of("name")?);
    slice.generation = integer(&pool, "generation")?;
    slice.slice_count = integer(&pool, "resourceSliceCount")?;
    slice.nodes = nodes(&spec)?;
    if spec.flag("perDeviceNodeSelection")? {
        slice.nodes = NodeReach::PerDevice;
    }
    spec.each("devices", |device| {
        slice.devices.push(read_device(&device)?);
        Ok(())
    })?;
    spec.each("sharedCounters", |set| {
        let (name, counters) = (set.text_of("name")?, amounts(&set, "counters")?);
        slice.counters.push(CounterSet { name, counters });
        Ok(())
    })?;
    Ok(slice)
}

/// A claim from its manifest, whatever kind it states.
///
/// # Errors
/// The manifest cannot be taken.
pub fn resource_claim(manifest: &Value, mode: Mode) -> Result<ResourceClaim, ModelError> {
    let object = metadata::object("resourceclaim", true, manifest, mode);
    let root = Field::root(&object, manifest);
    let spec = match root.need("spec")?.get("devices")? {
        Some(devices) => claim_spec(&devices)?,
        None => ClaimSpec::new(),
    };
    let mut claim =
        ResourceClaim::new(metadata::name(&root)?, spec).in_namespace(metadata::namespace(&root)?);
    let metadata = root.need("metadata")?;
    claim.deleting = metadata.get("deletionTimestamp")?.is_some();
    claim.owner = of_controller(&metadata, |owner| owner.text_of("uid"))?.unwrap_or_default();
    let Some(status) = root.get("status")? else { return Ok(claim) };
    if let Some(allocation) = status.get("allocation")? {
        claim.allocation = Some(Arc::new(read_allocation(&allocation)?));
    }
    status.each("reservedFor", |user| {
        claim.reserved_for.push(user.text_of("uid")?);
        Ok(())
    })?;
    Ok(claim)
}

/// The claims of a pod from its manifest, whatever kind it states. `group` is the identity of the
/// object that stands for its group, for claims that were made for that.
///
/// Requests for resources that a class may serve count as a claim, which is of no account in a
/// cluster without such a class.
///
/// # Errors
/// The manifest cannot be taken.
pub fn pod_claims(
    manifest: &Value,
    mode: Mode,
    group: Option<&str>,
) -> Result<Vec<PodClaim>, ModelError> {
    let object = metadata::object("pod", true, manifest, mode);
    let root = Field::root(&object, manifest);
    let spec = root.need("spec")?;
    let mut owners: Vec<String> = Vec::new();
    if let Some(metadata) = root.get("metadata")? {
        owners.push(metadata.text_of("uid")?);
    }
    owners.extend(group.map(String::from));
    // Names of claims that were made; none for those that turned out not to be needed.
    let mut made: BTreeMap<String, Option<String>> = BTreeMap::new();
    if let Some(status) = root.get("status")? {
        status.each("resourceClaimStatuses", |entry| {
            made.insert(entry.text_of("name")?, entry.name_of("resourceClaimName")?);
            Ok(())
        })?;
    }
    let mut claims = Vec::new();
    spec.each("resourceClaims", |entry| {
        let name = entry.text_of("name")?;
        let source = match (entry.name_of("resourceClaimName")?, made.get(&name)) {
            (Some(claim), _) => ClaimSource::Named(claim),
            (None, Some(Some(claim))) => {
                ClaimSource::Made { claim: claim.clone(), owners: owners.clone() }
            }
            (None, Some(None)) => return Ok(()),
            (None, None) => ClaimSource::Unmade,
        };
        claims.push(PodClaim { name, source });
        Ok(())
    })?;
    let extended = extended(&spec)?;
    if !extended.is_empty() {
        let name = String::from(crate::claims::EXTENDED);
        claims.push(PodClaim { name, source: ClaimSource::Extended(extended) });
    }
    Ok(claims)
}

fn integer(of: &Field<'_>, name: &str) -> Fault<i64> {
    of.get(name)?.map_or(Ok(0), |field| field.integer())
}

fn selectors(of: &Field<'_>) -> Fault<Vec<String>> {
    let mut selectors = Vec::new();
    of.each("selectors", |selector| {
        let cel = selector.get("cel")?;
        // A selector of another kind is one that cannot be evaluated.
        selectors.push(cel.map_or(Ok(String::new()), |cel| cel.text_of("expression"))?);
        Ok(())
    })?;
    Ok(selectors)
}

fn amounts(of: &Field<'_>, name: &str) -> Fault<BTreeMap<String, Quantity>> {
    let mut amounts = BTreeMap::new();
    of.entries(name, |name, field| {
        amounts.insert(String::from(name), field.need("value")?.quantity()?);
        Ok(())
    })?;
    Ok(amounts)
}

fn quantities(of: &Field<'_>, name: &str) -> Fault<BTreeMap<String, Quantity>> {
    let mut amounts = BTreeMap::new();
    of.entries(name, |name, field| {
        amounts.insert(String::from(name), field.quantity()?);
        Ok(())
    })?;
    Ok(amounts)
}

fn nodes(of: &Field<'_>) -> Fault<NodeReach> {
    if let Some(node) = of.name_of("nodeName")? {
        return Ok(NodeReach::Node(node));
    }
    if let Some(selector) = of.get("nodeSelector")? {
        return Ok(NodeReach::Selector(node_selector(&selector)?));
    }
    Ok(if of.flag("allNodes")? { NodeReach::All } else { NodeReach::Nowhere })
}

fn read_device(field: &Field<'_>) -> Fault<SliceDevice> {
    let mut device = SliceDevice::new(field.text_of("name")?);
    field.entries("attributes", |name, value| {
        let attribute = if let Some(value) = value.get("int")? {
            Attribute::Int(value.integer()?)
        } else if let Some(value) = value.get("bool")? {
            Attribute::Bool(value.boolean()?)
        } else if let Some(value) = value.get("version")? {
            Attribute::Version(value.text()?.into())
        } else {
            Attribute::Text(value.text_of("string")?)
        };
        device.attributes.insert(name.into(), attribute);
        Ok(())
    })?;
    field.entries("capacity", |name, own| {
        let value = own.need("value")?.quantity()?;
        let policy = own.get("requestPolicy")?.map(|policy| read_policy(&policy)).transpose()?;
        device.capacity.insert(name.into(), DeviceCapacity { value, policy });
        Ok(())
    })?;
    field.each("consumesCounters", |used| {
        let (set, counters) = (used.text_of("counterSet")?, amounts(&used, "counters")?);
        device.consumes.push(CounterUse { set, counters });
        Ok(())
    })?;
    device.nodes = nodes(field)?;
    field.each("taints", |mark| {
        device.taints.push(taint(&mark)?);
        Ok(())
    })?;
    device.binds_to_node = field.flag("bindsToNode")?;
    device.shareable = field.flag("allowMultipleAllocations")?;
    device.binding_conditions = field.texts("bindingConditions")?;
    Ok(device)
}

fn read_policy(field: &Field<'_>) -> Fault<RequestPolicy> {
    let quantity = |of: &Field<'_>, name: &str| -> Fault<Option<Quantity>> {
        of.get(name)?.map(|field| field.quantity()).transpose()
    };
    let mut policy = RequestPolicy { default: quantity(field, "default")?, rule: PolicyRule::Any };
    if let Some(range) = field.get("validRange")? {
        let (min, max) = (quantity(&range, "min")?, quantity(&range, "max")?);
        policy.rule = PolicyRule::Range { min, max, step: quantity(&range, "step")? };
        return Ok(policy);
    }
    let mut values = Vec::new();
    field.each("validValues", |value| {
        values.push(value.quantity()?);
        Ok(())
    })?;
    if !values.is_empty() {
        policy.rule = PolicyRule::Values(values);
    }
    Ok(policy)
}

/// The specification of a claim from its `spec.devices`.
fn claim_spec(devices: &Field<'_>) -> Fault<ClaimSpec> {
    let mut spec = ClaimSpec::new();
    devices.each("requests", |request| {
        let name = request.text_of("name")?;
        let mut alternatives = Vec::new();
        request.each("firstAvailable", |own| {
            let (name, demand) = (own.text_of("name")?, demand(&own)?);
            alternatives.push(SubRequest { name, demand });
            Ok(())
        })?;
        let choice = match request.get("exactly")? {
            Some(exactly) => RequestChoice::Exactly(demand(&exactly)?),
            None => RequestChoice::FirstAvailable(alternatives),
        };
        spec.requests.push(ClaimRequest { name, choice });
        Ok(())
    })?;
    devices.each("constraints", |constraint| {
        let matched = constraint.name_of("matchAttribute")?.map(AttributeRule::Match);
        let distinct = constraint.name_of("distinctAttribute")?.map(AttributeRule::Distinct);
        let rule = matched.or(distinct).unwrap_or(AttributeRule::Unknown);
        spec.constraints.push(ClaimConstraint { requests: constraint.texts("requests")?, rule });
        Ok(())
    })?;
    Ok(spec)
}

fn demand(field: &Field<'_>) -> Fault<DeviceDemand> {
    let count = integer(field, "count")?;
    let amount = match &*field.text_of("allocationMode")? {
        "ExactCount" => DeviceAmount::Count(u64::try_from(count).unwrap_or(0)),
        "All" => DeviceAmount::All,
        // What a person leaves out, the API server fills in.
        "" if field.strict() => DeviceAmount::Count(u64::try_from(count.max(1)).unwrap_or(1)),
        _ => DeviceAmount::Unknown,
    };
    let mut demand = DeviceDemand::of(field.text_of("deviceClassName")?, 0);
    demand.amount = amount;
    demand.selectors = selectors(field)?;
    demand.admin = field.flag("adminAccess")?;
    demand.tolerations = tolerations(field)?;
    if let Some(capacity) = field.get("capacity")? {
        demand.capacity = quantities(&capacity, "requests")?;
    }
    Ok(demand)
}

fn read_allocation(field: &Field<'_>) -> Fault<Allocation> {
    let mut allocation = Allocation::default();
    if let Some(selector) = field.get("nodeSelector")? {
        allocation.nodes = Some(node_selector(&selector)?);
    }
    if let Some(devices) = field.get("devices")? {
        devices.each("results", |result| {
            let shared = result.name_of("shareID")?.is_some();
            let consumed = quantities(&result, "consumedCapacity")?;
            let device = AllocatedDevice {
                request: result.text_of("request")?,
                driver: result.text_of("driver")?,
                pool: result.text_of("pool")?,
                device: result.text_of("device")?,
                admin: result.flag("adminAccess")?,
                share: if shared { Some(consumed) } else { None },
            };
            allocation.devices.push(device);
            Ok(())
        })?;
    }
    Ok(allocation)
}

/// Request of one container for a resource.
struct Asked {
    /// The place of the container, and that of the resource among those it requests.
    place: (usize, usize),
    count: u64,
    /// Whether it runs as long as the pod does.
    lasts: bool,
}

/// Requests for resources that a class may serve, in order of containers.
fn extended(spec: &Field<'_>) -> Fault<Vec<ExtendedRequest>> {
    let mut by_resource: BTreeMap<String, Vec<Asked>> = BTreeMap::new();
    let mut index = 0_usize;
    for list in ["initContainers", "containers"] {
        spec.each(list, |container| {
            let lasts = list == "containers" || container.text_of("restartPolicy")? == "Always";
            let mut requests: BTreeMap<String, Quantity> = BTreeMap::new();
            if let Some(resources) = container.get("resources")? {
                requests = quantities(&resources, "requests")?;
            }
            for (place, (resource, amount)) in requests.iter().enumerate() {
                let served = is_extended(resource) || resource.starts_with(CLASS_RESOURCE);
                let count = u64::try_from(amount.ceil()).unwrap_or(0);
                if served && count > 0 {
                    let asked = Asked { place: (index, place), count, lasts };
                    by_resource.entry(resource.clone()).or_default().push(asked);
                }
            }
            index += 1;
            Ok(())
        })?;
    }
    let mut requests: Vec<((usize, usize), ExtendedRequest)> = Vec::new();
    for (resource, asked) in by_resource {
        let mut add = |(container, request): (usize, usize), count: u64| {
            let name = format!("container-{container}-request-{request}");
            let resource = resource.clone();
            requests.push(((container, request), ExtendedRequest { resource, name, count }));
        };
        asked.iter().filter(|own| own.lasts).for_each(|own| add(own.place, own.count));
        // A container that ends uses what those after it will have.
        let later = |at: usize| -> u64 {
            asked[at..].iter().filter(|own| own.lasts).map(|own| own.count).sum()
        };
        let ends = asked.iter().enumerate().filter(|(_, own)| !own.lasts);
        let mut most: Option<(u64, &Asked)> = None;
        for (at, own) in ends {
            let beyond = own.count.saturating_sub(later(at));
            if beyond > most.as_ref().map_or(0, |(most, _)| *most) {
                most = Some((beyond, own));
            }
        }
        if let Some((count, own)) = most {
            add(own.place, count);
        }
    }
    requests.sort_by_key(|(place, _)| *place);
    Ok(requests.into_iter().map(|(_, request)| request).collect())
}
