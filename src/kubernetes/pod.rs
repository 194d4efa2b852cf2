//! Pods from their manifests.

use alloc::boxed::Box;
use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::time::Duration;

use super::affinity::{affinity, spread, tolerations};
use super::claims::{TemplateUse, claims_of, extended};
use super::devices::{self, Ask, Held};
use super::field::{Fault, Field};
use super::koordinator;
use super::membership::{Application, Membership, described, membership};
use super::membership::{MadeBy, made_by};
use super::metadata::{
    self, Controller, check_label_name, check_subdomain, controller, unsupported,
};
use super::node::labels;
use super::resources::pod_resources;
use super::storage::{OwnVolume, ephemeral_volumes, volumes};
use super::timestamp::timestamp;
use super::topologies::{self, Wish};
use crate::model::{
    Amounts, ExtendedRequest, HostPort, Pod, PodShape, PreemptionPolicy, Problem, ZonePart,
};

/// The annotation by which a pod says how many seconds it runs at most.
const RUN_TIME: &str = "phalanx.dev/run-time-seconds";

/// The name of the scheduler that takes pods which name none.
pub(super) const DEFAULT_SCHEDULER: &str = "default-scheduler";

/// A pod as one manifest describes it; other objects may add to it.
#[derive(Debug, Clone)]
pub(super) struct PodRecord {
    /// The pod, as far as its own manifest goes.
    pub(super) pod: Pod,
    /// The priority in the manifest.
    pub(super) priority: Option<i32>,
    pub(super) priority_class: Option<Box<str>>,
    /// Whether it preempts others.
    pub(super) preempts: bool,
    /// `None` is the default one.
    pub(super) scheduler: Option<Box<str>>,
    /// The group it is a member of.
    pub(super) membership: Option<Box<Membership>>,
    /// Its limits, if it is of one of Koordinator's classes or bands.
    pub(super) limits: Option<Box<Amounts>>,
    /// Kind and name of the controller that owns it.
    pub(super) controller: Option<Box<Controller>>,
    /// The workloads that it may have been made for.
    pub(super) made_by: Vec<MadeBy>,
    /// Topology request of its dialect.
    pub(super) wish: Option<Box<Wish>>,
    /// Requests for single cards.
    pub(super) asks: Vec<Ask>,
    /// Resources of its containers that kubelet aligns.
    pub(super) parts: Vec<ZonePart>,
    /// The cards that it holds, by its annotations.
    pub(super) held: Option<Box<Held>>,
    /// Claims that are to be made of templates.
    pub(super) templates: Vec<TemplateUse>,
    /// Requests for resources that a class of devices may serve.
    pub(super) extended: Box<[ExtendedRequest]>,
    /// Volumes for which claims are made with the pod.
    pub(super) own_volumes: Vec<OwnVolume>,
    /// How long it runs at most, by its own word.
    #[cfg_attr(not(feature = "scheduler"), allow(dead_code, reason = "only watches read it"))]
    pub(super) run_time: Option<Duration>,
    /// The application that it describes.
    pub(super) application: Option<Box<Application>>,
    /// Fields that are written and not in force, with the reason: such a pod is not placed.
    pub(super) refused: Vec<String>,
    /// The source, and how many objects came before this one.
    pub(super) source: u32,
    pub(super) order: u64,
}

/// The fate of a pod manifest.
#[derive(Debug)]
pub(super) enum Fate {
    /// It runs or waits.
    Kept(Box<PodRecord>),
    /// It has run; it takes no room.
    Finished,
    /// It is being deleted before it ran; no scheduler looks at it.
    Abandoned,
}

/// A pod.
pub(super) fn pod(root: &Field<'_>) -> Fault<Fate> {
    let status = root.get("status")?;
    if let Some(status) = &status
        && matches!(status.text_of("phase")?.as_str(), "Succeeded" | "Failed")
    {
        return Ok(Fate::Finished);
    }
    let name = metadata::name(root)?;
    let namespace = metadata::namespace(root)?;
    let mut record = template(root, namespace)?;
    record.pod.name = name;
    if let Some(start) = status.as_ref().map(|status| status.get("startTime")).transpose()? {
        record.pod.start = start.map(|start| timestamp(&start)).transpose()?;
    }
    if let Some(metadata) = root.get("metadata")? {
        record.pod.uid = metadata.text_of("uid")?;
        record.pod.deleting = metadata.get("deletionTimestamp")?.is_some();
        record.controller = controller(&metadata)?.map(Box::new);
        record.made_by = made_by(&metadata, record.controller.as_deref())?;
    }
    let spec = root.need("spec")?;
    // Claims of the own volumes of a pod that exists are made by a controller.
    if !record.pod.uid.is_empty() && !record.own_volumes.is_empty() {
        let own = (record.pod.name.clone(), record.pod.uid.clone());
        record.pod.shape_mut().volumes = volumes(&spec, Some((&own.0, &own.1)))?;
        record.own_volumes.clear();
    }
    if record.pod.deleting && record.pod.node.is_none() {
        return Ok(Fate::Abandoned);
    }
    Ok(Fate::Kept(Box::new(record)))
}

/// The workloads that a pod may have been made for, whatever has become of it.
pub(super) fn made_by_of(root: &Field<'_>) -> Fault<Vec<MadeBy>> {
    let Some(metadata) = root.get("metadata")? else { return Ok(Vec::new()) };
    made_by(&metadata, controller(&metadata)?.as_ref())
}

/// A pod without a name, as a template describes it.
pub(super) fn template(root: &Field<'_>, namespace: String) -> Fault<PodRecord> {
    let spec = root.need("spec")?;
    let mut shape = PodShape { namespace, labels: labels(root)?, ..PodShape::default() };
    check_containers(&spec)?;
    let node_selector = spec.labels("nodeSelector")?;
    shape.node_selector = node_selector;
    affinity(&spec, &mut shape)?;
    shape.tolerations = tolerations(&spec)?;
    shape.spread = spread(&spec, &shape.labels)?;
    read_containers(&spec, &mut shape)?;
    let effective = pod_resources(root, &spec)?
        .effective()
        .map_err(|problem| spec.fail_at("containers", problem))?;
    shape.requests = effective.requests;
    shape.volumes = volumes(&spec, None)?;
    let (claims, templates) = claims_of(root, &spec, None)?;
    shape.claims = claims;
    shape.existing_requests = effective.existing;
    shape.incoming_requests = effective.incoming;
    let membership = membership(root, &spec)?.map(Box::new);
    let metadata = root.get("metadata")?;
    let (mut application, mut held) = (None, None);
    if let Some(metadata) = &metadata {
        application = described(metadata)?;
        held = devices::held(metadata)?;
        shape.zones.least = devices::wanted(metadata)?;
    }
    let limits = koordinator::limits(&spec, &shape.labels, &shape.requests)?;
    let mut pod = Pod::of_shape(shape.into());
    let preempts = spec.text_of("preemptionPolicy")? != "Never";
    if !preempts {
        pod.preemption_policy = PreemptionPolicy::Never;
    }
    pod.node = spec.name_of("nodeName")?;
    pod.scheduling_gates = gates(&spec, pod.node.is_some())?;
    let scheduler = spec.name_of("schedulerName")?.filter(|name| name != DEFAULT_SCHEDULER);
    Ok(PodRecord {
        pod,
        priority: spec.get("priority")?.map(|field| field.int32()).transpose()?,
        priority_class: spec.name_of("priorityClassName")?.map(String::into_boxed_str),
        preempts,
        scheduler: scheduler.map(String::into_boxed_str),
        membership,
        limits,
        controller: None,
        made_by: Vec::new(),
        wish: wish(root)?.map(Box::new),
        asks: devices::asks(metadata.as_ref(), &spec)?,
        parts: devices::parts(&spec)?,
        held: held.map(Box::new),
        templates,
        extended: extended(&spec)?,
        own_volumes: ephemeral_volumes(&spec)?,
        run_time: run_time(root),
        application: application.map(Box::new),
        refused: Vec::new(),
        source: 0,
        order: 0,
    })
}

/// Run time of a pod by its annotation [`RUN_TIME`], or else by `spec.activeDeadlineSeconds`. Anything but
/// a positive number of seconds is no estimate.
fn run_time(root: &Field<'_>) -> Option<Duration> {
    let annotation = || {
        let annotations = root.value.entry("metadata")?.entry("annotations")?;
        annotations.entry(RUN_TIME)?.text()?.parse().ok()
    };
    let deadline = || root.value.entry("spec")?.entry("activeDeadlineSeconds")?.integer();
    let seconds = annotation().or_else(deadline).and_then(|own| u64::try_from(own).ok())?;
    (seconds > 0).then(|| Duration::from_secs(seconds))
}

/// Topology request in the annotations of a pod or of a template.
fn wish(root: &Field<'_>) -> Fault<Option<Wish>> {
    let Some(metadata) = root.get("metadata")? else { return Ok(None) };
    let Some(annotations) = metadata.get("annotations")? else { return Ok(None) };
    match topologies::kueue(&annotations)? {
        Some(wish) => Ok(Some(wish)),
        None => topologies::kai(&annotations),
    }
}

/// Refuses container lists that no API server would take.
fn check_containers(spec: &Field<'_>) -> Fault<()> {
    if !spec.strict() {
        return Ok(());
    }
    let mut names = BTreeSet::new();
    let mut check = |container: Field<'_>| {
        let field = container.need("name")?;
        let name = field.text()?;
        check_label_name(&field, name)?;
        if !names.insert(String::from(name)) {
            return Err(field.fail(Problem::Duplicate(name.into())));
        }
        Ok(())
    };
    if spec.each("containers", &mut check)? == 0 {
        return Err(spec.fail_at("containers", Problem::Required));
    }
    spec.each("initContainers", &mut check)?;
    spec.each("initContainers", |container| {
        let Some(policy) = container.get("restartPolicy")? else { return Ok(()) };
        match policy.text()? {
            "Always" | "OnFailure" | "Never" => Ok(()),
            other => Err(unsupported(&policy, other, &["Always", "OnFailure", "Never"])),
        }
    })?;
    if let Some(node) = spec.get("nodeName")? {
        let name = node.text()?;
        if !name.is_empty() {
            check_subdomain(&node, name)?;
        }
    }
    Ok(())
}

/// Ports, images and the number of containers.
fn read_containers(spec: &Field<'_>, shape: &mut PodShape) -> Fault<()> {
    let on_host = spec.strict() && spec.flag("hostNetwork")?;
    let (mut count, mut seen) = (0_u32, BTreeSet::new());
    for list in ["initContainers", "containers"] {
        spec.each(list, |container| {
            count = count.saturating_add(1);
            shape.images.push(container.text_of("image")?);
            let runs = list == "containers" || container.text_of("restartPolicy")? == "Always";
            ports(&container, on_host, runs.then_some((&mut shape.ports, &mut seen)))
        })?;
    }
    shape.containers = count;
    spec.each("volumes", |volume| {
        if let Some(image) = volume.get("image")? {
            shape.images.push(image.text_of("reference")?);
        }
        Ok(())
    })?;
    Ok(())
}

/// Reads the ports of a container; only those of containers that run on are taken.
fn ports(
    container: &Field<'_>,
    on_host: bool,
    mut taken: Option<(&mut Vec<HostPort>, &mut BTreeSet<HostPort>)>,
) -> Fault<()> {
    container.each("ports", |field| {
        let number = |name: &str| -> Fault<i64> {
            match field.get(name)? {
                None => Ok(0),
                // Zero is what an absent number is stored as.
                Some(port) if port.integer()? == 0 => Ok(0),
                Some(port) => port.within(1, 65_535),
            }
        };
        let (container_port, mut host_port) = (number("containerPort")?, number("hostPort")?);
        if field.strict() && container_port == 0 {
            return Err(field.fail_at("containerPort", Problem::Required));
        }
        if on_host {
            if host_port != 0 && host_port != container_port {
                let text = "must equal containerPort with hostNetwork".to_string();
                return Err(field.fail_at("hostPort", Problem::Invalid(text)));
            }
            host_port = container_port;
        }
        let protocol = field.name_of("protocol")?.unwrap_or_else(|| "TCP".into());
        if field.strict() && !matches!(protocol.as_str(), "TCP" | "UDP" | "SCTP") {
            let at = field.need("protocol")?;
            return Err(unsupported(&at, &protocol, &["TCP", "UDP", "SCTP"]));
        }
        let ip = field.name_of("hostIP")?.unwrap_or_else(|| "0.0.0.0".into());
        let Some((taken, seen)) = taken.as_mut().filter(|_| host_port > 0) else { return Ok(()) };
        let port = HostPort { ip, protocol, port: u16::try_from(host_port).unwrap_or_default() };
        if field.strict() && !seen.insert(port.clone()) {
            let twice = format!("{}/{}", port.protocol, port.port);
            return Err(field.fail_at("hostPort", Problem::Duplicate(twice)));
        }
        taken.push(port);
        Ok(())
    })?;
    Ok(())
}

fn gates(spec: &Field<'_>, bound: bool) -> Fault<Vec<String>> {
    let mut gates: Vec<String> = Vec::new();
    let mut seen = BTreeSet::new();
    spec.each("schedulingGates", |gate| {
        let name = gate.text_of("name")?;
        if gate.strict() {
            crate::model::selector::check_key(&name)
                .map_err(|error| gate.fail_at("name", Problem::Invalid(error.to_string())))?;
            if !seen.insert(name.clone()) {
                return Err(gate.fail_at("name", Problem::Duplicate(name)));
            }
        }
        gates.push(name);
        Ok(())
    })?;
    if spec.strict() && bound && !gates.is_empty() {
        let text = "must be empty once the pod has a nodeName".to_string();
        return Err(spec.fail_at("schedulingGates", Problem::Invalid(text)));
    }
    Ok(gates)
}
