//! Preemption in the queue, rule by rule: who is evicted, who gets the room, what is taken back.

use std::time::Duration;

use phalanx::framework::{PermitVerdict, permit_fn};
use phalanx::model::LabelSelector;
use phalanx::preempt::{DisruptionBudget, SameQueue};
use phalanx::queue::{
    Gone, GroupChange, GroupState, PreemptionSettings, PriorityThenTime, SavedScheduler, Settings,
    Ticket,
};
use phalanx::{Decision, Event, Framework, Node, Plan, Pod, PodGroup, QueueError, Scheduler, Time};

use super::steps::*;

fn preempts(settings: &mut Settings) {
    settings.preemption = Some(PreemptionSettings::default());
}

/// Nodes of four GPUs.
fn cluster_of(nodes: usize) -> Scheduler {
    scheduler(gpus(nodes, 4), preempts)
}

/// A gang that runs.
fn run(scheduler: &mut Scheduler, group: PodGroup, now: Time) {
    let name = group.full_name();
    scheduler.handle_group(group, now).unwrap();
    assert_eq!(bind_all(scheduler, now), [name]);
}

/// The next decision, which is to evict: the ticket, the names of the victims, and the plan.
fn victims(scheduler: &mut Scheduler, now: Time) -> (Ticket, Vec<String>, Plan) {
    match scheduler.poll_decision(now) {
        Some(Decision::Evict { ticket, victims, plan, .. }) => {
            (ticket, victims.into_iter().map(|victim| victim.name.to_string()).collect(), plan)
        }
        other => panic!("{other:?}"),
    }
}

/// The next decision, which is to leave victims in place.
fn cancelled(scheduler: &mut Scheduler, now: Time) -> (Ticket, Vec<String>) {
    match scheduler.poll_decision(now) {
        Some(Decision::CancelEvictions { ticket, victims }) => {
            (ticket, victims.into_iter().map(|victim| victim.name.to_string()).collect())
        }
        other => panic!("{other:?}"),
    }
}

fn begins(scheduler: &mut Scheduler, name: &str, now: Time) {
    let mut pod = scheduler.cluster().pod("default", name).unwrap().to_pod();
    pod.deleting = true;
    scheduler.handle_event(Event::PodChanged { pod, version: 0 }, now).unwrap();
}

fn foreign(scheduler: &mut Scheduler, name: &str, node: &str, gpus: i64, now: Time) {
    let pod = Pod::new().request(GPU, gpus).name(name).on(node);
    scheduler.handle_event(Event::PodChanged { pod, version: 0 }, now).unwrap();
}

fn high(name: &str, size: usize) -> PodGroup {
    gang(name, size).priority(10)
}

#[test]
fn nothing_is_evicted_unless_the_settings_say_so() {
    let mut scheduler = scheduler(gpus(1, 4), |_| ());
    run(&mut scheduler, gang("old", 4), at(0));
    scheduler.handle_group(high("new", 4), at(1)).unwrap();
    assert_eq!(scheduler.poll_decision(at(1)), None);
}

/// A gang whose victims go starts, and nobody lower takes the room in between.
#[test]
fn the_room_of_victims_is_held_for_the_gang() {
    let mut scheduler = cluster_of(2);
    for name in ["a", "b"] {
        run(&mut scheduler, gang(name, 4).evicted_whole(), at(0));
    }
    scheduler.handle_group(high("new", 8), at(1)).unwrap();
    let (ticket, names, plan) = victims(&mut scheduler, at(1));
    assert_eq!((names, plan.len()), (vec!["default/a".into(), "default/b".into()], 8));
    assert_eq!(scheduler.reservations().len(), 1);
    scheduler.handle_group(gang("low", 1).priority(9), at(1)).unwrap();
    scheduler.handle_gone(Gone::evicted(ticket, "default/a"), at(2)).unwrap();
    assert_eq!(scheduler.poll_decision(at(2)), None, "low does not take the room of a");
    assert!(is_asleep(&scheduler, "default/new") && is_asleep(&scheduler, "default/low"));
    scheduler.handle_gone(Gone::evicted(ticket, "default/b"), at(3)).unwrap();
    let (bind_ticket, bound) = self::plan(&mut scheduler, at(3));
    assert_eq!(bound.len(), 8);
    bind(&mut scheduler, bind_ticket, &bound, at(3));
    assert_eq!(scheduler.poll_decision(at(60)), None);
    // Both are queued from the beginning.
    for name in ["default/a", "default/b"] {
        let status = scheduler.status(name).unwrap();
        assert!(!status.started && status.pending == 4, "{status:?}");
    }
    assert_eq!(scheduler.metrics().preemptions, 1);
    let again = scheduler.handle_gone(Gone::evicted(ticket, "default/b"), at(61));
    assert_eq!(again, Err(QueueError::StaleTicket));
}

/// Pods that are deleted count as gone, by whatever input.
#[test]
fn deletions_count_as_evictions() {
    let mut scheduler = cluster_of(1);
    foreign(&mut scheduler, "f", "n0000", 2, at(0));
    run(&mut scheduler, gang("old", 2).evicted_whole(), at(0));
    scheduler.handle_group(high("new", 4), at(1)).unwrap();
    let (_, names, _) = victims(&mut scheduler, at(1));
    assert_eq!(names, ["default/f", "default/old"]);
    delete(&mut scheduler, "f", at(2));
    delete(&mut scheduler, "old-0", at(2));
    assert_eq!(scheduler.poll_decision(at(2)), None);
    scheduler.handle_gone(Gone::unbound("default", "old-1"), at(3)).unwrap();
    assert_eq!(bind_all(&mut scheduler, at(3)), ["default/new"]);
}

/// Room appears elsewhere: what has not begun to go stays, what has begun goes on.
#[test]
fn evictions_are_taken_back_when_room_appears() {
    let mut scheduler = cluster_of(1);
    foreign(&mut scheduler, "f", "n0000", 1, at(0));
    foreign(&mut scheduler, "g", "n0000", 1, at(0));
    run(&mut scheduler, gang("old", 2).evicted_whole(), at(0));
    scheduler.handle_group(high("new", 4), at(1)).unwrap();
    let (ticket, names, _) = victims(&mut scheduler, at(1));
    assert_eq!(names, ["default/f", "default/g", "default/old"]);
    assert_eq!(
        scheduler.status("default/old").unwrap().state,
        GroupState::Gated(phalanx::queue::Gate::Evicting)
    );
    begins(&mut scheduler, "f", at(2));
    assert_eq!(scheduler.poll_decision(at(2)), None);
    let node = Node::new("more").capacity(GPU, 4);
    scheduler.handle_event(Event::NodeChanged { node, version: 0 }, at(3)).unwrap();
    assert_eq!(
        cancelled(&mut scheduler, at(3)),
        (ticket, vec!["default/g".into(), "default/old".into()])
    );
    let (_, bound) = plan(&mut scheduler, at(3));
    assert!(bound.assignments().all(|to| to.node() == "more"));
    assert_eq!(scheduler.state("default/old"), Some(GroupState::Running));
    assert_eq!(scheduler.metrics().evictions_cancelled, 2);
    // What had begun is gone in the end, and reported as ever.
    scheduler.handle_gone(Gone::evicted(ticket, "default/f"), at(4)).unwrap();
    assert!(scheduler.cluster().pod("default", "f").is_none());
}

/// A gang of which a pod has gone is not left below its minimum.
#[test]
fn a_gang_that_has_begun_to_go_goes_whole() {
    // One that goes whole by its mode, and one because too little would be left.
    for group in [gang("old", 3).evicted_whole(), gang("old", 3)] {
        let mut scheduler = cluster_of(1);
        foreign(&mut scheduler, "f", "n0000", 1, at(0));
        run(&mut scheduler, group, at(0));
        scheduler.handle_group(high("new", 4), at(1)).unwrap();
        let (ticket, ..) = victims(&mut scheduler, at(1));
        delete(&mut scheduler, "old-1", at(2));
        let node = Node::new("more").capacity(GPU, 4);
        scheduler.handle_event(Event::NodeChanged { node, version: 0 }, at(3)).unwrap();
        assert_eq!(cancelled(&mut scheduler, at(3)), (ticket, vec!["default/f".into()]));
        assert_eq!(plan(&mut scheduler, at(3)).1.len(), 4);
        for pod in ["default/old-0", "default/old-2"] {
            scheduler.handle_gone(Gone::evicted(ticket, pod), at(4)).unwrap();
        }
        let status = scheduler.status("default/old").unwrap();
        assert_eq!((status.bound, status.started), (0, false));
    }
}

/// An elastic gang goes down to its minimum; where that is not enough, all go.
#[test]
fn an_elastic_gang_keeps_its_minimum_or_goes_whole() {
    for (size, left) in [(1, 3), (2, 2), (3, 0)] {
        let mut scheduler = cluster_of(1);
        run(&mut scheduler, PodGroup::gang("old", 2).pods(4, gpu()), at(0));
        scheduler.handle_group(high("new", size), at(1)).unwrap();
        let (ticket, names, _) = victims(&mut scheduler, at(1));
        assert_eq!(names.len(), 4 - left);
        for name in names {
            scheduler.handle_gone(Gone::evicted(ticket, &name), at(2)).unwrap();
        }
        assert_eq!(bind_all(&mut scheduler, at(2))[0], "default/new");
        let status = scheduler.status("default/old").unwrap();
        assert_eq!((status.bound, status.started), (left, left > 0));
        assert_eq!(status.below_minimum_since, None);
    }
}

/// The room of one gang is taken over by a more important one, which asks for no victim twice.
#[test]
fn a_more_important_gang_takes_the_room_over() {
    let mut scheduler = cluster_of(2);
    for name in ["a", "b"] {
        run(&mut scheduler, gang(name, 4).evicted_whole(), at(0));
    }
    scheduler.handle_group(high("new", 8), at(1)).unwrap();
    let (first, ..) = victims(&mut scheduler, at(1));
    scheduler.handle_gone(Gone::evicted(first, "default/a"), at(2)).unwrap();
    assert_eq!(scheduler.poll_decision(at(2)), None);
    scheduler.handle_group(gang("top", 4).priority(20), at(3)).unwrap();
    // It fits where a was; the other victim is not needed any more.
    assert_eq!(cancelled(&mut scheduler, at(3)), (first, vec!["default/b".into()]));
    let (bind_ticket, bound) = plan(&mut scheduler, at(3));
    assert_eq!(bound.group(), "default/top");
    bind(&mut scheduler, bind_ticket, &bound, at(3));
    // No victims would help the first now: top is more important.
    assert_eq!(scheduler.poll_decision(at(60)), None);
    assert!(scheduler.reservations().is_empty());
    assert_eq!(scheduler.state("default/b"), Some(GroupState::Running));
}

/// A more important gang that needs the victims of another names them after they were taken back.
#[test]
fn victims_are_taken_over_with_the_room() {
    let mut scheduler = cluster_of(1);
    run(&mut scheduler, gang("old", 4).evicted_whole(), at(0));
    scheduler.handle_group(high("new", 4), at(1)).unwrap();
    let (first, ..) = victims(&mut scheduler, at(1));
    scheduler.handle_group(gang("top", 4).priority(20), at(2)).unwrap();
    assert_eq!(cancelled(&mut scheduler, at(2)), (first, vec!["default/old".into()]));
    let (second, names, plan) = victims(&mut scheduler, at(2));
    assert_eq!((names, plan.group()), (vec!["default/old".into()], "default/top".parse().unwrap()));
    assert_eq!(scheduler.reservations().len(), 1);
    scheduler.handle_gone(Gone::evicted(second, "default/old"), at(3)).unwrap();
    assert_eq!(bind_all(&mut scheduler, at(3)), ["default/top"]);
}

/// As the last, but the victim has begun to go: it is not asked for again.
#[test]
fn a_victim_that_terminates_is_not_asked_for_again() {
    let mut scheduler = cluster_of(1);
    run(&mut scheduler, gang("old", 4).evicted_whole(), at(0));
    scheduler.handle_group(high("new", 4), at(1)).unwrap();
    let (first, ..) = victims(&mut scheduler, at(1));
    begins(&mut scheduler, "old-2", at(2));
    scheduler.handle_group(gang("top", 4).priority(20), at(2)).unwrap();
    assert_eq!(scheduler.poll_decision(at(2)), None);
    assert_eq!(scheduler.reservations()[0].group, "default/top");
    scheduler.handle_gone(Gone::evicted(first, "default/old"), at(3)).unwrap();
    assert_eq!(bind_all(&mut scheduler, at(3)), ["default/top"]);
}

/// Two gangs of one priority: the second leaves the victims of the first alone.
#[test]
fn equals_do_not_share_victims() {
    let mut scheduler = cluster_of(2);
    for name in ["a", "b"] {
        run(&mut scheduler, gang(name, 4).evicted_whole(), at(0));
    }
    let mut asked = Vec::new();
    for name in ["new", "other", "third"] {
        scheduler.handle_group(high(name, 4), at(1)).unwrap();
        while let Some(decision) = scheduler.poll_decision(at(1)) {
            let Decision::Evict { victims, .. } = decision else { panic!("{decision:?}") };
            asked.extend(victims.into_iter().map(|victim| victim.name.to_string()));
        }
    }
    asked.sort();
    assert_eq!(asked, ["default/a", "default/b"]);
}

/// A victim that cannot go is replaced by another; the first is not taken then.
#[test]
fn other_victims_are_searched_when_one_cannot_go() {
    let mut scheduler = cluster_of(2);
    // The second has run for longer.
    run(&mut scheduler, gang("b", 4).evicted_whole(), at(0));
    run(&mut scheduler, gang("a", 4).evicted_whole(), at(1));
    scheduler.handle_group(high("new", 4), at(1)).unwrap();
    let (first, names, _) = victims(&mut scheduler, at(1));
    assert_eq!(names, ["default/a"]);
    scheduler.handle_eviction_failed(first, "default/a", Some(at(100)), at(2)).unwrap();
    let (second, names, _) = victims(&mut scheduler, at(2));
    assert_eq!(names, ["default/b"]);
    assert_eq!(scheduler.state("default/a"), Some(GroupState::Running));
    scheduler.handle_gone(Gone::evicted(second, "default/b"), at(3)).unwrap();
    assert_eq!(bind_all(&mut scheduler, at(3)), ["default/new"]);
    // It is not asked for when its time comes.
    assert_eq!(scheduler.poll_decision(at(200)), None);
}

/// Where there is no other, what went is held, and the victim is asked for again.
#[test]
fn a_victim_without_substitute_is_asked_for_again() {
    let mut scheduler = cluster_of(2);
    for name in ["a", "b"] {
        run(&mut scheduler, gang(name, 4).evicted_whole(), at(0));
    }
    scheduler.handle_group(high("new", 8), at(1)).unwrap();
    let (ticket, ..) = victims(&mut scheduler, at(1));
    scheduler.handle_gone(Gone::evicted(ticket, "default/a"), at(2)).unwrap();
    scheduler.handle_eviction_failed(ticket, "default/b", Some(at(50)), at(2)).unwrap();
    assert_eq!(scheduler.poll_decision(at(2)), None);
    assert_eq!(scheduler.poll_decision(at(40)), None, "a does not come back into its room");
    assert_eq!(scheduler.next_wake(), Some(at(50)));
    let (again, names, _) = victims(&mut scheduler, at(50));
    assert_eq!((again, names), (ticket, vec!["default/b".into()]));
    scheduler.handle_gone(Gone::evicted(ticket, "default/b"), at(51)).unwrap();
    assert_eq!(bind_all(&mut scheduler, at(51)), ["default/new"]);
}

/// Where it is not to be asked for again, the room is given up and nothing more is evicted.
#[test]
fn without_a_time_to_try_again_the_claim_ends() {
    let mut scheduler = cluster_of(2);
    for name in ["a", "b"] {
        run(&mut scheduler, gang(name, 4).evicted_whole(), at(0));
    }
    scheduler.handle_group(high("new", 8), at(1)).unwrap();
    let (ticket, ..) = victims(&mut scheduler, at(1));
    scheduler.handle_eviction_failed(ticket, "default/b", None, at(2)).unwrap();
    assert_eq!(cancelled(&mut scheduler, at(2)), (ticket, vec!["default/a".into()]));
    assert_eq!(scheduler.poll_decision(at(60)), None);
    assert!(scheduler.reservations().is_empty());
    for name in ["default/a", "default/b"] {
        assert_eq!(scheduler.state(name), Some(GroupState::Running));
    }
}

/// Two gangs would break one budget together: the second takes other pods; where there are none, it
/// breaks the budget.
#[test]
fn decisions_count_against_budgets_until_those_count_them() {
    let mut scheduler = cluster_of(3);
    for (name, node, app) in [("a", "n0000", "x"), ("b", "n0001", "x"), ("c", "n0002", "y")] {
        let pod = Pod::new().request(GPU, 4).label("app", app).name(name).on(node);
        let pod = if app == "y" { pod.priority(5) } else { pod };
        scheduler.handle_event(Event::PodChanged { pod, version: 0 }, at(0)).unwrap();
    }
    let selector = LabelSelector::label("app", "x");
    scheduler.handle_budget(DisruptionBudget::new("x", selector.clone(), 1), at(0));
    let mut asked = Vec::new();
    for name in ["new", "other"] {
        scheduler.handle_group(high(name, 4), at(1)).unwrap();
        let (_, names, _) = victims(&mut scheduler, at(1));
        asked.extend(names);
    }
    // The second is dearer, and breaks no budget.
    assert_eq!(asked, ["default/a", "default/c"]);
    // The budget has counted the first itself, and allows another one.
    delete(&mut scheduler, "a", at(2));
    assert_eq!(bind_all(&mut scheduler, at(2)), ["default/new"]);
    scheduler.handle_budget(DisruptionBudget::new("x", selector, 1), at(2));
    scheduler.handle_group(high("third", 4), at(2)).unwrap();
    assert_eq!(victims(&mut scheduler, at(2)).1, ["default/b"]);
}

/// A victim that is never heard of, and one that does not end, have failed.
#[test]
fn victims_have_deadlines() {
    for begun in [false, true] {
        let mut scheduler = scheduler(gpus(2, 4), |settings| {
            let mut rules = PreemptionSettings::default();
            rules.start_timeout = Duration::from_secs(10);
            rules.grace_period = Duration::from_secs(30);
            settings.preemption = Some(rules);
        });
        run(&mut scheduler, gang("a", 4).evicted_whole(), at(0));
        run(&mut scheduler, gang("b", 4).evicted_whole().priority(1), at(0));
        scheduler.handle_group(high("new", 4), at(1)).unwrap();
        assert_eq!(victims(&mut scheduler, at(1)).1, ["default/a"]);
        if begun {
            begins(&mut scheduler, "a-0", at(5));
            assert_eq!(scheduler.poll_decision(at(5)), None);
        }
        assert_eq!(scheduler.poll_decision(at(10)), None);
        let deadline = if begun { at(35) } else { at(11) };
        assert_eq!(
            scheduler.next_wake().map(|wake| wake.min(deadline)),
            Some(at(11).min(deadline))
        );
        scheduler.handle_time(at(34));
        if begun {
            assert_eq!(scheduler.poll_decision(at(34)), None);
        } else {
            // Its eviction may not begin any more.
            assert_eq!(cancelled(&mut scheduler, at(34)).1, ["default/a"]);
        }
        assert_eq!(victims(&mut scheduler, deadline.max(at(34))).1, ["default/b"]);
    }
}

/// The claim ends with the group, its pause, or its time.
#[test]
fn a_claim_ends_with_the_group_that_has_it() {
    for end in 0..3 {
        let mut scheduler = cluster_of(1);
        run(&mut scheduler, gang("old", 4).evicted_whole(), at(0));
        scheduler.handle_group(high("new", 4), at(1)).unwrap();
        let (ticket, ..) = victims(&mut scheduler, at(1));
        match end {
            0 => scheduler.handle_group_removed("default/new", at(2)).unwrap(),
            1 => scheduler.handle_pause("default/new", at(2)).unwrap(),
            _ => delete(&mut scheduler, "new-0", at(2)),
        }
        assert_eq!(cancelled(&mut scheduler, at(2)), (ticket, vec!["default/old".into()]));
        assert_eq!(scheduler.poll_decision(at(2)), None);
        assert_eq!(scheduler.state("default/old"), Some(GroupState::Running));
        assert!(scheduler.reservations().is_empty());
    }
}

/// A victim that nobody has been told of yet is not taken back, but left out.
#[test]
fn a_decision_that_was_not_polled_names_no_victim_that_stays() {
    let mut scheduler = cluster_of(2);
    for name in ["a", "b"] {
        run(&mut scheduler, gang(name, 4).evicted_whole(), at(0));
    }
    // Two decisions in a row: the second is in the queue while the first is out.
    scheduler.handle_group(high("new", 8), at(1)).unwrap();
    let (first, ..) = victims(&mut scheduler, at(1));
    scheduler.handle_group(gang("top", 4).priority(20), at(2)).unwrap();
    assert_eq!(cancelled(&mut scheduler, at(2)).0, first);
    scheduler.handle_group_removed("default/top", at(2)).unwrap();
    // The claim that was lost is made again after a back-off.
    assert_eq!(scheduler.poll_decision(at(2)), None);
    let (second, names, plan) = victims(&mut scheduler, at(3));
    assert!(second != first && plan.group() == "default/new");
    assert_eq!(names, ["default/a", "default/b"]);
}

/// A minimum run time ends without an event.
#[test]
fn a_group_is_preempted_when_its_protection_ends() {
    let mut scheduler = cluster_of(1);
    let mut old = gang("old", 4).evicted_whole();
    old.min_run_time = Some(Duration::from_secs(100));
    run(&mut scheduler, old, at(5));
    scheduler.handle_group(high("new", 4), at(6)).unwrap();
    assert_eq!(scheduler.poll_decision(at(6)), None);
    assert_eq!(scheduler.poll_decision(at(60)), None);
    assert_eq!(scheduler.next_wake(), Some(at(105)));
    assert_eq!(scheduler.poll_decision(at(104)), None);
    assert_eq!(victims(&mut scheduler, at(105)).1, ["default/old"]);
}

/// Searches are repeated after changes: a victim comes after the group that takes it.
#[test]
fn a_sleeping_group_takes_victims_that_come_later() {
    let mut scheduler = cluster_of(1);
    run(&mut scheduler, high("old", 4), at(0));
    scheduler.handle_group(high("new", 4), at(1)).unwrap();
    assert_eq!(scheduler.poll_decision(at(1)), None);
    let mut lower = high("old", 4);
    lower.priority = 3;
    lower.pods.clear();
    scheduler.handle_group(lower.evicted_whole(), at(1)).unwrap();
    assert_eq!(scheduler.poll_decision(at(1)), None, "no search before its back-off has ended");
    assert_eq!(victims(&mut scheduler, at(2)).1, ["default/old"]);
}

#[test]
fn policies_are_the_embedders() {
    let mut scheduler = cluster_of(1).with_policy(SameQueue);
    let queue = |mut group: PodGroup, queue: &str| {
        group.queue = queue.into();
        group.evicted_whole()
    };
    run(&mut scheduler, queue(gang("a", 2), "red"), at(0));
    run(&mut scheduler, queue(gang("b", 2).priority(9), "blue"), at(0));
    scheduler.handle_group(queue(high("new", 2), "blue"), at(1)).unwrap();
    assert_eq!(victims(&mut scheduler, at(1)).1, ["default/b"]);
    scheduler.handle_group(queue(high("never", 2).non_preempting(), "red"), at(1)).unwrap();
    assert_eq!(scheduler.poll_decision(at(1)), None);
}

trait NonPreempting {
    fn non_preempting(self) -> Self;
}

impl NonPreempting for PodGroup {
    fn non_preempting(mut self) -> PodGroup {
        self.pods = self.pods.into_iter().map(Pod::never_preempting).collect();
        self
    }
}

/// Nothing is evicted for a plan that a permit would hold.
#[test]
fn permits_are_asked_before_victims_are_named() {
    let framework = Framework::builder()
        .filter(phalanx::plugins::Fit)
        .permit(permit_fn("later", |cx| {
            if cx.now < at(50) && cx.group.priority > 0 {
                PermitVerdict::Hold { until: at(500) }
            } else {
                PermitVerdict::Admit
            }
        }))
        .build()
        .unwrap();
    let mut settings = Settings::default();
    preempts(&mut settings);
    let mut scheduler = Scheduler::new(gpus(1, 4), framework, settings);
    run(&mut scheduler, gang("old", 4), at(0));
    scheduler.handle_group(high("new", 4), at(1)).unwrap();
    assert_eq!(scheduler.poll_decision(at(1)), None);
    foreign(&mut scheduler, "any", "elsewhere", 1, at(60));
    assert_eq!(victims(&mut scheduler, at(60)).1.len(), 4);
}

/// The pods of another scheduler's gang are a gang once it is known.
#[test]
fn groups_of_other_schedulers_go_whole() {
    for known in [false, true] {
        let mut scheduler = cluster_of(1);
        if known {
            let theirs = PodGroup::gang("theirs", 2).evicted_whole();
            scheduler.handle_running_group(&theirs, at(0)).unwrap();
        }
        for name in ["t-0", "t-1"] {
            let pod = Pod::new().request(GPU, 2).name(name).in_group("theirs").on("n0000");
            scheduler.handle_event(Event::PodChanged { pod, version: 0 }, at(0)).unwrap();
        }
        scheduler.handle_group(high("new", 2), at(1)).unwrap();
        let (ticket, names, _) = victims(&mut scheduler, at(1));
        assert_eq!(names, [if known { "default/theirs" } else { "default/t-0" }]);
        scheduler.handle_gone(Gone::evicted(ticket, &names[0]), at(2)).unwrap();
        assert_eq!(bind_all(&mut scheduler, at(2)), ["default/new"]);
        assert_eq!(scheduler.cluster().pod("default", "t-1").is_some(), !known);
    }
    let mut scheduler = cluster_of(1);
    scheduler.handle_group(gang("ours", 1), at(0)).unwrap();
    let refused = scheduler.handle_running_group(&gang("ours", 1), at(0));
    assert!(matches!(refused, Err(QueueError::GroupTaken { .. })));
}

/// A scheduler that dies between the decision and its end goes on from its save.
#[test]
fn a_claim_survives_a_save() {
    let mut scheduler = cluster_of(2);
    for name in ["a", "b"] {
        run(&mut scheduler, gang(name, 4).evicted_whole(), at(0));
    }
    let selector = LabelSelector::label("app", "x");
    scheduler.handle_budget(DisruptionBudget::new("x", selector, 1), at(0));
    scheduler.handle_group(high("new", 8), at(1)).unwrap();
    let (ticket, ..) = victims(&mut scheduler, at(1));
    scheduler.handle_gone(Gone::evicted(ticket, "default/a"), at(2)).unwrap();
    let text = serde_json::to_string(&scheduler.save()).unwrap();
    let saved: SavedScheduler = serde_json::from_str(&text).unwrap();
    let mut again = Scheduler::restore(saved, Framework::default(), PriorityThenTime);
    assert_eq!(serde_json::to_string(&again.save()).unwrap(), text);
    assert_eq!(again.poll_decision(at(2)), None);
    again.handle_gone(Gone::evicted(ticket, "default/b"), at(3)).unwrap();
    assert_eq!(bind_all(&mut again, at(3)), ["default/new"]);
}

/// A save of another form is refused, and says so.
#[test]
fn a_save_of_another_form_is_refused_with_a_sentence() {
    let mut scheduler = scheduler(gpus(1, 4), |_| ());
    run(&mut scheduler, gang("old", 4), at(0));
    let mut value = serde_json::to_value(scheduler.save()).unwrap();
    assert!(value.as_object_mut().unwrap().remove("form").is_some());
    let refused = serde_json::from_value::<SavedScheduler>(value).unwrap_err();
    assert_eq!(refused.to_string(), "the state was saved in form 0, and form 4 is read");
}

/// Groups hear what happens to them.
#[test]
fn events_name_the_group_that_room_is_made_for() {
    let mut scheduler = cluster_of(1);
    run(&mut scheduler, gang("old", 4).evicted_whole(), at(0));
    scheduler.handle_group(high("new", 4), at(1)).unwrap();
    victims(&mut scheduler, at(1));
    let seen = changes(&mut scheduler);
    let preempted = GroupChange::Preempted { by: "default/new".parse().unwrap(), pods: 4 };
    assert!(seen.contains(&preempted), "{seen:?}");
    let is_claim = |change: &GroupChange| {
        matches!(change, GroupChange::Preempting { victims: 1, pods: 4, .. })
    };
    assert!(seen.iter().any(is_claim), "{seen:?}");
}
