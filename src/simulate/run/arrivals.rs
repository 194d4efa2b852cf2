//! Arrivals: jobs of the trace, those that wait for others, and users who wait themselves.

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::string::String;
use alloc::vec::Vec;
use core::iter::Peekable;
use core::time::Duration;

use crate::base::{ObjectName, Time};
use crate::simulate::job::Job;

/// Users who submit no more while enough of their jobs wait.
///
/// A trace has arrivals as they were on another system; with worse service its users would have
/// submitted later. (Shmueli and Feitelson, *Uncovering the effect of system performance on user
/// behavior from traces of parallel systems*, MASCOTS 2007.)
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Users {
    /// A user with so many jobs that have arrived and do not run submits no more; at least one.
    pub most_waiting: usize,
    /// How long a user takes to submit the next job, once it may be: after a job that was waited for
    /// too.
    pub think: Duration,
}

impl Users {
    /// Users who submit no more while so many of their jobs wait, and who need no time to think.
    pub fn new(most_waiting: usize) -> Users {
        Users { most_waiting: most_waiting.max(1), think: Duration::ZERO }
    }

    /// Sets how long a user takes to submit the next job.
    #[must_use]
    pub fn think(mut self, think: Duration) -> Users {
        self.think = think;
        self
    }
}

/// A user.
#[derive(Debug, Default)]
struct User {
    /// Jobs that have arrived and do not run, or are to arrive at a known time.
    waiting: usize,
    /// Jobs not submitted yet, in their order.
    held: VecDeque<Job>,
}

/// A job that waits for others to be over.
#[derive(Debug)]
struct Dependent {
    job: Job,
    open: usize,
}

/// The jobs to come.
#[derive(Debug)]
pub(super) struct Arrivals<I: Iterator<Item = Job>> {
    trace: Peekable<I>,
    settings: Option<Users>,
    users: BTreeMap<String, User>,
    /// Names of jobs that are over.
    over: BTreeSet<ObjectName>,
    dependents: BTreeMap<u64, Dependent>,
    by_name: BTreeMap<ObjectName, Vec<u64>>,
    /// Jobs that were held, with the time of their arrival, and whether the user has counted it.
    later: BTreeMap<(Time, u64), (Job, bool)>,
    number: u64,
}

impl<I: Iterator<Item = Job>> Arrivals<I> {
    pub(super) fn new(jobs: I, settings: Option<Users>) -> Arrivals<I> {
        Arrivals {
            trace: jobs.peekable(),
            settings,
            users: BTreeMap::new(),
            over: BTreeSet::new(),
            dependents: BTreeMap::new(),
            by_name: BTreeMap::new(),
            later: BTreeMap::new(),
            number: 0,
        }
    }

    /// The time of the next arrival that is known.
    pub(super) fn next(&mut self) -> Option<Time> {
        let trace = self.trace.peek().map(|job| job.submit);
        let later = self.later.first_key_value().map(|((at, _), _)| *at);
        [trace, later].into_iter().flatten().min()
    }

    /// The next job that arrives by a time. One that is held back is passed over.
    pub(super) fn take(&mut self, now: Time) -> Option<Job> {
        loop {
            let held = self.later.first_key_value().is_some_and(|((at, _), _)| *at <= now);
            let (job, counted) = if held {
                let ((_, _), (mut job, counted)) = self.later.pop_first()?;
                job.submit = now;
                (job, counted)
            } else {
                let job = self.trace.next_if(|job| job.submit <= now)?;
                let open = self.depend(&job);
                if open > 0 {
                    self.dependents.insert(self.number, Dependent { job, open });
                    continue;
                }
                (job, false)
            };
            let Some(settings) = self.settings.filter(|_| !counted && !job.user.is_empty()) else {
                return Some(job);
            };
            let user = self.users.entry(job.user.clone()).or_default();
            if user.waiting < settings.most_waiting && user.held.is_empty() {
                user.waiting += 1;
                return Some(job);
            }
            user.held.push_back(job);
        }
    }

    /// Number of jobs that a job waits for.
    fn depend(&mut self, job: &Job) -> usize {
        if job.after.is_empty() {
            return 0;
        }
        self.number += 1;
        let open: BTreeSet<&ObjectName> =
            job.after.iter().filter(|name| !self.over.contains(*name)).collect();
        for name in &open {
            self.by_name.entry((*name).clone()).or_default().push(self.number);
        }
        open.len()
    }

    fn think(&self) -> Duration {
        self.settings.map_or(Duration::ZERO, |settings| settings.think)
    }

    /// A job is over.
    pub(super) fn is_over(&mut self, name: &ObjectName, now: Time) {
        for number in self.by_name.remove(name).into_iter().flatten() {
            let Some(dependent) = self.dependents.get_mut(&number) else { continue };
            dependent.open -= 1;
            if dependent.open == 0
                && let Some(Dependent { job, .. }) = self.dependents.remove(&number)
            {
                let at = job.submit.max(now.after(self.think()));
                self.number += 1;
                self.later.insert((at, self.number), (job, false));
            }
        }
        self.over.insert(name.clone());
    }

    /// A job that waited runs, or is over.
    pub(super) fn waits_no_more(&mut self, user: &str, now: Time) {
        let Some(settings) = self.settings else { return };
        let Some(user) = self.users.get_mut(user) else { return };
        user.waiting = user.waiting.saturating_sub(1);
        if user.waiting < settings.most_waiting
            && let Some(job) = user.held.pop_front()
        {
            user.waiting += 1;
            self.number += 1;
            self.later.insert((now.after(settings.think), self.number), (job, true));
        }
    }

    /// A job that ran waits again.
    pub(super) fn waits_again(&mut self, user: &str) {
        if self.settings.is_some()
            && let Some(user) = self.users.get_mut(user)
        {
            user.waiting += 1;
        }
    }

    /// The names of jobs that never arrived.
    pub(super) fn held(&self) -> Vec<ObjectName> {
        let dependents = self.dependents.values().map(|dependent| &dependent.job);
        let held = self.users.values().flat_map(|user| &user.held);
        dependents.chain(held).map(|job| job.group.full_name()).collect()
    }
}
