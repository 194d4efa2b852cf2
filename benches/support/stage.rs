//! A case made ready to be run, with what is measured told apart from what is not.

use std::hint::black_box;
use std::ops::Range;

use phalanx::model::{Effect, Labels, Taint};
use phalanx::place::Gang;
use phalanx::{Cluster, Event, Framework, Node, Outcome, Plan, Planner, Request, Strategy};
use rayon::ThreadPool;

use crate::cases::Case;
use crate::scene::{Churn, Scene};
use crate::straight::Columns;

/// Gangs that a planner meets before it counts as warm: with the second it begins to follow single
/// pods, with the third it makes trees.
pub(crate) const WARMING: usize = 3;

/// An event for one node, or for a namespace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Happening {
    Nothing,
    Equal,
    Added,
    Removed,
    Relabelled,
    Tainted,
    Cordoned,
    Resized,
    Namespace,
}

/// All of them, with their names.
pub(crate) const EVENTS: [(Happening, &str); 9] = [
    (Happening::Nothing, "no_event"),
    (Happening::Equal, "equal"),
    (Happening::Added, "added"),
    (Happening::Removed, "removed"),
    (Happening::Relabelled, "relabelled"),
    (Happening::Tainted, "tainted"),
    (Happening::Cordoned, "cordoned"),
    (Happening::Resized, "resized"),
    (Happening::Namespace, "namespace"),
];

/// Work with the gangs of a scene.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Work {
    /// Nothing: one plain pass over the nodes.
    Straight,
    /// The first gang is decided by a fresh planner.
    Cold,
    /// The first gang is decided by a planner that has decided it before, after the scene's churn.
    Warm,
    /// The first gang is decided by a planner that has decided it before, after one event. The
    /// event is undone between rounds.
    Event(Happening),
    /// The plan of the first gang is committed.
    Commit,
    /// All gangs but the first few are decided and committed by a planner that has met those.
    Queue,
}

/// Runs what it is given, and measures that.
pub(crate) type Meter<'a> = &'a mut (dyn FnMut(&mut dyn FnMut()) + Send);

pub(crate) struct Stage {
    scene: Scene,
    work: Work,
    fits: bool,
    threads: usize,
    salt: u64,
    pool: Option<ThreadPool>,
    framework: Framework,
    cluster: Cluster,
    columns: Columns,
    gangs: Vec<Gang>,
    planner: Planner,
    churn: Churn,
}

impl Stage {
    pub(crate) fn new(case: Case) -> Stage {
        let fits = case.fits();
        let Case { scene, work, threads, salt, .. } = case;
        let cluster = scene.cluster();
        let pool = (threads > 1).then(|| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build();
            pool.expect("threads can be had")
        });
        let sound = |group| Gang::new(group).expect("the groups of a scene are sound");
        Stage {
            framework: scene.framework(),
            columns: Columns::of(&scene, &cluster),
            gangs: scene.gangs().map(sound).collect(),
            planner: scene.planner(threads),
            churn: scene.churn(),
            cluster,
            scene,
            work,
            fits,
            threads,
            salt,
            pool,
        }
    }

    /// Does the work so many times.
    pub(crate) fn rounds(&mut self, times: u64, meter: Meter<'_>) {
        // What is kept is made by the first gangs a planner meets.
        if matches!(self.work, Work::Warm | Work::Event(_)) {
            for _ in 0..WARMING {
                self.round(&mut |part| part());
            }
        }
        match self.pool.take() {
            None => (0..times).for_each(|_| self.round(meter)),
            Some(pool) => {
                pool.install(|| (0..times).for_each(|_| self.round(meter)));
                self.pool = Some(pool);
            }
        }
    }

    fn round(&mut self, meter: Meter<'_>) {
        match self.work {
            Work::Straight => meter(&mut || {
                black_box(self.columns.pass());
            }),
            Work::Cold => {
                self.planner = self.scene.planner(self.threads);
                self.first(meter);
            }
            Work::Warm => {
                self.churn.step(&mut self.cluster);
                self.first(meter);
            }
            Work::Event(happening) => {
                let before = self.cluster.node(EVENT_NODE).expect("it is there").to_node();
                happen(&mut self.cluster, happening, &before);
                self.first(meter);
                undo(&mut self.cluster, happening, before);
                self.first(&mut |part| part());
            }
            Work::Commit => {
                let plan = self.first(&mut |part| part());
                meter(&mut || {
                    let done = self.cluster.commit(&self.framework, &plan);
                    done.expect("nothing has moved");
                });
                self.remove(&plan);
            }
            Work::Queue => {
                self.planner = self.scene.planner(self.threads);
                let mut plans = Vec::with_capacity(self.gangs.len());
                self.run(0..WARMING, &mut plans);
                meter(&mut || self.run(WARMING..self.gangs.len(), &mut plans));
                for plan in &plans {
                    self.remove(plan);
                }
            }
        }
    }

    /// Decides and commits some of the gangs.
    fn run(&mut self, gangs: Range<usize>, plans: &mut Vec<Plan>) {
        for gang in &self.gangs[gangs] {
            let outcome = decide(&mut self.planner, &self.cluster, &self.framework, gang, 0);
            let Outcome::Placed(plan) = outcome else { panic!("{outcome}") };
            self.cluster.commit(&self.framework, &plan).expect("nothing has moved");
            plans.push(plan);
        }
    }

    /// Decides the first gang; the plan is empty if it does not fit.
    fn first(&mut self, meter: Meter<'_>) -> Plan {
        let mut outcome = None;
        meter(&mut || {
            let (cluster, gang) = (black_box(&self.cluster), &self.gangs[0]);
            let framework = &self.framework;
            outcome = Some(decide(&mut self.planner, cluster, framework, gang, self.salt));
        });
        let outcome = outcome.expect("a meter runs what it is given");
        assert_eq!(outcome.is_placed(), self.fits, "{outcome}");
        outcome.plan().cloned().unwrap_or_default()
    }

    fn remove(&mut self, plan: &Plan) {
        for assignment in plan.assignments() {
            let name = &assignment.pod().name;
            self.cluster.remove_pod("default", name).expect("it was committed");
        }
    }
}

/// The node that events are about.
const EVENT_NODE: &str = "n000007";
/// A node that comes and goes.
const GUEST: &str = "guest";

fn change(cluster: &mut Cluster, node: Node) {
    let event = Event::NodeChanged { node, version: 0 };
    cluster.apply(event).expect("a sound node");
}

fn happen(cluster: &mut Cluster, happening: Happening, before: &Node) {
    let mut node = before.clone();
    match happening {
        Happening::Nothing => {}
        Happening::Equal => change(cluster, node),
        Happening::Added => {
            node.name = GUEST.into();
            change(cluster, node);
        }
        Happening::Removed => cluster.remove_node(EVENT_NODE).expect("it is there"),
        Happening::Relabelled => change(cluster, node.label("note", "x")),
        Happening::Tainted => {
            change(cluster, node.taint(Taint::new("t", "", Effect::NoSchedule)));
        }
        Happening::Cordoned => change(cluster, node.unschedulable()),
        Happening::Resized => change(cluster, node.capacity("cpu", 63)),
        Happening::Namespace => {
            let labels = Labels::from([("team".to_string(), "x".to_string())]);
            cluster.set_namespace("default", labels);
        }
    }
}

fn undo(cluster: &mut Cluster, happening: Happening, before: Node) {
    match happening {
        Happening::Added => cluster.remove_node(GUEST).expect("it is there"),
        Happening::Namespace => cluster.set_namespace("default", Labels::new()),
        _ => change(cluster, before),
    }
}

fn decide(
    planner: &mut Planner,
    cluster: &Cluster,
    framework: &Framework,
    gang: &Gang,
    salt: u64,
) -> Outcome {
    let request = Request::from(gang).strategy(Strategy::Kubernetes).salt(salt);
    planner.place(cluster, framework, request).expect("a sound request")
}
