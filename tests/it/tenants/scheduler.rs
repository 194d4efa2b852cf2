//! Tenants in the scheduler: turns, admission, charges, sleep, and what a queue tells of itself.

use std::time::Duration;

use phalanx::model::{Device, DeviceRequest, Effect, Taint, Toleration};
use phalanx::queue::{
    Gone, GroupState, PriorityThenTime, QuotaReason, SavedScheduler, Settings, Shortage,
};
use phalanx::quota::{
    AssignmentMode, Claim, Flavor, PodSet, Queue, QueueKind, Quota, TenantSettings, Tenants,
};
use phalanx::{
    Cluster, Decision, Event, Framework, Node, Pod, PodGroup, QueueError, Scheduler, Time,
};

pub(crate) fn cluster(nodes: usize, gpus: i64) -> Cluster {
    let mut cluster = Cluster::new();
    for at in 0..nodes {
        cluster.add_node(Node::new(format!("n{at}")).capacity("gpu", gpus)).expect("sound");
    }
    cluster
}

fn teams(tenants: Tenants, names: &[&str], guaranteed: i64) -> Tenants {
    let mut tenants = tenants;
    tenants.set_flavor(Flavor::new("all"));
    for name in names {
        let queue =
            Queue::leaf(*name).parent("labs").quota("all", "gpu", Quota::nominal(guaranteed));
        tenants.set_queue(queue).expect("sound");
    }
    tenants
}

pub(crate) fn scheduler(cluster: Cluster, tenants: Tenants) -> Scheduler {
    Scheduler::new(cluster, Framework::default(), Settings::default()).with_tenants(tenants)
}

pub(crate) fn gang(name: &str, queue: &str, pods: usize, gpus: i64) -> PodGroup {
    let pod = Pod::new().request("gpu", gpus);
    let mut gang = PodGroup::gang(name, pods as u32).pods(pods, pod);
    gang.queue = queue.into();
    gang
}

pub(crate) fn at(seconds: u64) -> Time {
    Time::from_secs(seconds)
}

/// Polls and binds until nothing is left to do; the groups that were started, in order.
pub(crate) fn run(scheduler: &mut Scheduler, now: Time) -> Vec<String> {
    let mut started = Vec::new();
    while let Some(decision) = scheduler.poll_decision(now) {
        let Decision::Bind { ticket, groups, .. } = decision else { panic!("{decision:?}") };
        started.extend(groups.iter().map(ToString::to_string));
        scheduler.handle_bound(ticket, now).expect("known");
    }
    started
}

pub(crate) fn used(scheduler: &Scheduler, queue: &str) -> i64 {
    let status = scheduler.queue_status(queue).expect("known");
    status.report.resources.iter().map(|own| own.sums.used).sum()
}

pub(crate) fn finish(scheduler: &mut Scheduler, group: &str, pods: usize, now: Time) {
    for pod in 0..pods {
        let name = format!("{group}-{pod}");
        scheduler.handle_gone(Gone::finished("default", &name), now).expect("known");
    }
}

#[test]
fn the_next_gang_is_the_next_queues() {
    let tenants = teams(Tenants::default(), &["a", "b"], 4);
    let mut scheduler = scheduler(cluster(1, 8), tenants);
    for name in ["a1", "a2", "a3", "a4"] {
        scheduler.handle_group(gang(name, "a", 1, 2), at(0)).expect("sound");
    }
    for name in ["b1", "b2", "b3"] {
        scheduler.handle_group(gang(name, "b", 1, 2), at(1)).expect("sound");
    }
    // Within their guarantees first by age, and no queue borrows while the other wants its own.
    let started = run(&mut scheduler, at(1));
    assert_eq!(started, ["default/a1", "default/a2", "default/b1", "default/b2"]);
    assert_eq!((used(&scheduler, "a"), used(&scheduler, "b")), (4, 4));
    finish(&mut scheduler, "a1", 1, at(2));
    finish(&mut scheduler, "b1", 1, at(2));
    finish(&mut scheduler, "b2", 1, at(2));
    assert_eq!(run(&mut scheduler, at(2)), ["default/a3", "default/b3", "default/a4"]);
    assert_eq!((used(&scheduler, "a"), used(&scheduler, "b")), (6, 2));
}

#[test]
fn without_tenants_nothing_is_charged_and_queues_are_refused() {
    let mut scheduler = Scheduler::new(cluster(1, 8), Framework::default(), Settings::default());
    scheduler.handle_group(gang("one", "a", 1, 8), at(0)).expect("sound");
    assert_eq!(run(&mut scheduler, at(0)), ["default/one"]);
    assert!(scheduler.tenants().is_none() && scheduler.queue_status("a").is_none());
    let refused = scheduler.handle_queue(Queue::leaf("a"), at(1));
    assert_eq!(refused, Err(QueueError::NoTenants));
}

#[test]
fn a_gang_is_charged_whole_until_each_pod_is_gone() {
    let tenants = teams(Tenants::default(), &["a", "b"], 4);
    let mut scheduler = scheduler(cluster(2, 8), tenants);
    scheduler.handle_group(gang("one", "a", 3, 2), at(0)).expect("sound");
    scheduler.handle_group(gang("two", "b", 2, 2), at(0)).expect("sound");
    // 6 of 8 for one; two would need 4.
    run(&mut scheduler, at(0));
    let sum = used(&scheduler, "a") + used(&scheduler, "b");
    let (first, second) = if used(&scheduler, "a") == 6 { ("one", "two") } else { ("two", "one") };
    assert!(sum == 6 || sum == 4, "one of them waits: {sum}");
    let Some(GroupState::Unschedulable { shortage: Some(Shortage::Quota { needed, .. }), .. }) =
        scheduler.state(&format!("default/{second}"))
    else {
        panic!("{:?}", scheduler.state(&format!("default/{second}")))
    };
    assert_eq!(needed, if second == "two" { 4 } else { 6 });
    let pods = if first == "one" { 3 } else { 2 };
    for pod in 0..pods {
        scheduler
            .handle_gone(Gone::deleted("default", &format!("{first}-{pod}")), at(1))
            .expect("known");
    }
    assert_eq!(run(&mut scheduler, at(1)), [format!("default/{second}")]);
}

#[test]
fn a_group_removed_is_charged_while_its_pods_run() {
    let tenants = teams(Tenants::default(), &["a"], 4);
    let mut scheduler = scheduler(cluster(1, 8), tenants);
    scheduler.handle_group(gang("one", "a", 2, 2), at(0)).expect("sound");
    assert_eq!(run(&mut scheduler, at(0)).len(), 1);
    scheduler.handle_group_removed("default/one", at(1)).expect("known");
    assert_eq!(used(&scheduler, "a"), 4);
    // A group of the same name has quota of its own.
    let mut again = gang("one", "a", 1, 2);
    again.pods[0].name = "other".into();
    scheduler.handle_group(again, at(1)).expect("sound");
    assert_eq!(run(&mut scheduler, at(1)).len(), 0);
    scheduler.handle_gone(Gone::deleted("default", "one-0"), at(2)).expect("known");
    assert_eq!(run(&mut scheduler, at(2)).len(), 1);
    assert_eq!(used(&scheduler, "a"), 4);
}

#[test]
fn flavors_are_node_sets_by_labels_and_taints() {
    let mut cluster = Cluster::new();
    let spot = Taint::new("spot", "yes", Effect::NoSchedule);
    for at in 0..2 {
        let node = Node::new(format!("plain-{at}")).capacity("gpu", 8).label("kind", "a");
        cluster.add_node(node).expect("sound");
        let node = Node::new(format!("spot-{at}")).capacity("gpu", 8).label("kind", "a");
        cluster.add_node(node.taint(spot.clone())).expect("sound");
        let node = Node::new(format!("other-{at}")).capacity("gpu", 8).label("kind", "b");
        cluster.add_node(node).expect("sound");
    }
    let mut tenants = Tenants::default();
    let toleration = Toleration::equal("spot", "yes");
    let mut flavor = Flavor::new("spot").label("kind", "a").taint(spot);
    flavor.tolerations.push(toleration);
    tenants.set_flavor(flavor);
    tenants.set_flavor(Flavor::new("b").label("kind", "b"));
    let queue = Queue::leaf("team").quota("spot", "gpu", Quota::nominal(4)).quota(
        "b",
        "gpu",
        Quota::nominal(16),
    );
    tenants.set_queue(queue).expect("sound");
    let mut scheduler = scheduler(cluster, tenants);
    for (name, node) in [("one", "spot-"), ("two", "other-"), ("three", "other-")] {
        scheduler.handle_group(gang(name, "team", 1, 4), at(0)).expect("sound");
        let Some(Decision::Bind { plan, .. }) = scheduler.poll_decision(at(0)) else { panic!() };
        let on = plan.assignments().next().expect("one").node().to_owned();
        assert!(on.starts_with(node), "{name} on {on}");
    }
}

#[test]
fn devices_and_fractions_are_charged() {
    let mut node = Node::new("n");
    for _ in 0..4 {
        node.devices
            .push(Device::new("gpu", "A").capacity("compute", 1_000).capacity("memory", 80));
    }
    let mut cluster = Cluster::new();
    cluster.add_node(node).expect("sound");
    let mut tenants = Tenants::default();
    tenants.set_flavor(Flavor::new("all"));
    let queue = Queue::leaf("team").quota("all", "gpu", Quota::nominal(2_500));
    tenants.set_queue(queue).expect("sound");
    let mut scheduler = scheduler(cluster, tenants);
    let of = |name: &str, request: DeviceRequest| {
        let mut gang = PodGroup::gang(name, 1).pods(1, Pod::new().device(request));
        gang.queue = "team".into();
        gang
    };
    scheduler.handle_group(of("whole", DeviceRequest::whole("gpu", 2)), at(0)).expect("sound");
    assert_eq!(run(&mut scheduler, at(0)).len(), 1);
    let share = DeviceRequest::share("gpu", "compute", 300).and("memory", 20);
    scheduler.handle_group(of("share", share.clone()), at(0)).expect("sound");
    assert_eq!(run(&mut scheduler, at(0)).len(), 1);
    assert_eq!(used(&scheduler, "team"), 2_300);
    scheduler.handle_group(of("more", share), at(0)).expect("sound");
    assert_eq!(run(&mut scheduler, at(0)).len(), 0);
}

#[test]
fn a_queue_explains_itself() {
    let tenants = teams(Tenants::default(), &["a", "b"], 4);
    let mut scheduler = scheduler(cluster(1, 8), tenants);
    for name in ["a1", "a2", "a3"] {
        scheduler.handle_group(gang(name, "a", 1, 2), at(0)).expect("sound");
    }
    assert_eq!(run(&mut scheduler, at(0)).len(), 3);
    scheduler.handle_group(gang("b1", "b", 1, 4), at(1)).expect("sound");
    assert_eq!(run(&mut scheduler, at(1)).len(), 0);
    let status = scheduler.queue_status("a").expect("known");
    let gpu = &status.report.resources[0];
    assert_eq!((gpu.borrowed, gpu.available, gpu.deserved), (2, 2, 4));
    assert_eq!(status.report.share, 250);
    assert_eq!(status.report.dominant.as_deref(), Some("gpu"));
    let status = scheduler.queue_status("b").expect("known");
    assert_eq!(status.report.may_take_from, ["a"]);
    assert_eq!(status.first.as_deref(), Some("default/b1"));
    let Some(Shortage::Quota { reason, needed: 4, available: 2, .. }) = status.shortage else {
        panic!("{:?}", status.shortage)
    };
    assert_eq!(reason, QuotaReason::Reclaimable { victims: 1 });
}

#[test]
fn a_restored_scheduler_takes_turns_as_the_saved_one() {
    let tenants = teams(Tenants::kueue(), &["a", "b", "c"], 4);
    let mut saved = scheduler(cluster(2, 8), tenants);
    for name in ["a1", "b1"] {
        saved.handle_group(gang(name, &name[..1], 1, 4), at(0)).expect("sound");
    }
    assert_eq!(run(&mut saved, at(0)).len(), 2);
    for (seconds, name) in [(1, "b2"), (2, "a2"), (2, "c1")] {
        saved.handle_group(gang(name, &name[..1], 1, 1), at(seconds)).expect("sound");
    }
    // The one that does not borrow goes first; the others stand among the heads.
    assert!(matches!(saved.poll_decision(at(2)), Some(Decision::Bind { .. })));
    // Decided on now, the head of `a` would not borrow, and go before that of `b`.
    finish(&mut saved, "a1", 1, at(3));
    let text = serde_json::to_string(&saved.save()).expect("data");
    let state: SavedScheduler = serde_json::from_str(&text).expect("data");
    let mut restored = Scheduler::restore(state, Framework::default(), PriorityThenTime);
    assert_eq!(serde_json::to_string(&restored.save()).expect("data"), text);
    let turns = run(&mut saved, at(3));
    assert_eq!(turns, ["default/b2", "default/a2"]);
    assert_eq!(run(&mut restored, at(3)), turns);
}

#[test]
fn queues_that_change_wake_those_that_wait() {
    let tenants = teams(Tenants::default(), &["a"], 2);
    let mut scheduler = scheduler(cluster(1, 8), tenants);
    scheduler.handle_group(gang("one", "a", 1, 4), at(0)).expect("sound");
    scheduler.handle_group(gang("two", "new", 1, 4), at(0)).expect("sound");
    assert_eq!(run(&mut scheduler, at(0)).len(), 0);
    let queue = Queue::leaf("a").parent("labs").quota("all", "gpu", Quota::nominal(4));
    scheduler.handle_queue(queue, at(1)).expect("sound");
    assert_eq!(run(&mut scheduler, at(1)), ["default/one"]);
    let queue = Queue::leaf("new").quota("all", "gpu", Quota::nominal(4));
    scheduler.handle_queue(queue, at(2)).expect("sound");
    assert_eq!(run(&mut scheduler, at(2)), ["default/two"]);
    scheduler.handle_queue_removed(QueueKind::Leaf, "new", at(3)).expect("known");
    scheduler.handle_group(gang("three", "new", 1, 1), at(3)).expect("sound");
    assert_eq!(run(&mut scheduler, at(3)).len(), 0);
    assert!(scheduler.handle_queue_removed(QueueKind::Leaf, "nothing", at(3)).is_err());
}

/// Groups looked at when one gang of four ends, among so many that wait in so many trees.
fn looked_at(trees: usize, waiting: usize) -> u64 {
    let mut tenants = Tenants::default();
    tenants.set_flavor(Flavor::new("all"));
    for tree in 0..trees {
        for leaf in ["a", "b"] {
            let queue = Queue::leaf(format!("{leaf}{tree}")).parent(format!("labs{tree}")).quota(
                "all",
                "gpu",
                Quota::nominal(4),
            );
            tenants.set_queue(queue).expect("sound");
        }
    }
    let mut scheduler = scheduler(cluster(trees, 64), tenants);
    for tree in 0..trees {
        let first = gang(&format!("first{tree}"), &format!("a{tree}"), 1, 4);
        scheduler.handle_group(first, at(0)).expect("sound");
        let second = gang(&format!("second{tree}"), &format!("a{tree}"), 1, 4);
        scheduler.handle_group(second, at(0)).expect("sound");
        for number in 0..waiting {
            let name = format!("w{tree}-{number}");
            scheduler.handle_group(gang(&name, &format!("a{tree}"), 1, 4), at(1)).expect("sound");
        }
    }
    let started = run(&mut scheduler, at(1)).len();
    assert_eq!(started, 2 * trees);
    let (before, attempts) = (scheduler.wake_stats().quota_checks, scheduler.metrics().attempts);
    finish(&mut scheduler, "first0", 1, at(2));
    assert_eq!(run(&mut scheduler, at(2)).len(), 1);
    assert!(scheduler.metrics().attempts - attempts <= 3, "no group is tried in vain");
    scheduler.wake_stats().quota_checks - before
}

#[test]
fn quota_that_moves_wakes_whom_it_concerns() {
    let few = looked_at(2, 4);
    assert!(few > 0, "the counter counts");
    assert_eq!(looked_at(40, 4), few, "other trees are not looked at");
    assert!(looked_at(2, 200) <= few + 1, "nor are those behind the first");
}

#[test]
fn the_oldest_is_not_starved_by_small_gangs() {
    let settings = TenantSettings::default().patience(Duration::from_secs(100));
    for (patient, expected) in [(true, true), (false, false)] {
        let settings = if patient { settings } else { settings.patience(Duration::MAX) };
        // Nothing is guaranteed: all of it is borrowed.
        let mut tenants = teams(Tenants::with(settings), &["a", "b", "c"], 0);
        let pool = Queue::inner("labs").quota("all", "gpu", Quota::nominal(6));
        tenants.set_queue(pool).expect("sound");
        let mut scheduler = scheduler(cluster(1, 8), tenants);
        // Two queues keep borrowing by small gangs, of which two end at a time.
        let mut running: Vec<String> = Vec::new();
        for number in 0..6 {
            let (name, queue) = (format!("s{number}"), if number % 2 == 0 { "a" } else { "b" });
            scheduler.handle_group(gang(&name, queue, 1, 1), at(0)).expect("sound");
            running.push(name);
        }
        assert_eq!(run(&mut scheduler, at(0)).len(), 6);
        scheduler.handle_group(gang("large", "c", 1, 4), at(1)).expect("sound");
        assert_eq!(run(&mut scheduler, at(1)).len(), 0);
        let mut began = false;
        for step in 0..40_u64 {
            let now = at(10 + step * 10);
            let name = format!("t{step}");
            let queue = if step % 2 == 0 { "a" } else { "b" };
            scheduler.handle_group(gang(&name, queue, 1, 1), now).expect("sound");
            if !running.is_empty() {
                let done = running.remove(0);
                finish(&mut scheduler, &done, 1, now);
            }
            for group in run(&mut scheduler, now) {
                began |= group == "default/large";
                running.push(group.trim_start_matches("default/").to_owned());
            }
            running.retain(|name| name != "large");
        }
        assert_eq!(began, expected, "patience decides");
    }
}

/// A group that fails is demoted behind others that the quota it waited for would let in: they come
/// after its old place, not after its new one.
#[test]
fn a_group_demoted_in_its_turn_lets_those_behind_it_try() {
    let mut tenants = Tenants::default();
    tenants.set_flavor(Flavor::new("all"));
    let quota = Quota::nominal(8).limit(8);
    tenants.set_queue(Queue::leaf("a").quota("all", "gpu", quota)).expect("sound");
    let settings = Settings::default().demote_after(2);
    let mut scheduler =
        Scheduler::new(cluster(1, 8), Framework::default(), settings).with_tenants(tenants);
    scheduler.handle_group(gang("runs", "a", 6, 1), at(0)).expect("sound");
    assert_eq!(run(&mut scheduler, at(0)), ["default/runs"]);
    // Two of four GPUs each go on no node of six, and five of one do.
    scheduler.handle_group(gang("wide", "a", 2, 4), at(1)).expect("sound");
    scheduler.handle_group(gang("small", "a", 5, 1), at(2)).expect("sound");
    assert_eq!(run(&mut scheduler, at(2)).len(), 0);
    scheduler
        .handle_event(
            Event::NodeChanged { node: Node::new("n0").capacity("gpu", 6), version: 0 },
            at(3),
        )
        .expect("a node that has lost two");
    finish(&mut scheduler, "runs", 6, at(3));
    let started = run(&mut scheduler, at(600));
    assert_eq!(started, ["default/small"]);
}

#[test]
fn a_saved_scheduler_goes_on_alike() {
    let settings = TenantSettings::default().patience(Duration::from_secs(5));
    let tenants = teams(Tenants::with(settings), &["a", "b"], 4);
    let mut scheduler = scheduler(cluster(2, 8), tenants);
    for number in 0..6 {
        let queue = if number % 2 == 0 { "a" } else { "b" };
        scheduler.handle_group(gang(&format!("g{number}"), queue, 1, 3), at(0)).expect("sound");
    }
    run(&mut scheduler, at(0));
    run(&mut scheduler, at(10));
    let text = serde_json::to_string(&scheduler.save()).expect("serialises");
    let saved: SavedScheduler = serde_json::from_str(&text).expect("parses");
    let mut again = Scheduler::restore(saved, Framework::default(), PriorityThenTime);
    assert_eq!(serde_json::to_string(&again.save()).expect("serialises"), text);
    for (step, group) in ["g0", "g1", "g2", "g3"].into_iter().enumerate() {
        let now = at(20 + step as u64);
        for one in [&mut scheduler, &mut again] {
            let _ = one.handle_gone(Gone::finished("default", &format!("{group}-0")), now);
        }
        assert_eq!(run(&mut scheduler, now), run(&mut again, now));
        for queue in ["a", "b"] {
            assert_eq!(scheduler.queue_status(queue), again.queue_status(queue));
        }
    }
}

/// The checker of recorded cases and the scheduler call the same: the decisions of the two are one.
#[test]
fn the_scheduler_decides_as_tenants_do() {
    for kueue in [false, true] {
        let own = || if kueue { Tenants::kueue() } else { Tenants::default() };
        let mut alone = teams(own(), &["a", "b"], 6);
        let mut scheduler = scheduler(cluster(4, 8), teams(own(), &["a", "b"], 6));
        for number in 0..12_usize {
            let (queue, gpus) = (["a", "b"][number % 2], 1 + (number * 7 % 4) as i64);
            let name = format!("g{number}");
            let mut requests = phalanx::model::Amounts::new();
            requests.set("gpu", gpus);
            let claim = Claim::new(name.clone(), queue).pods(PodSet::new("0", 1, requests));
            let decision = alone.decide(&claim).expect("sound");
            let fits = decision.assignment.mode == AssignmentMode::Fit;
            if fits {
                alone.admit(&claim, &decision.assignment, at(number as u64)).expect("in range");
            }
            let now = at(number as u64);
            scheduler.handle_group(gang(&name, queue, 1, gpus), now).expect("sound");
            let started = run(&mut scheduler, now);
            assert_eq!(!started.is_empty(), fits, "{name}");
            if !fits {
                scheduler.handle_group_removed(&format!("default/{name}"), now).expect("known");
            }
            let of = |tenants: &Tenants, name: &str| {
                let queue = tenants.tree().queue(QueueKind::Leaf, name).expect("known");
                tenants.report(queue).expect("known")
            };
            let tenants = scheduler.tenants().expect("there");
            assert_eq!(of(tenants, "a"), of(&alone, "a"));
            assert_eq!(of(tenants, "b"), of(&alone, "b"));
        }
    }
}

#[test]
fn a_queue_whose_flavor_is_gone_starts_nothing_until_it_is_back() {
    let mut scheduler = scheduler(cluster(1, 8), teams(Tenants::default(), &["a"], 4));
    scheduler.handle_flavor_removed("all", at(0)).expect("there are tenants");
    scheduler.handle_group(gang("one", "a", 1, 2), at(0)).expect("sound");
    assert!(run(&mut scheduler, at(0)).is_empty());
    scheduler.handle_flavor(Flavor::new("all"), at(1)).expect("there are tenants");
    assert_eq!(run(&mut scheduler, at(1)), ["default/one"]);
    let mut without = Scheduler::new(cluster(1, 8), Framework::default(), Settings::default());
    assert_eq!(without.handle_flavor_removed("all", at(0)), Err(QueueError::NoTenants));
}
