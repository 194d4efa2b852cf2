//! What is free over time, in sums.

use alloc::vec::Vec;
use core::time::Duration;

use super::demand::Demand;
use crate::base::Time;

/// Sums of what is free from each time on, until the next. The last lasts for ever.
#[derive(Debug, Clone, Default)]
pub(super) struct Profile(Vec<(Time, Demand)>);

impl Profile {
    pub(super) fn new(now: Time, free: Demand) -> Profile {
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
    pub(super) fn take(&mut self, from: Time, to: Time, demand: &Demand) {
        let (first, end) = (self.step(from), self.end(to));
        for (_, free) in self.0.iter_mut().take(end).skip(first) {
            free.subtract(demand);
        }
    }

    /// Gives an amount back from a time to another.
    pub(super) fn give(&mut self, from: Time, to: Time, demand: &Demand) {
        let (first, end) = (self.step(from), self.end(to));
        for (_, free) in self.0.iter_mut().take(end).skip(first) {
            free.add(demand);
        }
    }

    fn end(&mut self, to: Time) -> usize {
        if to == Time::MAX { self.0.len() } else { self.step(to) }
    }

    /// The earliest time, not before `from`, at which so much is free for so long.
    pub(super) fn earliest(
        &self,
        from: Time,
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
        assert_eq!(profile.earliest(at(0), &cpus(2), secs(10)), Some(at(0)));
        assert_eq!(profile.earliest(at(0), &cpus(2), secs(11)), Some(at(20)));
        assert_eq!(profile.earliest(at(0), &cpus(1), None), Some(at(0)));
        assert_eq!(profile.earliest(at(1), &cpus(1), secs(50)), Some(at(1)));
        assert_eq!(profile.earliest(at(0), &cpus(8), None), Some(at(20)));
        assert_eq!(profile.earliest(at(0), &cpus(9), secs(1)), None);
        profile.give(at(10), at(20), &cpus(7));
        assert_eq!(profile.earliest(at(0), &cpus(8), secs(5)), Some(at(10)));
    }
}
