//! Volcano's `subGroupPolicy`: groups inside a group, told apart by labels of its pods.

use alloc::string::String;
use alloc::vec::Vec;

use crate::kubernetes::affinity::label_selector;
use crate::kubernetes::field::{Fault, Field};
use crate::kubernetes::topologies::{self, Wish};
use crate::model::{LabelSelector, Labels, TopologyRequest};

/// Groups inside a group: one for each combination of values of some labels.
#[derive(Debug, Clone)]
pub(in crate::kubernetes) struct SubGroups {
    name: String,
    selector: Option<LabelSelector>,
    keys: Vec<String>,
    /// The pods that each of them needs to start.
    pub(in crate::kubernetes) size: u32,
    /// How many of them must start together.
    pub(in crate::kubernetes) least: u32,
    /// The topology that each is confined to, by names that other objects explain.
    pub(super) wish: Option<Wish>,
    pub(in crate::kubernetes) topology: TopologyRequest,
}

impl SubGroups {
    /// The policy of a group that has one; several are refused by name.
    pub(super) fn read(spec: &Field<'_>) -> Fault<Option<SubGroups>> {
        let (mut found, mut count) = (None, 0);
        spec.each("subGroupPolicy", |field| {
            let amount = |name: &str, least: i64| -> Fault<Option<u32>> {
                let Some(field) = field.get(name)? else { return Ok(None) };
                field.within(least, i32::MAX.into()).map(|amount| Some(amount as u32))
            };
            let selector = label_selector(&field, "labelSelector")?;
            if let Some(selector) = selector.as_ref().filter(|_| field.strict()) {
                selector.check().map_err(|error| field.selector_error(&error))?;
            }
            found = Some(SubGroups {
                name: String::from(field.need("name")?.text()?),
                selector,
                keys: field.texts("matchLabelKeys")?,
                size: amount("subGroupSize", 1)?.unwrap_or(1),
                least: amount("minSubGroups", 0)?.unwrap_or(0),
                wish: topologies::volcano(&field)?,
                topology: TopologyRequest::default(),
            });
            count += 1;
            Ok(())
        })?;
        Ok(found.filter(|_| count == 1))
    }

    /// The group inside that a pod is in, by its labels. `None` if the selector passes it over, or a
    /// label is not there or empty.
    pub(in crate::kubernetes) fn of(&self, labels: &Labels) -> Option<String> {
        if self.selector.as_ref().is_some_and(|selector| !selector.matches(labels)) {
            return None;
        }
        let mut name = self.name.clone();
        for key in &self.keys {
            let value = labels.get(key).filter(|value| !value.is_empty())?;
            name.push('-');
            name.push_str(value);
        }
        Some(name)
    }
}
