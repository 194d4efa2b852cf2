//! Cost of an event with 100,000 pods waiting in 10,000 gangs on 5,000 full nodes.
//!
//! Run it with `cargo bench --features full --bench queue`. For gangs alike and gangs that differ, each in its own
//! way, it prints the time to put them to sleep, the time of an event that helps no gang, one, and
//! a hundred, what was looked at to find that out, and how much memory a waiting gang takes.

use std::alloc::System;
use std::time::{Duration, Instant};

use phalanx::model::{Effect, Taint};
use phalanx::queue::{Gone, Settings, Ticket};
use phalanx::{Cluster, Decision, Event, Framework, Node, Plan, Pod, PodGroup, Scheduler, Time};
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

const GPU: &str = "nvidia.com/gpu";
const NODES: usize = 5_000;
const GANGS: usize = 10_000;
const SIZE: usize = 10;

/// In what the gangs differ.
#[derive(Clone, Copy)]
enum Differ {
    /// In nothing.
    Not,
    /// Every gang has a label of its own.
    Labels,
    /// Every gang requests another amount of CPU.
    Cpu,
    /// Every gang selects another set of nodes.
    Selector,
    /// Every gang is of another shape, and none tolerates the taint of the free nodes.
    Taint,
    /// Every gang must be in one rack, and is of another shape.
    Rack,
}

fn median(times: &mut [Duration]) -> Duration {
    times.sort_unstable();
    times.get(times.len() / 2).copied().unwrap_or_default()
}

fn kept() -> Taint {
    Taint::new("kept", "", Effect::NoSchedule)
}

fn node(index: usize) -> Node {
    let node = Node::new(format!("n{index}"))
        .capacity(GPU, 8)
        .capacity("cpu", 64)
        .label("rack", format!("r{}", index / 20))
        .label("pool", format!("p{}", index % 50));
    // The last hundred are kept for others.
    if index < NODES - 100 { node } else { node.taint(kept()) }
}

fn gang(index: usize, differ: Differ) -> PodGroup {
    let pod = Pod::new().request(GPU, 1);
    let own = index.to_string();
    let pod = match differ {
        Differ::Not => pod,
        Differ::Labels | Differ::Taint | Differ::Rack => pod.label("job", own),
        Differ::Cpu => pod.request("cpu", format!("{}m", 1_000 + index).as_str()),
        Differ::Selector => pod.label("job", own).node_selector("pool", format!("p{}", index % 50)),
    };
    let group = PodGroup::gang(format!("g{index}"), SIZE as u32).pods(SIZE, pod);
    if matches!(differ, Differ::Rack) { group.require("rack") } else { group }
}

/// A full cluster: a pod on every GPU, but for the tainted nodes if those are to be free.
fn cluster(free_tainted: bool) -> Cluster {
    let mut cluster = Cluster::builder().levels(["rack"]).build().expect("one level");
    for index in 0..NODES {
        cluster.add_node(node(index)).expect("names are different");
        let full = index < NODES - 100 || !free_tainted;
        for gpu in 0..if full { 8 } else { 0 } {
            let pod = Pod::new().name(format!("old-{index}-{gpu}")).request(GPU, 1);
            let on = format!("n{index}");
            cluster.add_pod(pod.on(on)).expect("names are different");
        }
    }
    cluster
}

/// Polls until nothing is to be done, and returns the plans.
fn poll(scheduler: &mut Scheduler, now: Time) -> Vec<(Ticket, Plan)> {
    let mut plans = Vec::new();
    while let Some(decision) = scheduler.poll_decision(now) {
        match decision {
            Decision::Bind { ticket, plan, .. } => plans.push((ticket, plan)),
            other => panic!("{other:?}"),
        }
    }
    plans
}

fn run(title: &str, differ: Differ) {
    let cluster = cluster(matches!(differ, Differ::Taint));
    let mut scheduler = Scheduler::new(cluster, Framework::default(), Settings::default());
    let now = Time::from_secs(1);
    let region = Region::new(ALLOCATOR);
    let start = Instant::now();
    for index in 0..GANGS {
        scheduler.handle_group(gang(index, differ), now).expect("it is sound");
    }
    let taken_in = start.elapsed();
    let known = region.change();
    let known = known.bytes_allocated - known.bytes_deallocated;
    let start = Instant::now();
    assert!(poll(&mut scheduler, now).is_empty());
    let asleep = start.elapsed();
    let all = region.change();
    let all = all.bytes_allocated - all.bytes_deallocated;
    println!("{title}");
    println!("  taken in {taken_in:.1?}, all tried and asleep {asleep:.1?}");
    println!(
        "  {} bytes a gang of {SIZE} members known, {} more asleep; {:?}",
        known / GANGS,
        (all.saturating_sub(known)) / GANGS,
        scheduler.memory_stats()
    );

    // One GPU is freed and taken again, all over the cluster: it helps nobody.
    let mut idle = Vec::new();
    let before = scheduler.wake_stats();
    for round in 0..400 {
        let index = round * 7 % (NODES - 100);
        let name = format!("old-{index}-0");
        let start = Instant::now();
        scheduler.handle_gone(Gone::deleted("default", &name), now).expect("known");
        assert!(poll(&mut scheduler, now).is_empty());
        idle.push(start.elapsed());
        let pod = Pod::new().name(name).request(GPU, 1).on(format!("n{index}"));
        let start = Instant::now();
        scheduler.handle_event(Event::PodChanged { pod, version: 0 }, now).expect("known");
        assert!(poll(&mut scheduler, now).is_empty());
        idle.push(start.elapsed());
    }
    let visited = scheduler.wake_stats().capacity_checks - before.capacity_checks;
    println!(
        "  an event that helps nobody {:.1?}, looking at {} counts",
        median(&mut idle),
        visited / 800
    );

    // A node comes that has room for so many gangs.
    for (helped, rounds) in [(1, 21), (100, 3)] {
        let mut times = Vec::new();
        let before = (scheduler.wake_stats(), scheduler.metrics().clone());
        for round in 0..rounds {
            let gpus = (helped * SIZE) as i64;
            let node = Node::new(format!("new-{helped}-{round}"))
                .capacity(GPU, gpus)
                .capacity("cpu", 10_000_000)
                .label("rack", format!("new-{helped}-{round}"))
                .label("pool", format!("p{round}"));
            let start = Instant::now();
            scheduler.handle_event(Event::NodeChanged { node, version: 0 }, now).expect("sound");
            let plans = poll(&mut scheduler, now);
            times.push(start.elapsed());
            assert_eq!(plans.len(), helped);
            for (ticket, _) in plans {
                scheduler.handle_bound(ticket, now).expect("it is in flight");
            }
            assert!(poll(&mut scheduler, now).is_empty());
        }
        let (work, counters) = (scheduler.wake_stats(), scheduler.metrics());
        let tried = counters.attempts - before.1.attempts;
        println!(
            "  a node with room for {helped}: {:.1?}; in {rounds} of them {} placed, {} woken, \
             {tried} tried, {} let sleep on, {} counts looked at",
            median(&mut times),
            counters.placed - before.1.placed,
            counters.woken - before.1.woken,
            work.still_short - before.0.still_short,
            work.capacity_checks - before.0.capacity_checks
        );
    }
}

fn main() {
    println!("simd: {}", phalanx::framework::math::simd_level());
    run("all gangs alike", Differ::Not);
    run("every gang with a label of its own", Differ::Labels);
    run("every gang with another request of CPU", Differ::Cpu);
    run("every gang in one rack, and with a label of its own", Differ::Rack);
    run("every gang selecting one of 50 pools, and with a label of its own", Differ::Selector);
    run("no gang tolerating the 100 free nodes, each with a label of its own", Differ::Taint);
}
