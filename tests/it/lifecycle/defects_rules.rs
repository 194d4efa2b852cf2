//! Defects of the queue that outsiders have found, each as short as it can be told.

use std::time::Duration;

use phalanx::model::LabelSelector;
use phalanx::preempt::DisruptionBudget;
use phalanx::queue::{
    Backfill, Discipline, Gone, GroupState, HeadOfLine, OnBindFailure, PreemptionSettings,
    ReservationPolicy, Settings, Ticket,
};
use phalanx::quota::{Flavor, Queue, Quota, Tenants};
use phalanx::{Cluster, Decision, Event, Node, ObjectName, Pod, PodGroup, Scheduler, Time};

use super::moves::{moved, wide};
use super::steps::*;

fn preempts(settings: &mut Settings) {
    let mut preemption = PreemptionSettings::default();
    preemption.start_timeout = Duration::from_secs(60);
    preemption.grace_period = Duration::from_secs(60);
    settings.preemption = Some(preemption);
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

/// A pod that runs is seen.
fn appears(scheduler: &mut Scheduler, name: &str, group: &str, node: &str, now: Time) {
    let pod = gpu().name(name).in_group(group).on(node);
    scheduler.handle_event(Event::PodChanged { pod, version: 0 }, now).unwrap();
}

/// Q1. A gang is whole again when its eviction, which was decided meanwhile, is asked for.
#[test]
fn an_eviction_that_later_inputs_made_needless_is_not_returned() {
    let mut scheduler = scheduler(gpus(2, 1), |settings| {
        settings.stale_after = Duration::from_secs(30);
    });
    scheduler.handle_group(gang("old", 2), at(0)).unwrap();
    bind_all(&mut scheduler, at(0));
    delete(&mut scheduler, "old-1", at(1));
    // The time below the minimum ends at 31; this comes later, and before the embedder polls.
    appears(&mut scheduler, "old-1", "old", "n0001", at(40));
    assert_eq!(scheduler.poll_decision(at(40)), None);
    assert_eq!(scheduler.state("default/old"), Some(GroupState::Running));
}

/// Tenants of one pool of GPUs, by what is guaranteed to each.
fn tenants(queues: &[(&str, i64)]) -> Tenants {
    let mut tenants = Tenants::default();
    tenants.set_flavor(Flavor::new("all"));
    for (name, guaranteed) in queues {
        let queue = Queue::leaf(*name).parent("root");
        tenants.set_queue(queue.quota("all", GPU, Quota::nominal(*guaranteed))).unwrap();
    }
    tenants
}

fn with_tenants(cluster: Cluster, queues: &[(&str, i64)]) -> Scheduler {
    scheduler(cluster, preempts).with_tenants(tenants(queues))
}

/// A gang that goes whole, of a queue.
fn of(queue: &str, name: &str, size: usize) -> PodGroup {
    gang(name, size).evicted_whole().queue(queue)
}

/// Q2. Two groups wait for one victim each, on one node.
#[test]
fn a_group_whose_victims_went_starts_beside_a_later_claim_of_another_queue() {
    let queues = [("idle", 0), ("x", 1), ("y", 1)];
    let mut scheduler = with_tenants(gpus(1, 2), &queues);
    for name in ["a", "b"] {
        scheduler.handle_group(of("idle", name, 1), at(0)).unwrap();
        bind_all(&mut scheduler, at(0));
    }
    scheduler.handle_group(of("x", "first", 1), at(1)).unwrap();
    let (ticket, names) = victims(&mut scheduler, at(1));
    scheduler.handle_group(of("y", "second", 1), at(2)).unwrap();
    victims(&mut scheduler, at(2));
    scheduler.handle_gone(Gone::evicted(ticket, &names[0]), at(3)).unwrap();
    assert_eq!(bind_all(&mut scheduler, at(3)), ["default/first"]);
}

/// An embedder's run: it binds pods on nodes whose admission refuses some.
struct Refusing {
    scheduler: Scheduler,
    refuses: fn(&str) -> bool,
    bound: usize,
    refused: usize,
}

impl Refusing {
    fn new(nodes: usize, each: i64, refuses: fn(&str) -> bool) -> Refusing {
        Refusing::under(Discipline::default(), nodes, each, refuses)
    }

    fn under(
        discipline: Discipline,
        nodes: usize,
        each: i64,
        refuses: fn(&str) -> bool,
    ) -> Refusing {
        let scheduler = scheduler(gpus(nodes, each), |settings| {
            settings.on_bind_failure = OnBindFailure::Retry;
            settings.discipline = discipline;
        });
        Refusing { scheduler, refuses, bound: 0, refused: 0 }
    }

    fn run(&mut self, until: Time) {
        let mut now = self.scheduler.now();
        while now <= until {
            while let Some(decision) = self.scheduler.poll_decision(now) {
                let Decision::Bind { ticket, plan, .. } = decision else { panic!("{decision:?}") };
                for to in plan.assignments() {
                    let is_refused = (self.refuses)(to.node());
                    let result = if is_refused { Err("the node is sealed".into()) } else { Ok(()) };
                    let name = &to.pod().name;
                    self.scheduler.handle_binding(ticket, "default", name, result, now).unwrap();
                    self.refused += usize::from(is_refused);
                    self.bound += usize::from(!is_refused);
                }
            }
            let Some(wake) = self.scheduler.next_wake() else { return };
            now = wake.max(now);
        }
    }
}

/// Q3. Half of the nodes refuse, and the other half has room for all.
#[test]
fn pods_that_some_nodes_refuse_go_to_others() {
    let refuses = |node: &str| node < "n0004";
    let mut world = Refusing::new(8, 4, refuses);
    for name in ["a", "b", "c", "d"] {
        world.scheduler.handle_group(gang(name, 4), at(0)).unwrap();
    }
    world.run(at(120));
    assert_eq!(world.bound, 16, "{} refusals", world.refused);
    // No node needs to be tried more than once by each gang's pods alike.
    assert!(world.refused <= 32, "{} refusals", world.refused);
}

/// Q3, under backfill: a start that is due and refused is not tried again at every instant.
#[test]
fn promised_starts_that_are_refused_wait_for_the_end_of_that() {
    for backfill in [Backfill::easy(), Backfill::conservative()] {
        let discipline = Discipline::Backfill(backfill);
        let mut world = Refusing::under(discipline, 1, 2, |_| true);
        let group = gang("a", 2).run_time_estimate(Duration::from_secs(100));
        world.scheduler.handle_group(group, at(0)).unwrap();
        let mut now = at(0);
        for _ in 0..100 {
            world.run(now);
            let Some(wake) = world.scheduler.next_wake() else { break };
            now = wake.max(now);
        }
        // A hundred wakes are hours, since the time grows between them.
        assert!(now >= at(3_600) && world.refused > 2, "{now:?}, {} refusals", world.refused);
    }
}

/// Q3. What is asked of a node that refuses is asked less and less often, and the status says so.
#[test]
fn a_group_that_only_nodes_that_refuse_could_take_sleeps_and_says_why() {
    let mut world = Refusing::new(1, 2, |_| true);
    world.scheduler.handle_group(gang("a", 2), at(0)).unwrap();
    world.run(at(600));
    assert!(world.refused <= 24, "{} refusals", world.refused);
    let shortage = world.scheduler.status("default/a").unwrap().shortage;
    let text = format!("{shortage:?}");
    assert!(is_asleep(&world.scheduler, "default/a") && text.contains("sealed"), "{text}");
}

/// Q4. A queue with 2 of the 5 that are guaranteed to it has claimed 5 more, which nobody has given yet.
/// Who has its guarantee to claim takes back the claim, not what runs.
#[test]
fn what_runs_within_a_guarantee_outlasts_what_its_queue_has_claimed() {
    let queues = [("idle", 0), ("a", 5), ("b", 5)];
    let mut scheduler = with_tenants(gpus(1, 10), &queues);
    scheduler.handle_group(of("a", "runs", 2), at(0)).unwrap();
    scheduler.handle_group(of("idle", "first", 3), at(0)).unwrap();
    scheduler.handle_group(of("idle", "second", 3), at(0)).unwrap();
    scheduler.handle_group(of("idle", "third", 2), at(0)).unwrap();
    assert_eq!(bind_all(&mut scheduler, at(0)).len(), 4);
    for (name, size, victim) in [("claims", 3, "default/first"), ("borrows", 2, "default/second")] {
        scheduler.handle_group(of("a", name, size), at(1)).unwrap();
        assert_eq!(victims(&mut scheduler, at(1)).1, [victim]);
    }
    scheduler.handle_group(of("b", "owns", 5), at(3)).unwrap();
    let mut named = Vec::new();
    while let Some(decision) = scheduler.poll_decision(at(3)) {
        if let Decision::Evict { victims, .. } = decision {
            named.extend(victims.into_iter().map(|victim| victim.name.to_string()));
        }
    }
    assert!(!named.contains(&"default/runs".into()), "{named:?}");
}

fn terminates(scheduler: &mut Scheduler, name: &str, now: Time) {
    let mut pod = scheduler.cluster().pod("default", name).unwrap().to_pod();
    pod.deleting = true;
    scheduler.handle_event(Event::PodChanged { pod, version: 0 }, now).unwrap();
}

/// Q6, sharing 30073361007925. Another scheduler's gang could not go; a member of it is lost and one
/// joins meanwhile. What is asked for again is all that runs of it by then, or leaves it its minimum.
#[test]
fn what_is_asked_for_again_leaves_no_member_of_another_schedulers_gang_alone() {
    let mut cluster = Cluster::new();
    cluster.add_node(Node::new("a").capacity(GPU, 3).capacity("disk", 3)).unwrap();
    cluster.add_node(Node::new("b").capacity(GPU, 1)).unwrap();
    let mut scheduler = scheduler(cluster, preempts);
    let theirs = PodGroup::gang("theirs", 3).evicted_whole();
    scheduler.handle_running_group(&theirs, at(0)).unwrap();
    for name in ["theirs-0", "theirs-1", "theirs-2"] {
        appears(&mut scheduler, name, "theirs", "a", at(0));
    }
    let new = PodGroup::gang("new", 3).pods(3, gpu().request("disk", 1)).priority(10);
    scheduler.handle_group(new, at(1)).unwrap();
    let (ticket, names) = victims(&mut scheduler, at(1));
    assert_eq!(names, ["default/theirs"]);
    scheduler.handle_eviction_failed(ticket, "default/theirs", Some(at(50)), at(2)).unwrap();
    assert_eq!(scheduler.poll_decision(at(2)), None);
    appears(&mut scheduler, "theirs-3", "theirs", "b", at(10));
    delete(&mut scheduler, "theirs-0", at(20));
    let mut pods = Vec::new();
    for secs in [20, 50, 60, 70] {
        while let Some(decision) = scheduler.poll_decision(at(secs)) {
            if let Decision::Evict { victims, .. } = decision {
                pods.extend(victims.into_iter().flat_map(|victim| victim.pods).map(|pod| pod.name));
            }
        }
    }
    pods.sort();
    assert_eq!(pods, ["theirs-1", "theirs-2", "theirs-3"]);
}

/// Q6, sharing 4294970498. A victim could not go. When it is to be asked for again, its budget allows
/// nothing any more, and another is enough.
#[test]
fn what_is_asked_for_again_breaks_no_budget_that_need_not_be_broken() {
    let mut scheduler = scheduler(gpus(2, 1), preempts);
    let colour = |red: &str| gpu().label("colour", red);
    let budget =
        |allowed| DisruptionBudget::new("red", LabelSelector::label("colour", "red"), allowed);
    scheduler.handle_budget(budget(1), at(0));
    scheduler.handle_group(PodGroup::gang("old", 1).pods(1, colour("red")), at(0)).unwrap();
    scheduler.handle_group(gang("kept", 1).priority(20), at(0)).unwrap();
    assert_eq!(bind_all(&mut scheduler, at(0)).len(), 2);
    let free = scheduler.cluster().pod("default", "kept-0").unwrap().node().unwrap();
    let free = free.name().to_string();
    scheduler.handle_group(gang("new", 1).priority(10), at(1)).unwrap();
    let (ticket, names) = victims(&mut scheduler, at(1));
    assert_eq!(names, ["default/old-0"]);
    scheduler.handle_eviction_failed(ticket, &names[0], Some(at(20)), at(2)).unwrap();
    assert_eq!(scheduler.poll_decision(at(2)), None);
    // The embedder hears of all of this before it polls again.
    scheduler.handle_budget(budget(0), at(15));
    scheduler.handle_gone(Gone::finished("default", "kept-0"), at(15)).unwrap();
    let cheap = gpu().name("cheap").on(&*free);
    scheduler.handle_event(Event::PodChanged { pod: cheap, version: 0 }, at(15)).unwrap();
    let mut names = Vec::new();
    while let Some(decision) = scheduler.poll_decision(at(20)) {
        if let Decision::Evict { victims, .. } = decision {
            names.extend(victims.into_iter().map(|victim| victim.name.to_string()));
        }
    }
    assert_eq!(names, ["default/cheap"]);
}

/// Q7, preemption 34385508171778. A group has reserved room for itself when its partner comes: both
/// would wait for that room.
#[test]
fn a_group_with_a_reservation_gives_it_up_for_its_partners() {
    let mut scheduler = scheduler(gpus(2, 1), |settings| {
        let policy = ReservationPolicy::new().after(Duration::from_secs(20));
        settings.discipline = Discipline::in_order(HeadOfLine::BestEffort, Some(policy));
    });
    scheduler.handle_group(gang("first", 1), at(0)).unwrap();
    let (ticket, _) = plan(&mut scheduler, at(0));
    scheduler.handle_binding(ticket, "default", "first-0", Err("no".into()), at(30)).unwrap();
    assert_eq!(scheduler.poll_decision(at(30)), None);
    assert_eq!(scheduler.reservations().len(), 1);
    let mut second = gang("second", 1);
    second.gang_group.push(ObjectName::new("default", "first"));
    scheduler.handle_group(second, at(30)).unwrap();
    let mut bound = bind_all(&mut scheduler, at(30));
    // The node that has refused is left out for a moment.
    for secs in 31..35 {
        bound.extend(bind_all(&mut scheduler, at(secs)));
    }
    assert_eq!(bound, ["default/first", "default/second"]);
}

/// Q7, preemption 34497177321510. The victims of a group went while it backed off, behind another of a
/// strict queue.
#[test]
fn a_group_whose_victims_went_while_it_backed_off_starts_at_the_end_of_that() {
    let mut scheduler = scheduler(gpus(1, 2), |settings| {
        preempts(settings);
        settings.discipline = Discipline::StrictFifo;
    });
    scheduler.handle_group(gang("old", 2).evicted_whole(), at(0)).unwrap();
    bind_all(&mut scheduler, at(0));
    scheduler.handle_group(gang("new", 2).priority(10), at(1)).unwrap();
    let (ticket, names) = victims(&mut scheduler, at(1));
    scheduler.handle_pod(gpu().name("late").in_group("new"), at(1)).unwrap();
    assert!(matches!(scheduler.state("default/new"), Some(GroupState::BackingOff { .. })));
    scheduler.handle_group(gang("head", 9).priority(20), at(1)).unwrap();
    scheduler.handle_gone(Gone::evicted(ticket, &names[0]), at(1)).unwrap();
    let mut bound = Vec::new();
    for secs in 1..20 {
        bound.extend(bind_all(&mut scheduler, at(secs)));
    }
    assert_eq!(bound, ["default/new"]);
}

fn moves(settings: &mut Settings) {
    preempts(settings);
    settings.preemption = settings.preemption.map(|own| own.consolidation(4));
}

/// Takes in a group that runs: of each pod the GPUs and the number of its node.
fn runs(scheduler: &mut Scheduler, mut group: PodGroup, pods: &[(i64, usize)]) {
    let own = group.name.clone();
    let pod = |index: usize, (gpus, node): (i64, usize)| {
        Pod::new().request(GPU, gpus).name(format!("{own}-{index}")).on(format!("n{node:04}"))
    };
    group.pods = pods.iter().enumerate().map(|(index, own)| pod(index, *own)).collect();
    scheduler.handle_group(group, at(0)).unwrap();
}

/// Two nodes half full, of which one unit may move, and a gang that wants a node whole.
fn half_and_half(settings: impl Fn(&mut Settings)) -> Scheduler {
    let mut scheduler = scheduler(gpus(2, 4), settings);
    let mut kept = PodGroup::gang("kept", 1);
    kept.non_preemptible = true;
    runs(&mut scheduler, kept, &[(2, 0)]);
    runs(&mut scheduler, PodGroup::gang("mover", 2).evicted_whole(), &[(1, 1), (1, 1)]);
    scheduler.handle_group(wide("big", 4), at(1)).unwrap();
    scheduler
}

/// Q7, moves 4294967422. A group with a reservation waits for the room that is held for a unit that
/// moves.
#[test]
fn a_place_that_is_held_for_a_unit_that_moves_goes_to_no_group_with_a_reservation() {
    let mut scheduler = half_and_half(|settings| {
        moves(settings);
        let policy = ReservationPolicy::new().after(Duration::from_secs(20));
        settings.discipline = Discipline::in_order(HeadOfLine::BestEffort, Some(policy));
    });
    let (ticket, steps) = moved(&mut scheduler, at(1));
    assert_eq!(steps.len(), 2);
    scheduler.handle_group(wide("waits", 2), at(2)).unwrap();
    assert_eq!(scheduler.poll_decision(at(2)), None);
    assert_eq!(scheduler.poll_decision(at(30)), None);
    scheduler.handle_gone(Gone::evicted(ticket, "default/mover"), at(31)).unwrap();
    let mut bound = bind_all(&mut scheduler, at(31));
    bound.sort();
    assert_eq!(bound, ["default/big", "default/mover"]);
}

/// Q7, moves 34445637713928. The node that a unit has begun to leave for is removed.
#[test]
fn nothing_is_asked_to_move_to_a_node_that_is_gone() {
    let mut scheduler = half_and_half(moves);
    let (_, steps) = moved(&mut scheduler, at(1));
    terminates(&mut scheduler, "mover-0", at(2));
    let event = Event::NodeRemoved { name: steps[0].to.clone(), version: 0 };
    scheduler.handle_event(event, at(3)).unwrap();
    for secs in 3..400 {
        while let Some(decision) = scheduler.poll_decision(at(secs)) {
            let Decision::Move { moves, .. } = decision else { continue };
            let lost = moves.iter().find(|step| scheduler.cluster().node(&step.to).is_none());
            assert_eq!(lost, None, "at {secs}");
        }
    }
}

/// Units are asked for, each for the first time since it was last taken back.
fn ask(open: &mut Vec<String>, names: impl Iterator<Item = String>) {
    for name in names {
        assert!(!open.contains(&name), "{name} is asked for twice");
        open.push(name);
    }
}

/// Q7, moves 34454227648525. A victim fails, and moves are found that make do without it: another
/// victim that is to move now is asked for once.
#[test]
fn a_victim_that_is_to_move_instead_is_taken_back_first() {
    let mut cluster = Cluster::new();
    cluster.add_node(Node::new("a").capacity(GPU, 3).capacity("disk", 2)).unwrap();
    let mut scheduler = scheduler(cluster, moves);
    let mut old = PodGroup::gang("old", 1);
    old.pods = ["x", "y", "z"].map(|name| gpu().name(name).on("a")).to_vec();
    scheduler.handle_group(old, at(0)).unwrap();
    let new = PodGroup::gang("new", 2).pods(2, gpu().request("disk", 1)).priority(10);
    scheduler.handle_group(new, at(1)).unwrap();
    let (ticket, mut open) = victims(&mut scheduler, at(1));
    assert_eq!(open.len(), 2);
    let node = Node::new("b").capacity(GPU, 2);
    scheduler.handle_event(Event::NodeChanged { node, version: 0 }, at(2)).unwrap();
    scheduler.handle_eviction_failed(ticket, &open[1], None, at(2)).unwrap();
    open.truncate(1);
    for secs in 2..10 {
        while let Some(decision) = scheduler.poll_decision(at(secs)) {
            match decision {
                Decision::CancelEvictions { victims, .. } => {
                    open.retain(|name| victims.iter().all(|victim| victim.name != *name));
                }
                Decision::Evict { victims, .. } => {
                    ask(&mut open, victims.into_iter().map(|victim| victim.name.to_string()));
                }
                Decision::Move { moves, .. } => {
                    ask(&mut open, moves.into_iter().map(|step| step.unit.to_string()));
                }
                other => panic!("{other:?}"),
            }
        }
    }
    assert_eq!(open.len(), 2);
}

/// A group of one estimated pod, by name.
fn estimated(name: &str) -> PodGroup {
    PodGroup::gang(name, 1).run_time_estimate(Duration::from_secs(100))
}

/// A group has run and was removed, its pod runs on; one of its name runs elsewhere.
fn stated_again() -> Scheduler {
    let mut scheduler = scheduler(gpus(2, 1), |settings| {
        settings.discipline = Discipline::Backfill(Backfill::easy());
    });
    scheduler.handle_group(estimated("g").pods(1, gpu()), at(0)).unwrap();
    bind_all(&mut scheduler, at(0));
    scheduler.handle_group_removed("default/g", at(1)).unwrap();
    scheduler.handle_group(estimated("g"), at(2)).unwrap();
    scheduler.handle_pod(gpu().name("new").in_group("g"), at(2)).unwrap();
    assert_eq!(bind_all(&mut scheduler, at(2)), ["default/g"]);
    scheduler
}

/// A pass over the line.
fn pass(scheduler: &mut Scheduler, now: Time) {
    let name = format!("line-{}", now.as_millis());
    scheduler.handle_group(estimated(&name).pods(1, gpu()), now).unwrap();
    assert_eq!(scheduler.poll_decision(now), None);
}

/// The node on which the pod of the first group of the name runs.
fn first_node(scheduler: &Scheduler) -> String {
    scheduler.cluster().pod("default", "g-0").unwrap().node().unwrap().name().to_string()
}

/// Q8. The node of a pod without a group comes back, and the pod with it.
#[test]
fn a_pod_that_comes_back_with_its_node_is_of_the_group_that_was_stated_again() {
    let mut scheduler = stated_again();
    pass(&mut scheduler, at(3));
    let name = first_node(&scheduler);
    let event = Event::NodeRemoved { name: name.clone(), version: 0 };
    scheduler.handle_event(event, at(4)).unwrap();
    pass(&mut scheduler, at(5));
    let node = Node::new(name).capacity(GPU, 1);
    scheduler.handle_event(Event::NodeChanged { node, version: 0 }, at(6)).unwrap();
    pass(&mut scheduler, at(7));
}
