//! Priority classes.

use alloc::collections::BTreeMap;
use alloc::string::{String, ToString};

use super::field::{Fault, Field};
use super::metadata;
use crate::model::Problem;

/// The priority classes of a cluster.
#[derive(Debug, Default)]
pub(super) struct Classes {
    values: BTreeMap<String, i32>,
    /// Class of a pod that names none.
    default: Option<(String, i32)>,
}

impl Classes {
    pub(super) fn add(&mut self, root: &Field<'_>) -> Fault<()> {
        let name = metadata::name(root)?;
        let value = match root.get("value")? {
            Some(value) => value.int32()?,
            None if root.strict() => return Err(root.fail_at("value", Problem::Required)),
            None => 0,
        };
        if root.flag("globalDefault")? {
            match &self.default {
                Some((other, _)) if root.strict() && *other != name => {
                    let text = alloc::format!("priorityclass {other} is the default already");
                    return Err(root.fail_at("globalDefault", Problem::Invalid(text)));
                }
                // Of several stored defaults the lowest counts.
                Some((_, lowest)) if *lowest < value => {}
                _ => self.default = Some((name.clone(), value)),
            }
        }
        if self.values.insert(name.clone(), value).is_some() && root.strict() {
            return Err(root.fail_at("metadata.name", Problem::Duplicate(name)));
        }
        Ok(())
    }

    /// The value of a class of the input.
    pub(super) fn own_value(&self, class: &str) -> Option<i32> {
        self.values.get(class).copied()
    }

    /// The value of a class; every cluster has two of its own.
    pub(super) fn value(&self, class: &str) -> Option<i32> {
        self.values.get(class).copied().or(match class {
            "system-cluster-critical" => Some(2_000_000_000),
            "system-node-critical" => Some(2_000_001_000),
            _ => None,
        })
    }

    /// The priority that the API server gives a pod, from what its manifest says.
    ///
    /// `running` pods keep what they were given, whatever became of their class.
    pub(super) fn resolve(
        &self,
        priority: Option<i32>,
        class: Option<&str>,
        running: bool,
    ) -> Result<i32, (&'static str, Problem)> {
        let Some(class) = class else {
            return Ok(
                priority.unwrap_or_else(|| self.default.as_ref().map_or(0, |(_, value)| *value))
            );
        };
        match (self.value(class), priority) {
            (Some(value), Some(priority)) if value != priority && !running => {
                let text = alloc::format!("{priority} is not the {value} of class {class:?}");
                Err(("priority", Problem::Invalid(text)))
            }
            (_, Some(priority)) => Ok(priority),
            (Some(value), None) => Ok(value),
            (None, None) => Err(("priorityClassName", Problem::Unknown(class.to_string()))),
        }
    }
}

#[cfg(test)]
mod tests;
