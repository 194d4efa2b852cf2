//! Repair: nodes fail under a gang, and the cheapest of three ways is taken.

use std::collections::BTreeMap;
use std::time::Duration;

use phalanx::model::{Effect, LabelSelector, Taint};
use phalanx::preempt::DisruptionBudget;
use phalanx::queue::{
    Elastic, EvictionCause, Gone, PreemptionSettings, PriorityThenTime, Repair, RepairCosts,
    RepairWay, Settings,
};
use phalanx::simulate::Random;
use phalanx::{Decision, Event, Framework, Node, ObjectName, PodGroup, Scheduler, Time};

use super::steps::*;
use crate::support::budget;

pub(super) fn repairs(worth: u64) -> impl Fn(&mut Settings) {
    move |settings| {
        let repair = Repair::new().worth(Duration::from_secs(worth));
        settings.elastic = Elastic::new().repair(repair);
        settings.preemption = Some(PreemptionSettings::default());
    }
}

#[derive(Debug, Default)]
pub(super) struct Seen {
    pub(super) bound: Vec<(String, usize)>,
    pub(super) said: Vec<(u32, RepairWay, RepairCosts)>,
    pub(super) evicted: Vec<String>,
    moved: Vec<String>,
    stale: Vec<String>,
}

pub(super) fn settle(scheduler: &mut Scheduler, now: Time) -> Seen {
    let mut seen = Seen::default();
    while let Some(decision) = scheduler.poll_decision(now) {
        match decision {
            Decision::Bind { ticket, plan, groups } => {
                bind(scheduler, ticket, &plan, now);
                seen.bound.push((groups[0].to_string(), plan.len()));
            }
            Decision::Repair { missing, way, costs, .. } => seen.said.push((missing, way, costs)),
            Decision::Evict { ticket, victims, .. } => {
                for victim in victims {
                    let unit = victim.name.to_string();
                    scheduler.handle_gone(Gone::Evicted { ticket, unit }, now).unwrap();
                    seen.evicted.push(victim.name.to_string());
                }
            }
            Decision::EvictDue { group, pods, cause, .. } => {
                assert_eq!(cause, EvictionCause::Repair);
                for pod in pods {
                    scheduler.handle_gone(Gone::Unbound { pod: pod.pod }, now).unwrap();
                }
                seen.moved.push(group.to_string());
            }
            Decision::EvictStale { group, pods, .. } => {
                for pod in pods {
                    scheduler.handle_gone(Gone::Unbound { pod: pod.pod }, now).unwrap();
                }
                seen.stale.push(group.to_string());
            }
            Decision::Booking { .. } | Decision::CancelEvictions { .. } => {}
            other => panic!("{other:?}"),
        }
        scheduler.check().unwrap();
    }
    seen
}

pub(super) fn racks(scheduler: &Scheduler, name: &str) -> BTreeMap<String, usize> {
    let mut racks = BTreeMap::new();
    for pod in scheduler.cluster().group_pods(&format!("default/{name}")) {
        if let Some(rack) = pod.node().and_then(|node| node.label("rack")) {
            *racks.entry(rack.to_owned()).or_default() += 1;
        }
    }
    racks
}

fn name_of(pod: &phalanx::state::PodView<'_>) -> ObjectName {
    ObjectName::new(pod.namespace(), pod.name())
}

/// The node of most members of a group fails: their pods come back.
pub(super) fn fail(scheduler: &mut Scheduler, group: &str, now: Time) -> (String, usize) {
    let mut nodes: BTreeMap<String, Vec<_>> = BTreeMap::new();
    for pod in scheduler.cluster().group_pods(&format!("default/{group}")) {
        nodes.entry(pod.node().unwrap().name().to_owned()).or_default().push(name_of(&pod));
    }
    let (node, _) = nodes.iter().max_by_key(|(_, pods)| pods.len()).unwrap();
    let node = node.clone();
    let all: Vec<_> =
        scheduler.cluster().node(&node).unwrap().pods().map(|pod| name_of(&pod)).collect();
    let name = node.clone();
    scheduler.handle_event(Event::NodeRemoved { name, version: 0 }, now).unwrap();
    for pod in all.into_iter().filter(|pod| pod.namespace() == "default") {
        scheduler.handle_gone(Gone::Unbound { pod }, now).unwrap();
    }
    (node.clone(), nodes[&node].len())
}

pub(super) fn start(scheduler: &mut Scheduler, group: PodGroup, now: Time) {
    let name = group.full_name().to_string();
    scheduler.handle_group(group, now).unwrap();
    let seen = settle(scheduler, now);
    assert_eq!(seen.bound.iter().map(|own| &own.0).collect::<Vec<_>>(), [&name]);
}

#[test]
fn lost_members_come_back_together_in_their_domain() {
    for by_turns in [false, true] {
        let mut scheduler = super::steps::scheduler(gpus(8, 2), |settings| {
            repairs(60)(settings);
            settings.elastic.by_turns = by_turns;
        });
        start(&mut scheduler, gang("own", 6).require("rack"), at(0));
        let before = racks(&scheduler, "own");
        let (_, lost) = fail(&mut scheduler, "own", at(10));
        assert_eq!(lost, 2);
        let seen = settle(&mut scheduler, at(20));
        assert_eq!(seen.bound, [("default/own".to_owned(), 2)], "as one placement");
        assert!(seen.said.is_empty(), "there was room");
        assert_eq!(racks(&scheduler, "own"), before);
    }
}

#[test]
fn a_node_that_is_tainted_and_cleared_counts_as_failed() {
    let mut scheduler = super::steps::scheduler(gpus(4, 2), repairs(1));
    start(&mut scheduler, PodGroup::gang("own", 4).pods(8, gpu()).require("rack"), at(0));
    let mut node = Node::new("n0000").capacity(GPU, 2).label("rack", "r0");
    node.taints.push(Taint::new("node.kubernetes.io/not-ready", "", Effect::NoExecute));
    scheduler.handle_event(Event::NodeChanged { node, version: 0 }, at(5)).unwrap();
    let pods: Vec<_> =
        scheduler.cluster().node("n0000").unwrap().pods().map(|pod| name_of(&pod)).collect();
    for pod in pods {
        scheduler.handle_gone(Gone::Unbound { pod }, at(6)).unwrap();
    }
    let seen = settle(&mut scheduler, at(10));
    let stays = Some(2_000);
    assert_eq!(seen.said, [(2, RepairWay::Stay, costs(stays, None, None))]);
    // It is said once.
    assert!(settle(&mut scheduler, at(400)).said.is_empty());
    // A node that comes back ends it, and the next loss is said anew.
    let node = Node::new("n0000").capacity(GPU, 2).label("rack", "r0");
    scheduler.handle_event(Event::NodeChanged { node, version: 0 }, at(500)).unwrap();
    assert_eq!(settle(&mut scheduler, at(510)).bound, [("default/own".to_owned(), 2)]);
    fail(&mut scheduler, "own", at(520));
    assert_eq!(settle(&mut scheduler, at(530)).said.len(), 1);
}

fn costs(stays: Option<u64>, yields: Option<u64>, moves: Option<u64>) -> RepairCosts {
    let mut costs = RepairCosts::default();
    (costs.stays, costs.yields, costs.moves) = (stays, yields, moves);
    costs
}

/// Two racks of four nodes of two GPUs. The gang of six is in one of them with two small jobs that have
/// run for `old` seconds; `spare` GPUs of the other rack are free.
fn world(worth: u64, minimum: u32, old: u64, spare: usize) -> Scheduler {
    let mut scheduler = super::steps::scheduler(gpus(8, 2), repairs(worth));
    start(
        &mut scheduler,
        PodGroup::gang("own", minimum).pods(6, gpu()).require("rack").priority(5),
        at(0),
    );
    let full = |scheduler: &Scheduler| racks(scheduler, "own").into_keys().next().unwrap();
    let rack = full(&scheduler);
    let other = if rack == "r0" { "r1" } else { "r0" };
    let job = |name: &str, rack: &str, size: usize| {
        PodGroup::gang(name, 1).pods(size, gpu().node_selector("rack", rack))
    };
    let began = 1_000 - old;
    start(&mut scheduler, job("small-a", &rack, 1), at(began));
    start(&mut scheduler, job("small-b", &rack, 1), at(began));
    if spare < 8 {
        start(&mut scheduler, job("filler", other, 8 - spare).priority(9), at(began));
    }
    scheduler
}

#[test]
fn less_important_units_of_the_domain_yield_if_that_is_cheapest() {
    let mut scheduler = world(3_600, 4, 100, 8);
    fail(&mut scheduler, "own", at(1_000));
    let seen = settle(&mut scheduler, at(1_000));
    let (missing, way, said) = seen.said[0];
    assert_eq!((missing, way), (2, RepairWay::Yield));
    assert_eq!(said, costs(Some(7_200_000), Some(200_000), Some(4_000_000)));
    assert_eq!(seen.evicted.len(), 2);
    assert_eq!(racks(&scheduler, "own").values().copied().collect::<Vec<_>>(), [6]);
}

#[test]
fn the_rest_of_the_gang_moves_if_that_is_cheapest_and_its_room_is_kept() {
    let mut scheduler = world(3_600, 6, 990, 8);
    // It runs for a short time only: a restart is cheap.
    let before = racks(&scheduler, "own");
    let (_, lost) = fail(&mut scheduler, "own", at(60));
    assert_eq!(lost, 2);
    let seen = settle(&mut scheduler, at(60));
    assert_eq!(seen.said.len(), 1, "{seen:?}");
    let (_, way, said) = seen.said[0];
    assert_eq!((way, said.stays), (RepairWay::Yield, None), "both have run for 50 s: {said:?}");
    assert_eq!(said.yields, Some(100_000));
    assert_eq!(said.moves, Some(240_000));
    assert_eq!(racks(&scheduler, "own"), before);

    // Small jobs that have run for long, and a gang that began again a moment ago.
    let mut scheduler = scheduler_with_old_jobs();
    let before = racks(&scheduler, "own");
    fail(&mut scheduler, "own", at(1_010));
    let seen = settle(&mut scheduler, at(1_010));
    let (missing, way, said) = seen.said[0];
    assert_eq!((missing, way), (2, RepairWay::Move), "{said:?}");
    assert_eq!(said, costs(None, Some(2_020_000), Some(40_000)));
    assert_eq!((seen.moved, seen.evicted), (vec!["default/own".to_owned()], vec![]));
    assert_eq!(seen.bound.last(), Some(&("default/own".to_owned(), 6)));
    let after = racks(&scheduler, "own");
    assert!(after.values().sum::<usize>() == 6 && after.keys().ne(before.keys()), "{after:?}");
    assert!(scheduler.bookings().is_empty(), "the room is used up");
}

fn scheduler_with_old_jobs() -> Scheduler {
    let mut scheduler = super::steps::scheduler(gpus(8, 2), repairs(3_600));
    let job = |name: &str| PodGroup::gang(name, 1).pods(1, gpu().node_selector("rack", "r0"));
    start(&mut scheduler, job("small-a"), at(0));
    start(&mut scheduler, job("small-b"), at(0));
    let own = PodGroup::gang("own", 6).pods(6, gpu().label("app", "own"));
    let own = own.require("rack").priority(5);
    // The other rack is full until it has started.
    start(
        &mut scheduler,
        PodGroup::gang("filler", 8).pods(8, gpu().node_selector("rack", "r1")),
        at(0),
    );
    start(&mut scheduler, own, at(1_000));
    for pod in 0..8 {
        delete(&mut scheduler, &format!("filler-{pod}"), at(1_001));
    }
    settle(&mut scheduler, at(1_001));
    scheduler
}

/// A budget is not charged for pods that it lists as disrupted.
#[test]
fn a_budget_keeps_a_gang_from_moving_unless_it_counts_its_pods_already() {
    for (disrupted, way) in [(0..0, RepairWay::Yield), (0..6, RepairWay::Move)] {
        let mut scheduler = scheduler_with_old_jobs();
        let none = DisruptionBudget::new("own", LabelSelector::label("app", "own"), 0);
        let counted = disrupted.len();
        let add = |budget: DisruptionBudget, pod| budget.disrupted(format!("own-{pod}"));
        scheduler.handle_budget(disrupted.fold(none, add), at(1_002));
        fail(&mut scheduler, "own", at(1_010));
        let seen = settle(&mut scheduler, at(1_010));
        let (_, taken, said) = seen.said[0];
        assert_eq!((taken, said.moves.is_some()), (way, counted == 6), "{said:?}");
    }
}

#[test]
fn room_elsewhere_is_kept_from_others_while_the_gang_leaves() {
    let mut scheduler = scheduler_with_old_jobs();
    fail(&mut scheduler, "own", at(1_010));
    // The eviction takes a while; an important gang comes meanwhile and wants the other rack.
    let mut asked = Vec::new();
    while let Some(decision) = scheduler.poll_decision(at(1_010)) {
        if let Decision::EvictDue { pods, .. } = decision {
            asked.extend(pods);
        }
        scheduler.check().unwrap();
    }
    assert_eq!(asked.len(), 4);
    scheduler.handle_group(gang("thief", 8).require("rack").priority(3), at(1_020)).unwrap();
    assert!(settle(&mut scheduler, at(1_020)).bound.is_empty());
    for pod in asked {
        scheduler.handle_gone(Gone::Unbound { pod: pod.pod }, at(1_030)).unwrap();
    }
    assert_eq!(settle(&mut scheduler, at(1_030)).bound, [("default/own".to_owned(), 6)]);
}

#[test]
fn a_gang_stays_below_its_size_if_that_is_cheapest_and_never_below_its_minimum_for_long() {
    let mut scheduler = world(10, 4, 100, 8);
    fail(&mut scheduler, "own", at(1_000));
    let seen = settle(&mut scheduler, at(1_000));
    assert_eq!(
        seen.said,
        [(2, RepairWay::Stay, costs(Some(20_000), Some(200_000), Some(4_000_000)))]
    );
    assert!(seen.evicted.is_empty() && seen.moved.is_empty());
    // A small job ends by itself: there is room for one again.
    delete(&mut scheduler, "small-a-0", at(1_100));
    assert_eq!(settle(&mut scheduler, at(1_101)).bound, [("default/own".to_owned(), 1)]);

    // Below its minimum, with nobody to yield and no room elsewhere, it goes whole at the deadline.
    let mut scheduler = super::steps::scheduler(gpus(4, 2), repairs(10));
    start(&mut scheduler, gang("own", 8).require("rack"), at(0));
    fail(&mut scheduler, "own", at(100));
    let seen = settle(&mut scheduler, at(159));
    assert!(seen.stale.is_empty() && seen.said.is_empty());
    assert_eq!(settle(&mut scheduler, at(160)).stale, ["default/own"]);
}

/// The choice against the definition: pods of one GPU, so that every way is counted by hand.
#[test]
fn the_way_that_is_taken_is_the_cheapest_of_three() {
    let mut ways = BTreeMap::new();
    for seed in 0..budget::of(60, 5_000) {
        let mut random = Random::new(seed);
        let worth = 1 + random.below(400);
        let mut scheduler = super::steps::scheduler(gpus(8, 2), repairs(worth));
        let minimum = 3 + random.below(4) as u32;
        let began = random.below(900);
        let own = PodGroup::gang("own", minimum).pods(6, gpu()).require("rack").priority(5);
        start(&mut scheduler, own, at(began));
        let home = racks(&scheduler, "own").into_keys().next().unwrap();
        let mut now = began;
        for index in 0..random.below(10) {
            now += random.below(100);
            let rack = if random.below(3) == 0 { home.clone() } else { "r0".into() };
            let rack = if rack == home && random.below(2) == 0 { "r1".into() } else { rack };
            let priority = if random.below(2) == 0 { 0 } else { 7 };
            let pod = gpu().node_selector("rack", &rack).priority(priority);
            let job = PodGroup::gang(format!("job{index}"), 1).pods(1, pod).priority(priority);
            scheduler.handle_group(job, at(now)).unwrap();
            settle(&mut scheduler, at(now));
        }
        let waiting: Vec<String> = scheduler.queue("").map(String::from).collect();
        for group in waiting {
            scheduler.handle_group_removed(&group, at(now)).unwrap();
        }
        if racks(&scheduler, "own").values().sum::<usize>() != 6 {
            continue;
        }
        let home = racks(&scheduler, "own").into_keys().next().unwrap();
        now += 1 + random.below(100);
        let (_, lost) = fail(&mut scheduler, "own", at(now));
        let waiting: Vec<String> =
            scheduler.queue("").filter(|own| *own != "default/own").map(String::from).collect();
        for group in waiting {
            scheduler.handle_group_removed(&group, at(now)).unwrap();
        }
        // By the definition.
        let cluster = scheduler.cluster();
        let resource = cluster.resource(GPU).unwrap();
        let free = |is_home: bool| -> i64 {
            let nodes =
                cluster.nodes().filter(|node| (node.label("rack") == Some(&home)) == is_home);
            nodes.map(|node| node.free(resource)).sum()
        };
        let short = lost as i64 - free(true);
        let work = |pod: &phalanx::state::PodView<'_>| {
            at(now).since(pod.start().unwrap()).as_millis() as u64
        };
        let mut victims: Vec<u64> = cluster
            .pods()
            .filter(|pod| {
                pod.priority() < 5
                    && !pod.name().starts_with("own-")
                    && pod.node().is_some_and(|node| node.label("rack") == Some(&home))
            })
            .map(|pod| work(&pod))
            .collect();
        victims.sort_unstable();
        let yields = (victims.len() as i64 >= short)
            .then(|| victims.iter().take(short.max(0) as usize).sum::<u64>());
        let own: u64 = cluster.group_pods("default/own").map(|pod| work(&pod)).sum();
        let moves = (free(false) >= 6).then_some(own);
        let runs = 6 - lost as u32;
        let stays = (runs >= minimum).then_some(worth * 1_000 * lost as u64);
        let expected = costs(stays, yields, moves);
        let seen = settle(&mut scheduler, at(now));
        if short <= 0 {
            assert!(seen.said.is_empty(), "seed {seed}: {seen:?}");
            *ways.entry("room").or_insert(0) += 1;
            continue;
        }
        let Some(way) = expected.cheapest() else {
            assert!(seen.said.is_empty(), "seed {seed}: {seen:?}");
            *ways.entry("none").or_insert(0) += 1;
            continue;
        };
        assert_eq!(seen.said.first(), Some(&(lost as u32, way, expected)), "seed {seed}: {seen:?}");
        let (name, done) = match way {
            RepairWay::Stay => ("stays", seen.evicted.is_empty() && seen.moved.is_empty()),
            RepairWay::Yield => {
                ("yields", seen.evicted.len() as i64 == short && seen.moved.is_empty())
            }
            RepairWay::Move => ("moves", seen.moved == ["default/own"] && seen.evicted.is_empty()),
            _ => unreachable!(),
        };
        assert!(done, "seed {seed}: {seen:?}");
        *ways.entry(name).or_insert(0) += 1;
    }
    for way in ["room", "none", "stays", "yields", "moves"] {
        assert!(ways.get(way).is_some_and(|count| *count > 2), "{way}: {ways:?}");
    }
}

/// Nodes fail and come back at random under gangs in racks.
#[test]
fn a_random_stream_of_failures_keeps_domains_minima_and_the_state() {
    let (mut said, mut moved, mut failed) = (0, 0, 0);
    for seed in 0..budget::of(3, 500) {
        let mut random = Random::new(seed);
        let mut scheduler = super::steps::scheduler(gpus(12, 2), |settings| {
            repairs(1 + seed % 300)(settings);
            settings.elastic.by_turns = seed % 2 == 0;
        });
        let mut minima: BTreeMap<String, usize> = BTreeMap::new();
        let mut below: BTreeMap<String, u64> = BTreeMap::new();
        let mut down: Vec<usize> = Vec::new();
        let mut now = 0;
        for index in 0..120 {
            now += 1 + random.below(20);
            match random.below(7) {
                0 | 1 => {
                    let size = 1 + random.below(7) as usize;
                    let minimum = 1 + random.below(size as u64) as u32;
                    let name = format!("g{index}");
                    let group = PodGroup::gang(&name, minimum).pods(size, gpu());
                    let group = group.require("rack").priority(random.below(3) as i32);
                    scheduler.handle_group(group, at(now)).unwrap();
                    minima.insert(name, minimum as usize);
                }
                2 => {
                    let names: Vec<String> = minima.keys().cloned().collect();
                    if let Some(name) = names.get(random.below(names.len().max(1) as u64) as usize)
                    {
                        let full = format!("default/{name}");
                        let pods = scheduler.cluster().group_pods(&full);
                        let pods: Vec<String> = pods.map(|pod| pod.name().to_owned()).collect();
                        scheduler
                            .handle_group_removed(&format!("default/{name}"), at(now))
                            .unwrap();
                        for pod in pods {
                            delete(&mut scheduler, &pod, at(now));
                        }
                        minima.remove(name);
                    }
                }
                3 | 4 => {
                    let node = random.below(12) as usize;
                    let name = format!("n{node:04}");
                    if let Some(view) = scheduler.cluster().node(&name) {
                        failed += 1;
                        let pods: Vec<_> = view.pods().map(|pod| name_of(&pod)).collect();
                        let event = Event::NodeRemoved { name, version: 0 };
                        scheduler.handle_event(event, at(now)).unwrap();
                        for pod in pods {
                            if pod.namespace() == "default" {
                                scheduler.handle_gone(Gone::Unbound { pod }, at(now)).unwrap();
                            }
                        }
                        down.push(node);
                    }
                }
                5 => {
                    if !down.is_empty() {
                        let node = down.remove(random.below(down.len() as u64) as usize);
                        let rack = format!("r{}", node / 4);
                        let node = Node::new(format!("n{node:04}")).capacity(GPU, 2);
                        let node = node.label("rack", rack);
                        let event = Event::NodeChanged { node, version: 0 };
                        scheduler.handle_event(event, at(now)).unwrap();
                    }
                }
                _ => {
                    let text = serde_json::to_string(&scheduler.save()).unwrap();
                    let saved = serde_json::from_str(&text).unwrap();
                    scheduler = Scheduler::restore(saved, Framework::default(), PriorityThenTime);
                    assert_eq!(serde_json::to_string(&scheduler.save()).unwrap(), text);
                }
            }
            let seen = settle(&mut scheduler, at(now));
            said += seen.said.len();
            moved += seen.moved.len();
            // A cluster that is restored without a node knows no resource.
            let gpu = scheduler.cluster().resource(GPU);
            for node in scheduler.cluster().nodes() {
                assert!(
                    gpu.is_none_or(|gpu| node.free(gpu) >= 0),
                    "seed {seed}, step {index}: {}",
                    node.name()
                );
            }
            for (name, minimum) in &minima {
                let racks = racks(&scheduler, name);
                assert!(racks.len() <= 1, "seed {seed}, step {index}: {name} is in {racks:?}");
                let runs: usize = racks.values().sum();
                if runs > 0 && runs < *minimum {
                    let since = *below.entry(name.clone()).or_insert(now);
                    assert!(
                        now - since <= 60,
                        "seed {seed}, step {index}: {name} below since {since}"
                    );
                } else {
                    below.remove(name);
                }
            }
            below.retain(|name, _| minima.contains_key(name));
        }
    }
    assert!(
        said > budget::of(5, 50) as usize
            && moved > budget::of(0, 5) as usize
            && failed > budget::part(200) as usize,
        "{said} said, {moved} moved, {failed} failed"
    );
}
