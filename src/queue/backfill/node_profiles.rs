//! Free resources over time, node by node.

use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::time::Duration;

use super::demand::Demand;
use super::profile::{Least, Profile};
use crate::base::{Row, Time};

/// Free resources of each node over time, from now on.
#[derive(Debug)]
pub(in crate::queue) struct NodeProfiles(Vec<Profile>);

/// The resources that a group takes, node by node.
#[derive(Debug, Clone, Default)]
pub(in crate::queue) struct Place(BTreeMap<Row, Demand>);

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
    /// Adds what is taken of a node.
    pub(in crate::queue) fn add(&mut self, row: Row, demand: &Demand) {
        self.0.entry(row).or_default().add(demand);
    }

    /// The nodes.
    pub(in crate::queue) fn rows(&self) -> impl Iterator<Item = &Row> {
        self.0.keys()
    }
}

impl NodeProfiles {
    /// Profiles of the resources that are free now, a row after the other.
    pub(in crate::queue) fn new(now: Time, free: impl Iterator<Item = Demand>) -> NodeProfiles {
        NodeProfiles(free.map(|free| Profile::new(now, &free)).collect())
    }

    /// Takes a place from a time to another.
    pub(in crate::queue) fn take(&mut self, place: &Place, from: Time, to: Time) {
        for (row, demand) in &place.0 {
            if let Some(profile) = self.0.get_mut(row.index()) {
                profile.take(from, to, demand);
            }
        }
    }

    /// Gives a place back from a time to another.
    pub(in crate::queue) fn give(&mut self, place: &Place, from: Time, to: Time) {
        for (row, demand) in &place.0 {
            if let Some(profile) = self.0.get_mut(row.index()) {
                profile.give(from, to, demand);
            }
        }
    }

    /// Whether a place is free from a time to another.
    pub(in crate::queue) fn has_room(&self, place: &Place, from: Time, to: Time) -> bool {
        let is_free = |(row, demand): (&Row, &Demand)| {
            let profile = self.0.get(row.index());
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
        let rows = Row::all(self.0.len()).zip(&self.0);
        rows.map(move |(row, profile)| (row, profile.least(from, to)))
    }

    /// The next time at which what is free changes anywhere.
    pub(in crate::queue) fn next_change(&self, after: Time) -> Option<Time> {
        self.0.iter().filter_map(|profile| profile.next_change(after)).min()
    }

    /// The earliest time, from `from` on and before `until`, at which nodes have room for so long.
    /// For one pod it is exact. Of several, shapes are counted each for itself, as if the others
    /// were not there. O(steps), for several pods O(steps · log steps).
    pub(in crate::queue) fn earliest(
        &self,
        need: &Need,
        from: Time,
        until: Time,
        run: Option<Duration>,
    ) -> Option<Time> {
        if let [ShapeNeed { one, count: 1, rows, .. }] = &need.shapes[..] {
            let mut best = until;
            for row in rows.iter() {
                let profile = self.0.get(row.index());
                let at = profile.and_then(|profile| profile.earliest(from, best, one, run));
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
            for row in rows.iter() {
                let Some(profile) = self.0.get(row.index()) else { continue };
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
