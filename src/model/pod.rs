//! Pods.

use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

use super::affinity::{NodeAffinity, PodAffinityTerm};
use super::claims::{ClaimAllocation, ClaimSource, ClaimSpec, PodClaim};
use super::device::zone::{ZonePart, ZonePolicy, ZoneShare};
use super::device::{DeviceAsk, DeviceRequest};
#[cfg(feature = "kubernetes")]
use super::effective::PodResources;
use super::error::{Defect, ModelError, Problem};
use super::resources::{IntoQuantity, amount_of};
use super::shape::{HostPort, PodShape};
use super::spread::SpreadConstraint;
use super::taint::Toleration;
use super::volume::PodVolume;
use crate::base::{ObjectName, Time};

/// One pod: a name, a [`PodShape`], and what ordering and preemption read beside it.
///
/// Cloning shares the shape.
///
/// ```
/// use phalanx::Pod;
///
/// let pod = Pod::new().name("trainer-0").request("cpu", "500m").request("nvidia.com/gpu", 1);
/// assert_eq!(pod.shape().requests.of("cpu"), 500);
/// assert!(pod.check().is_ok());
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "camelCase", default))]
#[non_exhaustive]
pub struct Pod {
    /// The name; unique in its namespace. Empty until a group names it.
    pub name: String,
    /// The identity that survives the name being used again; may be empty.
    pub uid: String,
    /// A number of the embedder's own, handed back untouched.
    pub key: u64,
    /// Higher goes first.
    pub priority: i32,
    /// The node it is bound to.
    pub node: Option<String>,
    /// The name of its [`PodGroup`](super::PodGroup), in the same namespace.
    pub group: Option<String>,
    /// Whether it is being deleted: it still takes room.
    pub deleting: bool,
    /// Time of its start; `None` if it does not run yet, or if the time is not known.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Option::is_none"))]
    pub start: Option<Time>,
    /// Whether it may preempt. Read of pods that are to be placed.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "PreemptionPolicy::is_default"))]
    pub preemption_policy: PreemptionPolicy,
    /// Reasons for which it must not be placed yet.
    pub scheduling_gates: Vec<String>,
    /// The devices it holds on its node, one list a device request: indexes of the node's
    /// devices. Empty for a pod that is not bound or asks for none.
    #[cfg_attr(not(feature = "devices"), doc(hidden))]
    pub device_indexes: Vec<Vec<u32>>,
    /// The devices of its claims that it was placed with. Claims that were allocated without it are
    /// not among them.
    #[cfg_attr(not(feature = "devices"), doc(hidden))]
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Vec::is_empty"))]
    pub allocations: Vec<ClaimAllocation>,
    /// Amounts that it holds of the NUMA zones of its node; of a zone that the node does not have
    /// nothing is held.
    #[cfg_attr(not(feature = "devices"), doc(hidden))]
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Vec::is_empty"))]
    pub zone_shares: Vec<ZoneShare>,
    shape: Arc<PodShape>,
    #[cfg_attr(feature = "serde", serde(skip))]
    defect: Defect,
}

/// Whether a pod that does not fit may preempt others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub enum PreemptionPolicy {
    /// It may preempt, as the policy of the request allows.
    #[default]
    PreemptLowerPriority,
    /// It never preempts, and neither does a group that it is a member of.
    Never,
}

impl PreemptionPolicy {
    #[cfg(feature = "serde")]
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
    fn is_default(&self) -> bool {
        *self == PreemptionPolicy::default()
    }
}

impl Pod {
    /// A pod with one container that asks for nothing, in namespace `default`.
    pub fn new() -> Pod {
        Pod::default()
    }

    /// A pod of a shape.
    pub fn of_shape(shape: Arc<PodShape>) -> Pod {
        Pod { shape, ..Pod::default() }
    }

    /// The pod with another shape.
    #[must_use]
    pub fn with_shape(mut self, shape: Arc<PodShape>) -> Pod {
        self.shape = shape;
        self
    }

    /// The shape.
    pub fn shape(&self) -> &Arc<PodShape> {
        &self.shape
    }

    /// The shape for writing; copied first if other pods share it.
    pub fn shape_mut(&mut self) -> &mut PodShape {
        Arc::make_mut(&mut self.shape)
    }

    /// The namespace.
    pub fn namespace(&self) -> &str {
        &self.shape.namespace
    }

    /// The full name: `namespace/name`.
    pub fn full_name(&self) -> ObjectName {
        ObjectName::new(self.namespace(), &self.name)
    }

    /// Sets the name.
    #[must_use]
    pub fn name(mut self, name: impl Into<String>) -> Pod {
        self.name = name.into();
        self
    }

    /// Sets the namespace.
    #[must_use]
    pub fn in_namespace(mut self, namespace: impl Into<String>) -> Pod {
        self.shape_mut().namespace = namespace.into();
        self
    }

    /// Sets the identity that survives the name.
    #[must_use]
    pub fn uid(mut self, uid: impl Into<String>) -> Pod {
        self.uid = uid.into();
        self
    }

    /// Sets the embedder's own number.
    #[must_use]
    pub fn key(mut self, key: u64) -> Pod {
        self.key = key;
        self
    }

    /// Sets the priority.
    #[must_use]
    pub fn priority(mut self, priority: i32) -> Pod {
        self.priority = priority;
        self
    }

    /// Binds the pod to a node.
    #[must_use]
    pub fn on(mut self, node: impl Into<String>) -> Pod {
        self.node = Some(node.into());
        self
    }

    /// Sets since when it runs.
    #[must_use]
    pub fn since(mut self, start: Time) -> Pod {
        self.start = Some(start);
        self
    }

    /// Forbids it to preempt.
    #[must_use]
    pub fn never_preempting(mut self) -> Pod {
        self.preemption_policy = PreemptionPolicy::Never;
        self
    }

    /// Marks the pod as one that is being deleted: it still takes room.
    #[must_use]
    pub fn deleting(mut self) -> Pod {
        self.deleting = true;
        self
    }

    /// Adds a reason for which the pod must not be placed yet.
    #[must_use]
    pub fn scheduling_gate(mut self, reason: impl Into<String>) -> Pod {
        self.scheduling_gates.push(reason.into());
        self
    }

    /// Makes the pod a member of a group.
    #[must_use]
    pub fn in_group(mut self, group: impl Into<String>) -> Pod {
        self.group = Some(group.into());
        self
    }

    /// Asks for an amount of a resource.
    #[must_use]
    pub fn request(mut self, resource: &str, quantity: impl IntoQuantity) -> Pod {
        let parsed = quantity.into_quantity().map_err(Problem::from);
        match parsed.and_then(|quantity| amount_of(resource, quantity)) {
            Ok(amount) => self.shape_mut().set_request(resource, amount),
            Err(problem) => self.defect.note(format!("requests.{resource}"), problem),
        }
        self
    }

    /// Sets all requests at once from those of several containers.
    #[cfg(feature = "kubernetes")]
    #[must_use]
    pub fn resources(mut self, resources: &PodResources) -> Pod {
        match resources.effective() {
            Ok(effective) => {
                let shape = self.shape_mut();
                shape.requests = effective.requests;
                shape.existing_requests = effective.existing;
                shape.incoming_requests = effective.incoming;
                let containers = resources.containers.len() + resources.init_containers.len();
                shape.containers = u32::try_from(containers).unwrap_or(u32::MAX);
            }
            Err(problem) => self.defect.note("resources", problem),
        }
        self
    }

    /// Sets a label.
    #[must_use]
    pub fn label(mut self, key: impl Into<String>, value: impl Into<String>) -> Pod {
        self.shape_mut().labels.insert(key.into(), value.into());
        self
    }

    /// Asks for a node with a label.
    #[must_use]
    pub fn node_selector(mut self, key: impl Into<String>, value: impl Into<String>) -> Pod {
        self.shape_mut().node_selector.insert(key.into(), value.into());
        self
    }

    /// Sets the wishes about nodes.
    #[must_use]
    pub fn node_affinity(mut self, affinity: NodeAffinity) -> Pod {
        self.shape_mut().node_affinity = Some(affinity);
        self
    }

    /// Consents to taints.
    #[must_use]
    pub fn toleration(mut self, toleration: Toleration) -> Pod {
        self.shape_mut().tolerations.push(toleration);
        self
    }

    /// Asks to be spread over domains.
    #[must_use]
    pub fn spread(mut self, constraint: SpreadConstraint) -> Pod {
        self.shape_mut().spread.push(constraint);
        self
    }

    /// Asks for company in the domain.
    #[must_use]
    pub fn affinity(mut self, term: PodAffinityTerm) -> Pod {
        self.shape_mut().pod_affinity.push(term);
        self
    }

    /// Asks for no such company in the domain.
    #[must_use]
    pub fn anti_affinity(mut self, term: PodAffinityTerm) -> Pod {
        self.shape_mut().pod_anti_affinity.push(term);
        self
    }

    /// Takes a port of the node, on all of its addresses.
    #[must_use]
    pub fn host_port(mut self, protocol: impl Into<String>, port: u16) -> Pod {
        let ip = String::from("0.0.0.0");
        self.shape_mut().ports.push(HostPort { ip, protocol: protocol.into(), port });
        self
    }

    /// Asks for devices.
    #[cfg(feature = "devices")]
    #[must_use]
    pub fn device(mut self, request: DeviceRequest) -> Pod {
        self.shape_mut().devices.push(request);
        self
    }

    /// Names a claim of its namespace, which other pods may name too. Its name in the pod is the
    /// same.
    #[cfg(feature = "devices")]
    #[must_use]
    pub fn claim(mut self, name: impl Into<String>) -> Pod {
        let name = name.into();
        let source = ClaimSource::Named(name.clone());
        self.shape_mut().claims.push(PodClaim { name, source });
        self
    }

    /// Claims devices for itself alone.
    ///
    /// ```
    /// use phalanx::Pod;
    /// use phalanx::model::{ClaimSpec, DeviceDemand};
    ///
    /// let gpus = ClaimSpec::new().request("gpus", DeviceDemand::of("gpu", 8)).same("gpu.example.com/island");
    /// assert!(Pod::new().own_claim("gpus", gpus).check().is_ok());
    /// ```
    #[cfg(feature = "devices")]
    #[must_use]
    pub fn own_claim(mut self, name: impl Into<String>, spec: ClaimSpec) -> Pod {
        let source = ClaimSource::Own(Arc::new(spec));
        self.shape_mut().claims.push(PodClaim { name: name.into(), source });
        self
    }

    /// Sets the devices it holds on its node: one list for each device request.
    #[cfg(feature = "devices")]
    #[must_use]
    pub fn holding(mut self, devices: impl IntoIterator<Item = Vec<u32>>) -> Pod {
        self.device_indexes = devices.into_iter().collect();
        self
    }

    /// Adds resources of one container that nodes with NUMA zones align. They are a part of what the
    /// pod requests, and do not add to it.
    #[cfg(feature = "devices")]
    #[must_use]
    pub fn zone_part(mut self, part: ZonePart) -> Pod {
        self.shape_mut().zones.parts.push(part);
        self
    }

    /// Wants a node that aligns at least so strictly.
    #[cfg(feature = "devices")]
    #[must_use]
    pub fn aligned(mut self, least: ZonePolicy) -> Pod {
        self.shape_mut().zones.least = least;
        self
    }

    /// Mounts a claim of its namespace.
    #[cfg(feature = "volumes")]
    #[must_use]
    pub fn volume_claim(mut self, claim: impl Into<String>) -> Pod {
        self.shape_mut().volumes.push(PodVolume::Claim(claim.into()));
        self
    }

    /// Mounts a volume.
    #[cfg(feature = "volumes")]
    #[must_use]
    pub fn volume(mut self, volume: PodVolume) -> Pod {
        self.shape_mut().volumes.push(volume);
        self
    }

    /// Sets an attribute for the embedder's own plugins.
    #[must_use]
    pub fn attribute(mut self, key: impl Into<String>, value: impl Into<String>) -> Pod {
        self.shape_mut().attributes.insert(key.into(), value.into());
        self
    }

    /// Whether a cluster or a group can take the pod; the name is not looked at.
    ///
    /// # Errors
    /// A quantity given to the builder was malformed, or an amount is negative. A device request asks
    /// for no device, or lies beside none before it. The devices held are not the ones requested:
    /// one list for each request, of as many devices as it asks for, all different.
    pub fn check(&self) -> Result<(), ModelError> {
        self.check_after(None)
    }

    /// [`Pod::check`], where a shape is known to be sound: if it is the pod's, it is not checked again.
    pub(crate) fn check_after(&self, sound: Option<&Arc<PodShape>>) -> Result<(), ModelError> {
        let object = || format!("pod {}/{}", self.shape.namespace, self.name);
        self.defect.check(object)?;
        if !sound.is_some_and(|sound| Arc::ptr_eq(sound, &self.shape)) {
            self.check_shape(object)?;
        }
        if !self.device_indexes.is_empty() {
            self.check_device_indexes(object)?;
        }
        let held = self.zone_shares.iter().flat_map(|share| share.amounts.iter());
        if held.map(|(_, amount)| amount).any(|amount| amount < 0) {
            return Err(ModelError::new(object(), "zone_shares", Problem::Negative));
        }
        Ok(())
    }

    fn check_shape(&self, object: impl Fn() -> String) -> Result<(), ModelError> {
        let shape = &*self.shape;
        if let Some((resource, _)) = shape.requests.iter().find(|(_, amount)| *amount < 0) {
            let field = format!("requests.{resource}");
            return Err(ModelError::new(object(), field, Problem::Negative));
        }
        let scored = shape.incoming_requests.iter().map(|(_, amount)| amount);
        if scored.chain(shape.existing_requests).any(|amount| amount < 0) {
            return Err(ModelError::new(object(), "requests", Problem::Negative));
        }
        for (index, request) in shape.devices.iter().enumerate() {
            let (DeviceAsk::Whole { count } | DeviceAsk::Shares { count, .. }) = request.ask;
            if count == 0 {
                let field = format!("devices[{index}].count");
                return Err(ModelError::new(object(), field, Problem::Required));
            }
            if let Some(beside) = request.beside {
                let other = shape.devices[..index].get(beside.request as usize);
                let text = match other {
                    None => Some("must be a request before this one"),
                    Some(other) if other.beside.is_some() => {
                        Some("must be a request that lies beside none itself")
                    }
                    Some(_) if request.names_group() => {
                        Some("goes with no rule for islands, NUMA nodes or profiles")
                    }
                    Some(_) => None,
                };
                if let Some(text) = text {
                    let field = format!("devices[{index}].beside");
                    return Err(ModelError::new(object(), field, Problem::Invalid(text.into())));
                }
            }
            if let DeviceAsk::Shares { each, .. } = &request.ask
                && each.iter().any(|(_, amount)| amount < 0)
            {
                let field = format!("devices[{index}].each");
                return Err(ModelError::new(object(), field, Problem::Negative));
            }
        }
        let parts = shape.zones.parts.iter().flat_map(|part| part.amounts.iter());
        if parts.map(|(_, amount)| amount).any(|amount| amount < 0) {
            return Err(ModelError::new(object(), "zones.parts", Problem::Negative));
        }
        Ok(())
    }

    fn check_device_indexes(&self, object: impl Fn() -> String) -> Result<(), ModelError> {
        let requests = &self.shape.devices;
        let error = |field: String, text: &str| {
            Err(ModelError::new(object(), field, Problem::Invalid(text.into())))
        };
        if self.device_indexes.len() != requests.len() {
            return error("device_indexes".into(), "must have one list for each device request");
        }
        let mut all: Vec<u32> = Vec::new();
        for (index, (held, request)) in self.device_indexes.iter().zip(requests).enumerate() {
            if held.len() != request.count() as usize {
                let field = format!("device_indexes[{index}]");
                return error(field, "must have as many devices as the request asks for");
            }
            all.extend(held);
        }
        all.sort_unstable();
        if all.windows(2).any(|pair| pair[0] == pair[1]) {
            return error("device_indexes".into(), "must name each device once");
        }
        Ok(())
    }
}
