//! Promises that a plan can break.

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use crate::base::clip::clip;
use crate::model::ModelError;

/// A plan that breaks promises.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Unsound {
    /// The promises broken; at least one.
    pub broken: Vec<Broken>,
}

impl fmt::Display for Unsound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, broken) in self.broken.iter().enumerate() {
            write!(f, "{}{broken}", if at == 0 { "" } else { "; " })?;
        }
        Ok(())
    }
}

impl core::error::Error for Unsound {}

/// A promise that a plan breaks. Pods and groups are named in full, `namespace/name`; a slice is
/// named by its group and its number, `namespace/name[2]`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Broken {
    /// The request is no sound group, so nothing is promised.
    #[error(transparent)]
    Request(ModelError),
    /// The plan is of another group.
    #[error("the plan is of group {}", clip(.0))]
    OtherGroup(String),
    /// The plan places nothing.
    #[error("the plan is empty")]
    Empty,
    /// A pod is not in the request, or not as it is there.
    #[error("pod {} is not of the request", clip(.0))]
    UnknownPod(String),
    /// A pod is placed more than once.
    #[error("pod {} is placed twice", clip(.0))]
    Twice(String),
    /// A pod is placed that has scheduling gates.
    #[error("pod {} has scheduling gates", clip(.0))]
    Gated(String),
    /// A pod is placed that is bound.
    #[error("pod {} is bound already", clip(.0))]
    AlreadyBound(String),
    /// A pod is left out where all are promised.
    #[error("pod {} is left out", clip(.0))]
    LeftOut(String),
    /// The node of a pod is not in the cluster.
    #[error("pod {}: there is no node {}", clip(.pod), clip(.node))]
    UnknownNode {
        /// The pod.
        pod: String,
        /// The node.
        node: String,
    },
    /// The node of a pod is outside the domain that the request stays within.
    #[error("pod {}: node {} is outside of {}={}", clip(.pod), clip(.node), clip(.key), clip(.value))]
    Outside {
        /// The pod.
        pod: String,
        /// The node.
        node: String,
        /// The node label key.
        key: String,
        /// The value asked for.
        value: String,
    },
    /// Fewer members than the minimum: pods of a leaf, groups of a group of groups.
    #[error("group {}: {have} of a minimum of {need} members", clip(.group))]
    BelowMinimum {
        /// The group.
        group: String,
        /// How many are placed or run.
        have: usize,
        /// The minimum.
        need: u32,
    },
    /// Fewer pods in a group of groups than [`PodGroup::min_pods`](crate::model::PodGroup::min_pods).
    #[error("group {}: {have} of a minimum of {need} pods", clip(.group))]
    BelowMinPods {
        /// The group.
        group: String,
        /// How many are placed or run.
        have: usize,
        /// The minimum.
        need: u32,
    },
    /// A slice is placed in part.
    #[error("slice {}: {placed} of {size} pods are placed", clip(.slice))]
    HalfSlice {
        /// The slice.
        slice: String,
        /// How many of its pods are placed.
        placed: usize,
        /// How many it has.
        size: usize,
    },
    /// Members are in more than one domain, or in none, where one is required.
    #[error("{} is in more than one {}, or in none: {domains:?}", clip(.group), clip(.key))]
    Scattered {
        /// The group or slice; for a leader, the leader.
        group: String,
        /// The key required.
        key: String,
        /// The domains found, in order; a node in none is named as `node <name>`.
        domains: Vec<String>,
    },
    /// Members are on several nodes, or hold devices outside one island, where one is required.
    #[error("group {}: not in one island: {places:?}", clip(.group))]
    Islands {
        /// The group.
        group: String,
        /// The nodes, and the islands as `node/island`, in order.
        places: Vec<String>,
    },
    /// A claim gets no storage, or such that it may not have.
    #[error("pod {}: {}", clip(.pod), clip(.problem))]
    Volumes {
        /// The pod.
        pod: String,
        /// The claim, and why.
        problem: String,
    },
    /// A node attaches more volumes of a driver than it can.
    #[error("node {}: {count} volumes of driver {}", clip(.node), clip(.driver))]
    Attached {
        /// The node.
        node: String,
        /// The driver.
        driver: String,
        /// How many volumes there would be.
        count: i64,
    },
    /// A claim gets no devices, or such that it may not have.
    #[error("pod {}: claim {}: {}", clip(.pod), clip(.claim), clip(.problem))]
    Claim {
        /// The pod.
        pod: String,
        /// The name of the claim in the pod.
        claim: String,
        /// The reason.
        problem: String,
    },
    /// A device is given to a claim though another holds it, or more of it than there is.
    #[error("device {} is claimed twice, or more of it than there is", clip(.device))]
    ClaimedTwice {
        /// The device, as `driver/pool/device`.
        device: String,
    },
    /// A device is given to a claim, and its counter has less than all devices in use draw.
    #[error("device {}: counter {} is overdrawn", clip(.device), clip(.counter))]
    CounterOverdrawn {
        /// The device, as `driver/pool/device`.
        device: String,
        /// The counter, as `set/counter`.
        counter: String,
    },
    /// The plan records a domain or an island that its members are not in.
    #[error("{} is recorded in {}={}, but pod {} is not", clip(.group), clip(.key), clip(.value), clip(.pod))]
    Misrecorded {
        /// The group or slice.
        group: String,
        /// The node label key; for an island, its node.
        key: String,
        /// The value; for an island, its name.
        value: String,
        /// The pod.
        pod: String,
    },
    /// The plan records a domain of a group that the request does not have.
    #[error("a domain is recorded of {}, which is not of the request", clip(.0))]
    UnknownRecord(String),
    /// The plan does not record a domain or an island that was required.
    #[error("{}: the required {} is not recorded", clip(.group), clip(.key))]
    Unrecorded {
        /// The group or slice.
        group: String,
        /// The key, or `island`.
        key: String,
    },
    /// More is taken of a node than it has.
    #[error("node {}: {taken} of {allocatable} {} would be taken", clip(.node), clip(.resource))]
    Room {
        /// The node.
        node: String,
        /// The resource; `pods` for the number of pods.
        resource: String,
        /// Amount that its pods and those of the plan take together.
        taken: i128,
        /// The allocatable amount.
        allocatable: i64,
    },
    /// The node of a pod keeps new pods away, and the pod does not tolerate it.
    #[error("pod {} does not tolerate node {}: {}", clip(.pod), clip(.node), clip(.taint))]
    Repelled {
        /// The pod.
        pod: String,
        /// The node.
        node: String,
        /// The key of the taint.
        taint: String,
    },
    /// The devices of a pod are not what it asks for.
    #[error("pod {} on node {}: device request {request}: {what}", clip(.pod), clip(.node))]
    Devices {
        /// The pod.
        pod: String,
        /// The node.
        node: String,
        /// The place of the device request among those of the pod.
        request: usize,
        /// The fault.
        what: &'static str,
    },
    /// A pod holds more of NUMA zones than it asks for, or of more zones than its node allows.
    #[error("pod {} on node {}: its NUMA zones are not what it asks for", clip(.pod), clip(.node))]
    Misaligned {
        /// The pod.
        pod: String,
        /// The node.
        node: String,
    },
    /// More of a NUMA zone is taken than there is.
    #[error("node {}: more of NUMA zone {zone} is taken than there is", clip(.node))]
    ZoneOvertaken {
        /// The node.
        node: String,
        /// The number of the zone.
        zone: u32,
    },
    /// A device has several holders though one holds it whole, or too much of it is taken.
    #[error("node {}: device {device} is held twice, or more of it than there is", clip(.node))]
    DeviceOvertaken {
        /// The node.
        node: String,
        /// The index of the device.
        device: u32,
    },
}
