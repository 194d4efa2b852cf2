//! Best-first search over sets of blocks.
//!
//! A box holds the sets with at least so many and at most so many blocks of each variant. Boxes wait
//! in the order of what their sets cost at least; one that holds a single set is judged, another is
//! cut where the linear program stands. So sets are judged in the order of price, nodes and templates,
//! and the first that suffices comes before all others.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::cmp::Reverse;

use super::error::AutoscaleError;
use super::linear::Program;

/// Whether a set of blocks starts all groups.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    Yes,
    No,
    /// The budget of a placement ran out.
    Unknown,
}

/// The place of a box in the order: what its sets cost at least, and the set of it that is preferred
/// among equals.
type Key = (i128, Reverse<Vec<u32>>, Vec<u32>);

/// The judge of a set, with the steps that are left.
type Judge<'j> = dyn FnMut(&[u32], &mut u64) -> Result<Verdict, AutoscaleError> + 'j;

/// A search under way.
#[derive(Debug)]
pub(super) struct Boxes {
    /// Where the linear program stands in each box.
    open: BTreeMap<Key, Vec<f64>>,
    /// Cost of the cheapest set that could not be judged.
    unknown: Option<i128>,
    /// Steps that a bound takes.
    step: u64,
}

/// The end of a search.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Searched {
    /// This set suffices, and no set before it does.
    First(Vec<u32>),
    /// A set that suffices, and sets before it that could not be judged.
    Found(Vec<u32>),
    /// No set is left that costs less than the limit.
    Nothing,
    /// The budget ran out.
    Exhausted,
}

impl Boxes {
    /// A search over a box.
    pub(super) fn new(program: &Program, low: Vec<u32>, high: Vec<u32>) -> Boxes {
        let size = program.costs.len() * (program.covers.len() + program.costs.len());
        let mut boxes = Boxes { open: BTreeMap::new(), unknown: None, step: 1 + size as u64 / 256 };
        boxes.add(program, low, high, 0);
        boxes
    }

    /// Lower bound of the cost of any set that is left; `None` if none is left.
    pub(super) fn least(&self) -> Option<i128> {
        let open = self.open.first_key_value().map(|((cost, ..), _)| *cost);
        open.into_iter().chain(self.unknown).min()
    }

    /// Where the linear program stands in the first box.
    pub(super) fn first(&self) -> Option<&[f64]> {
        self.open.first_key_value().map(|(_, at)| &**at)
    }

    /// Cuts boxes until the first holds a single set, the cheapest by counting, which stays; `None` if
    /// the steps run out before.
    pub(super) fn settle(&mut self, program: &Program, steps: &mut u64) -> Option<Vec<u32>> {
        while let Some(entry) = self.open.first_entry() {
            let (_, Reverse(high), low) = entry.key();
            if low == high {
                return Some(low.clone());
            }
            if *steps == 0 {
                return None;
            }
            let ((cost, Reverse(high), low), at) = entry.remove_entry();
            self.cut(program, (cost, &low, &high), &at, steps);
        }
        None
    }

    /// Looks at sets until one suffices, or none is left that costs less than a limit.
    pub(super) fn run(
        &mut self,
        program: &Program,
        limit: Option<i128>,
        steps: &mut u64,
        judge: &mut Judge<'_>,
    ) -> Result<Searched, AutoscaleError> {
        while let Some(entry) = self.open.first_entry() {
            if limit.is_some_and(|limit| entry.key().0 >= limit) {
                return Ok(Searched::Nothing);
            }
            if *steps == 0 {
                return Ok(Searched::Exhausted);
            }
            let ((cost, Reverse(high), low), at) = entry.remove_entry();
            if low == high {
                match judge(&low, steps)? {
                    Verdict::Yes if self.unknown.is_some() => return Ok(Searched::Found(low)),
                    Verdict::Yes => return Ok(Searched::First(low)),
                    Verdict::No => {}
                    Verdict::Unknown => {
                        self.unknown = Some(self.unknown.map_or(cost, |other| other.min(cost)));
                    }
                }
                continue;
            }
            self.cut(program, (cost, &low, &high), &at, steps);
        }
        Ok(Searched::Nothing)
    }

    /// Cuts a box along the variant with the most fractional part in the linear program; if all
    /// parts are whole, along the first that is open.
    fn cut(
        &mut self,
        program: &Program,
        (cost, low, high): (i128, &[u32], &[u32]),
        at: &[f64],
        steps: &mut u64,
    ) {
        let mut best: Option<(i64, usize, u32)> = None;
        for (variant, ((&low, &high), &at)) in low.iter().zip(high).zip(at).enumerate() {
            if low == high {
                continue;
            }
            let part = at.clamp(f64::from(low), f64::from(high));
            let whole = part as u32;
            // In thousandths, so that noise decides nothing.
            let rest = ((part - f64::from(whole)) * 1_000.0) as i64;
            let uneven = rest.min(1_000 - rest);
            let (uneven, whole) =
                if uneven < 2 { (0, whole + u32::from(rest > 500)) } else { (uneven, whole) };
            if best.is_none_or(|(most, ..)| uneven > most) {
                best = Some((uneven, variant, whole));
            }
        }
        let Some((uneven, variant, whole)) = best else { return };
        let (first, last) = (low[variant], high[variant]);
        let parts: [Option<(u32, u32)>; 3] = if uneven > 0 {
            let whole = whole.clamp(first, last - 1);
            [Some((first, whole)), Some((whole + 1, last)), None]
        } else {
            let below = (whole > first).then(|| (first, whole - 1));
            [below, Some((whole, whole)), (whole < last).then(|| (whole + 1, last))]
        };
        for (first, last) in parts.into_iter().flatten() {
            *steps = steps.saturating_sub(self.step);
            let (mut low, mut high) = (low.to_vec(), high.to_vec());
            (low[variant], high[variant]) = (first, last);
            self.add(program, low, high, cost);
        }
    }

    fn add(&mut self, program: &Program, low: Vec<u32>, high: Vec<u32>, least: i128) {
        if let Some(bound) = program.bound(&low, &high) {
            self.open.insert((bound.cost.max(least), Reverse(high), low), bound.at);
        }
    }
}

#[cfg(test)]
mod tests;
