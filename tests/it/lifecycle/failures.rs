//! Victims that could not go: when they are asked for again, and when not.

use std::time::Duration;

use phalanx::queue::{
    Gone, GroupChange, NoPreemption, PreemptionSettings, ReservationEnd, Settings, Ticket,
};
use phalanx::{Cluster, Decision, Event, Node, ObjectName, Pod, PodGroup, Scheduler, Time};

use super::steps::*;

fn preempts(settings: &mut Settings) {
    let mut preemption = PreemptionSettings::default();
    preemption.start_timeout = Duration::from_secs(60);
    preemption.grace_period = Duration::from_secs(60);
    settings.preemption = Some(preemption);
}

/// A group that runs on the only node, and one that wants the room of it.
fn full_node(old: PodGroup, new: PodGroup) -> (Scheduler, Ticket) {
    let mut scheduler = scheduler(gpus(1, 2), preempts);
    let name = old.full_name();
    scheduler.handle_group(old, at(0)).unwrap();
    assert_eq!(bind_all(&mut scheduler, at(0)), [name]);
    scheduler.handle_group(new.priority(10), at(1)).unwrap();
    let (ticket, _) = victims(&mut scheduler, at(1));
    (scheduler, ticket)
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

fn add_node(scheduler: &mut Scheduler, now: Time) {
    let node = Node::new("more").capacity(GPU, 1);
    scheduler.handle_event(Event::NodeChanged { node, version: 0 }, now).unwrap();
}

/// A member stays because another of its gang could not go. It is asked for at once where it is
/// enough without the other.
#[test]
fn a_victim_that_was_put_off_with_another_is_asked_for_where_it_is_enough() {
    let inner = |name: &str| PodGroup::gang(name, 1).pods(1, gpu());
    let old = PodGroup::gang("old", 1).group(inner("a")).group(inner("b"));
    let (mut scheduler, first) = full_node(old, gang("new", 2));
    scheduler.handle_eviction_failed(first, "default/a-0", Some(at(50)), at(2)).unwrap();
    let cancelled = scheduler.poll_decision(at(2));
    assert!(matches!(cancelled, Some(Decision::CancelEvictions { .. })), "{cancelled:?}");
    assert_eq!(scheduler.poll_decision(at(2)), None);
    // A node with room for one member of two.
    add_node(&mut scheduler, at(10));
    let (second, names) = victims(&mut scheduler, at(10));
    assert_eq!(names, ["default/b-0"]);
    assert_ne!(first, second);
    assert_eq!(scheduler.poll_decision(at(10)), None);
    scheduler.handle_gone(Gone::evicted(second, "default/b-0"), at(11)).unwrap();
    assert_eq!(bind_all(&mut scheduler, at(11)), ["default/new"]);
    // Nothing is left to be asked for at the time that was named.
    assert_eq!(scheduler.poll_decision(at(50)), None);
}

/// The time in which a victim must begin to go is that from the decision that the embedder sees.
#[test]
fn a_victim_is_not_late_before_it_is_asked_for() {
    let (mut scheduler, ticket) = full_node(gang("old", 2).evicted_whole(), gang("new", 2));
    scheduler.handle_eviction_failed(ticket, "default/old", Some(at(20)), at(2)).unwrap();
    assert_eq!(scheduler.poll_decision(at(2)), None);
    // The embedder comes back late, with something else to say.
    scheduler.handle_pod(gpu().name("orphan").in_group("none"), at(300)).unwrap();
    assert_eq!(victims(&mut scheduler, at(300)), (ticket, vec!["default/old".into()]));
    assert_eq!(scheduler.poll_decision(at(300)), None);
    scheduler.handle_gone(Gone::evicted(ticket, "default/old"), at(310)).unwrap();
    assert_eq!(bind_all(&mut scheduler, at(310))[0], "default/new");
}

/// A victim that does not end is asked for again, once for each time-out that has passed.
#[test]
fn a_victim_that_does_not_end_is_asked_for_once_in_its_time() {
    let (mut scheduler, ticket) = full_node(gang("old", 2).evicted_whole(), gang("new", 2));
    scheduler.handle_gone(Gone::evicted(ticket, "default/old-0"), at(2)).unwrap();
    let mut asked: Vec<Time> = vec![at(2)];
    for secs in (290..590).step_by(2) {
        // Timers fire by inputs, and not only by polls.
        scheduler.handle_pod(Pod::new().name("orphan").in_group("none"), at(secs)).unwrap();
        while let Some(decision) = scheduler.poll_decision(at(secs)) {
            let Decision::Evict { ticket: same, victims, .. } = decision else {
                panic!("{decision:?}");
            };
            assert_eq!((same, victims.len()), (ticket, 1));
            asked.push(at(secs));
        }
    }
    assert!(asked.len() > 2, "{asked:?}");
    let spans = asked.windows(2).map(|pair| pair[1].since(pair[0]));
    assert!(spans.min() >= Some(Duration::from_secs(60)), "{asked:?}");
}

fn run(scheduler: &mut Scheduler, group: PodGroup) {
    let name = group.full_name();
    scheduler.handle_group(group, at(0)).unwrap();
    assert_eq!(bind_all(scheduler, at(0)), [name]);
}

/// A member above the minimum terminates and does not end. It may go yet, and the gang keeps the
/// others until then.
#[test]
fn a_gang_that_may_lose_a_member_yet_loses_no_other() {
    let mut scheduler = scheduler(gpus(1, 3), preempts);
    run(&mut scheduler, PodGroup::gang("old", 2).pods(3, gpu()));
    scheduler.handle_group(gang("new", 1).priority(10), at(1)).unwrap();
    let (ticket, names) = victims(&mut scheduler, at(1));
    terminates(&mut scheduler, &names[0], at(2));
    let mut asked = 0;
    while let Some(wake) = scheduler.next_wake().filter(|wake| *wake < at(400)) {
        while let Some(decision) = scheduler.poll_decision(wake) {
            let Decision::Evict { ticket: same, victims, .. } = decision else {
                panic!("{decision:?}");
            };
            assert_eq!(
                (same, victims.len(), victims[0].name.to_string()),
                (ticket, 1, names[0].clone())
            );
            asked += 1;
        }
    }
    assert!(asked > 0);
    scheduler.handle_gone(Gone::evicted(ticket, &names[0]), at(400)).unwrap();
    assert_eq!(bind_all(&mut scheduler, at(400))[0], "default/new");
}

/// Each of two groups could take one member of a gang, and both together not.
#[test]
fn what_goes_for_two_groups_leaves_no_gang_below_its_minimum() {
    let mut scheduler = scheduler(three_nodes(), preempts);
    run(&mut scheduler, PodGroup::gang("old", 2).pods(3, gpu()));
    let one = |name: &str, extra| PodGroup::gang(name, 1).pods(1, gpu().request(extra, 1));
    scheduler.handle_group(one("first", "disk").priority(5), at(1)).unwrap();
    let (first, names) = victims(&mut scheduler, at(1));
    assert_eq!(names.len(), 1);
    scheduler.handle_group(one("second", "nic").priority(10), at(2)).unwrap();
    // The less important one gives way, though it wants another node.
    let cancelled = scheduler.poll_decision(at(2));
    let Some(Decision::CancelEvictions { ticket, victims: back }) = cancelled else {
        panic!("{cancelled:?}");
    };
    assert_eq!((ticket, back[0].name.to_string()), (first, names[0].clone()));
    let (_, others) = victims(&mut scheduler, at(2));
    assert!(others.len() == 1 && others != names);
}

/// A gang fell below its minimum and was to go for another. It stays, and its own time is over.
#[test]
fn the_time_of_a_gang_below_its_minimum_goes_on_while_it_is_to_go() {
    let mut scheduler = scheduler(gpus(2, 1), |settings| {
        preempts(settings);
        settings.stale_after = Duration::from_secs(30);
    });
    run(&mut scheduler, gang("old", 2));
    let event = Event::NodeRemoved { name: "n0001".into(), version: 0 };
    scheduler.handle_event(event, at(1)).unwrap();
    scheduler.handle_group(gang("new", 1).priority(10), at(2)).unwrap();
    let (ticket, _) = victims(&mut scheduler, at(2));
    assert_eq!(scheduler.poll_decision(at(40)), None);
    add_node(&mut scheduler, at(41));
    let mut decisions = std::iter::from_fn(|| scheduler.poll_decision(at(41)));
    let back = decisions.next();
    assert!(
        matches!(&back, Some(Decision::CancelEvictions { ticket: same, .. }) if *same == ticket),
        "{back:?}"
    );
    let evicted = decisions.any(
        |decision| matches!(decision, Decision::EvictStale { group, since, .. } if group == "default/old" && since == at(1)),
    );
    assert!(evicted);
}

/// A group would wait for a partner that it evicted.
#[test]
fn a_group_does_not_preempt_its_partner() {
    let mut scheduler = scheduler(gpus(1, 2), preempts);
    run(&mut scheduler, gang("partner", 2));
    let mut group = gang("new", 2).priority(10);
    group.gang_group.push(ObjectName::new("default", "partner"));
    scheduler.handle_group(group, at(1)).unwrap();
    assert_eq!(scheduler.poll_decision(at(1)), None);
    assert_eq!(scheduler.status("default/new").unwrap().no_preemption, None);
    // Another may take both.
    scheduler.handle_group(gang("other", 2).priority(10), at(2)).unwrap();
    assert_eq!(victims(&mut scheduler, at(2)).1, ["default/partner-0", "default/partner-1"]);
}

/// The status of a group says why nothing is evicted for it.
#[test]
fn a_status_says_why_no_victims_are_searched() {
    let mut scheduler = scheduler(gpus(1, 2), preempts);
    run(&mut scheduler, gang("old", 2));
    let never = PodGroup::gang("never", 1).pods(1, gpu().never_preempting()).priority(10);
    scheduler.handle_group(never, at(1)).unwrap();
    assert_eq!(scheduler.poll_decision(at(1)), None);
    let why = |scheduler: &Scheduler, name: &str| scheduler.status(name).unwrap().no_preemption;
    assert_eq!(why(&scheduler, "default/never"), Some(NoPreemption::Never));
    let mut off = Scheduler::new(gpus(1, 2), phalanx::Framework::default(), Settings::default());
    off.handle_group(gang("a", 1), at(0)).unwrap();
    assert_eq!(why(&off, "default/a"), Some(NoPreemption::Off));
}

/// Settings at the root of another scheduler's group hold for the groups inside.
#[test]
fn a_member_of_anothers_group_counts_no_less_than_its_root() {
    for (priority, kept, is_taken) in [(20, false, false), (5, true, false), (5, false, true)] {
        let mut scheduler = scheduler(gpus(1, 2), preempts);
        let inner = PodGroup::basic("inner").pods(2, gpu());
        let mut theirs = PodGroup::gang("theirs", 1).group(inner).priority(priority);
        theirs.non_preemptible = kept;
        scheduler.handle_running_group(&theirs, at(0)).unwrap();
        for name in ["inner-0", "inner-1"] {
            let pod = gpu().name(name).in_group("inner").on("n0000");
            scheduler.handle_event(Event::PodChanged { pod, version: 0 }, at(0)).unwrap();
        }
        scheduler.handle_group(gang("new", 1).priority(10), at(1)).unwrap();
        let decision = scheduler.poll_decision(at(1));
        let is_asked = matches!(decision, Some(Decision::Evict { .. }));
        assert_eq!(is_asked, is_taken, "{priority} {kept}: {decision:?}");
    }
}

/// Three nodes of a GPU, each with something beside it that only some ask for.
fn three_nodes() -> Cluster {
    let mut cluster = Cluster::new();
    for (name, extra) in [("a", "disk"), ("b", "nic"), ("c", "none")] {
        cluster.add_node(Node::new(name).capacity(GPU, 1).capacity(extra, 1)).unwrap();
    }
    cluster
}

fn terminates(scheduler: &mut Scheduler, name: &str, now: Time) {
    let name = name.split_once('/').unwrap().1;
    let mut pod = scheduler.cluster().pod("default", name).unwrap().to_pod();
    pod.deleting = true;
    scheduler.handle_event(Event::PodChanged { pod, version: 0 }, now).unwrap();
}

/// A member above the minimum terminates for one group, and the others are to go for a second. They
/// do not begin to, and stay together.
#[test]
fn the_others_of_a_gang_stay_together_although_one_member_goes() {
    let mut scheduler = scheduler(three_nodes(), preempts);
    run(&mut scheduler, PodGroup::gang("old", 2).pods(3, gpu()));
    let one = |name: &str, extra| PodGroup::gang(name, 1).pods(1, gpu().request(extra, 1));
    scheduler.handle_group(one("first", "disk").priority(5), at(1)).unwrap();
    let (first, spare) = victims(&mut scheduler, at(1));
    terminates(&mut scheduler, &spare[0], at(2));
    scheduler.handle_group(one("second", "nic").priority(10), at(3)).unwrap();
    let (second, others) = victims(&mut scheduler, at(3));
    assert_eq!(others.len(), 2);
    let back = scheduler.poll_decision(at(64));
    let Some(Decision::CancelEvictions { ticket, victims: back }) = back else {
        panic!("{back:?}");
    };
    let names: Vec<String> = back.into_iter().map(|victim| victim.name.to_string()).collect();
    assert_eq!((ticket, names), (second, others));
    assert_eq!(scheduler.poll_decision(at(64)), None);
    // The one that has begun is asked for until it has gone, and no other.
    assert_eq!(victims(&mut scheduler, at(130)), (first, spare.clone()));
    scheduler.handle_gone(Gone::evicted(first, &spare[0]), at(131)).unwrap();
    assert_eq!(bind_all(&mut scheduler, at(131)), ["default/first"]);
    assert_eq!(scheduler.status("default/old").unwrap().below_minimum_since, None);
}

/// A group is placed on room that was held for a less important one, while its own victim does not
/// end: its reservation was of use.
#[test]
fn a_claim_that_ends_by_a_start_elsewhere_was_used() {
    let mut scheduler = scheduler(gpus(2, 1), preempts);
    run(&mut scheduler, gang("x", 1));
    run(&mut scheduler, gang("y", 1));
    scheduler.handle_group(gang("high", 1).priority(10), at(1)).unwrap();
    let (high, own) = victims(&mut scheduler, at(1));
    scheduler.handle_group(gang("low", 1).priority(5), at(2)).unwrap();
    let (low, theirs) = victims(&mut scheduler, at(2));
    scheduler.handle_eviction_failed(low, &theirs[0], Some(at(30)), at(3)).unwrap();
    terminates(&mut scheduler, &own[0], at(4));
    scheduler.handle_eviction_failed(high, &own[0], Some(at(50)), at(4)).unwrap();
    assert_eq!(scheduler.poll_decision(at(4)), None);
    assert_eq!(victims(&mut scheduler, at(30)), (low, theirs.clone()));
    changes(&mut scheduler);
    scheduler.handle_gone(Gone::evicted(low, &theirs[0]), at(31)).unwrap();
    assert_eq!(bind_all(&mut scheduler, at(31)), ["default/high"]);
    let events = std::iter::from_fn(|| scheduler.poll_event());
    let ended = |event: phalanx::queue::GroupEvent| match event.change {
        GroupChange::ReservationEnded { reason } if event.group == "default/high" => Some(reason),
        _ => None,
    };
    assert_eq!(events.filter_map(ended).collect::<Vec<_>>(), [ReservationEnd::Used]);
}

/// A victim that has not begun to go in its time is left alone by all groups, for as long as a
/// claim may last.
#[test]
fn a_victim_that_was_late_is_not_asked_for_by_others_meanwhile() {
    let (mut scheduler, ticket) = full_node(gang("old", 2).evicted_whole(), gang("new", 2));
    let back = scheduler.poll_decision(at(62));
    assert!(matches!(back, Some(Decision::CancelEvictions { ticket: own, .. }) if own == ticket));
    scheduler.handle_group(gang("other", 2).priority(20), at(63)).unwrap();
    assert_eq!(scheduler.poll_decision(at(63)), None);
    assert_eq!(scheduler.poll_decision(at(660)), None);
    assert_eq!(victims(&mut scheduler, at(662)).1, ["default/old"]);
}

/// A decision waits for an embedder that is away; the victims have all of their time when it is back.
#[test]
fn a_victim_has_its_time_from_the_poll_on() {
    let (mut scheduler, ticket) = full_node(gang("old", 2).evicted_whole(), gang("new", 2));
    scheduler.handle_eviction_failed(ticket, "default/old", Some(at(20)), at(2)).unwrap();
    assert_eq!(scheduler.poll_decision(at(2)), None);
    assert_eq!(victims(&mut scheduler, at(300)).0, ticket);
    assert_eq!(scheduler.poll_decision(at(359)), None);
    let back = scheduler.poll_decision(at(361));
    assert!(matches!(back, Some(Decision::CancelEvictions { .. })), "{back:?}");
}

/// A pod of a victim is deleted between its time to be asked for again and the poll.
#[test]
fn a_decision_names_no_pod_that_has_gone() {
    for whole in [true, false] {
        let old = if whole { gang("old", 2).evicted_whole() } else { gang("old", 2) };
        let (mut scheduler, ticket) = full_node(old, gang("new", 2));
        let name = if whole { "default/old" } else { "default/old-0" };
        scheduler.handle_eviction_failed(ticket, name, Some(at(20)), at(2)).unwrap();
        while scheduler.poll_decision(at(2)).is_some() {}
        delete(&mut scheduler, "old-0", at(30));
        match scheduler.poll_decision(at(30)) {
            Some(Decision::Evict { victims, .. }) => {
                let pods = victims.iter().flat_map(|victim| &victim.pods);
                assert_eq!(pods.map(|pod| &*pod.name).collect::<Vec<_>>(), ["old-1"]);
            }
            other => panic!("{other:?}"),
        }
    }
}

/// Victims of another scheduler's gang are to be asked for again, and more of it runs by then: they
/// would not be all of it any more.
#[test]
fn victims_that_are_not_all_of_their_gang_any_more_are_searched_again() {
    let mut cluster = Cluster::new();
    cluster.add_node(Node::new("a").capacity(GPU, 2).capacity("disk", 2)).unwrap();
    cluster.add_node(Node::new("b").capacity(GPU, 1)).unwrap();
    let mut scheduler = scheduler(cluster, preempts);
    scheduler.handle_running_group(&PodGroup::gang("theirs", 2), at(0)).unwrap();
    let appears = |scheduler: &mut Scheduler, name: &str, node: &str, now| {
        let pod = gpu().name(name).in_group("theirs").on(node);
        scheduler.handle_event(Event::PodChanged { pod, version: 0 }, now).unwrap();
    };
    appears(&mut scheduler, "theirs-0", "a", at(0));
    appears(&mut scheduler, "theirs-1", "a", at(0));
    let new = PodGroup::gang("new", 2).pods(2, gpu().request("disk", 1)).priority(10);
    scheduler.handle_group(new, at(1)).unwrap();
    let (ticket, names) = victims(&mut scheduler, at(1));
    assert_eq!(names, ["default/theirs-0", "default/theirs-1"]);
    for name in &names {
        let _ = scheduler.handle_eviction_failed(ticket, name, Some(at(50)), at(2));
    }
    while scheduler.poll_decision(at(2)).is_some() {}
    appears(&mut scheduler, "theirs-2", "b", at(10));
    assert_eq!(scheduler.poll_decision(at(10)), None);
    let (again, names) = victims(&mut scheduler, at(60));
    assert_ne!(again, ticket);
    assert_eq!(names, ["default/theirs-0", "default/theirs-1", "default/theirs-2"]);
}

/// A gang of another scheduler of which a member is lost and made anew, while all of it was to go: what
/// was to go cannot, and the new member stays with it.
#[test]
fn a_member_made_anew_does_not_go_alone() {
    let mut cluster = Cluster::new();
    for name in ["a", "b"] {
        cluster.add_node(Node::new(name).capacity(GPU, 1)).unwrap();
    }
    let mut scheduler = scheduler(cluster, preempts);
    let theirs = PodGroup::gang("theirs", 2).evicted_whole();
    scheduler.handle_running_group(&theirs, at(0)).unwrap();
    let appears = |scheduler: &mut Scheduler, name: &str, node: &str, now| {
        let pod = gpu().name(name).in_group("theirs").on(node);
        scheduler.handle_event(Event::PodChanged { pod, version: 0 }, now).unwrap();
    };
    appears(&mut scheduler, "theirs-0", "a", at(0));
    appears(&mut scheduler, "theirs-1", "b", at(0));
    scheduler.handle_group(gang("new", 2).priority(10), at(1)).unwrap();
    let (first, names) = victims(&mut scheduler, at(1));
    assert_eq!(names, ["default/theirs"]);
    delete(&mut scheduler, "theirs-1", at(2));
    appears(&mut scheduler, "theirs-2", "b", at(2));
    // The new member is to go beside the one that is left.
    let (second, names) = victims(&mut scheduler, at(2));
    assert_eq!((second != first, names), (true, vec!["default/theirs".into()]));
    scheduler.handle_eviction_failed(first, "default/theirs", Some(at(30)), at(3)).unwrap();
    let back = scheduler.poll_decision(at(3));
    let Some(Decision::CancelEvictions { ticket, .. }) = back else { panic!("{back:?}") };
    assert_eq!(ticket, second);
    assert_eq!(scheduler.poll_decision(at(3)), None);
    // Later they are asked for together.
    let mut pods = Vec::new();
    while let Some(decision) = scheduler.poll_decision(at(30)) {
        let Decision::Evict { victims, .. } = decision else { panic!("{decision:?}") };
        pods.extend(victims.into_iter().flat_map(|victim| victim.pods).map(|pod| pod.name));
    }
    pods.sort();
    assert_eq!(pods, ["theirs-0", "theirs-2"]);
}

/// A gang was put off, and half of it is lost with its node: the rest runs on until it is asked for again,
/// and does not count as terminating.
#[test]
fn what_is_left_of_a_gang_that_was_put_off_runs_on() {
    let mut scheduler = scheduler(gpus(2, 2), preempts);
    run(&mut scheduler, PodGroup::gang("old", 3).pods(4, gpu()));
    let new = PodGroup::gang("new", 1).pods(1, gpu().request(GPU, 2));
    scheduler.handle_group(new.priority(10), at(1)).unwrap();
    let (ticket, names) = victims(&mut scheduler, at(1));
    assert_eq!(names.len(), 4);
    scheduler.handle_eviction_failed(ticket, &names[0], Some(at(50)), at(2)).unwrap();
    while scheduler.poll_decision(at(2)).is_some() {}
    let lost = Event::NodeRemoved { name: "n0001".into(), version: 0 };
    scheduler.handle_event(lost, at(3)).unwrap();
    assert_eq!(scheduler.poll_decision(at(3)), None);
    let node = scheduler.cluster().node("n0000").unwrap();
    assert!(node.pods().all(|pod| !pod.deleting()));
    // They are in nobody's way, and are not waited for: a less important group gets the next node.
    scheduler.handle_group(gang("low", 1).priority(5), at(4)).unwrap();
    assert_eq!(scheduler.poll_decision(at(4)), None);
    add_node(&mut scheduler, at(5));
    assert_eq!(bind_all(&mut scheduler, at(5)), ["default/low"]);
}
