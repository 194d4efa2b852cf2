//! Free resources over time, in sums.

use alloc::vec::Vec;
use core::time::Duration;

use super::demand::Demand;
use crate::base::Time;

/// Sums of free resources from each time on, until the next. The last lasts for ever.
#[derive(Debug, Clone, Default)]
pub(in crate::queue) struct Profile(Vec<(Time, Demand)>);

impl Profile {
    pub(in crate::queue) fn new(now: Time, free: Demand) -> Profile {
        Profile(alloc::vec![(now, free)])
    }

    /// The step that begins at a time, made if there is none.
    fn step(&mut self, at: Time) -> usize {
        match self.0.binary_search_by_key(&at, |(time, _)| *time) {
            Ok(index) => index,
            Err(0) => 0,
            Err(index) => {
                let before = self.0.get(index - 1).map(|(_, free)| free.clone());
                self.0.insert(index, (at, before.unwrap_or_default()));
                index
            }
        }
    }

    /// Takes an amount from a time to another; to the end of time is for ever.
    pub(in crate::queue) fn take(&mut self, from: Time, to: Time, demand: &Demand) {
        let (first, end) = (self.step(from), self.end(to));
        for (_, free) in self.0.iter_mut().take(end).skip(first) {
            free.subtract(demand);
        }
    }

    /// Gives an amount back from a time to another.
    pub(in crate::queue) fn give(&mut self, from: Time, to: Time, demand: &Demand) {
        let (first, end) = (self.step(from), self.end(to));
        for (_, free) in self.0.iter_mut().take(end).skip(first) {
            free.add(demand);
        }
    }

    fn end(&mut self, to: Time) -> usize {
        if to == Time::MAX { self.0.len() } else { self.step(to) }
    }

    /// The least that is free from a time to another.
    pub(in crate::queue) fn least(&self, from: Time, to: Time) -> Demand {
        let first = self.0.partition_point(|(time, _)| *time <= from).saturating_sub(1);
        let mut steps = self.0.iter().skip(first);
        let mut least = steps.next().map(|(_, free)| free.clone()).unwrap_or_default();
        for (_, free) in steps.take_while(|(time, _)| *time < to) {
            least.least_with(free);
        }
        least
    }

    /// The next time at which what is free changes.
    pub(in crate::queue) fn next_change(&self, after: Time) -> Option<Time> {
        let next = self.0.partition_point(|(time, _)| *time <= after);
        self.0.get(next).map(|(time, _)| *time)
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
        let room: Vec<u64> = self.0.iter().map(|(_, free)| free.holds(one).min(most)).collect();
        let highest = room.iter().copied().max().unwrap_or(0);
        for level in 1..=highest {
            // The first start of those that there is so much for.
            let mut since = self.0.first().map(|(time, _)| *time);
            for (index, (time, _)) in self.0.iter().enumerate() {
                if room.get(index).is_some_and(|room| *room >= level) {
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
        let mut start: Option<Time> = None;
        for (index, (time, free)) in self.0.iter().enumerate() {
            if let (Some(start), Some(run)) = (start, run)
                && *time >= start.after(run)
            {
                return Some(start);
            }
            if start.is_none() && *time >= until {
                return None;
            }
            let until = self.0.get(index + 1).map_or(Time::MAX, |(next, _)| *next);
            if until <= from {
                continue;
            }
            if free.covers(demand) {
                start.get_or_insert((*time).max(from));
            } else {
                start = None;
            }
        }
        start
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::PodShape;
    use crate::queue::backfill::demand::ResourceNumbers;

    fn cpus(count: i64) -> Demand {
        let mut shape = PodShape::default();
        shape.set_request("cpu", count);
        ResourceNumbers::default().of_shape(&shape)
    }

    #[test]
    fn a_hole_is_used_only_by_what_is_over_before_it_closes() {
        let at = Time::from_secs;
        let mut profile = Profile::new(at(0), cpus(2));
        profile.give(at(10), Time::MAX, &cpus(6));
        profile.take(at(10), at(20), &cpus(7));
        let secs = |secs| Some(Duration::from_secs(secs));
        assert_eq!(profile.earliest(at(0), Time::MAX, &cpus(2), secs(10)), Some(at(0)));
        assert_eq!(profile.earliest(at(0), Time::MAX, &cpus(2), secs(11)), Some(at(20)));
        assert_eq!(profile.earliest(at(0), Time::MAX, &cpus(1), None), Some(at(0)));
        assert_eq!(profile.earliest(at(1), Time::MAX, &cpus(1), secs(50)), Some(at(1)));
        assert_eq!(profile.earliest(at(0), Time::MAX, &cpus(8), None), Some(at(20)));
        assert_eq!(profile.earliest(at(0), Time::MAX, &cpus(9), secs(1)), None);
        profile.give(at(10), at(20), &cpus(7));
        assert_eq!(profile.earliest(at(0), Time::MAX, &cpus(8), secs(5)), Some(at(10)));
    }
}
