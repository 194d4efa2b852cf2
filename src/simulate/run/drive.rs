//! The loop of a simulation: from instant to instant.

use alloc::borrow::ToOwned;
use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BinaryHeap};
use alloc::string::String;
use alloc::vec::Vec;
use core::cmp::Reverse;
use core::time::Duration;

use super::arrivals::{Arrivals, Users};
use super::happening::{Happening, SimulationError};
use super::jobs::Jobs;
use crate::base::{ObjectName, Time};
use crate::model::{Pod, PodGroup};
use crate::queue::{Decision, EvictionCause, Gone, GroupChange, QueueError, Ticket};
use crate::simulate::input::Input;
use crate::simulate::job::{Job, RunTimes};
use crate::simulate::record::Recorder;
use crate::simulate::results::{JobRecord, Results, Sample};
use crate::simulate::world::{NodeChange, World};
use crate::state::Event;

/// Wake-ups without a decision, while nothing runs and nothing is to come, after which a simulation
/// ends: no waiting job can ever start.
const IDLE_WAKES: u32 = 64;

/// Settings of a simulation.
pub(super) struct Options<'a> {
    pub(super) resource: String,
    pub(super) kill: bool,
    pub(super) sample_every: Duration,
    pub(super) run_times: Option<Box<dyn RunTimes + 'a>>,
    pub(super) users: Option<Users>,
}

/// Runs a simulation.
pub(super) fn run<W, I, F>(
    recorder: Recorder<'_>,
    mut world: W,
    options: Options<'_>,
    jobs: I,
    observe: F,
) -> Result<Results, SimulationError>
where
    W: World,
    I: Iterator<Item = Job>,
    F: FnMut(Time, Happening<'_>),
{
    let Options { resource, kill, sample_every, run_times, users } = options;
    let change = world.next_node_change();
    let run = Run {
        recorder,
        world,
        sample_every,
        arrivals: Arrivals::new(jobs, users),
        change,
        reactions: Vec::new(),
        observe,
        bindings: BinaryHeap::new(),
        now: Time::ZERO,
        jobs: Jobs::new(resource.clone(), kill, run_times),
        resource,
        used: 0,
        free: (0, 0, 0),
        waiting: 0,
        sampled: None,
        results: Results::empty(),
    };
    run.run()
}

/// The result of binding a plan: its time, the ticket, and the pod that was refused.
type Bound = Reverse<(Time, Ticket, Option<(String, String)>)>;

struct Run<'a, W, I: Iterator<Item = Job>, F> {
    recorder: Recorder<'a>,
    world: W,
    resource: String,
    sample_every: Duration,
    arrivals: Arrivals<I>,
    change: Option<(Time, NodeChange)>,
    /// Changes that follow from the instant before.
    reactions: Vec<(Time, NodeChange)>,
    observe: F,
    bindings: BinaryHeap<Bound>,
    now: Time,
    jobs: Jobs<'a>,
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
            let arrival = self.arrivals.next().map(|at| at.max(self.now));
            let changes = self.change.iter().chain(&self.reactions);
            let change = changes.map(|(at, _)| (*at).max(self.now)).min();
            let bound = self.bindings.peek().map(|Reverse((at, ..))| *at);
            let act = [self.jobs.next_turn(), bound].into_iter().flatten().min();
            let is_idle = arrival.is_none() && act.is_none();
            if is_idle && self.waiting == 0 {
                break;
            }
            let Some(now) = [wake, arrival, change, act].into_iter().flatten().min() else { break };
            self.pass_time(now);
            self.happen(now)?;
            let decided = self.decide(now)?;
            self.rate(now);
            idle = if decided || !is_idle || change.is_some() { 0 } else { idle + 1 };
            if idle > IDLE_WAKES {
                break;
            }
            self.reactions = self.world.react(self.recorder.scheduler(), now);
            self.sample(now);
        }
        self.results.held = self.arrivals.held();
        self.results.metrics = self.recorder.scheduler().metrics().clone();
        Ok(self.results)
    }

    /// The inputs of an instant.
    fn happen(&mut self, now: Time) -> Result<(), SimulationError> {
        while let Some(job) = self.jobs.take_end(now) {
            self.end(job, now)?;
        }
        while let Some(Reverse((at, ..))) = self.bindings.peek()
            && *at <= now
            && let Some(Reverse((_, ticket, refused))) = self.bindings.pop()
        {
            self.result(ticket, refused, now);
        }
        while let Some((_, change)) = self.change.take_if(|(at, _)| *at <= now) {
            self.change = self.world.next_node_change();
            self.change_node(change, now)?;
        }
        for (at, change) in core::mem::take(&mut self.reactions) {
            if at <= now {
                self.change_node(change, now)?;
            }
        }
        while let Some(job) = self.arrivals.take(now) {
            self.submit(job, now)?;
        }
        Ok(())
    }

    fn handle(&mut self, about: &str, input: Input, now: Time) -> Result<(), SimulationError> {
        let refused = |error| SimulationError { job: about.to_owned(), error: Box::new(error) };
        self.recorder.handle(input, now).map_err(refused)
    }

    fn submit(&mut self, job: Job, now: Time) -> Result<(), SimulationError> {
        let name = job.group.full_name();
        let pods = job.group.all_pods();
        let amount = pods.iter().map(|pod| pod.shape().requests.of(&self.resource));
        self.results.jobs.push(JobRecord {
            name: name.clone(),
            queue: job.queue.clone(),
            pods: pods.len(),
            amount: amount.fold(0, i64::saturating_add),
            submit: job.submit,
            run_time: job.run_time,
            start: None,
            first_start: None,
            end: None,
            restarts: 0,
            lost: Duration::ZERO,
            kept: Duration::ZERO,
            overhead: Duration::ZERO,
            worked: Duration::ZERO,
        });
        let group = job.group.clone();
        let Some(number) = self.jobs.add(job) else {
            let error = QueueError::GroupTaken { group: name.clone(), root: name.clone() };
            return Err(SimulationError { job: name.into(), error: Box::new(error) });
        };
        self.waiting += 1;
        (self.observe)(now, Happening::Submitted(number));
        self.handle(&name, Input::Group(group), now)
    }

    /// A job has ended.
    fn end(&mut self, job: usize, now: Time) -> Result<(), SimulationError> {
        let Some(ended) = self.jobs.end(job, now) else { return Ok(()) };
        self.used = self.used.saturating_sub(ended.amount);
        if let Some(record) = self.results.jobs.get_mut(job) {
            record.end = Some(now);
            (record.overhead, record.worked) = (ended.overhead, ended.worked);
            self.results.work = self.results.work.saturating_add(ended.part.kept_spent);
        }
        (self.observe)(now, Happening::Ended(job));
        self.is_over(job, now)
    }

    /// A job that does not run again: what is left of it is a name.
    fn is_over(&mut self, job: usize, now: Time) -> Result<(), SimulationError> {
        let Some(group) = self.jobs.forget(job) else { return Ok(()) };
        self.arrivals.is_over(&group.full_name(), now);
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
                self.jobs.node_changed(&name);
            }
            NodeChange::Down(name) => {
                let node = self.recorder.scheduler().cluster().node(&name);
                let Some(node) = node else { return Ok(()) };
                let mut hit: BTreeMap<usize, Vec<ObjectName>> = BTreeMap::new();
                for pod in node.pods() {
                    if let Some(job) = pod.group().and_then(|group| self.jobs.number(group)) {
                        let pod = ObjectName::new(pod.namespace(), pod.name());
                        hit.entry(job).or_default().push(pod);
                    }
                }
                (self.observe)(now, Happening::NodeDown(&name));
                let event = Event::NodeRemoved { name: name.clone(), version: 0 };
                self.handle(&name, Input::Event(event), now)?;
                for (job, pods) in hit {
                    if !(self.jobs.runs(job) && self.jobs.is_elastic(job)) {
                        self.begin_anew(job, now)?;
                        continue;
                    }
                    for pod in pods {
                        // A member that was being bound may be pending already.
                        let _ = self.recorder.handle(Input::Gone(Gone::Unbound { pod }), now);
                    }
                    // Those that are left fall back to the last checkpoint.
                    self.lose(job, now);
                    self.go_on(job, now);
                }
            }
        }
        self.measure();
        Ok(())
    }

    /// A job that is lost whole, and submitted again.
    fn begin_anew(&mut self, job: usize, now: Time) -> Result<(), SimulationError> {
        self.lose(job, now);
        let Some(group) = self.jobs.group(job).cloned() else { return Ok(()) };
        self.remove(&group, now)?;
        let name = group.full_name();
        self.handle(&name, Input::Group(group), now)
    }

    /// A job that is to begin anew.
    fn lose(&mut self, job: usize, now: Time) {
        let Some(stopped) = self.jobs.stop(job, now) else { return };
        let part = stopped.part;
        if let Some(record) = self.results.jobs.get_mut(job) {
            // A run of no time is none.
            let ran = part.kept + part.lost > Duration::ZERO;
            record.restarts = record.restarts.saturating_add(u32::from(ran));
            record.lost = record.lost.saturating_add(part.lost);
            record.kept = record.kept.saturating_add(part.kept);
        }
        self.results.work = self.results.work.saturating_add(part.kept_spent);
        self.results.lost = self.results.lost.saturating_add(part.lost_spent);
        self.used = self.used.saturating_sub(stopped.amount);
        self.waiting += 1;
        self.arrivals.waits_again(self.jobs.user(job));
        (self.observe)(now, Happening::Lost(job, part.lost));
    }

    /// Whether the gang of a job runs at its minimum or above.
    fn is_at_minimum(&self, job: usize) -> bool {
        let name = self.jobs.group(job).map(PodGroup::full_name);
        let status = name.and_then(|name| self.recorder.scheduler().status(&name));
        status.is_some_and(|status| status.started && status.below_minimum_since.is_none())
    }

    /// A job that does not run and has all members that it needs.
    fn go_on(&mut self, job: usize, now: Time) {
        if self.is_at_minimum(job) {
            self.start(job, now);
        }
    }

    /// Members of a job have left their nodes.
    fn members_left(&mut self, job: usize, now: Time) {
        if !self.jobs.runs(job) {
            return;
        }
        if self.jobs.is_elastic(job) && self.is_at_minimum(job) {
            self.jobs.touch(job);
        } else {
            self.lose(job, now);
            self.go_on(job, now);
        }
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
                let jobs: Vec<usize> =
                    groups.iter().filter_map(|group| self.jobs.number(group)).collect();
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
                    self.bindings.push(Reverse((now.after(binding.after), ticket, refused)));
                }
            }
            Decision::Prepare { ticket, .. } => {
                // Nothing is prepared in a simulation.
                let _ = self.recorder.handle(Input::Prepared { ticket, error: None }, now);
            }
            Decision::Unbind { groups, pods, .. } => {
                for pod in pods {
                    let gone = Gone::Unbound { pod: pod.pod.clone() };
                    self.handle(&pod.pod, Input::Gone(gone), now)?;
                }
                for group in &groups {
                    if let Some(job) = self.jobs.number(group)
                        && !self.is_at_minimum(job)
                    {
                        self.lose(job, now);
                    }
                }
            }
            Decision::EvictStale { group, .. } => {
                let Some(job) = self.jobs.number(&group) else { return Ok(()) };
                self.begin_anew(job, now)?;
            }
            Decision::EvictDue { group, cause, .. } => {
                let Some(job) = self.jobs.number(&group) else { return Ok(()) };
                if cause != EvictionCause::RunTime {
                    return self.begin_anew(job, now);
                }
                // It does not run again.
                self.lose(job, now);
                self.waits_no_more(job, now);
                self.is_over(job, now)?;
            }
            Decision::Move { ticket, moves, .. } => {
                // A unit leaves its nodes, and is bound at its new place.
                for unit in moves.chunk_by(|a, b| a.unit == b.unit) {
                    let Some(first) = unit.first() else { continue };
                    let cluster = self.recorder.scheduler().cluster();
                    let pod = cluster.pod(&first.pod.namespace, &first.pod.name);
                    let job = pod.and_then(|pod| self.jobs.number(pod.group()?));
                    let gone = Gone::evicted(ticket, &*first.unit);
                    self.handle(&first.unit, Input::Gone(gone), now)?;
                    if let Some(job) = job {
                        self.members_left(job, now);
                    }
                }
            }
            Decision::Evict { ticket, victims, .. } => {
                for victim in victims {
                    let gone = Gone::evicted(ticket, &*victim.name);
                    self.handle(&victim.name, Input::Gone(gone), now)?;
                    let group = victim.group.as_ref();
                    if let Some(job) = group.and_then(|group| self.jobs.number(group)) {
                        self.members_left(job, now);
                    }
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
                    if let Some(job) = self.jobs.number(&event.group) {
                        self.start(job, event.at);
                    }
                }
                GroupChange::Joined { .. } => {
                    if let Some(job) = self.jobs.number(&event.group) {
                        self.jobs.touch(job);
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
        let Some(record) = self.results.jobs.get_mut(job) else { return };
        let cluster = self.recorder.scheduler().cluster();
        let Some(amount) = self.jobs.start(job, record.amount, cluster, at) else { return };
        record.start = Some(at);
        record.first_start.get_or_insert(at);
        self.used = self.used.saturating_add(amount);
        self.waits_no_more(job, at);
        (self.observe)(at, Happening::Started(job));
    }

    fn waits_no_more(&mut self, job: usize, now: Time) {
        self.waiting = self.waiting.saturating_sub(1);
        self.arrivals.waits_no_more(self.jobs.user(job), now);
    }

    /// The rates of jobs whose places have changed, and of their neighbours.
    fn rate(&mut self, now: Time) {
        for resized in self.jobs.rate(self.recorder.scheduler().cluster(), now) {
            self.used = self.used.saturating_add(resized.by);
            (self.observe)(now, Happening::Resized(resized.job, resized.members));
        }
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
