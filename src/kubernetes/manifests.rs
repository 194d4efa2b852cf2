//! The result of reading manifests, in types of the model.

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;

use super::devices::NodeCards;
use super::field::Note;
use super::kinds::SubmittedWorkload;
use crate::model::{Labels, Node, Pod, PodGroup};
use crate::state::{ClaimObject, StorageObject};

/// Everything that was read, ready for a cluster and for placement.
#[derive(Debug, Clone, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[non_exhaustive]
pub struct Manifests {
    /// The nodes, in the order of the input.
    pub nodes: Vec<Node>,
    /// The levels of the topology by node label keys, coarsest first, that objects of the input
    /// declare: what a cluster is to be built with. Nodes have the labels.
    pub levels: Vec<String>,
    /// The cards of nodes by which pods ask for parts of one, by the name of the node.
    pub devices: BTreeMap<String, NodeCards>,
    /// The labels of namespaces, by name. Only those that have a manifest.
    pub namespaces: BTreeMap<String, Labels>,
    /// Claims, volumes and other storage objects, by kind and name.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub storage: Vec<StorageObject>,
    /// Classes of devices, slices and claims, by kind and name. Claims that groups share are among
    /// them; those that pods have for themselves stand in the pods.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub claims: Vec<ClaimObject>,
    /// The pods that are bound to a node, in the order of the input. Those that have succeeded or
    /// failed are left out.
    pub bound: Vec<Pod>,
    /// Waiting groups, by priority and then in the order of the input. A pod without a group is a
    /// group of one, named after it.
    ///
    /// A pod that must not be placed yet says why in its `scheduling_gates`. They are gates of its
    /// own and, if it is read [as stored](super::Mode::AsStored), whatever keeps its group from the
    /// scheduler.
    pub groups: Vec<PodGroup>,
    /// Workloads of the kinds that people submit, in the order of the input, and what they say
    /// beside their groups.
    pub workloads: Vec<SubmittedWorkload>,
    /// Remarks on single objects for the embedder, such as fields that are not modelled.
    pub notes: Vec<Note>,
    /// How many objects of each kind were passed over, by group and kind.
    pub ignored: BTreeMap<String, u64>,
}
