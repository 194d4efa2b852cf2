//! Capacities that are consumed in parts: the amounts of a request, and the policy on them.

use alloc::collections::BTreeMap;
use alloc::string::String;

use crate::base::Quantity;
use crate::model::{DeviceCapacity, PolicyRule, RequestPolicy, SliceDevice};

/// Amounts that a request takes of each capacity of a device. `None` if the device lacks one that
/// it names, or the policy of one forbids the amount.
pub(super) fn consumption(
    device: &SliceDevice,
    requested: &BTreeMap<String, Quantity>,
) -> Option<BTreeMap<String, Quantity>> {
    if requested.keys().any(|name| !device.capacity.contains_key(name)) {
        return None;
    }
    let amounts = device.capacity.iter().map(|(name, capacity)| {
        let amount = amount(requested.get(name).copied(), capacity);
        let forbidden = capacity.policy.as_ref().is_some_and(|policy| forbids(policy, amount));
        (!forbidden).then(|| (name.clone(), amount))
    });
    amounts.collect()
}

/// The amount taken of a capacity.
fn amount(requested: Option<Quantity>, capacity: &DeviceCapacity) -> Quantity {
    let Some(policy) = &capacity.policy else { return requested.unwrap_or(capacity.value) };
    let Some(requested) = requested else { return policy.default.unwrap_or(capacity.value) };
    match &policy.rule {
        PolicyRule::Values(values) => {
            values.iter().copied().find(|value| *value >= requested).unwrap_or(requested)
        }
        PolicyRule::Range { min: Some(min), .. } if requested < *min => *min,
        PolicyRule::Range { min: Some(min), step: Some(step), .. } => {
            stepped(requested.ceil(), min.ceil(), step.ceil())
        }
        PolicyRule::Any | PolicyRule::Range { .. } => requested,
    }
}

/// The least of `min + k · step` that is not below an amount.
fn stepped(amount: i64, min: i64, step: i64) -> Quantity {
    if step <= 0 {
        return Quantity::from(amount);
    }
    let (amount, min, step) = (i128::from(amount), i128::from(min), i128::from(step));
    let steps = (amount - min + step - 1).div_euclid(step);
    Quantity::from(i64::try_from(min + steps * step).unwrap_or(i64::MAX))
}

/// Whether a policy forbids an amount. Its own default it always allows.
fn forbids(policy: &RequestPolicy, amount: Quantity) -> bool {
    if policy.default == Some(amount) {
        return false;
    }
    match &policy.rule {
        PolicyRule::Any => false,
        PolicyRule::Values(values) => !values.is_empty() && !values.contains(&amount),
        PolicyRule::Range { min, max, step } => {
            let between = |step: &Quantity| {
                let (Some(min), step) = (min, step.ceil()) else { return false };
                step > 0
                    && (i128::from(amount.ceil()) - i128::from(min.ceil())) % i128::from(step) != 0
            };
            max.is_some_and(|max| amount > max) || step.as_ref().is_some_and(between)
        }
    }
}

#[cfg(test)]
mod tests;
