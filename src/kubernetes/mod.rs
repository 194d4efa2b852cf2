//! Kubernetes manifests in: nodes, namespaces, pods, and groups in every dialect.
//!
//! [`Reader`] reads what `kubectl get … -o json` or a YAML file holds and makes [`Manifests`] of
//! it. Any self-describing `serde` format will do. Fields that scheduling does not read are
//! ignored, and kinds that it does not know are counted and passed over.
//!
//! There are two ways to read, see [`Mode`]. `docs/kubernetes.md` lists the dialects and what
//! becomes of each field.

mod affinity;
mod assemble;
mod assembly;
mod duration;
mod error;
mod field;
mod groups;
mod json;
mod keep;
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
pub mod queues;
mod reader;
mod resources;
mod stream;
mod timestamp;
mod tree;
mod value;
mod volcano;
pub mod watch;

pub use error::Error;
pub use manifests::{Manifests, Note};
pub use mode::Mode;
pub use reader::Reader;
pub use value::{MAX_NESTING, Value};

use field::Field;

use crate::model::{ModelError, Node, Pod};

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
/// the pod is missing: its priority class, its group, its services.
///
/// # Errors
/// The manifest cannot be taken.
pub fn pod(manifest: &Value, mode: Mode) -> Result<Option<Pod>, ModelError> {
    let object = metadata::object("pod", true, manifest, mode);
    match pod::pod(&Field::root(&object, manifest))? {
        pod::Fate::Kept(record) => {
            let priority = record.priority.unwrap_or(0);
            Ok(Some(record.pod.priority(priority)))
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
