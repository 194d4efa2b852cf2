//! State that was kept though it had changed: faults that random streams with everything on found.

use std::collections::BTreeSet;

use phalanx::framework::{PermitVerdict, permit_fn};
use phalanx::model::Amounts;
use phalanx::plugins::Fit;
use phalanx::preempt::Victim;
use phalanx::queue::{
    Gate, Gone, GroupState, PreemptionSettings, PriorityThenTime, SavedScheduler, Settings,
};
use phalanx::quota::{Claim, Flavor, PodSet, Queue, QueueKind, Quota, QuotaError, Tenants};
use phalanx::{Cluster, Decision, Event, Framework, Node, Pod, PodGroup, QueueError, Scheduler};

use super::steps::*;

fn preempts(settings: &mut Settings) {
    settings.preemption = Some(PreemptionSettings::default());
}

/// A queue that may not borrow.
fn queue(name: &str, gpus: i64) -> Queue {
    let mut quota = Quota::nominal(gpus);
    quota.borrowing_limit = Some(0);
    Queue::leaf(name).parent("root").quota("all", GPU, quota)
}

fn with_queues(queues: &[(&str, i64)], nodes: usize) -> Scheduler {
    let mut tenants = Tenants::default();
    tenants.set_flavor(Flavor::new("all"));
    for (name, gpus) in queues {
        tenants.set_queue(queue(name, *gpus)).unwrap();
    }
    scheduler(gpus(nodes, 4), preempts).with_tenants(tenants)
}

fn used(scheduler: &Scheduler, queue: &str) -> Option<i64> {
    let report = scheduler.queue_status(queue)?.report;
    Some(report.resources.iter().map(|own| own.sums.used).sum())
}

#[test]
fn a_holder_of_a_queue_that_drains_gives_all_of_it_back() {
    let mut tenants = Tenants::default();
    tenants.set_flavor(Flavor::new("all"));
    let leaf = queue("a", 4).quota("all", "cpu", Quota::nominal(8));
    let a = tenants.set_queue(leaf).unwrap();
    let claim = |name: &str, amounts: &[(&str, i64)]| {
        let mut requests = Amounts::new();
        amounts.iter().for_each(|(resource, amount)| requests.set(*resource, *amount));
        Claim::new(name, "a").pods(PodSet::new("main", 1, requests))
    };
    let mut holders = Vec::new();
    for claim in [claim("both", &[(GPU, 1), ("cpu", 2)]), claim("nothing", &[])] {
        let decision = tenants.decide(&claim).unwrap();
        holders.push(tenants.admit(&claim, &decision.assignment, at(0)).unwrap());
    }
    tenants.remove_queue(a).unwrap();
    let given = tenants.release(holders[0]).unwrap();
    assert_eq!(given.usage.iter().map(|(_, amount)| amount).sum::<i64>(), 3);
    assert!(tenants.find("both").is_none() && tenants.tree().queue(QueueKind::Leaf, "a").is_none());
    // The holder of nothing has gone with its queue, and leaves its name to others.
    assert!(tenants.find("nothing").is_none());
    assert!(matches!(tenants.release(holders[1]), Err(QuotaError::NotHeld(_))));
    tenants.set_queue(queue("a", 4)).unwrap();
    assert!(tenants.restore(&claim("nothing", &[]), &Vec::new().into(), at(1)).is_ok());
}

#[test]
fn a_removed_queue_stays_until_the_last_pod_in_it_has_gone() {
    let mut scheduler = with_queues(&[("a", 2), ("b", 2)], 1);
    scheduler.handle_group(gang("old", 2).queue("a"), at(0)).unwrap();
    bind_all(&mut scheduler, at(0));
    scheduler.handle_queue_removed(QueueKind::Leaf, "a", at(1)).unwrap();
    delete(&mut scheduler, "old-0", at(2));
    assert_eq!(used(&scheduler, "a"), Some(1));
    delete(&mut scheduler, "old-1", at(3));
    assert_eq!(used(&scheduler, "a"), None);
}

/// LostWake: the queue went with the last pod, and nobody was told that the others may have its quota.
#[test]
fn quota_of_a_queue_that_goes_with_its_last_pod_wakes_others() {
    let mut tenants = Tenants::default();
    tenants.set_flavor(Flavor::new("all"));
    for (name, gpus) in [("a", 0), ("b", 2)] {
        let leaf = Queue::leaf(name).parent("root").quota("all", GPU, Quota::nominal(gpus));
        tenants.set_queue(leaf).unwrap();
    }
    let mut scheduler = scheduler(gpus(1, 4), |_| {}).with_tenants(tenants);
    scheduler.handle_group(gang("old", 2).queue("a"), at(0)).unwrap();
    bind_all(&mut scheduler, at(0));
    scheduler.handle_group(gang("new", 2).queue("b"), at(1)).unwrap();
    assert_eq!(scheduler.poll_decision(at(1)), None);
    scheduler.handle_queue_removed(QueueKind::Leaf, "a", at(2)).unwrap();
    for pod in ["old-0", "old-1"] {
        assert_eq!(scheduler.poll_decision(at(3)), None);
        delete(&mut scheduler, pod, at(3));
    }
    assert_eq!(bind_all(&mut scheduler, at(3)), ["default/new"]);
}

#[test]
fn pods_that_run_are_charged_to_their_queue_when_it_comes() {
    let mut scheduler = with_queues(&[("b", 2)], 1);
    let pod = gpu().name("old-0").in_group("old").on("n0000");
    scheduler.handle_group(PodGroup::gang("old", 1).queue("a"), at(0)).unwrap();
    scheduler.handle_event(Event::PodChanged { pod, version: 0 }, at(0)).unwrap();
    scheduler.handle_queue(queue("a", 2), at(1)).unwrap();
    assert_eq!(used(&scheduler, "a"), Some(1));
    delete(&mut scheduler, "old-0", at(2));
    assert_eq!(used(&scheduler, "a"), Some(0));
}

/// A group that runs in a queue that is not known holds no quota, and leaves its name to others.
#[test]
fn a_charge_without_a_queue_is_restored_as_it_was_saved() {
    let mut scheduler = with_queues(&[("b", 2)], 2);
    scheduler.handle_group(PodGroup::gang("old", 1).queue("a"), at(0)).unwrap();
    for pod in 0..2 {
        let pod = gpu().name(format!("old-{pod}")).in_group("old").on(format!("n000{pod}"));
        scheduler.handle_event(Event::PodChanged { pod, version: 0 }, at(0)).unwrap();
    }
    delete(&mut scheduler, "old-1", at(1));
    let text = serde_json::to_string(&scheduler.save()).unwrap();
    let saved: SavedScheduler = serde_json::from_str(&text).unwrap();
    let mut again = Scheduler::restore(saved, Framework::default(), PriorityThenTime);
    assert_eq!(serde_json::to_string(&again.save()).unwrap(), text);
    for scheduler in [&mut scheduler, &mut again] {
        scheduler.handle_queue(queue("a", 2), at(2)).unwrap();
        assert_eq!(used(scheduler, "a"), Some(1));
        scheduler.check().unwrap();
    }
}

#[test]
fn a_group_that_changes_its_queue_takes_its_charge_along() {
    let mut scheduler = with_queues(&[("a", 2), ("b", 2)], 2);
    scheduler.handle_group(gang("old", 2).queue("a"), at(0)).unwrap();
    scheduler.handle_group(gang("next", 2).queue("a"), at(0)).unwrap();
    assert_eq!(bind_all(&mut scheduler, at(0)), ["default/old"]);
    scheduler.handle_group(PodGroup::gang("old", 2).queue("b"), at(1)).unwrap();
    assert_eq!((used(&scheduler, "a"), used(&scheduler, "b")), (Some(0), Some(2)));
    // What it held in its former queue is free there, and its late member is one too many here.
    assert_eq!(bind_all(&mut scheduler, at(1)), ["default/next"]);
    scheduler.handle_pod(gpu().name("late").in_group("old"), at(2)).unwrap();
    assert_eq!(bind_all(&mut scheduler, at(2)), [""; 0]);
    scheduler.handle_queue(queue("b", 3), at(3)).unwrap();
    assert_eq!(bind_all(&mut scheduler, at(3)), ["default/old"]);
    assert_eq!(used(&scheduler, "b"), Some(3));
}

#[test]
fn a_group_that_runs_is_a_victim_by_the_priority_that_it_has_now() {
    let mut scheduler = with_queues(&[("a", 1)], 1);
    scheduler.handle_group(gang("old", 1).queue("a").priority(1), at(0)).unwrap();
    bind_all(&mut scheduler, at(0));
    scheduler.handle_group(PodGroup::gang("old", 1).queue("a").priority(5), at(1)).unwrap();
    scheduler.handle_group(gang("new", 1).queue("a").priority(3), at(2)).unwrap();
    assert_eq!(scheduler.poll_decision(at(2)), None);
    scheduler.handle_group(PodGroup::gang("old", 1).queue("a").priority(2), at(3)).unwrap();
    let decision = scheduler.poll_decision(at(60));
    assert!(matches!(decision, Some(Decision::Evict { .. })), "{decision:?}");
}

#[test]
fn a_member_that_is_pending_again_has_nothing_of_its_former_run() {
    let mut scheduler = scheduler(gpus(1, 4), preempts);
    let mut pod = gpu().name("old-0").on("n0000").since(at(1));
    pod.deleting = true;
    scheduler.handle_group(PodGroup::gang("old", 1).pod(pod), at(100)).unwrap();
    scheduler.handle_gone(Gone::unbound("default", "old-0"), at(101)).unwrap();
    assert_eq!(bind_all(&mut scheduler, at(102)), ["default/old"]);
    let pod = scheduler.cluster().pod("default", "old-0").unwrap();
    assert_eq!((pod.start(), pod.deleting()), (Some(at(102)), false));
}

/// A gang of two whose plan is held.
fn held(framework: Framework, queue: &str) -> Scheduler {
    let mut tenants = Tenants::default();
    tenants.set_flavor(Flavor::new("all"));
    for name in ["a", "b"] {
        tenants.set_queue(self::queue(name, 2)).unwrap();
    }
    let mut scheduler =
        Scheduler::new(gpus(1, 4), framework, Settings::default()).with_tenants(tenants);
    scheduler.handle_group(gang("new", 2).queue(queue), at(0)).unwrap();
    assert_eq!(scheduler.poll_decision(at(0)), None);
    assert!(matches!(scheduler.state("default/new"), Some(GroupState::Permitting { .. })));
    scheduler
}

fn holds() -> Framework {
    let later = permit_fn("later", |_| PermitVerdict::Hold { until: at(1_000) });
    Framework::builder().filter(Fit).permit(later).build().unwrap()
}

#[test]
fn a_held_plan_ends_when_the_minimum_is_raised_beyond_it() {
    let mut scheduler = held(holds(), "a");
    scheduler.handle_group(PodGroup::gang("new", 3).queue("a"), at(1)).unwrap();
    let state = scheduler.state("default/new");
    assert!(matches!(state, Some(GroupState::Gated(Gate::Members { .. }))), "{state:?}");
    let admitted = scheduler.handle_permit("default/new", PermitVerdict::Admit, at(2));
    assert!(matches!(admitted, Err(QueueError::NotHeld(_))), "{admitted:?}");
    assert_eq!((scheduler.poll_decision(at(2)), used(&scheduler, "a")), (None, Some(0)));
}

#[test]
fn a_held_plan_ends_when_its_group_changes_its_queue() {
    let mut scheduler = held(holds(), "a");
    scheduler.handle_group(PodGroup::gang("new", 2).queue("b"), at(1)).unwrap();
    assert_eq!(used(&scheduler, "a"), Some(0));
    // It is planned anew, by the quota of the other queue.
    assert_eq!(scheduler.poll_decision(at(1)), None);
    assert!(matches!(scheduler.state("default/new"), Some(GroupState::Permitting { .. })));
    assert_eq!(used(&scheduler, "b"), Some(2));
}

/// Nodes that pods can choose by name.
fn named_nodes(count: usize, each: i64) -> Cluster {
    let mut cluster = Cluster::new();
    for index in 0..count {
        let name = format!("n{index:04}");
        let node = Node::new(&name).capacity(GPU, each).label("name", &name);
        cluster.add_node(node).unwrap();
    }
    cluster
}

/// A group of one pod that goes to one node.
fn on(node: usize, name: &str, priority: i32) -> PodGroup {
    let pod = gpu().node_selector("name", format!("n{node:04}"));
    PodGroup::gang(name, 1).pods(1, pod).priority(priority)
}

fn unit_names(victims: Vec<Victim>) -> Vec<String> {
    victims.into_iter().map(|victim| victim.name.to_string()).collect()
}

#[test]
fn a_pod_whose_node_is_lost_while_its_unit_goes_does_not_terminate_when_the_node_is_back() {
    let mut scheduler = scheduler(gpus(2, 1), preempts);
    scheduler.handle_group(gang("old", 2).evicted_whole(), at(0)).unwrap();
    bind_all(&mut scheduler, at(0));
    scheduler.handle_group(gang("new", 2).priority(1), at(1)).unwrap();
    assert!(matches!(scheduler.poll_decision(at(1)), Some(Decision::Evict { .. })));
    let mut first = scheduler.cluster().pod("default", "old-0").unwrap().to_pod();
    let second = scheduler.cluster().pod("default", "old-1").unwrap().to_pod();
    let node = scheduler.cluster().node(second.node.as_ref().unwrap()).unwrap().to_node();
    first.deleting = true;
    scheduler.handle_event(Event::PodChanged { pod: first, version: 0 }, at(2)).unwrap();
    assert_eq!(scheduler.poll_decision(at(2)), None);
    let deletes =
        |scheduler: &Scheduler| scheduler.cluster().pod("default", "old-1").unwrap().deleting();
    assert!(deletes(&scheduler), "a unit goes whole");
    let name = node.name.clone();
    scheduler.handle_event(Event::NodeRemoved { name, version: 0 }, at(3)).unwrap();
    assert_eq!(scheduler.poll_decision(at(3)), None);
    scheduler.handle_event(Event::NodeChanged { node, version: 0 }, at(4)).unwrap();
    // Nobody asks for it any more, so nobody may wait for it.
    assert!(!deletes(&scheduler));
}

#[test]
fn a_pod_that_comes_back_with_its_node_goes_with_its_unit_when_that_is_asked_for_again() {
    let mut scheduler = scheduler(gpus(2, 1), preempts);
    scheduler.handle_group(gang("old", 2).evicted_whole(), at(0)).unwrap();
    bind_all(&mut scheduler, at(0));
    scheduler.handle_group(gang("new", 2).priority(1), at(1)).unwrap();
    let Some(Decision::Evict { ticket, .. }) = scheduler.poll_decision(at(1)) else { panic!() };
    scheduler.handle_eviction_failed(ticket, "default/old", Some(at(60)), at(2)).unwrap();
    let lost = scheduler.cluster().pod("default", "old-1").unwrap();
    let node = lost.node().unwrap().to_node();
    let name = node.name.clone();
    scheduler.handle_event(Event::NodeRemoved { name, version: 0 }, at(3)).unwrap();
    while scheduler.poll_decision(at(3)).is_some() {}
    scheduler.handle_event(Event::NodeChanged { node, version: 0 }, at(4)).unwrap();
    let mut asked = Vec::new();
    for secs in 4..=90 {
        while let Some(decision) = scheduler.poll_decision(at(secs)) {
            if let Decision::Evict { victims, .. } = decision {
                asked.extend(victims);
            }
        }
        scheduler.handle_time(at(secs));
    }
    // It runs, and is of a gang that leaves whole: alone it would be left in part.
    let [unit] = &asked[..] else { panic!("{asked:?}") };
    let names: BTreeSet<&str> = unit.pods.iter().map(|pod| pod.name.as_str()).collect();
    assert_eq!(names, BTreeSet::from(["old-0", "old-1"]));
}

#[test]
fn what_a_group_takes_back_leaves_no_other_group_in_part() {
    let mut scheduler = scheduler(named_nodes(3, 1), preempts);
    let old = PodGroup::gang("old", 2).pods(3, gpu());
    scheduler.handle_group(old.priority(1), at(0)).unwrap();
    bind_all(&mut scheduler, at(0));
    let mut going: BTreeSet<String> = BTreeSet::new();
    // The first takes a member above the minimum, the second the rest; the third needs one of those.
    for (node, name, priority) in [(0, "a", 2), (1, "b", 2), (1, "c", 5)] {
        scheduler.handle_group(on(node, name, priority), at(1)).unwrap();
        while let Some(decision) = scheduler.poll_decision(at(1)) {
            match decision {
                Decision::Evict { victims, .. } => going.extend(unit_names(victims)),
                Decision::CancelEvictions { victims, .. } => {
                    for name in unit_names(victims) {
                        going.remove(&name);
                    }
                    continue;
                }
                other => panic!("{other:?}"),
            }
            assert_ne!(going.len(), 2, "one of three is left, and two are needed: {going:?}");
        }
    }
    assert!(!going.is_empty());
}

#[test]
fn a_claim_that_cannot_be_served_ends_though_its_group_backs_off() {
    let mut scheduler = scheduler(gpus(2, 1), preempts);
    for name in ["x", "y"] {
        scheduler.handle_group(gang(name, 1), at(0)).unwrap();
    }
    bind_all(&mut scheduler, at(0));
    scheduler.handle_group(gang("new", 2).priority(1), at(1)).unwrap();
    let Some(Decision::Evict { ticket, victims, .. }) = scheduler.poll_decision(at(1)) else {
        panic!("two victims make room");
    };
    assert_eq!(unit_names(victims), ["default/x-0", "default/y-0"]);
    scheduler.handle_resume("default/new", at(1)).unwrap();
    assert!(matches!(scheduler.state("default/new"), Some(GroupState::BackingOff { .. })));
    scheduler.handle_eviction_failed(ticket, "default/x-0", None, at(1)).unwrap();
    // The other would go in vain.
    let decision = scheduler.poll_decision(at(1));
    let Some(Decision::CancelEvictions { victims, .. }) = decision else { panic!("{decision:?}") };
    assert_eq!(unit_names(victims), ["default/y-0"]);
}

/// A gang of two: one has finished, or runs, and the plan of the other is held, or is being bound.
fn with_plan_of_the_other(framework: Framework, has_finished: bool) -> Scheduler {
    let mut first = gpu().name("g-0");
    first.uid = "one".into();
    let group = PodGroup::gang("g", 2).pod(first.on("n0000")).pod(gpu().name("g-1"));
    let mut scheduler = Scheduler::new(gpus(1, 2), framework, Settings::default());
    scheduler.handle_group(group, at(0)).unwrap();
    let decision = scheduler.poll_decision(at(0));
    let is_held = matches!(scheduler.state("default/g"), Some(GroupState::Permitting { .. }));
    assert_eq!(is_held, decision.is_none());
    if has_finished {
        scheduler.handle_gone(Gone::finished("default", "g-0"), at(1)).unwrap();
    }
    assert_eq!(scheduler.status("default/g").unwrap().planned, 1);
    scheduler
}

/// Everything, seed 674,309,866,128. The minimum of a held plan counts a finished member. That is deleted, and
/// the permit let the other start alone.
#[test]
fn a_plan_ends_when_a_finished_member_that_it_needs_is_deleted() {
    let mut scheduler = with_plan_of_the_other(holds(), true);
    delete(&mut scheduler, "g-0", at(2));
    let state = scheduler.state("default/g");
    assert!(matches!(state, Some(GroupState::Gated(Gate::Members { .. }))), "{state:?}");
    assert_eq!((scheduler.poll_decision(at(2)), scheduler.cluster().pod_count()), (None, 0));
    // It is taken back while it is being bound, too.
    let mut scheduler = with_plan_of_the_other(Framework::default(), true);
    delete(&mut scheduler, "g-0", at(2));
    let next = scheduler.poll_decision(at(2));
    assert!(matches!(next, Some(Decision::Unbind { .. })), "{next:?}");
}

/// The finished member has a successor that waits, or the node of one that runs is not known: a permit lets
/// nothing go that starts a gang in part.
#[test]
fn a_permit_lets_no_gang_start_in_part() {
    for has_finished in [true, false] {
        let mut scheduler = with_plan_of_the_other(holds(), has_finished);
        let mut pod = gpu().name("g-0").in_group("g");
        if has_finished {
            pod.uid = "two".into();
        } else {
            pod = pod.on("unknown");
        }
        scheduler.handle_event(Event::PodChanged { pod, version: 0 }, at(2)).unwrap();
        scheduler.handle_permit("default/g", PermitVerdict::Admit, at(3)).unwrap();
        assert_eq!(scheduler.poll_decision(at(3)), None);
        let planned = scheduler.status("default/g").unwrap().planned;
        assert_eq!(planned, if has_finished { 2 } else { 0 });
        scheduler.check().unwrap();
    }
}

/// Changes were saved by rows, and a cluster that is read has its rows by name: a restored scheduler woke the groups
/// of another node.
#[test]
fn changes_that_are_saved_concern_the_same_nodes() {
    let permit = permit_fn("gate", |cx| {
        let deny = || PermitVerdict::Deny { reason: "not yet".into() };
        if cx.now < at(1) { deny() } else { PermitVerdict::Admit }
    });
    let framework = Framework::builder().filter(Fit).permit(permit).build().unwrap();
    let mut cluster = Cluster::new();
    for (name, gpus) in [("b", 4), ("a", 1)] {
        cluster.add_node(Node::new(name).capacity(GPU, gpus)).unwrap();
    }
    cluster.add_pod(gpu().name("other").on("b")).unwrap();
    let mut scheduler = Scheduler::new(cluster, framework.clone(), Settings::default());
    let pod = Pod::new().name("g-0").request(GPU, 2);
    scheduler.handle_group(PodGroup::gang("g", 1).pod(pod), at(0)).unwrap();
    assert_eq!(scheduler.poll_decision(at(0)), None);
    assert!(is_asleep(&scheduler, "default/g"));
    delete(&mut scheduler, "other", at(1));
    let text = serde_json::to_string(&scheduler.save()).unwrap();
    let saved: SavedScheduler = serde_json::from_str(&text).unwrap();
    let mut restored = Scheduler::restore(saved, framework, PriorityThenTime);
    assert_eq!(serde_json::to_string(&restored.save()).unwrap(), text);
    let next = scheduler.poll_decision(at(20));
    assert!(matches!(next, Some(Decision::Bind { .. })), "{next:?}");
    assert_eq!(restored.poll_decision(at(20)), next);
}

/// A queue went, and with it a holder of nothing. Another group took the name, and gave back what it held when
/// the first one's pod was gone.
#[test]
fn a_holder_that_went_with_its_queue_leaves_its_name_to_others() {
    let mut scheduler = with_queues(&[("a", 4), ("b", 4)], 1);
    let old = PodGroup::gang("g", 1).pod(Pod::new().name("old")).queue("a");
    scheduler.handle_group(old, at(0)).unwrap();
    assert_eq!(bind_all(&mut scheduler, at(0)).len(), 1);
    scheduler.handle_queue_removed(QueueKind::Leaf, "a", at(1)).unwrap();
    let text = serde_json::to_string(&scheduler.save()).unwrap();
    let saved: SavedScheduler = serde_json::from_str(&text).unwrap();
    let restored = Scheduler::restore(saved, Framework::default(), PriorityThenTime);
    assert_eq!(serde_json::to_string(&restored.save()).unwrap(), text);
    scheduler.handle_group_removed("default/g", at(2)).unwrap();
    let new = PodGroup::gang("g", 1).pod(gpu().name("new")).queue("b");
    scheduler.handle_group(new, at(3)).unwrap();
    assert_eq!(bind_all(&mut scheduler, at(3)).len(), 1);
    delete(&mut scheduler, "old", at(4));
    assert_eq!(used(&scheduler, "b"), Some(1));
    scheduler.check().unwrap();
}
