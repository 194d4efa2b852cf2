//! The days, job by job.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::fmt;
use std::io::Read;

use phalanx::queue::{Gone, PreemptionSettings, Settings, Ticket};
use phalanx::quota::kai::KaiSettings;
use phalanx::quota::{
    Flavor, Queue, QueuePreemption, QueuePreemptionPolicy, Quota, ROOT_QUOTA, Tenants, Weight,
};
use phalanx::{Cluster, Decision, Framework, Node, Pod, PodGroup, Scheduler, Time};
use serde::Serialize;

const GPU: &str = "nvidia.com/gpu";
const SERVERS: usize = 125;
const PER_SERVER: usize = 8;
const PER_RACK: usize = 40;
const GPUS: i64 = (SERVERS * PER_SERVER) as i64;
const DAY: u64 = 86_400;
const HOUR: u64 = 3_600;
/// Seconds that a gang takes to stop.
const GRACE: u64 = 30;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Dialect {
    #[default]
    Default,
    Koordinator,
    Kueue,
    VolcanoProportion,
    VolcanoCapacity,
    VolcanoDrf,
    Yunikorn,
    Kai,
}

impl Dialect {
    pub(crate) const ALL: [Dialect; 8] = [
        Dialect::Default,
        Dialect::Koordinator,
        Dialect::Kueue,
        Dialect::VolcanoProportion,
        Dialect::VolcanoCapacity,
        Dialect::VolcanoDrf,
        Dialect::Yunikorn,
        Dialect::Kai,
    ];

    /// No queues yet, and the queue that all stand below.
    fn tenants(self) -> (Tenants, &'static str) {
        match self {
            Dialect::Default => (Tenants::default(), "philly"),
            Dialect::Koordinator => (Tenants::koordinator(), ROOT_QUOTA),
            Dialect::Kueue => (Tenants::kueue(), "philly"),
            Dialect::VolcanoProportion => (Tenants::volcano_proportion(), "root"),
            Dialect::VolcanoCapacity => (Tenants::volcano_capacity(), "root"),
            Dialect::VolcanoDrf => (Tenants::volcano_drf(), "root"),
            Dialect::Yunikorn => (Tenants::yunikorn(), "root"),
            Dialect::Kai => {
                let settings = KaiSettings::default().capacity(GPU, GPUS);
                (Tenants::kai_with(settings), "philly")
            }
        }
    }

    /// A queue to which so many GPUs are promised, in the dialect's terms.
    fn queue(self, queue: Queue, own: i64) -> Queue {
        let weight = Weight::new(own.unsigned_abs());
        match self {
            Dialect::Default | Dialect::Kueue | Dialect::Yunikorn | Dialect::Kai => {
                queue.quota("all", GPU, Quota::nominal(own))
            }
            // Each may have all that others leave.
            Dialect::Koordinator => queue.quota("all", GPU, Quota::nominal(own).limit(GPUS)),
            // What Volcano guarantees to a queue, no other may use.
            Dialect::VolcanoCapacity => queue.quota("all", GPU, Quota::nominal(0).deserved(own)),
            Dialect::VolcanoProportion | Dialect::VolcanoDrf => {
                queue.weight(weight).quota("all", GPU, Quota::nominal(0))
            }
        }
    }
}

impl Dialect {
    /// The name, as an option has it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Dialect::Default => "default",
            Dialect::Koordinator => "koordinator",
            Dialect::Kueue => "kueue",
            Dialect::VolcanoProportion => "volcano_proportion",
            Dialect::VolcanoCapacity => "volcano_capacity",
            Dialect::VolcanoDrf => "volcano_drf",
            Dialect::Yunikorn => "yunikorn",
            Dialect::Kai => "kai",
        }
    }
}

impl fmt::Display for Dialect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The outcome of one queue.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct QueueReport {
    pub(crate) name: String,
    pub(crate) guaranteed: i64,
    /// GPUs in use, on average.
    pub(crate) mean_used: f64,
    /// GPUs in use, hour by hour.
    pub(crate) used: Vec<i64>,
    pub(crate) started: usize,
    /// Gangs that wait at the end.
    pub(crate) waiting: usize,
    /// Seconds; gangs that still wait count with what they have waited.
    pub(crate) wait_p50: u64,
    pub(crate) wait_p90: u64,
    pub(crate) wait_most: u64,
    /// GPU-hours beyond the guarantee.
    pub(crate) borrowed_hours: f64,
    /// Gangs that had to give back, as often as they had.
    pub(crate) reclaimed: u64,
    /// GPU-hours that they had run; they begin anew.
    pub(crate) lost_hours: f64,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Report {
    pub(crate) dialect: Dialect,
    pub(crate) days: u64,
    pub(crate) gpus: i64,
    pub(crate) gangs: usize,
    pub(crate) hours: Vec<u64>,
    pub(crate) queues: Vec<QueueReport>,
    pub(crate) attempts: u64,
    pub(crate) placed: u64,
    pub(crate) refused_by_quota: u64,
    pub(crate) refused_by_room: u64,
    pub(crate) quota_checks: u64,
    /// Times that gangs were asked to give back, and times that this was taken back.
    pub(crate) asked: u64,
    pub(crate) taken_back: u64,
}

struct Job {
    submit: u64,
    duration: u64,
    gpus: usize,
    queue: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Act {
    /// A gang is done, if it still is the run of this number.
    End(usize, u32),
    /// A gang has stopped, if it still is to.
    Gone(usize, u32),
    Submit(usize),
    /// The scheduler wants to be asked.
    Wake,
    Sample,
}

/// GPU-seconds of each virtual cluster over the whole trace.
fn totals() -> Vec<(String, u64)> {
    let lines = include_str!("../data/philly-shares.csv").lines().skip(1);
    let fields = lines.filter_map(|line| line.split_once(','));
    fields.map(|(name, sum)| (name.to_owned(), sum.parse().expect("a number"))).collect()
}

/// The GPUs guaranteed to each: largest remainders, ties by name.
fn guarantees(totals: &[(String, u64)], gpus: u64) -> Vec<i64> {
    let all: u64 = totals.iter().map(|(_, sum)| sum).sum();
    let product = |sum: u64| u128::from(sum) * u128::from(gpus);
    let mut shares: Vec<i64> =
        totals.iter().map(|(_, sum)| (product(*sum) / u128::from(all)) as i64).collect();
    let mut order: Vec<usize> = (0..totals.len()).collect();
    order.sort_by_key(|&at| (Reverse(product(totals[at].1) % u128::from(all)), at));
    let rest = gpus as i64 - shares.iter().sum::<i64>();
    for &at in order.iter().take(rest as usize) {
        shares[at] += 1;
    }
    shares
}

fn jobs(totals: &[(String, u64)], days: u64) -> Vec<Job> {
    let packed = include_bytes!("../data/philly-week.csv.gz");
    let mut text = String::new();
    flate2::read::GzDecoder::new(&packed[..]).read_to_string(&mut text).expect("it is gzip");
    let number = |field: Option<&str>| field.and_then(|field| field.parse().ok()).unwrap_or(0);
    let jobs = text.lines().skip(1).filter_map(|line| {
        let mut fields = line.split(',');
        let (submit, duration) = (number(fields.next()), number(fields.next()));
        let gpus = number(fields.next()) as usize;
        let cluster = fields.next()?;
        let queue = totals.iter().position(|(name, _)| name == cluster)?;
        Some(Job { submit, duration: duration.max(1), gpus: gpus.max(1), queue })
    });
    jobs.filter(|job| job.submit < days * DAY).collect()
}

fn gang(at: usize, job: &Job, queue: &str) -> PodGroup {
    let pods = Pod::new().request(GPU, 1);
    let mut gang = PodGroup::gang(format!("job-{at}"), job.gpus as u32).pods(job.gpus, pods);
    queue.clone_into(&mut gang.queue);
    match job.gpus {
        1 => gang,
        2..=PER_SERVER => gang.require("server"),
        gpus if gpus <= PER_RACK => gang.require("rack"),
        _ => gang,
    }
}

fn scheduler(dialect: Dialect, totals: &[(String, u64)], guaranteed: &[i64]) -> Scheduler {
    let mut cluster =
        Cluster::builder().levels(["rack", "server"]).build().expect("levels are different");
    for at in 0..SERVERS {
        let node = Node::new(format!("s{at:03}"))
            .capacity(GPU, PER_SERVER as i64)
            .label("server", format!("s{at:03}"))
            .label("rack", format!("r{:02}", at / (PER_RACK / PER_SERVER)));
        cluster.add_node(node).expect("names are different");
    }
    let (mut tenants, root) = dialect.tenants();
    tenants.set_flavor(Flavor::new("all"));
    if root != "philly" {
        // What there is to divide is stated.
        let all = Quota::nominal(GPUS);
        tenants.set_queue(Queue::inner(root).quota("all", GPU, all)).expect("sound");
    }
    // Kueue reclaims where a queue says so; the others do not read it.
    let reclaims = QueuePreemption::default()
        .reclaim_within_cohort(QueuePreemptionPolicy::Any)
        .within_cluster_queue(QueuePreemptionPolicy::LowerPriority);
    for ((name, _), own) in totals.iter().zip(guaranteed) {
        let queue = Queue::leaf(name.as_str()).parent(root).preemption(reclaims);
        tenants.set_queue(dialect.queue(queue, *own)).expect("sound");
    }
    let mut settings = Settings::default();
    settings.preemption = Some(PreemptionSettings::default());
    Scheduler::new(cluster, Framework::default(), settings).with_tenants(tenants)
}

/// A gang that runs.
struct Running {
    since: u64,
    /// How often the gang has been started.
    number: u32,
    /// The decision by which it has to stop.
    asked: Option<Ticket>,
}

struct Days {
    jobs: Vec<Job>,
    names: Vec<String>,
    guaranteed: Vec<i64>,
    scheduler: Scheduler,
    agenda: BinaryHeap<Reverse<(u64, Act)>>,
    /// When each gang first began.
    started: BTreeMap<usize, u64>,
    running: BTreeMap<usize, Running>,
    runs: BTreeMap<usize, u32>,
    used: Vec<i64>,
    used_seconds: Vec<u128>,
    borrowed_seconds: Vec<u128>,
    reclaimed: Vec<u64>,
    lost_seconds: Vec<u128>,
    since: u64,
    /// The last wake-up that stands on the agenda.
    wake: u64,
}

impl Days {
    fn pass(&mut self, now: u64) {
        let lasted = u128::from(now - self.since);
        for (at, used) in self.used.iter().enumerate() {
            self.used_seconds[at] += u128::from(used.unsigned_abs()) * lasted;
            let borrowed = (used - self.guaranteed[at]).max(0);
            self.borrowed_seconds[at] += u128::from(borrowed.unsigned_abs()) * lasted;
        }
        self.since = now;
    }

    fn decide(&mut self, now: u64) {
        let time = Time::from_secs(now);
        while let Some(decision) = self.scheduler.poll_decision(time) {
            // Nothing fails here, and no gang falls below its minimum.
            match decision {
                Decision::Bind { ticket, groups, .. } => {
                    self.scheduler.handle_bound(ticket, time).expect("it was decided just now");
                    for group in groups {
                        self.start(number_of(&group), now);
                    }
                }
                Decision::Evict { ticket, victims, .. } => {
                    for victim in victims {
                        let job = number_of(&victim.name);
                        let run = self.running.get_mut(&job).expect("it runs");
                        run.asked = Some(ticket);
                        self.agenda.push(Reverse((now + GRACE, Act::Gone(job, run.number))));
                    }
                }
                Decision::CancelEvictions { victims, .. } => {
                    for victim in victims {
                        let run = self.running.get_mut(&number_of(&victim.name));
                        run.expect("it runs").asked = None;
                    }
                }
                _ => {}
            }
        }
        let wake = self.scheduler.next_wake().map(|wake| wake.as_millis().div_ceil(1_000));
        if let Some(wake) = wake.filter(|wake| *wake > now && *wake != self.wake) {
            self.wake = wake;
            self.agenda.push(Reverse((wake, Act::Wake)));
        }
    }

    fn start(&mut self, job: usize, now: u64) {
        self.started.entry(job).or_insert(now);
        let number = self.runs.entry(job).and_modify(|number| *number += 1).or_insert(1);
        self.running.insert(job, Running { since: now, number: *number, asked: None });
        self.used[self.jobs[job].queue] += self.jobs[job].gpus as i64;
        let end = now + self.jobs[job].duration;
        self.agenda.push(Reverse((end, Act::End(job, *number))));
    }

    /// The run of a number, which has ended.
    fn stop(&mut self, job: usize, number: u32, is_asked: bool) -> Option<Running> {
        let runs = |run: &&Running| run.number == number && (!is_asked || run.asked.is_some());
        self.running.get(&job).filter(runs)?;
        self.used[self.jobs[job].queue] -= self.jobs[job].gpus as i64;
        self.running.remove(&job)
    }

    fn gone(&mut self, job: usize, number: u32, now: u64) {
        let Some(run) = self.stop(job, number, true) else { return };
        let ticket = run.asked.expect("it was asked to stop");
        let name = format!("default/job-{job}");
        self.scheduler
            .handle_gone(Gone::evicted(ticket, &name), Time::from_secs(now))
            .expect("it is to go");
        let queue = self.jobs[job].queue;
        self.reclaimed[queue] += 1;
        self.lost_seconds[queue] += u128::from(now - run.since) * self.jobs[job].gpus as u128;
    }

    fn end(&mut self, job: usize, number: u32, now: u64) {
        if self.stop(job, number, false).is_none() {
            return;
        }
        let time = Time::from_secs(now);
        for pod in 0..self.jobs[job].gpus {
            let name = format!("job-{job}-{pod}");
            self.scheduler
                .handle_gone(Gone::finished("default", &name), time)
                .expect("it is a member");
        }
        let name = format!("default/job-{job}");
        self.scheduler.handle_group_removed(&name, time).expect("it is known");
    }
}

fn number_of(group: &str) -> usize {
    let digits = group.rsplit('-').next();
    digits.and_then(|digits| digits.parse().ok()).expect("names are ours")
}

/// All days with a dialect.
pub(crate) fn run(dialect: Dialect, days: u64) -> Report {
    let totals = totals();
    let gpus = (SERVERS * PER_SERVER) as u64;
    let guaranteed = guarantees(&totals, gpus);
    let queues = totals.len();
    let mut state = Days {
        jobs: jobs(&totals, days),
        scheduler: scheduler(dialect, &totals, &guaranteed),
        names: totals.into_iter().map(|(name, _)| name).collect(),
        guaranteed,
        agenda: BinaryHeap::new(),
        started: BTreeMap::new(),
        running: BTreeMap::new(),
        runs: BTreeMap::new(),
        used: vec![0; queues],
        used_seconds: vec![0; queues],
        borrowed_seconds: vec![0; queues],
        reclaimed: vec![0; queues],
        lost_seconds: vec![0; queues],
        since: 0,
        wake: 0,
    };
    for (at, job) in state.jobs.iter().enumerate() {
        state.agenda.push(Reverse((job.submit, Act::Submit(at))));
    }
    for hour in 0..=days * DAY / HOUR {
        state.agenda.push(Reverse((hour * HOUR, Act::Sample)));
    }
    let (mut hours, mut samples) = (Vec::new(), vec![Vec::new(); queues]);
    while let Some(Reverse((now, first))) = state.agenda.pop() {
        if now > days * DAY {
            break;
        }
        state.pass(now);
        let mut next = Some(first);
        let mut sample = false;
        // What happens in one second is one input.
        while let Some(act) = next {
            match act {
                Act::End(job, number) => state.end(job, number, now),
                Act::Gone(job, number) => state.gone(job, number, now),
                Act::Wake => {}
                Act::Submit(at) => {
                    let job = &state.jobs[at];
                    let gang = gang(at, job, &state.names[job.queue]);
                    state.scheduler.handle_group(gang, Time::from_secs(now)).expect("sound");
                }
                Act::Sample => sample = true,
            }
            let same = state.agenda.peek().is_some_and(|Reverse((time, _))| *time == now);
            next = if same { state.agenda.pop().map(|Reverse((_, act))| act) } else { None };
        }
        state.decide(now);
        if sample {
            hours.push(now / HOUR);
            for (queue, used) in samples.iter_mut().zip(&state.used) {
                queue.push(*used);
            }
        }
    }
    report(&state, dialect, days, hours, samples)
}

fn report(
    state: &Days,
    dialect: Dialect,
    days: u64,
    hours: Vec<u64>,
    samples: Vec<Vec<i64>>,
) -> Report {
    let end = days * DAY;
    let mut queues = Vec::new();
    for (at, used) in samples.into_iter().enumerate() {
        let own = state.jobs.iter().enumerate().filter(|(_, job)| job.queue == at);
        let (mut waits, mut started, mut waiting) = (Vec::new(), 0, 0);
        for (number, job) in own {
            let began = state.started.get(&number);
            waits.push(began.copied().unwrap_or(end) - job.submit);
            started += usize::from(began.is_some());
            waiting += usize::from(began.is_none());
        }
        waits.sort_unstable();
        let quantile = |percent: usize| {
            waits.get((waits.len().saturating_sub(1)) * percent / 100).copied().unwrap_or(0)
        };
        queues.push(QueueReport {
            name: state.names[at].clone(),
            guaranteed: state.guaranteed[at],
            mean_used: state.used_seconds[at] as f64 / end as f64,
            used,
            started,
            waiting,
            wait_p50: quantile(50),
            wait_p90: quantile(90),
            wait_most: quantile(100),
            borrowed_hours: state.borrowed_seconds[at] as f64 / HOUR as f64,
            reclaimed: state.reclaimed[at],
            lost_hours: state.lost_seconds[at] as f64 / HOUR as f64,
        });
    }
    let metrics = state.scheduler.metrics();
    Report {
        dialect,
        days,
        gpus: (SERVERS * PER_SERVER) as i64,
        gangs: state.jobs.len(),
        hours,
        queues,
        attempts: metrics.attempts,
        placed: metrics.placed,
        refused_by_quota: metrics.short_of_quota,
        refused_by_room: metrics.short_of_capacity + metrics.no_placement,
        quota_checks: state.scheduler.wake_stats().quota_checks,
        asked: metrics.victims,
        taken_back: metrics.evictions_cancelled,
    }
}
