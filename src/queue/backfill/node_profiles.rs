//! Free resources over time, node by node.

use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::time::Duration;

use super::demand::Demand;
use super::profile::{Least, Profile};
use crate::base::{Row, Time};

/// The most needs that have bounds.
const MOST: usize = 64;

/// Free resources of each node over time, from now on.
#[derive(Debug)]
pub(in crate::queue) struct NodeProfiles {
    profiles: Vec<Profile>,
    /// Bounds by the need of one pod.
    bounds: BTreeMap<Demand, Bounds>,
}

/// Lower bounds on the start of a pod, row by row: most rows need not be searched.
#[derive(Debug)]
struct Bounds {
    /// The shortest run that was asked for. Its earliest start bounds longer ones.
    run: Option<Duration>,
    /// Zero on a row that has changed since it was searched.
    starts: Vec<Time>,
}

/// The resources that a group takes, node by node: by row.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(in crate::queue) struct Place(Vec<(Row, Demand)>);

/// The need of the pods of one shape.
#[derive(Debug, Clone)]
pub(in crate::queue) struct ShapeNeed {
    /// The resources that one pod takes of a node.
    pub(in crate::queue) one: Demand,
    /// How many pods must have room.
    pub(in crate::queue) count: u64,
    /// The nodes that its static filters admit.
    pub(in crate::queue) rows: Arc<[Row]>,
    /// Whether one of these has room for two.
    pub(in crate::queue) shares: bool,
}

/// The least need of a group: a bound, not a place.
#[derive(Debug, Clone)]
pub(in crate::queue) struct Need {
    pub(in crate::queue) shapes: Vec<ShapeNeed>,
    /// The domain of each row, where all pods go into one domain.
    pub(in crate::queue) domains: Option<Arc<[u32]>>,
}

impl Place {
    /// The sums of some parts.
    pub(in crate::queue) fn of(mut parts: Vec<(Row, Demand)>) -> Place {
        parts.sort_by_key(|(row, _)| *row);
        parts.dedup_by(|(row, demand), (last, sum)| {
            let is_same = row == last;
            if is_same {
                sum.add(demand);
            }
            is_same
        });
        Place(parts)
    }

    /// The number of pods on a node.
    pub(in crate::queue) fn pods_on(&self, row: Row) -> Option<i64> {
        let at = self.0.binary_search_by_key(&row, |(row, _)| *row).ok()?;
        self.0.get(at)?.1.amounts().first().copied()
    }

    /// The nodes.
    pub(in crate::queue) fn rows(&self) -> impl Iterator<Item = &Row> {
        self.0.iter().map(|(row, _)| row)
    }
}

impl Bounds {
    /// The bounds for pods of a need that run for so long; `None` beyond [`MOST`] needs.
    fn of<'a>(
        all: &'a mut BTreeMap<Demand, Bounds>,
        one: &Demand,
        run: Option<Duration>,
        rows: usize,
    ) -> Option<&'a mut Bounds> {
        if !all.contains_key(one) {
            if all.len() >= MOST {
                return None;
            }
            let starts = alloc::vec![Time::ZERO; rows];
            all.insert(one.clone(), Bounds { run, starts });
        }
        let own = all.get_mut(one)?;
        if run.is_some_and(|run| own.run.is_none_or(|own| run < own)) {
            own.run = run;
            own.starts.fill(Time::ZERO);
        }
        Some(own)
    }

    /// Whether no pod starts on a row before a time.
    fn exclude(&mut self, row: Row, profile: &Profile, one: &Demand, until: Time) -> bool {
        let Some(start) = self.starts.get_mut(row.index()) else { return false };
        if *start == Time::ZERO {
            let earliest = profile.earliest(Time::ZERO, Time::MAX, one, self.run);
            *start = earliest.unwrap_or(Time::MAX);
        }
        *start >= until
    }
}

impl NodeProfiles {
    /// Profiles of the resources that are free now, a row after the other.
    pub(in crate::queue) fn new(now: Time, free: impl Iterator<Item = Demand>) -> NodeProfiles {
        let profiles = free.map(|free| Profile::new(now, &free)).collect();
        NodeProfiles { profiles, bounds: BTreeMap::new() }
    }

    /// Takes a place from a time to another.
    pub(in crate::queue) fn take(&mut self, place: &Place, from: Time, to: Time) {
        self.change(place, |profile, demand| profile.take(from, to, demand));
    }

    /// Gives a place back from a time to another.
    pub(in crate::queue) fn give(&mut self, place: &Place, from: Time, to: Time) {
        self.change(place, |profile, demand| profile.give(from, to, demand));
    }

    fn change(&mut self, place: &Place, change: impl Fn(&mut Profile, &Demand)) {
        for (row, demand) in &place.0 {
            if let Some(profile) = self.profiles.get_mut(row.index()) {
                change(profile, demand);
            }
            let starts = self.bounds.values_mut().filter_map(|own| own.starts.get_mut(row.index()));
            starts.for_each(|start| *start = Time::ZERO);
        }
    }

    /// Whether a place is free from a time to another.
    pub(in crate::queue) fn has_room(&self, place: &Place, from: Time, to: Time) -> bool {
        let is_free = |(row, demand): &(Row, Demand)| {
            let profile = self.profiles.get(row.index());
            profile.is_some_and(|profile| profile.covers(from, to, demand))
        };
        place.0.iter().all(is_free)
    }

    /// The least that is free of each row from a time to another.
    pub(in crate::queue) fn least(
        &self,
        from: Time,
        to: Time,
    ) -> impl Iterator<Item = (Row, Least)> {
        let rows = Row::all(self.profiles.len()).zip(&self.profiles);
        rows.map(move |(row, profile)| (row, profile.least(from, to)))
    }

    /// The next time at which what is free changes anywhere.
    pub(in crate::queue) fn next_change(&self, after: Time) -> Option<Time> {
        self.profiles.iter().filter_map(|profile| profile.next_change(after)).min()
    }

    /// The earliest time, from `from` on and before `until`, at which nodes have room for so long.
    /// For one pod it is exact. Of several, shapes are counted each for itself, as if the others
    /// were not there. O(steps), for several pods O(steps · log steps).
    pub(in crate::queue) fn earliest(
        &mut self,
        need: &Need,
        from: Time,
        until: Time,
        run: Option<Duration>,
    ) -> Option<Time> {
        let NodeProfiles { profiles, bounds } = self;
        if let [ShapeNeed { one, count: 1, rows, .. }] = &need.shapes[..] {
            let mut bounds = Bounds::of(bounds, one, run, profiles.len());
            let mut best = until;
            for row in rows.iter() {
                let Some(profile) = profiles.get(row.index()) else { continue };
                if bounds.as_mut().is_some_and(|own| own.exclude(*row, profile, one, best)) {
                    continue;
                }
                let at = profile.earliest(from, best, one, run);
                best = at.unwrap_or(best).min(best);
                if best == from {
                    break;
                }
            }
            return (best < until).then_some(best);
        }
        let width = need.shapes.len();
        // Changes of the room for a shape in a domain, by time.
        let mut changes: Vec<(Time, usize, i64)> = Vec::new();
        for (shape, ShapeNeed { one, count, rows, .. }) in need.shapes.iter().enumerate() {
            let mut bounds = Bounds::of(bounds, one, run, profiles.len());
            for row in rows.iter() {
                let Some(profile) = profiles.get(row.index()) else { continue };
                if bounds.as_mut().is_some_and(|own| own.exclude(*row, profile, one, until)) {
                    continue;
                }
                let domain = need.domains.as_ref().and_then(|own| own.get(row.index()).copied());
                let counter = domain.unwrap_or(0) as usize * width + shape;
                profile.room_for(one, *count, run, &mut |at, change| {
                    if at < until {
                        changes.push((at.max(from), counter, change));
                    }
                });
            }
        }
        changes.sort_unstable();
        let mut room: Vec<i64> = Vec::new();
        for same_time in changes.chunk_by(|(one, ..), (other, ..)| one == other) {
            for (_, counter, change) in same_time {
                if room.len() <= *counter {
                    room.resize((counter / width + 1) * width, 0);
                }
                room[*counter] += change;
            }
            let has_room = |(_, counter, _): &(Time, usize, i64)| {
                let own = room.iter().skip(counter / width * width);
                let enough = |(shape, room): (&ShapeNeed, &i64)| {
                    u64::try_from(*room).is_ok_and(|room| room >= shape.count)
                };
                need.shapes.iter().zip(own).all(enough)
            };
            if same_time.iter().any(has_room) {
                return same_time.first().map(|(at, ..)| *at);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests;
