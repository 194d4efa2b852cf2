//! A planner that preempts keeps its caches and a working copy between requests; both change no answer.
//!
//! A cluster goes through a random history. Nodes come, change and go, with pods on them and pods that wait
//! for them. Requests of each strategy follow each other, some on a copy without some pods. In a calm
//! history requests ask for the same, and no pod terminates: counts of domains are kept then.

use phalanx::model::{Effect, LabelSelector, Taint};
use phalanx::plugins::{Fit, MostAllocated, NodeUnschedulable, TaintToleration};
use phalanx::preempt::{
    Consolidation, DisruptionBudget, PreemptingPlanner, PreemptionRequest, RunningWork,
};
use phalanx::{Cluster, Event, Framework, Node, Pod, PodGroup, Request, Strategy};

use crate::support::budget;
use crate::support::dice::Dice;

const GPU: &str = "gpu";
const NODES: u64 = 6;
const LEVELS: [&str; 2] = ["zone", "rack"];

fn framework() -> Framework {
    let builder =
        Framework::builder().filter(Fit).filter(NodeUnschedulable).filter(TaintToleration);
    builder.score(1, MostAllocated::of([(GPU, 1)])).build().unwrap()
}

fn node(dice: &mut Dice) -> Node {
    let mut node =
        Node::new(format!("n{}", dice.roll(NODES))).capacity(GPU, 2 + dice.roll(3) as i64);
    for level in LEVELS {
        if dice.chance(95) {
            node = node.label(level, format!("{}{}", &level[..1], dice.roll(2)));
        }
    }
    if dice.one_in(8) {
        node = node.taint(Taint::new("spot", "", Effect::NoSchedule));
    }
    if dice.one_in(8) { node.unschedulable() } else { node }
}

/// A pod on a node that may not be there.
fn bound(dice: &mut Dice, calm: bool) -> Pod {
    let mut pod = Pod::new().name(format!("p{}", dice.roll(12))).request(GPU, dice.of(&[1, 2]));
    pod.priority = dice.roll(3) as i32;
    pod.deleting = !calm && dice.one_in(10);
    pod.group = dice.one_in(3).then(|| format!("old{}", dice.roll(2)));
    if dice.one_in(3) {
        pod = pod.label("app", "a");
    }
    pod.on(format!("n{}", dice.roll(NODES)))
}

fn gang(dice: &mut Dice, name: &str) -> PodGroup {
    let pods = 1 + dice.roll(3);
    let leaf = |dice: &mut Dice, name: &str| {
        let pod = Pod::new().request(GPU, dice.of(&[1, 2]));
        let group = PodGroup::gang(name, pods as u32).pods(pods as usize, pod);
        match dice.roll(4) {
            0 => group.require(dice.of(&LEVELS)),
            1 => group.prefer("rack"),
            _ => group,
        }
    };
    let group = if dice.one_in(2) {
        leaf(dice, name)
    } else {
        let inner = [leaf(dice, "new-a"), leaf(dice, "new-b")];
        inner.into_iter().fold(PodGroup::gang(name, 2), PodGroup::group)
    };
    group.priority(dice.roll(4) as i32)
}

/// One of four requests.
fn calm_gang(dice: &mut Dice, name: &str) -> PodGroup {
    let (pods, gpus) = dice.of(&[(2, 1), (3, 2)]);
    let gang = PodGroup::gang(name, pods).pods(pods as usize, Pod::new().request(GPU, gpus));
    let gang = if dice.one_in(2) { gang.require("rack") } else { gang };
    gang.priority(3)
}

/// One event, or another budget or group.
fn event(dice: &mut Dice, cluster: &mut Cluster, running: &mut RunningWork, calm: bool) {
    let version = 0;
    match dice.roll(10) {
        0..3 => {
            let _ = cluster.apply(Event::NodeChanged { node: node(dice), version });
        }
        3 => {
            let name = format!("n{}", dice.roll(NODES));
            let _ = cluster.apply(Event::NodeRemoved { name, version });
        }
        4..7 => {
            let _ = cluster.apply(Event::PodChanged { pod: bound(dice, calm), version });
        }
        7 => {
            let (namespace, name) = ("default".to_owned(), format!("p{}", dice.roll(12)));
            let _ = cluster.apply(Event::PodDeleted { namespace, name, version });
        }
        8 => {
            let selector = LabelSelector::label("app", "a");
            running.set_budget(DisruptionBudget::new("b", selector, dice.roll(3) as i64));
        }
        _ => {
            let old = PodGroup::gang(format!("old{}", dice.roll(2)), 1 + dice.roll(2) as u32);
            let old = if dice.one_in(2) { old.evicted_whole() } else { old };
            running.set_group(&old.priority(dice.roll(3) as i32)).unwrap();
        }
    }
}

#[test]
fn a_planner_that_has_preempted_answers_as_a_fresh_one() {
    answers_are_those_of_a_fresh_planner(false);
}

#[test]
fn a_planner_that_is_asked_for_the_same_again_answers_as_a_fresh_one() {
    answers_are_those_of_a_fresh_planner(true);
}

fn answers_are_those_of_a_fresh_planner(calm: bool) {
    let frameworks = [framework(), Framework::default()];
    let mut words = std::collections::BTreeMap::<String, u64>::new();
    let first = budget::number("PHALANX_KEPT_SEED").unwrap_or(0);
    for seed in first..first + budget::of(30, 4_000) {
        let mut dice = Dice(seed.wrapping_mul(0x9E37_79B9) + 7);
        let mut cluster = Cluster::builder().levels(LEVELS).build().unwrap();
        let mut running = RunningWork::new();
        let framework = &frameworks[dice.roll(2) as usize];
        let mut warm = PreemptingPlanner::new();
        for step in 0..40 {
            for _ in 0..dice.roll(4) {
                event(&mut dice, &mut cluster, &mut running, calm);
            }
            let mut seen = cluster.clone();
            match if calm { 4 } else { dice.roll(4) } {
                // A snapshot goes on in place of the cluster.
                0 => cluster = cluster.clone(),
                // Others are left out of what is asked about.
                1 => drop(seen.remove_pod("default", &format!("p{}", dice.roll(12)))),
                _ => {}
            }
            let seen = if dice.one_in(2) { &seen } else { &cluster };
            let gang = if calm { calm_gang } else { gang };
            let gang = gang(&mut dice, &format!("new{step}"));
            let strategy = dice.of(&[Strategy::Kubernetes, Strategy::Search]);
            let request = Request::new(&gang).strategy(strategy);
            let mut request = PreemptionRequest::new(request);
            if !calm && dice.one_in(3) {
                let moves = Consolidation::new(2);
                request =
                    request.consolidation(if dice.one_in(2) { moves.or_evict() } else { moves });
            }
            let fresh = PreemptingPlanner::new().place(seen, framework, &running, request.clone());
            let answer = warm.place(seen, framework, &running, request);
            let (fresh, answer) = (format!("{fresh:?}"), format!("{answer:?}"));
            assert_eq!(answer, fresh, "seed {seed}, step {step}: {gang:?}");
            let word = answer.split(['(', ' ', '{']).nth(1).unwrap_or_default();
            *words.entry(word.to_owned()).or_default() += 1;
        }
    }
    println!("{words:?}");
    for word in ["Placed", "Preempt", "NoVictimsHelp"] {
        assert!(words.get(word).is_some_and(|count| *count >= 20), "{words:?}");
    }
}
