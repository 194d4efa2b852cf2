//! Gang groups: root groups that start together.

use alloc::boxed::Box;
use alloc::collections::BTreeSet;
use alloc::string::String;
use alloc::vec::Vec;

use super::Groups;
use super::components::{Components, Neighbours};
use super::partners::Readiness;
use super::phase::Phase;
use super::tree::tree_names;
use crate::queue::terms::ids::GroupId;
use crate::queue::terms::observe::Gate;

impl Groups {
    /// Adds a group to the index of gang groups; its names are known.
    pub(in crate::queue) fn add_partners(&mut self, id: GroupId) {
        let Groups { all, names, partners, .. } = self;
        let Some(queued) = all.get(&id) else { return };
        let tree = tree_names(queued.root());
        let find = |name: &str| names.get(name).map(|(id, _)| *id);
        let tree = tree.iter().map(String::as_str);
        for other in partners.add(id, tree, &queued.root().gang_group, find) {
            self.update_readiness(other);
        }
    }

    /// Removes a group from the index of gang groups; its names are still known. Returns a group of
    /// each gang group that remains.
    pub(super) fn remove_partners(&mut self, id: GroupId) -> Vec<GroupId> {
        let Some(queued) = self.all.get(&id) else { return Vec::new() };
        let others = |group| -> Neighbours<'_> {
            Box::new(self.neighbours(group).filter(move |other| *other != id))
        };
        let has_partners = self.partners.contains(id);
        let open: BTreeSet<GroupId> =
            if has_partners { others(id).collect() } else { BTreeSet::new() };
        let Components { mut parts, checked } = Components::new(&open, others);
        let tree = tree_names(queued.root());
        let tree = tree.iter().map(String::as_str);
        self.partners.remove(id, tree, &queued.root().gang_group);
        self.partners.count_checked(checked);
        // The last part is not known to be whole: it stays where it is.
        for (_, groups) in parts.split_last().map_or(&[][..], |(_, others)| others) {
            self.partners.split(groups);
        }
        parts.sort_unstable_by_key(|(first, _)| *first);
        parts.into_iter().map(|(first, _)| first).collect()
    }

    /// Drops a group from the index that names nobody and that nobody is left to name.
    pub(in crate::queue) fn drop_if_alone(&mut self, id: GroupId) {
        let names_one = self.all.get(&id).is_some_and(|own| !own.root().gang_group.is_empty());
        self.partners.drop_alone(id, names_one);
    }

    /// The groups that a group names or is named by.
    fn neighbours(&self, id: GroupId) -> Neighbours<'_> {
        let queued = self.all.get(&id).into_iter();
        let named = queued.clone().flat_map(|queued| &queued.root().gang_group);
        let named = named.filter_map(|name| self.names.get(&**name)).map(|(id, _)| *id);
        let names = queued.flat_map(|queued| tree_names(queued.root()));
        Box::new(named.chain(names.flat_map(|name| self.partners.naming(&name))))
    }

    /// Records whether a group is ready, for its partners.
    pub(in crate::queue) fn update_readiness(&mut self, id: GroupId) {
        if !self.partners.contains(id) {
            return;
        }
        let Some(queued) = self.all.get(&id) else { return };
        let is_ready = || {
            !queued.is_paused()
                && !queued.leaves_whole()
                && !queued.phase().busy()
                && !matches!(queued.phase(), Phase::Failed(_))
                && queued.gate(&queued.counts()).is_none()
        };
        // A group of which all have finished has nothing to start.
        let is_done = || queued.pending() == 0 && queued.members().have_finished();
        let readiness = if queued.started() && !queued.leaves_whole() {
            Readiness::Started
        } else if is_ready() {
            if is_done() { Readiness::Started } else { Readiness::Ready }
        } else {
            Readiness::Unready
        };
        self.partners.set_readiness(id, readiness);
    }

    /// The gate by which the partners of a group keep it from being tried. Groups that have started
    /// are no longer partners. O(log groups + names of partners).
    pub(in crate::queue) fn partner_gate(&self, id: GroupId) -> Option<Gate> {
        if self.all.get(&id)?.started() {
            return None;
        }
        let blocker = self.partners.blocker(id)?;
        let queued = self.all.get(&blocker.group)?;
        let mut named = queued.root().gang_group.iter();
        let group = if blocker.is_unready {
            queued.name().clone()
        } else {
            named.find(|name| !self.names.contains_key(&***name))?.clone()
        };
        Some(Gate::Partner { group })
    }

    /// The groups to place together with `id`, itself included; or the gate that keeps them from
    /// being tried.
    pub(in crate::queue) fn gang_group(&self, id: GroupId) -> Result<Vec<GroupId>, Gate> {
        if let Some(gate) = self.partner_gate(id) {
            return Err(gate);
        }
        match self.partners.open(id) {
            Some(open) if open.contains(&id) => Ok(open.iter().copied().collect()),
            _ => Ok(alloc::vec![id]),
        }
    }

    /// Whether a group starts by itself, and no gate keeps it from being tried.
    pub(in crate::queue) fn starts_alone(&self, id: GroupId) -> bool {
        self.gang_group(id).is_ok_and(|gang| gang.len() == 1)
    }
}
