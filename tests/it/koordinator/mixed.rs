//! Services and batch work on one cluster: what is measured, what lower bands may have of it, and one
//! plan for both.

use std::slice::from_ref;
use std::time::Duration;

use phalanx::laws::{check_filter, check_score};
use phalanx::model::{
    Amounts, CPU, MEMORY, NodePod, NodeUsage, Overcommit, PodShape, PriorityBand, QOS_LABEL,
    QosClass,
};
use phalanx::plugins::{Fit, LoadAwareFilter, LoadAwareScore};
use phalanx::queue::Settings;
use phalanx::{Cluster, Decision, Event, Framework, Node, Pod, PodGroup, Scheduler, Time};

use crate::tenants::scheduler::at;

const GIB: i64 = 1 << 30;
const BATCH_CPU: &str = "kubernetes.io/batch-cpu";
const BATCH_MEMORY: &str = "kubernetes.io/batch-memory";

fn amounts(cpu: i64, memory: i64) -> Amounts {
    let mut amounts = Amounts::new();
    amounts.set(CPU, cpu);
    amounts.set(MEMORY, memory);
    amounts
}

fn framework() -> Framework {
    Framework::builder()
        .filter(Fit)
        .filter(LoadAwareFilter::default())
        .score(1, LoadAwareScore::default())
        .build()
        .expect("sound")
}

fn cluster(nodes: usize) -> Cluster {
    let mut cluster = Cluster::new();
    for at in 0..nodes {
        let node = Node::new(format!("n{at}")).capacity(CPU, 100).capacity(MEMORY, "400Gi");
        cluster.add_node(node).expect("sound");
    }
    cluster
}

fn web(cores: i64) -> Pod {
    let pod = Pod::new().request(CPU, cores).request(MEMORY, "200Gi").label(QOS_LABEL, "LS");
    pod.priority(9_500).in_band(&amounts(cores * 1_000, 200 * GIB))
}

fn etl(cpu: i64) -> Pod {
    let pod = Pod::new().request(BATCH_CPU, cpu).request(BATCH_MEMORY, 10 * GIB);
    let pod = pod.label(QOS_LABEL, "BE").priority(5_500);
    let mut limits = Amounts::new();
    limits.set(BATCH_CPU, cpu);
    limits.set(BATCH_MEMORY, 10 * GIB);
    pod.in_band(&limits)
}

fn usage(node: &str, seconds: u64, mut usage: NodeUsage) -> Event {
    usage.updated = Some(at(seconds));
    let usage = Some(Box::new(usage));
    Event::NodeUsageChanged { name: node.into(), usage, version: seconds }
}

/// States the amounts that lower bands may have, as an embedder does after a report.
fn overcommit(scheduler: &mut Scheduler, node: &str, now: Time) {
    let view = scheduler.cluster().node(node).expect("there");
    let more = view.overcommitted(&Overcommit::default(), now).expect("measured");
    let mut changed = view.to_node();
    for (resource, amount) in more.iter() {
        changed.allocatable.set(resource, amount);
    }
    let event = Event::NodeChanged { node: changed, version: now.as_nanos() };
    scheduler.handle_event(event, now).expect("sound");
}

fn run(scheduler: &mut Scheduler, now: Time) -> Vec<(String, String)> {
    let mut started = Vec::new();
    while let Some(decision) = scheduler.poll_decision(now) {
        let Decision::Bind { ticket, plan, .. } = decision else { panic!("{decision:?}") };
        let pods = plan.assignments();
        started.extend(pods.map(|own| (own.pod().name.clone(), own.node().to_string())));
        scheduler.handle_bound(ticket, now).expect("known");
    }
    started
}

#[test]
fn batch_work_is_placed_by_what_services_do_not_use() {
    let mut scheduler = Scheduler::new(cluster(1), framework(), Settings::default());
    scheduler.handle_group(PodGroup::gang("web", 1).pods(1, web(80)), at(0)).expect("sound");
    assert_eq!(run(&mut scheduler, at(0)).len(), 1);
    // 80 of 100 cores are promised; batch pods ask for what is not there yet.
    scheduler.handle_group(PodGroup::gang("etl", 2).pods(2, etl(15_000)), at(1)).expect("sound");
    assert_eq!(run(&mut scheduler, at(1)), []);
    // The service uses 20. The margin is 40: there are 100 − 40 − 20 − 2 for batch pods.
    let report = |node: i64, web: i64| {
        let web = amounts(web, 40 * GIB);
        let node = NodeUsage::new(at(0), amounts(node, 42 * GIB));
        node.pod("default", "web-0", PriorityBand::Prod, web)
    };
    let day = report(22_000, 20_000);
    scheduler.handle_event(usage("n0", 120, day.clone()), at(120)).expect("sound");
    overcommit(&mut scheduler, "n0", at(120));
    let node = scheduler.cluster().node("n0").expect("there").to_node();
    assert_eq!(node.allocatable.of(BATCH_CPU), 40_000);
    assert_eq!(run(&mut scheduler, at(120)).len(), 2);
    // A third of them is beyond that.
    scheduler.handle_group(PodGroup::gang("late", 1).pods(1, etl(15_000)), at(121)).expect("sound");
    assert_eq!(run(&mut scheduler, at(121)), []);
    // The service needs less at night.
    scheduler.handle_event(usage("n0", 240, report(5_000, 4_000)), at(240)).expect("sound");
    overcommit(&mut scheduler, "n0", at(240));
    assert_eq!(run(&mut scheduler, at(240)).len(), 1);
    // A report that is older than the last says nothing.
    scheduler.handle_event(usage("n0", 120, day), at(241)).expect("sound");
    let view = scheduler.cluster().node("n0").expect("there");
    assert_eq!(view.measured().and_then(|usage| usage.updated), Some(at(240)));
}

#[test]
fn services_and_batch_work_are_one_plan() {
    let mut scheduler = Scheduler::new(cluster(2), framework(), Settings::default());
    for node in ["n0", "n1"] {
        let idle = NodeUsage::new(at(0), amounts(1_000, GIB));
        scheduler.handle_event(usage(node, 1, idle), at(1)).expect("sound");
        overcommit(&mut scheduler, node, at(1));
    }
    let front = PodGroup::gang("front", 2).pods(2, web(40));
    let work = PodGroup::gang("work", 4).pods(4, etl(12_000));
    let site = PodGroup::gang("site", 2).group(front).group(work);
    scheduler.handle_group(site, at(2)).expect("sound");
    let started = run(&mut scheduler, at(2));
    assert_eq!(started.len(), 6, "{started:?}");
    // All or nothing: there is no room for more batch work, and so the services of it do not start.
    let second = PodGroup::gang("second", 1).pods(1, web(4));
    let more = PodGroup::gang("more", 4).pods(4, etl(36_000));
    let site = PodGroup::gang("site-2", 2).group(second).group(more);
    scheduler.handle_group(site, at(3)).expect("sound");
    assert_eq!(run(&mut scheduler, at(3)), []);
    assert_eq!(scheduler.cluster().pod_count(), 6);
}

#[test]
fn busy_nodes_take_no_pods_though_there_is_room() {
    let mut scheduler = Scheduler::new(cluster(2), framework(), Settings::default());
    let busy = NodeUsage::new(at(0), amounts(70_000, GIB));
    scheduler.handle_event(usage("n0", 1, busy), at(1)).expect("sound");
    let idle = NodeUsage::new(at(0), amounts(10_000, GIB));
    scheduler.handle_event(usage("n1", 1, idle.clone()), at(1)).expect("sound");
    let pod = Pod::new().request(CPU, 20).request(MEMORY, "1Gi");
    scheduler.handle_group(PodGroup::gang("a", 2).pods(2, pod.clone()), at(2)).expect("sound");
    let nodes: Vec<String> = run(&mut scheduler, at(2)).into_iter().map(|(_, node)| node).collect();
    assert_eq!(nodes, ["n1", "n1"]);
    // 10 measured, and three times 17 estimated: the next would be the fourth, at 78.
    scheduler.handle_group(PodGroup::gang("b", 2).pods(2, pod), at(3)).expect("sound");
    assert_eq!(run(&mut scheduler, at(3)), []);
    // A report that nothing is used wakes what waits.
    scheduler.handle_event(usage("n0", 60, idle), at(60)).expect("sound");
    assert_eq!(run(&mut scheduler, at(60)).len(), 2);
}

#[test]
fn load_aware_plugins_keep_the_laws() {
    let mut cluster = cluster(4);
    cluster.add_pod(web(40).name("w").on("n0").since(at(0))).expect("sound");
    cluster.add_pod(etl(5_000).name("e").on("n1").since(at(0))).expect("sound");
    for (node, cpu) in [("n0", 30_000), ("n1", 60_000), ("n2", 90_000)] {
        let report = NodeUsage::new(at(0), amounts(cpu, 50 * GIB)).pod(
            "default",
            "w",
            PriorityBand::Prod,
            amounts(cpu / 2, 40 * GIB),
        );
        cluster.apply(usage(node, 1, report)).expect("sound");
    }
    let shapes = [web(40), etl(5_000), Pod::new().request(CPU, 10), Pod::new()];
    let shapes: Vec<_> = shapes.iter().map(|pod| PodShape::clone(pod.shape())).collect();
    assert_eq!(check_filter(LoadAwareFilter::default(), &cluster, &shapes), Ok(()));
    assert_eq!(check_score(LoadAwareScore::default(), &cluster, &shapes), Ok(()));
    // The same cluster, saved.
    let text = serde_json::to_string(&cluster).expect("serialises");
    let again: Cluster = serde_json::from_str(&text).expect("parses");
    let measured = |cluster: &Cluster| cluster.node("n1").expect("there").measured().cloned();
    assert_eq!(measured(&again), measured(&cluster));
    assert!(measured(&again).is_some());
}

#[test]
fn classes_and_bands_are_read_from_pods() {
    assert_eq!(web(40).shape().qos(), QosClass::Ls);
    assert_eq!(web(40).shape().band(), PriorityBand::Prod);
    assert_eq!(etl(1).shape().qos(), QosClass::Be);
    assert_eq!(etl(1).shape().band(), PriorityBand::Batch);
}

#[test]
fn mid_work_has_what_is_reclaimable_and_a_part_of_what_nobody_was_given() {
    let mut settings = Overcommit::default();
    (settings.mid_unallocated, settings.mid_threshold) = (50, [100; 2]);
    let capacity = amounts(100_000, 400 * GIB);
    let requests = amounts(60_000, 100 * GIB);
    let service = NodePod {
        namespace: "default",
        name: "web",
        band: Some(PriorityBand::Prod),
        qos: QosClass::Ls,
        requests: &requests,
    };
    let mut usage = NodeUsage::new(at(0), amounts(20_000, 40 * GIB));
    usage.prod_reclaimable = Some(amounts(30_000, 10 * GIB));
    let mid =
        |usage: &NodeUsage, now| settings.mid(&capacity, &capacity, from_ref(&service), usage, now);
    let of = |cpu: i64, memory: i64| {
        let name = |name: &str| PriorityBand::Mid.resource(name).expect("mid pods ask for it");
        Some(Amounts::from([(name(CPU), cpu), (name(MEMORY), memory)]))
    };
    // 30 reclaimable, and half of the 40 that nobody was given.
    assert_eq!(mid(&usage, at(1)), of(50_000, 160 * GIB));
    // No more is reclaimable than the node leaves unused.
    usage.node = Some(amounts(90_000, 395 * GIB));
    assert_eq!(mid(&usage, at(1)), of(30_000, 155 * GIB));
    // A report that lacks a resource tells nothing of what is unused.
    usage.node = Some(Amounts::from([(CPU, 20_000)]));
    assert_eq!(mid(&usage, at(1)), of(20_000, 150 * GIB));
    // Too old, or never made.
    let late = at(0).after(settings.degrade_after);
    assert!(!settings.is_degraded(&usage, late) && mid(&usage, late).is_some());
    let later = late.after(Duration::from_secs(1));
    assert!(settings.is_degraded(&usage, later) && mid(&usage, later).is_none());
    usage.updated = None;
    assert!(settings.is_degraded(&usage, at(0)) && mid(&usage, at(0)).is_none());
}
