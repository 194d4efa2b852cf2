//! Names: every public name stands for one thing, so that modules can be imported whole.
#![allow(unused_imports, reason = "modules are imported whole, whatever is named of them")]

use std::time::Duration;

use phalanx::autoscale::*;
use phalanx::claims::*;
use phalanx::framework::*;
use phalanx::kubernetes::*;
use phalanx::model::*;
use phalanx::place::*;
use phalanx::plugins::*;
use phalanx::preempt::*;
use phalanx::queue::*;
use phalanx::quota::*;
use phalanx::reclaim::*;
use phalanx::simulate::*;
use phalanx::state::*;
use phalanx::*;

/// A name that two of the modules above export is an error here.
#[test]
fn modules_imported_whole_do_not_collide() {
    fn named<T>() -> &'static str {
        std::any::type_name::<T>()
    }
    let names = [
        named::<Decision>(),
        named::<QuotaDecision>(),
        named::<Victim>(),
        named::<QuotaVictim>(),
        named::<Preemption>(),
        named::<QueuePreemption>(),
        named::<Assignment<'_>>(),
        named::<QuotaAssignment>(),
        named::<NodeAffinity>(),
        named::<NodeAffinityPlugin>(),
        named::<NodeRemoval>(),
        named::<PermitInput>(),
        named::<AssignmentMode>(),
        named::<Mode>(),
        named::<AllocationScore>(),
        named::<Allocation>(),
    ];
    let last = |path: &&str| path.rsplit("::").next().map(ToOwned::to_owned);
    let mut known: Vec<_> = names.iter().filter_map(last).collect();
    known.sort_unstable();
    known.dedup();
    assert_eq!(known.len(), names.len());
}

/// Every field that is set in place has a builder too.
#[test]
fn builders_set_what_fields_hold() {
    let second = Duration::from_secs(1);
    let pod = Pod::new().deleting().scheduling_gate("quota").scheduling_gate("image");
    assert!(pod.deleting);
    assert_eq!(pod.scheduling_gates, ["quota", "image"]);
    let group = PodGroup::of("g", 2, pod.clone()).non_preemptible().min_run_time(second);
    assert!(group.non_preemptible);
    assert_eq!(group.min_run_time, Some(second));
    let mut same = PodGroup::gang("g", 2).pods(2, pod);
    (same.non_preemptible, same.min_run_time) = (true, Some(second));
    assert_eq!(group, same);
    assert!(PodGroup::of("g", 0, Pod::new()).check().is_err());
}

/// Units are told by their full names: of the group that goes whole, or of the pod.
#[test]
fn victims_are_named_in_full() {
    let mut cluster = Cluster::new();
    cluster.add_node(Node::new("n").capacity("cpu", 4)).unwrap();
    cluster.add_pod(Pod::new().name("single").request("cpu", 2).on("n")).unwrap();
    let gang = PodGroup::of("pair", 2, Pod::new().request("cpu", 1)).evicted_whole();
    let mut running = RunningWork::new();
    running.set_group(&gang).unwrap();
    for pod in &gang.pods {
        cluster.add_pod(pod.clone().in_group("pair").on("n")).unwrap();
    }
    let high = PodGroup::of("high", 1, Pod::new().request("cpu", 4)).priority(9);
    let answer = PreemptingPlanner::new()
        .place(&cluster, &Framework::default(), &running, PreemptionRequest::new(&high))
        .unwrap();
    let victims = &answer.preempt().expect("both go").victims;
    let names: Vec<(&ObjectName, bool)> =
        victims.iter().map(|own| (&own.name, own.whole)).collect();
    let full = [ObjectName::new("default", "pair"), ObjectName::new("default", "single")];
    assert_eq!(names, [(&full[0], true), (&full[1], false)]);
    assert_eq!(victims[1].pods[0].full_name(), full[1]);
}
