//! The complete search of a packing: bin completion.

use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;
use core::cmp::Reverse;

use super::instance::{Packing, Scale, take};
use crate::base::hash::FixedMap;
use crate::place::numbers::times;

/// Dimensions with more units than this are bounded by plain sums.
const FINE: i64 = 2_048;

/// Looks at a demand, in a fill of a bin, that make up one step.
const LOOKS_A_STEP: u64 = 1_024;

/// One way to fill a bin: the demands that it takes pods of, ascending, with how many.
#[derive(Debug, Clone)]
struct Fill {
    cost: i64,
    counts: Box<[(Reverse<u32>, u32)]>,
}

/// A bin being filled, and the ways not yet tried.
#[derive(Debug)]
struct Frame {
    fills: Vec<Fill>,
    next: usize,
}

/// The complete search.
pub(crate) struct Search<'p> {
    packing: &'p Packing,
    /// Bins that take anything, smallest first.
    bins: Vec<usize>,
    /// Demands, hardest first: the order in which fills are tried.
    demands: Vec<usize>,
    /// For each place in `bins` and dimension: what it and later bins can hold at most.
    room_from: Vec<i64>,
    /// For each place in `bins` and demand: how many pods it and later bins can hold at most.
    count_from: Vec<i64>,
    /// Cost of a unit of waste, a dimension each.
    price: Vec<i64>,
    left: Vec<u32>,
    failed: FixedMap<Box<[u32]>, ()>,
    frames: Vec<Frame>,
}

impl<'p> Search<'p> {
    pub(crate) fn new(packing: &'p Packing, scales: &[Scale]) -> Search<'p> {
        let width = packing.width;
        let kinds = packing.demands.len();
        let mut dimensions: Vec<usize> = (0..width).collect();
        dimensions.sort_by_key(|&dimension| Reverse(scales[dimension].tightness()));
        let usable = Usable::new(packing);
        let fits = |bin: usize, demand: usize| {
            if packing.allows(bin, demand) {
                times(
                    packing.room(&packing.free, bin).iter().copied(),
                    &packing.demands[demand].ask,
                )
            } else {
                0
            }
        };
        let mut bins: Vec<usize> = (0..packing.bins())
            .filter(|&bin| (0..kinds).any(|demand| fits(bin, demand) > 0))
            .collect();
        bins.sort_by_cached_key(|&bin| {
            let room = packing.room(&packing.free, bin);
            let sizes: Vec<i64> = dimensions.iter().map(|&d| room[d]).collect();
            let takes: Vec<bool> = (0..kinds).map(|demand| fits(bin, demand) > 0).collect();
            (sizes, takes, bin)
        });
        let mut room_from = vec![0_i64; (bins.len() + 1) * width];
        let mut count_from = vec![0_i64; (bins.len() + 1) * kinds];
        for (place, &bin) in bins.iter().enumerate().rev() {
            for dimension in 0..width {
                let most = usable.most(dimension, packing.room(&packing.free, bin)[dimension]);
                room_from[place * width + dimension] =
                    room_from[(place + 1) * width + dimension].saturating_add(most);
            }
            for demand in 0..kinds {
                count_from[place * kinds + demand] =
                    count_from[(place + 1) * kinds + demand] + i64::from(fits(bin, demand));
            }
        }
        // Waste is dear where little can be spared.
        let price: Vec<i64> = scales
            .iter()
            .map(|scale| {
                let tight = scale.tightness().min(1_024);
                tight * tight / 1_024 * tight / 1_024
            })
            .collect();
        let mut demands: Vec<usize> = (0..kinds).collect();
        let hardness = |demand: usize| -> i64 {
            let ask = packing.demands[demand].ask.iter().zip(scales).zip(&price);
            ask.map(|((ask, scale), price)| scale.share(*ask) * price).sum()
        };
        demands.sort_by_key(|&demand| Reverse(hardness(demand)));
        let left = packing.demands.iter().map(|demand| demand.count).collect();
        Search {
            packing,
            bins,
            demands,
            room_from,
            count_from,
            price,
            left,
            failed: FixedMap::default(),
            frames: Vec::new(),
        }
    }

    /// Whether there is a packing; nothing if the steps ran out.
    pub(crate) fn run(&mut self, steps: &mut u64) -> Option<bool> {
        if self.done() {
            return Some(true);
        }
        if !self.possible(0) {
            return Some(false);
        }
        let fills = self.fills(0, steps)?;
        self.frames.push(Frame { fills, next: 0 });
        while let Some(frame) = self.frames.last_mut() {
            if frame.next > 0 {
                for (demand, count) in &frame.fills[frame.next - 1].counts {
                    self.left[demand.0 as usize] += count;
                }
            }
            let Some(fill) = frame.fills.get(frame.next) else {
                self.frames.pop();
                let place = self.frames.len();
                let key = self.key(place);
                self.failed.insert(key, ());
                continue;
            };
            frame.next += 1;
            for (demand, count) in &fill.counts {
                self.left[demand.0 as usize] -= count;
            }
            *steps = steps.checked_sub(1)?;
            if self.done() {
                return Some(true);
            }
            let place = self.frames.len();
            if place == self.bins.len()
                || !self.possible(place)
                || self.failed.contains_key(&self.key(place))
            {
                continue;
            }
            let fills = self.fills(place, steps)?;
            self.frames.push(Frame { fills, next: 0 });
        }
        Some(false)
    }

    /// Whether what is left may be left out.
    fn done(&self) -> bool {
        self.fits_slack(|demand| self.left[demand])
    }

    fn fits_slack(&self, left: impl Fn(usize) -> u32) -> bool {
        let mut out = [0_u64; 8];
        let slack = &self.packing.slack;
        if slack.len() > out.len() {
            return (0..slack.len()).all(|quota| {
                let of_quota = |&demand: &usize| self.packing.demands[demand].quota == quota;
                let sum: u64 = (0..self.left.len())
                    .filter(of_quota)
                    .map(|demand| u64::from(left(demand)))
                    .sum();
                sum <= u64::from(slack[quota])
            });
        }
        for (demand, asked) in self.packing.demands.iter().enumerate() {
            out[asked.quota] += u64::from(left(demand));
        }
        out.iter().zip(slack).all(|(out, slack)| *out <= u64::from(*slack))
    }

    /// Whether sums and counts allow what is left to go into the bins from a place on.
    fn possible(&self, place: usize) -> bool {
        let (width, kinds) = (self.packing.width, self.left.len());
        let counts = &self.count_from[place * kinds..(place + 1) * kinds];
        let out = |demand: usize| {
            let most = counts[demand].min(i64::from(u32::MAX)) as u32;
            self.left[demand].saturating_sub(most)
        };
        if !self.fits_slack(out) {
            return false;
        }
        let spare = self.packing.slack.iter().any(|&slack| slack > 0);
        let room = &self.room_from[place * width..(place + 1) * width];
        (0..width).all(|dimension| {
            let need = if spare { self.least_need(dimension) } else { self.need(dimension) };
            need <= room[dimension]
        })
    }

    fn need(&self, dimension: usize) -> i64 {
        let amounts = self.packing.demands.iter().zip(&self.left);
        amounts.fold(0, |sum: i64, (demand, left)| {
            sum.saturating_add(demand.ask[dimension].saturating_mul(i64::from(*left)))
        })
    }

    /// As `need`, with the largest pods left out.
    fn least_need(&self, dimension: usize) -> i64 {
        let mut slack = self.packing.slack.clone();
        let mut order: Vec<usize> = (0..self.left.len()).collect();
        order.sort_unstable_by_key(|&demand| Reverse(self.packing.demands[demand].ask[dimension]));
        order.into_iter().fold(0, |sum: i64, demand| {
            let asked = &self.packing.demands[demand];
            let out = slack[asked.quota].min(self.left[demand]);
            slack[asked.quota] -= out;
            let count = i64::from(self.left[demand] - out);
            sum.saturating_add(asked.ask[dimension].saturating_mul(count))
        })
    }

    fn key(&self, place: usize) -> Box<[u32]> {
        let mut key = Vec::with_capacity(self.left.len() + 1);
        key.push(place as u32);
        key.extend_from_slice(&self.left);
        key.into_boxed_slice()
    }

    /// All maximal ways to fill a bin, those that waste least first.
    fn fills(&self, place: usize, steps: &mut u64) -> Option<Vec<Fill>> {
        let bin = self.bins[place];
        let packing = self.packing;
        let kinds: Vec<usize> = self
            .demands
            .iter()
            .copied()
            .filter(|&demand| self.left[demand] > 0 && packing.allows(bin, demand))
            .collect();
        let least = self.least_from(&kinds);
        let mut room = packing.room(&packing.free, bin).to_vec();
        // By place in `kinds`.
        let mut counts = vec![0_u32; kinds.len()];
        let mut fills = Vec::new();
        // Depth-first over the demands, from as many pods as fit down to none.
        let mut depth = 0;
        let mut looks = 0;
        loop {
            while depth < kinds.len() && can_hold(&room, &least[depth * packing.width..]) {
                let demand = kinds[depth];
                let ask = &packing.demands[demand].ask;
                counts[depth] = times(room.iter().copied(), ask).min(self.left[demand]);
                take(&mut room, ask, counts[depth]);
                depth += 1;
                looks += 1;
            }
            // None of the demands from here on fits any more.
            let takes_no_more = |&at: &usize| {
                let demand = kinds[at];
                counts[at] == self.left[demand] || !can_hold(&room, &packing.demands[demand].ask)
            };
            let maximal = (0..depth).take_while(takes_no_more).count();
            looks += maximal as u64 + 1;
            if maximal == depth {
                fills.push(self.fill(bin, &room, kinds.iter().zip(&counts[..depth])));
            }
            *steps = steps.checked_sub(looks / LOOKS_A_STEP)?;
            looks %= LOOKS_A_STEP;
            // Back to the last demand of which one pod less can be taken.
            let Some(last) = counts[..depth].iter().rposition(|count| *count > 0) else {
                fills.sort_by(|a, b| a.cost.cmp(&b.cost).then_with(|| b.counts.cmp(&a.counts)));
                return Some(fills);
            };
            looks += (depth - last) as u64;
            counts[last] -= 1;
            give(&mut room, &packing.demands[kinds[last]].ask);
            depth = last + 1;
        }
    }

    /// For each place in a list of demands and dimension: the least that it and later ones ask for.
    fn least_from(&self, kinds: &[usize]) -> Vec<i64> {
        let width = self.packing.width;
        let mut least = vec![i64::MAX; kinds.len() * width];
        for (at, &demand) in kinds.iter().enumerate().rev() {
            for (dimension, ask) in self.packing.demands[demand].ask.iter().enumerate() {
                let later = least.get((at + 1) * width + dimension).copied();
                least[at * width + dimension] = later.unwrap_or(i64::MAX).min(*ask);
            }
        }
        least
    }

    /// A fill of a bin that leaves so much room.
    fn fill<'k>(
        &self,
        bin: usize,
        room: &[i64],
        counts: impl Iterator<Item = (&'k usize, &'k u32)>,
    ) -> Fill {
        let waste = room.iter().zip(&self.price).zip(self.packing.room(&self.packing.free, bin));
        let cost = waste
            .map(|((room, price), free)| {
                let part =
                    if *free > 0 { i128::from(*room) * 1_024 / i128::from(*free) } else { 0 };
                part as i64 * price
            })
            .sum();
        let taken = counts.filter(|(_, count)| **count > 0);
        let mut counts: Vec<_> =
            taken.map(|(kind, count)| (Reverse(*kind as u32), *count)).collect();
        counts.sort_unstable_by_key(|(demand, _)| demand.0);
        Fill { cost, counts: counts.into_boxed_slice() }
    }

    pub(crate) fn answer(&self) -> Vec<(usize, usize, u32)> {
        let mut answer = Vec::new();
        for (frame, bin) in self.frames.iter().zip(&self.bins) {
            let Some(fill) = frame.next.checked_sub(1).and_then(|fill| frame.fills.get(fill))
            else {
                continue;
            };
            let taken = fill.counts.iter();
            answer.extend(taken.map(|(demand, count)| (demand.0 as usize, *bin, *count)));
        }
        answer
    }
}

/// Whether there is room for so much more; what is not asked for needs none.
#[inline]
fn can_hold(room: &[i64], ask: &[i64]) -> bool {
    room.iter().zip(ask).all(|(room, ask)| *ask <= 0 || ask <= room)
}

#[inline]
fn give(free: &mut [i64], ask: &[i64]) {
    for (free, ask) in free.iter_mut().zip(ask) {
        *free = free.saturating_add(*ask);
    }
}

/// The most of a bin that pods can use, a dimension each: a sum of requests, not all that is free.
struct Usable {
    /// For each dimension: the unit, and for each number of units the largest sum up to it.
    tables: Vec<Option<(i64, Vec<u32>)>>,
}

impl Usable {
    fn new(packing: &Packing) -> Usable {
        let tables = (0..packing.width).map(|dimension| {
            let asks = packing.demands.iter().map(|demand| (demand.ask[dimension], demand.count));
            let asks: Vec<(i64, u32)> = asks.filter(|(ask, _)| *ask > 0).collect();
            let unit = asks.iter().fold(0, |unit, (ask, _)| gcd(unit, *ask));
            let free = packing.free.iter().skip(dimension).step_by(packing.width);
            let widest = free.copied().max().unwrap_or(0).checked_div(unit)?;
            if widest > FINE {
                return None;
            }
            let mut reached = vec![false; widest as usize + 1];
            reached[0] = true;
            for (ask, count) in asks {
                let step = (ask / unit) as usize;
                // How many pods of this demand the cheapest way to a sum takes.
                let mut used = vec![0_u32; reached.len()];
                for sum in step..reached.len() {
                    if !reached[sum] && reached[sum - step] && used[sum - step] < count {
                        reached[sum] = true;
                        used[sum] = used[sum - step] + 1;
                    }
                }
            }
            let mut last = 0;
            let table = reached.iter().enumerate().map(|(sum, &reached)| {
                if reached {
                    last = sum as u32;
                }
                last
            });
            Some((unit, table.collect()))
        });
        Usable { tables: tables.collect() }
    }

    fn most(&self, dimension: usize, free: i64) -> i64 {
        match &self.tables[dimension] {
            Some((unit, table)) => {
                let units = (free / unit) as usize;
                i64::from(table.get(units).copied().unwrap_or(0)) * unit
            }
            None => free,
        }
    }
}

fn gcd(a: i64, b: i64) -> i64 {
    if b == 0 { a } else { gcd(b, a % b) }
}
