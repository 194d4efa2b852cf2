//! Amounts as YuniKorn holds and compares them: maps of integers that may be absent as a whole.
//!
//! A type that only one side names counts differently by operation: none in a need, no bound
//! in a limit. `None` is an amount that was never set. Sums saturate.
//!
//! Source: YuniKorn's `pkg/common/resources/resources.go` and `quantity.go`.

use alloc::collections::BTreeMap;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::cmp::Ordering;

use super::resource::Resource;

static NOTHING: Resource = Resource::new();

fn or_none(resource: Option<&Resource>) -> &Resource {
    resource.unwrap_or(&NOTHING)
}

fn of(resource: &Resource, name: &str) -> i64 {
    resource.get(name).copied().unwrap_or(0)
}

/// Each type that either names, with both amounts.
fn both<'a>(
    one: &'a Resource,
    other: &'a Resource,
) -> impl Iterator<Item = (&'a String, Option<i64>, Option<i64>)> {
    let left = one.iter().map(|(name, amount)| (name, Some(*amount), other.get(name).copied()));
    let right = other.iter().filter(|(name, _)| !one.contains_key(*name));
    left.chain(right.map(|(name, amount)| (name, None, Some(*amount))))
}

/// Reads amounts as a configuration states them: `vcore` in thousandths, with `m` for thousandths;
/// others in units, with decimal or binary suffixes.
///
/// # Errors
/// An amount is none, is negative, or is out of range: its type.
pub fn from_configuration(stated: &BTreeMap<String, String>) -> Result<Resource, String> {
    let mut resource = Resource::new();
    for (name, text) in stated {
        let amount = quantity(text, name == "vcore").filter(|amount| *amount >= 0);
        resource.insert(name.clone(), amount.ok_or_else(|| name.clone())?);
    }
    Ok(resource)
}

/// A quantity; `None` if the text is none, or out of range.
fn quantity(text: &str, milli: bool) -> Option<i64> {
    const SUFFIXES: [(&str, i128); 13] = [
        ("", 1),
        ("k", 1_000),
        ("M", 1_000_000),
        ("G", 1_000_000_000),
        ("T", 1_000_000_000_000),
        ("P", 1_000_000_000_000_000),
        ("E", 1_000_000_000_000_000_000),
        ("Ki", 1 << 10),
        ("Mi", 1 << 20),
        ("Gi", 1 << 30),
        ("Ti", 1 << 40),
        ("Pi", 1 << 50),
        ("Ei", 1 << 60),
    ];
    let text: String = text.chars().filter(|c| !c.is_whitespace()).collect();
    let digits = text.strip_prefix(['+', '-']).unwrap_or(&text);
    let end = digits.find(|c: char| !c.is_ascii_digit()).unwrap_or(digits.len());
    let (digits, suffix) = digits.split_at(end);
    let number: i64 = digits.parse().ok()?;
    let number = if text.starts_with('-') { number.checked_neg()? } else { number };
    let scale = if suffix == "m" && milli {
        1
    } else {
        let (_, scale) = SUFFIXES.iter().find(|(name, _)| *name == suffix)?;
        if milli { scale * 1000 } else { *scale }
    };
    i64::try_from(i128::from(number) * scale).ok()
}

/// The sum.
pub fn add(one: Option<&Resource>, other: Option<&Resource>) -> Resource {
    let sum = |(name, a, b): (&String, Option<i64>, Option<i64>)| {
        (name.clone(), a.unwrap_or(0).saturating_add(b.unwrap_or(0)))
    };
    both(or_none(one), or_none(other)).map(sum).collect()
}

/// The difference, which may be negative.
pub fn subtract(one: Option<&Resource>, other: Option<&Resource>) -> Resource {
    let rest = |(name, a, b): (&String, Option<i64>, Option<i64>)| {
        (name.clone(), a.unwrap_or(0).saturating_sub(b.unwrap_or(0)))
    };
    both(or_none(one), or_none(other)).map(rest).collect()
}

/// The difference, and nothing where it is negative.
pub fn shortfall(one: Option<&Resource>, other: Option<&Resource>) -> Resource {
    let mut rest = subtract(one, other);
    for name in or_none(other).keys() {
        if let Some(amount) = rest.get_mut(name) {
            *amount = (*amount).max(0);
        }
    }
    rest
}

/// The difference of the types that the first names.
pub fn subtract_existing(one: Option<&Resource>, other: Option<&Resource>) -> Option<Resource> {
    let taken = or_none(other);
    let rest =
        |(name, amount): (&String, &i64)| (name.clone(), amount.saturating_sub(of(taken, name)));
    one.map(|one| one.iter().map(rest).collect())
}

/// The sum of the types that the first names.
pub fn add_existing(one: Option<&Resource>, other: Option<&Resource>) -> Option<Resource> {
    let more = or_none(other);
    let sum =
        |(name, amount): (&String, &i64)| (name.clone(), amount.saturating_add(of(more, name)));
    one.map(|one| one.iter().map(sum).collect())
}

/// The smaller of each; a type that one does not name is that of the other.
pub fn least(one: Option<&Resource>, other: Option<&Resource>) -> Option<Resource> {
    let (Some(one), Some(other)) = (one, other) else { return one.or(other).cloned() };
    let least = |(name, a, b): (&String, Option<i64>, Option<i64>)| {
        let (a, b) = (a.unwrap_or(i64::MAX), b.unwrap_or(i64::MAX));
        (name.clone(), a.min(b))
    };
    Some(both(one, other).map(least).collect())
}

/// The smaller of each type that the first names.
pub fn least_existing(one: Option<&Resource>, other: Option<&Resource>) -> Option<Resource> {
    let bound = or_none(other);
    let least = |(name, amount): (&String, &i64)| {
        (name.clone(), bound.get(name).map_or(*amount, |bound| *bound.min(amount)))
    };
    one.map(|one| one.iter().map(least).collect())
}

/// The larger of each, where a type that is not named counts as 0; nothing if either was never set.
pub fn most(one: Option<&Resource>, other: Option<&Resource>) -> Resource {
    let (Some(one), Some(other)) = (one, other) else { return Resource::new() };
    let most = |(name, a, b): (&String, Option<i64>, Option<i64>)| {
        (name.clone(), a.unwrap_or(0).max(b.unwrap_or(0)))
    };
    both(one, other).map(most).collect()
}

/// The first, and of the other the types that it does not name.
pub fn merge_missing(one: Option<&Resource>, other: Option<&Resource>) -> Option<Resource> {
    let (Some(one), Some(other)) = (one, other) else { return one.or(other).cloned() };
    let own = |(name, a, b): (&String, Option<i64>, Option<i64>)| (name.clone(), a.or(b));
    Some(both(one, other).map(own).filter_map(|(name, amount)| Some((name, amount?))).collect())
}

/// Whether all amounts are equal, where a type that is not named counts as 0. What was never set
/// equals nothing but itself.
pub fn equal(one: Option<&Resource>, other: Option<&Resource>) -> bool {
    match (one, other) {
        (None, None) => true,
        (Some(one), Some(other)) => {
            both(one, other).all(|(_, a, b)| a.unwrap_or(0) == b.unwrap_or(0))
        }
        _ => false,
    }
}

/// Whether all amounts are equal, or both are all zero.
pub fn equal_or_zero(one: Option<&Resource>, other: Option<&Resource>) -> bool {
    (is_zero(one) && is_zero(other)) || equal(one, other)
}

/// Whether both name the same types with the same amounts.
pub fn same(one: Option<&Resource>, other: Option<&Resource>) -> bool {
    one == other
}

/// Whether no amount differs from 0.
pub fn is_zero(resource: Option<&Resource>) -> bool {
    or_none(resource).values().all(|amount| *amount == 0)
}

/// Whether no type is named.
pub fn is_empty(resource: Option<&Resource>) -> bool {
    or_none(resource).is_empty()
}

/// Whether some amount is negative.
pub fn has_negative(resource: Option<&Resource>) -> bool {
    or_none(resource).values().any(|amount| *amount < 0)
}

/// Whether some amount is positive, and none negative.
pub fn is_positive(resource: Option<&Resource>) -> bool {
    !has_negative(resource) && !is_zero(resource)
}

/// Whether no amount is smaller, and some larger, where a type that is not named counts as 0.
pub fn is_greater(one: Option<&Resource>, other: Option<&Resource>) -> bool {
    is_at_least(one, other) && !equal(Some(or_none(one)), Some(or_none(other)))
}

/// Whether no amount is smaller, where a type that is not named counts as 0.
pub fn is_at_least(one: Option<&Resource>, other: Option<&Resource>) -> bool {
    both(or_none(one), or_none(other)).all(|(_, a, b)| a.unwrap_or(0) >= b.unwrap_or(0))
}

/// [`is_greater`] on the types that both name. With none in common it holds if both name some; of
/// nothing on the other side, all have to be positive.
pub fn is_greater_existing(one: Option<&Resource>, other: Option<&Resource>) -> bool {
    on_existing(or_none(one), or_none(other), false)
}

/// [`is_at_least`] on the types that both name, in the way of [`is_greater_existing`].
pub fn is_at_least_existing(one: Option<&Resource>, other: Option<&Resource>) -> bool {
    on_existing(or_none(one), or_none(other), true)
}

fn on_existing(one: &Resource, other: &Resource, or_equal: bool) -> bool {
    if one.is_empty() {
        return false;
    }
    if other.is_empty() {
        return one.values().all(|amount| *amount > 0);
    }
    let common = || one.iter().filter_map(|(name, a)| Some((*a, *other.get(name)?)));
    let some = || common().next().is_some();
    common().all(|(a, b)| a >= b) && (or_equal || !some() || common().any(|(a, b)| a != b))
}

/// Whether some type is named by both.
pub fn match_any(one: Option<&Resource>, other: Option<&Resource>) -> bool {
    or_none(one).keys().any(|name| or_none(other).contains_key(name))
}

/// Whether a need fits: what the larger does not name or has less than nothing of, is none.
pub fn fits(larger: Option<&Resource>, need: Option<&Resource>) -> bool {
    let larger = or_none(larger);
    or_none(need).iter().all(|(name, amount)| *amount <= of(larger, name).max(0))
}

/// Whether a need fits into a limit: what it does not name has no bound.
pub fn fits_limit(limit: Option<&Resource>, need: Option<&Resource>) -> bool {
    let limit = or_none(limit);
    let within = |(name, amount): (&String, &i64)| {
        limit.get(name).is_none_or(|bound| *amount <= (*bound).max(0))
    };
    or_none(need).iter().all(within)
}

/// [`fits_limit`] where a negative bound is one.
pub fn fits_actual(limit: Option<&Resource>, need: Option<&Resource>) -> bool {
    let limit = or_none(limit);
    or_none(need).iter().all(|(name, amount)| limit.get(name).is_none_or(|bound| amount <= bound))
}

/// How badly a resource falls short of a need: for each type that is needed, the missing part of it.
/// 0 if nothing is missing.
pub fn fit_score(resource: Option<&Resource>, need: Option<&Resource>) -> f64 {
    let Some(has) = resource else { return or_none(need).len() as f64 };
    let missing = |(name, need): (&String, &i64)| match (*need, of(has, name)) {
        (..=0, _) => 0.0,
        (_, ..=0) => 1.0,
        (need, has) if need > has => (need - has) as f64 / need as f64,
        _ => 0.0,
    };
    or_none(need).iter().map(missing).sum()
}

/// Percentage of its types that the other names too.
pub fn type_matching(one: Option<&Resource>, other: Option<&Resource>) -> u64 {
    let (one, other) = (or_none(one), or_none(other));
    let common = one.keys().filter(|name| other.contains_key(*name)).count() as u64;
    common * 100 / (one.len() as u64).max(1)
}

/// The type with the largest use over capacity; the last by name among equals.
pub fn dominant_type(used: Option<&Resource>, capacity: Option<&Resource>) -> String {
    let mut dominant: (f64, &str) = (0.0, "");
    for (name, used) in or_none(used) {
        let Some(capacity) = or_none(capacity).get(name) else { continue };
        let ratio = match (*capacity, *used) {
            (0, 0) => 0.0,
            (0, _) => 1.0,
            (capacity, used) => used as f64 / capacity as f64,
        };
        if ratio >= dominant.0 {
            dominant = (ratio, name);
        }
    }
    dominant.1.to_string()
}

/// The shares of a total, by type, in increasing order. What the total does not have counts as it is.
pub fn shares(resource: Option<&Resource>, total: Option<&Resource>) -> Vec<f64> {
    let total = or_none(total);
    let share = |(name, amount): (&String, &i64)| match (*amount, of(total, name)) {
        (0, _) => 0.0,
        (amount, 0) => amount as f64,
        (amount, total) => amount as f64 / total as f64,
    };
    let mut shares: Vec<f64> = or_none(resource).iter().map(share).collect();
    shares.sort_by(f64::total_cmp);
    shares
}

/// Compares two lists of shares, from the largest share down; a longer rest counts by its
/// sign.
pub fn compare_shares(one: &[f64], other: &[f64]) -> Ordering {
    let pairs = one.iter().rev().zip(other.iter().rev());
    for (a, b) in pairs {
        match a.partial_cmp(b) {
            Some(Ordering::Equal) | None => {}
            Some(decided) => return decided,
        }
    }
    let rest = |longer: &[f64], shorter: &[f64]| {
        let rest = longer.get(..longer.len().saturating_sub(shorter.len())).unwrap_or(&[]);
        let first = rest.iter().rev().find(|share| **share != 0.0);
        first.map_or(Ordering::Equal, |share| share.total_cmp(&0.0))
    };
    rest(one, other).then(rest(other, one).reverse())
}

/// Compares two uses, by their shares of a total.
pub fn compare_usage(
    one: Option<&Resource>,
    other: Option<&Resource>,
    total: Option<&Resource>,
) -> Ordering {
    compare_shares(&shares(one, total), &shares(other, total))
}

/// [`compare_usage`] on the types of a need; on all, if the need has none.
pub fn compare_usage_of(
    one: Option<&Resource>,
    other: Option<&Resource>,
    total: Option<&Resource>,
    need: Option<&Resource>,
) -> Ordering {
    let need = or_none(need);
    let of_need = |resource: Option<&Resource>| -> Resource {
        let mut kept = or_none(resource).clone();
        kept.retain(|name, _| need.is_empty() || need.contains_key(name));
        kept
    };
    compare_usage(Some(&of_need(one)), Some(&of_need(other)), total)
}

/// The largest share of the one over that of the other; 1 if neither has any.
pub fn fairness_ratio(
    one: Option<&Resource>,
    other: Option<&Resource>,
    total: Option<&Resource>,
) -> f64 {
    let largest = |resource| shares(resource, total).last().copied().unwrap_or(0.0);
    let ratio: f64 = largest(one) / largest(other);
    if ratio.is_nan() { 1.0 } else { ratio }
}

/// The fair share of a queue. It is the largest ratio, over types that the queue has some of, of
/// its amount to its guarantee, or where it has none to its fair maximum. Without either a type is
/// not looked at. Over one that is not positive the share is 1, if there is any.
pub fn fair_share(
    allocated: Option<&Resource>,
    guaranteed: Option<&Resource>,
    fair_max: Option<&Resource>,
) -> f64 {
    let over = |name: &str, amount: i64| {
        let denominator = or_none(guaranteed).get(name).or_else(|| or_none(fair_max).get(name));
        denominator.map_or(0.0, |denominator| match (*denominator, amount) {
            (..=0, ..=0) => 0.0,
            (..=0, _) => 1.0,
            (denominator, amount) => amount as f64 / denominator as f64,
        })
    };
    let shares = or_none(allocated).iter().filter(|(_, amount)| **amount >= 0);
    shares.map(|(name, amount)| over(name, *amount)).fold(0.0, f64::max)
}

#[cfg(test)]
mod tests;
