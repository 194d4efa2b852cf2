//! The division of one resource among siblings.

use alloc::vec::Vec;
use core::cmp::Reverse;

use crate::quota::model::amount::UNLIMITED;
use crate::quota::model::queue::Weight;

/// One of the queues among which an amount of one resource is divided.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sibling<'a> {
    /// Decides the last ties.
    pub name: &'a str,
    /// Higher takes of the surplus first.
    pub priority: i32,
    /// The place in the order of creation; less is older.
    pub created: u64,
    /// Its least part, as far as it asks for it; [`UNLIMITED`]: the whole amount.
    pub deserved: i64,
    /// The most it may have.
    pub limit: i64,
    /// Its weight in the division of the surplus.
    pub weight: Weight,
    /// Its usage and waiting requests.
    pub request: i64,
    /// Its past usage of the amount of its weight, in billionths of the whole.
    pub usage: u64,
    /// Its share before.
    pub share: i64,
}

impl Sibling<'_> {
    /// Amount that it can make use of.
    fn requestable(&self) -> i64 {
        self.limit.min(self.request)
    }
}

/// How an amount is divided.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DivisionRules {
    /// The whole: the surplus is given in multiples of it as long as there are any.
    pub unit: i64,
    /// How much past usage counts, in billionths.
    pub usage_factor: u64,
}

impl Default for DivisionRules {
    fn default() -> DivisionRules {
        DivisionRules { unit: 1, usage_factor: 0 }
    }
}

/// Billionths of one.
const ONE: f64 = 1e9;
/// Steps of a weight that past usage has changed.
const STEPS: f64 = (1_u64 << 40) as f64;

/// Divides an amount; the second part of the answer is what is left, which is negative where more is
/// deserved than there is.
///
/// Deserved amounts come first, even beyond the amount. The surplus goes by priority, and in a
/// priority by weight, in rounds: whole units, until none of them asks for less than its part. What
/// rounding leaves goes by one unit to the largest remainders, higher priorities first. O(n²) at worst.
///
/// Where `usage` counts, a weight w of W becomes max(0, w/W + k·(w/W − usage)).
///
/// Source: KAI-Scheduler's `resource_division.go`.
pub fn divide(total: i64, rules: DivisionRules, siblings: &[Sibling<'_>]) -> (Vec<i64>, i64) {
    let unit = i128::from(rules.unit.max(1));
    let mut shares: Vec<i64> = siblings.iter().map(|queue| queue.share).collect();
    let mut rest = i128::from(total);
    for (share, queue) in shares.iter_mut().zip(siblings) {
        let deserved = if queue.deserved == UNLIMITED { total } else { queue.deserved };
        let given = deserved.min(queue.requestable());
        *share = share.saturating_add(given);
        rest -= i128::from(given);
    }
    let mut order: Vec<usize> = (0..siblings.len()).collect();
    let key = |at: usize| (siblings[at].created, siblings[at].name);
    order.sort_by_key(|&at| (Reverse(siblings[at].priority), key(at)));
    let same = |a: &usize, b: &usize| siblings[*a].priority == siblings[*b].priority;
    // Numerator over denominator of what rounding has left a queue.
    let mut remainders: Vec<Option<(u128, u128)>> = alloc::vec![None; siblings.len()];
    if rest > 0 {
        for level in order.chunk_by(same) {
            let mut again = true;
            while again && rest > 0 {
                again = false;
                let open = |at: &usize| siblings[*at].requestable() > shares[*at];
                let open: Vec<usize> = level.iter().copied().filter(open).collect();
                let weights = effective_weights(siblings, &open, rules.usage_factor);
                let sum: u128 = weights.iter().sum();
                if sum == 0 {
                    break;
                }
                let round = rest.unsigned_abs();
                for (&at, &weight) in open.iter().zip(&weights) {
                    // Weights are below 2⁶⁴ and amounts below 2⁶³.
                    let part = weight * round;
                    if part == 0 {
                        continue;
                    }
                    let missing = i128::from(siblings[at].requestable()) - i128::from(shares[at]);
                    let missing = missing.unsigned_abs();
                    let (whole, below) = (part / sum, part % sum);
                    let given = if missing <= whole {
                        again |= missing < whole || below > 0;
                        remainders[at] = None;
                        missing
                    } else {
                        let units = whole / unit.unsigned_abs() * unit.unsigned_abs();
                        // In units: what is beyond the multiple, over the sum.
                        let left = (whole - units) * sum + below;
                        if left > 0 {
                            remainders[at] = Some((left, sum));
                        }
                        units
                    };
                    shares[at] = shares[at].saturating_add(saturated(given));
                    rest -= given.cast_signed();
                }
            }
        }
        for level in order.chunk_by(same) {
            let mut open: Vec<usize> =
                level.iter().copied().filter(|&at| remainders[at].is_some()).collect();
            open.sort_by(|&a, &b| {
                let of = |at: usize| remainders[at].unwrap_or((0, 1));
                larger_first(of(a), of(b)).then(key(a).cmp(&key(b)))
            });
            for at in open {
                let given = rest.min(unit);
                if given <= 0 {
                    break;
                }
                shares[at] = shares[at].saturating_add(saturated(given.unsigned_abs()));
                rest -= given;
            }
        }
    }
    (shares, rest.clamp(i128::from(i64::MIN), i128::from(i64::MAX)) as i64)
}

fn saturated(amount: u128) -> i64 {
    i64::try_from(amount).unwrap_or(i64::MAX)
}

/// The order of two fractions, the larger first.
fn larger_first(a: (u128, u128), b: (u128, u128)) -> core::cmp::Ordering {
    let ((one, under), (other, over)) = (a, b);
    let whole = (other / over).cmp(&(one / under));
    // Below one, numerators are below denominators, which are sums of weights.
    whole.then_with(|| {
        let (one, other) = (one % under, other % over);
        other.saturating_mul(under).cmp(&one.saturating_mul(over))
    })
}

/// Weights with past usage counted in.
fn effective_weights(siblings: &[Sibling<'_>], open: &[usize], factor: u64) -> Vec<u128> {
    let plain = |at: &usize| u128::from(siblings[*at].weight.as_nanos());
    if factor == 0 || open.iter().all(|&at| siblings[at].usage == 0) {
        return open.iter().map(plain).collect();
    }
    let sum: u128 = open.iter().map(plain).sum();
    if sum == 0 {
        return alloc::vec![0; open.len()];
    }
    let of = |at: &usize| {
        let normal = plain(at) as f64 / sum as f64;
        let usage = siblings[*at].usage as f64 / ONE;
        let weight = (normal + factor as f64 / ONE * (normal - usage)).max(0.0);
        if siblings[*at].weight == Weight::ZERO { 0 } else { (weight * STEPS) as u64 }
    };
    open.iter().map(|at| u128::from(of(at))).collect()
}

#[cfg(test)]
mod tests;
