//! Packing: how many pods of each demand go into each bin, exactly.
//!
//! First quick fills in several orders. Then bins are filled one after another, each with every
//! maximal choice of what is left, best first, with sums and counts to prune and with the states
//! that failed remembered. To fill maximally loses nothing: a pod that still fits can be moved
//! here from a later bin. So the search is complete.
//!
//! Source: bin completion after Gent and Korf (2002, 2003), here for several resources, bins of
//! different sizes and pods that not every bin takes.

mod complete;

use alloc::vec::Vec;
use core::cmp::Reverse;

use self::complete::Search;
use super::problem::times;

/// Equal pods that may go to the same bins.
#[derive(Debug, Clone)]
pub(crate) struct Demand {
    /// What one pod takes.
    pub(crate) ask: Vec<i64>,
    pub(crate) count: u32,
    /// Which allowance its missing pods are charged to.
    pub(crate) quota: usize,
}

/// A problem: demands, bins, and how many pods of each quota may be left out.
#[derive(Debug, Default)]
pub(crate) struct Packing {
    pub(crate) width: usize,
    pub(crate) demands: Vec<Demand>,
    /// What is free, `width` numbers a bin.
    pub(crate) free: Vec<i64>,
    /// Whether a bin takes pods of a demand; one entry a bin and demand.
    pub(crate) allow: Vec<bool>,
    /// How many pods may be left out, a quota each.
    pub(crate) slack: Vec<u32>,
}

/// What came of a packing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Packed {
    /// Demand, bin, number of pods.
    Fits(Vec<(usize, usize, u32)>),
    /// There is no way.
    Never,
    /// The steps ran out.
    Unknown,
}

impl Packing {
    fn bins(&self) -> usize {
        self.free.len().checked_div(self.width).unwrap_or(0)
    }

    #[inline]
    fn room<'b>(&self, free: &'b [i64], bin: usize) -> &'b [i64] {
        &free[bin * self.width..(bin + 1) * self.width]
    }

    #[inline]
    fn allows(&self, bin: usize, demand: usize) -> bool {
        self.allow[bin * self.demands.len() + demand]
    }

    /// The problem as numbers; equal for equal problems whose bins are in another order.
    pub(crate) fn signature(&self) -> Vec<i64> {
        let kinds = self.demands.len();
        let mut bins: Vec<Vec<i64>> = (0..self.bins())
            .map(|bin| {
                let allow = (0..kinds).map(|demand| i64::from(self.allows(bin, demand)));
                self.room(&self.free, bin).iter().copied().chain(allow).collect()
            })
            .collect();
        bins.sort_unstable();
        let mut signature = alloc::vec![kinds as i64, self.slack.len() as i64];
        for demand in &self.demands {
            signature.extend([i64::from(demand.count), demand.quota as i64]);
            signature.extend_from_slice(&demand.ask);
        }
        signature.extend(self.slack.iter().map(|&slack| i64::from(slack)));
        signature.extend(bins.into_iter().flatten());
        signature
    }

    /// What sums and quick fills tell; nothing if they do not.
    pub(crate) fn easily(&self) -> Option<Packed> {
        let scales = self.scales();
        if scales.iter().any(|scale| scale.need > scale.free) {
            return Some(Packed::Never);
        }
        self.fill_quickly(&scales).map(Packed::Fits)
    }

    /// Solves the problem, in at most so many steps; steps taken are subtracted.
    pub(crate) fn complete(&self, steps: &mut u64) -> Packed {
        let mut search = Search::new(self, &self.scales());
        match search.run(steps) {
            Some(true) => Packed::Fits(search.answer()),
            Some(false) => Packed::Never,
            None => Packed::Unknown,
        }
    }

    /// What is needed and what is there, a dimension each.
    fn scales(&self) -> Vec<Scale> {
        let slack: u64 = self.slack.iter().map(|&slack| u64::from(slack)).sum();
        (0..self.width)
            .map(|dimension| {
                let mut amounts: Vec<(i64, u32)> = self
                    .demands
                    .iter()
                    .map(|demand| (demand.ask[dimension], demand.count))
                    .collect();
                amounts.sort_unstable_by_key(|amount| Reverse(amount.0));
                // The largest pods may be those left out.
                let mut out = slack;
                let mut need = 0_i64;
                for (amount, count) in amounts {
                    let left_out = out.min(u64::from(count));
                    out -= left_out;
                    let count = i64::from(count) - left_out as i64;
                    need = need.saturating_add(amount.saturating_mul(count));
                }
                let free = self.free.iter().skip(dimension).step_by(self.width);
                Scale { need, free: free.fold(0, |sum: i64, free| sum.saturating_add(*free)) }
            })
            .collect()
    }

    /// Fills bins demand by demand, in several orders.
    fn fill_quickly(&self, scales: &[Scale]) -> Option<Vec<(usize, usize, u32)>> {
        let mut dimensions: Vec<usize> = (0..self.width).collect();
        dimensions.sort_by_key(|&dimension| Reverse(scales[dimension].tightness()));
        let weight: Vec<i64> = self
            .demands
            .iter()
            .map(|demand| {
                let share = |(ask, scale): (&i64, &Scale)| scale.share(*ask) * scale.tightness();
                demand.ask.iter().zip(scales).map(share).sum()
            })
            .collect();
        let mut orders: Vec<Vec<usize>> = Vec::new();
        let all = || (0..self.demands.len()).collect::<Vec<_>>();
        let mut by_weight = all();
        by_weight.sort_by_key(|&demand| Reverse(weight[demand]));
        orders.push(by_weight);
        for &dimension in dimensions.iter().take(3) {
            let mut order = all();
            order.sort_by_key(|&demand| {
                Reverse((self.demands[demand].ask[dimension], weight[demand]))
            });
            if !orders.contains(&order) {
                orders.push(order);
            }
        }
        let least = dimensions.first().copied().unwrap_or(0);
        orders.iter().find_map(|order| self.fill(order, least))
    }

    fn fill(&self, order: &[usize], least: usize) -> Option<Vec<(usize, usize, u32)>> {
        let mut free = self.free.clone();
        let mut placed = Vec::new();
        let mut slack = self.slack.clone();
        let mut bins: Vec<usize> = (0..self.bins()).collect();
        for &demand in order {
            let ask = &self.demands[demand].ask;
            let mut left = self.demands[demand].count;
            bins.sort_by_key(|&bin| (free[bin * self.width + least], bin));
            for &bin in &bins {
                if left == 0 {
                    break;
                }
                if !self.allows(bin, demand) {
                    continue;
                }
                let count = times(self.room(&free, bin).iter().copied(), ask).min(left);
                if count > 0 {
                    take(&mut free[bin * self.width..(bin + 1) * self.width], ask, count);
                    placed.push((demand, bin, count));
                    left -= count;
                }
            }
            let quota = &mut slack[self.demands[demand].quota];
            *quota = quota.checked_sub(left)?;
        }
        Some(placed)
    }
}

/// What is needed and what is free of one dimension.
#[derive(Debug, Clone, Copy)]
struct Scale {
    need: i64,
    free: i64,
}

impl Scale {
    /// How much of what is free is needed, in 1024ths.
    fn tightness(self) -> i64 {
        if self.free <= 0 {
            0
        } else {
            (i128::from(self.need) * 1_024 / i128::from(self.free)) as i64
        }
    }

    /// An amount as a part of what is free, in 2^20ths.
    fn share(self, amount: i64) -> i64 {
        if self.free <= 0 {
            0
        } else {
            (i128::from(amount) * (1 << 20) / i128::from(self.free)).min(1 << 20) as i64
        }
    }
}

#[inline]
fn take(free: &mut [i64], ask: &[i64], count: u32) {
    for (free, ask) in free.iter_mut().zip(ask) {
        *free = free.saturating_sub(ask.saturating_mul(i64::from(count)));
    }
}
