//! A day of real gang jobs through the state machine, with faults: 5 October 2017 of Microsoft's
//! Philly cluster (see `data/philly-ATTRIBUTION.txt`) on 1,000 GPUs, or other days of it.
//!
//! Each job is a gang of one-GPU workers: up to 8 within one server, up to 40 within one rack of 40
//! GPUs, more anywhere. Bindings take their time and fail now and then, servers fail and come back, lost workers
//! are made anew. The day runs twice: first come first served with backfill, and with reservations
//! for the head of the line. Nothing here is random beyond the seed.
//!
//! Run it with `cargo run --features full --example lifecycle -- --seed 7`. With `--trace` and `--day` it reads
//! days of the published trace, and with several days or seeds it prints one table of all. `--svg FILE`
//! draws a day.

#[path = "common/mod.rs"]
mod common;
#[path = "lifecycle/days.rs"]
mod days;
#[path = "lifecycle/picture.rs"]
mod picture;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::process::ExitCode;
use std::time::Duration;

use common::cli::{Arguments, Finish, Mistake, Program, say};
use common::dice::Dice;
use days::{DAY, Job};
use phalanx::queue::{
    Discipline, Gone, GroupChange, GroupState, HeadOfLine, ReservationPolicy, Settings, Shortage,
    Ticket,
};
use phalanx::{
    Cluster, Decision, Event, Framework, Node, Pod, PodGroup, QueueError, Scheduler, Time,
};
use picture::Seen;

const GPU: &str = "nvidia.com/gpu";
/// Seconds between two points of the picture.
const SEEN_EVERY: u64 = 300;

/// An act of the world.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Act {
    Submit(usize),
    /// The end of a job's work, unless it was interrupted since.
    End(usize, u32),
    /// The result of binding a pod for a plan.
    Result(Ticket, String, bool),
    Down(usize),
    Up(usize),
    Recreate(usize, String),
    Look,
}

/// The record of a job.
#[derive(Clone, Default)]
struct Record {
    started: Option<u64>,
    ends: u64,
    runs: u32,
    finished: bool,
    why: Option<String>,
}

struct Simulation {
    servers: usize,
    jobs: Vec<Job>,
    records: Vec<Record>,
    scheduler: Scheduler,
    agenda: BinaryHeap<Reverse<(u64, u64, Act)>>,
    order: u64,
    dice: Dice,
    /// Whether to print what is seen every two hours.
    looks: bool,
    /// Samples, one every few minutes.
    seen: Vec<Seen>,
    busy: u128,
    since: u64,
    counts: BTreeMap<&'static str, u64>,
}

fn server(index: usize) -> Node {
    Node::new(format!("s{index:03}"))
        .capacity(GPU, 8)
        .label("server", format!("s{index:03}"))
        .label("rack", format!("r{:02}", index / 5))
}

fn group_of(job: usize, gpus: usize) -> PodGroup {
    let group =
        PodGroup::gang(format!("job-{job:04}"), gpus as u32).pods(gpus, Pod::new().request(GPU, 1));
    match gpus {
        2..=8 => group.require("server"),
        9..=40 => group.require("rack"),
        // One worker is in one place anyway, and no rack holds more than 40.
        _ => group,
    }
}

fn job_of(name: &str) -> usize {
    let digits = name.rsplit('/').next().and_then(|name| name.split('-').nth(1));
    digits.and_then(|digits| digits.parse().ok()).expect("names are ours")
}

impl Simulation {
    fn new(
        jobs: Vec<Job>,
        servers: usize,
        seed: u64,
        reservation: Option<ReservationPolicy>,
    ) -> Simulation {
        let mut cluster =
            Cluster::builder().levels(["rack", "server"]).build().expect("levels are different");
        for index in 0..servers {
            cluster.add_node(server(index)).expect("names are different");
        }
        let mut settings = Settings::default();
        settings.discipline = Discipline::in_order(HeadOfLine::BestEffort, reservation);
        settings.salt = 0;
        let scheduler = Scheduler::new(cluster, Framework::default(), settings);
        let mut simulation = Simulation {
            servers,
            records: vec![Record::default(); jobs.len()],
            jobs,
            scheduler,
            agenda: BinaryHeap::new(),
            order: 0,
            dice: Dice(seed),
            looks: false,
            seen: Vec::new(),
            busy: 0,
            since: 0,
            counts: BTreeMap::new(),
        };
        for job in 0..simulation.jobs.len() {
            simulation.at(simulation.jobs[job].submit, Act::Submit(job));
        }
        for _ in 0..20 {
            let down = simulation.dice.below(DAY);
            let index = simulation.dice.below(servers as u64) as usize;
            let lasts = 900 + simulation.dice.below(5_400);
            simulation.at(down, Act::Down(index));
            simulation.at(down + lasts, Act::Up(index));
        }
        for hour in 0..=12 {
            simulation.at(hour * 7_200, Act::Look);
        }
        simulation
    }

    fn at(&mut self, time: u64, act: Act) {
        self.order += 1;
        self.agenda.push(Reverse((time, self.order, act)));
    }

    fn count(&mut self, what: &'static str) {
        *self.counts.entry(what).or_default() += 1;
    }

    fn running_gpus(&self) -> u128 {
        let cluster = self.scheduler.cluster();
        let Some(gpu) = cluster.resource(GPU) else { return 0 };
        let used: i64 = cluster.nodes().map(|node| node.used(gpu)).sum();
        (used - self.reserved_gpus()).max(0) as u128
    }

    fn reserved_gpus(&self) -> i64 {
        let reservations = self.scheduler.reservations();
        reservations.iter().flat_map(|own| own.amounts.values()).map(|held| held.of(GPU)).sum()
    }

    fn run(&mut self) {
        let mut running = 0;
        loop {
            // Whatever comes first: the world, or the scheduler's own time.
            let wake =
                self.scheduler.next_wake().map(|wake| wake.as_nanos().div_ceil(1_000_000_000));
            let next = self.agenda.peek().map(|Reverse((time, _, _))| *time);
            let Some(now) = [wake, next].into_iter().flatten().min() else { break };
            if now > DAY {
                break;
            }
            self.busy += running * u128::from(now - self.since);
            self.since = now;
            while let Some(Reverse((time, _, _))) = self.agenda.peek() {
                if *time > now {
                    break;
                }
                let Some(Reverse((_, _, act))) = self.agenda.pop() else { break };
                self.act(act, now);
            }
            self.decide(now);
            running = self.running_gpus();
            if self.seen.last().is_none_or(|last| last.secs + SEEN_EVERY <= now) {
                self.see(now, running);
            }
        }
        self.busy += running * u128::from(DAY - self.since);
    }

    fn see(&mut self, secs: u64, busy: u128) {
        let gpus = |group: &str| self.jobs[job_of(group)].gpus;
        let waiting = || self.scheduler.queue("").map(gpus);
        let (all, largest) = (waiting().sum::<usize>(), waiting().max().unwrap_or(0));
        let (busy, waiting, largest) = (busy as f64, all as f64, largest as f64);
        self.seen.push(Seen { secs, busy, waiting, largest });
    }

    fn act(&mut self, act: Act, secs: u64) {
        let now = Time::from_secs(secs);
        match act {
            Act::Submit(job) => {
                let group = group_of(job, self.jobs[job].gpus);
                self.scheduler.handle_group(group, now).expect("it is sound");
            }
            Act::End(job, run) => {
                if self.records[job].runs != run || self.records[job].finished {
                    return;
                }
                self.records[job].finished = true;
                let group = group_of(job, self.jobs[job].gpus);
                for pod in &group.pods {
                    self.scheduler
                        .handle_gone(Gone::deleted("default", &pod.name), now)
                        .expect("known");
                }
                self.scheduler.handle_group_removed(&group.full_name(), now).expect("known");
            }
            Act::Result(ticket, pod, good) => {
                if self.scheduler.cluster().pod("default", &pod).is_none() {
                    return;
                }
                let result = if good { Ok(()) } else { Err("the server refused".into()) };
                match self.scheduler.handle_binding(ticket, "default", &pod, result, now) {
                    // The plan was undone in the meantime, and the pod is in another by now.
                    Ok(()) | Err(QueueError::StaleTicket) => {}
                    Err(error) => panic!("{error}"),
                }
            }
            Act::Down(index) => {
                let name = format!("s{index:03}");
                let Some(node) = self.scheduler.cluster().node(&name) else { return };
                let lost: Vec<String> = node
                    .pods()
                    .filter(|pod| pod.namespace() == "default")
                    .map(|pod| pod.name().to_owned())
                    .collect();
                self.count("servers lost");
                let event = Event::NodeRemoved { name, version: 0 };
                self.scheduler.handle_event(event, now).expect("known");
                // A controller makes lost workers anew a little later.
                for pod in lost {
                    self.at(secs + 20, Act::Recreate(job_of(&pod), pod));
                }
            }
            Act::Up(index) => {
                let event = Event::NodeChanged { node: server(index), version: 0 };
                self.scheduler.handle_event(event, now).expect("it is sound");
            }
            Act::Recreate(job, pod) => {
                if self.records[job].finished {
                    return;
                }
                let there = self.scheduler.cluster().pod("default", &pod);
                if there.is_some_and(|pod| pod.node().is_some()) {
                    return;
                }
                self.recreate(job, &pod, now);
            }
            Act::Look if self.looks => self.look(secs),
            Act::Look => {}
        }
    }

    fn recreate(&mut self, job: usize, pod: &str, now: Time) {
        self.scheduler.handle_gone(Gone::deleted("default", pod), now).expect("known");
        let group = format!("job-{job:04}");
        let again = Pod::new().name(pod).request(GPU, 1).in_group(group);
        self.scheduler.handle_pod(again, now).expect("it is sound");
    }

    fn decide(&mut self, secs: u64) {
        let now = Time::from_secs(secs);
        while let Some(decision) = self.scheduler.poll_decision(now) {
            match decision {
                Decision::Bind { ticket, plan, .. } => {
                    // One gang in 200 has a worker that its server refuses.
                    let bad = (self.dice.below(200) == 0)
                        .then(|| self.dice.below(plan.len() as u64) as usize);
                    for (index, assignment) in plan.assignments().enumerate() {
                        let when = secs + 1 + self.dice.below(3);
                        let good = bad != Some(index);
                        self.at(when, Act::Result(ticket, assignment.pod().name.clone(), good));
                    }
                    if bad.is_some() {
                        self.count("bindings refused");
                    }
                }
                Decision::Unbind { pods, .. } => {
                    for pod in pods {
                        let (namespace, name) = (pod.pod.namespace(), pod.pod.name());
                        match self.scheduler.handle_gone(Gone::unbound(namespace, name), now) {
                            // A pod may have gone with its job in the same second.
                            Ok(()) | Err(QueueError::UnknownPod(_)) => {}
                            Err(error) => panic!("{error}"),
                        }
                    }
                }
                Decision::EvictStale { group, pods, .. } => {
                    self.count("gangs evicted below their minimum");
                    let job = job_of(&group);
                    for pod in pods {
                        self.recreate(job, pod.pod.name(), now);
                    }
                    // What was done is not lost; what is left is run later.
                    let record = &mut self.records[job];
                    let left = record.ends.saturating_sub(secs).max(1);
                    record.runs += 1;
                    record.ends = 0;
                    self.jobs[job].duration = left;
                }
                _ => {}
            }
            self.read_events();
        }
        self.read_events();
    }

    fn read_events(&mut self) {
        while let Some(event) = self.scheduler.poll_event() {
            let job = job_of(&event.group);
            let secs = event.at.as_nanos() / 1_000_000_000;
            match event.change {
                GroupChange::Started { .. } => {
                    let mut duration = self.jobs[job].duration;
                    let record = &mut self.records[job];
                    if record.started.is_some() && record.ends > 0 {
                        // It goes on where it was.
                        duration = record.ends.saturating_sub(secs).clamp(1, duration);
                        *self.counts.entry("gangs started again after a loss").or_default() += 1;
                    }
                    record.started.get_or_insert(secs);
                    record.runs += 1;
                    record.ends = secs + duration;
                    let run = record.runs;
                    let ends = record.ends;
                    if let Some(status) = self.scheduler.status(&event.group) {
                        let waits = status.waits;
                        self.records[job].why.get_or_insert(format!(
                            "lacking room {:?}, backing off {:?}, being bound {:?}",
                            waits.unschedulable, waits.backing_off, waits.binding
                        ));
                    }
                    self.at(ends, Act::End(job, run));
                }
                GroupChange::Recovered => self.count("gangs repaired"),
                GroupChange::Undone { .. } => self.count("gangs undone while being bound"),
                GroupChange::Reserving { .. } => self.count("reservations"),
                _ => {}
            }
        }
    }

    fn look(&self, secs: u64) {
        let waiting: Vec<&str> = self.scheduler.queue("").collect();
        let gpus: usize = waiting.iter().map(|group| self.jobs[job_of(group)].gpus).sum();
        let head = waiting.first().map_or(String::from("-"), |group| {
            let why = match self.scheduler.state(group) {
                Some(GroupState::Unschedulable {
                    shortage: Some(Shortage::Capacity { needed, available, level, .. }),
                    ..
                }) => {
                    let where_ = level.map_or("anywhere".into(), |level| format!("in one {level}"));
                    format!("needs {needed} GPUs {where_}, finds {available}")
                }
                Some(GroupState::Unschedulable { shortage: Some(shortage), .. }) => {
                    format!("{shortage:?}")
                }
                Some(state) => format!("{state:?}"),
                None => String::new(),
            };
            format!("{}: {why}", group.trim_start_matches("default/"))
        });
        let reserved = self.reserved_gpus();
        say!(
            "  {:02}:00  {:>5} GPUs busy  {:>4} gangs wait for {:>5}  {reserved:>3} reserved  head {head}",
            secs / 3_600,
            self.running_gpus(),
            waiting.len(),
            gpus
        );
    }

    fn report(&self) {
        let share = self.busy * 1_000 / (u128::from(DAY) * 8 * self.servers as u128);
        say!("  utilisation {}.{} %", share / 10, share % 10);
        for (what, count) in &self.counts {
            say!("  {count:>5} {what}");
        }
        say!("  waiting by size of gang, in seconds (jobs still waiting count until midnight)");
        say!("  GPUs   jobs  waiting     p50     p90     p99     max");
        let mut sizes: BTreeMap<usize, Vec<u64>> = BTreeMap::new();
        let mut open: BTreeMap<usize, usize> = BTreeMap::new();
        let mut longest = Vec::new();
        for (index, (job, record)) in self.jobs.iter().zip(&self.records).enumerate() {
            let wait = record.started.unwrap_or(DAY).saturating_sub(job.submit);
            sizes.entry(job.gpus).or_default().push(wait);
            *open.entry(job.gpus).or_default() += usize::from(record.started.is_none());
            longest.push((Reverse(wait), index));
        }
        for (size, waits) in &mut sizes {
            waits.sort_unstable();
            let at = |percent: usize| waits[(waits.len() - 1) * percent / 100];
            say!(
                "  {size:>4} {:>6} {:>8} {:>7} {:>7} {:>7} {:>7}",
                waits.len(),
                open[size],
                at(50),
                at(90),
                at(99),
                at(100)
            );
        }
        longest.sort_unstable();
        say!("  why the longest waited");
        for (Reverse(wait), index) in longest.into_iter().take(5) {
            let why = self.records[index].why.clone().unwrap_or_else(|| {
                let state = self.scheduler.state(&format!("default/job-{index:04}"));
                match state {
                    Some(GroupState::Unschedulable { shortage: Some(shortage), .. }) => {
                        format!("still lacks {shortage:?}")
                    }
                    state => format!("still {state:?}"),
                }
            });
            let wait = Duration::from_secs(wait);
            say!("    job-{index:04}, {} GPUs, {wait:?}: {why}", self.jobs[index].gpus);
        }
        let counters = self.scheduler.metrics();
        say!(
            "  {} tries: {} placed, {} short of room, {} without arrangement; {} woken, {} let sleep on",
            counters.attempts,
            counters.placed,
            counters.short_of_capacity,
            counters.no_placement,
            counters.woken,
            self.scheduler.wake_stats().still_short
        );
    }
}

/// Waits and utilisation of several runs under one policy.
#[derive(Default)]
struct Pool {
    /// Seconds, of gangs of 16 and more.
    large: Vec<u64>,
    /// Seconds, of gangs up to 8.
    small: Vec<u64>,
    /// GPU seconds, used and there.
    busy: u128,
    all: u128,
}

impl Pool {
    fn add(&mut self, simulation: &Simulation) {
        for (job, record) in simulation.jobs.iter().zip(&simulation.records) {
            let wait = record.started.unwrap_or(DAY).saturating_sub(job.submit);
            match job.gpus {
                ..=8 => self.small.push(wait),
                16.. => self.large.push(wait),
                _ => {}
            }
        }
        self.busy += simulation.busy;
        self.all += u128::from(DAY) * 8 * simulation.servers as u128;
    }

    /// A row of the table; percentiles are of the nearest rank.
    fn row(&mut self, title: &str) -> String {
        let rank = |waits: &mut Vec<u64>, percent: usize| {
            waits.sort_unstable();
            waits.get((waits.len() * percent).div_ceil(100).saturating_sub(1)).copied().unwrap_or(0)
        };
        let large = [50, 90, 100].map(|percent| rank(&mut self.large, percent).to_string());
        let small = [50, 90, 99].map(|percent| rank(&mut self.small, percent).to_string());
        let share = self.busy * 10_000 / self.all.max(1);
        format!(
            "| {title} | {} | {} | {}.{:02} % |",
            large.join(" / "),
            small.join(" / "),
            share / 100,
            share % 100
        )
    }
}

const PROGRAM: Program = Program {
    usage: "\
Runs days of real gang jobs through the state machine, with faults: without reservations for the
head of the line, and with them.

Usage: lifecycle [OPTION...]

  --seed N[,...]    other faults                                       (7)
  --stretch P       run times, in percent of the trace's               (150)
  --servers N       servers of 8 GPUs, five to a rack                  (125)
  --trace FILE      the Philly trace as published, in gzip or not      (a packaged day)
  --day DAY[,...]   days of that trace, as 2017-10-05
  --svg FILE        draws the day, too: one day and one seed
  --help            this text

Several days or seeds are reported as one table: seconds of waiting, all runs together.
",
    options: &["--seed", "--stretch", "--servers", "--trace", "--day", "--svg"],
    flags: &[],
};

fn main() -> ExitCode {
    PROGRAM.main(run)
}

fn run(arguments: &Arguments) -> Result<Finish, Mistake> {
    let seeds: Vec<u64> = arguments
        .value("--seed")
        .unwrap_or("7")
        .split(',')
        .map(|text| text.parse::<u32>().map(u64::from))
        .collect::<Result<_, _>>()
        .map_err(|_| Mistake::Usage("--seed takes whole numbers from 0 to 2^32 - 1".into()))?;
    let stretch = u64::from(arguments.number("--stretch", 150, 1..=10_000)?);
    let servers = arguments.number("--servers", 125, 1..=10_000)? as usize;
    let mut days = match (arguments.value("--trace"), arguments.value("--day")) {
        (None, None) => days::packaged().map(|jobs| vec![jobs]),
        (Some(file), Some(days)) => days::published(file, &days.split(',').collect::<Vec<_>>()),
        _ => return Err(Mistake::Usage("--trace and --day go together".into())),
    }
    .map_err(Mistake::Input)?;
    for job in days.iter_mut().flatten() {
        job.duration = (job.duration * stretch / 100).max(1);
    }
    let policy = ReservationPolicy::new()
        .after(Duration::from_secs(600))
        .timeout(Duration::from_secs(1_200))
        .at_most(1);
    let policies = [("without reservation", None), ("with reservation", Some(policy))];
    if let ([jobs], [seed]) = (&days[..], &seeds[..]) {
        say!("{} jobs on {} GPUs, seed {seed}, stretch {stretch} %", jobs.len(), 8 * servers);
        let mut seen = Vec::new();
        for (title, reservation) in policies {
            say!("\n{title}");
            let mut simulation = Simulation::new(jobs.clone(), servers, *seed, reservation);
            simulation.looks = true;
            simulation.run();
            simulation.report();
            seen.push((title, simulation.seen));
        }
        if let Some(file) = arguments.value("--svg") {
            let note = format!(
                "{} jobs on {} GPUs, seed {seed}, run times {stretch} % of the trace's",
                jobs.len(),
                8 * servers
            );
            common::files::write(file, picture::svg(&note, &seen)).map_err(Mistake::Input)?;
        }
        return Ok(Finish::default());
    }
    if arguments.value("--svg").is_some() {
        return Err(Mistake::Usage("--svg draws one day with one seed".into()));
    }
    let jobs: usize = days.iter().map(Vec::len).sum();
    let large = days.iter().flatten().filter(|job| job.gpus >= 16).count();
    let gpus = 8 * servers;
    say!(
        "{jobs} jobs, {large} of 16 GPUs and more, on {gpus} GPUs, each day run {} times\n",
        seeds.len()
    );
    say!("| | 16 and more: p50 / p90 / max | up to 8: p50 / p90 / p99 | utilisation |");
    say!("|---|---|---|---|");
    for (title, reservation) in policies {
        let mut pool = Pool::default();
        for jobs in &days {
            for seed in &seeds {
                let mut simulation = Simulation::new(jobs.clone(), servers, *seed, reservation);
                simulation.run();
                pool.add(&simulation);
            }
        }
        say!("{}", pool.row(title));
    }
    Ok(Finish::default())
}
