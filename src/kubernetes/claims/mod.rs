//! Objects of `resource.k8s.io`, and claims of pods.

mod objects;
mod pods;
mod taints;

pub(super) use objects::{ClaimObjects, ClaimSort};
pub use pods::pod_claims;
pub(super) use pods::{ClaimEntry, TemplateUse, claim_entries, claims_of, extended};
pub(super) use taints::{TaintRule, tainted};

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

use super::affinity::{node_selector, tolerations};
use super::field::{Fault, Field};
use super::metadata::{self, of_controller};
use super::mode::Mode;
use super::timestamp::timestamp;
use super::value::Value;
use crate::base::Quantity;
use crate::model::{
    AllocatedDevice, Allocation, Attribute, AttributeRule, ClaimConstraint, ClaimRequest,
    ClaimSpec, CounterSet, CounterUse, DeviceAmount, DeviceCapacity, DeviceClass, DeviceDemand,
    ModelError, NodeReach, PolicyRule, RequestChoice, RequestPolicy, ResourceClaim, ResourceSlice,
    SliceDevice, SubRequest,
};
use crate::state::{ClaimKind, ClaimObject};

/// The API group of claims.
pub(super) const GROUP: &str = "resource.k8s.io";

/// The kind of claim object that an API group and kind name.
pub(super) fn claim_kind(group: &str, kind: &str) -> Option<ClaimKind> {
    if group != GROUP {
        return None;
    }
    Some(match kind {
        "DeviceClass" => ClaimKind::Class,
        "ResourceSlice" => ClaimKind::Slice,
        "ResourceClaim" => ClaimKind::Claim,
        _ => return None,
    })
}

/// The word by which errors name an object of a kind.
pub(super) fn word(kind: ClaimKind) -> &'static str {
    match kind {
        ClaimKind::Class => "deviceclass",
        ClaimKind::Slice => "resourceslice",
        _ => "resourceclaim",
    }
}

/// An object of a kind.
pub(super) fn claim_object(kind: ClaimKind, root: &Field<'_>) -> Fault<ClaimObject> {
    Ok(match kind {
        ClaimKind::Class => class(root)?.into(),
        ClaimKind::Slice => slice(root)?.into(),
        ClaimKind::Claim => claim(root)?.into(),
    })
}

/// The specification in a template of claims.
pub(super) fn claim_template(root: &Field<'_>) -> Fault<Arc<ClaimSpec>> {
    let spec = match root.get("spec")? {
        Some(template) => match template.get("spec")? {
            Some(spec) => match spec.get("devices")? {
                Some(devices) => claim_spec(&devices)?,
                None => ClaimSpec::new(),
            },
            None => return Err(template.fail_at("spec", crate::model::Problem::Required)),
        },
        None => return Err(root.fail_at("spec", crate::model::Problem::Required)),
    };
    Ok(Arc::new(spec))
}

/// A device class from its manifest, whatever kind it states.
///
/// # Errors
/// The manifest cannot be taken.
pub fn device_class(manifest: &Value, mode: Mode) -> Result<DeviceClass, ModelError> {
    let object = metadata::object("deviceclass", false, manifest, mode);
    class(&Field::root(&object, manifest))
}

fn class(root: &Field<'_>) -> Fault<DeviceClass> {
    let mut class = DeviceClass::new(metadata::name(root)?);
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
    slice(&Field::root(&object, manifest))
}

fn slice(root: &Field<'_>) -> Fault<ResourceSlice> {
    let spec = root.need("spec")?;
    let pool = spec.need("pool")?;
    let driver = spec.need("driver")?;
    let mut slice =
        ResourceSlice::new(metadata::name(root)?, driver.text()?, pool.text_of("name")?);
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
    claim(&Field::root(&object, manifest))
}

fn claim(root: &Field<'_>) -> Fault<ResourceClaim> {
    let spec = match root.need("spec")?.get("devices")? {
        Some(devices) => claim_spec(&devices)?,
        None => ClaimSpec::new(),
    };
    let mut claim =
        ResourceClaim::new(metadata::name(root)?, spec).in_namespace(metadata::namespace(root)?);
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

fn read_device(whole: &Field<'_>) -> Fault<SliceDevice> {
    let mut device = SliceDevice::new(whole.text_of("name")?);
    // v1beta1 has all but the name one level down.
    let basic = whole.get("basic")?;
    let field = basic.as_ref().unwrap_or(whole);
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
        device.taints.push(taints::taint(&mark)?);
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
            // v1beta1 has it in the request itself.
            None if request.get("deviceClassName")?.is_some() => {
                RequestChoice::Exactly(demand(&request)?)
            }
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
        // The API server fills in the mode that a person leaves out.
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
