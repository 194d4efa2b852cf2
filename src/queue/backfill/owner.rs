//! The line as its driver tells it news, and the classes, demands and shortages of its groups.

use alloc::collections::BTreeSet;
use alloc::string::String;
use alloc::vec::Vec;
use core::mem;
use core::time::Duration;

use super::demand::Demand;
#[cfg(feature = "serde")]
use super::demand::ResourceNumbers;
use super::line::{Alike, ClassId, Turn};
#[cfg(feature = "serde")]
use super::promise::Standing;
use super::reads::Reads;
use super::running::Release;
#[cfg(feature = "serde")]
use super::tally::Tally;
use super::{BackfillLine, News};
#[cfg(feature = "serde")]
use super::{SavedBackfill, SavedStanding};
use crate::base::Time;
use crate::queue::groups::Groups;
use crate::queue::line::Line as WaitingLine;
use crate::queue::line::shortage::KnownRoom;
use crate::queue::settings::BackfillRule;
use crate::queue::terms::ids::{GroupId, QueueKey};
use crate::queue::terms::shortage::Shortage;

impl News {
    /// Groups that became ready.
    pub(in crate::queue) fn arrived(&self) -> &BTreeSet<GroupId> {
        &self.arrived
    }

    /// Whether room was released, or may have been.
    pub(in crate::queue) fn has_freed(&self) -> bool {
        self.freed
    }

    /// Groups with a promise that have changed since.
    pub(in crate::queue) fn changed(&self) -> &BTreeSet<GroupId> {
        &self.changed
    }

    /// A promise has ended: its room is released.
    pub(in crate::queue) fn set_freed(&mut self) {
        self.freed = true;
    }

    /// Whether a promised start has come, or a promise may have to be replaced.
    pub(in crate::queue) fn is_due(&self) -> bool {
        self.due
    }
}

#[cfg(feature = "serde")]
impl SavedBackfill {
    /// The state in which the next pass is one of the whole line.
    pub(in crate::queue) fn set_freed(&mut self) {
        self.freed = true;
    }
}

impl BackfillLine {
    // News.

    /// A group waits from now on.
    pub(in crate::queue) fn put_in_line(&mut self, key: QueueKey) {
        self.line.insert(key);
    }

    /// A group does not wait any more.
    pub(in crate::queue) fn leave_line(&mut self, key: &QueueKey) {
        self.line.remove(key);
    }

    /// The members of a group have changed.
    pub(in crate::queue) fn forget_demand(&mut self, key: Option<&QueueKey>) {
        if let Some(key) = key {
            self.line.forget(key);
        }
    }

    /// A group became ready.
    pub(in crate::queue) fn note_arrived(&mut self, id: GroupId) {
        self.news.arrived.insert(id);
    }

    /// A group with a promise has changed, or waits no longer.
    pub(in crate::queue) fn note_changed(&mut self, id: GroupId) {
        self.news.changed.insert(id);
    }

    /// Room was released, or may have been.
    pub(in crate::queue) fn note_freed(&mut self) {
        self.news.freed = true;
    }

    /// A promised place may have been taken.
    pub(in crate::queue) fn note_loss(&mut self) {
        self.losses = self.losses.wrapping_add(1);
        self.news.due = true;
    }

    /// Groups were given a place: their run times count from now.
    pub(in crate::queue) fn note_start(&mut self, reads: Reads<'_>, groups: &[GroupId]) {
        for id in groups {
            self.tally.note_start(reads, *id);
        }
    }

    /// A group that runs has changed.
    pub(in crate::queue) fn note_group(&mut self, id: GroupId) {
        self.tally.note_group(id);
        if let Some(copy) = &mut self.copy {
            copy.note_group(id);
        }
    }

    /// The timer of promises has fired.
    pub(in crate::queue) fn promises_due(&mut self) {
        self.timer = None;
        self.news.due = true;
    }

    /// Changes since this was asked last; `None` if there are none. Classes of groups that were
    /// `renominated` are found anew.
    pub(in crate::queue) fn take_news(
        &mut self,
        groups: &Groups,
        renominated: &BTreeSet<GroupId>,
    ) -> Option<News> {
        let renominated = renominated.iter().filter_map(|id| groups.get(id)?.key());
        renominated.for_each(|key| self.line.forget(key));
        let News { arrived, freed, changed, due } = &self.news;
        (*freed || *due || !arrived.is_empty() || !changed.is_empty())
            .then(|| mem::take(&mut self.news))
    }

    /// Sets the time of the timer of promises: after now, and not the end of time. Returns the
    /// times of the timer that ends and of the one that begins, if they differ.
    pub(in crate::queue) fn set_timer(
        &mut self,
        now: Time,
        at: Option<Time>,
    ) -> Option<(Option<Time>, Option<Time>)> {
        let at = at.map(|at| at.max(now.after(Duration::from_nanos(1))));
        let at = at.filter(|at| *at < Time::MAX);
        (at != self.timer).then(|| (mem::replace(&mut self.timer, at), at))
    }

    /// Takes groups out of the line that had no place at their promised start, unless room was
    /// released, they `arrived`, or a node may be tried again, since. Returns whether one is back.
    pub(in crate::queue) fn pass_over_stuck(
        &mut self,
        line: &mut Vec<GroupId>,
        freed: bool,
        back: impl Fn(GroupId) -> bool,
    ) -> bool {
        let before = self.stuck.len();
        self.stuck.retain(|id| !freed && !back(*id));
        line.retain(|id| !self.stuck.contains(id));
        self.stuck.len() < before
    }

    /// A group had no place when its promised start had come.
    pub(in crate::queue) fn note_stuck(&mut self, id: GroupId) {
        self.stuck.insert(id);
    }

    /// Number of changes that may have taken a promised place.
    pub(in crate::queue) fn losses(&self) -> u64 {
        self.losses
    }

    #[cfg(feature = "serde")]
    pub(in crate::queue) fn save(&self) -> SavedBackfill {
        SavedBackfill {
            arrived: self.news.arrived.clone(),
            freed: self.news.freed,
            changed: self.news.changed.clone(),
            due: self.news.due,
            losses: self.losses,
            running: self.tally.starts().clone(),
            timer: self.timer,
            resources: self.tally.numbers().names().map(String::from).collect(),
            standing: self.standing.as_ref().map(|own| SavedStanding {
                head: own.head,
                at: own.at,
                free: own.free.amounts().to_vec(),
            }),
            stuck: self.stuck.clone(),
        }
    }

    #[cfg(feature = "serde")]
    pub(in crate::queue) fn restore(saved: SavedBackfill) -> BackfillLine {
        let SavedBackfill { arrived, freed, changed, due, losses, running, .. } = saved;
        let numbers = ResourceNumbers::of_names(saved.resources);
        let (news, tally) = (News { arrived, freed, changed, due }, Tally::of(numbers, running));
        let standing = saved.standing.map(|own| Standing {
            head: own.head,
            at: own.at,
            free: Demand::of_amounts(own.free),
            is_copied: false,
        });
        let (timer, stuck) = (saved.timer, saved.stuck);
        BackfillLine { news, losses, tally, timer, standing, stuck, ..BackfillLine::default() }
    }

    // The line and its classes.

    /// The groups of the line, in queue order.
    pub(in crate::queue) fn groups(&self) -> impl Iterator<Item = GroupId> {
        self.line.keys().map(|key| key.group)
    }

    /// The first group of the line after another.
    pub(in crate::queue) fn after(&self, key: Option<&QueueKey>) -> Option<QueueKey> {
        self.line.after(key).cloned()
    }

    /// Puts all groups of the line into their classes. The sums have every resource that these
    /// request from now on.
    pub(super) fn sort_line(&mut self, reads: Reads<'_>) {
        let rule = reads.world().settings().discipline.backfill().map(|backfill| backfill.rule);
        let shortest_first = rule == Some(BackfillRule::EasyShortestFirst);
        for id in self.line.unsorted() {
            let run = reads.longest_run(id).unwrap_or(Duration::MAX);
            let is_nominated = reads.holds().nominated(id).is_some();
            if let Some(queued) = reads.groups().get(&id) {
                let numbers = self.tally.numbers_mut();
                self.line.sort_in((queued, is_nominated), numbers, run, shortest_first);
            }
        }
    }

    /// The line, in queue order, each group in its class.
    pub(in crate::queue) fn sorted(&mut self, reads: Reads<'_>) -> Vec<GroupId> {
        self.sort_line(reads);
        self.groups().collect()
    }

    /// The class and the turn of a group in the line.
    pub(super) fn place_in_line(
        &mut self,
        reads: Reads<'_>,
        id: GroupId,
    ) -> Option<(ClassId, Turn)> {
        self.sort_line(reads);
        let key = reads.groups().get(&id)?.key()?;
        self.line.place(key).cloned()
    }

    /// The class of a group in the line.
    pub(super) fn class_of(&mut self, reads: Reads<'_>, id: GroupId) -> Option<ClassId> {
        self.place_in_line(reads, id).map(|(class, _)| class)
    }

    /// The least need of a group in the line.
    pub(super) fn demand(&mut self, reads: Reads<'_>, id: GroupId) -> Demand {
        let class = self.class_of(reads, id);
        let demand = class.and_then(|class| self.line.demand(class));
        demand.cloned().unwrap_or_default()
    }

    /// The inputs of placement for the groups of a class; `None` if they need not be alike.
    pub(super) fn alike(&self, class: ClassId) -> Option<&Alike> {
        self.line.alike(class)
    }

    // Room.

    /// The sum of free resources. O(changes).
    pub(in crate::queue) fn free_now(&mut self, reads: Reads<'_>) -> Demand {
        self.tally.free_now(reads.cluster())
    }

    /// Estimated ends of running groups, in order, with the resources that each releases.
    pub(in crate::queue) fn releases(&mut self, reads: Reads<'_>) -> Vec<Release> {
        self.tally.releases(reads)
    }

    /// The number of pods of a class that have room, if fewer have than must have.
    pub(super) fn too_little_room(&mut self, reads: Reads<'_>, class: ClassId) -> Option<u64> {
        self.tally.too_little_room(reads, self.line.counted(class)?)
    }

    /// Whether as many pods of a group have room, node by node, as must have.
    pub(super) fn class_has_room(&mut self, reads: Reads<'_>, id: GroupId) -> bool {
        let class = self.class_of(reads, id);
        class.is_none_or(|class| self.too_little_room(reads, class).is_none())
    }

    /// Whether a group may have a place: by the sums, and node by node.
    pub(in crate::queue) fn may_have_room(
        &mut self,
        reads: Reads<'_>,
        id: GroupId,
        free: &Demand,
    ) -> bool {
        let demand = self.demand(reads, id);
        free.covers(&demand) && self.class_has_room(reads, id)
    }

    /// The room of a group that may have a place: pods that are alike were counted.
    pub(in crate::queue) fn known_room(&mut self, reads: Reads<'_>, id: GroupId) -> KnownRoom {
        let alike = self.class_of(reads, id).and_then(|class| self.alike(class));
        if alike.is_some() { KnownRoom::Enough } else { KnownRoom::Unknown }
    }

    /// The shortage of a group for which there is too little room: counted by class where its pods
    /// are alike. `None` if its pods have room by count.
    pub(in crate::queue) fn shortage_of(
        &mut self,
        reads: Reads<'_>,
        waiting: &mut WaitingLine,
        id: GroupId,
    ) -> Option<Shortage> {
        let class = self.class_of(reads, id);
        if let Some(class) = class
            && let Some(alike) = self.line.alike(class)
        {
            let in_sums = self.tally.room_in_sums(reads.cluster(), alike);
            let group = reads.groups().get(&id)?.name().clone();
            let (requests, needed) = (alike.shape().requests.clone(), alike.needed());
            let level = alike.level().map(String::from);
            let available =
                if in_sums < needed { in_sums } else { self.too_little_room(reads, class)? };
            return Some(Shortage::Capacity { group, requests, needed, available, level });
        }
        let tree = reads.tree_of(id)?;
        let found = waiting.shortage(reads.world(), &tree, KnownRoom::Unknown);
        found.map(|(shortage, _)| shortage)
    }
}
