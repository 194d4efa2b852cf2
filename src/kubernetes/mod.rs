//! Kubernetes manifests in: nodes, namespaces, pods, and groups in every dialect.
//!
//! [`Reader`] reads what `kubectl get … -o json` or a YAML file holds and makes [`Manifests`] of
//! it. Any self-describing `serde` format will do. Fields that scheduling does not read are
//! ignored, and kinds that it does not know are counted and passed over.
//!
//! There are two ways to read, see [`Mode`]. `docs/kubernetes.md` lists the dialects and what
//! becomes of each field.

mod account;
mod affinity;
mod assemble;
mod assembly;
mod claimed;
mod claims;
mod devices;
mod duration;
mod error;
mod field;
mod groups;
mod json;
mod keep;
mod kinds;
mod koordinator;
mod manifests;
mod membership;
mod metadata;
mod mode;
mod node;
mod objects;
mod owners;
mod pod;
mod priority;
#[cfg(feature = "scheduler")]
pub mod queues;
mod reader;
mod resources;
mod storage;
mod stream;
mod timestamp;
mod topologies;
mod tree;
mod value;
#[cfg(feature = "scheduler")]
pub mod watch;
mod withheld;

pub use account::{FieldRemark, FieldRow, FieldVerdict, Reading, field_table};
pub use claims::{device_class, pod_claims, resource_claim, resource_slice};
pub use devices::{CardFraction, CardSort, DeviceCard, DeviceDialect, NodeCards};
pub use error::Error;
pub use field::Note;
pub use kinds::{
    JobStep, OrdinaryReason, StartAfter, StartCondition, SubmittedWorkload, WorkloadRole,
    workload_with_job,
};
pub use manifests::Manifests;
pub use membership::WorkloadKind;
pub use mode::Mode;
pub use reader::Reader;
pub use value::{MAX_NESTING, Value};

use field::Field;

use crate::model::{ModelError, Node, Pod};
use crate::state::StorageObject;

/// The bytes of a document as text.
///
/// ```
/// let error = phalanx::kubernetes::text("dump.json", b"{\"kind\": \"\xff").unwrap_err();
/// assert_eq!(error.to_string(), "dump.json: not UTF-8 at byte 10");
/// ```
///
/// # Errors
/// The bytes are not UTF-8: the source, and where.
pub fn text<'a>(source: &str, bytes: &'a [u8]) -> Result<&'a str, Error> {
    core::str::from_utf8(bytes).map_err(|error| Error::NotUtf8 {
        source_name: source.into(),
        valid_up_to: error.valid_up_to(),
    })
}

/// One node from its manifest, whatever kind it states.
///
/// # Errors
/// The manifest cannot be taken.
pub fn node(manifest: &Value, mode: Mode) -> Result<Node, ModelError> {
    let object = metadata::object("node", false, manifest, mode);
    node::node(&Field::root(&object, manifest))
}

/// One pod from its manifest, whatever kind it states, with the priority that it states; `None`
/// if it has succeeded or failed, or is being deleted before it ran. What other objects say of
/// the pod is missing: its priority class, its group, its services. A field of a pod that waits
/// which is not in force gates it, see [`Reading`].
///
/// # Errors
/// The manifest cannot be taken.
pub fn pod(manifest: &Value, mode: Mode) -> Result<Option<Pod>, ModelError> {
    let object = metadata::object("pod", true, manifest, mode);
    match pod::pod(&Field::root(&object, manifest))? {
        pod::Fate::Kept(record) => {
            let priority = record.priority.unwrap_or(0);
            let mut pod = record.pod.priority(priority);
            if pod.node.is_none() {
                pod.scheduling_gates.extend(account::refused(manifest, "v1", "Pod", mode));
            }
            Ok(Some(pod))
        }
        pod::Fate::Finished | pod::Fate::Abandoned => Ok(None),
    }
}

/// The name and labels of one namespace from its manifest, whatever kind it states.
///
/// # Errors
/// The manifest cannot be taken.
pub fn namespace(
    manifest: &Value,
    mode: Mode,
) -> Result<(alloc::string::String, crate::model::Labels), ModelError> {
    let object = metadata::object("namespace", false, manifest, mode);
    let root = Field::root(&object, manifest);
    Ok((metadata::name(&root)?, node::labels(&root)?))
}

/// One storage object from its manifest, by the name of its kind: `PersistentVolumeClaim`,
/// `PersistentVolume`, `StorageClass`, `CSIDriver`, `CSIStorageCapacity`, `CSINode` or
/// `VolumeAttachment`; `None` for other kinds.
///
/// # Errors
/// The manifest cannot be taken.
pub fn storage_object(
    kind: &str,
    manifest: &Value,
    mode: Mode,
) -> Result<Option<StorageObject>, ModelError> {
    let Some(of) = storage::kind_named(kind) else { return Ok(None) };
    let object = metadata::object(kind, storage::is_namespaced(of), manifest, mode);
    storage::storage_object(of, &Field::root(&object, manifest)).map(Some)
}
