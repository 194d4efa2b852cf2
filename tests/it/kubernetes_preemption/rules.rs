//! Rules that the recorded answers show seldom or never.

use phalanx::model::{DisruptionMode, LabelSelector};
use phalanx::preempt::kubernetes::{
    DryRunFailure, GroupRefusal, Ineligible, OwnNomination, PodPreemption, PreemptionSnapshot,
    preempt_group, preempt_pod, preempt_pod_by_pod, schedule_group, schedule_pod,
};
use phalanx::preempt::{DisruptionBudget, RunningWork};
use phalanx::{Cluster, Framework, Node, PlaceError, Pod, PodGroup, Time};

fn node(name: &str, cpu: i64) -> Node {
    Node::new(name).capacity("cpu", cpu).capacity("pods", 20).label("host", name)
}

fn pod(name: &str, priority: i32, cpu: i64) -> Pod {
    Pod::new().name(name).priority(priority).request("cpu", cpu).since(Time::from_secs(10))
}

fn cluster(nodes: &[Node], pods: &[Pod]) -> Cluster {
    let mut cluster = Cluster::new();
    for node in nodes {
        cluster.add_node(node.clone()).unwrap();
    }
    for pod in pods {
        cluster.add_pod(pod.clone()).unwrap();
    }
    cluster
}

fn preempt(snapshot: &PreemptionSnapshot<'_>, pod: &Pod) -> PodPreemption {
    let attempt = schedule_pod(snapshot, pod).unwrap();
    assert!(attempt.feasible().is_empty());
    preempt_pod(snapshot, pod, &attempt).unwrap()
}

/// The chosen node and its victims.
fn choice(answer: &PodPreemption) -> (String, Vec<String>) {
    let chosen = answer.chosen().expect("preemption helps");
    let victims = chosen.victims().iter().map(|victim| victim.pod.name.clone());
    (chosen.node().to_string(), victims.collect())
}

const NOW: Time = Time::from_secs(100);

#[test]
fn of_two_pods_with_one_port_the_first_to_leave_frees_it() {
    let low = pod("low", 1, 1).host_port("TCP", 80).on("n");
    let high = pod("high", 9, 1).host_port("TCP", 80).on("n");
    let cluster = cluster(&[node("n", 8)], &[low, high]);
    let (framework, running) = (Framework::kubernetes(), RunningWork::new());
    let snapshot = PreemptionSnapshot::new(&cluster, &framework, &running, NOW);
    let answer = preempt(&snapshot, &pod("p", 5, 1).host_port("TCP", 80));
    assert_eq!(choice(&answer), ("n".into(), vec!["low".into()]));
    // Afterwards `high` still holds it: the next attempt finds no room, and nobody to preempt.
    let mut after = snapshot.clone();
    after.remove("default", "low").unwrap();
    let answer = preempt(&after, &pod("p", 5, 1).host_port("TCP", 80));
    assert_eq!(answer.failed()["n"], DryRunFailure::NoVictims);
    assert_eq!(answer.own_nomination(), OwnNomination::Cleared);
}

#[test]
fn criteria_are_asked_in_order() {
    let one = |pods: Vec<Pod>| {
        let nodes = [node("a", 2), node("b", 2)];
        let cluster = cluster(&nodes, &pods);
        let framework = Framework::kubernetes();
        let mut running = RunningWork::new();
        let guarded = LabelSelector::label("guarded", "yes");
        running.set_budget(DisruptionBudget::new("d", guarded, 0));
        let snapshot = PreemptionSnapshot::new(&cluster, &framework, &running, NOW);
        choice(&preempt(&snapshot, &pod("p", 10, 2))).0
    };
    let guarded = |pod: Pod| pod.label("guarded", "yes");
    // Budgets before priorities.
    assert_eq!(one(vec![guarded(pod("v", 1, 2)).on("a"), pod("w", 9, 2).on("b")]), "b");
    // The highest priority before the number.
    let pair = [pod("w", 1, 1).on("b"), pod("x", 1, 1).on("b")];
    assert_eq!(one([vec![pod("v", 2, 2).on("a")], pair.to_vec()].concat()), "b");
    // The number before the rest of the priorities.
    let pair = [pod("w", 2, 1).on("b"), pod("x", -9, 1).on("b")];
    assert_eq!(one([vec![pod("v", 2, 2).on("a")], pair.to_vec()].concat()), "a");
    // The younger goes; a pod that has not started is the youngest.
    let mut young = pod("v", 1, 2).on("a");
    young.start = Some(Time::from_secs(20));
    assert_eq!(one(vec![young.clone(), pod("w", 1, 2).on("b")]), "a");
    let mut absent = pod("w", 1, 2).on("b");
    absent.start = None;
    assert_eq!(one(vec![young, absent]), "b");
    // Nothing left: the first in node order.
    assert_eq!(one(vec![pod("v", 1, 2).on("a"), pod("w", 1, 2).on("b")]), "a");
}

#[test]
fn nominated_pods_count_unless_they_are_less_important() {
    let cluster = cluster(&[node("n", 4)], &[pod("v", 1, 2).on("n")]);
    let (framework, running) = (Framework::kubernetes(), RunningWork::new());
    let snapshot = |nominee: Pod| {
        let mut snapshot = PreemptionSnapshot::new(&cluster, &framework, &running, NOW);
        snapshot.nominate(&nominee, "n").unwrap();
        snapshot
    };
    // One of equal priority takes the room that is left, so the running pod has to go.
    let equal = snapshot(pod("q", 5, 2));
    assert_eq!(choice(&preempt(&equal, &pod("p", 5, 2))).1, ["v"]);
    // A less important one is passed over.
    let less = snapshot(pod("q", 4, 2));
    assert_eq!(schedule_pod(&less, &pod("p", 5, 2)).unwrap().chosen(), Some("n"));
    // It loses its nomination to a pod that preempts.
    let answer = preempt(&less, &pod("p", 5, 4));
    assert_eq!(answer.cleared_nominations()[0].name, "q");
    // The pod itself is not counted twice, and goes to its node before others are tried.
    let own = snapshot(pod("p", 5, 2));
    assert_eq!(schedule_pod(&own, &pod("p", 5, 2)).unwrap().feasible(), ["n"]);
}

#[test]
fn what_follows_is_applied_and_a_pod_waits_for_its_victims() {
    let cluster =
        cluster(&[node("n", 2), node("m", 2)], &[pod("v", 1, 2).on("n"), pod("w", 9, 2).on("m")]);
    let (framework, running) = (Framework::kubernetes(), RunningWork::new());
    let mut snapshot = PreemptionSnapshot::new(&cluster, &framework, &running, NOW);
    let p = pod("p", 5, 2);
    let answer = preempt(&snapshot, &p);
    snapshot.apply(&p, &answer).unwrap();
    assert_eq!(snapshot.nominations()[0].node, "n");
    let again = preempt(&snapshot, &p);
    assert_eq!(again.ineligible(), Some(Ineligible::TerminatingVictim));
    assert_eq!(again.own_nomination(), OwnNomination::Unchanged);
    // It does not wait for one that is as important as it is.
    let nodes = [node("n", 2)];
    let equal = self::cluster(&nodes, &[pod("v", 5, 1).on("n"), pod("w", 1, 1).on("n")]);
    let mut other = PreemptionSnapshot::new(&equal, &framework, &running, NOW);
    other.nominate(&p, "n").unwrap();
    other.preempt("default", "v").unwrap();
    assert_eq!(preempt(&other, &p).ineligible(), None);
    // A more important pod takes the same victim, which is not evicted twice.
    let answer = preempt(&snapshot, &pod("q", 8, 2));
    assert_eq!(choice(&answer), ("n".into(), vec!["v".into()]));
    assert!(answer.deleted().is_empty());
    assert_eq!(answer.cleared_nominations()[0].name, "p");
    let never = pod("r", 8, 2).never_preempting();
    assert_eq!(preempt(&snapshot, &never).ineligible(), Some(Ineligible::PreemptionPolicyNever));
    // The cluster that the snapshot was made of is as it was.
    assert!(!cluster.pod("default", "v").unwrap().deleting());
}

#[test]
fn groups_are_refused_or_take_whole_units() {
    let nodes = [node("a", 4), node("b", 4)];
    let member = |name: &str, on: &str| pod(name, 50, 2).in_group("old").on(on);
    let pods =
        [member("o1", "a"), member("o2", "b"), pod("x", 3, 2).on("a"), pod("y", 2, 2).on("b")];
    let cluster = cluster(&nodes, &pods);
    let framework = Framework::kubernetes();
    let mut running = RunningWork::new();
    let mut old = PodGroup::gang("old", 1).priority(1);
    old.disruption = DisruptionMode::All;
    running.set_group(&old).unwrap();
    let snapshot = PreemptionSnapshot::new(&cluster, &framework, &running, NOW);

    let gang = PodGroup::gang("new", 3).priority(9).pods(3, pod("", 4, 2));
    let names = |gang: &PodGroup| -> Vec<String> {
        let answer = preempt_group(&snapshot, gang).unwrap();
        answer.victims().iter().map(|victim| victim.pod.name.clone()).collect()
    };
    assert!(!schedule_group(&snapshot, &gang).unwrap().is_feasible());
    // The group's priority is below its members' own, and it goes whole.
    assert_eq!(names(&gang), ["y", "o1", "o2"]);
    // Pod by pod the members' own priorities count, and one pod of the group stays out of reach.
    let by_pod = preempt_pod_by_pod(&snapshot, &gang).unwrap();
    assert!(!by_pod.helps());
    let deleted: Vec<&str> = by_pod.deleted().iter().map(|pod| &*pod.name).collect();
    assert_eq!(deleted, ["x", "y"]);

    let refusal = |gang: &PodGroup| preempt_group(&snapshot, gang).unwrap().refusal();
    assert_eq!(refusal(&gang.clone().require("host")), Some(GroupRefusal::TopologyConstraint));
    let mut never = gang.clone();
    never.pods[2] = never.pods[2].clone().never_preempting();
    assert_eq!(refusal(&never), Some(GroupRefusal::PreemptionPolicyNever));
    assert_eq!(refusal(&gang.clone().priority(1)), Some(GroupRefusal::NoVictims));
    let large = PodGroup::gang("new", 5).priority(9).pods(5, pod("", 4, 2));
    assert_eq!(refusal(&large), Some(GroupRefusal::DoesNotFit));

    let nested = PodGroup::basic("outer").group(gang.clone());
    assert!(matches!(preempt_group(&snapshot, &nested), Err(PlaceError::Unsupported { .. })));
    let bound = PodGroup::gang("new", 1).pod(pod("x", 1, 1));
    assert!(matches!(preempt_group(&snapshot, &bound), Err(PlaceError::AlreadyBound(_))));
}

#[test]
fn a_domain_is_a_cluster_of_its_own() {
    let nodes = [node("a", 4), node("b", 2)];
    let cluster = cluster(&nodes, &[pod("x", 1, 4).on("a"), pod("y", 1, 2).on("b")]);
    let (framework, running) = (Framework::kubernetes(), RunningWork::new());
    let snapshot = PreemptionSnapshot::new(&cluster, &framework, &running, NOW);
    let gang = PodGroup::gang("g", 2).priority(9).pods(2, pod("", 9, 1));
    let inner = snapshot.within("host", "b").unwrap();
    assert_eq!((inner.cluster().node_count(), inner.cluster().pod_count()), (1, 1));
    assert_eq!(preempt_group(&inner, &gang).unwrap().victims()[0].pod.name, "y");
    assert_eq!(snapshot.cluster().node_count(), 2);
    assert!(snapshot.clone().remove("default", "z").is_err());
}

#[test]
fn units_against_a_budget_come_back_first_and_those_taken_are_counted() {
    let nodes = [node("a", 2), node("b", 2), node("c", 2)];
    let guarded = |name: &str, priority| pod(name, priority, 2).label("guarded", "yes");
    let pods = [guarded("v", 3).on("a"), guarded("w", 2).on("b"), pod("x", 1, 2).on("c")];
    let cluster = cluster(&nodes, &pods);
    let (framework, mut running) = (Framework::kubernetes(), RunningWork::new());
    running.set_budget(DisruptionBudget::new("d", LabelSelector::label("guarded", "yes"), 1));
    let snapshot = PreemptionSnapshot::new(&cluster, &framework, &running, NOW);
    let answer = |members: usize| {
        let gang = PodGroup::gang("new", members as u32).priority(9).pods(members, pod("", 9, 2));
        let answer = preempt_group(&snapshot, &gang).unwrap();
        let names = answer.victims().iter().map(|victim| victim.pod.name.clone());
        (names.collect::<Vec<_>>(), answer.pdb_violations())
    };
    // The budget has room for the more important one.
    assert_eq!(answer(1), (vec!["x".to_string()], 0));
    assert_eq!(answer(2), (vec!["v".to_string(), "x".into()], 0));
    assert_eq!(answer(3), (vec!["v".to_string(), "w".into(), "x".into()], 1));
}

#[test]
fn pod_by_pod_a_group_waits_for_its_victims_if_it_fits_then() {
    let cluster = cluster(&[node("a", 2)], &[pod("x", 1, 2).on("a")]);
    let (framework, running) = (Framework::kubernetes(), RunningWork::new());
    let snapshot = PreemptionSnapshot::new(&cluster, &framework, &running, NOW);
    for (members, helps) in [(1, true), (2, false)] {
        let gang = PodGroup::gang("new", members).priority(9);
        let gang = gang.pods(members as usize, pod("", 9, 2));
        let answer = preempt_pod_by_pod(&snapshot, &gang).unwrap();
        assert_eq!(answer.helps(), helps, "{members}");
        // Evicted for nothing where it does not.
        assert_eq!(answer.deleted()[0].name, "x");
    }
}
