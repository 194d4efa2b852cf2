//! Inputs that are rare: mixed gangs in a line, pods that take the place of others, claims that end
//! half-way, quota of two resources at once.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use phalanx::framework::{Reach, filter_fn};
use phalanx::model::{LabelSelector, Owner};
use phalanx::plugins::Fit;
use phalanx::preempt::DisruptionBudget;
use phalanx::queue::{
    Backfill, Elastic, Gone, GroupState, PreemptionSettings, Repair, Settings, Shortage, Ticket,
};
use phalanx::quota::{
    Flavor, Queue, QueuePreemption, QueuePreemptionPolicy, Quota, TenantSettings, Tenants,
    UserLimit,
};
use phalanx::{
    Cluster, Decision, Event, Framework, Node, Pod, PodGroup, Scheduler, Time, place_gang,
};

use super::steps::*;

fn preempts(settings: &mut Settings) {
    let mut preemption = PreemptionSettings::default();
    preemption.start_timeout = Duration::from_secs(60);
    settings.preemption = Some(preemption);
}

fn under(rule: Backfill) -> Scheduler {
    Scheduler::new(gpus(1, 8), Framework::default(), Settings::new().backfill(rule))
}

/// A gang of pods of so many GPUs each, that runs for some seconds.
fn mixed(name: &str, minimum: u32, each: &[i64], secs: u64) -> PodGroup {
    let pods = each
        .iter()
        .enumerate()
        .map(|(at, gpus)| Pod::new().name(format!("{name}-{at}")).request(GPU, *gpus));
    let group = pods.fold(PodGroup::gang(name, minimum), PodGroup::pod);
    group.run_time_estimate(Duration::from_secs(secs))
}

/// Submits a group that starts at once.
fn start(scheduler: &mut Scheduler, group: PodGroup, now: Time) {
    let name = group.full_name();
    scheduler.handle_group(group, now).unwrap();
    assert_eq!(bind_all(scheduler, now), [name]);
}

fn promised(scheduler: &Scheduler) -> Vec<(String, Time)> {
    scheduler.promises().into_iter().map(|own| (own.group.name().to_owned(), own.at)).collect()
}

/// The next decision, which is to evict: the ticket, and the names of the victims.
fn victims(scheduler: &mut Scheduler, now: Time) -> (Ticket, Vec<String>) {
    match scheduler.poll_decision(now) {
        Some(Decision::Evict { ticket, victims, .. }) => {
            (ticket, victims.into_iter().map(|victim| victim.name.to_string()).collect())
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_mixed_gang_that_ends_gives_back_what_each_of_its_pods_has() {
    for rule in [Backfill::easy(), Backfill::conservative()] {
        let mut scheduler = under(rule);
        start(&mut scheduler, mixed("mixed", 2, &[1, 5], 100), at(0));
        start(&mut scheduler, mixed("other", 1, &[2], 200), at(0));
        scheduler.handle_group(mixed("next", 1, &[6], 10), at(1)).unwrap();
        assert_eq!(scheduler.poll_decision(at(1)), None);
        assert_eq!(promised(&scheduler), [("next".to_owned(), at(100))]);
    }
}

#[test]
fn room_that_a_mixed_gang_will_leave_is_lent_whole_to_who_outlasts_the_promise() {
    let settings = Settings::new().backfill(Backfill::easy());
    let mut scheduler = Scheduler::new(gpus(1, 10), Framework::default(), settings);
    start(&mut scheduler, mixed("mixed", 2, &[1, 5], 100), at(0));
    start(&mut scheduler, mixed("other", 1, &[2], 1_000), at(0));
    scheduler.handle_group(mixed("head", 1, &[6], 10), at(1)).unwrap();
    assert_eq!(scheduler.poll_decision(at(1)), None);
    assert_eq!(promised(&scheduler), [("head".to_owned(), at(100))]);
    // Eight are free by then, two of which the head leaves.
    start(&mut scheduler, mixed("long", 1, &[2], 1_000), at(2));
    assert_eq!(promised(&scheduler), [("head".to_owned(), at(100))]);
}

#[test]
fn a_mixed_gang_is_promised_the_start_of_its_minimum() {
    let mut scheduler = under(Backfill::conservative());
    start(&mut scheduler, mixed("small", 1, &[2], 50), at(0));
    start(&mut scheduler, mixed("large", 1, &[6], 100), at(0));
    scheduler.handle_group(mixed("next", 1, &[2, 6], 10), at(1)).unwrap();
    assert_eq!(scheduler.poll_decision(at(1)), None);
    assert_eq!(promised(&scheduler), [("next".to_owned(), at(50))]);
}

#[test]
fn a_group_of_groups_is_promised_the_start_of_a_whole_one() {
    let mut scheduler = under(Backfill::conservative());
    start(&mut scheduler, mixed("small", 1, &[2], 50), at(0));
    start(&mut scheduler, mixed("large", 1, &[6], 100), at(0));
    let leaf = |name: &str| {
        (0..2).fold(PodGroup::gang(name, 2), |leaf, at| {
            leaf.pod(Pod::new().name(format!("{name}-{at}")).request(GPU, 2))
        })
    };
    let tree = PodGroup::gang("tree", 1).group(leaf("left")).group(leaf("right"));
    let tree = tree.run_time_estimate(Duration::from_secs(10));
    scheduler.handle_group(tree, at(1)).unwrap();
    assert_eq!(scheduler.poll_decision(at(1)), None);
    // Two GPUs are one pod, and a pod alone is no group.
    assert_eq!(promised(&scheduler), [("tree".to_owned(), at(100))]);
    assert_eq!(scheduler.poll_decision(at(50)), None);
}

#[test]
fn what_is_found_out_of_a_mixed_gang_is_not_said_of_one_of_equal_pods() {
    for first in ["bent", "equal"] {
        let mut scheduler = under(Backfill::easy());
        start(&mut scheduler, mixed("running", 1, &[4], 100), at(0));
        start(&mut scheduler, mixed("more", 1, &[4], 50), at(0));
        scheduler.handle_group(mixed("head", 1, &[8], 10), at(1)).unwrap();
        assert_eq!(scheduler.poll_decision(at(1)), None);
        // Four GPUs will be free until the head starts. Both ask for as much; a pod of one fits nowhere.
        let mut odd = mixed("bent", 2, &[1, 1], 10);
        odd.pods[1] = odd.pods[1].clone().node_selector("rack", "none");
        let equal = gang("equal", 2).run_time_estimate(Duration::from_secs(10));
        let groups = [odd, equal];
        let (one, other) = groups.into_iter().partition::<Vec<_>, _>(|own| own.name == first);
        for group in one.into_iter().chain(other) {
            scheduler.handle_group(group, at(2)).unwrap();
        }
        assert_eq!(scheduler.poll_decision(at(2)), None);
        delete(&mut scheduler, "more-0", at(3));
        assert_eq!(bind_all(&mut scheduler, at(3)), ["default/equal"], "{first}");
    }
}

#[test]
fn who_comes_behind_a_promise_and_stays_is_told_why() {
    let mut scheduler = under(Backfill::easy());
    start(&mut scheduler, mixed("running", 1, &[4], 100), at(0));
    scheduler.handle_group(mixed("head", 1, &[8], 10), at(1)).unwrap();
    assert_eq!(scheduler.poll_decision(at(1)), None);
    scheduler.handle_group(mixed("large", 1, &[6], 10), at(2)).unwrap();
    scheduler.handle_group(mixed("long", 1, &[4], 1_000), at(2)).unwrap();
    assert_eq!(scheduler.poll_decision(at(2)), None);
    for name in ["default/large", "default/long"] {
        let status = scheduler.status(name).unwrap();
        let told = matches!(status.state, GroupState::Unschedulable { shortage: Some(_), .. });
        assert!(told, "{name}: {status:?}");
    }
    let state = scheduler.state("default/long").unwrap();
    let GroupState::Unschedulable { shortage: Some(shortage), .. } = state else { panic!() };
    assert!(matches!(shortage, Shortage::Promised { .. }), "{shortage:?}");
}

#[test]
fn a_pod_that_takes_the_name_of_another_has_started_when_it_is_seen() {
    let mut scheduler = scheduler(gpus(1, 8), preempts);
    let start = |scheduler: &Scheduler| scheduler.cluster().pod("default", "p").unwrap().start();
    for (uid, seen, since) in [("1", 10, 10), ("1", 20, 10), ("2", 50, 50), ("2", 60, 50)] {
        let pod = gpu().name("p").uid(uid).on("n0000");
        scheduler.handle_event(Event::PodChanged { pod, version: 0 }, at(seen)).unwrap();
        assert_eq!(start(&scheduler), Some(at(since)), "{uid} at {seen}");
    }
}

#[test]
fn a_victim_that_has_begun_to_go_goes_on_when_its_claim_is_over() {
    let mut scheduler = scheduler(gpus(1, 2), preempts);
    start(&mut scheduler, gang("old", 2).evicted_whole(), at(0));
    scheduler.handle_group(gang("new", 2).priority(5), at(1)).unwrap();
    let (_, names) = victims(&mut scheduler, at(1));
    assert_eq!(names, ["default/old"]);
    let mut pod = scheduler.cluster().pod("default", "old-0").unwrap().to_pod();
    pod.deleting = true;
    scheduler.handle_event(Event::PodChanged { pod, version: 0 }, at(2)).unwrap();
    scheduler.check().unwrap();
    scheduler.handle_group_removed("default/new", at(3)).unwrap();
    scheduler.check().unwrap();
    while scheduler.poll_decision(at(3)).is_some() {
        scheduler.check().unwrap();
    }
    for name in ["old-0", "old-1"] {
        delete(&mut scheduler, name, at(4));
        scheduler.check().unwrap();
    }
    start(&mut scheduler, gang("next", 2), at(5));
}

#[test]
fn nothing_of_a_claim_is_left_in_a_save_when_its_victims_have_gone() {
    let mut scheduler = scheduler(gpus(1, 2), preempts);
    start(&mut scheduler, gang("old", 2).evicted_whole(), at(0));
    scheduler.handle_group(gang("new", 2).priority(5), at(1)).unwrap();
    let (ticket, names) = victims(&mut scheduler, at(1));
    let plans = |scheduler: &Scheduler| {
        let saved = serde_json::to_value(scheduler.save()).unwrap();
        saved["removals"]["plans"].as_array().map_or(0, Vec::len)
    };
    assert_eq!(plans(&scheduler), 1);
    let unit = names[0].clone();
    scheduler.handle_gone(Gone::Evicted { ticket, unit }, at(2)).unwrap();
    assert_eq!(bind_all(&mut scheduler, at(2)), ["default/new"]);
    assert_eq!(plans(&scheduler), 0);
}

#[test]
fn a_budget_that_is_stated_again_counts_what_was_asked_for_under_it() {
    let mut scheduler = scheduler(gpus(3, 1), preempts);
    let red = || gpu().label("colour", "red");
    let budget = || DisruptionBudget::new("red", LabelSelector::label("colour", "red"), 1);
    scheduler.handle_budget(budget(), at(0));
    for name in ["a", "b"] {
        start(&mut scheduler, PodGroup::gang(name, 1).pods(1, red()), at(0));
    }
    start(&mut scheduler, gang("kept", 1).priority(5), at(0));
    scheduler.handle_group(gang("new", 1).priority(10), at(1)).unwrap();
    let (_, names) = victims(&mut scheduler, at(1));
    assert!(names == ["default/a-0"] || names == ["default/b-0"], "{names:?}");
    // Its controller has not seen the eviction, and says what it said before.
    scheduler.handle_budget(budget(), at(2));
    scheduler.handle_group(gang("more", 1).priority(10), at(2)).unwrap();
    assert_eq!(victims(&mut scheduler, at(2)).1, ["default/kept-0"]);
}

/// Tenants of the parts of one pool.
fn tenants(queues: &[(&str, i64)]) -> Tenants {
    let mut tenants = Tenants::default();
    tenants.set_flavor(Flavor::new("all"));
    for (name, nominal) in queues {
        let queue = Queue::leaf(*name).parent("root").quota("all", GPU, Quota::nominal(*nominal));
        let queue = queue.quota("all", "cpu", Quota::nominal(1_000 * nominal));
        tenants.set_queue(queue).unwrap();
    }
    tenants
}

#[test]
fn a_gang_that_borrows_two_resources_shrinks_by_what_is_short_of_both() {
    let mut cluster = Cluster::new();
    for name in ["n0", "n1"] {
        cluster.add_node(Node::new(name).capacity(GPU, 4).capacity("cpu", 4)).unwrap();
    }
    let settings = Settings::new();
    let mut settings = settings.elastic(Elastic::new().by_turns());
    preempts(&mut settings);
    let mut scheduler = Scheduler::new(cluster, Framework::default(), settings)
        .with_tenants(tenants(&[("a", 4), ("b", 4)]));
    let elastic = |name: &str, minimum: u32, size: usize| {
        PodGroup::gang(name, minimum).pods(size, gpu().request("cpu", 1)).queue(name)
    };
    let settle = |scheduler: &mut Scheduler, now: Time| {
        let mut gone = 0;
        while let Some(decision) = scheduler.poll_decision(now) {
            match decision {
                Decision::Bind { ticket, plan, .. } => bind(scheduler, ticket, &plan, now),
                Decision::Evict { ticket, victims, .. } => {
                    for victim in victims {
                        gone += victim.pods.len();
                        let unit = victim.name.to_string();
                        scheduler.handle_gone(Gone::Evicted { ticket, unit }, now).unwrap();
                    }
                }
                other => panic!("{other:?}"),
            }
            scheduler.check().unwrap();
        }
        gone
    };
    scheduler.handle_group(elastic("a", 2, 8), at(0)).unwrap();
    assert_eq!(settle(&mut scheduler, at(0)), 0);
    scheduler.handle_group(elastic("b", 3, 3), at(10)).unwrap();
    assert_eq!(settle(&mut scheduler, at(10)), 3);
    let status = scheduler.status("default/a").unwrap();
    assert_eq!((status.bound, scheduler.status("default/b").unwrap().bound), (5, 3));
}

#[test]
fn an_older_group_takes_quota_from_a_younger_one_of_its_queue() {
    for policy in
        [QueuePreemptionPolicy::LowerPriority, QueuePreemptionPolicy::LowerOrNewerEqualPriority]
    {
        let mut tenants = Tenants::kueue();
        tenants.set_flavor(Flavor::new("all"));
        let preemption = QueuePreemption::default().within_cluster_queue(policy);
        let queue = Queue::leaf("q").quota("all", GPU, Quota::nominal(2)).preemption(preemption);
        tenants.set_queue(queue).unwrap();
        let mut scheduler = scheduler(gpus(1, 8), preempts).with_tenants(tenants);
        // The older one waits for a node of its kind, so that the younger is first.
        let old = PodGroup::gang("old", 2).pods(2, gpu().node_selector("rack", "z"));
        scheduler.handle_group(old.queue("q"), at(0)).unwrap();
        assert_eq!(scheduler.poll_decision(at(0)), None);
        // It runs already when it is seen, as after a restart.
        let pod = |at: usize| gpu().name(format!("young-{at}")).in_group("young").on("n0000");
        let young = PodGroup::gang("young", 2).pod(pod(0)).pod(pod(1)).evicted_whole();
        scheduler.handle_group(young.queue("q"), at(10)).unwrap();
        assert_eq!(scheduler.state("default/young"), Some(GroupState::Running));
        let node = Node::new("z").capacity(GPU, 2).label("rack", "z");
        scheduler.handle_event(Event::NodeChanged { node, version: 0 }, at(20)).unwrap();
        let decision = scheduler.poll_decision(at(20));
        if policy == QueuePreemptionPolicy::LowerPriority {
            assert_eq!(decision, None);
        } else {
            let Some(Decision::Evict { victims, .. }) = decision else { panic!("{decision:?}") };
            assert_eq!(victims[0].name, "default/young");
        }
    }
}

#[test]
fn a_nomination_outlasts_a_failed_binding_with_tenants_and_without() {
    for with_tenants in [false, true] {
        let mut scheduler = scheduler(gpus(2, 4), |_| ());
        if with_tenants {
            scheduler = scheduler.with_tenants(tenants(&[("q", 8)]));
        }
        let group = gang("g", 1).queue("q");
        // By itself it would go to the first node.
        let mut second = Cluster::builder().levels(["rack"]).build().unwrap();
        let node = Node::new("n0001").capacity(GPU, 4).label("rack", "r0");
        second.add_node(node).unwrap();
        let plan = place_gang(&second, &Framework::default(), &group).unwrap();
        scheduler.handle_group(group, at(0)).unwrap();
        scheduler.handle_nomination(plan.plan().unwrap().clone(), at(0)).unwrap();
        let mut now = at(0);
        let mut nodes = Vec::new();
        for _ in 0..2 {
            let decision = loop {
                match scheduler.poll_decision(now) {
                    None => now = scheduler.next_wake().expect("it is tried again"),
                    decision => break decision,
                }
            };
            let Some(Decision::Bind { ticket, plan, .. }) = decision else { panic!() };
            nodes.push(plan.assignments().next().unwrap().node().to_string());
            scheduler.handle_conflict(ticket, "another was first", now).unwrap();
        }
        assert_eq!(nodes, ["n0001", "n0001"], "{with_tenants}");
    }
}

#[test]
fn quota_that_a_claim_gives_up_goes_to_those_who_wait_for_it() {
    let mut tenants = Tenants::with(TenantSettings::default());
    tenants.set_flavor(Flavor::new("all"));
    let queue = Queue::leaf("q").quota("all", GPU, Quota::nominal(4));
    tenants.set_queue(queue).unwrap();
    let mut cluster = gpus(1, 2);
    let node = Node::new("z").capacity(GPU, 4).label("rack", "z").label("side", "yes");
    cluster.add_node(node).unwrap();
    let mut scheduler = scheduler(cluster, preempts).with_tenants(tenants);
    let on = |name: &str, rack: &str| {
        let pod = gpu().node_selector("rack", rack);
        PodGroup::gang(name, 2).pods(2, pod).evicted_whole().queue("q")
    };
    start(&mut scheduler, on("old", "r0"), at(0));
    scheduler.handle_group(on("new", "r0").priority(5), at(1)).unwrap();
    let (_, names) = victims(&mut scheduler, at(1));
    assert_eq!(names, ["default/old"]);
    // All quota is used or reserved, though there is room.
    scheduler.handle_group(on("late", "z"), at(2)).unwrap();
    assert_eq!(scheduler.poll_decision(at(2)), None);
    // The victims do not go in time.
    let mut bound = Vec::new();
    while let Some(decision) = scheduler.poll_decision(at(2 + 60)) {
        match decision {
            Decision::Bind { groups, .. } => bound.extend(groups),
            Decision::CancelEvictions { .. } => {}
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(bound, ["default/late"]);
}

#[test]
fn a_head_that_no_empty_cluster_holds_is_judged_once_and_not_with_each_event() {
    let calls = Arc::new(AtomicU64::new(0));
    let counter = Arc::clone(&calls);
    let never = filter_fn("never", Reach::Node, move |cx, _| {
        let is_odd = cx.pod().labels.contains_key("odd");
        counter.fetch_add(u64::from(is_odd), Relaxed);
        !is_odd
    });
    let framework = Framework::builder().filter(never).filter(Fit).build().unwrap();
    let settings = Settings::new().backfill(Backfill::easy());
    let mut scheduler = Scheduler::new(gpus(1, 8), framework, settings);
    start(&mut scheduler, mixed("running", 1, &[1], 1_000), at(0));
    // By its amounts it would fit an empty cluster.
    let pod = Pod::new().request(GPU, 8).label("odd", "yes");
    let odd = PodGroup::gang("odd", 1).pods(1, pod);
    scheduler.handle_group(odd.run_time_estimate(Duration::from_secs(10)), at(1)).unwrap();
    assert_eq!(scheduler.poll_decision(at(1)), None);
    let before = calls.load(Relaxed);
    for round in 2..20 {
        let name = format!("small{round}");
        start(&mut scheduler, mixed(&name, 1, &[1], 10), at(round));
        delete(&mut scheduler, &format!("{name}-0"), at(round));
    }
    assert_eq!(scheduler.poll_decision(at(20)), None);
    let more = calls.load(Relaxed) - before;
    assert!(before > 0 && more == 0, "{before} {more}");
    // Stated again as something that fits, it is promised a start.
    scheduler.handle_group(mixed("odd", 1, &[8], 10), at(22)).unwrap();
    assert_eq!(scheduler.poll_decision(at(22)), None);
    assert_eq!(promised(&scheduler), [("odd".to_owned(), at(1_000))]);
}

#[test]
fn a_gang_that_comes_back_after_a_loss_grows_one_by_one_as_it_did_first() {
    let mut scheduler = scheduler(gpus(8, 2), |settings| {
        let repair = Repair::new().worth(Duration::from_secs(60));
        settings.elastic = Elastic::new().by_turns().repair(repair);
        preempts(settings);
    });
    let sizes = |scheduler: &mut Scheduler, now: Time| {
        let mut sizes = Vec::new();
        while let Some(decision) = scheduler.poll_decision(now) {
            if let Decision::Bind { ticket, plan, .. } = decision {
                bind(scheduler, ticket, &plan, now);
                sizes.push(plan.len());
            }
        }
        sizes
    };
    let own = PodGroup::gang("own", 1).pods(8, gpu());
    scheduler.handle_group(own, at(0)).unwrap();
    assert_eq!(sizes(&mut scheduler, at(0)), [1; 8]);
    // Three of its four nodes fail at once, and then it ends.
    let node = |at: usize| scheduler.cluster().pod("default", &format!("own-{at}")).unwrap();
    let node = |at: usize| node(at).node().unwrap().name().to_owned();
    let last = node(7);
    let failed: BTreeSet<String> = (0..8).map(node).filter(|node| *node != last).collect();
    assert!(failed.len() >= 3, "{failed:?}");
    for name in failed {
        let event = Event::NodeRemoved { name, version: 0 };
        scheduler.handle_event(event, at(10)).unwrap();
    }
    let all: Vec<String> =
        scheduler.cluster().group_pods("default/own").map(|pod| pod.name().to_owned()).collect();
    for name in all {
        delete(&mut scheduler, &name, at(10));
    }
    for at_pod in 0..8 {
        let pod = gpu().name(format!("again-{at_pod}")).in_group("own");
        scheduler.handle_pod(pod, at(20)).unwrap();
    }
    assert_eq!(sizes(&mut scheduler, at(20)), [1; 8]);
}

#[test]
fn quota_is_put_aside_for_nobody_whose_own_limit_keeps_him_out() {
    let settings = TenantSettings::default().patience(Duration::from_secs(10));
    let mut tenants = Tenants::with(settings);
    tenants.set_flavor(Flavor::new("all"));
    let queue = Queue::leaf("q").quota("all", GPU, Quota::nominal(6));
    tenants.set_queue(queue.limit(UserLimit::users(["ada"]).amount(GPU, 4))).unwrap();
    let mut scheduler = scheduler(gpus(1, 16), |_| ()).with_tenants(tenants);
    let of =
        |user: &str, name: &str, size: usize| gang(name, size).queue("q").owner(Owner::new(user));
    start(&mut scheduler, of("eve", "running", 3), at(0));
    scheduler.handle_group(of("ada", "large", 4), at(1)).unwrap();
    assert_eq!(scheduler.poll_decision(at(1)), None);
    assert_eq!(scheduler.poll_decision(at(20)), None);
    // Free room is kept for `large`.
    scheduler.handle_group(of("bob", "small", 2), at(21)).unwrap();
    assert_eq!(scheduler.poll_decision(at(21)), None);
    // Another pod of ada's runs, by another's hand: with it `large` is beyond her limit.
    let pod = gpu().name("other-0").in_group("other").on("n0000");
    let other = PodGroup::gang("other", 1).pod(pod).queue("q").owner(Owner::new("ada"));
    scheduler.handle_group(other, at(30)).unwrap();
    assert_eq!(bind_all(&mut scheduler, at(30)), ["default/small"]);
}

#[test]
fn a_promise_that_the_running_gang_breaks_is_made_anew() {
    let mut scheduler = under(Backfill::conservative());
    start(&mut scheduler, mixed("running", 1, &[8], 100), at(0));
    scheduler.handle_group(mixed("next", 1, &[8], 10), at(1)).unwrap();
    assert_eq!(scheduler.poll_decision(at(1)), None);
    // A group that ends at that time may still run a moment later; then it is given as long again.
    for (secs, then, broken) in
        [(100, 100, 0), (101, 200, 1), (150, 200, 1), (200, 200, 1), (201, 400, 2)]
    {
        assert_eq!(scheduler.poll_decision(at(secs)), None);
        assert_eq!(promised(&scheduler), [("next".to_owned(), at(then))], "{secs}");
        assert_eq!(scheduler.metrics().promises_broken, broken, "{secs}");
    }
}
