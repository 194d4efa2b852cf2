//! The simulation: virtual time over a scheduler.

use alloc::borrow::ToOwned;
use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet, BinaryHeap};
use alloc::string::String;
use alloc::vec::Vec;
use core::cmp::Reverse;
use core::fmt;
use core::iter::Peekable;
use core::time::Duration;

use super::input::Input;
use super::job::Job;
use super::record::{Record, Recorder};
use super::results::{JobRecord, Results, Sample};
use super::world::{NodeChange, Perfect, World};
use crate::base::Time;
use crate::model::{Pod, PodGroup};
use crate::queue::{Decision, EvictionCause, Gone, GroupChange, QueueError, Scheduler, Ticket};
use crate::state::{Event, Plan};

/// Wake-ups without a decision, while nothing runs and nothing is to come, after which a simulation
/// ends: no waiting job can ever start.
const IDLE_WAKES: u32 = 64;

/// An event of a simulation. Jobs are numbered in the order in which they arrive.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub enum Happening<'a> {
    /// A job arrived.
    Submitted(usize),
    /// A plan went out to be bound, for these jobs.
    Placed(&'a [usize], &'a Plan),
    /// All pods of a job run.
    Started(usize),
    /// A job ended: its run time is over, or its estimate is and it was killed.
    Ended(usize),
    /// A job is to begin anew, and ran in vain for so long: it was evicted, or lost a node.
    Lost(usize, Duration),
    /// A binding was refused.
    Refused(&'a str),
    /// A node failed.
    NodeDown(&'a str),
    /// A node came, came back or changed.
    NodeUp(&'a str),
    /// A group was promised a start, by its full name; and whether it is later than before.
    Promised(&'a str, Time, bool),
}

/// Why a simulation cannot go on: an input that the scheduler refuses.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("job {job}: {error}")]
#[non_exhaustive]
pub struct SimulationError {
    /// Full name of the job's group, or of what the input was about.
    pub job: String,
    /// The refusal.
    pub error: Box<QueueError>,
}

/// A simulation to be run; see [the module](super).
pub struct Simulation<'a, W = Perfect> {
    recorder: Recorder<'a>,
    world: W,
    resource: String,
    kill: bool,
    sample_every: Duration,
}

impl<W> fmt::Debug for Simulation<'_, W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Simulation").field("recorder", &self.recorder).finish_non_exhaustive()
    }
}

impl<'a> Simulation<'a> {
    /// A simulation of a scheduler. Usage is measured of one resource.
    pub fn new(scheduler: Scheduler, resource: impl Into<String>) -> Simulation<'a> {
        Simulation {
            recorder: Recorder::silent(scheduler),
            world: Perfect,
            resource: resource.into(),
            kill: false,
            sample_every: Duration::from_secs(60),
        }
    }
}

impl<'a, W: World> Simulation<'a, W> {
    /// Sets what happens from outside.
    #[must_use]
    pub fn world<V: World>(self, world: V) -> Simulation<'a, V> {
        let Simulation { recorder, resource, kill, sample_every, .. } = self;
        Simulation { recorder, world, resource, kill, sample_every }
    }

    /// Sets whether a job ends at its estimate if it runs for longer. Default: no.
    #[must_use]
    pub fn kill_at_estimate(mut self, kill: bool) -> Simulation<'a, W> {
        self.kill = kill;
        self
    }

    /// Sets the least time between two samples. Default a minute.
    #[must_use]
    pub fn sample_every(mut self, span: Duration) -> Simulation<'a, W> {
        self.sample_every = span;
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
        let Simulation { recorder, mut world, resource, kill, sample_every } = self;
        let change = world.next_node_change();
        let run = Run {
            recorder,
            world,
            resource,
            kill,
            sample_every,
            arrivals: jobs.into_iter().peekable(),
            change,
            observe,
            agenda: BinaryHeap::new(),
            now: Time::ZERO,
            jobs: Vec::new(),
            numbers: BTreeMap::new(),
            used: 0,
            free: (0, 0, 0),
            waiting: 0,
            sampled: None,
            results: Results::empty(),
        };
        run.run()
    }
}

/// A coming event, in the order of events of one instant.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Act {
    /// The end of a run of a job.
    End(usize, u32),
    /// The result of binding a plan.
    Result(Ticket, Option<(String, String)>),
}

/// A job under way.
#[derive(Debug)]
struct JobState {
    group: PodGroup,
    /// Number of the run, counted up whenever it begins anew.
    run: u32,
    running: bool,
}

struct Run<'a, W, I: Iterator<Item = Job>, F> {
    recorder: Recorder<'a>,
    world: W,
    resource: String,
    kill: bool,
    sample_every: Duration,
    arrivals: Peekable<I>,
    change: Option<(Time, NodeChange)>,
    observe: F,
    agenda: BinaryHeap<Reverse<(Time, Act)>>,
    now: Time,
    jobs: Vec<JobState>,
    numbers: BTreeMap<String, usize>,
    used: i64,
    /// Capacity, what is free of it, and what of that is on used nodes, at the last sample.
    free: (i64, i64, i64),
    waiting: usize,
    sampled: Option<Time>,
    results: Results,
}

impl<W: World, I: Iterator<Item = Job>, F: FnMut(Time, Happening<'_>)> Run<'_, W, I, F> {
    fn run(mut self) -> Result<Results, SimulationError> {
        self.measure();
        let mut idle = 0;
        loop {
            let wake = self.recorder.scheduler().next_wake();
            let arrival = self.arrivals.peek().map(|job| job.submit.max(self.now));
            let change = self.change.as_ref().map(|(at, _)| (*at).max(self.now));
            let act = self.agenda.peek().map(|Reverse((at, _))| *at);
            let is_idle = arrival.is_none() && act.is_none();
            if is_idle && self.waiting == 0 {
                break;
            }
            let Some(now) = [wake, arrival, change, act].into_iter().flatten().min() else { break };
            self.pass_time(now);
            self.happen(now)?;
            let decided = self.decide(now)?;
            idle = if decided || !is_idle || change.is_some() { 0 } else { idle + 1 };
            if idle > IDLE_WAKES {
                break;
            }
            self.sample(now);
        }
        self.results.metrics = self.recorder.scheduler().metrics().clone();
        Ok(self.results)
    }

    /// The inputs of an instant.
    fn happen(&mut self, now: Time) -> Result<(), SimulationError> {
        while let Some(Reverse((at, _))) = self.agenda.peek()
            && *at <= now
            && let Some(Reverse((_, act))) = self.agenda.pop()
        {
            match act {
                Act::End(job, run) => self.end(job, run, now)?,
                Act::Result(ticket, refused) => self.result(ticket, refused, now),
            }
        }
        while let Some((_, change)) = self.change.take_if(|(at, _)| *at <= now) {
            self.change = self.world.next_node_change();
            self.change_node(change, now)?;
        }
        while let Some(job) = self.arrivals.next_if(|job| job.submit <= now) {
            self.submit(job, now)?;
        }
        Ok(())
    }

    fn handle(&mut self, about: &str, input: Input, now: Time) -> Result<(), SimulationError> {
        let refused = |error| SimulationError { job: about.to_owned(), error: Box::new(error) };
        self.recorder.handle(input, now).map_err(refused)
    }

    fn submit(&mut self, job: Job, now: Time) -> Result<(), SimulationError> {
        let Job { group, submit, run_time, queue } = job;
        let name = group.full_name();
        let number = self.jobs.len();
        let pods = group.all_pods();
        let amount = pods.iter().map(|pod| pod.shape().requests.of(&self.resource));
        self.results.jobs.push(JobRecord {
            name: name.clone(),
            queue,
            pods: pods.len(),
            amount: amount.fold(0, i64::saturating_add),
            submit,
            run_time,
            start: None,
            first_start: None,
            end: None,
            restarts: 0,
            lost: Duration::ZERO,
        });
        if self.numbers.insert(String::from(&*name), number).is_some() {
            let error = QueueError::GroupTaken { group: name.clone(), root: name.clone() };
            return Err(SimulationError { job: name.into(), error: Box::new(error) });
        }
        self.jobs.push(JobState { group: group.clone(), run: 0, running: false });
        self.waiting += 1;
        (self.observe)(now, Happening::Submitted(number));
        self.handle(&name, Input::Group(group), now)
    }

    fn end(&mut self, job: usize, run: u32, now: Time) -> Result<(), SimulationError> {
        let Some(state) = self.jobs.get_mut(job) else { return Ok(()) };
        if state.run != run || !state.running {
            return Ok(());
        }
        state.running = false;
        // It is over; what is left of it is a name.
        let group = core::mem::take(&mut state.group);
        if let Some(record) = self.results.jobs.get_mut(job) {
            record.end = Some(now);
            let ran = now.since(record.start.unwrap_or(now)).as_nanos();
            let amount = u128::from(record.amount.unsigned_abs());
            self.results.work = self.results.work.saturating_add(ran.saturating_mul(amount));
            self.used = self.used.saturating_sub(record.amount);
        }
        (self.observe)(now, Happening::Ended(job));
        self.remove(&group, now)
    }

    /// Removes a job with its pods.
    fn remove(&mut self, group: &PodGroup, now: Time) -> Result<(), SimulationError> {
        let name = group.full_name();
        let names = |pod: &&Pod| (pod.namespace().to_owned(), pod.name.clone());
        let pods = group.all_pods().iter().map(names).collect();
        self.handle(&name, Input::GroupRemoved(String::from(&*name)), now)?;
        self.handle(&name, Input::PodsDeleted(pods), now)
    }

    fn result(&mut self, ticket: Ticket, refused: Option<(String, String)>, now: Time) {
        if let Some((namespace, name)) = refused {
            (self.observe)(now, Happening::Refused(&name));
            let error = Some(String::from("the node refused it"));
            let input = Input::Binding { ticket, namespace, name, error };
            // The plan may have been undone in the meantime.
            let _ = self.recorder.handle(input, now);
            return;
        }
        let _ = self.recorder.handle(Input::Bound(ticket), now);
    }

    fn change_node(&mut self, change: NodeChange, now: Time) -> Result<(), SimulationError> {
        match change {
            NodeChange::Up(node) => {
                let name = node.name.clone();
                (self.observe)(now, Happening::NodeUp(&name));
                let event = Event::NodeChanged { node, version: 0 };
                self.handle(&name, Input::Event(event), now)?;
            }
            NodeChange::Down(name) => {
                let node = self.recorder.scheduler().cluster().node(&name);
                let Some(node) = node else { return Ok(()) };
                let groups = node.pods().filter_map(|pod| self.numbers.get(pod.group()?));
                let hit: BTreeSet<usize> = groups.copied().collect();
                (self.observe)(now, Happening::NodeDown(&name));
                let event = Event::NodeRemoved { name: name.clone(), version: 0 };
                self.handle(&name, Input::Event(event), now)?;
                for job in hit {
                    self.begin_anew(job, now)?;
                }
            }
        }
        self.measure();
        Ok(())
    }

    /// A job that is lost whole, and submitted again.
    fn begin_anew(&mut self, job: usize, now: Time) -> Result<(), SimulationError> {
        self.lose(job, now);
        let Some(group) = self.jobs.get(job).map(|job| job.group.clone()) else { return Ok(()) };
        self.remove(&group, now)?;
        let name = group.full_name();
        self.handle(&name, Input::Group(group), now)
    }

    /// A job that is to begin anew.
    fn lose(&mut self, job: usize, now: Time) {
        let (Some(state), Some(record)) = (self.jobs.get_mut(job), self.results.jobs.get_mut(job))
        else {
            return;
        };
        state.run += 1;
        if !core::mem::replace(&mut state.running, false) {
            return;
        }
        let ran = now.since(record.start.unwrap_or(now));
        record.restarts = record.restarts.saturating_add(1);
        record.lost = record.lost.saturating_add(ran);
        let amount = u128::from(record.amount.unsigned_abs());
        let lost = ran.as_nanos().saturating_mul(amount);
        self.results.lost = self.results.lost.saturating_add(lost);
        self.used = self.used.saturating_sub(record.amount);
        self.waiting += 1;
        (self.observe)(now, Happening::Lost(job, ran));
    }

    /// Carries out all decisions of an instant. Returns whether there were any.
    fn decide(&mut self, now: Time) -> Result<bool, SimulationError> {
        let mut decided = false;
        while let Some(decision) = self.recorder.poll_decision(now) {
            decided = true;
            self.results.decisions += 1;
            self.carry_out(decision, now)?;
            self.read_events(now);
        }
        self.read_events(now);
        Ok(decided)
    }

    fn carry_out(&mut self, decision: Decision, now: Time) -> Result<(), SimulationError> {
        match decision {
            Decision::Bind { ticket, groups, plan } => {
                let numbers = groups.iter().filter_map(|group| self.numbers.get(&**group));
                let jobs: Vec<usize> = numbers.copied().collect();
                (self.observe)(now, Happening::Placed(&jobs, &plan));
                let binding = self.world.bind(&plan, now);
                let refused = binding.refused.and_then(|index| plan.assignments().nth(index));
                let refused = refused.map(|assignment| {
                    let pod = assignment.pod();
                    (pod.namespace().to_owned(), pod.name.clone())
                });
                if binding.after == Duration::ZERO {
                    self.result(ticket, refused, now);
                } else {
                    let act = Act::Result(ticket, refused);
                    self.agenda.push(Reverse((now.after(binding.after), act)));
                }
            }
            Decision::Prepare { ticket, .. } => {
                // Nothing is prepared in a simulation.
                let _ = self.recorder.handle(Input::Prepared { ticket, error: None }, now);
            }
            Decision::Unbind { groups, pods, .. } => {
                for group in &groups {
                    if let Some(job) = self.numbers.get(&**group) {
                        self.lose(*job, now);
                    }
                }
                for pod in pods {
                    let gone = Gone::Unbound { pod: pod.pod.clone() };
                    self.handle(&pod.pod, Input::Gone(gone), now)?;
                }
            }
            Decision::EvictStale { group, .. } => {
                let Some(job) = self.numbers.get(&*group).copied() else { return Ok(()) };
                self.begin_anew(job, now)?;
            }
            Decision::EvictDue { group, cause, .. } => {
                let Some(job) = self.numbers.get(&*group).copied() else { return Ok(()) };
                if cause != EvictionCause::RunTime {
                    return self.begin_anew(job, now);
                }
                // It does not run again.
                self.lose(job, now);
                self.waiting = self.waiting.saturating_sub(1);
                if let Some(state) = self.jobs.get_mut(job) {
                    let group = core::mem::take(&mut state.group);
                    self.remove(&group, now)?;
                }
            }
            Decision::Move { ticket, moves, .. } => {
                // A unit leaves its nodes, and is bound at its new place.
                for unit in moves.chunk_by(|a, b| a.unit == b.unit) {
                    let Some(first) = unit.first() else { continue };
                    let cluster = self.recorder.scheduler().cluster();
                    let pod = cluster.pod(&first.pod.namespace, &first.pod.name);
                    let job = pod.and_then(|pod| self.numbers.get(pod.group()?)).copied();
                    if let Some(job) = job {
                        self.lose(job, now);
                    }
                    let gone = Gone::evicted(ticket, &*first.unit);
                    self.handle(&first.unit, Input::Gone(gone), now)?;
                }
            }
            Decision::Evict { ticket, victims, .. } => {
                for victim in victims {
                    if let Some(job) =
                        victim.group.as_ref().and_then(|group| self.numbers.get(&**group))
                    {
                        self.lose(*job, now);
                    }
                    let gone = Gone::evicted(ticket, &*victim.name);
                    self.handle(&victim.name, Input::Gone(gone), now)?;
                }
            }
            // Evictions happen at once, so that there is none to take back.
            Decision::CancelEvictions { .. }
            | Decision::Booking { .. }
            | Decision::Repair { .. } => {}
        }
        Ok(())
    }

    fn read_events(&mut self, now: Time) {
        while let Some(event) = self.recorder.scheduler_mut().poll_event() {
            match event.change {
                GroupChange::Started { .. } | GroupChange::Recovered => {
                    if let Some(job) = self.numbers.get(&*event.group).copied() {
                        self.start(job, event.at);
                    }
                }
                GroupChange::Promised { at, later } => {
                    (self.observe)(now, Happening::Promised(&event.group, at, later));
                }
                _ => {}
            }
        }
    }

    fn start(&mut self, job: usize, at: Time) {
        let (Some(state), Some(record)) = (self.jobs.get_mut(job), self.results.jobs.get_mut(job))
        else {
            return;
        };
        if core::mem::replace(&mut state.running, true) {
            return;
        }
        let estimate = state.group.run_time_estimate.filter(|_| self.kill);
        let span = estimate.map_or(record.run_time, |estimate| estimate.min(record.run_time));
        record.start = Some(at);
        record.first_start.get_or_insert(at);
        self.used = self.used.saturating_add(record.amount);
        self.waiting -= 1;
        self.agenda.push(Reverse((at.after(span), Act::End(job, state.run))));
        (self.observe)(at, Happening::Started(job));
    }

    /// Counts capacity and waiting jobs until a time.
    fn pass_time(&mut self, now: Time) {
        let span = now.since(self.now).as_nanos();
        self.now = self.now.max(now);
        let capacity = u128::from(self.free.0.unsigned_abs());
        self.results.capacity = self.results.capacity.saturating_add(span.saturating_mul(capacity));
        self.results.queue =
            self.results.queue.saturating_add(span.saturating_mul(self.waiting as u128));
    }

    /// Capacity now, and what is free. O(nodes).
    fn measure(&mut self) {
        let cluster = self.recorder.scheduler().cluster();
        let Some(resource) = cluster.resource(&self.resource) else { return };
        let (mut capacity, mut free, mut on_used) = (0_i64, 0_i64, 0_i64);
        for node in cluster.nodes() {
            let own = node.free(resource).max(0);
            capacity = capacity.saturating_add(node.allocatable(resource));
            free = free.saturating_add(own);
            if node.used(resource) > 0 {
                on_used = on_used.saturating_add(own);
            }
        }
        self.free = (capacity, free, on_used);
    }

    fn sample(&mut self, now: Time) {
        if self.sampled.is_some_and(|last| now < last.after(self.sample_every)) {
            return;
        }
        if let (Some(last), (_, free, on_used)) = (self.sampled, self.free)
            && free > 0
        {
            let span = now.since(last).as_secs_f64();
            self.results.fragmentation.0 += span;
            self.results.fragmentation.1 += span * on_used as f64 / free as f64;
        }
        self.measure();
        self.sampled = Some(now);
        let (capacity, free, free_on_used) = self.free;
        let (queue, used) = (self.waiting, self.used);
        let sample = Sample { at: now, queue, used, capacity, free, free_on_used };
        self.results.samples.push(sample);
    }
}
