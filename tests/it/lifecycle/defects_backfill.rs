//! Defects of backfill that the random streams found, each as a story.

use std::time::Duration;

use phalanx::framework::{PermitVerdict, permit_fn};
use phalanx::plugins::Fit;
use phalanx::queue::{
    Backfill, GroupState, PriorityThenTime, QueueStatus, SavedScheduler, Settings, Shortage,
};
use phalanx::quota::{Queue, Quota, TenantSettings, Tenants};
use phalanx::{Decision, Event, Framework, Node, Pod, PodGroup, Scheduler, Time};

use super::steps::*;

fn under(rule: Backfill, nodes: usize, each: i64) -> Scheduler {
    Scheduler::new(gpus(nodes, each), Framework::default(), Settings::new().backfill(rule))
}

/// Promises as [`promised`] has them, with their times in seconds.
fn told(own: &[(&str, u64)]) -> Vec<(String, Time)> {
    own.iter().map(|(name, time)| ((*name).to_owned(), at(*time))).collect()
}

/// A gang that runs for so many seconds.
fn job(name: &str, size: usize, secs: u64) -> PodGroup {
    gang(name, size).run_time_estimate(Duration::from_secs(secs))
}

fn quiet(scheduler: &mut Scheduler, now: Time) {
    assert_eq!(scheduler.poll_decision(now), None);
}

/// Submits a group that starts at once.
fn start(scheduler: &mut Scheduler, group: PodGroup, now: Time) {
    scheduler.handle_group(group, now).unwrap();
    assert_eq!(bind_all(scheduler, now).len(), 1);
}

fn end(scheduler: &mut Scheduler, name: &str, size: usize, now: Time) {
    (0..size).for_each(|pod| delete(scheduler, &format!("{name}-{pod}"), now));
}

fn promised(scheduler: &Scheduler) -> Vec<(String, Time)> {
    scheduler.promises().into_iter().map(|own| (own.group.name().to_owned(), own.at)).collect()
}

/// A pod that nobody schedules takes some of the only node.
fn stranger(scheduler: &mut Scheduler, name: &str, gpus: i64, now: Time) {
    let pod = Pod::new().name(name).request(GPU, gpus).on("n0000");
    scheduler.handle_event(Event::PodChanged { pod, version: 0 }, now).unwrap();
}

fn tenants(nominal: i64, patience: u64) -> Tenants {
    let settings = TenantSettings::default().patience(Duration::from_secs(patience));
    let mut tenants = Tenants::with(settings);
    tenants.set_flavor(phalanx::quota::Flavor::new("all"));
    let queue = Queue::leaf("q").quota("all", GPU, Quota::nominal(nominal));
    tenants.set_queue(queue).unwrap();
    tenants
}

fn used(scheduler: &Scheduler) -> i64 {
    let status: QueueStatus = scheduler.queue_status("q").unwrap();
    status.report.resources[0].sums.used
}

/// EndlessPass: each of two groups gave up its turn to quota for want of room, the other got it, and
/// the pass after that tried both again.
#[test]
fn groups_that_quota_is_put_aside_for_do_not_take_turns_in_one_instant() {
    for rule in [Backfill::easy(), Backfill::conservative()] {
        let mut scheduler = under(rule, 1, 8).with_tenants(tenants(4, 10));
        start(&mut scheduler, job("running", 4, 100).queue("q"), at(0));
        stranger(&mut scheduler, "one", 4, at(0));
        for name in ["a", "b"] {
            scheduler.handle_group(job(name, 4, 100).queue("q"), at(1)).unwrap();
        }
        quiet(&mut scheduler, at(1));
        quiet(&mut scheduler, at(20));
        // Quota is given back, and the room is taken by another.
        end(&mut scheduler, "running", 4, at(21));
        stranger(&mut scheduler, "two", 4, at(21));
        quiet(&mut scheduler, at(21));
        quiet(&mut scheduler, at(40));
        delete(&mut scheduler, "two", at(41));
        assert_eq!(bind_all(&mut scheduler, at(41)).len(), 1);
        assert_eq!(used(&scheduler), 4);
    }
}

/// EndlessPass: the promised plan was bound whole, though quota was given to a part of it.
#[test]
fn a_promised_plan_is_bound_only_as_far_as_quota_goes() {
    let mut scheduler = under(Backfill::conservative(), 1, 2).with_tenants(tenants(1, 1_000));
    stranger(&mut scheduler, "one", 1, at(0));
    stranger(&mut scheduler, "two", 1, at(0));
    let group = PodGroup::gang("g", 1).pods(2, gpu()).queue("q");
    scheduler.handle_group(group.run_time_estimate(Duration::from_secs(10)), at(0)).unwrap();
    quiet(&mut scheduler, at(0));
    delete(&mut scheduler, "one", at(5));
    delete(&mut scheduler, "two", at(5));
    let (_, plan) = plan(&mut scheduler, at(5));
    assert_eq!((plan.len(), used(&scheduler)), (1, 1));
}

/// StalePromise: the plan was bound with a pod that did not exist any more.
#[test]
fn a_promise_is_made_anew_for_other_members() {
    let mut scheduler = under(Backfill::conservative(), 1, 2);
    start(&mut scheduler, job("running", 2, 100), at(0));
    scheduler.handle_group(job("g", 2, 10), at(1)).unwrap();
    quiet(&mut scheduler, at(1));
    assert_eq!(promised(&scheduler), [("g".to_owned(), at(100))]);
    delete(&mut scheduler, "g-1", at(2));
    quiet(&mut scheduler, at(2));
    assert!(promised(&scheduler).is_empty());
    scheduler.handle_pod(gpu().name("late").in_group("g"), at(3)).unwrap();
    quiet(&mut scheduler, at(3));
    assert_eq!(promised(&scheduler), [("g".to_owned(), at(100))]);
    end(&mut scheduler, "running", 2, at(50));
    let (_, plan) = plan(&mut scheduler, at(50));
    let pods: Vec<&str> = plan.assignments().map(|to| &*to.pod().name).collect();
    assert_eq!(pods, ["g-0", "late"]);
}

/// StalePromise: nobody looked at room that was promised to a group which left the line.
#[test]
fn room_that_was_promised_to_a_group_that_leaves_is_given_to_others() {
    for rule in [Backfill::easy(), Backfill::conservative()] {
        let mut scheduler = under(rule, 1, 2);
        start(&mut scheduler, job("running", 1, 100), at(0));
        scheduler.handle_group(job("wide", 2, 10), at(1)).unwrap();
        scheduler.handle_group(job("long", 1, 1_000), at(1)).unwrap();
        quiet(&mut scheduler, at(1));
        scheduler.handle_group_removed("default/wide", at(2)).unwrap();
        assert_eq!(bind_all(&mut scheduler, at(2)), ["default/long"]);
    }
}

/// Refused: a group without a place at its promised start was not tried when a node might be again.
#[test]
fn a_group_that_all_nodes_have_refused_is_tried_when_one_may_be_again() {
    for (rule, nodes) in
        [(Backfill::easy(), 2), (Backfill::conservative(), 2), (Backfill::conservative(), 3)]
    {
        let mut scheduler = under(rule, nodes, 1);
        scheduler.handle_group(job("g", 1, 10), at(0)).unwrap();
        let (mut now, mut refused) = (at(0), 0);
        for _ in 0..200 {
            match scheduler.poll_decision(now) {
                Some(Decision::Bind { ticket, .. }) => {
                    refused += 1;
                    let result = Err("refused".into());
                    scheduler.handle_binding(ticket, "default", "g-0", result, now).unwrap();
                }
                Some(other) => panic!("{other:?}"),
                None => now = scheduler.next_wake().expect("it is tried again"),
            }
            if refused > 4 * nodes {
                break;
            }
        }
        assert!(refused > 4 * nodes, "{refused} attempts until {now:?}");
    }
}

/// A framework whose permit denies until a time.
fn denies_until(secs: u64) -> Framework {
    let permit = permit_fn("gate", move |cx| {
        if cx.group.name == "g" && cx.now < at(secs) {
            PermitVerdict::Deny { reason: "not yet".into() }
        } else {
            PermitVerdict::Admit
        }
    });
    Framework::builder().filter(Fit).permit(permit).build().unwrap()
}

/// One node of two GPUs, and a permit that denies until 100 s.
fn denying(rule: Backfill) -> Scheduler {
    let settings = Settings::new().backfill(rule).max_in_unschedulable(Duration::from_secs(300));
    Scheduler::new(gpus(1, 2), denies_until(100), settings)
}

/// DeniedInLine, Conservative: a denied group was tried again with every nanosecond, or never.
#[test]
fn a_denied_group_is_tried_again_after_some_time_and_holds_up_no_other() {
    for rule in [Backfill::easy(), Backfill::conservative()] {
        let mut scheduler = denying(rule);
        scheduler.handle_group(job("g", 2, 10), at(1)).unwrap();
        quiet(&mut scheduler, at(1));
        assert_eq!(scheduler.next_wake(), Some(at(301)), "{rule:?}");
        assert!(promised(&scheduler).is_empty());
        start(&mut scheduler, job("other", 1, 1_000), at(2));
        end(&mut scheduler, "other", 1, at(50));
        quiet(&mut scheduler, at(50));
        let woken = scheduler.next_wake().expect("it sleeps");
        assert!(woken >= at(300) && woken <= at(350), "{rule:?}: {woken:?}");
        assert_eq!(bind_all(&mut scheduler, woken), ["default/g"], "{rule:?}");
    }
}

/// TimedPermit: a permit was asked about the time of the promise, admitted the end of the next job, and the
/// group slept until then.
#[test]
fn a_permit_that_reads_the_time_puts_no_promise_off() {
    for rule in [Backfill::easy(), Backfill::conservative()] {
        let mut scheduler = denying(rule);
        start(&mut scheduler, job("other", 1, 10_000), at(0));
        scheduler.handle_group(job("g", 1, 10), at(1)).unwrap();
        quiet(&mut scheduler, at(1));
        assert!(promised(&scheduler).is_empty(), "{rule:?}");
        assert_eq!(scheduler.next_wake(), Some(at(301)), "{rule:?}");
        assert_eq!(bind_all(&mut scheduler, at(301)), ["default/g"], "{rule:?}");
    }
}

/// Conservative: a group without an estimate was neither promised a start nor told why it waits.
#[test]
fn a_group_that_promises_keep_from_starting_is_told_so() {
    let mut scheduler = under(Backfill::conservative(), 1, 2);
    start(&mut scheduler, job("running", 1, 100), at(0));
    scheduler.handle_group(gang("wide", 2), at(1)).unwrap();
    scheduler.handle_group(gang("endless", 1), at(1)).unwrap();
    quiet(&mut scheduler, at(1));
    let state = scheduler.state("default/endless").unwrap();
    let GroupState::Unschedulable { shortage: Some(Shortage::Promised { to, at: then }), .. } =
        state
    else {
        panic!("{state:?}")
    };
    assert_eq!((to.as_str(), then), ("default/wide", at(100)));
    scheduler.handle_group_removed("default/wide", at(2)).unwrap();
    assert_eq!(bind_all(&mut scheduler, at(2)), ["default/endless"]);
}

/// TwinInLine: a restored scheduler did not know the promise that stands, and tried the first again.
#[test]
fn a_restored_scheduler_makes_the_same_attempts() {
    let settings = Settings::new().backfill(Backfill::easy());
    let mut scheduler = Scheduler::new(gpus(1, 4), Framework::default(), settings);
    start(&mut scheduler, job("running", 2, 100), at(0));
    scheduler.handle_group(job("wide", 4, 10), at(1)).unwrap();
    scheduler.handle_group(job("short", 1, 10), at(1)).unwrap();
    assert_eq!(bind_all(&mut scheduler, at(1)), ["default/short"]);
    let text = |scheduler: &Scheduler| serde_json::to_string(&scheduler.save()).unwrap();
    let saved: SavedScheduler = serde_json::from_str(&text(&scheduler)).unwrap();
    let mut twin = Scheduler::restore(saved, Framework::default(), PriorityThenTime);
    assert_eq!(text(&twin), text(&scheduler));
    for (step, run) in [(2, 1_000), (3, 20)] {
        for own in [&mut scheduler, &mut twin] {
            own.handle_group(job(&format!("late{step}"), 1, run), at(step)).unwrap();
        }
        let decided = scheduler.poll_decision(at(step));
        assert_eq!(matches!(decided, Some(Decision::Bind { .. })), run == 20);
        assert_eq!(twin.poll_decision(at(step)), decided);
        assert_eq!(text(&twin), text(&scheduler));
    }
}

/// BrokenTogether: two nodes were lost at once, and with them two promises. One of them was made
/// anew, the other stayed broken, and for that nobody was promised anything.
#[test]
fn a_loss_that_breaks_two_promises_leaves_nobody_without_one() {
    let mut scheduler = under(Backfill::conservative(), 3, 2);
    let one = |name: &str, secs: u64| {
        let group = PodGroup::gang(name, 1).pods(1, Pod::new().request(GPU, 2));
        group.require("rack").run_time_estimate(Duration::from_secs(secs))
    };
    for name in ["r0", "r1", "r2"] {
        start(&mut scheduler, one(name, 100), at(0));
    }
    for name in ["x", "y", "z"] {
        scheduler.handle_group(one(name, 50), at(1)).unwrap();
    }
    quiet(&mut scheduler, at(1));
    let all = |times: [u64; 3]| {
        let named = ["x", "y", "z"].into_iter().zip(times);
        named.map(|(name, time)| (name.to_owned(), at(time))).collect::<Vec<_>>()
    };
    assert_eq!(promised(&scheduler), all([100, 100, 100]));
    for name in ["n0001", "n0002"] {
        let node = Node::new(name).capacity(GPU, 2).label("rack", "r0").unschedulable();
        scheduler.handle_event(Event::NodeChanged { node, version: 0 }, at(2)).unwrap();
    }
    quiet(&mut scheduler, at(2));
    assert_eq!(promised(&scheduler), all([100, 150, 200]));
}

/// LostNode: the copy of the cluster at a later time kept a pod of a lost node that was deleted, so that the
/// pod in its place was missing there, and its room was promised to another.
#[test]
fn a_pod_in_place_of_one_on_a_lost_node_takes_its_room_at_later_times_too() {
    let mut scheduler = under(Backfill::easy(), 3, 2);
    let grows = PodGroup::gang("g", 1).pods(2, gpu()).priority(1);
    start(&mut scheduler, grows.run_time_estimate(Duration::from_secs(1_000)), at(0));
    start(&mut scheduler, job("first", 2, 50), at(0));
    start(&mut scheduler, job("second", 2, 60), at(0));
    let lost = scheduler.cluster().pod("default", "g-0").unwrap().node().unwrap().name().to_owned();
    scheduler.handle_event(Event::NodeRemoved { name: lost, version: 0 }, at(1)).unwrap();
    scheduler.handle_group(job("wide", 4, 10), at(2)).unwrap();
    quiet(&mut scheduler, at(2));
    assert_eq!(promised(&scheduler), [("wide".to_owned(), at(60))]);
    delete(&mut scheduler, "g-0", at(3));
    scheduler.handle_pod(gpu().name("g-0").in_group("g"), at(3)).unwrap();
    quiet(&mut scheduler, at(3));
    delete(&mut scheduler, "second-0", at(4));
    assert_eq!(bind_all(&mut scheduler, at(4)), ["default/g"]);
    assert_eq!(promised(&scheduler), [("wide".to_owned(), at(1_000))]);
}

/// The first of the line had room by the sums and no place, ever, and kept the room from the next.
#[test]
fn a_group_that_never_has_a_place_takes_no_room_from_those_behind_it() {
    let mut scheduler = under(Backfill::conservative(), 2, 8);
    for node in ["n0000", "n0001"] {
        let pod = Pod::new().name(node).request(GPU, 4).on(node);
        scheduler.handle_event(Event::PodChanged { pod, version: 0 }, at(0)).unwrap();
    }
    let wide = PodGroup::gang("wide", 1).pods(1, Pod::new().request(GPU, 8)).priority(1);
    let mixed = PodGroup::gang("mixed", 1)
        .pods(1, Pod::new().request(GPU, 3))
        .pods(1, Pod::new().request(GPU, 1));
    scheduler.handle_group(wide, at(1)).unwrap();
    scheduler.handle_group(mixed, at(1)).unwrap();
    assert_eq!(bind_all(&mut scheduler, at(1)).len(), 1);
    assert!(promised(&scheduler).is_empty());
}

/// EndedPlan: a late pod was promised a place after the end of its own group. The plan was in the copy of the
/// cluster when the group ended there once more, and its pod came back with the group at an earlier time.
#[test]
fn the_promised_pod_of_a_running_group_runs_at_no_earlier_time() {
    let wide = |gpus: i64| Pod::new().request(GPU, gpus);
    let job = |name: &str, gpus, secs| {
        let group = PodGroup::gang(name, 1).pods(1, wide(gpus));
        group.run_time_estimate(Duration::from_secs(secs))
    };
    let mut scheduler = under(Backfill::easy(), 3, 8);
    start(&mut scheduler, job("first", 7, 90), at(0));
    start(&mut scheduler, job("second", 7, 150), at(0));
    // The third node has the others.
    start(&mut scheduler, job("stays", 3, 1_000), at(0));
    let grows = job("grows", 2, 80).priority(1);
    start(&mut scheduler, grows.clone(), at(0));
    let pod = scheduler.cluster().pod("default", "grows-0").unwrap();
    let idle = Pod::new().name("idle").on(pod.node().unwrap().name());
    scheduler.handle_event(Event::PodChanged { pod: idle, version: 0 }, at(0)).unwrap();
    scheduler.handle_pod(wide(8).name("late").in_group("grows"), at(1)).unwrap();
    quiet(&mut scheduler, at(1));
    assert_eq!(promised(&scheduler), [("grows".to_owned(), at(90))]);
    // The group is stated again, and another starts beside its promise.
    scheduler.handle_group(grows, at(2)).unwrap();
    delete(&mut scheduler, "idle", at(2));
    start(&mut scheduler, job("beside", 3, 1_000), at(2));
    assert_eq!(promised(&scheduler), [("grows".to_owned(), at(90))]);
    // Two run for longer than estimated: the next room is that of the second.
    quiet(&mut scheduler, at(91));
    assert_eq!(promised(&scheduler), [("grows".to_owned(), at(150))]);
}

/// Everything, seed 670,014,898,486. The room that the first of the line had by the sums put the promise of the
/// next off, though it has no place there, ever.
#[test]
fn a_group_that_never_has_a_place_puts_no_promise_off() {
    let mut scheduler = under(Backfill::conservative(), 2, 1);
    start(&mut scheduler, job("running", 1, 10), at(0));
    let wide = PodGroup::gang("wide", 1).pods(1, Pod::new().request(GPU, 2)).priority(1);
    let wide = wide.run_time_estimate(Duration::from_secs(10));
    scheduler.handle_group(wide, at(1)).unwrap();
    scheduler.handle_group(job("next", 1, 100), at(1)).unwrap();
    assert_eq!(bind_all(&mut scheduler, at(1)), ["default/next"]);
    scheduler.handle_group(job("last", 1, 100), at(2)).unwrap();
    quiet(&mut scheduler, at(2));
    assert_eq!(promised(&scheduler), [("last".to_owned(), at(10))]);
}

/// Everything, seed 5,677,946,766,086. A promise that could not be kept ended together with one that was put
/// off. The next was promised the time after both, and kept it though the room before it was free.
#[test]
fn a_promise_that_is_lost_beside_one_that_is_late_releases_its_room() {
    let mut scheduler = under(Backfill::conservative(), 2, 2);
    let job = |name: &str, size: usize, secs| {
        let all = PodGroup::gang(format!("{name}-all"), size as u32);
        let all = all.pods(size, Pod::new().request(GPU, 2));
        PodGroup::gang(name, 1).group(all).run_time_estimate(Duration::from_secs(secs))
    };
    start(&mut scheduler, job("short", 1, 100), at(0));
    start(&mut scheduler, job("long", 1, 200), at(0));
    for group in [job("wide", 2, 500).priority(1), job("brief", 1, 50), job("next", 1, 1_000)] {
        scheduler.handle_group(group, at(1)).unwrap();
        quiet(&mut scheduler, at(1));
    }
    assert_eq!(promised(&scheduler), told(&[("wide", 200), ("brief", 100), ("next", 700)]));
    let pod = scheduler.cluster().pod("default", "long-all-0").unwrap();
    let name = pod.node().unwrap().name().to_owned();
    let node = Node::new(name).capacity(GPU, 2).unschedulable();
    scheduler.handle_event(Event::NodeChanged { node, version: 0 }, at(101)).unwrap();
    quiet(&mut scheduler, at(101));
    assert_eq!(promised(&scheduler), told(&[("brief", 200), ("next", 250)]));
}

/// Groups of groups counted as no demand at all, so that one behind was promised the room of one before it.
#[test]
fn groups_of_groups_that_arrive_at_once_are_promised_starts_in_their_order() {
    let mut scheduler = under(Backfill::conservative(), 2, 2);
    let job = |name: &str, parts: &[usize], least: u32, secs| {
        let mut group = PodGroup::gang(name, least).run_time_estimate(Duration::from_secs(secs));
        for (number, size) in parts.iter().enumerate() {
            let part = PodGroup::gang(format!("{name}-{number}"), *size as u32);
            group = group.group(part.pods(*size, Pod::new().request(GPU, 1)));
        }
        group
    };
    start(&mut scheduler, job("short", &[2], 1, 100), at(0));
    start(&mut scheduler, job("long", &[1], 1, 200), at(0));
    // One part of two pods is enough for `either`.
    let line = [
        job("wide", &[1, 3], 2, 500).priority(2),
        job("either", &[3, 2, 4], 1, 300).priority(1),
        job("narrow", &[1, 1], 2, 100),
    ];
    for group in line {
        scheduler.handle_group(group, at(1)).unwrap();
    }
    quiet(&mut scheduler, at(1));
    assert_eq!(promised(&scheduler), told(&[("wide", 200), ("either", 700), ("narrow", 100)]));
}
