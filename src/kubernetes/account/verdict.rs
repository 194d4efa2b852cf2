//! The answer: a verdict on each field of a document.

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

/// The verdict on a field that can bear on placement, or that is not known.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize,
)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub enum FieldVerdict {
    /// It is in force.
    Honoured,
    /// It is not in force, and so what it belongs to is not placed.
    Refused,
    /// It is not in force, and says nothing about where pods go.
    Ignored,
}

impl fmt::Display for FieldVerdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            FieldVerdict::Honoured => "honoured",
            FieldVerdict::Refused => "refused",
            FieldVerdict::Ignored => "ignored",
        })
    }
}

/// A field that is not in force.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
#[non_exhaustive]
pub struct FieldRemark {
    /// Where it stands, as a JSON pointer.
    pub path: String,
    /// Why it is not in force.
    pub why: String,
}

impl FieldRemark {
    /// A remark on the field of a path.
    pub fn new(path: impl Into<String>, why: impl Into<String>) -> FieldRemark {
        FieldRemark { path: path.into(), why: why.into() }
    }
}

impl fmt::Display for FieldRemark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path, self.why)
    }
}

/// The account of reading one document: a verdict on each field.
///
/// Every field, label and annotation that can bear on placement is in one of the three lists, and
/// so is every field that is not known. A list names a field, or the object that it is a part of.
/// Fields that say nothing about placement (images aside: environment, probes, mounts) are in none.
///
/// ```
/// use phalanx::kubernetes::{Mode, Reading, Value};
///
/// let pod: Value = serde_json::from_str(
///     r#"{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "spec": {
///         "nodeSelector": {"disk": "ssd"}, "os": {"name": "windows"}}}"#,
/// )?;
/// let reading = Reading::of(&pod, Mode::AsWritten);
/// assert_eq!(reading.honoured, ["/spec/nodeSelector/disk"]);
/// assert_eq!(reading.refused[0].path, "/spec/os/name");
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[non_exhaustive]
pub struct Reading {
    /// The group and version of the object; empty where it states none.
    pub api_version: String,
    /// The kind; empty where it states none.
    pub kind: String,
    /// The namespace; empty where it states none.
    pub namespace: String,
    /// The name; empty where it states none.
    pub name: String,
    /// Fields in force, as JSON pointers, in the order of the document.
    pub honoured: Vec<String>,
    /// Fields in force that hold whatever is written, and so are not read.
    pub holds: Vec<FieldRemark>,
    /// Fields that are not in force, and keep the object's pods from being placed.
    pub refused: Vec<FieldRemark>,
    /// Fields that are not in force, and bear on no place.
    pub ignored: Vec<FieldRemark>,
}

/// A row of the table by which documents are read.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct FieldRow {
    /// Whose kind it is: `Kubernetes`, `Volcano`.
    pub dialect: String,
    /// The kind, or a part that several kinds have: `Job`, `pod template`.
    pub kind: String,
    /// The path from there; `*` is any entry of a list or of a map.
    pub path: String,
    /// The verdict.
    pub verdict: FieldVerdict,
    /// Why it is not in force, or holds anyway; empty for what is read.
    pub why: String,
}
