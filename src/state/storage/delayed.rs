//! Claims that are bound when their first pod is placed, with the volumes that suit them.

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

use crate::base::ObjectName;
use crate::model::{Operator, StorageCapacity, StorageClass, Volume, VolumeClaim};

/// A claim that is bound when its first pod is placed.
#[derive(Debug)]
pub(in crate::state) struct Delayed {
    pub(in crate::state) name: ObjectName,
    pub(in crate::state) claim: Arc<VolumeClaim>,
    pub(in crate::state) class: Arc<StorageClass>,
    /// The node that a volume is provisioned for.
    pub(in crate::state) selected: Option<String>,
    /// The volume that is set aside for it.
    pub(in crate::state) own: Option<Arc<Volume>>,
    pub(in crate::state) candidates: Candidates,
    /// The pools that volumes are made from; `None` if nobody says what is left.
    pub(in crate::state) pools: Option<Vec<Arc<StorageCapacity>>>,
}

/// Volumes that suit a claim and are set aside for none, by size, then name.
#[derive(Debug, Default)]
pub(in crate::state) struct Candidates {
    pub(in crate::state) volumes: Vec<Arc<Volume>>,
    /// Volumes that only nodes with one value of a label reach, by label and value.
    pub(in crate::state) pinned: BTreeMap<String, BTreeMap<String, Vec<u32>>>,
    /// All others.
    pub(in crate::state) loose: Vec<u32>,
}

impl Candidates {
    pub(in crate::state) fn new(mut volumes: Vec<Arc<Volume>>) -> Candidates {
        volumes.sort_by(|a, b| (a.capacity, &a.name).cmp(&(b.capacity, &b.name)));
        let mut all = Candidates::default();
        for (place, volume) in volumes.iter().enumerate() {
            match pin(volume) {
                Some((key, value)) => {
                    let values = all.pinned.entry(key.into()).or_default();
                    values.entry(value.into()).or_default().push(place as u32);
                }
                None => all.loose.push(place as u32),
            }
        }
        all.volumes = volumes;
        all
    }
}

/// A label and its only value on the nodes that reach a volume.
fn pin(volume: &Volume) -> Option<(&str, &str)> {
    let [term] = &*volume.node_affinity.as_ref()?.terms else { return None };
    term.match_expressions.iter().find_map(|requirement| match &*requirement.values {
        [value] if requirement.operator == Operator::In => Some((&*requirement.key, &**value)),
        _ => None,
    })
}

impl Delayed {
    /// How much storage it asks for.
    pub(in crate::state) fn bytes(&self) -> i64 {
        self.claim.request.unwrap_or(0)
    }
}
