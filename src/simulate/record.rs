//! A scheduler whose every input and decision is recorded.

use alloc::boxed::Box;
use alloc::string::{String, ToString};
use core::fmt;

use super::input::Input;
use crate::base::Time;
use crate::queue::{Decision, QueueError, Scheduler};

/// A line of a recording. With feature `serde` it serialises to one line of JSON.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "camelCase"))]
#[non_exhaustive]
#[allow(clippy::large_enum_variant, reason = "one is written, and gone, before the next is made")]
pub enum Record {
    /// An input.
    Input {
        /// Its time.
        at: Time,
        /// The input.
        input: Input,
        /// The error with which it was refused, for people.
        #[cfg_attr(feature = "serde", serde(default, skip_serializing_if = "Option::is_none"))]
        refused: Option<String>,
    },
    /// [`Scheduler::poll_decision`] was called.
    Poll {
        /// The time passed in.
        at: Time,
        /// The decision that it returned.
        decision: Option<Decision>,
    },
}

/// The receiver of a recorder's records.
type Sink<'a> = Box<dyn FnMut(&Record) + 'a>;

/// A scheduler whose every input and decision goes to a sink, one [`Record`] each.
///
/// Write what `Scheduler::save` gives (feature `serde`) before the first line, and a recorded day is a
/// regression test: see [`Replay`](super::Replay).
///
/// ```
/// use phalanx::queue::Settings;
/// use phalanx::simulate::{Input, Record, Recorder};
/// use phalanx::{Cluster, Framework, Node, Pod, PodGroup, Scheduler, Time};
///
/// let mut cluster = Cluster::new();
/// cluster.add_node(Node::new("n1").capacity("cpu", 4))?;
/// let scheduler = Scheduler::new(cluster, Framework::default(), Settings::default());
/// let mut lines = Vec::new();
/// let mut recorder = Recorder::new(scheduler, |record: &Record| lines.push(record.clone()));
/// let gang = PodGroup::of("g", 1, Pod::new().request("cpu", 1));
/// recorder.handle(Input::Group(gang), Time::ZERO)?;
/// assert!(recorder.poll_decision(Time::ZERO).is_some());
/// drop(recorder);
/// assert_eq!(lines.len(), 2);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Recorder<'a> {
    scheduler: Scheduler,
    sink: Option<Sink<'a>>,
}

impl fmt::Debug for Recorder<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Recorder").field("scheduler", &self.scheduler).finish_non_exhaustive()
    }
}

impl<'a> Recorder<'a> {
    /// A recorder around a scheduler.
    pub fn new(scheduler: Scheduler, sink: impl FnMut(&Record) + 'a) -> Recorder<'a> {
        Recorder { scheduler, sink: Some(Box::new(sink)) }
    }

    /// A recorder that keeps nothing.
    pub(super) fn silent(scheduler: Scheduler) -> Recorder<'a> {
        Recorder { scheduler, sink: None }
    }

    /// The scheduler.
    pub fn scheduler(&self) -> &Scheduler {
        &self.scheduler
    }

    /// The scheduler, for what is not an input: to poll events.
    pub(super) fn scheduler_mut(&mut self) -> &mut Scheduler {
        &mut self.scheduler
    }

    /// The scheduler, the recording being over.
    pub fn into_scheduler(self) -> Scheduler {
        self.scheduler
    }

    /// Passes an input in.
    ///
    /// # Errors
    /// The errors of the input; they are recorded too.
    pub fn handle(&mut self, input: Input, now: Time) -> Result<(), QueueError> {
        let Some(sink) = &mut self.sink else { return input.apply(&mut self.scheduler, now) };
        let result = input.clone().apply(&mut self.scheduler, now);
        let refused = result.as_ref().err().map(ToString::to_string);
        sink(&Record::Input { at: now, input, refused });
        result
    }

    /// The next decision; see [`Scheduler::poll_decision`].
    pub fn poll_decision(&mut self, now: Time) -> Option<Decision> {
        let decision = self.scheduler.poll_decision(now);
        if let Some(sink) = &mut self.sink {
            let record = Record::Poll { at: now, decision };
            sink(&record);
            let Record::Poll { decision, .. } = record else { return None };
            return decision;
        }
        decision
    }
}
