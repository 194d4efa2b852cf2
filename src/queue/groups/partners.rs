//! The index of gang groups: which root groups start together, and which of them are not ready.
//!
//! Groups that name each other, directly or over others, are one gang group. The index follows
//! arrivals, removals and changes of readiness. So an event costs in proportion to the groups whose
//! phase it can change, not to the size of the gang group.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::String;
use alloc::vec::Vec;

use crate::base::ObjectName;
use crate::queue::terms::ids::GroupId;

/// The index of gang groups.
#[derive(Debug, Default)]
pub(in crate::queue) struct Partners {
    /// Groups that name a partner, by the partner's full name.
    naming: BTreeMap<String, BTreeSet<GroupId>>,
    /// Number of named partners that are not known, by the group that names them.
    missing: BTreeMap<GroupId, usize>,
    /// The gang group of each group that names a partner or is named.
    gang_of: BTreeMap<GroupId, u64>,
    gangs: BTreeMap<u64, Gang>,
    /// Groups that joined their first gang group and whose readiness has not been set.
    new: Vec<GroupId>,
    next: u64,
    /// Number of groups looked at.
    groups_checked: u64,
}

/// Root groups that start together.
#[derive(Debug, Default)]
struct Gang {
    groups: BTreeSet<GroupId>,
    /// Groups that have not started; the sets below hold none but these.
    open: BTreeSet<GroupId>,
    /// Groups that name a partner that is not known.
    lacking: BTreeSet<GroupId>,
    /// Groups that cannot be tried for a reason of their own.
    unready: BTreeSet<GroupId>,
    /// Groups whose phase may differ from what it would be if it were computed now.
    stale: BTreeSet<GroupId>,
    /// The state for which the phases of the others were computed.
    settled: GangState,
}

/// The state of a gang group, as its groups see it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum GangState {
    /// All may be tried.
    #[default]
    Ready,
    /// One is not ready, and the others wait for it.
    WaitsForOne(GroupId),
    /// All wait.
    Waits,
}

/// Readiness of one group, for its partners.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::queue) enum Readiness {
    /// It has started, or has finished, and is no partner any more.
    Started,
    Unready,
    Ready,
}

/// The first group that keeps another from being tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::queue) struct Blocker {
    pub(in crate::queue) group: GroupId,
    /// Whether it is not ready for a reason of its own; else a partner that it names is not known.
    pub(in crate::queue) is_unready: bool,
}

impl Gang {
    fn state(&self) -> GangState {
        let mut unready = self.unready.iter();
        match (self.lacking.is_empty(), unready.next(), unready.next()) {
            (true, None, _) => GangState::Ready,
            (true, Some(only), None) => GangState::WaitsForOne(*only),
            _ => GangState::Waits,
        }
    }

    /// Moves a group to another gang group, or out.
    fn remove(&mut self, id: GroupId) -> [bool; 5] {
        let Gang { groups, open, lacking, unready, stale, .. } = self;
        [groups, open, lacking, unready, stale].map(|set| set.remove(&id))
    }

    fn insert(&mut self, id: GroupId, held: [bool; 5]) {
        let Gang { groups, open, lacking, unready, stale, .. } = self;
        for (set, held) in [groups, open, lacking, unready, stale].into_iter().zip(held) {
            if held {
                set.insert(id);
            }
        }
    }
}

impl Partners {
    /// Number of groups looked at.
    pub(in crate::queue) fn groups_checked(&self) -> u64 {
        self.groups_checked
    }

    /// Counts groups that were looked at.
    pub(in crate::queue) fn count_checked(&mut self, groups: u64) {
        self.groups_checked = self.groups_checked.saturating_add(groups);
    }

    /// Adds a group: the full names in its tree, and the partners that it names. `find` returns the
    /// root group that a name belongs to; it knows the names of this group already. Returns the
    /// groups that have partners now and had none: their readiness is to be set.
    pub(in crate::queue) fn add<'a>(
        &mut self,
        id: GroupId,
        names: impl Iterator<Item = &'a str>,
        partners: &[ObjectName],
        find: impl Fn(&str) -> Option<GroupId>,
    ) -> Vec<GroupId> {
        let partners: BTreeSet<&str> = partners.iter().map(|name| &**name).collect();
        for &partner in &partners {
            self.naming.entry(partner.into()).or_default().insert(id);
            self.ensure(id);
            match find(partner) {
                Some(other) => self.join(id, other),
                None => self.change_missing(id, |missing| missing + 1),
            }
        }
        for name in names {
            for other in self.naming.get(name).cloned().unwrap_or_default() {
                if other != id {
                    self.change_missing(other, |missing| missing.saturating_sub(1));
                    self.join(id, other);
                }
            }
        }
        core::mem::take(&mut self.new)
    }

    /// Removes a group; what is left of its gang group is to be [`split`](Partners::split).
    pub(in crate::queue) fn remove<'a>(
        &mut self,
        id: GroupId,
        names: impl Iterator<Item = &'a str>,
        partners: &[ObjectName],
    ) {
        for partner in partners {
            if let Some(groups) = self.naming.get_mut(&**partner) {
                groups.remove(&id);
                if groups.is_empty() {
                    self.naming.remove(&**partner);
                }
            }
        }
        for name in names {
            for other in self.naming.get(name).cloned().unwrap_or_default() {
                if other != id {
                    self.change_missing(other, |missing| missing + 1);
                }
            }
        }
        self.missing.remove(&id);
        let Some(number) = self.gang_of.remove(&id) else { return };
        if let Some(gang) = self.gangs.get_mut(&number) {
            gang.remove(id);
            if gang.groups.is_empty() {
                self.gangs.remove(&number);
            }
        }
    }

    /// Moves groups of one gang group into one of their own.
    pub(in crate::queue) fn split(&mut self, groups: &[GroupId]) {
        let number = groups.first().and_then(|id| self.gang_of.get(id)).copied();
        let Some(old) = number.and_then(|number| self.gangs.get_mut(&number)) else { return };
        let mut new = Gang { settled: old.settled, ..Gang::default() };
        self.next += 1;
        for &id in groups {
            let held = old.remove(id);
            new.insert(id, held);
            self.gang_of.insert(id, self.next);
        }
        self.gangs.insert(self.next, new);
    }

    /// Drops a group that names nobody and is alone in its gang group.
    pub(in crate::queue) fn drop_alone(&mut self, id: GroupId, names_one: bool) {
        let Some(number) = self.gang_of.get(&id).copied() else { return };
        let is_alone = self.gangs.get(&number).is_some_and(|gang| gang.groups.len() == 1);
        if is_alone && !names_one {
            self.gang_of.remove(&id);
            self.gangs.remove(&number);
        }
    }

    /// Groups that name a partner by this name.
    pub(in crate::queue) fn naming<'a>(
        &'a self,
        name: &str,
    ) -> impl Iterator<Item = GroupId> + use<'a> {
        self.naming.get(name).into_iter().flatten().copied()
    }

    fn ensure(&mut self, id: GroupId) -> u64 {
        if let Some(number) = self.gang_of.get(&id) {
            return *number;
        }
        self.next += 1;
        let mut gang = Gang::default();
        // Unready until its readiness is set.
        gang.insert(id, [true, true, false, true, true]);
        gang.settled = gang.state();
        self.gangs.insert(self.next, gang);
        self.gang_of.insert(id, self.next);
        self.new.push(id);
        self.next
    }

    /// Makes the gang groups of two groups one. The smaller is moved, which is O(n log n) groups in
    /// all while n groups arrive.
    fn join(&mut self, id: GroupId, other: GroupId) {
        let (mut from, mut into) = (self.ensure(id), self.ensure(other));
        if from == into {
            return;
        }
        let size = |number| self.gangs.get(&number).map_or(0, |gang: &Gang| gang.groups.len());
        if size(from) > size(into) {
            (from, into) = (into, from);
        }
        let Some(mut small) = self.gangs.remove(&from) else { return };
        let Some(large) = self.gangs.get_mut(&into) else { return };
        for id in small.groups.clone() {
            let mut held = small.remove(id);
            // Its phase does not reflect its new partners yet.
            held[4] = true;
            large.insert(id, held);
            self.gang_of.insert(id, into);
            self.groups_checked += 1;
        }
    }

    fn change_missing(&mut self, id: GroupId, change: impl Fn(usize) -> usize) {
        let missing = change(self.missing.get(&id).copied().unwrap_or(0));
        if missing == 0 {
            self.missing.remove(&id);
        } else {
            self.missing.insert(id, missing);
        }
        if let Some(gang) = self.gang_of.get(&id).and_then(|number| self.gangs.get_mut(number)) {
            if missing > 0 && gang.open.contains(&id) {
                gang.lacking.insert(id);
            } else {
                gang.lacking.remove(&id);
            }
        }
    }

    fn gang(&self, id: GroupId) -> Option<&Gang> {
        self.gangs.get(self.gang_of.get(&id)?)
    }

    fn gang_mut(&mut self, id: GroupId) -> Option<&mut Gang> {
        self.gangs.get_mut(self.gang_of.get(&id)?)
    }

    /// Whether the group has partners, or names some.
    pub(in crate::queue) fn contains(&self, id: GroupId) -> bool {
        self.gang_of.contains_key(&id)
    }

    /// Sets the readiness of a group.
    pub(in crate::queue) fn set_readiness(&mut self, id: GroupId, readiness: Readiness) {
        let lacks = self.missing.contains_key(&id);
        let Some(gang) = self.gang_mut(id) else { return };
        let is_open = readiness != Readiness::Started;
        let is_unready = readiness == Readiness::Unready;
        for (set, holds) in [
            (&mut gang.open, is_open),
            (&mut gang.lacking, is_open && lacks),
            (&mut gang.unready, is_unready),
        ] {
            if holds {
                set.insert(id);
            } else {
                set.remove(&id);
            }
        }
    }

    /// Records that the phase of a group changed, or was computed for the present state.
    pub(in crate::queue) fn set_stale(&mut self, id: GroupId, is_stale: bool) {
        let Some(gang) = self.gang_mut(id) else { return };
        if is_stale {
            gang.stale.insert(id);
        } else {
            gang.stale.remove(&id);
        }
    }

    /// All groups of the gang group, in order of arrival.
    pub(in crate::queue) fn groups(&self, id: GroupId) -> Option<&BTreeSet<GroupId>> {
        self.gang(id).map(|gang| &gang.groups)
    }

    /// The groups of the gang group that have not started, in order of arrival.
    pub(in crate::queue) fn open(&self, id: GroupId) -> Option<&BTreeSet<GroupId>> {
        self.gang(id).map(|gang| &gang.open)
    }

    /// The first group, in order of arrival, that keeps a group from being tried, other reasons of
    /// its own aside. O(log groups).
    pub(in crate::queue) fn blocker(&self, id: GroupId) -> Option<Blocker> {
        let gang = self.gang(id)?;
        let lacking = gang.lacking.first();
        let unready = gang.unready.iter().find(|other| **other != id);
        let lacking = lacking.map(|group| Blocker { group: *group, is_unready: false });
        let unready = unready.map(|group| Blocker { group: *group, is_unready: true });
        lacking.into_iter().chain(unready).min()
    }

    /// Whether partners of a group wait for what they need not wait for, or the other way round.
    pub(in crate::queue) fn is_unsettled(&self, id: GroupId) -> bool {
        self.gang(id).is_some_and(|gang| gang.settled != gang.state())
    }

    /// The groups of a gang group whose phase is to be computed again, in order of arrival.
    pub(in crate::queue) fn take_unsettled(&mut self, id: GroupId) -> BTreeSet<GroupId> {
        let Some(gang) = self.gang_mut(id) else { return BTreeSet::new() };
        let mut groups = core::mem::take(&mut gang.stale);
        let state = gang.state();
        if core::mem::replace(&mut gang.settled, state) != state {
            groups.extend(&gang.open);
        }
        groups
    }
}
