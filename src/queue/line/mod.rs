//! The line: the next group, and sleepers with their times.

pub(in crate::queue) mod capacity;
pub(in crate::queue) mod refusals;
pub(in crate::queue) mod shortage;
mod waiting_queues;
pub(in crate::queue) mod wake;

use alloc::collections::BTreeSet;
use alloc::string::String;
use alloc::sync::Arc;
use core::fmt;

use self::shortage::{KnownRoom, find_shortage};
use self::waiting_queues::WaitingQueues;
use self::wake::hints::Changes;
use self::wake::index::WaitIndex;
use crate::model::PodGroup;
use crate::queue::groups::{Phase, QueuedGroup};
use crate::queue::settings::{HeadOfLine, PriorityThenTime, QueueOrder, Settings};
use crate::queue::terms::ids::{GroupId, QueueKey};
use crate::queue::terms::shortage::Shortage;
use crate::queue::terms::wake::WakeCondition;
use crate::queue::world::World;
use crate::state::Row;

/// Groups that wait: in the order of their queues, and by what wakes them.
pub(in crate::queue) struct Line {
    order: Arc<dyn QueueOrder>,
    queues: WaitingQueues,
    sleepers: WaitIndex,
    /// Changes of the cluster that sleepers have not been told of.
    changes: Changes,
}

impl Default for Line {
    fn default() -> Line {
        Line {
            order: Arc::new(PriorityThenTime),
            queues: WaitingQueues::default(),
            sleepers: WaitIndex::default(),
            changes: Changes::default(),
        }
    }
}

impl fmt::Debug for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Line").field("queues", &self.queues).finish_non_exhaustive()
    }
}

impl Line {
    /// Sets the embedder's own order. Groups that wait are to be ranked again.
    pub(in crate::queue) fn set_order(&mut self, order: Arc<dyn QueueOrder>) {
        self.order = order;
    }

    /// Ranks a group and puts it into its queue. Returns its key.
    pub(in crate::queue) fn join(
        &mut self,
        settings: &Settings,
        id: GroupId,
        queued: &mut QueuedGroup,
    ) -> QueueKey {
        let rank = self.order.rank(&queued.waiting());
        let grown = queued.grown();
        let key = queued.set_rank(id, rank, grown);
        self.update(settings, queued);
        key
    }

    /// Updates whether a group of the line is ready. O(log groups).
    pub(in crate::queue) fn update(&mut self, settings: &Settings, queued: &QueuedGroup) {
        let Some(key) = queued.key() else { return };
        let queue = &queued.root().queue;
        let ready = *queued.phase() == Phase::Queued;
        self.queues.put(queue, key, ready, settings.rule(queue));
    }

    /// Takes a group out of its queue. Returns the key that it had.
    pub(in crate::queue) fn leave(
        &mut self,
        settings: &Settings,
        queued: &mut QueuedGroup,
    ) -> Option<QueueKey> {
        let key = queued.take_key()?;
        let queue = &queued.root().queue;
        self.queues.remove(queue, &key, settings.rule(queue));
        Some(key)
    }

    /// A group of the line sleeps until a condition holds, in place of the one before.
    pub(in crate::queue) fn sleep(
        &mut self,
        world: &World,
        queued: &mut QueuedGroup,
        wake_on: WakeCondition,
    ) {
        self.rouse_to(queued, wake_on);
        let Some(key) = queued.key() else { return };
        self.sleepers.subscribe(world.cluster(), world.framework(), key, queued.wake_on());
    }

    /// A group of the line sleeps no longer.
    pub(in crate::queue) fn rouse(&mut self, queued: &mut QueuedGroup) {
        self.rouse_to(queued, WakeCondition::Never);
    }

    fn rouse_to(&mut self, queued: &mut QueuedGroup, wake_on: WakeCondition) {
        if queued.key().is_none() {
            return;
        }
        let old = queued.set_wake_on(wake_on);
        if let Some(key) = queued.key() {
            self.sleepers.unsubscribe(key, &old);
        }
    }

    /// A group of the line has another key.
    pub(in crate::queue) fn rekey(&mut self, old: &QueueKey, queued: &QueuedGroup) {
        if let Some(new) = queued.key() {
            self.sleepers.rekey(old, new, queued.wake_on());
        }
    }

    /// Puts a group back that was saved with its key.
    #[cfg(feature = "serde")]
    pub(in crate::queue) fn restore_group(&mut self, world: &World, queued: &QueuedGroup) {
        if let Some(key) = queued.key() {
            self.update(world.settings(), queued);
            self.sleepers.subscribe(world.cluster(), world.framework(), key, queued.wake_on());
        }
    }

    /// The first waiting groups of each queue, in order over all queues.
    pub(in crate::queue) fn first_of_each(&self, count: usize) -> BTreeSet<QueueKey> {
        self.queues.first_of_each(count)
    }

    /// The waiting groups of a queue, in queue order.
    pub(in crate::queue) fn waiting(&self, queue: &str) -> impl Iterator<Item = &QueueKey> {
        self.queues.waiting(queue)
    }

    /// Whether a group waits behind another of a strict queue.
    pub(in crate::queue) fn is_behind(
        &self,
        rule: HeadOfLine,
        queue: &str,
        key: &QueueKey,
    ) -> bool {
        rule == HeadOfLine::StrictFifo && self.queues.waiting(queue).next() != Some(key)
    }

    /// The first group, over all queues, that may be tried. O(log queues).
    pub(in crate::queue) fn first_ready(&self) -> Option<&QueueKey> {
        self.queues.first_ready()
    }

    /// The first group that may be tried, over some queues. O(queues).
    pub(in crate::queue) fn first_ready_of(
        &self,
        of: impl FnMut(&str) -> bool,
    ) -> Option<QueueKey> {
        self.queues.first_ready_of(of)
    }

    /// The group of a queue that may be tried.
    pub(in crate::queue) fn head(&self, queue: &str) -> Option<&QueueKey> {
        self.queues.head(queue)
    }

    /// Starts to track which heads of queues change.
    pub(in crate::queue) fn track_heads(&mut self) {
        self.queues.track();
    }

    /// Counts the heads of all queues as changed.
    pub(in crate::queue) fn touch_heads(&mut self) {
        self.queues.touch_all();
    }

    /// Queues whose head has changed since this was last asked.
    pub(in crate::queue) fn take_changed_heads(&mut self) -> BTreeSet<String> {
        self.queues.take_changed()
    }

    /// Queues whose head has changed since they were last taken.
    #[cfg(feature = "serde")]
    pub(in crate::queue) fn changed_heads(&self) -> &BTreeSet<String> {
        self.queues.changed()
    }

    /// Counts the heads of some queues as changed, of those that have one, and no others.
    #[cfg(feature = "serde")]
    pub(in crate::queue) fn set_changed_heads(
        &mut self,
        changed: BTreeSet<String>,
        or: impl Fn(&str) -> bool,
    ) {
        self.queues.set_changed(changed, or);
    }

    /// The pods on a node have changed.
    pub(in crate::queue) fn note_pods(&mut self, row: Row) {
        self.changes.pods.insert(row);
    }

    /// A node itself has changed, or was added.
    pub(in crate::queue) fn note_node(&mut self, row: Row) {
        self.changes.nodes.insert(row);
    }

    /// A node was removed from a row.
    pub(in crate::queue) fn note_removal(&mut self, row: Row) {
        self.changes.removed.insert(row);
    }

    /// A change concerns every group.
    pub(in crate::queue) fn note_all(&mut self) {
        self.changes.all = true;
    }

    /// Tells sleepers of what has changed. Returns those that wait for a hint and may be helped;
    /// `None` if nothing has changed.
    pub(in crate::queue) fn tell(&mut self, world: &World) -> Option<BTreeSet<GroupId>> {
        if self.changes.is_empty() {
            return None;
        }
        let changes = core::mem::take(&mut self.changes);
        Some(self.sleepers.wake(world.cluster(), world.framework(), &changes))
    }

    /// The first sleeper in queue order whose capacity is there, unless a group before it is ready.
    pub(in crate::queue) fn next_sleeper(
        &mut self,
        world: &World,
        ready: Option<&QueueKey>,
    ) -> Option<GroupId> {
        self.sleepers.next(world.cluster(), world.framework(), ready)
    }

    /// The shortage of capacity of a tree of pending members, and what wakes its group then.
    pub(in crate::queue) fn shortage(
        &mut self,
        world: &World,
        tree: &PodGroup,
        room: KnownRoom,
    ) -> Option<(Shortage, WakeCondition)> {
        let is_in_step = room == KnownRoom::InStep;
        find_shortage(world.cluster(), world.framework(), &mut self.sleepers, tree, is_in_step)
    }

    /// Number of capacity counts, and of nodes in them.
    pub(in crate::queue) fn size(&self) -> (usize, usize) {
        self.sleepers.size()
    }

    /// Number of capacity counts evaluated, and of those at a sleeper's turn that found it short.
    pub(in crate::queue) fn checks(&self) -> (u64, u64) {
        (self.sleepers.capacity_checks, self.sleepers.still_short)
    }

    #[cfg(feature = "serde")]
    pub(in crate::queue) fn changes(&self) -> &Changes {
        &self.changes
    }

    #[cfg(feature = "serde")]
    pub(in crate::queue) fn set_changes(&mut self, changes: Changes) {
        self.changes = changes;
    }
}
