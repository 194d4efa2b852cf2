//! Groups that a lack of quota keeps waiting, by the queue whose sums have to move.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::String;
use alloc::vec::Vec;

use crate::base::Time;
use crate::queue::terms::ids::{GroupId, QueueKey};
use crate::quota::{FlavorResource, Limited, QueueId, Tenants};

/// A place where a group is short of quota: a queue, a resource in a flavor.
pub(super) type Place = (QueueId, FlavorResource);

/// A limit of a user or group that keeps a group out.
#[derive(Debug, Clone)]
pub(super) struct Bound {
    pub(super) queue: QueueId,
    pub(super) limited: Limited,
    /// `None`: the number of claims.
    pub(super) resource: Option<String>,
    /// The most that may be used for the group to be let in.
    pub(super) most: i64,
}

impl Bound {
    /// Whether the limit may let the group in now.
    fn lets_in(&self, tenants: &Tenants) -> bool {
        tenants.used_by(self.queue, &self.limited, self.resource.as_deref()) <= self.most
    }
}

/// One group that waits for quota.
#[derive(Debug, Clone)]
pub(super) struct Sleeper {
    pub(super) key: QueueKey,
    /// Its own queue.
    pub(super) queue: String,
    /// A resource in each flavor that would do.
    pub(super) places: Vec<Place>,
    /// The amount that it needs; at most that much, if a limit and not the pool is short.
    pub(super) needed: i64,
    /// The limit of its user or group that keeps it out.
    pub(super) bound: Option<Bound>,
    /// The amount that it adds to the sum that waits in its leaf.
    pub(super) pending: Option<(QueueId, FlavorResource, i64)>,
    /// The time since when it waits, if others have the quota that it needs.
    pub(super) pooled_since: Option<Time>,
}

/// The groups of one queue that wait at one place.
#[derive(Debug, Default)]
struct Line {
    by_key: BTreeMap<QueueKey, i64>,
    by_need: BTreeSet<(i64, QueueKey)>,
}

/// Groups that wait for quota.
#[derive(Debug, Default)]
pub(super) struct QuotaSleepers {
    all: BTreeMap<GroupId, Sleeper>,
    lines: BTreeMap<Place, BTreeMap<String, Line>>,
    /// By place: the least need of each queue.
    least: BTreeMap<Place, BTreeSet<(i64, String)>>,
    /// By queue: places at which groups of it wait.
    places: BTreeMap<String, BTreeSet<Place>>,
    /// Groups that wait for quota that others have, oldest first.
    by_age: BTreeSet<(Time, GroupId)>,
}

impl QuotaSleepers {
    pub(super) fn insert(&mut self, sleeper: Sleeper) {
        let id = sleeper.key.group;
        self.remove(id);
        for &place in &sleeper.places {
            self.change(place, &sleeper.queue, |line| {
                line.by_key.insert(sleeper.key.clone(), sleeper.needed);
                line.by_need.insert((sleeper.needed, sleeper.key.clone()));
            });
        }
        if let Some(since) = sleeper.pooled_since {
            self.by_age.insert((since, id));
        }
        self.all.insert(id, sleeper);
    }

    pub(super) fn remove(&mut self, id: GroupId) -> Option<Sleeper> {
        let sleeper = self.all.remove(&id)?;
        for &place in &sleeper.places {
            self.change(place, &sleeper.queue, |line| {
                line.by_key.remove(&sleeper.key);
                line.by_need.remove(&(sleeper.needed, sleeper.key.clone()));
            });
        }
        if let Some(since) = sleeper.pooled_since {
            self.by_age.remove(&(since, id));
        }
        Some(sleeper)
    }

    /// Another sort key of a group.
    pub(super) fn rekey(&mut self, key: &QueueKey) {
        if let Some(mut sleeper) = self.remove(key.group) {
            sleeper.key = key.clone();
            self.insert(sleeper);
        }
    }

    fn change(&mut self, place: Place, queue: &str, change: impl FnOnce(&mut Line)) {
        let lines = self.lines.entry(place).or_default();
        let line = lines.entry(queue.into()).or_default();
        let before = line.by_need.first().map(|(need, _)| *need);
        change(line);
        let after = line.by_need.first().map(|(need, _)| *need);
        if before == after {
            return;
        }
        let least = self.least.entry(place).or_default();
        if let Some(before) = before {
            least.remove(&(before, queue.into()));
        }
        let places = self.places.entry(queue.into()).or_default();
        if let Some(after) = after {
            least.insert((after, queue.into()));
            places.insert(place);
        } else {
            places.remove(&place);
            lines.remove(queue);
        }
        if places.is_empty() {
            self.places.remove(queue);
        }
        if least.is_empty() {
            self.least.remove(&place);
        }
        if self.lines.get(&place).is_some_and(BTreeMap::is_empty) {
            self.lines.remove(&place);
        }
    }

    /// Queues with a group that waits at a place for no more than an amount.
    pub(super) fn within(&self, place: Place, most: i64) -> Vec<String> {
        let least = self.least.get(&place).into_iter().flatten();
        let within = least.take_while(|(need, _)| *need <= most);
        within.map(|(_, queue)| queue.clone()).collect()
    }

    /// Places at which groups of a queue wait, and the least that one of them needs.
    pub(super) fn places(&self, queue: &str) -> Vec<(Place, i64)> {
        let places = self.places.get(queue).into_iter().flatten();
        let least = |place: &Place| {
            let line = self.lines.get(place)?.get(queue)?;
            Some((*place, line.by_need.first()?.0))
        };
        places.filter_map(least).collect()
    }

    /// The groups of a queue that wait at a place, in queue order, with what they need.
    pub(super) fn waiting(
        &self,
        place: Place,
        queue: &str,
    ) -> impl Iterator<Item = (&QueueKey, i64)> {
        let line = self.lines.get(&place).and_then(|lines| lines.get(queue));
        line.into_iter().flat_map(|line| &line.by_key).map(|(key, need)| (key, *need))
    }

    /// Whether the limit that keeps a group out, if it is one of its user or group, may let it in.
    pub(super) fn is_let_in(&self, tenants: &Tenants, id: GroupId) -> bool {
        let bound = self.all.get(&id).and_then(|sleeper| sleeper.bound.as_ref());
        bound.is_none_or(|bound| bound.lets_in(tenants))
    }

    /// The group that has waited longest for quota that others have.
    pub(super) fn oldest(&self) -> Option<(Time, GroupId)> {
        self.by_age.first().copied()
    }

    /// All groups that wait for quota.
    pub(super) fn all(&self) -> Vec<GroupId> {
        self.all.keys().copied().collect()
    }
}
