//! Input types: nodes, pods that run already, the flavor, gates, pod sets.

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;

use super::outcome::KueueAssignment;
use crate::framework::KueueGates;

/// The label key that makes every host a leaf when it is the finest level.
pub const HOSTNAME_LABEL: &str = "kubernetes.io/hostname";

/// The resource that counts pods. Every pod takes one of it besides what it requests.
pub const PODS_RESOURCE: &str = "pods";

/// Amounts by resource name: cpu in thousandths of a core, everything else in whole units.
///
/// A resource that is not listed is 0. Amounts below zero are taken as they are; a request of
/// zero or less never limits.
pub type KueueAmounts = BTreeMap<String, i64>;

/// A node of the cluster.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct KueueNode {
    /// The name, by which background pods refer to the node. Unique in a snapshot.
    pub name: String,
    /// The labels; the levels of the topology are label keys.
    pub labels: BTreeMap<String, String>,
    /// Amounts allocatable to pods.
    pub allocatable: KueueAmounts,
    /// Whether the node reports ready; others are left out.
    pub ready: bool,
    /// Whether the node is cordoned; such nodes are left out.
    pub unschedulable: bool,
    /// The taints, in the node's order.
    pub taints: Vec<KueueTaint>,
}

/// A taint of a node. The effects `NoSchedule` and `NoExecute` exclude, others do nothing.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct KueueTaint {
    /// The key.
    pub key: String,
    /// The value; often empty.
    pub value: String,
    /// The effect, as Kubernetes spells it.
    pub effect: String,
}

/// Consent to taints.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct KueueToleration {
    /// The key consented to; empty means any.
    pub key: String,
    /// How the taint's value is compared.
    pub operator: KueueTolerationOperator,
    /// The value to compare with.
    pub value: String,
    /// The effect consented to; `None` means any.
    pub effect: Option<String>,
}

/// How a [`KueueToleration`] compares the taint's value with its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum KueueTolerationOperator {
    /// Both are equal.
    #[default]
    Equal,
    /// Any value.
    Exists,
    /// Both are integers and the taint's is the larger.
    Gt,
    /// Both are integers and the taint's is the smaller.
    Lt,
}

/// A pod that runs and that the topology assignments do not account for.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct BackgroundPod {
    /// The node it is bound to. Pods that are not bound, or bound to a node outside the
    /// snapshot, take nothing.
    pub node: Option<String>,
    /// Whether the pod succeeded or failed, and so takes nothing any more.
    pub terminated: bool,
    /// Requests of the whole pod, besides one of [`PODS_RESOURCE`].
    pub requests: KueueAmounts,
}

/// The resource flavor that pod sets are placed on.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct KueueFlavor {
    /// Labels a node must have to belong to the flavor.
    pub node_labels: BTreeMap<String, String>,
    /// Tolerations added to those of every pod set.
    pub tolerations: Vec<KueueToleration>,
}

/// Pods that a topology assignment put on a leaf earlier.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct KueueUsage {
    /// The leaf, written as in an [`KueueAssignment`]. Usage of a leaf that is not there is dropped.
    pub values: Vec<String>,
    /// Requests of one pod, besides one of [`PODS_RESOURCE`].
    pub requests: KueueAmounts,
    /// How many pods.
    pub count: u32,
    /// Whether the pods run on another flavor over the same nodes; counted under
    /// [`KueueGates::overlapping_flavors`] only.
    pub other_flavor: bool,
}

/// One flavor of a cluster, as [`KueueSnapshot::new`](super::KueueSnapshot::new) takes it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct KueueCluster {
    /// The node-label keys of the topology, coarsest first. If the last is [`HOSTNAME_LABEL`],
    /// the leaves are hosts; otherwise a leaf sums up all nodes with the same label values, and
    /// node selector, affinity and taints are ignored.
    pub levels: Vec<String>,
    /// The nodes. Those that are not ready, cordoned, without a level label or outside the
    /// flavor are left out.
    pub nodes: Vec<KueueNode>,
    /// Pods that run besides those with a topology assignment.
    pub pods: Vec<BackgroundPod>,
    /// The flavor.
    pub flavor: KueueFlavor,
    /// Pods with a topology assignment.
    pub usage: Vec<KueueUsage>,
    /// The feature gates.
    pub gates: KueueGates,
}

/// A number of equal pods to place.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct KueuePodSet {
    /// The name under which the outcome is reported.
    pub name: String,
    /// How many pods.
    pub count: u32,
    /// Requests of one pod, besides one of [`PODS_RESOURCE`].
    pub requests: KueueAmounts,
    /// The topology requested.
    pub topology: KueueTopologyRequest,
    /// Pod sets with the same group are one unit of two: the workers (the larger count, the
    /// first on a tie) and the one-pod leader. The workers' topology request, selector, affinity
    /// and tolerations steer both.
    pub group: Option<String>,
    /// Labels a node must have.
    pub node_selector: BTreeMap<String, String>,
    /// Node affinity.
    pub affinity: KueueNodeAffinity,
    /// Taints that the pods tolerate, besides the flavor's tolerations.
    pub tolerations: Vec<KueueToleration>,
    /// Whether the pods in `previous` keep running and only the difference is placed or cut;
    /// needs [`KueueGates::elastic`].
    pub elastic: bool,
    /// The name of a host whose pods, according to `previous`, are placed again.
    pub replace_node: Option<String>,
    /// The current assignment. Read for elastic pod sets and for replacements only.
    pub previous: Option<KueueAssignment>,
}

/// The topology that a [`KueuePodSet`] requests.
///
/// If several of the fields are set, the first in the order of declaration decides the level.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct KueueTopologyRequest {
    /// All pods within one domain of this level, or no placement.
    pub required: Option<String>,
    /// All pods within one domain of this level; else of the next coarser one, and so on; else
    /// in several domains of the coarsest level.
    pub preferred: Option<String>,
    /// Slice layers, coarsest first. Without `required` and `preferred` they are placed as
    /// unconstrained from the coarsest level down.
    pub slices: Vec<SliceLayer>,
    /// Anywhere.
    pub unconstrained: bool,
    /// No request was made, yet the queue has only flavors with a topology: anywhere.
    pub implied: bool,
}

/// The pods are cut into slices of `size`, and every slice is within one domain of `level`.
///
/// Further layers are strictly finer, and their size divides the size of the layer before.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct SliceLayer {
    /// The node-label key.
    pub level: String,
    /// Pods in a slice. A missing size, as well as 0, is a malformed request.
    pub size: Option<u32>,
}

/// Node affinity of a [`KueuePodSet`].
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct KueueNodeAffinity {
    /// A node must match one of these terms, if there are any; it matches a term if it matches
    /// all its expressions. An empty term matches nothing.
    pub required: Vec<Vec<Expression>>,
    /// Terms that add their weight to the score of a node that matches; needs
    /// [`KueueGates::preferred_affinity`].
    pub preferred: Vec<PreferredTerm>,
}

/// A weighted term of [`KueueNodeAffinity::preferred`]. An empty term adds nothing.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct PreferredTerm {
    /// The score that a match adds.
    pub weight: i32,
    /// The expressions, all of which must match.
    pub expressions: Vec<Expression>,
}

/// A condition on a node label.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Expression {
    /// The label key.
    pub key: String,
    /// The condition.
    pub operator: KueueOperator,
    /// Operands: one or more values for `In` and `NotIn`, one integer
    /// for `Gt` and `Lt`, none for the others.
    pub values: Vec<String>,
}

/// The condition of an [`Expression`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum KueueOperator {
    /// The label has one of the values.
    #[default]
    In,
    /// The label is missing or has none of the values.
    NotIn,
    /// The label is there.
    Exists,
    /// The label is missing.
    DoesNotExist,
    /// The label is an integer larger than the value.
    Gt,
    /// The label is an integer smaller than the value.
    Lt,
}
