//! Koordinator's `Reservation`, read as a booking.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::time::Duration;

use super::super::affinity::label_selector;
use super::super::duration::go_duration;
use super::super::field::{Fault, Field};
use super::super::membership::WorkloadKind;
use super::super::mode::Mode;
use super::super::timestamp::timestamp;
use super::super::value::Value;
use super::super::{account, metadata, pod};
use crate::model::{
    LabelSelector, ModelError, NodeSelector, NodeSelectorTerm, Operator, Pod, PodGroup, Requirement,
};
use crate::queue::{Booking, BookingOwner};
use crate::{ObjectName, Time};

/// The life of a reservation that states none.
const LIFE: Duration = Duration::from_secs(24 * 3_600);

/// A booking from the manifest of Koordinator's `Reservation` (`scheduling.koordinator.sh`), as it
/// stands at a time; `None` if it is over: it expired, or its status says `Succeeded` or `Failed`.
///
/// | field | booking |
/// |---|---|
/// | `metadata.name`, `creationTimestamp` | its name, and the begin of its window; now if that is missing |
/// | `spec.template` | room for one such pod; `nodeName` keeps it on that node |
/// | `status.nodeName` | while the phase is `Available`: the room stays on that node |
/// | `spec.expires`, else `spec.ttl` | the end of the window: 24 hours after the begin if neither is stated, and never for a `ttl` of 0 |
/// | `spec.owners[].object` | the pod of that name; a namespace alone stands for all of its pods |
/// | `spec.owners[].controller` | the group of a job or set of that name |
/// | `spec.owners[].labelSelector` | groups all of whose waiting pods have the labels |
/// | `spec.allocateOnce` | [`Booking::once`]; true if it is not stated |
///
/// A pod of an owner uses the whole room. Koordinator keeps the rest for more owners if `allocateOnce` is
/// false; here the rest is free for all, and the room is kept again when the owner ends.
///
/// `allocatePolicy` may be empty, `Default` or `Aligned`: an owner that asks for more than the room takes
/// free room of the node too. Pass the booking to
/// [`Scheduler::handle_booking`](crate::Scheduler::handle_booking), and its name to
/// [`Scheduler::handle_booking_removed`](crate::Scheduler::handle_booking_removed) when it is deleted or
/// over.
///
/// ```
/// use phalanx::kubernetes::queues::reservation;
/// use phalanx::kubernetes::{Mode, Value};
/// use phalanx::Time;
///
/// let manifest: Value = serde_json::from_str(
///     r#"{
///         "apiVersion": "scheduling.koordinator.sh/v1alpha1", "kind": "Reservation",
///         "metadata": {"name": "release"},
///         "spec": {
///             "ttl": "1h",
///             "owners": [{"labelSelector": {"matchLabels": {"app": "release"}}}],
///             "template": {"spec": {"containers": [
///                 {"name": "main", "resources": {"requests": {"cpu": "4"}}}
///             ]}}
///         }
///     }"#,
/// )?;
/// let booking = reservation(&manifest, Mode::AsWritten, Time::from_secs(60))?.expect("it is not over");
/// assert_eq!((booking.until, booking.once), (Time::from_secs(3_660), true));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// The manifest cannot be taken, or states what no booking honours; the error names the field. That is
/// `Restricted`, preallocation, taints and `unschedulable`. Owners by `uid` are refused too, by several
/// parts at once, and by controllers whose pods stand each by itself.
pub fn reservation(manifest: &Value, mode: Mode, now: Time) -> Result<Option<Booking>, ModelError> {
    let object = metadata::object("reservation", false, manifest, mode);
    let root = Field::root(&object, manifest);
    let name = metadata::name(&root)?;
    let mut there = None;
    if let Some(status) = root.get("status")? {
        match status.text_of("phase")?.as_str() {
            "Succeeded" | "Failed" => return Ok(None),
            "Available" => there = status.name_of("nodeName")?,
            _ => {}
        }
    }
    let spec = root.need("spec")?;
    let own = root.need("metadata")?;
    let from = own.get("creationTimestamp")?.map(|at| timestamp(&at)).transpose()?;
    let from = from.unwrap_or(now);
    let until = end(&spec, from)?;
    check_spec(&spec)?;
    let template = spec.need("template")?;
    let mut pod = room(&template, mode)?;
    if let Some(node) = there {
        stay_on(&mut pod, &node);
    }
    let room = PodGroup::of("reservation", 1, pod);
    let mut booking = Booking::new(name, room, (from, until));
    spec.each("owners", |owner| {
        booking.owners.extend(owners(&owner)?);
        Ok(())
    })?;
    if booking.owners.is_empty() {
        return Err(spec.fail_at("owners", crate::model::Problem::Required));
    }
    booking.once = match spec.get("allocateOnce")? {
        Some(once) => once.boolean()?,
        None => true,
    };
    Ok((until > now && until > from).then_some(booking))
}

/// The end of the window.
fn end(spec: &Field<'_>, from: Time) -> Fault<Time> {
    if let Some(expires) = spec.get("expires")? {
        return timestamp(&expires);
    }
    let Some(ttl) = spec.get("ttl")? else { return Ok(from.after(LIFE)) };
    let life = go_duration(ttl.text()?).ok_or_else(|| ttl.invalid("is no duration"))?;
    Ok(if life.is_zero() { Time::MAX } else { from.after(life) })
}

/// Refuses the fields that no booking honours.
fn check_spec(spec: &Field<'_>) -> Fault<()> {
    for name in ["preAllocation", "unschedulable"] {
        if spec.flag(name)? {
            return Err(spec.fail_at(name, invalid("no booking honours it")));
        }
    }
    for name in ["preAllocationPolicy", "taints"] {
        if spec.get(name)?.is_some() {
            return Err(spec.fail_at(name, invalid("no booking honours it")));
        }
    }
    let policy = spec.text_of("allocatePolicy")?;
    if !matches!(policy.as_str(), "" | "Default" | "Aligned") {
        return Err(spec.fail_at("allocatePolicy", invalid("an owner may take free room too")));
    }
    Ok(())
}

fn invalid(text: &str) -> crate::model::Problem {
    crate::model::Problem::Invalid(String::from(text))
}

/// The pod that room is kept for.
fn room(template: &Field<'_>, mode: Mode) -> Fault<Pod> {
    if let Some(refused) = account::refused(template.value, "v1", "Pod", mode).into_iter().next() {
        return Err(template.invalid(refused));
    }
    let namespace = match template.get("metadata")? {
        Some(metadata) => metadata.name_of("namespace")?,
        None => None,
    };
    let namespace = namespace.unwrap_or_else(|| String::from("default"));
    let mut pod = pod::template(template, namespace)?.pod;
    pod.scheduling_gates.clear();
    if let Some(node) = pod.node.take() {
        stay_on(&mut pod, &node);
    }
    Ok(pod)
}

/// Keeps a pod on a node, beside what it asks for itself.
fn stay_on(pod: &mut Pod, node: &str) {
    let mut affinity = pod.shape().node_affinity.clone().unwrap_or_default();
    let none = || NodeSelector { terms: alloc::vec![NodeSelectorTerm::default()] };
    let mut required = affinity.required.take().unwrap_or_else(none);
    for term in &mut required.terms {
        term.match_fields.push(Requirement::new("metadata.name", Operator::In, [node]));
    }
    affinity.required = Some(required);
    pod.shape_mut().node_affinity = Some(affinity);
}

/// The owners of a booking that one owner of a reservation stands for.
fn owners(owner: &Field<'_>) -> Fault<Vec<BookingOwner>> {
    let (object, controller) = (owner.get("object")?, owner.get("controller")?);
    let selector = label_selector(owner, "labelSelector")?;
    match (object, controller, selector) {
        (Some(object), None, None) => Ok(alloc::vec![by_object(&object)?]),
        (None, Some(controller), None) => by_controller(&controller),
        (None, None, Some(selector)) => {
            Ok(alloc::vec![BookingOwner::Pods { namespace: None, selector }])
        }
        (None, None, None) => Err(owner.invalid("names no owner")),
        _ => Err(owner.invalid("an owner of several parts is not read")),
    }
}

fn by_object(object: &Field<'_>) -> Fault<BookingOwner> {
    for name in ["uid", "resourceVersion", "fieldPath"] {
        if !object.text_of(name)?.is_empty() {
            return Err(object.fail_at(name, invalid("pods are told apart by their names")));
        }
    }
    if !matches!(object.text_of("kind")?.as_str(), "" | "Pod") {
        return Err(object.fail_at("kind", invalid("an owner is a pod")));
    }
    let (namespace, name) = (object.name_of("namespace")?, object.name_of("name")?);
    match (namespace, name) {
        (Some(namespace), Some(name)) => Ok(BookingOwner::Pod(ObjectName::new(&namespace, &name))),
        (None, Some(_)) => {
            Err(object.fail_at("namespace", invalid("a name without a namespace is not read")))
        }
        (namespace @ Some(_), None) => {
            Ok(BookingOwner::Pods { namespace, selector: LabelSelector::default() })
        }
        (None, None) => Err(object.invalid("names no pod")),
    }
}

fn by_controller(controller: &Field<'_>) -> Fault<Vec<BookingOwner>> {
    if !controller.text_of("uid")?.is_empty() {
        return Err(controller.fail_at("uid", invalid("controllers are told apart by their names")));
    }
    let version = controller.text_of("apiVersion")?;
    let api = version.split_once('/').map_or("", |(api, _)| api);
    let kind = controller.text_of("kind")?;
    let found = WorkloadKind::of(api, &kind).filter(|kind| {
        !kind.is_of_others() && !kind.is_of_single_pods() && *kind != WorkloadKind::Deployment
    });
    let Some(kind) = found else {
        let why = invalid("its pods are no group that waits as one");
        return Err(controller.fail_at("kind", why));
    };
    let name = controller.need("name")?;
    let name = name.text()?;
    let namespace = controller.name_of("namespace")?;
    let namespace = namespace.unwrap_or_else(|| String::from("default"));
    let group = |name: &str| BookingOwner::Group(ObjectName::new(&namespace, name));
    // Its group has a prefix where names of several kinds meet.
    Ok(alloc::vec![group(name), group(&format!("{}{name}", kind.prefix()))])
}
