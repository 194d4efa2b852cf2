//! Gangs with a minimum below their size: growth by turns, members that yield first, the size to ask for.

use std::collections::BTreeMap;
use std::time::Duration;

use phalanx::queue::{Elastic, Gone, PreemptionSettings, PriorityThenTime, Settings};
use phalanx::quota::{Flavor, Queue, Quota, Tenants};
use phalanx::simulate::Random;
use phalanx::{Decision, Event, Framework, Node, PodGroup, QueueError, Scheduler, Strategy, Time};

use super::steps::*;
use crate::support::budget;

/// A gang of so many pods, of which a minimum must run.
fn elastic(name: &str, minimum: u32, size: usize) -> PodGroup {
    PodGroup::gang(name, minimum).pods(size, gpu())
}

/// A gang whose pods have its priority.
fn important(mut group: PodGroup, priority: i32) -> PodGroup {
    for pod in &mut group.pods {
        *pod = pod.clone().priority(priority);
    }
    group.priority(priority)
}

fn by_turns(settings: &mut Settings) {
    settings.elastic = Elastic::new().by_turns();
    settings.preemption = Some(PreemptionSettings::default());
}

fn running(scheduler: &Scheduler, name: &str) -> usize {
    scheduler
        .cluster()
        .group_pods(&format!("default/{name}"))
        .filter(|pod| pod.node().is_some())
        .count()
}

/// Polls once: binds the plan of the decision. Returns its group and the number of its pods.
fn step(scheduler: &mut Scheduler, now: Time) -> Option<(String, usize)> {
    let Decision::Bind { ticket, plan, groups } = scheduler.poll_decision(now)? else { panic!() };
    bind(scheduler, ticket, &plan, now);
    scheduler.check().unwrap();
    Some((groups[0].to_string(), plan.len()))
}

fn steps(scheduler: &mut Scheduler, now: Time) -> Vec<(String, usize)> {
    std::iter::from_fn(|| step(scheduler, now)).collect()
}

/// Evicts what is asked for and binds the rest. Returns the victims.
fn settle(scheduler: &mut Scheduler, now: Time) -> Vec<(String, usize)> {
    let mut gone = Vec::new();
    while let Some(decision) = scheduler.poll_decision(now) {
        match decision {
            Decision::Bind { ticket, plan, .. } => bind(scheduler, ticket, &plan, now),
            Decision::Evict { ticket, victims, .. } => {
                for victim in victims {
                    gone.push((victim.name.to_string(), victim.pods.len()));
                    let unit = victim.name.to_string();
                    scheduler.handle_gone(Gone::Evicted { ticket, unit }, now).unwrap();
                }
            }
            other => panic!("{other:?}"),
        }
        scheduler.check().unwrap();
    }
    gone.sort();
    gone
}

#[test]
fn gangs_start_with_their_minimum_and_grow_one_by_one() {
    let mut scheduler = super::steps::scheduler(gpus(2, 4), by_turns);
    scheduler.handle_group(elastic("a", 2, 6), at(0)).unwrap();
    scheduler.handle_group(elastic("b", 2, 6), at(1)).unwrap();
    let seen = steps(&mut scheduler, at(1));
    assert_eq!(seen.iter().map(|(_, pods)| *pods).collect::<Vec<_>>(), [2, 2, 1, 1, 1, 1]);
    assert_eq!((running(&scheduler, "a"), running(&scheduler, "b")), (4, 4));
    // A gang that has not started comes before growth, though it came last.
    delete(&mut scheduler, "a-0", at(2));
    delete(&mut scheduler, "a-1", at(2));
    scheduler.handle_group(elastic("c", 2, 3), at(3)).unwrap();
    assert_eq!(steps(&mut scheduler, at(3)), [("default/c".into(), 2)]);
    // One GPU at a time goes to the one that has waited longest for its turn.
    for (secs, pod) in [(4, "c-0"), (5, "c-1")] {
        delete(&mut scheduler, pod, at(secs));
        assert_eq!(steps(&mut scheduler, at(secs)).len(), 1);
    }
}

#[test]
fn without_turns_the_first_gang_takes_all_that_fits() {
    let mut scheduler = super::steps::scheduler(gpus(2, 4), |_| ());
    scheduler.handle_group(elastic("a", 2, 6), at(0)).unwrap();
    scheduler.handle_group(elastic("b", 2, 6), at(1)).unwrap();
    assert_eq!(steps(&mut scheduler, at(1)).iter().map(|own| own.1).collect::<Vec<_>>(), [6, 2]);
}

#[test]
fn members_that_differ_have_a_turn_by_shape_and_none_starves() {
    let mut scheduler = super::steps::scheduler(gpus(1, 8), by_turns);
    let big = gpu().request(GPU, 6);
    let group = PodGroup::gang("a", 1).pods(1, gpu()).pods(1, big).pods(3, gpu());
    scheduler.handle_group(group, at(0)).unwrap();
    let seen: usize = steps(&mut scheduler, at(0)).iter().map(|own| own.1).sum();
    assert_eq!(seen, running(&scheduler, "a"));
    let free: i64 = {
        let resource = scheduler.cluster().resource(GPU).unwrap();
        scheduler.cluster().nodes().map(|node| node.free(resource)).sum()
    };
    assert_eq!(free, 0, "8 GPUs: six and twice one");
}

fn tenants(names: &[(&str, i64)]) -> Tenants {
    let mut tenants = Tenants::default();
    tenants.set_flavor(Flavor::new("all"));
    for (name, nominal) in names {
        let queue = Queue::leaf(*name).parent("labs").quota("all", GPU, Quota::nominal(*nominal));
        tenants.set_queue(queue).unwrap();
    }
    tenants
}

fn of(queue: &str, mut group: PodGroup) -> PodGroup {
    group.queue = queue.into();
    group
}

#[test]
fn queues_grow_in_the_order_of_their_shares() {
    let turns = |change: fn(&mut Settings), is_late: bool| {
        let mut settings = Settings::default();
        change(&mut settings);
        let mut scheduler = Scheduler::new(gpus(2, 4), Framework::default(), settings)
            .with_tenants(tenants(&[("a", 2), ("b", 6)]));
        scheduler.handle_group(of("a", elastic("a", 1, 8)), at(0)).unwrap();
        scheduler.handle_group(of("b", elastic("b", 1, 8)), at(1)).unwrap();
        let (mut now, mut evicted) = (1, 0);
        loop {
            let mut open = Vec::new();
            while let Some(decision) = scheduler.poll_decision(at(now)) {
                match decision {
                    Decision::Bind { ticket, plan, .. } if is_late => open.push((ticket, plan)),
                    Decision::Bind { ticket, plan, .. } => {
                        bind(&mut scheduler, ticket, &plan, at(now));
                    }
                    Decision::Evict { ticket, victims, .. } => {
                        for victim in victims {
                            evicted += victim.pods.len();
                            let gone = Gone::Evicted { ticket, unit: victim.name.to_string() };
                            scheduler.handle_gone(gone, at(now)).unwrap();
                        }
                    }
                    other => panic!("{other:?}"),
                }
                scheduler.check().unwrap();
            }
            if open.is_empty() {
                break;
            }
            now += 1;
            for (ticket, plan) in open {
                bind(&mut scheduler, ticket, &plan, at(now));
            }
        }
        (running(&scheduler, "a"), running(&scheduler, "b"), evicted)
    };
    assert_eq!(turns(by_turns, false), (2, 6, 0));
    // While its member is being bound a queue passes its turn; the other yields what it borrowed so.
    let (a, b, _) = turns(by_turns, true);
    assert_eq!((a, b), (2, 6));
    // At once, one of them takes everything.
    let (a, b, _) = turns(|_| (), false);
    assert_eq!((a.min(b), a.max(b)), (0, 8));
}

#[test]
fn members_above_a_minimum_yield_before_a_less_important_gang_falls() {
    for first in [true, false] {
        let mut scheduler = super::steps::scheduler(gpus(2, 4), |settings| {
            by_turns(settings);
            settings.elastic = settings.elastic.surplus_first(first);
        });
        scheduler.handle_group(important(elastic("rigid", 4, 4), 1), at(0)).unwrap();
        settle(&mut scheduler, at(0));
        scheduler.handle_group(important(elastic("elastic", 2, 4), 5), at(1)).unwrap();
        settle(&mut scheduler, at(1));
        scheduler.handle_group(important(elastic("own", 2, 2), 10), at(2)).unwrap();
        let gone = settle(&mut scheduler, at(2));
        if first {
            let all =
                gone.iter().all(|(name, pods)| name.starts_with("default/elastic-") && *pods == 1);
            assert!(all && gone.len() == 2, "{gone:?}");
            assert_eq!((running(&scheduler, "elastic"), running(&scheduler, "rigid")), (2, 4));
        } else {
            assert!(gone.iter().all(|(name, _)| name.contains("rigid")), "{gone:?}");
        }
        assert_eq!(running(&scheduler, "own"), 2);
    }
}

#[test]
fn a_gang_that_borrows_shrinks_to_its_minimum_before_it_falls() {
    let mut settings = Settings::default();
    by_turns(&mut settings);
    let mut scheduler = Scheduler::new(gpus(2, 4), Framework::default(), settings)
        .with_tenants(tenants(&[("a", 4), ("b", 4)]));
    scheduler.handle_group(of("a", elastic("a", 2, 8)), at(0)).unwrap();
    settle(&mut scheduler, at(0));
    assert_eq!(running(&scheduler, "a"), 8);
    scheduler.handle_group(of("b", elastic("b", 3, 3)), at(10)).unwrap();
    let gone = settle(&mut scheduler, at(10));
    assert_eq!(gone.len(), 3, "{gone:?}");
    assert!(gone.iter().all(|(_, pods)| *pods == 1));
    assert_eq!((running(&scheduler, "a"), running(&scheduler, "b")), (5, 3));
    // What it lost waits, and takes nothing back.
    for secs in 11..60 {
        assert_eq!(settle(&mut scheduler, at(secs)), []);
    }
    // When the other ends, it grows again.
    for pod in 0..3 {
        delete(&mut scheduler, &format!("b-{pod}"), at(60));
    }
    settle(&mut scheduler, at(60));
    assert_eq!(running(&scheduler, "a"), 8);
}

#[test]
fn a_gang_grows_in_its_own_domain_and_nowhere_else() {
    let mut scheduler = super::steps::scheduler(gpus(8, 2), by_turns);
    scheduler.handle_group(gang("other", 5).require("rack"), at(0)).unwrap();
    settle(&mut scheduler, at(0));
    let rack_of = |scheduler: &Scheduler, name: &str| {
        let mut racks: Vec<String> = scheduler
            .cluster()
            .group_pods(&format!("default/{name}"))
            .filter_map(|pod| Some(pod.node()?.label("rack")?.to_owned()))
            .collect();
        racks.sort();
        racks.dedup();
        racks
    };
    let other = rack_of(&scheduler, "other");
    scheduler.handle_group(elastic("own", 2, 12).require("rack"), at(1)).unwrap();
    settle(&mut scheduler, at(1));
    let own = rack_of(&scheduler, "own");
    assert_eq!(own.len(), 1);
    let most = if own == other { 3 } else { 8 };
    assert_eq!(running(&scheduler, "own"), most);
    let size = scheduler.desired_size("default/own", 12, at(1)).unwrap();
    assert_eq!((size.minimum, size.placed, size.desired), (2, most as u32, most as u32));
    // It shrinks and grows again, in the same rack.
    for pod in ["own-0", "own-1"] {
        delete(&mut scheduler, pod, at(2));
    }
    settle(&mut scheduler, at(2));
    assert_eq!((running(&scheduler, "own"), rack_of(&scheduler, "own")), (most, own));
}

#[test]
fn the_size_to_ask_for_follows_room_quota_and_evictions() {
    let mut settings = Settings::default();
    by_turns(&mut settings);
    let mut scheduler = Scheduler::new(gpus(2, 4), Framework::default(), settings)
        .with_tenants(tenants(&[("a", 4), ("b", 4)]));
    scheduler.handle_group(of("a", elastic("a", 2, 2)), at(0)).unwrap();
    let size = |scheduler: &mut Scheduler, most: u32, secs: u64| {
        let size = scheduler.desired_size("default/a", most, at(secs)).unwrap();
        (size.placed, size.desired)
    };
    assert_eq!(size(&mut scheduler, 5, 0), (0, 5));
    settle(&mut scheduler, at(0));
    let before = serde_json::to_string(&scheduler.save()).unwrap();
    assert_eq!(size(&mut scheduler, 5, 0), (2, 5));
    assert_eq!(size(&mut scheduler, u32::MAX, 0), (2, 8));
    assert_eq!(serde_json::to_string(&scheduler.save()).unwrap(), before, "it is a question");
    scheduler.handle_group(of("b", elastic("b", 5, 5)), at(1)).unwrap();
    settle(&mut scheduler, at(1));
    assert_eq!(size(&mut scheduler, 100, 1), (2, 3));
    // A queue with a limit of two.
    let limited = Queue::leaf("a").parent("labs").quota("all", GPU, Quota::nominal(2).limit(2));
    scheduler.handle_queue(limited, at(2)).unwrap();
    assert_eq!(size(&mut scheduler, 100, 2), (2, 2));
    let unknown = scheduler.desired_size("default/nobody", 1, at(2));
    assert_eq!(unknown, Err(QueueError::UnknownGroup("default/nobody".into())));
}

/// Victims above minima against all sets of them, in small worlds.
#[test]
fn members_above_minima_that_yield_are_the_least_of_all_sets() {
    let (mut by_members, mut others) = (0, 0);
    for seed in 0..budget::of(100, 10_000) {
        let mut random = Random::new(seed);
        let nodes = 1 + random.below(3) as usize;
        let mut cluster = phalanx::Cluster::new();
        for index in 0..nodes {
            let node = Node::new(format!("n{index}")).capacity(GPU, 2 + random.below(3) as i64);
            cluster.add_node(node).unwrap();
        }
        let mut scheduler = super::steps::scheduler(cluster, |settings| {
            settings.elastic = Elastic::new().surplus_first(true);
            settings.preemption = Some(PreemptionSettings::default());
        });
        let mut minima = BTreeMap::new();
        for index in 0..2 + random.below(3) {
            let size = 1 + random.below(4) as usize;
            let minimum = 1 + random.below(size as u64) as u32;
            let group = elastic(&format!("g{index}"), minimum, size);
            let group = important(group, random.below(4) as i32);
            minima.insert(format!("g{index}"), minimum as usize);
            scheduler.handle_group(group, at(index * 10)).unwrap();
            bind_only(&mut scheduler, at(index * 10));
        }
        // Nobody waits when the gang comes.
        let waiting: Vec<String> = scheduler.queue("").map(String::from).collect();
        for group in waiting {
            let status = scheduler.status(&group).unwrap();
            if status.bound == 0 {
                scheduler.handle_group_removed(&group, at(90)).unwrap();
            } else {
                scheduler.handle_pause(&group, at(90)).unwrap();
            }
        }
        let (size, each) = (1 + random.below(3), 1 + random.below(2) as i64);
        let priority = random.below(5) as i32;
        let pod = gpu().request(GPU, each);
        let own = PodGroup::gang("own", size as u32).pods(size as usize, pod).priority(priority);
        let least = least_set(&scheduler, &minima, (size as i64, each), priority);
        let free = least_set(&scheduler, &minima, (size as i64, each), i32::MIN);
        scheduler.handle_group(own, at(100)).unwrap();
        let decision = scheduler.poll_decision(at(100));
        scheduler.check().unwrap();
        match (free, least, decision) {
            (Some(_), _, decision) => {
                assert!(
                    matches!(decision, Some(Decision::Bind { .. })),
                    "seed {seed}: {decision:?}"
                );
            }
            (None, Some(least), Some(Decision::Evict { victims, .. })) => {
                by_members += 1;
                let cost = (
                    victims.iter().map(|own| own.priority).max().unwrap(),
                    victims.iter().map(|own| own.work_lost).sum::<u64>(),
                    victims.len(),
                );
                assert!(victims.iter().all(|own| own.pods.len() == 1), "seed {seed}: {victims:?}");
                assert_eq!(cost, least, "seed {seed}");
            }
            (None, Some(least), other) => panic!("seed {seed}: {least:?}, {other:?}"),
            (None, None, _) => others += 1,
        }
    }
    assert!(
        by_members > budget::of(5, 30) && others > budget::of(10, 30),
        "{by_members} by members, {others} others"
    );
}

fn bind_only(scheduler: &mut Scheduler, now: Time) {
    while let Some(decision) = scheduler.poll_decision(now) {
        match decision {
            Decision::Bind { ticket, plan, .. } => bind(scheduler, ticket, &plan, now),
            Decision::Evict { ticket, victims, .. } => {
                for victim in victims {
                    let unit = victim.name.to_string();
                    scheduler.handle_gone(Gone::Evicted { ticket, unit }, now).unwrap();
                }
            }
            other => panic!("{other:?}"),
        }
    }
}

/// The least set of running members of lower priority that leaves every gang its minimum, by the
/// definition: all sets.
fn least_set(
    scheduler: &Scheduler,
    minima: &BTreeMap<String, usize>,
    (size, each): (i64, i64),
    priority: i32,
) -> Option<(i32, u64, usize)> {
    let cluster = scheduler.cluster();
    let gpu = cluster.resource(GPU).unwrap();
    let running: Vec<_> = cluster.pods().filter(|pod| pod.node().is_some()).collect();
    let mut best = None;
    for set in 0_u32..1 << running.len() {
        let taken: Vec<_> = running
            .iter()
            .enumerate()
            .filter(|(at, _)| set >> at & 1 == 1)
            .map(|(_, pod)| pod)
            .collect();
        let keeps = minima.iter().all(|(group, minimum)| {
            let prefix = format!("{group}-");
            let all = running.iter().filter(|pod| pod.name().starts_with(&prefix)).count();
            let gone = taken.iter().filter(|pod| pod.name().starts_with(&prefix)).count();
            gone == 0 || all - gone >= *minimum
        });
        if !keeps || taken.iter().any(|pod| pod.priority() >= priority) {
            continue;
        }
        let fits: i64 = cluster
            .nodes()
            .map(|node| {
                let freed =
                    taken.iter().filter(|pod| pod.node().unwrap().name() == node.name()).count();
                (node.free(gpu) + freed as i64) / each
            })
            .sum();
        if fits < size {
            continue;
        }
        let work = taken.iter().map(|pod| at(100).since(pod.start().unwrap()).as_millis() as u64);
        let highest = taken.iter().map(|pod| pod.priority()).max().unwrap_or(i32::MIN);
        let cost = (highest, work.sum::<u64>(), taken.len());
        best = best.into_iter().chain([cost]).min();
    }
    best
}

/// Gangs that come, grow, shrink and go, in queues: the state agrees, minima hold, and no queue takes
/// back without end.
#[test]
fn a_random_stream_of_elastic_gangs_keeps_minima_and_comes_to_rest() {
    let (mut shrunk, mut grown) = (0, 0);
    for seed in 0..budget::of(4, 1_000) {
        let mut random = Random::new(seed);
        let mut settings = Settings::default();
        by_turns(&mut settings);
        let with_tenants = random.below(2) == 0;
        let mut scheduler = Scheduler::new(gpus(8, 2), Framework::default(), settings);
        if with_tenants {
            scheduler = scheduler.with_tenants(tenants(&[("a", 6), ("b", 10)]));
        }
        let mut minima = BTreeMap::new();
        let mut now = 0;
        for index in 0..120 {
            now += random.below(20);
            match random.below(6) {
                0 | 1 => {
                    let size = 1 + random.below(8) as usize;
                    let minimum = 1 + random.below(size as u64) as u32;
                    let name = format!("g{index}");
                    let mut group =
                        important(elastic(&name, minimum, size), random.below(3) as i32);
                    if random.below(3) == 0 {
                        group = group.require("rack");
                    }
                    let queue = if random.below(2) == 0 { "a" } else { "b" };
                    if scheduler.handle_group(of(queue, group), at(now)).is_ok() {
                        minima.insert(name, minimum as usize);
                    }
                }
                2 | 3 => {
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
                4 => {
                    let text = serde_json::to_string(&scheduler.save()).unwrap();
                    let saved = serde_json::from_str(&text).unwrap();
                    scheduler = Scheduler::restore(saved, Framework::default(), PriorityThenTime);
                    assert_eq!(serde_json::to_string(&scheduler.save()).unwrap(), text);
                }
                _ => {}
            }
            let mut turns = 0;
            while let Some(decision) = scheduler.poll_decision(at(now)) {
                turns += 1;
                assert!(turns < 400, "seed {seed}: no rest");
                match decision {
                    Decision::Bind { ticket, plan, groups } => {
                        let name = &groups[0].name().to_owned();
                        grown +=
                            usize::from(running(&scheduler, name) > plan.len() && plan.len() == 1);
                        bind(&mut scheduler, ticket, &plan, at(now));
                    }
                    Decision::Evict { ticket, victims, .. } => {
                        for victim in victims {
                            shrunk += usize::from(!victim.whole && victim.pods.len() == 1);
                            let unit = victim.name.to_string();
                            let gone = Gone::Evicted { ticket, unit };
                            scheduler.handle_gone(gone, at(now)).unwrap();
                        }
                    }
                    Decision::CancelEvictions { .. } => {}
                    other => panic!("seed {seed}: {other:?}"),
                }
                scheduler.check().unwrap_or_else(|error| panic!("seed {seed}: {error}"));
            }
            for (name, minimum) in &minima {
                let count = running(&scheduler, name);
                assert!(
                    count == 0 || count >= *minimum,
                    "seed {seed}: {name} runs {count} of {minimum}"
                );
            }
        }
    }
    assert!(
        shrunk > budget::part(20) as usize && grown > budget::part(100) as usize,
        "{shrunk} shrunk, {grown} grown"
    );
}

/// A node's room that comes back goes to growth; the event alone does not starve it.
#[test]
fn growth_follows_nodes_that_are_added() {
    let mut scheduler = super::steps::scheduler(gpus(1, 4), by_turns);
    scheduler.handle_group(elastic("a", 2, 8), at(0)).unwrap();
    settle(&mut scheduler, at(0));
    assert_eq!(running(&scheduler, "a"), 4);
    let node = Node::new("new").capacity(GPU, 2);
    scheduler.handle_event(Event::NodeChanged { node, version: 0 }, at(60)).unwrap();
    settle(&mut scheduler, at(60).after(Duration::from_secs(10)));
    assert_eq!(running(&scheduler, "a"), 6);
}

/// A gang that only prefers the full rack that it runs on: its late members had no place.
#[test]
fn late_members_go_elsewhere_if_the_preferred_rack_is_full() {
    let settings = Settings::new().strategy(Strategy::Kubernetes);
    let mut scheduler = Scheduler::new(gpus(5, 1), Framework::default(), settings);
    scheduler.handle_group(gang("g", 4).prefer("rack"), at(0)).unwrap();
    assert_eq!(bind_all(&mut scheduler, at(0)), ["default/g"]);
    for (late, node) in [("late-a", Some("n0004")), ("late-b", None)] {
        scheduler.handle_pod(gpu().name(late).in_group("g"), at(1)).unwrap();
        let started = bind_all(&mut scheduler, at(60)).len();
        assert_eq!(started, usize::from(node.is_some()), "{late}");
        let own = scheduler.cluster().pod("default", late).and_then(|pod| pod.node());
        assert_eq!(own.map(|node| node.name()), node, "{late}");
    }
}
