//! Constraints on attributes that devices of a claim share, or must not share.

use alloc::string::String;
use alloc::vec::Vec;

use crate::model::{Attribute, SliceDevice};

/// The value that the devices of a constraint share so far.
pub(super) enum Rule<'a> {
    Match { attribute: &'a str, count: usize, value: Option<&'a Attribute> },
    Distinct { attribute: &'a str, values: Vec<(usize, &'a Attribute)> },
}

pub(super) struct Constraint<'a> {
    pub(super) requests: &'a [String],
    pub(super) rule: Rule<'a>,
}

impl<'a> Constraint<'a> {
    pub(super) fn concerns(&self, request: &str, choice: Option<&str>) -> bool {
        let full = |name: &String| {
            choice.is_some_and(|choice| {
                let rest = name.strip_prefix(request).and_then(|rest| rest.strip_prefix('/'));
                rest == Some(choice)
            })
        };
        self.requests.is_empty() || self.requests.iter().any(|name| name == request || full(name))
    }

    /// Takes in a device of a request; whether the rule allows it.
    pub(super) fn add(&mut self, request: usize, driver: &str, device: &'a SliceDevice) -> bool {
        match &mut self.rule {
            Rule::Match { attribute, count, value } => {
                let Some(own) = device.attribute_of(driver, attribute) else { return false };
                if *count > 0 && *value != Some(own) {
                    return false;
                }
                *value = Some(own);
                *count += 1;
            }
            Rule::Distinct { attribute, values } => {
                let Some(own) = device.attribute_of(driver, attribute) else { return false };
                if values.iter().any(|(_, value)| *value == own) {
                    return false;
                }
                values.retain(|(of, _)| *of != request);
                values.push((request, own));
            }
        }
        true
    }

    pub(super) fn remove(&mut self, request: usize) {
        match &mut self.rule {
            Rule::Match { count, .. } => *count -= 1,
            Rule::Distinct { values, .. } => values.retain(|(of, _)| *of != request),
        }
    }
}
