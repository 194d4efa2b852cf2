//! The simulation: virtual time over a scheduler.

mod arrivals;
mod drive;
mod happening;
mod jobs;
mod progress;
mod sites;

use alloc::boxed::Box;
use alloc::string::String;
use core::fmt;
use core::time::Duration;

use super::job::{Job, RunTimes};
use super::record::{Record, Recorder};
use super::results::Results;
use super::world::{Perfect, World};
use crate::base::Time;
use crate::queue::Scheduler;
use drive::Options;

pub use arrivals::Users;
pub use happening::{Happening, SimulationError};

/// A simulation to be run; see [the module](super).
pub struct Simulation<'a, W = Perfect> {
    recorder: Recorder<'a>,
    world: W,
    options: Options<'a>,
}

impl<W> fmt::Debug for Simulation<'_, W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Simulation").field("recorder", &self.recorder).finish_non_exhaustive()
    }
}

impl<'a> Simulation<'a> {
    /// A simulation of a scheduler. Usage is measured of one resource.
    pub fn new(scheduler: Scheduler, resource: impl Into<String>) -> Simulation<'a> {
        let options = Options {
            resource: resource.into(),
            kill: false,
            sample_every: Duration::from_secs(60),
            run_times: None,
            users: None,
        };
        Simulation { recorder: Recorder::silent(scheduler), world: Perfect, options }
    }
}

impl<'a, W: World> Simulation<'a, W> {
    /// Sets what happens from outside.
    #[must_use]
    pub fn world<V: World>(self, world: V) -> Simulation<'a, V> {
        let Simulation { recorder, options, .. } = self;
        Simulation { recorder, world, options }
    }

    /// Sets how fast jobs run where they are. Default: all run at the rate of one, elastic jobs with
    /// fewer members too.
    #[must_use]
    pub fn run_times(mut self, run_times: impl RunTimes + 'a) -> Simulation<'a, W> {
        self.options.run_times = Some(Box::new(run_times));
        self
    }

    /// Sets when [users](Job::user) submit no more. Default: they submit whatever waits.
    #[must_use]
    pub fn users(mut self, users: Users) -> Simulation<'a, W> {
        self.options.users = Some(users);
        self
    }

    /// Sets whether a job ends at its estimate if it runs for longer. Default: no.
    #[must_use]
    pub fn kill_at_estimate(mut self, kill: bool) -> Simulation<'a, W> {
        self.options.kill = kill;
        self
    }

    /// Sets the least time between two samples. Default a minute.
    #[must_use]
    pub fn sample_every(mut self, span: Duration) -> Simulation<'a, W> {
        self.options.sample_every = span;
        self
    }

    /// Records every input and decision; see [`Recorder`].
    #[must_use]
    pub fn record(mut self, sink: impl FnMut(&Record) + 'a) -> Simulation<'a, W> {
        self.recorder = Recorder::new(self.recorder.into_scheduler(), sink);
        self
    }

    /// Runs until all jobs have ended, or until no waiting job can ever start.
    ///
    /// `jobs` come in order of arrival; one that comes late arrives at the time of the one before.
    /// At one instant, ends come first, then results of bindings, changes of nodes, arrivals, and
    /// then decisions. `observe` is called for everything that happens, with its time.
    ///
    /// # Errors
    /// The scheduler refuses a job: its group makes no sense, or its name is another's.
    pub fn run<I, F>(self, jobs: I, observe: F) -> Result<Results, SimulationError>
    where
        I: IntoIterator<Item = Job>,
        F: FnMut(Time, Happening<'_>),
    {
        drive::run(self.recorder, self.world, self.options, jobs.into_iter(), observe)
    }
}
