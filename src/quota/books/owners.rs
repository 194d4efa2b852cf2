//! Usage by user and group, at the queues whose limits count it.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;

use crate::model::Owner;
use crate::quota::books::tree::{QueueId, QueueTree};
use crate::quota::model::claim::{FlavorResource, Usage};
use crate::quota::model::limit::{ANYONE, Limited, UserLimit};

/// A limit that keeps a claim out.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct OverLimit {
    /// The queue of the limit.
    pub queue: QueueId,
    /// The user or group that it counts for.
    pub limited: Limited,
    /// The resource; `None`: the number of claims.
    pub resource: Option<String>,
    /// The limit.
    pub limit: i64,
    /// The amount in use, or the number of claims that hold quota.
    pub used: i64,
    /// The amount that the claim asks for beside it; 1 for a number of claims.
    pub needed: i64,
}

/// Work that an owner has in a leaf.
#[derive(Debug, Clone, Copy)]
pub(in crate::quota) struct Owned<'a> {
    /// The claim.
    pub(in crate::quota) name: &'a str,
    pub(in crate::quota) owner: &'a Owner,
    pub(in crate::quota) leaf: QueueId,
    pub(in crate::quota) usage: &'a Usage,
}

/// The usage of one user or group at one queue.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Tally {
    /// By number of the resource.
    amounts: BTreeMap<u32, i64>,
    /// Claims, with the number of entries of each.
    claims: BTreeMap<Box<str>, u32>,
}

impl Tally {
    fn add(&mut self, tree: &QueueTree, own: Owned<'_>, sign: i64) {
        for &(of, amount) in own.usage {
            let resource = tree.resource_of(of.0);
            let sum = self.amounts.entry(resource).or_default();
            *sum = sum.saturating_add(sign * amount);
            if *sum == 0 {
                self.amounts.remove(&resource);
            }
        }
        let count = self.claims.entry(own.name.into()).or_default();
        *count = if sign > 0 { *count + 1 } else { count.saturating_sub(1) };
        if *count == 0 {
            self.claims.remove(own.name);
        }
    }

    /// Takes out what another tally has.
    fn take(&mut self, other: &Tally) {
        for (resource, amount) in &other.amounts {
            let sum = self.amounts.entry(*resource).or_default();
            *sum = sum.saturating_sub(*amount);
        }
        for (name, count) in &other.claims {
            if let Some(own) = self.claims.get_mut(name) {
                *own = own.saturating_sub(*count);
            }
        }
        self.claims.retain(|_, count| *count > 0);
    }

    fn of(&self, resource: u32) -> i64 {
        self.amounts.get(&resource).copied().unwrap_or(0)
    }
}

/// Tallies by queue, user and group.
#[derive(Debug, Clone, Default)]
pub(in crate::quota) struct Tallies {
    by_limit: BTreeMap<(u32, Limited), Tally>,
    /// Whether any queue has a limit.
    is_any: bool,
    /// Whether queues have changed since they were counted.
    is_stale: bool,
}

impl Tallies {
    /// Queues have changed.
    pub(in crate::quota) fn set_stale(&mut self) {
        self.is_stale = true;
    }

    pub(in crate::quota) fn is_stale(&self) -> bool {
        self.is_stale
    }

    /// Counts all anew. O(queues + entries · (depth + names of the limits on the path)).
    pub(in crate::quota) fn count_anew<'a>(
        &mut self,
        tree: &QueueTree,
        all: impl Iterator<Item = Owned<'a>>,
    ) {
        let is_any = tree.slots.iter().any(|slot| !slot.spec.limits.is_empty());
        *self = Tallies { by_limit: BTreeMap::new(), is_any, is_stale: false };
        if is_any {
            all.for_each(|own| self.count(tree, own, 1));
        }
    }

    /// Counts work in, or out with `sign` −1. Tallies that are stale are counted anew later.
    pub(in crate::quota) fn count(&mut self, tree: &QueueTree, own: Owned<'_>, sign: i64) {
        if !self.is_any || self.is_stale {
            return;
        }
        for bound in bounds(tree, own.leaf, own.owner) {
            let key = (bound.queue.slot, bound.limited);
            let tally = self.by_limit.entry(key.clone()).or_default();
            tally.add(tree, own, sign);
            if *tally == Tally::default() {
                self.by_limit.remove(&key);
            }
        }
    }

    /// The first limit that work would go beyond, with some of what is counted gone. The order is from the leaf up,
    /// the user before the group, the number of claims before amounts by name.
    pub(in crate::quota) fn over<'a>(
        &self,
        tree: &QueueTree,
        own: Owned<'_>,
        without: &(impl Iterator<Item = Owned<'a>> + Clone),
    ) -> Option<OverLimit> {
        if !self.is_any || own.owner.is_none() {
            return None;
        }
        bounds(tree, own.leaf, own.owner).into_iter().find_map(|bound| {
            let mut tally = self.by_limit.get(&(bound.queue.slot, bound.limited.clone())).cloned();
            let mut gone = Tally::default();
            for other in without.clone() {
                let is_same =
                    |of: &Bound<'_>| of.queue == bound.queue && of.limited == bound.limited;
                if bounds(tree, other.leaf, other.owner).iter().any(is_same) {
                    gone.add(tree, other, 1);
                }
            }
            if let Some(tally) = &mut tally {
                tally.take(&gone);
            }
            bound.over(tree, &tally.unwrap_or_default(), own)
        })
    }

    /// The usage of a user or group at a queue; the number of claims for no resource.
    pub(in crate::quota) fn used(
        &self,
        tree: &QueueTree,
        queue: QueueId,
        limited: &Limited,
        resource: Option<&str>,
    ) -> i64 {
        let Some(tally) = self.by_limit.get(&(queue.slot, limited.clone())) else { return 0 };
        match resource {
            None => i64::try_from(tally.claims.len()).unwrap_or(i64::MAX),
            Some(name) => tree.resource_number(name).map_or(0, |number| tally.of(number)),
        }
    }

    /// The users and groups with usage that a queue's limits count, in order.
    pub(in crate::quota) fn at(&self, queue: QueueId) -> impl Iterator<Item = &Limited> {
        let of_queue = self.by_limit.keys().filter(move |(slot, _)| *slot == queue.slot);
        of_queue.map(|(_, limited)| limited)
    }
}

/// A limit as it binds one owner.
struct Bound<'t> {
    queue: QueueId,
    limited: Limited,
    limit: &'t UserLimit,
}

impl Bound<'_> {
    fn over(&self, tree: &QueueTree, tally: &Tally, own: Owned<'_>) -> Option<OverLimit> {
        let over = |resource, limit, used, needed| OverLimit {
            queue: self.queue,
            limited: self.limited.clone(),
            resource,
            limit,
            used,
            needed,
        };
        let claims = i64::try_from(tally.claims.len()).unwrap_or(i64::MAX);
        if let Some(most) = self.limit.claims.map(i64::from)
            && !tally.claims.contains_key(own.name)
            && claims >= most
        {
            return Some(over(None, most, claims, 1));
        }
        self.limit.amounts.iter().find_map(|(name, most)| {
            let number = tree.resource_number(name)?;
            let is_of = |(of, _): &&(FlavorResource, i64)| tree.resource_of(of.0) == number;
            let amounts = own.usage.iter().filter(is_of).map(|(_, amount)| *amount);
            let needed = amounts.fold(0_i64, i64::saturating_add);
            let used = tally.of(number);
            // Work that asks for none is not kept out by others' use.
            let is_over = needed > 0 && used.saturating_add(needed) > most;
            is_over.then(|| over(Some(name.into()), most, used, needed))
        })
    }
}

/// The limits on the path of a leaf that bind an owner, from the leaf up, the user's before the
/// group's. O(depth + names of the limits on the path).
fn bounds<'t>(tree: &'t QueueTree, leaf: QueueId, owner: &Owner) -> Vec<Bound<'t>> {
    let mut all = Vec::new();
    if owner.is_none() {
        return all;
    }
    let group = group_of(tree, leaf, owner);
    for queue in tree.path(leaf) {
        let Some(spec) = tree.spec(queue) else { continue };
        if spec.limits.is_empty() {
            continue;
        }
        let named =
            |name: &str| spec.limits.iter().find(|limit| limit.users.iter().any(|own| own == name));
        if let Some(limit) = named(&owner.user).or_else(|| named(ANYONE)) {
            all.push(Bound { queue, limited: Limited::User(owner.user.clone()), limit });
        }
        let Some(group) = group else { continue };
        let named = |limit: &&UserLimit| limit.groups.iter().any(|own| own == group);
        if let Some(limit) = spec.limits.iter().find(named) {
            all.push(Bound { queue, limited: Limited::Group(group.into()), limit });
        }
    }
    all
}

/// The group that the work of an owner counts in.
///
/// Source: `YuniKorn`'s `ugm/manager.go` (`ensureGroupInternal`).
fn group_of<'t>(tree: &'t QueueTree, leaf: QueueId, owner: &Owner) -> Option<&'t str> {
    if owner.groups.is_empty() {
        return None;
    }
    tree.path(leaf).find_map(|queue| {
        let names = tree.spec(queue)?.limits.iter().flat_map(|limit| &limit.groups);
        let mut names = names.map(String::as_str);
        names.find(|name| *name == ANYONE || owner.groups.iter().any(|own| own == name))
    })
}
