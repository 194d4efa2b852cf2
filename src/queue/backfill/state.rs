//! The state of backfill.

use alloc::collections::{BTreeMap, BTreeSet};

use super::availability::Availability;
use super::demand::ResourceNumbers;
use super::free::Free;
use super::line::Line;
use super::promise::{Promise, Standing};
use super::room::Rooms;
use super::running::Running;
use crate::base::Time;
use crate::place::Planner;
use crate::queue::ids::{GroupId, QueueKey};
use crate::state::Plan;
use crate::state::journal::Moment;

/// The line, what runs, and what was promised: nothing without backfill.
#[derive(Debug, Default)]
pub(in crate::queue) struct BackfillState {
    /// Groups that wait, in queue order over all queues.
    pub(in crate::queue) line: Line,
    /// Groups that became ready since the last pass.
    pub(in crate::queue) arrived: BTreeSet<GroupId>,
    /// Whether room was given back, or may have been, since the last pass.
    pub(in crate::queue) freed: bool,
    /// Whether a promised start has come, or a promise may have to be replaced.
    pub(in crate::queue) due: bool,
    /// Number of changes that may have taken a promised place: of nodes, and pods bound from outside.
    pub(in crate::queue) losses: u64,
    pub(in crate::queue) running: Running,
    pub(in crate::queue) free: Free,
    pub(in crate::queue) rooms: Rooms,
    /// The change up to which what is known of the cluster is in step with it.
    pub(in crate::queue) seen: Moment,
    pub(in crate::queue) promises: BTreeMap<GroupId, Promise>,
    /// The time of the timer, while there is one.
    pub(in crate::queue) timer: Option<Time>,
    pub(in crate::queue) numbers: ResourceNumbers,
    pub(in crate::queue) standing: Option<Standing>,
    /// The promise that the plan to be committed must leave as it is.
    pub(in crate::queue) guard: Option<Guard>,
    /// The planner of later times: its caches follow another cluster.
    pub(in crate::queue) planner: Planner,
    /// The nodes, with what is free of them over a span of time.
    pub(in crate::queue) availability: Option<Availability>,
}

/// The promise that a plan must leave as it is, and what becomes of it.
#[derive(Debug)]
pub(in crate::queue) struct Guard {
    pub(in crate::queue) standing: Standing,
    /// The plan of the first of the line, where it had to move.
    pub(in crate::queue) moved: Option<Plan>,
    /// Whether a plan was taken up at the promised start.
    pub(in crate::queue) taken_up: bool,
}

/// What of the state is saved; the rest follows from it.
#[cfg(feature = "serde")]
#[derive(Debug, Clone, Default, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(in crate::queue) struct SavedBackfill {
    arrived: BTreeSet<GroupId>,
    freed: bool,
    due: bool,
    losses: u64,
    running: BTreeMap<GroupId, Time>,
    promises: BTreeMap<GroupId, Promise>,
    timer: Option<Time>,
}

#[cfg(feature = "serde")]
impl SavedBackfill {
    /// The state in which the next pass is one of the whole line.
    pub(in crate::queue) fn set_freed(&mut self) {
        self.freed = true;
    }
}

impl BackfillState {
    /// The members of a group have changed.
    pub(in crate::queue) fn forget_demand(&mut self, key: Option<&QueueKey>) {
        if let Some(key) = key {
            self.line.forget(key);
        }
    }

    /// A promised place may have been taken.
    pub(in crate::queue) fn note_loss(&mut self) {
        self.losses = self.losses.wrapping_add(1);
        self.due = true;
    }

    /// The timer of promises has fired.
    pub(in crate::queue) fn promises_due(&mut self) {
        self.timer = None;
        self.due = true;
    }

    #[cfg(feature = "serde")]
    pub(in crate::queue) fn save(&self) -> SavedBackfill {
        SavedBackfill {
            arrived: self.arrived.clone(),
            freed: self.freed,
            due: self.due,
            losses: self.losses,
            running: self.running.since.clone(),
            promises: self.promises.clone(),
            timer: self.timer,
        }
    }

    #[cfg(feature = "serde")]
    pub(in crate::queue) fn restore(saved: SavedBackfill) -> BackfillState {
        let SavedBackfill { arrived, freed, due, losses, running, promises, timer } = saved;
        let (running, state) = (Running::of(running), BackfillState::default());
        BackfillState { arrived, freed, due, losses, running, promises, timer, ..state }
    }
}
