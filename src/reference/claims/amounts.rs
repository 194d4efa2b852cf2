//! Amounts of capacities: how much of a device a request takes.

use alloc::collections::BTreeMap;
use alloc::string::String;

use crate::base::Quantity;
use crate::model::{DeviceCapacity, PolicyRule, RequestPolicy, SliceDevice};

/// The amounts that a request takes of a device's capacities. `None` if the device lacks a capacity,
/// or a policy forbids the amount.
pub(super) fn taken(
    device: &SliceDevice,
    asked: &BTreeMap<String, Quantity>,
) -> Option<BTreeMap<String, Quantity>> {
    if !asked.keys().all(|name| device.capacity.contains_key(name)) {
        return None;
    }
    let mut all = BTreeMap::new();
    for (name, capacity) in &device.capacity {
        all.insert(name.clone(), amount(capacity, asked.get(name).copied())?);
    }
    Some(all)
}

fn amount(capacity: &DeviceCapacity, asked: Option<Quantity>) -> Option<Quantity> {
    let Some(RequestPolicy { default, rule }) = &capacity.policy else {
        return Some(asked.unwrap_or(capacity.value));
    };
    let amount = match asked {
        None => default.unwrap_or(capacity.value),
        Some(asked) => raised(rule, asked),
    };
    let is_allowed = *default == Some(amount)
        || match rule {
            PolicyRule::Any => true,
            PolicyRule::Values(values) => values.is_empty() || values.contains(&amount),
            PolicyRule::Range { min, max, step } => {
                let below = max.is_none_or(|max| amount <= max);
                let on_step = match (min, step) {
                    (Some(min), Some(step)) if step.ceil() > 0 => {
                        let above = i128::from(amount.ceil()) - i128::from(min.ceil());
                        above.rem_euclid(i128::from(step.ceil())) == 0
                    }
                    _ => true,
                };
                below && on_step
            }
        };
    is_allowed.then_some(amount)
}

/// The next amount that a rule knows, from one on.
fn raised(rule: &PolicyRule, asked: Quantity) -> Quantity {
    match rule {
        PolicyRule::Values(values) => {
            let next = values.iter().find(|value| **value >= asked);
            next.copied().unwrap_or(asked)
        }
        PolicyRule::Range { min: Some(min), step, .. } => {
            let step = step.map_or(0, |step| i128::from(step.ceil()));
            if asked <= *min {
                return *min;
            }
            if step <= 0 {
                return asked;
            }
            let (mut amount, asked) = (i128::from(min.ceil()), i128::from(asked.ceil()));
            amount += (asked - amount + step - 1).div_euclid(step) * step;
            Quantity::from(i64::try_from(amount).unwrap_or(i64::MAX))
        }
        PolicyRule::Any | PolicyRule::Range { .. } => asked,
    }
}
