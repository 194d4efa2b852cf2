//! Amounts of a device's capacities that a request takes, for the check of certificates.

use alloc::collections::BTreeMap;
use alloc::string::String;

use crate::base::Quantity;
use crate::model::{PolicyRule, RequestPolicy, SliceDevice};

/// Amounts in 10⁻⁹ by capacity. `None` if the device cannot serve the request: it lacks a capacity, a
/// policy forbids the amount, or all of the capacity is less.
pub(super) fn amounts<'a>(
    device: &'a SliceDevice,
    asked: &BTreeMap<String, Quantity>,
) -> Option<BTreeMap<&'a str, i128>> {
    let is_known = |name: &String| device.capacity.contains_key(name);
    if !asked.keys().all(is_known) {
        return None;
    }
    let mut all = BTreeMap::new();
    for (name, capacity) in &device.capacity {
        let asked = asked.get(name).copied();
        let amount = match &capacity.policy {
            None => asked.unwrap_or(capacity.value),
            Some(policy) => granted(policy, asked, capacity.value)?,
        };
        if amount > capacity.value {
            return None;
        }
        all.insert(name.as_str(), amount.nanos());
    }
    Some(all)
}

/// The amount that a policy makes of a request; `None` if it allows none.
fn granted(policy: &RequestPolicy, asked: Option<Quantity>, all: Quantity) -> Option<Quantity> {
    let Some(asked) = asked else {
        let amount = policy.default.unwrap_or(all);
        return (policy.default.is_some() || allows(&policy.rule, amount)).then_some(amount);
    };
    let amount = match &policy.rule {
        PolicyRule::Values(values) => *values.iter().find(|own| **own >= asked).unwrap_or(&asked),
        PolicyRule::Range { min: Some(min), .. } if asked < *min => *min,
        PolicyRule::Range { min: Some(min), step: Some(step), .. } => {
            let (low, step) = (i128::from(min.ceil()), i128::from(step.ceil()));
            let wanted = i128::from(asked.ceil());
            let mut over = (wanted - low).checked_rem_euclid(step.max(0)).unwrap_or(0);
            if over > 0 {
                over = step - over;
            }
            Quantity::from(i64::try_from(wanted + over).unwrap_or(i64::MAX))
        }
        PolicyRule::Any | PolicyRule::Range { .. } => asked,
    };
    (policy.default == Some(amount) || allows(&policy.rule, amount)).then_some(amount)
}

fn allows(rule: &PolicyRule, amount: Quantity) -> bool {
    match rule {
        PolicyRule::Any => true,
        PolicyRule::Values(values) => values.is_empty() || values.contains(&amount),
        PolicyRule::Range { min, max, step } => {
            let is_low = max.is_none_or(|max| amount <= max);
            let is_on_step = match (min, step) {
                (Some(min), Some(step)) => {
                    let above = i128::from(amount.ceil()) - i128::from(min.ceil());
                    step.ceil() <= 0 || above % i128::from(step.ceil()) == 0
                }
                _ => true,
            };
            is_low && is_on_step
        }
    }
}

#[cfg(test)]
mod tests;
