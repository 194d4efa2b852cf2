//! Quick fills of a packing: demand by demand into the fullest bins, in several orders.

use alloc::vec::Vec;
use core::cmp::Reverse;

use super::instance::{Packing, Scale, take};
use crate::place::numbers::times;

impl Packing {
    /// Fills bins demand by demand, in several orders.
    pub(crate) fn fill_quickly(&self, scales: &[Scale]) -> Option<Vec<(usize, usize, u32)>> {
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
