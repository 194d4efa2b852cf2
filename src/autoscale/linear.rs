//! The linear bound: the least price of blocks that cover some needs, if blocks could be bought in
//! parts.
//!
//! The program is solved in its dual form, where nothing bought for nothing is a first solution, by
//! the simplex method on floats. What it finds only guides: the bound is counted anew in integers from
//! the prices it has put on the needs, and any prices at all make a sound bound.

use alloc::vec;
use alloc::vec::Vec;

/// A need that blocks cover together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Cover {
    /// How much must be covered.
    pub(super) need: i64,
    /// How much one block of each variant covers.
    pub(super) each: Vec<i64>,
}

/// Costs of blocks, their greatest numbers, and the needs that they must cover.
#[derive(Debug, Clone, Default)]
pub(super) struct Program {
    /// By variant: what a block costs.
    pub(super) costs: Vec<i128>,
    pub(super) covers: Vec<Cover>,
    /// Limits of blocks together: the weight of a block of each variant, and the most.
    pub(super) limits: Vec<(Vec<i64>, i64)>,
}

/// The least cost within a box, and where the linear program has it.
#[derive(Debug, Clone)]
pub(super) struct Bound {
    pub(super) cost: i128,
    /// By variant: how many blocks, in parts.
    pub(super) at: Vec<f64>,
}

/// Coefficients are made no larger than this, rounded in favour of the program.
const MOST: i64 = 1 << 24;
/// Binary places of the prices of needs.
const PLACES: u32 = 40;
/// The highest price of a need.
const HIGHEST: f64 = 2e25;
/// Smaller than this is nothing.
const TINY: f64 = 1e-9;
/// Steps of the simplex method after which its prices are taken as they are.
const MOST_PIVOTS: usize = 400;

impl Cover {
    /// The same need in smaller numbers; what meets the old one meets it.
    pub(super) fn scaled(mut self) -> Cover {
        let most = self.each.iter().copied().max().unwrap_or(0).max(1);
        let mut shift = 0;
        while most >> shift >= MOST {
            shift += 1;
        }
        if shift > 0 {
            for each in &mut self.each {
                *each = (*each >> shift) + i64::from(*each & ((1 << shift) - 1) != 0);
            }
            self.need >>= shift;
        }
        // More than this no number of blocks covers.
        self.need = self.need.min(1 << 56);
        self
    }
}

impl Program {
    /// The least cost of a set with at least `low` and at most `high` blocks of each variant; `None`
    /// if none covers all needs within the limits. O(pivots · variants · (needs + variants)).
    pub(super) fn bound(&self, low: &[u32], high: &[u32]) -> Option<Bound> {
        let fixed: i128 =
            self.costs.iter().zip(low).map(|(cost, low)| cost * i128::from(*low)).sum();
        let total = |weights: &[i64], counts: &[u32]| -> i128 {
            weights.iter().zip(counts).map(|(w, n)| i128::from(*w) * i128::from(*n)).sum()
        };
        let mut rooms = Vec::with_capacity(self.limits.len());
        for (weights, most) in &self.limits {
            let room = i128::from(*most) - total(weights, low);
            if room < 0 {
                return None;
            }
            rooms.push((weights, room));
        }
        let mut needs = Vec::with_capacity(self.covers.len());
        for cover in &self.covers {
            let lacks = i128::from(cover.need) - total(&cover.each, low);
            if lacks <= 0 {
                continue;
            }
            if total(&cover.each, high) < i128::from(cover.need) {
                return None;
            }
            needs.push((&cover.each, lacks));
        }
        if needs.is_empty() {
            let at = low.iter().map(|low| f64::from(*low)).collect();
            return Some(Bound { cost: fixed, at });
        }
        let open: Vec<i128> = low.iter().zip(high).map(|(l, h)| i128::from(h - l)).collect();
        let mut table = Table::new(&self.costs, &needs, &rooms, &open);
        table.solve();
        let (prices, dues) = table.prices(needs.len(), rooms.len());
        let most: i128 = open.iter().zip(&self.costs).map(|(open, cost)| open * cost).sum();
        let least = certified(&self.costs, (&needs, &prices), (&rooms, &dues), &open);
        if least > most {
            return None;
        }
        let at = table.counts().into_iter().zip(low);
        let at = at.map(|(part, low)| part + f64::from(*low)).collect();
        Some(Bound { cost: fixed + least.max(0), at })
    }
}

/// The bound that some prices prove, in integers: what the needs are worth, less what limits and open
/// variants take of it.
fn certified(
    costs: &[i128],
    (needs, prices): (&[(&Vec<i64>, i128)], &[f64]),
    (rooms, dues): (&[(&Vec<i64>, i128)], &[f64]),
    open: &[i128],
) -> i128 {
    let exact = |price: &f64| -> i128 {
        let scaled = price.max(0.0) * (1_u64 << PLACES) as f64;
        if scaled.is_nan() { 0 } else { scaled.min(HIGHEST) as i128 }
    };
    let prices: Vec<i128> = prices.iter().map(exact).collect();
    let dues: Vec<i128> = dues.iter().map(exact).collect();
    let mut worth: i128 = 0;
    for ((_, lacks), price) in needs.iter().zip(&prices) {
        worth = worth.saturating_add(lacks.saturating_mul(*price));
    }
    for ((_, room), due) in rooms.iter().zip(&dues) {
        worth = worth.saturating_sub(room.saturating_mul(*due));
    }
    for (variant, (&cost, &open)) in costs.iter().zip(open).enumerate() {
        let mut gain = -(cost << PLACES);
        for ((each, _), price) in needs.iter().zip(&prices) {
            gain = gain.saturating_add(price.saturating_mul(i128::from(each[variant])));
        }
        for ((weights, _), due) in rooms.iter().zip(&dues) {
            gain = gain.saturating_sub(due.saturating_mul(i128::from(weights[variant])));
        }
        if gain > 0 {
            worth = worth.saturating_sub(gain.saturating_mul(open));
        }
    }
    if worth <= 0 { 0 } else { ((worth - 1) >> PLACES) + 1 }
}

/// A tableau of the dual program: a row a variant, a column a need, a limit, a variant that is
/// bounded, and a slack.
struct Table {
    rows: Vec<Vec<f64>>,
    /// The worth of a column so far.
    worth: Vec<f64>,
    /// The right-hand sides.
    right: Vec<f64>,
    /// The column that each row has solved for.
    basis: Vec<usize>,
    variants: usize,
    /// A column without bound that was met: the needs cannot be covered.
    ray: Option<usize>,
}

impl Table {
    fn new(
        costs: &[i128],
        needs: &[(&Vec<i64>, i128)],
        rooms: &[(&Vec<i64>, i128)],
        open: &[i128],
    ) -> Table {
        let variants = costs.len();
        let columns = needs.len() + rooms.len() + 2 * variants;
        let mut worth = vec![0.0; columns];
        for (at, (_, lacks)) in needs.iter().enumerate() {
            worth[at] = *lacks as f64;
        }
        for (at, (_, room)) in rooms.iter().enumerate() {
            worth[needs.len() + at] = -(*room as f64);
        }
        let bounded = needs.len() + rooms.len();
        let mut rows = Vec::with_capacity(variants);
        for (variant, open) in open.iter().enumerate() {
            worth[bounded + variant] = -(*open as f64);
            let mut row = vec![0.0; columns];
            for (at, (each, _)) in needs.iter().enumerate() {
                row[at] = each[variant] as f64;
            }
            for (at, (weights, _)) in rooms.iter().enumerate() {
                row[needs.len() + at] = -(weights[variant] as f64);
            }
            row[bounded + variant] = -1.0;
            row[bounded + variants + variant] = 1.0;
            rows.push(row);
        }
        let basis = (0..variants).map(|variant| bounded + variants + variant).collect();
        let right = costs.iter().map(|cost| *cost as f64).collect();
        Table { rows, worth, right, basis, variants, ray: None }
    }

    fn solve(&mut self) {
        // A need in large numbers is not worth more for that.
        let scale: Vec<f64> = (0..self.worth.len())
            .map(|column| {
                self.rows.iter().map(|row| row[column].abs()).fold(0.0, f64::max).max(TINY)
            })
            .collect();
        for _ in 0..MOST_PIVOTS {
            let mut enter = None;
            for (column, worth) in self.worth.iter().enumerate() {
                let worth = worth / scale[column];
                if worth > TINY && enter.is_none_or(|(best, _)| worth > best) {
                    enter = Some((worth, column));
                }
            }
            let Some((_, enter)) = enter else { return };
            let mut leave: Option<(f64, usize)> = None;
            for (row, values) in self.rows.iter().enumerate() {
                if values[enter] > TINY * scale[enter] {
                    let ratio = self.right[row] / values[enter];
                    let first = |(best, at): (f64, usize)| {
                        ratio < best || ratio == best && self.basis[row] < self.basis[at]
                    };
                    if leave.is_none_or(first) {
                        leave = Some((ratio, row));
                    }
                }
            }
            let Some((_, leave)) = leave else {
                self.ray = Some(enter);
                return;
            };
            self.pivot(leave, enter);
        }
    }

    fn pivot(&mut self, leave: usize, enter: usize) {
        let by = self.rows[leave][enter];
        for value in &mut self.rows[leave] {
            *value /= by;
        }
        self.right[leave] /= by;
        let (own, right) = (self.rows[leave].clone(), self.right[leave]);
        for row in (0..self.variants).filter(|row| *row != leave) {
            let factor = self.rows[row][enter];
            if factor != 0.0 {
                for (value, own) in self.rows[row].iter_mut().zip(&own) {
                    *value -= factor * own;
                }
                self.right[row] = (self.right[row] - factor * right).max(0.0);
            }
        }
        let factor = self.worth[enter];
        for (value, own) in self.worth.iter_mut().zip(&own) {
            *value -= factor * own;
        }
        self.worth[enter] = 0.0;
        self.basis[leave] = enter;
    }

    /// The prices of the needs, and what the limits cost.
    fn prices(&self, needs: usize, rooms: usize) -> (Vec<f64>, Vec<f64>) {
        let mut all = vec![0.0; self.worth.len()];
        for (row, &column) in self.basis.iter().enumerate() {
            all[column] = self.right[row];
        }
        if let Some(ray) = self.ray {
            // Far along the column that has no end.
            let far = 1e9 * (1.0 + self.right.iter().copied().fold(0.0, f64::max));
            all[ray] += far;
            for (row, &column) in self.basis.iter().enumerate() {
                all[column] -= far * self.rows[row][ray];
            }
        }
        (all[..needs].to_vec(), all[needs..needs + rooms].to_vec())
    }

    /// How many blocks of each variant the program buys beyond the least.
    fn counts(&self) -> Vec<f64> {
        let slacks = self.worth.len() - self.variants;
        self.worth[slacks..].iter().map(|worth| (-worth).max(0.0)).collect()
    }
}

#[cfg(test)]
mod tests;
