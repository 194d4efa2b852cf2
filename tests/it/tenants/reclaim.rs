//! Reclaim in the scheduler: what a guarantee takes back, and what is held meanwhile.

use std::time::Duration;

use phalanx::model::Amounts;
use phalanx::queue::{
    Gone, GroupState, PreemptionSettings, PriorityThenTime, QuotaReason, SavedScheduler, Settings,
    Shortage, Ticket,
};
use phalanx::quota::{
    Claim, Flavor, PodSet, Queue, QueuePreemption, QueuePreemptionPolicy, Quota, Tenants,
};
use phalanx::{Cluster, Decision, Framework, Node, Pod, PodGroup, Scheduler, Time};

use super::scheduler::{at, cluster, gang, used};

/// A queue that may take back what others borrow.
fn lab(name: &str) -> Queue {
    let preemption = QueuePreemption::default()
        .within_cluster_queue(QueuePreemptionPolicy::LowerPriority)
        .reclaim_within_cohort(QueuePreemptionPolicy::Any);
    Queue::leaf(name).parent("labs").preemption(preemption)
}

/// The dialects, each with queues that may take back what others borrow.
pub(super) fn dialects() -> [Tenants; 2] {
    let [mut own, mut kueue] = [Tenants::default(), Tenants::kueue()];
    for tenants in [&mut own, &mut kueue] {
        tenants.set_flavor(Flavor::new("all"));
        for name in ["a", "b", "c"] {
            let quota = Quota::nominal(if name == "c" { 0 } else { 8 });
            tenants.set_queue(lab(name).quota("all", "gpu", quota)).expect("sound");
        }
    }
    [own, kueue]
}

fn settings() -> Settings {
    let mut settings = Settings::default();
    settings.preemption = Some(PreemptionSettings::default());
    settings
}

pub(super) fn preempting(cluster: Cluster, tenants: Tenants) -> Scheduler {
    Scheduler::new(cluster, Framework::default(), settings()).with_tenants(tenants)
}

/// Findings of one instant: groups that were started, and victims that are asked for and not taken
/// back.
#[derive(Debug, Default)]
pub(super) struct Found {
    pub(super) started: Vec<String>,
    pub(super) asked: Vec<(Ticket, String)>,
    pub(super) back: Vec<String>,
}

pub(super) fn poll(scheduler: &mut Scheduler, now: Time) -> Found {
    let mut found = Found::default();
    while let Some(decision) = scheduler.poll_decision(now) {
        match decision {
            Decision::Bind { ticket, groups, .. } => {
                found.started.extend(groups.iter().map(ToString::to_string));
                scheduler.handle_bound(ticket, now).expect("known");
            }
            Decision::Evict { ticket, victims, .. } => {
                found
                    .asked
                    .extend(victims.into_iter().map(|victim| (ticket, victim.name.to_string())));
            }
            Decision::CancelEvictions { victims, .. } => {
                found.back.extend(victims.into_iter().map(|victim| victim.name.to_string()));
            }
            other => panic!("{other:?}"),
        }
    }
    found
}

/// Findings for a new group.
pub(super) fn ask(scheduler: &mut Scheduler, group: PodGroup, now: Time) -> Found {
    scheduler.handle_group(group, now).expect("sound");
    poll(scheduler, now)
}

/// Starts groups for which there is room, one a second.
pub(super) fn start(scheduler: &mut Scheduler, groups: impl IntoIterator<Item = PodGroup>) {
    for (number, group) in groups.into_iter().enumerate() {
        assert_eq!(ask(scheduler, group, at(number as u64)).started.len(), 1);
    }
}

pub(super) fn names(found: &Found) -> Vec<&str> {
    found.asked.iter().map(|(_, name)| name.as_str()).collect()
}

/// `a` borrows 4 of the 8 that are guaranteed to `b`, on 16 GPUs of which none is free.
pub(super) fn full(tenants: Tenants) -> Scheduler {
    let mut scheduler = preempting(cluster(2, 8), tenants);
    let groups = ["a1", "a2", "a3", "b1"].map(|name| gang(name, &name[..1], 2, 2));
    start(&mut scheduler, groups);
    assert_eq!((used(&scheduler, "a"), used(&scheduler, "b")), (12, 4));
    scheduler
}

#[test]
fn a_guarantee_comes_back_from_those_that_borrow() {
    for tenants in dialects() {
        let mut scheduler = full(tenants);
        let found = ask(&mut scheduler, gang("b2", "b", 2, 2), at(10));
        // The most recent of those that borrow.
        assert_eq!(names(&found), ["default/a3"]);
        assert_eq!(found.started.len(), 0);
        // It is charged until it is gone.
        assert_eq!((used(&scheduler, "a"), used(&scheduler, "b")), (12, 4));
        let status = scheduler.queue_status("b").expect("known");
        assert!(
            matches!(
                status.shortage,
                Some(Shortage::Quota { reason: QuotaReason::Reclaimable { victims: 1 }, .. })
            ),
            "{status:?}"
        );
        let (ticket, victim) = &found.asked[0];
        scheduler.handle_gone(Gone::evicted(*ticket, victim), at(11)).expect("known");
        let found = poll(&mut scheduler, at(11));
        assert_eq!(found.started, ["default/b2"]);
        assert!(found.asked.is_empty() && found.back.is_empty(), "{found:?}");
        assert_eq!((used(&scheduler, "a"), used(&scheduler, "b")), (8, 8));
        // The victim waits, and takes nothing back.
        assert!(matches!(
            scheduler.state("default/a3"),
            Some(GroupState::Unschedulable { .. } | GroupState::BackingOff { .. })
        ));
        let metrics = scheduler.metrics();
        assert_eq!((metrics.preemptions, metrics.victims, metrics.evictions_cancelled), (1, 1, 0));
    }
}

#[test]
fn without_settings_of_preemption_nothing_is_evicted() {
    for tenants in dialects() {
        let mut scheduler =
            Scheduler::new(cluster(2, 8), Framework::default(), Settings::default())
                .with_tenants(tenants);
        for name in ["a1", "a2", "a3", "b1", "b2"] {
            scheduler.handle_group(gang(name, &name[..1], 2, 2), at(0)).expect("sound");
        }
        for name in ["a4", "b3"] {
            scheduler.handle_group(gang(name, &name[..1], 2, 2), at(1)).expect("sound");
        }
        assert!(poll(&mut scheduler, at(1)).asked.is_empty());
    }
}

#[test]
fn quota_and_room_are_held_until_the_victims_are_gone() {
    for tenants in dialects() {
        let mut scheduler = full(tenants);
        let found = ask(&mut scheduler, gang("b2", "b", 2, 2), at(10));
        assert_eq!(names(&found), ["default/a3"]);
        // Others of all queues come while the first of two pods has gone.
        scheduler.handle_gone(Gone::deleted("default", "a3-0"), at(11)).expect("known");
        for (name, queue) in [("a4", "a"), ("b3", "b"), ("c1", "c")] {
            scheduler.handle_group(gang(name, queue, 1, 2), at(11)).expect("sound");
        }
        let others = poll(&mut scheduler, at(11));
        assert_eq!(others.started.len(), 0, "{others:?}");
        scheduler.handle_gone(Gone::deleted("default", "a3-1"), at(12)).expect("known");
        let last = poll(&mut scheduler, at(12));
        assert_eq!(last.started, ["default/b2"]);
        assert_eq!(used(&scheduler, "a") + used(&scheduler, "b") + used(&scheduler, "c"), 16);
    }
}

#[test]
fn quota_that_comes_otherwise_takes_the_evictions_back() {
    for tenants in dialects() {
        let mut scheduler = full(tenants);
        assert_eq!(names(&ask(&mut scheduler, gang("b2", "b", 2, 2), at(10))), ["default/a3"]);
        for pod in ["a1-0", "a1-1"] {
            scheduler.handle_gone(Gone::finished("default", pod), at(11)).expect("known");
        }
        let found = poll(&mut scheduler, at(11));
        assert_eq!(
            (found.started, found.back),
            (vec!["default/b2".into()], vec!["default/a3".into()])
        );
        assert_eq!((used(&scheduler, "a"), used(&scheduler, "b")), (8, 8));
        assert_eq!(scheduler.state("default/a3"), Some(GroupState::Running));
        // Nothing is left behind: what remains is lent again.
        assert!(ask(&mut scheduler, gang("c1", "c", 1, 1), at(12)).started.is_empty());
        scheduler.handle_gone(Gone::finished("default", "b1-0"), at(13)).expect("known");
        assert_eq!(poll(&mut scheduler, at(13)).started, ["default/c1"]);
    }
}

#[test]
fn a_reclaimer_that_goes_away_gives_its_victims_and_its_quota_back() {
    for tenants in dialects() {
        let mut scheduler = full(tenants);
        assert_eq!(names(&ask(&mut scheduler, gang("b2", "b", 2, 2), at(10))), ["default/a3"]);
        scheduler.handle_group_removed("default/b2", at(11)).expect("known");
        let found = poll(&mut scheduler, at(11));
        assert_eq!(found.back, ["default/a3"]);
        assert_eq!(scheduler.tenants().expect("there").reserving().count(), 0);
        let holder = scheduler.tenants().expect("there").find("default/a3").expect("held");
        assert!(!scheduler.tenants().expect("there").holder(holder).expect("held").leaving);
        assert_eq!(scheduler.state("default/a3"), Some(GroupState::Running));
    }
}

#[test]
fn a_victim_that_cannot_go_is_kept_and_another_is_named() {
    for tenants in dialects() {
        let mut scheduler = full(tenants);
        let found = ask(&mut scheduler, gang("b2", "b", 2, 2), at(10));
        let (ticket, victim) = &found.asked[0];
        assert_eq!(victim, "default/a3");
        scheduler.handle_eviction_failed(*ticket, victim, None, at(11)).expect("known");
        let mut asked = Vec::new();
        let mut now = at(11);
        for _ in 0..8 {
            let found = poll(&mut scheduler, now);
            asked.extend(found.asked);
            let Some(wake) = scheduler.next_wake().filter(|_| asked.is_empty()) else { break };
            now = wake.max(now);
        }
        assert!(now < at(60), "soon: {now:?}");
        assert_eq!(asked.len(), 1);
        assert_eq!(asked[0].1, "default/a2");
        scheduler.handle_gone(Gone::evicted(asked[0].0, "default/a2"), now).expect("known");
        assert_eq!(poll(&mut scheduler, now).started, ["default/b2"]);
    }
}

#[test]
fn those_that_are_protected_are_passed_over() {
    for tenants in dialects() {
        let mut scheduler = preempting(cluster(2, 8), tenants);
        let mut protected = gang("a3", "a", 2, 2);
        protected.min_run_time = Some(Duration::from_secs(100));
        let mut fixed = gang("a4", "a", 2, 2);
        fixed.non_preemptible = true;
        let groups = [gang("a1", "a", 2, 2), gang("a2", "a", 2, 2), protected, fixed];
        start(&mut scheduler, groups);
        // 16 of 16 are used by `a`, 8 of them borrowed.
        let found = ask(&mut scheduler, gang("b1", "b", 2, 4), at(10));
        let mut asked = names(&found);
        asked.sort_unstable();
        assert_eq!(asked, ["default/a1", "default/a2"]);
    }
}

#[test]
fn the_end_of_a_protection_is_noticed() {
    for tenants in dialects() {
        let mut scheduler = preempting(cluster(2, 8), tenants);
        let groups = ["a0", "a1"].map(|name| {
            let mut group = gang(name, "a", 2, 4);
            group.min_run_time = Some(Duration::from_secs(100));
            group
        });
        start(&mut scheduler, groups);
        assert!(ask(&mut scheduler, gang("b1", "b", 2, 4), at(10)).asked.is_empty());
        let wake = scheduler.next_wake().expect("the end of a minimum run time");
        assert_eq!(wake, at(100));
        let found = poll(&mut scheduler, wake);
        assert_eq!(names(&found), ["default/a0"]);
    }
}

#[test]
fn nothing_is_evicted_where_there_is_no_place_for_the_gang() {
    for tenants in dialects() {
        let mut cluster = Cluster::builder().levels(["rack"]).build().expect("sound");
        for at in 0..4 {
            let node = Node::new(format!("n{at}")).capacity("gpu", 4);
            cluster.add_node(node.label("rack", format!("r{at}"))).expect("sound");
        }
        let mut scheduler = preempting(cluster, tenants);
        start(&mut scheduler, ["a0", "a1", "a2", "a3"].map(|name| gang(name, "a", 2, 2)));
        // 8 in one rack: no rack has as many.
        assert!(
            ask(&mut scheduler, gang("b1", "b", 2, 4).require("rack"), at(10)).asked.is_empty()
        );
        // 4 in one rack: one that borrows goes, and the gang goes where it was.
        let found = ask(&mut scheduler, gang("b2", "b", 2, 2).require("rack"), at(11));
        assert_eq!(names(&found), ["default/a3"]);
    }
}

#[test]
fn priorities_count_within_a_queue_alone() {
    for tenants in dialects() {
        let mut scheduler = preempting(cluster(2, 8), tenants);
        let groups = ["a1", "a2", "b1", "b2"].map(|name| gang(name, &name[..1], 2, 2));
        start(&mut scheduler, groups);
        // All use what is theirs: the important one takes of its own queue.
        let found = ask(&mut scheduler, gang("a3", "a", 2, 2).priority(10), at(10));
        assert_eq!(names(&found), ["default/a2"]);
    }
}

#[test]
fn room_is_made_in_the_own_queue_alone() {
    for mut tenants in dialects() {
        // There is more quota than there are GPUs.
        for name in ["a", "b"] {
            let queue = lab(name).quota("all", "gpu", Quota::nominal(32));
            tenants.set_queue(queue).expect("sound");
        }
        let mut scheduler = preempting(cluster(2, 8), tenants);
        let groups = ["a1", "a2", "b1", "b2"].map(|name| gang(name, &name[..1], 2, 2));
        start(&mut scheduler, groups);
        let found = ask(&mut scheduler, gang("a3", "a", 4, 2).priority(10), at(10));
        let mut asked = names(&found);
        asked.sort_unstable();
        assert!(asked.iter().all(|name| name.starts_with("default/a")), "{asked:?}");
        assert_eq!(asked.len(), 4);
        for (ticket, victim) in &found.asked {
            scheduler.handle_gone(Gone::evicted(*ticket, victim), at(11)).expect("known");
        }
        assert_eq!(poll(&mut scheduler, at(11)).started, ["default/a3"]);
        assert_eq!((used(&scheduler, "a"), used(&scheduler, "b")), (8, 8));
    }
}

#[test]
fn the_plan_is_of_the_flavors_that_were_reserved() {
    for mut tenants in [Tenants::default(), Tenants::kueue()] {
        for flavor in ["old", "new"] {
            tenants.set_flavor(Flavor::new(flavor).label("kind", flavor));
        }
        for name in ["a", "b"] {
            let queue = lab(name).quota("old", "gpu", Quota::nominal(4));
            let queue = queue.quota("new", "gpu", Quota::nominal(4));
            tenants.set_queue(queue).expect("sound");
        }
        let mut cluster = Cluster::new();
        for kind in ["old", "new"] {
            let node = Node::new(kind).capacity("gpu", 8).label("kind", kind);
            cluster.add_node(node).expect("sound");
        }
        let mut scheduler = preempting(cluster, tenants);
        start(&mut scheduler, ["a0", "a1", "a2", "a3"].map(|name| gang(name, "a", 2, 2)));
        let found = ask(&mut scheduler, gang("b1", "b", 2, 2), at(10));
        assert_eq!(found.asked.len(), 1, "{found:?}");
        // The other flavor is free first.
        let victim = found.asked[0].1.clone();
        let others = (0..4).map(|number| format!("default/a{number}"));
        let on = |scheduler: &Scheduler, name: &str| {
            let pod = scheduler.cluster().pod("default", &format!("{}-0", &name[8..]));
            pod.and_then(phalanx::state::PodView::node).map(|node| node.name().to_owned())
        };
        let there = on(&scheduler, &victim);
        let other = others.into_iter().find(|name| on(&scheduler, name) != there);
        let other = other.expect("two flavors are used");
        let free = on(&scheduler, &other).expect("runs");
        for pod in 0..2 {
            let name = format!("{}-{pod}", &other[8..]);
            scheduler.handle_gone(Gone::finished("default", &name), at(11)).expect("known");
        }
        let found = poll(&mut scheduler, at(11));
        assert_eq!(
            (&found.started[..], &found.back[..]),
            (&["default/b1".into()][..], &[victim][..])
        );
        assert_eq!(on(&scheduler, "default/b1"), Some(free.clone()));
        let status = scheduler.queue_status("b").expect("known");
        let used = status.report.resources.iter().filter(|own| own.sums.used > 0);
        assert_eq!(used.map(|own| own.flavor.clone()).collect::<Vec<_>>(), [free]);
    }
}

#[test]
fn a_saved_reclaim_goes_on_alike() {
    for tenants in dialects() {
        let mut scheduler = full(tenants);
        let found = ask(&mut scheduler, gang("b2", "b", 2, 2), at(10));
        let text = serde_json::to_string(&scheduler.save()).expect("data");
        let saved: SavedScheduler = serde_json::from_str(&text).expect("data");
        let mut again = Scheduler::restore(saved, Framework::default(), PriorityThenTime);
        assert_eq!(serde_json::to_string(&again.save()).expect("data"), text);
        for scheduler in [&mut scheduler, &mut again] {
            scheduler.handle_group(gang("c1", "c", 1, 2), at(10)).expect("sound");
            let (ticket, victim) = &found.asked[0];
            scheduler.handle_gone(Gone::evicted(*ticket, victim), at(11)).expect("known");
            assert_eq!(poll(scheduler, at(11)).started, ["default/b2"]);
        }
        let text = |own: &Scheduler| serde_json::to_string(&own.save()).expect("data");
        assert_eq!(text(&scheduler), text(&again));
    }
}

/// The checker of recorded cases and the scheduler call the same: the claim of the group, decided
/// by the books alone, names the groups that the scheduler evicts.
#[test]
fn the_scheduler_evicts_what_the_books_name() {
    for tenants in dialects() {
        let mut scheduler = full(tenants);
        let mut books = scheduler.tenants().expect("there").clone();
        let claim = |gpus: i64| {
            let mut requests = Amounts::new();
            requests.set("gpu", gpus);
            Claim::new("default/b2", "b").pods(PodSet::new("0", 1, requests)).created(at(10))
        };
        // 6 more would be beyond the guarantee of 8: 4 are.
        assert!(books.decide(&claim(6)).expect("sound").victims.is_empty());
        let decision = books.decide(&claim(3)).expect("sound");
        let named: Vec<String> = decision
            .victims
            .iter()
            .map(|victim| books.holder(victim.holder).expect("held").name.clone())
            .collect();
        assert_eq!(named.len(), 1);
        assert_eq!(names(&ask(&mut scheduler, gang("b2", "b", 1, 3), at(10))), named);
    }
}

#[test]
fn one_that_never_preempts_takes_nothing_back() {
    for tenants in dialects() {
        let mut scheduler = full(tenants);
        let mut meek = gang("b2", "b", 2, 2);
        meek.pods = meek.pods.into_iter().map(Pod::never_preempting).collect();
        assert!(ask(&mut scheduler, meek, at(10)).asked.is_empty());
    }
}

#[test]
fn two_that_reclaim_do_not_count_on_the_same_victim() {
    for tenants in dialects() {
        let mut scheduler = preempting(cluster(2, 8), tenants);
        start(&mut scheduler, ["a0", "a1", "a2", "a3"].map(|name| gang(name, "a", 2, 2)));
        for name in ["b1", "b2"] {
            scheduler.handle_group(gang(name, "b", 2, 2), at(10)).expect("sound");
        }
        let found = poll(&mut scheduler, at(10));
        let mut asked = names(&found);
        asked.sort_unstable();
        assert_eq!(asked, ["default/a2", "default/a3"]);
        let mut started = Vec::new();
        for (ticket, victim) in &found.asked {
            scheduler.handle_gone(Gone::evicted(*ticket, victim), at(11)).expect("known");
            started.extend(poll(&mut scheduler, at(11)).started);
        }
        started.sort();
        assert_eq!(started, ["default/b1", "default/b2"]);
    }
}

/// A claim whose victim is of its own queue leaves the queue its guarantee; another queue's claim
/// that took the victim over would not.
#[test]
fn a_victim_of_its_own_queue_is_not_passed_on_below_the_guarantee() {
    let mut tenants = Tenants::default();
    tenants.set_flavor(Flavor::new("all"));
    tenants.set_queue(Queue::inner("labs").quota("all", "gpu", Quota::nominal(2))).expect("sound");
    for (name, guaranteed) in [("a", 4), ("b", 2)] {
        let quota = Quota::nominal(guaranteed);
        tenants.set_queue(lab(name).quota("all", "gpu", quota)).expect("sound");
    }
    let mut scheduler = preempting(cluster(1, 8), tenants);
    let above = |group: PodGroup| group.priority(1);
    let (first, own) = (gang("w", "a", 3, 1), gang("b0", "b", 2, 1));
    start(&mut scheduler, [first, own, above(gang("y", "a", 2, 1)), above(gang("x", "a", 1, 1))]);
    assert_eq!((used(&scheduler, "a"), used(&scheduler, "b")), (6, 2));
    let found = ask(&mut scheduler, above(gang("r", "a", 3, 1)), at(10));
    assert_eq!(names(&found), ["default/w"]);
    // Without `w` and without what is reserved for `r`, its queue would have 3 of 4.
    let found = ask(&mut scheduler, gang("b1", "b", 1, 1), at(10));
    assert_eq!(names(&found), ["default/x"]);
    assert!(found.back.is_empty(), "{found:?}");
}
