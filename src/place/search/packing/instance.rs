//! A packing instance in numbers: demands, bins, and pods that may be left out.

use alloc::vec::Vec;
use core::cmp::Reverse;

/// Equal pods that may go to the same bins.
#[derive(Debug, Clone)]
pub(crate) struct Demand {
    /// Demand of one pod, a dimension each.
    pub(crate) ask: Vec<i64>,
    pub(crate) count: u32,
    /// The allowance to which its missing pods are charged.
    pub(crate) quota: usize,
}

/// An instance: demands, bins, and how many pods of each quota may be left out.
#[derive(Debug, Default)]
pub(crate) struct Packing {
    pub(crate) width: usize,
    pub(crate) demands: Vec<Demand>,
    /// Free amounts, `width` numbers a bin.
    pub(crate) free: Vec<i64>,
    /// Whether a bin takes pods of a demand; one entry a bin and demand.
    pub(crate) allow: Vec<bool>,
    /// How many pods may be left out, a quota each.
    pub(crate) slack: Vec<u32>,
}

impl Packing {
    pub(crate) fn bins(&self) -> usize {
        self.free.len().checked_div(self.width).unwrap_or(0)
    }

    #[inline]
    pub(crate) fn room<'b>(&self, free: &'b [i64], bin: usize) -> &'b [i64] {
        &free[bin * self.width..(bin + 1) * self.width]
    }

    #[inline]
    pub(crate) fn allows(&self, bin: usize, demand: usize) -> bool {
        self.allow[bin * self.demands.len() + demand]
    }

    /// The instance as numbers; equal for equal instances whose bins are in another order.
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

    /// The need and the free amount in all bins, a dimension each.
    pub(crate) fn scales(&self) -> Vec<Scale> {
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
}

/// The need and the free amount of one dimension.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Scale {
    pub(crate) need: i64,
    pub(crate) free: i64,
}

impl Scale {
    /// How much of what is free is needed, in 1024ths.
    pub(crate) fn tightness(self) -> i64 {
        if self.free <= 0 {
            0
        } else {
            (i128::from(self.need) * 1_024 / i128::from(self.free)) as i64
        }
    }

    /// An amount as a part of what is free, in 2^20ths.
    pub(crate) fn share(self, amount: i64) -> i64 {
        if self.free <= 0 {
            0
        } else {
            (i128::from(amount) * (1 << 20) / i128::from(self.free)).min(1 << 20) as i64
        }
    }
}

/// Takes so many pods of a demand out of what is free in a bin.
#[inline]
pub(crate) fn take(free: &mut [i64], ask: &[i64], count: u32) {
    for (free, ask) in free.iter_mut().zip(ask) {
        *free = free.saturating_sub(ask.saturating_mul(i64::from(count)));
    }
}
