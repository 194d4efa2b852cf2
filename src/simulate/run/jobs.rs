//! The jobs that have arrived: what runs, where, how fast, and until when.

use alloc::borrow::ToOwned;
use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet, BinaryHeap};
use alloc::string::String;
use alloc::vec::Vec;
use core::cmp::Reverse;
use core::time::Duration;

use super::progress::{Part, Progress};
use super::sites::Sites;
use crate::base::Time;
use crate::base::hash::FixedMap;
use crate::model::PodGroup;
use crate::simulate::job::{Job, Neighbour, Rate, RunTimes, Running, Site};
use crate::state::Cluster;

/// A job that has arrived.
#[derive(Debug)]
struct JobState {
    job: Job,
    /// Number of its next turn, counted up whenever that changes.
    turn: u32,
    running: bool,
    /// Number of members that run, of an elastic job.
    members: usize,
    progress: Progress,
    /// When it is killed, if it runs.
    deadline: Option<Time>,
}

/// The end of a run.
#[derive(Debug, Clone, Copy)]
pub(super) struct Stopped {
    pub(super) part: Part,
    /// Its amount of the measured resource.
    pub(super) amount: i64,
    pub(super) overhead: Duration,
    pub(super) worked: Duration,
}

/// A change of the number of members.
#[derive(Debug, Clone, Copy)]
pub(super) struct Resized {
    pub(super) job: usize,
    pub(super) members: usize,
    /// The change of what it has of the measured resource.
    pub(super) by: i64,
}

/// Jobs by their number, which is the order of their arrival.
pub(super) struct Jobs<'a> {
    resource: String,
    /// Whether jobs end at their estimates.
    kill: bool,
    run_times: Option<Box<dyn RunTimes + 'a>>,
    states: Vec<JobState>,
    numbers: FixedMap<String, usize>,
    sites: Sites,
    /// Jobs whose places have changed in this instant.
    touched: BTreeSet<usize>,
    /// Turns to come: ends of jobs, and of phases of their work.
    turns: BinaryHeap<Reverse<(Time, usize, u32)>>,
}

impl<'a> Jobs<'a> {
    pub(super) fn new(
        resource: String,
        kill: bool,
        run_times: Option<Box<dyn RunTimes + 'a>>,
    ) -> Jobs<'a> {
        Jobs {
            resource,
            kill,
            run_times,
            states: Vec::new(),
            numbers: FixedMap::default(),
            sites: Sites::default(),
            touched: BTreeSet::new(),
            turns: BinaryHeap::new(),
        }
    }

    /// Takes a job in. `None` if its name is another's.
    pub(super) fn add(&mut self, job: Job) -> Option<usize> {
        let number = self.states.len();
        let name = String::from(&*job.group.full_name());
        if self.numbers.insert(name, number).is_some() {
            return None;
        }
        let progress = Progress::new(job.run_time, job.checkpoint);
        let (turn, running, members, deadline) = (0, false, 0, None);
        self.states.push(JobState { job, turn, running, members, progress, deadline });
        Some(number)
    }

    /// The job of a group, by its full name.
    pub(super) fn number(&self, group: &str) -> Option<usize> {
        self.numbers.get(group).copied()
    }

    pub(super) fn group(&self, job: usize) -> Option<&PodGroup> {
        self.states.get(job).map(|state| &state.job.group)
    }

    pub(super) fn user(&self, job: usize) -> &str {
        self.states.get(job).map_or("", |state| &state.job.user)
    }

    pub(super) fn runs(&self, job: usize) -> bool {
        self.states.get(job).is_some_and(|state| state.running)
    }

    pub(super) fn is_elastic(&self, job: usize) -> bool {
        self.states.get(job).is_some_and(|state| state.job.elastic)
    }

    /// The time of the next turn. Turns that were put off are dropped.
    pub(super) fn next_turn(&mut self) -> Option<Time> {
        loop {
            let Reverse((at, job, turn)) = self.turns.peek()?;
            let state = self.states.get(*job);
            if state.is_some_and(|state| state.running && state.turn == *turn) {
                return Some(*at);
            }
            self.turns.pop();
        }
    }

    /// Takes the turns of a time, up to one that ends a run: its job. `None` after the last.
    pub(super) fn take_end(&mut self, now: Time) -> Option<usize> {
        while self.next_turn().is_some_and(|at| at <= now) {
            let Reverse((_, job, _)) = self.turns.pop()?;
            let state = self.states.get_mut(job)?;
            let is_killed = state.deadline.is_some_and(|deadline| deadline <= now);
            if state.progress.advance(now) || is_killed {
                return Some(job);
            }
            self.schedule(job);
        }
        None
    }

    /// Notes the next turn of a job; the one before is none any more.
    fn schedule(&mut self, job: usize) {
        let Some(state) = self.states.get_mut(job) else { return };
        state.turn += 1;
        let next = [state.progress.next(), state.deadline].into_iter().flatten().min();
        if let Some(at) = next {
            self.turns.push(Reverse((at, job, state.turn)));
        }
    }

    /// Starts a job. Returns what it has of the measured resource: `full` if it is not elastic. `None`
    /// if it runs already.
    pub(super) fn start(
        &mut self,
        job: usize,
        full: i64,
        cluster: &Cluster,
        at: Time,
    ) -> Option<i64> {
        let state = self.states.get(job).filter(|state| !state.running)?;
        let (members, amount) = if state.job.elastic {
            let (sites, amount) = self.places(job, cluster);
            (sites.len(), amount)
        } else {
            (state.members, full)
        };
        let kill = self.kill;
        let state = self.states.get_mut(job)?;
        (state.running, state.members) = (true, members);
        let estimate = state.job.group.run_time_estimate.filter(|_| kill);
        state.deadline = estimate.map(|estimate| at.after(estimate));
        state.progress.start(Rate::ONE, amount, at);
        self.touch(job);
        self.schedule(job);
        Some(amount)
    }

    /// Stops a job, which falls back to its last checkpoint; `None` if it does not run.
    pub(super) fn stop(&mut self, job: usize, now: Time) -> Option<Stopped> {
        self.halt(job, |progress| progress.stop(now))
    }

    /// Ends a job; `None` if it does not run.
    pub(super) fn end(&mut self, job: usize, now: Time) -> Option<Stopped> {
        self.halt(job, |progress| progress.end(now))
    }

    fn halt(&mut self, job: usize, how: impl FnOnce(&mut Progress) -> Part) -> Option<Stopped> {
        let state = self.states.get_mut(job)?;
        state.turn += 1;
        if !core::mem::replace(&mut state.running, false) {
            return None;
        }
        let part = how(&mut state.progress);
        let progress = &state.progress;
        let (amount, overhead) = (progress.amount(), progress.overhead());
        let stopped = Stopped { part, amount, overhead, worked: progress.worked() };
        self.touch(job);
        Some(stopped)
    }

    /// Takes the group of a job that does not run again.
    pub(super) fn forget(&mut self, job: usize) -> Option<PodGroup> {
        self.states.get_mut(job).map(|state| core::mem::take(&mut state.job.group))
    }

    /// The places of a job have changed, or its members.
    pub(super) fn touch(&mut self, job: usize) {
        if self.run_times.is_some() || self.is_elastic(job) {
            self.touched.insert(job);
        }
    }

    /// A node has come or changed.
    pub(super) fn node_changed(&mut self, node: &str) {
        self.touched.extend(self.sites.on(node));
    }

    /// Members of a job with a place, and their amount of the measured resource.
    fn places(&self, job: usize, cluster: &Cluster) -> (Vec<Site>, i64) {
        let (mut sites, mut amount) = (Vec::new(), 0_i64);
        for pod in self.states.get(job).iter().flat_map(|state| state.job.group.all_pods()) {
            let Some(bound) = cluster.pod(pod.namespace(), &pod.name) else { continue };
            let Some(node) = bound.node() else { continue };
            let mut devices: Vec<u32> = bound.device_indexes().iter().flatten().copied().collect();
            devices.sort_unstable();
            sites.push(Site { node: node.name().to_owned(), devices });
            amount = amount.saturating_add(bound.shape().requests.of(&self.resource));
        }
        (sites, amount)
    }

    /// Finds the rates of jobs whose places have changed, and of their neighbours. Returns elastic
    /// jobs whose members are more or fewer than before.
    pub(super) fn rate(&mut self, cluster: &Cluster, now: Time) -> Vec<Resized> {
        let touched = core::mem::take(&mut self.touched);
        let mut affected = touched.clone();
        let mut resized = Vec::new();
        let reads_neighbours =
            self.run_times.as_ref().is_some_and(|run_times| run_times.reads_neighbours());
        for job in touched {
            if reads_neighbours {
                affected.extend(self.sites.beside(job).into_keys());
            }
            if self.runs(job) {
                let (sites, amount) = self.places(job, cluster);
                resized.extend(self.resize(job, sites.len(), amount, now));
                self.sites.set(job, sites);
            } else {
                self.sites.set(job, Vec::new());
            }
            if reads_neighbours {
                affected.extend(self.sites.beside(job).into_keys());
            }
        }
        for job in affected {
            let rate = self.rate_of(job, cluster, reads_neighbours);
            let Some(state) = self.states.get_mut(job).filter(|state| state.running) else {
                continue;
            };
            state.progress.advance(now);
            state.progress.set_rate(rate);
            self.schedule(job);
        }
        resized
    }

    /// Sets the number of members of an elastic job, and what they have.
    fn resize(&mut self, job: usize, members: usize, amount: i64, now: Time) -> Option<Resized> {
        let state = self.states.get_mut(job).filter(|state| state.job.elastic)?;
        if state.members == members {
            return None;
        }
        state.members = members;
        state.progress.advance(now);
        let by = amount.saturating_sub(state.progress.amount());
        state.progress.resize(amount, now);
        Some(Resized { job, members, by })
    }

    fn rate_of(&self, job: usize, cluster: &Cluster, reads_neighbours: bool) -> Rate {
        let (Some(run_times), Some(state)) = (&self.run_times, self.states.get(job)) else {
            return Rate::ONE;
        };
        let beside = if reads_neighbours { self.sites.beside(job) } else { BTreeMap::new() };
        let neighbours: Vec<Neighbour<'_>> = beside
            .into_iter()
            .filter_map(|(other, devices)| {
                Some(Neighbour { job: &self.states.get(other)?.job, devices })
            })
            .collect();
        let sites = self.sites.of(job);
        run_times.rate(&Running { job: &state.job, cluster, sites, neighbours: &neighbours })
    }
}
