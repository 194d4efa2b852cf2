//! Answers in words and plans, and policies: what they are told of a unit, and what they count.

use std::sync::{Arc, Mutex};

use phalanx::preempt::{
    Candidate, Checkpoints, LowerPriority, NoVictims, Policy, PreemptingPlanner, Preemption,
    PreemptionRequest, Preemptor, RunningWork,
};
use phalanx::{Cluster, Framework, Node, Pod, PodGroup, Request, Strategy, Time};

use super::world::GPU;

const NOW: Time = Time::from_secs(1_000);

/// A node that gangs of three pods fill, evicted whole: by name, priority, start and checkpoints in
/// seconds.
fn full(gangs: &[(&str, i32, u64, Option<u64>)]) -> (Cluster, RunningWork) {
    let (mut cluster, mut running) = (Cluster::new(), RunningWork::new());
    for (name, priority, start, checkpoints) in gangs {
        cluster.add_node(Node::new(format!("n-{name}")).capacity(GPU, 3)).unwrap();
        running.set_group(&PodGroup::gang(*name, 3).priority(*priority).evicted_whole()).unwrap();
        for member in 0..3 {
            let pod = Pod::new().name(format!("{name}-{member}")).request(GPU, 1).in_group(*name);
            let pod = pod.priority(*priority).since(Time::from_secs(*start));
            let pod = match checkpoints {
                Some(seconds) => pod.label("checkpoints", seconds.to_string()),
                None => pod,
            };
            cluster.add_pod(pod.on(format!("n-{name}"))).unwrap();
        }
    }
    (cluster, running)
}

fn gang(priority: i32) -> PodGroup {
    PodGroup::gang("new", 1).pods(1, Pod::new().request(GPU, 3)).priority(priority)
}

fn ask(
    (cluster, running): &(Cluster, RunningWork),
    gang: &PodGroup,
    policy: &dyn Policy,
) -> Preemption {
    let request = PreemptionRequest::new(Request::new(gang).now(NOW)).policy(policy);
    PreemptingPlanner::new().place(cluster, &Framework::default(), running, request).unwrap()
}

#[test]
fn an_answer_has_the_plan_that_its_victims_make_room_for() {
    let world = full(&[("a", 0, 0, None)]);
    let answer = ask(&world, &gang(1), &LowerPriority);
    let preempt = answer.preempt().expect("one goes");
    assert_eq!(answer.plan(), Some(&preempt.plan));
    assert_eq!(preempt.plan.assignments().map(|own| own.node()).collect::<Vec<_>>(), ["n-a"]);
    let mut free = world.0.clone();
    free.add_node(Node::new("free").capacity(GPU, 3)).unwrap();
    let placed = ask(&(free, world.1.clone()), &gang(1), &LowerPriority);
    assert_eq!(placed.plan().map(|plan| plan.assignments().next().unwrap().node()), Some("free"));
    assert!(placed.preempt().is_none());
    let refused = ask(&world, &gang(0), &LowerPriority);
    assert!(refused.plan().is_none() && refused.preempt().is_none());
    let text = refused.to_string();
    assert_eq!(text, "default/new: no victims help: there is no unit that may be taken");
}

#[test]
fn each_reason_says_something_of_its_own() {
    let reasons = [
        NoVictims::PreemptionPolicyNever,
        NoVictims::NoUnits,
        NoVictims::NotEntitled,
        NoVictims::NoMoves,
        NoVictims::DoesNotFit,
    ];
    let mut texts: Vec<String> = reasons.iter().map(ToString::to_string).collect();
    assert!(texts.iter().all(|text| text.len() > 20), "{texts:?}");
    texts.sort();
    texts.dedup();
    assert_eq!(texts.len(), reasons.len());
}

#[test]
fn each_pod_of_a_unit_loses_its_work_since_its_last_checkpoint() {
    let policy = Checkpoints::new(LowerPriority, "checkpoints");
    let lost = |start: u64, checkpoints: Option<u64>| {
        let world = full(&[("a", 0, start, checkpoints)]);
        ask(&world, &gang(1), &policy).preempt().expect("one goes").cost.work_lost
    };
    // Three pods that have run for 1,000 seconds, in milliseconds.
    assert_eq!(lost(0, None), 3_000_000);
    assert_eq!(lost(0, Some(300)), 300_000);
    assert_eq!(lost(0, Some(1_000)), 0);
    assert_eq!(lost(0, Some(1_001)), 3_000_000);
    assert_eq!(lost(960, Some(300)), 120_000);
    // No positive whole number of seconds: all is lost.
    assert_eq!(lost(0, Some(0)), 3_000_000);
}

#[test]
fn checkpoints_allow_whom_the_inner_policy_allows() {
    let policy = Checkpoints::new(LowerPriority, "checkpoints");
    // The older one saves, and has lost less.
    let world = full(&[("saves", 7, 0, Some(990)), ("young", 7, 900, None)]);
    let answer = ask(&world, &gang(8), &policy);
    assert_eq!(answer.preempt().expect("one goes").victims[0].name, "default/saves");
    for priority in [-3, 0, 7] {
        let answer = ask(&world, &gang(priority), &policy);
        assert!(matches!(answer, Preemption::NoVictimsHelp(_)), "{priority}: {answer}");
    }
}

/// Writes down what it is told.
#[derive(Debug, Default)]
struct Listens(Arc<Mutex<Vec<String>>>);

impl Policy for Listens {
    fn allows(&self, _: &Preemptor<'_>, unit: &Candidate<'_>) -> bool {
        self.0.lock().unwrap().push(format!("{unit:?}"));
        true
    }
}

#[test]
fn a_unit_shows_its_priority_its_group_and_how_many_pods_it_has() {
    let policy = Listens::default();
    let answer = ask(&full(&[("a", -4, 0, None)]), &gang(1), &policy);
    assert!(answer.preempt().is_some());
    let told = policy.0.lock().unwrap();
    assert!(!told.is_empty());
    for text in &*told {
        assert!(text.starts_with("Candidate { priority: -4, group: Some("), "{text}");
        assert!(text.contains("name: \"a\"") && text.contains("pods: 3"), "{text}");
    }
}

#[test]
fn a_gang_that_goes_whole_has_its_own_priority_and_not_that_of_its_pods() {
    let (mut cluster, mut running) = full(&[("a", 1, 0, None)]);
    for member in 0..3 {
        let name = format!("a-{member}");
        cluster.remove_pod("default", &name).unwrap();
        let pod = Pod::new().name(name).request(GPU, 1).in_group("a").priority(5);
        cluster.add_pod(pod.on("n-a")).unwrap();
    }
    let victims = |running: &RunningWork, priority| {
        let answer = ask(&(cluster.clone(), running.clone()), &gang(priority), &LowerPriority);
        answer.preempt().map_or(0, |preempt| preempt.victims.len())
    };
    assert_eq!([1, 2, 5, 6].map(|priority| victims(&running, priority)), [0, 1, 1, 1]);
    // Set again with another priority, and forgotten: then each pod stands for itself.
    let group = |priority| PodGroup::gang("a", 3).priority(priority).evicted_whole();
    running.set_group(&group(4)).unwrap();
    assert_eq!([2, 4, 5].map(|priority| victims(&running, priority)), [0, 0, 1]);
    running.set_group(&PodGroup::gang("other", 1).priority(4)).unwrap();
    assert!(running.remove_group("default", "other") && !running.remove_group("default", "other"));
    assert_eq!([2, 4, 5].map(|priority| victims(&running, priority)), [0, 0, 1]);
    assert!(running.remove_group("default", "a"));
    assert_eq!([2, 4, 5, 6].map(|priority| victims(&running, priority)), [0, 0, 0, 3]);
}

/// Racks of one name in two zones are one rack to Kubernetes, and two to the search. The search for victims took
/// them for two in any case, and found none.
#[test]
fn domains_are_those_of_the_strategy_that_places() {
    let mut cluster = Cluster::builder().levels(["zone", "rack"]).build().unwrap();
    for zone in ["a", "b"] {
        let node = Node::new(format!("n-{zone}")).label("zone", zone).label("rack", "r");
        cluster.add_node(node.capacity(GPU, 1)).unwrap();
    }
    cluster.add_pod(Pod::new().name("old").request(GPU, 1).on("n-a")).unwrap();
    let gang = PodGroup::of("new", 2, Pod::new().request(GPU, 1)).require("rack").priority(1);
    let mut planner = PreemptingPlanner::new();
    for (strategy, helps) in
        [(Strategy::Search, false), (Strategy::Kubernetes, true), (Strategy::Search, false)]
    {
        let request = PreemptionRequest::new(Request::new(&gang).strategy(strategy));
        let framework = Framework::default();
        let answer = planner.place(&cluster, &framework, &RunningWork::new(), request).unwrap();
        assert_eq!(answer.preempt().is_some(), helps, "{strategy:?}: {answer}");
    }
}
