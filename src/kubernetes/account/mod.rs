//! The account of a reading: a verdict on each field.
//!
//! One table, in the files beside this one, says of each dialect, kind and field whether it is
//! honoured, refused or ignored. The reader leaves alone what a refused field belongs to;
//! `docs/kubernetes/fields.md` is made from the same table.

mod cards;
mod controllers;
mod devices;
mod dialects;
mod groups;
mod keys;
mod kinds;
mod levels;
mod parts;
mod pods;
mod queues;
mod ray;
mod rows;
mod rule;
mod spark;
mod storage;
mod unread;
mod verdict;
mod walk;
mod workloads;

pub(super) use levels::{Level, level};
pub use rows::field_table;
pub use verdict::{FieldRemark, FieldRow, FieldVerdict, Reading};

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use super::mode::Mode;
use super::value::Value;
use rule::{Spot, Step};
use walk::{Walk, pointer};

impl Reading {
    /// The verdict on each field of a document: an object, or a list of objects, whose paths then
    /// begin with `/items/<index>`. O(fields · fields known of their object).
    pub fn of(document: &Value, mode: Mode) -> Reading {
        let text = |of: Option<&Value>, name: &str| {
            let found = of.and_then(|value| value.entry(name)).and_then(Value::text);
            found.unwrap_or("").to_string()
        };
        let metadata = document.entry("metadata");
        let mut reading = Reading {
            api_version: text(Some(document), "apiVersion"),
            kind: text(Some(document), "kind"),
            namespace: text(metadata, "namespace"),
            name: text(metadata, "name"),
            ..Reading::default()
        };
        let mut note = |verdict: FieldVerdict, spot: &Spot<'_>, why: &'static str| {
            let path = pointer(spot);
            let remark = |path: String| FieldRemark::new(path, why);
            match verdict {
                FieldVerdict::Honoured => {
                    if !why.is_empty() {
                        reading.holds.push(remark(path.clone()));
                    }
                    reading.honoured.push(path);
                }
                FieldVerdict::Refused => reading.refused.push(remark(path)),
                FieldVerdict::Ignored => reading.ignored.push(remark(path)),
            }
        };
        let root = Spot { up: None, step: Step::Root, value: document };
        kinds::document(&mut Walk { mode, sink: &mut note }, &root, None);
        reading
    }

    /// Whether every field that can bear on placement is in force.
    pub fn is_whole(&self) -> bool {
        self.refused.is_empty()
    }
}

/// The refused fields of an object that states its version and kind; each with its reason.
pub(super) fn refused_of(document: &Value, mode: Mode) -> Vec<String> {
    let text = |name: &str| document.entry(name).and_then(Value::text).unwrap_or("");
    refused(document, text("apiVersion"), text("kind"), mode)
}

/// The refused fields of an object of a version and kind; each with its reason.
pub(super) fn refused(document: &Value, version: &str, kind: &str, mode: Mode) -> Vec<String> {
    let mut found = Vec::new();
    let mut note = |verdict: FieldVerdict, spot: &Spot<'_>, why: &'static str| {
        if verdict == FieldVerdict::Refused {
            found.push(format!("{} is not in force: {why}", pointer(spot)));
        }
    };
    let root = Spot { up: None, step: Step::Root, value: document };
    kinds::object(&mut Walk { mode, sink: &mut note }, &root, version, kind);
    found
}
