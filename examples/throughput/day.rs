//! A busy day: an hour of virtual time with two schedulers, and all that goes on meanwhile.

use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

use phalanx::model::{Effect, Labels, Taint};
use phalanx::{Cluster, Event, Framework, Node, Plan, Planner, PodGroup, reference};

use crate::figures::{Figures, Timed};
use crate::scene::{Constraint, Dice, GPU, HOSTNAME, Scene};
use crate::workload::{Arrivals, GPUS_A_GANG, KNOWN, TEAMS, Work, gang_of, place};

/// Rounds of a second; each brings one gang to each scheduler.
const ROUNDS: u64 = 10;
const SCHEDULERS: usize = 2;
/// The share of GPUs that lives are drawn for.
const TAKEN: f64 = 0.875;
/// The share of GPUs at which no gang ends.
const FREE: f64 = 0.8;
/// One decision in so many is repeated with a fresh planner.
const SAMPLE: usize = 8;

/// The measured day.
#[derive(Debug)]
pub(crate) struct Day {
    pub(crate) nodes: usize,
    pub(crate) racks: usize,
    pub(crate) seed: u64,
    pub(crate) seconds: u64,
}

impl Day {
    pub(crate) fn scene(&self) -> Scene {
        Scene {
            nodes: self.nodes,
            racks: self.racks,
            node_shapes: 8,
            fill: TAKEN,
            // Nodes are labelled with their hostname.
            constraint: Constraint::HostnameAnti,
            ..Scene::default()
        }
    }

    /// Runs the day. `allocated` gives the bytes held at a moment.
    pub(crate) fn measure(&self, straight_pass_us: f64, allocated: fn() -> f64) -> Figures {
        let scene = self.scene();
        let decisions = (self.seconds * ROUNDS) as usize * SCHEDULERS * 3 / 2;
        let mut figures = Figures::new((self.nodes, self.seconds), straight_pass_us, decisions);
        let held = allocated();
        let mut arrivals = Arrivals::new(self.seed);
        let mut world = World::new(&scene, self.seed);
        world.begin(&mut arrivals);
        let mut schedulers = [1, 2].map(Scheduler::new);
        for round in 0..self.seconds * ROUNDS {
            world.round = round;
            world.step();
            if round % ROUNDS == 0 {
                let taken = world.taken;
                figures.taken = [figures.taken[0].min(taken), figures.taken[1].max(taken)];
            }
            for scheduler in &mut schedulers {
                scheduler.queue.push_back(arrivals.next());
            }
            while schedulers.iter().any(|scheduler| !scheduler.queue.is_empty()) {
                decide(&mut world, &mut schedulers, &mut arrivals, &mut figures);
            }
            if round + 1 == (self.seconds * ROUNDS).div_ceil(6) {
                figures.bytes_early = allocated() - held;
            }
        }
        figures.bytes_late = allocated() - held;
        drop(schedulers);
        figures.bytes_of_planners = figures.bytes_late - (allocated() - held);
        figures.events = world.events;
        figures.seconds += world.applying;
        figures
    }
}

/// The truth: the cluster, what runs on it, and the stream of events that change it.
struct World {
    cluster: Cluster,
    framework: Framework,
    dice: Dice,
    round: u64,
    /// The version of the last event.
    version: u64,
    events: usize,
    /// The time that events took.
    applying: Duration,
    names: Vec<String>,
    added: usize,
    /// The node that was lost last: the next one that is added is like it.
    lost: Option<Node>,
    tainted: Option<String>,
    /// The time that gangs run in, in thousandths of a round: it passes the faster the more GPUs are
    /// taken.
    clock: u64,
    /// Running gangs, by the clock when they end.
    ends: BTreeMap<(u64, u64), Running>,
    started: u64,
    /// The share of GPUs that are taken.
    taken: f64,
    gpus: f64,
}

/// Pods of a gang, which are numbered.
struct Running {
    namespace: String,
    group: String,
    pods: usize,
}

impl World {
    fn new(scene: &Scene, seed: u64) -> World {
        let cluster = scene.nodes();
        let names = cluster.nodes().map(|node| node.name().to_string()).collect();
        let mut world = World {
            cluster,
            framework: scene.framework(),
            dice: Dice(!seed),
            round: 0,
            version: 0,
            events: 0,
            applying: Duration::ZERO,
            names,
            added: 0,
            lost: None,
            tainted: None,
            clock: 0,
            ends: BTreeMap::new(),
            started: 0,
            taken: 0.0,
            gpus: 0.0,
        };
        for team in 0..TEAMS {
            world.label_namespace(team, "first");
        }
        world
    }

    /// Fills the cluster before the day with gangs like those of the day.
    fn begin(&mut self, arrivals: &mut Arrivals) {
        self.count_gpus();
        let mut planner = Planner::new();
        while self.taken < TAKEN {
            let work = arrivals.next();
            let gang = gang_of(&work.group);
            let outcome = place(&mut planner, &self.cluster, &self.framework, &gang, 0);
            if let Some(plan) = outcome.plan() {
                self.cluster.commit(&self.framework, plan).expect("nothing has moved");
                let left = self.mean_life() * self.dice.below(1_000) as f64 / 1_000.0;
                self.start(&work.group, left);
            }
            self.count_gpus();
        }
        (self.events, self.applying) = (0, Duration::ZERO);
    }

    fn apply(&mut self, event: impl FnOnce(u64) -> Event) {
        self.version += 1;
        let event = event(self.version);
        let start = Instant::now();
        let applied = self.cluster.apply(event);
        self.applying += start.elapsed();
        self.events += 1;
        applied.expect("events of the day are sound");
    }

    /// Everything of a round but the gangs that come.
    fn step(&mut self) {
        let round = self.round;
        self.count_gpus();
        self.clock += self.speed();
        let clock = self.clock;
        while let Some(first) = self.ends.first_entry().filter(|first| first.key().0 <= clock) {
            let Running { namespace, group, pods } = first.remove();
            for pod in 0..pods {
                let (namespace, name) = (namespace.clone(), format!("{group}-{pod}"));
                if self.cluster.pod(&namespace, &name).is_some() {
                    self.apply(|version| Event::PodDeleted { namespace, name, version });
                }
            }
        }
        // Twenty nodes a second, of which one has changed.
        for number in 0..2 {
            self.update_node(round.is_multiple_of(ROUNDS) && number == 0);
        }
        if round % (10 * ROUNDS) == 5 * ROUNDS {
            match self.lost.take() {
                None => self.lose_node(),
                Some(node) => self.add_node(node),
            }
        }
        if round % (60 * ROUNDS) == 30 * ROUNDS {
            let minute = round / (60 * ROUNDS);
            if minute.is_multiple_of(2) {
                self.change_taint();
            } else {
                let team = self.dice.below(TEAMS);
                self.label_namespace(team, &format!("minute-{minute}"));
            }
        }
        if round.is_multiple_of(ROUNDS) {
            self.cluster.forget_deleted(self.version);
        }
    }

    /// A node that exists.
    fn random_node(&mut self) -> Node {
        let name = &self.names[self.dice.below(self.names.len())];
        self.cluster.node(name).expect("it is in the list").to_node()
    }

    fn update_node(&mut self, changes: bool) {
        let mut node = self.random_node();
        if changes && self.dice.below(2) == 0 {
            node = node.label("driver", format!("v{}", self.dice.below(16)));
        } else if changes {
            node = node.allocatable("memory", format!("{}Gi", 448 + self.dice.below(64)));
        }
        self.apply(|version| Event::NodeChanged { node, version });
    }

    /// A node goes, and its pods with it; the rest of their gangs runs on.
    fn lose_node(&mut self) {
        let node = self.random_node();
        self.names.retain(|name| *name != node.name);
        let view = self.cluster.node(&node.name).expect("it is in the list");
        let pods: Vec<(String, String)> =
            view.pods().map(|pod| (pod.namespace().into(), pod.name().into())).collect();
        for (namespace, name) in pods {
            self.apply(|version| Event::PodDeleted { namespace, name, version });
        }
        let name = node.name.clone();
        self.apply(|version| Event::NodeRemoved { name, version });
        self.lost = Some(node);
    }

    /// A node comes, under a name that was not met before.
    fn add_node(&mut self, like: Node) {
        let name = format!("m{:06}", self.added);
        self.added += 1;
        let mut node = like.label(HOSTNAME, name.as_str());
        node.taints.clear();
        node.name.clone_from(&name);
        self.names.push(name);
        self.apply(|version| Event::NodeChanged { node, version });
    }

    /// The taint goes that is there, or one comes.
    fn change_taint(&mut self) {
        let tainted = self.tainted.take();
        let known = tainted.and_then(|name| Some(self.cluster.node(&name)?.to_node()));
        let node = if let Some(mut node) = known {
            node.taints.clear();
            node
        } else {
            let node = self.random_node();
            self.tainted = Some(node.name.clone());
            node.taint(Taint::new("maintenance", "", Effect::NoSchedule))
        };
        self.apply(|version| Event::NodeChanged { node, version });
    }

    fn label_namespace(&mut self, team: usize, value: &str) {
        let name = format!("team-{team}");
        let labels: Labels = [("state".to_string(), value.to_string())].into_iter().collect();
        self.apply(|version| Event::NamespaceChanged { name, labels, version });
    }

    fn count_gpus(&mut self) {
        let Some(gpu) = self.cluster.resource(GPU) else { return };
        let nodes = self.cluster.nodes();
        let (all, used) = nodes
            .fold((0, 0), |(all, used), node| (all + node.allocatable(gpu), used + node.used(gpu)));
        self.gpus = all as f64;
        self.taken = used as f64 / self.gpus.max(1.0);
    }

    /// How far the clock moves in a round: 1,000 at the share of GPUs that lives are drawn for.
    fn speed(&self) -> u64 {
        let over = self.taken - TAKEN;
        let speed = if over < 0.0 { 1.0 + over / (TAKEN - FREE) } else { 1.0 + 40.0 * over };
        (speed.max(0.0) * 1_000.0) as u64
    }

    /// The rounds that a gang is to run on average, so that as much ends as comes.
    fn mean_life(&self) -> f64 {
        self.gpus * TAKEN / (GPUS_A_GANG * SCHEDULERS as f64)
    }

    /// Takes note of a gang that was bound, and of how many rounds it runs.
    fn start(&mut self, group: &PodGroup, rounds: f64) {
        let running = Running {
            namespace: group.namespace.clone(),
            group: group.name.clone(),
            pods: group.pods.len(),
        };
        let end = self.clock + (rounds * 1_000.0) as u64;
        self.started += 1;
        self.ends.insert((end, self.started), running);
    }
}

/// A scheduler: its planner, and what waits for it.
struct Scheduler {
    planner: Planner,
    salt: u64,
    queue: VecDeque<Work>,
    /// The generation of the cluster when a known shape was met last.
    met: Vec<Option<u64>>,
}

impl Scheduler {
    fn new(salt: u64) -> Scheduler {
        let queue = VecDeque::new();
        Scheduler { planner: Planner::new(), salt, queue, met: vec![None; KNOWN] }
    }
}

/// Each scheduler decides on its next gang before it knows of the other's; then both commit.
fn decide(
    world: &mut World,
    schedulers: &mut [Scheduler; SCHEDULERS],
    arrivals: &mut Arrivals,
    figures: &mut Figures,
) {
    let start = Instant::now();
    let snapshot = world.cluster.clone();
    figures.seconds += start.elapsed();
    let framework = &world.framework;
    let mut proposals = Vec::with_capacity(SCHEDULERS);
    for (number, scheduler) in schedulers.iter_mut().enumerate() {
        let Some(mut work) = scheduler.queue.pop_front() else { continue };
        let start = Instant::now();
        let gang = gang_of(&work.group);
        figures.seconds += start.elapsed();
        let calls = reference::plugin_calls(&scheduler.planner);
        let start = Instant::now();
        let outcome = place(&mut scheduler.planner, &snapshot, framework, &gang, scheduler.salt);
        let time = start.elapsed();
        let calls = reference::plugin_calls(&scheduler.planner) - calls;
        figures.seconds += time;
        figures.timed.push(Timed { time, kind: work.kind, pods: work.group.pods.len() });

        let met = scheduler.met.get(work.shape).copied().unwrap_or(work.met);
        if let Some(met) = met {
            let changed = snapshot.nodes().filter(|node| node.generation() > met).count();
            let placed = outcome.plan().map_or(0, Plan::len);
            let rows = calls / figures.calls_a_row(&work, &snapshot, framework);
            figures.warm.count(work.kind, rows as usize <= 2 * changed + placed);
        }
        match scheduler.met.get_mut(work.shape) {
            Some(met) => *met = Some(snapshot.generation()),
            None => work.met = Some(snapshot.generation()),
        }
        proposals.push((number, work, gang, outcome, time));
    }
    for (number, _, gang, outcome, time) in &proposals {
        figures.decisions += 1;
        if figures.decisions.is_multiple_of(SAMPLE) {
            let mut planner = Planner::new();
            let start = Instant::now();
            let fresh = place(&mut planner, &snapshot, framework, gang, schedulers[*number].salt);
            figures.fresh += start.elapsed();
            figures.sampled += *time;
            figures.equal &= fresh == *outcome;
        }
    }
    drop(snapshot);
    if world.round % 2 == 1 {
        proposals.reverse();
    }
    for (number, work, _, outcome, _) in proposals {
        let Some(plan) = outcome.plan() else {
            figures.refused += 1;
            continue;
        };
        let start = Instant::now();
        let committed = world.cluster.commit(&world.framework, plan);
        figures.seconds += start.elapsed();
        if committed.is_ok() {
            figures.placed += 1;
            figures.note(plan);
            let life = arrivals.life(world.mean_life());
            world.start(&work.group, life);
        } else {
            figures.conflicts += 1;
            schedulers[number].queue.push_front(work);
        }
    }
}
