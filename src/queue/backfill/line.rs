//! The line: groups that wait, in queue order, and by their needs.
//!
//! Groups that need the same are a class. A pass finds its next candidate by class: all others of a
//! class that does not fit cost nothing, however many they are.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::time::Duration;

use super::demand::{Demand, ResourceNumbers};
use crate::framework::Framework;
use crate::model::{GroupPolicy, Labels, PodShape, TopologyRequest};
use crate::queue::groups::{MemberState, QueuedGroup};
use crate::queue::line::capacity::{has_capacity_bound, reads_beyond_node};
use crate::queue::terms::ids::{GroupId, QueueKey};

/// Groups that wait, in queue order over all queues.
#[derive(Debug, Default)]
pub(in crate::queue) struct Line {
    /// The class of each; `None` until it is asked for.
    groups: BTreeMap<QueueKey, Option<(ClassId, Turn)>>,
    unsorted: BTreeSet<QueueKey>,
    classes: BTreeMap<ClassId, Class>,
    numbers: BTreeMap<Arc<Kind>, ClassId>,
    /// Classes of one shape and level have one count of room; how many classes each is of.
    rooms: BTreeMap<(Arc<PodShape>, Option<String>), (RoomId, usize)>,
    next: ClassId,
}

/// Number of a class.
pub(in crate::queue) type ClassId = u64;

/// Number of a count of room: of the first class that it is of.
pub(in crate::queue) type RoomId = ClassId;

/// The order in which groups behind the first are tried: by estimate if the shortest goes first,
/// then in queue order.
pub(in crate::queue) type Turn = (Duration, QueueKey);

/// The common needs of the groups of a class.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Kind {
    demand: Demand,
    alike: Option<Alike>,
}

/// All inputs of placement for a group of equal pods. Groups that agree in them have a place or
/// have none.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::queue) struct Alike {
    shape: Arc<PodShape>,
    count: usize,
    policy: GroupPolicy,
    topology: TopologyRequest,
    attributes: Labels,
}

#[derive(Debug)]
struct Class {
    kind: Arc<Kind>,
    room: RoomId,
    members: Members,
}

/// The groups of a class by turn, with the longest that they run by their estimates.
#[derive(Debug, Default)]
struct Members(Vec<Chunk>);

/// Some neighbours, with the least of their run times.
#[derive(Debug)]
struct Chunk {
    entries: Vec<(Turn, Duration)>,
    least: Duration,
}

/// The most groups of a chunk.
const CHUNK: usize = 64;

impl Chunk {
    fn new(entries: Vec<(Turn, Duration)>) -> Chunk {
        let least = entries.iter().map(|(_, run)| *run).min().unwrap_or(Duration::MAX);
        Chunk { entries, least }
    }
}

impl Members {
    /// The chunk that a turn belongs to.
    fn chunk_of(&self, turn: &Turn) -> usize {
        let first = |chunk: &Chunk| chunk.entries.first().is_some_and(|(first, _)| first <= turn);
        self.0.partition_point(first).saturating_sub(1)
    }

    fn insert(&mut self, turn: Turn, run: Duration) {
        let at = self.chunk_of(&turn);
        let Some(chunk) = self.0.get_mut(at) else {
            self.0.push(Chunk::new(alloc::vec![(turn, run)]));
            return;
        };
        let place = chunk.entries.partition_point(|(own, _)| *own < turn);
        chunk.entries.insert(place, (turn, run));
        chunk.least = chunk.least.min(run);
        if chunk.entries.len() > CHUNK {
            let second = Chunk::new(chunk.entries.split_off(CHUNK / 2));
            let first = Chunk::new(core::mem::take(&mut chunk.entries));
            *chunk = first;
            self.0.insert(at + 1, second);
        }
    }

    fn remove(&mut self, turn: &Turn) {
        let at = self.chunk_of(turn);
        let Some(chunk) = self.0.get_mut(at) else { return };
        if let Ok(place) = chunk.entries.binary_search_by(|(own, _)| own.cmp(turn)) {
            let (_, run) = chunk.entries.remove(place);
            if chunk.entries.is_empty() {
                self.0.remove(at);
            } else if run == chunk.least {
                *chunk = Chunk::new(core::mem::take(&mut chunk.entries));
            }
        }
    }

    /// The first after a turn that runs no longer than `most`. O(groups / 64).
    fn first(&self, after: Option<&Turn>, most: Duration) -> Option<&Turn> {
        let at = after.map_or(0, |after| self.chunk_of(after));
        let chunks = self.0.get(at..)?.iter().filter(|chunk| chunk.least <= most);
        let mut entries = chunks.flat_map(|chunk| &chunk.entries);
        let found = entries.find(|(turn, run)| *run <= most && after.is_none_or(|own| turn > own));
        found.map(|(turn, _)| turn)
    }
}

impl Alike {
    /// The inputs of placement for a group; `None` unless it is a group of equal pods that all
    /// wait.
    fn of(queued: &QueuedGroup, is_nominated: bool) -> Option<Alike> {
        let root = queued.root();
        let is_plain = root.groups.is_empty()
            && root.gang_group.is_empty()
            && queued.strategy().is_none()
            && !is_nominated;
        let mut members = queued.members().values();
        let shape = members.next().filter(|_| is_plain)?.pod().shape();
        let waits = queued.members().values().all(|member| {
            let pod = member.pod();
            member.state() == MemberState::Pending
                && pod.scheduling_gates.is_empty()
                && pod.shape() == shape
        });
        waits.then(|| Alike {
            shape: Arc::clone(shape),
            count: queued.members().len(),
            policy: root.policy,
            topology: root.topology.clone(),
            attributes: root.attributes.clone(),
        })
    }

    pub(super) fn shape(&self) -> &PodShape {
        &self.shape
    }

    /// The label key that all pods share a domain of.
    pub(super) fn level(&self) -> Option<&str> {
        self.topology.firm_level()
    }

    /// All that a count of room depends on.
    fn counted(&self) -> (Arc<PodShape>, Option<String>) {
        (Arc::clone(&self.shape), self.level().map(String::from))
    }

    /// The number of pods that must have room.
    pub(super) fn needed(&self) -> u64 {
        u64::from(self.policy.minimum()).max(1)
    }

    /// Whether the pods are counted node by node.
    pub(super) fn has_bound(&self, framework: &Framework) -> bool {
        has_capacity_bound(framework, &self.shape)
    }

    /// Whether a filter or score of the pods reads beyond the node.
    pub(super) fn reads_beyond_node(&self, framework: &Framework) -> bool {
        reads_beyond_node(framework, &self.shape)
    }
}

impl Line {
    /// Adds a group.
    pub(in crate::queue) fn insert(&mut self, key: QueueKey) {
        self.remove(&key);
        self.unsorted.insert(key.clone());
        self.groups.insert(key, None);
    }

    /// Removes a group.
    pub(in crate::queue) fn remove(&mut self, key: &QueueKey) {
        if self.groups.contains_key(key) {
            self.forget(key);
            self.unsorted.remove(key);
            self.groups.remove(key);
        }
    }

    /// A group needs something else than before.
    pub(in crate::queue) fn forget(&mut self, key: &QueueKey) {
        let Some(place) = self.groups.get_mut(key) else { return };
        let Some((id, turn)) = place.take() else { return };
        self.unsorted.insert(key.clone());
        let Some(class) = self.classes.get_mut(&id) else { return };
        class.members.remove(&turn);
        if class.members.0.is_empty() {
            self.numbers.remove(&class.kind);
            if let Some(key) = class.kind.alike.as_ref().map(Alike::counted)
                && let Some((_, classes)) = self.rooms.get_mut(&key)
            {
                *classes -= 1;
                if *classes == 0 {
                    self.rooms.remove(&key);
                }
            }
            self.classes.remove(&id);
        }
    }

    /// The groups, in queue order.
    pub(in crate::queue) fn keys(&self) -> impl Iterator<Item = &QueueKey> {
        self.groups.keys()
    }

    /// The first group after another.
    pub(in crate::queue) fn after(&self, key: Option<&QueueKey>) -> Option<&QueueKey> {
        use core::ops::Bound::{Excluded, Unbounded};
        let from = key.map_or(Unbounded, Excluded);
        self.groups.range((from, Unbounded)).next().map(|(key, _)| key)
    }

    /// The groups whose class is not known.
    pub(in crate::queue) fn unsorted(&self) -> Vec<GroupId> {
        self.unsorted.iter().map(|key| key.group).collect()
    }

    /// Puts a group into its class.
    pub(in crate::queue) fn sort_in(
        &mut self,
        (queued, is_nominated): (&QueuedGroup, bool),
        numbers: &mut ResourceNumbers,
        run: Duration,
        shortest_first: bool,
    ) {
        let Some(key) = queued.key().filter(|key| self.unsorted.remove(*key)) else {
            return;
        };
        let kind =
            Kind { demand: numbers.of_group(queued), alike: Alike::of(queued, is_nominated) };
        let id = if let Some(id) = self.numbers.get(&kind) {
            *id
        } else {
            let (id, kind) = (self.next, Arc::new(kind));
            self.next = self.next.wrapping_add(1);
            let room = kind.alike.as_ref().map_or(id, |alike| {
                let (room, classes) = self.rooms.entry(alike.counted()).or_insert((id, 0));
                *classes += 1;
                *room
            });
            self.numbers.insert(Arc::clone(&kind), id);
            self.classes.insert(id, Class { kind, room, members: Members::default() });
            id
        };
        let turn = (if shortest_first { run } else { Duration::ZERO }, key.clone());
        if let Some(class) = self.classes.get_mut(&id) {
            class.members.insert(turn.clone(), run);
        }
        self.groups.insert(key.clone(), Some((id, turn)));
    }

    /// The class and the turn of a group, once they are known.
    pub(in crate::queue) fn place(&self, key: &QueueKey) -> Option<&(ClassId, Turn)> {
        self.groups.get(key)?.as_ref()
    }

    /// The least need of each group of a class.
    pub(in crate::queue) fn demand(&self, class: ClassId) -> Option<&Demand> {
        self.classes.get(&class).map(|class| &class.kind.demand)
    }

    /// The inputs of placement for the groups of a class; `None` if they need not be alike.
    pub(in crate::queue) fn alike(&self, class: ClassId) -> Option<&Alike> {
        self.classes.get(&class)?.kind.alike.as_ref()
    }

    /// The inputs of placement for the groups of a class, with the number of their count of room.
    pub(in crate::queue) fn counted(&self, class: ClassId) -> Option<(RoomId, &Alike)> {
        let class = self.classes.get(&class)?;
        Some((class.room, class.kind.alike.as_ref()?))
    }

    /// The classes.
    pub(in crate::queue) fn classes(&self) -> impl Iterator<Item = ClassId> {
        self.classes.keys().copied()
    }

    /// The first group of a class after a turn that runs no longer than `most`.
    pub(in crate::queue) fn first(
        &self,
        class: ClassId,
        after: Option<&Turn>,
        most: Duration,
    ) -> Option<&Turn> {
        self.classes.get(&class)?.members.first(after, most)
    }
}

#[cfg(test)]
mod tests;
