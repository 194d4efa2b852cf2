//! Explanations: what victims are taken for, and what keeps cheaper ones; prices of chosen sets.

use std::time::Duration;

use phalanx::model::LabelSelector;
use phalanx::preempt::{
    DisruptionBudget, KeptBy, PreemptingPlanner, Preemption, PreemptionExplanation,
    PreemptionRequest, RunningWork, TakenFor,
};
use phalanx::{Cluster, Framework, Node, ObjectName, Pod, PodGroup, Request, StateError, Time};

use super::world::{GPU, NOW};

/// Full nodes, each with one pod of a group of its own, by name, priority and seconds run.
fn full(pods: &[(&str, i32, u64)]) -> (Cluster, RunningWork) {
    let (mut cluster, mut running) = (Cluster::new(), RunningWork::new());
    for (name, priority, run) in pods {
        cluster.add_node(Node::new(format!("n-{name}")).capacity(GPU, 4)).unwrap();
        let pod = Pod::new().name(*name).request(GPU, 4).label("app", *name).in_group(*name);
        let pod = pod.since(Time::from_secs(NOW - run)).priority(*priority);
        cluster.add_pod(pod.on(format!("n-{name}"))).unwrap();
        running.set_group(&group(name, *priority)).unwrap();
    }
    (cluster, running)
}

fn group(name: &str, priority: i32) -> PodGroup {
    PodGroup::gang(name, 1).priority(priority).evicted_whole()
}

fn gang(members: usize) -> PodGroup {
    let pod = Pod::new().request(GPU, 4);
    PodGroup::gang("new", members as u32).pods(members, pod).priority(10)
}

fn explain(cluster: &Cluster, running: &RunningWork, gang: &PodGroup) -> PreemptionExplanation {
    let request = Request::new(gang).now(Time::from_secs(NOW));
    let framework = Framework::default();
    PreemptingPlanner::new().explain(cluster, &framework, running, request).unwrap()
}

fn taken(why: &PreemptionExplanation) -> Vec<&str> {
    why.taken.iter().map(|taken| taken.victim.name.as_str()).collect()
}

type KeptAndOthers<'a> = (Vec<(&'a str, &'a KeptBy)>, Vec<&'a str>);

/// The sets of an explanation: the kept units with what keeps them, and the others.
fn instead(why: &PreemptionExplanation) -> Vec<KeptAndOthers<'_>> {
    let sets = why.instead.iter().map(|set| {
        let kept = set.kept.iter().map(|kept| (kept.unit.name.as_str(), &kept.by)).collect();
        (kept, set.others.iter().map(|unit| unit.name.as_str()).collect())
    });
    sets.collect()
}

#[test]
fn room_is_what_most_victims_are_taken_for() {
    let (cluster, running) = full(&[("a", 1, 50), ("b", 2, 10), ("c", 3, 10)]);
    let why = explain(&cluster, &running, &gang(2));
    assert_eq!(taken(&why), ["default/b", "default/a"]);
    let room = TakenFor::Room { nodes: vec!["n-b".into()], members: 1 };
    assert_eq!(why.taken[0].reason, room);
    // Nothing is kept by a rule: what costs less does not suffice.
    assert_eq!(instead(&why), []);
    let text = why.to_string();
    for part in ["default/b (priority 2, 1 pod): makes room for 1 member on n-b", "costs less"] {
        assert!(text.contains(part), "{text}");
    }
}

#[test]
fn units_that_are_protected_are_named_with_what_protects_them() {
    let (cluster, mut running) = full(&[("a", 5, 50), ("b", 1, 10), ("c", 1, 20)]);
    let mut kept = group("b", 1);
    kept.non_preemptible = true;
    running.set_group(&kept).unwrap();
    let mut kept = group("c", 1);
    kept.min_run_time = Some(Duration::from_secs(60));
    running.set_group(&kept).unwrap();
    let why = explain(&cluster, &running, &gang(1));
    assert_eq!(taken(&why), ["default/a"]);
    assert_eq!(instead(&why), [(vec![("default/b", &KeptBy::NonPreemptible)], vec![])]);
    // Two are needed: the other protected one is worth more than what may be taken.
    let why = explain(&cluster, &running, &gang(2));
    let until = KeptBy::MinRunTime { until: Time::from_secs(NOW + 40) };
    let both = vec![("default/b", &KeptBy::NonPreemptible), ("default/c", &until)];
    assert_eq!(instead(&why), [(both, vec![])]);
    assert!(why.taken.is_empty() && why.to_string().contains("ends at 1040 s"), "{why}");
}

#[test]
fn budgets_that_keep_cheaper_units_are_named() {
    let (cluster, mut running) = full(&[("a", 5, 50), ("b", 1, 10)]);
    running.set_budget(DisruptionBudget::new("web", LabelSelector::label("app", "b"), 0));
    let why = explain(&cluster, &running, &gang(1));
    assert_eq!(taken(&why), ["default/a"]);
    let by = KeptBy::Budget { budget: ObjectName::new("default", "web"), allowed: 0 };
    assert_eq!(instead(&why), [(vec![("default/b", &by)], vec![])]);
    assert!(why.to_string().contains("budget default/web allows 0 disruptions now"), "{why}");
    // Where the budget has to be broken it keeps nothing.
    assert_eq!(instead(&explain(&cluster, &running, &gang(2))), []);
}

#[test]
fn priorities_that_are_too_high_are_named_where_nothing_lower_helps() {
    let (cluster, running) = full(&[("a", 5, 50), ("b", 10, 10), ("c", 20, 1)]);
    let why = explain(&cluster, &running, &gang(2));
    assert!(matches!(why.answer, Preemption::NoVictimsHelp(_)) && why.taken.is_empty());
    let set = (vec![("default/b", &KeptBy::Priority)], vec!["default/a"]);
    assert_eq!(instead(&why), [set]);
    let text = why.to_string();
    assert!(text.contains("its priority is not low enough\n  and one that may be taken"), "{text}");
}

#[test]
fn members_that_fall_with_others_say_so() {
    let mut cluster = Cluster::new();
    for node in ["n1", "n2"] {
        cluster.add_node(Node::new(node).capacity(GPU, 4).label("pool", node)).unwrap();
        let pod = Pod::new().name(format!("on-{node}")).in_group("old").request(GPU, 4);
        cluster.add_pod(pod.on(node)).unwrap();
    }
    let mut running = RunningWork::new();
    running.set_group(&PodGroup::gang("old", 2)).unwrap();
    let why = explain(&cluster, &running, &gang(1));
    assert_eq!(taken(&why), ["default/on-n1", "default/on-n2"]);
    let reasons: Vec<&TakenFor> = why.taken.iter().map(|taken| &taken.reason).collect();
    let room = TakenFor::Room { nodes: vec!["n1".into()], members: 1 };
    assert_eq!(reasons, [&room, &TakenFor::Minimum]);
}

#[test]
fn what_fits_needs_no_explanation() {
    let mut cluster = Cluster::new();
    cluster.add_node(Node::new("n").capacity(GPU, 4)).unwrap();
    let why = explain(&cluster, &RunningWork::new(), &gang(1));
    assert!(matches!(why.answer, Preemption::Placed(_)));
    assert!(why.taken.is_empty() && why.instead.is_empty());
}

#[test]
fn prices_of_pods_that_do_not_run_are_errors_that_name_them() {
    let (cluster, running) = full(&[("a", 5, 50)]);
    let gang = gang(1);
    let request = PreemptionRequest::new(Request::new(&gang).now(Time::from_secs(NOW)));
    let price = |pod: &str| request.cost_of(&cluster, &running, [("default", pod)]);
    assert_eq!(price("b"), Err(StateError::UnknownPod(ObjectName::new("default", "b"))));
    assert_eq!(price("a").map(|cost| (cost.units, cost.work_lost)), Ok((1, 50_000)));
    let twice = [("default", "a"), ("default", "a")];
    assert_eq!(request.cost_of(&cluster, &running, twice), price("a"));
}
