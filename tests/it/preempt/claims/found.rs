//! Wrong claims that were found, as worlds of their own.

use phalanx::model::LabelSelector;
use phalanx::preempt::{
    DisruptionBudget, NoVictims, OtherQueues, PreemptingPlanner, Preemption, PreemptionRequest,
    RunningWork,
};
use phalanx::{Cluster, Framework, Node, Pod, PodGroup, Request, Strategy, Time};

const NOW: Time = Time::from_secs(1_000);

/// Nodes in one rack: name, cpu, gpu.
fn cluster(nodes: &[(&str, i64, i64)]) -> Cluster {
    let mut cluster = Cluster::builder().levels(["rack"]).build().unwrap();
    for &(name, cpu, gpu) in nodes {
        let node = Node::new(name).capacity("cpu", cpu).capacity("gpu", gpu);
        cluster.add_node(node.label("rack", "k").label("host", name)).unwrap();
    }
    cluster
}

fn pod(name: &str, (cpu, gpu): (i64, i64), start: u64) -> Pod {
    let pod = Pod::new().name(name).request("cpu", cpu).request("gpu", gpu);
    pod.since(Time::from_secs(start))
}

fn place(cluster: &Cluster, running: &RunningWork, request: PreemptionRequest<'_>) -> Preemption {
    let framework = Framework::default();
    PreemptingPlanner::new().place(cluster, &framework, running, request).unwrap()
}

fn ask(gang: &PodGroup) -> PreemptionRequest<'_> {
    PreemptionRequest::new(Request::new(gang).now(NOW).strategy(Strategy::Search))
}

fn victims(answer: &Preemption) -> Vec<&str> {
    let preempt = answer.preempt().unwrap_or_else(|| panic!("{answer}"));
    assert!(preempt.is_least(), "{answer}");
    preempt.victims.iter().map(|victim| victim.name.as_str()).collect()
}

/// One node lacks GPUs alone, the other CPU alone. The bound on members saw one of them.
#[test]
fn nodes_that_lack_different_resources_both_count() {
    let mut cluster = cluster(&[("n1", 3, 2), ("n2", 6, 1)]);
    let pods = [
        (pod("r1a", (0, 1), 990).label("app", "a"), "n1"),
        (pod("r1b", (0, 1), 500), "n1"),
        (pod("r2a", (3, 0), 990).label("app", "a"), "n2"),
        (pod("r2b", (3, 0), 600), "n2"),
    ];
    for (pod, node) in pods {
        cluster.add_pod(pod.on(node)).unwrap();
    }
    let gang = PodGroup::gang("new", 2).pods(2, Pod::new().request("cpu", 3).request("gpu", 1));
    let gang = gang.priority(1).require("rack");
    for (allowed, expected) in [
        (2, ["default/r1a", "default/r2a"]),
        (1, ["default/r1a", "default/r2b"]),
        (0, ["default/r1b", "default/r2b"]),
    ] {
        let mut running = RunningWork::new();
        running.set_budget(DisruptionBudget::new("b", LabelSelector::label("app", "a"), allowed));
        assert_eq!(victims(&place(&cluster, &running, ask(&gang))), expected, "{allowed}");
    }
}

/// The member of lower priority makes room, and its minimum takes one of higher priority along.
#[test]
fn a_group_of_mixed_priorities_goes_at_its_higher_one() {
    for higher in ["n1", "n2"] {
        let mut cluster = cluster(&[("n1", 4, 0), ("n2", 4, 0)]);
        cluster.add_pod(pod("low", (4, 0), 900).in_group("old").on("n1")).unwrap();
        let high = pod("high", (0, 0), 900).in_group("old").priority(2);
        cluster.add_pod(high.on(higher)).unwrap();
        cluster.add_pod(pod("kept", (4, 0), 0).priority(9).on("n2")).unwrap();
        let mut running = RunningWork::new();
        running.set_group(&PodGroup::gang("old", 2)).unwrap();
        let gang = PodGroup::gang("new", 1).pods(1, Pod::new().request("cpu", 4)).priority(3);
        let answer = place(&cluster, &running, ask(&gang));
        assert_eq!(victims(&answer), ["default/high", "default/low"]);
    }
}

/// A third pod suffices alone with the group; the pod beside it need not go.
#[test]
fn no_victim_too_many_beside_a_group_of_mixed_priorities() {
    let mut cluster = cluster(&[("n0", 5, 2), ("n1", 2, 3)]);
    cluster.add_pod(pod("r0", (0, 1), 0).on("n0")).unwrap();
    let g0 = |pod: Pod| pod.in_group("g0");
    cluster.add_pod(g0(pod("r1", (2, 0), 1_000)).on("n1")).unwrap();
    cluster.add_pod(g0(pod("r7", (0, 1), 0).priority(2)).on("n0")).unwrap();
    let mut running = RunningWork::new();
    running.set_group(&PodGroup::gang("g0", 2)).unwrap();
    let gang = PodGroup::gang("new", 1).pods(1, Pod::new().request("cpu", 2).request("gpu", 2));
    let gang = gang.priority(3);
    // Without `r0`: the group makes room on `n1`.
    assert_eq!(victims(&place(&cluster, &running, ask(&gang))), ["default/r7", "default/r1"]);
}

/// One of two members that go together is kept. The other is in no set that may be taken.
#[test]
fn a_certificate_keeps_what_its_minimum_keeps() {
    let mut cluster = cluster(&[("n1", 4, 0), ("n2", 8, 0)]);
    cluster.add_pod(pod("free", (4, 0), 0).in_group("old").on("n1")).unwrap();
    cluster.add_pod(pod("kept", (8, 0), 0).in_group("old").priority(9).on("n2")).unwrap();
    let mut running = RunningWork::new();
    running.set_group(&PodGroup::gang("old", 2)).unwrap();
    let gang = PodGroup::gang("new", 1).pods(1, Pod::new().request("cpu", 4)).priority(1);
    let answer = place(&cluster, &running, ask(&gang));
    let Preemption::NoVictimsHelp(help) = answer else { panic!("{answer}") };
    assert_eq!(help.reason, NoVictims::NoUnits);
    let txn = ask(&gang).without_all(&cluster, &running).unwrap();
    assert_eq!(txn.pod_count(), 2);
    let certificate = help.certificate.unwrap();
    assert!(certificate.verify(&txn, &Framework::default(), &gang).is_ok());
}

/// Pods that terminate are gone in the certificate's cluster, whether units may be taken or not.
#[test]
fn a_certificate_is_about_the_cluster_without_terminating_pods() {
    let mut cluster = cluster(&[("n1", 4, 0)]);
    let mut going = pod("going", (2, 0), 0);
    going.deleting = true;
    cluster.add_pod(going.on("n1")).unwrap();
    cluster.add_pod(pod("kept", (2, 0), 0).on("n1")).unwrap();
    let gang = PodGroup::gang("new", 1).pods(1, Pod::new().request("cpu", 4)).queue("q");
    let mut running = RunningWork::new();
    running.set_group(&PodGroup::gang("old", 1).queue("q")).unwrap();
    for request in [ask(&gang), ask(&gang).policy(&OtherQueues)] {
        let answer = place(&cluster, &running, request.clone());
        if let Preemption::NoVictimsHelp(help) = &answer {
            let txn = request.without_all(&cluster, &running).unwrap();
            let proof = help.certificate.as_ref().unwrap();
            assert!(proof.verify(&txn, &Framework::default(), &gang).is_ok(), "{answer}");
        } else {
            assert_eq!(victims(&answer), ["default/kept"]);
        }
    }
}

/// One of two groups inside is needed. Its pods go to a node that the pods counted for certain may
/// not use.
#[test]
fn nodes_count_that_only_pods_in_doubt_may_use() {
    let mut cluster = cluster(&[("n1", 2, 0), ("n2", 2, 0)]);
    cluster.add_pod(pod("old", (2, 0), 0).on("n1")).unwrap();
    let on = |host: &str| Pod::new().request("cpu", 2).node_selector("host", host);
    let first = PodGroup::gang("first", 1).pods(1, on("n1"));
    let other = |name: &str| PodGroup::gang(name, 1).pods(1, on("n2"));
    let either = PodGroup::gang("either", 1).group(other("a")).group(other("b"));
    let gang = PodGroup::gang("new", 2).group(first).group(either).priority(1);
    let answer = place(&cluster, &RunningWork::new(), ask(&gang));
    assert_eq!(victims(&answer), ["default/old"]);
}
