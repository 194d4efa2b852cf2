//! Free resources over time, in sums.

use alloc::vec::Vec;
use core::time::Duration;

use smallvec::SmallVec;

use super::demand::Demand;
use crate::base::Time;

/// Sums of free resources from each time on, until the next. The last lasts for ever.
///
/// Steps lie one after another in two columns, so that a search is a walk over plain numbers.
#[derive(Debug, Clone, Default)]
pub(in crate::queue) struct Profile {
    times: Vec<Time>,
    /// So many amounts for each time.
    width: usize,
    amounts: Vec<i64>,
}

/// The amounts of a demand that are above zero, each with its number.
type Needed = SmallVec<[(usize, i64); 4]>;

impl Profile {
    pub(in crate::queue) fn new(now: Time, free: &Demand) -> Profile {
        let amounts = free.amounts();
        let (times, width) = (alloc::vec![now], amounts.len().max(1));
        let mut amounts = amounts.to_vec();
        amounts.resize(width, 0);
        Profile { times, width, amounts }
    }

    /// The step that begins at a time, made if there is none.
    fn step(&mut self, at: Time) -> usize {
        match self.times.binary_search(&at) {
            Ok(index) => index,
            Err(0) => 0,
            Err(index) => {
                self.times.insert(index, at);
                let (from, end) = (index * self.width, self.amounts.len());
                self.amounts.extend_from_within(end - self.width..);
                self.amounts.copy_within(from - self.width..end - self.width, from);
                index
            }
        }
    }

    /// Takes an amount from a time to another; to the end of time is for ever.
    pub(in crate::queue) fn take(&mut self, from: Time, to: Time, demand: &Demand) {
        self.add(from, to, demand, i64::saturating_neg);
    }

    /// Gives an amount back from a time to another.
    pub(in crate::queue) fn give(&mut self, from: Time, to: Time, demand: &Demand) {
        self.add(from, to, demand, |amount| amount);
    }

    fn add(&mut self, from: Time, to: Time, demand: &Demand, sign: impl Fn(i64) -> i64) {
        if self.times.is_empty() {
            return;
        }
        self.widen(demand.amounts().len());
        let (first, end) = (self.step(from), self.end(to));
        let Some(steps) = self.amounts.get_mut(first * self.width..end * self.width) else {
            return;
        };
        for (number, amount) in demand.amounts().iter().enumerate() {
            let amount = sign(*amount);
            if amount != 0 {
                for free in steps.iter_mut().skip(number).step_by(self.width) {
                    *free = free.saturating_add(amount);
                }
            }
        }
    }

    fn end(&mut self, to: Time) -> usize {
        if to == Time::MAX { self.times.len() } else { self.step(to) }
    }

    /// Makes room for as many amounts a step.
    fn widen(&mut self, width: usize) {
        if width <= self.width {
            return;
        }
        let mut amounts = Vec::with_capacity(self.times.len() * width);
        for step in self.amounts.chunks_exact(self.width.max(1)) {
            amounts.extend_from_slice(step);
            amounts.resize(amounts.len() + width - self.width, 0);
        }
        (self.width, self.amounts) = (width, amounts);
    }

    /// The steps from one on, each with its time.
    fn steps(&self, first: usize) -> impl Iterator<Item = (Time, &[i64])> {
        let amounts = self.amounts.get(first * self.width..).unwrap_or_default();
        let times = self.times.iter().skip(first).copied();
        times.zip(amounts.chunks_exact(self.width.max(1)))
    }

    /// The step that a time is in.
    fn step_of(&self, at: Time) -> usize {
        self.times.partition_point(|time| *time <= at).saturating_sub(1)
    }

    /// The least that is free from a time to another.
    pub(in crate::queue) fn least(&self, from: Time, to: Time) -> Least {
        let mut steps = self.steps(self.step_of(from));
        let mut least = Least::from_slice(steps.next().map_or(&[], |(_, free)| free));
        for (_, free) in steps.take_while(|(time, _)| *time < to) {
            least.iter_mut().zip(free).for_each(|(least, free)| *least = (*least).min(*free));
        }
        least
    }

    /// Whether an amount is free from a time to another.
    pub(in crate::queue) fn covers(&self, from: Time, to: Time, demand: &Demand) -> bool {
        let Some(needed) = self.needed(demand) else { return false };
        let mut steps = self.steps(self.step_of(from));
        steps.next().is_some_and(|(_, free)| suffices(free, &needed))
            && steps.take_while(|(time, _)| *time < to).all(|(_, free)| suffices(free, &needed))
    }

    /// The amounts that are looked for in each step; `None` if one is not in any.
    fn needed(&self, demand: &Demand) -> Option<Needed> {
        let needed: Needed = demand.needs().collect();
        needed.last().is_none_or(|(number, _)| *number < self.width).then_some(needed)
    }

    /// The next time at which what is free changes.
    pub(in crate::queue) fn next_change(&self, after: Time) -> Option<Time> {
        let next = self.times.partition_point(|time| *time <= after);
        self.times.get(next).copied()
    }

    /// The number of times that an amount is free for so long, `most` at most. `change` is called
    /// with each start from which on the number is another, and with the difference, in no
    /// particular order.
    pub(in crate::queue) fn room_for(
        &self,
        one: &Demand,
        most: u64,
        run: Option<Duration>,
        change: &mut impl FnMut(Time, i64),
    ) {
        let Some(needed) = self.needed(one) else { return };
        let times = |free: &[i64]| {
            let times = needed.iter().filter_map(|(number, one)| Some(free.get(*number)? / one));
            times.min().map_or(most, |times| u64::try_from(times).unwrap_or(0).min(most))
        };
        let room: SmallVec<[u64; 16]> = self.steps(0).map(|(_, free)| times(free)).collect();
        let highest = room.iter().copied().max().unwrap_or(0);
        for level in 1..=highest {
            // The first start of those that there is so much for.
            let mut since = self.times.first().copied();
            for (time, room) in self.times.iter().zip(&room) {
                if *room >= level {
                    since = since.or(Some(*time));
                } else if let Some(since) = since.take()
                    && let Some(run) = run
                    && since.after(run) <= *time
                {
                    change(since, 1);
                    change(time.before(run).after(Duration::from_nanos(1)), -1);
                }
            }
            if let Some(since) = since {
                change(since, 1);
            }
        }
    }

    /// The earliest time, from `from` on and before `until`, at which so much is free for so long.
    pub(in crate::queue) fn earliest(
        &self,
        from: Time,
        until: Time,
        demand: &Demand,
        run: Option<Duration>,
    ) -> Option<Time> {
        let needed = self.needed(demand)?;
        if from == Time::MAX {
            return None;
        }
        let mut steps = self.steps(self.step_of(from));
        loop {
            let mut before = steps.by_ref().take_while(|(time, _)| *time < until);
            let (time, _) = before.find(|(_, free)| suffices(free, &needed))?;
            let start = time.max(from);
            let end = run.map_or(Time::MAX, |run| start.after(run));
            let is_over = |time: Time| run.is_some() && time >= end;
            match steps.find(|(time, free)| is_over(*time) || !suffices(free, &needed)) {
                Some((time, _)) if !is_over(time) => {}
                _ => return Some(start),
            }
        }
    }
}

/// The least amounts of some steps.
pub(in crate::queue) type Least = SmallVec<[i64; 4]>;

fn suffices(free: &[i64], needed: &Needed) -> bool {
    needed.iter().all(|(number, amount)| free.get(*number).is_some_and(|free| free >= amount))
}

#[cfg(test)]
mod tests;
