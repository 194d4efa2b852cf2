//! What an event costs with 100,000 pods waiting in 10,000 gangs on 5,000 nodes.
//!
//! Run it with `cargo bench --bench queue`. It prints, once with all pods alike and once with
//! every gang of a shape of its own: the time to put all gangs to sleep, the time of an event that
//! helps nobody, of one that helps one gang, and what is kept.

use std::time::{Duration, Instant};

use phalanx::model::{Node, Pod, PodGroup};
use phalanx::queue::{Decision, Scheduler, Settings};
use phalanx::{Cluster, Framework, Time};

const GPU: &str = "nvidia.com/gpu";

fn resident() -> u64 {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages: u64 = text.split(' ').nth(1).and_then(|text| text.parse().ok()).unwrap_or(0);
    pages * 4 / 1_024
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times.get(times.len() / 2).copied().unwrap_or_default()
}

fn run(title: &str, own_shapes: bool) {
    let (nodes, gangs) = (5_000, 10_000);
    let mut cluster = Cluster::builder().levels(["rack"]).build().expect("one level");
    for node in 0..nodes {
        let rack = format!("r{}", node / 20);
        let node = Node::new(format!("n{node}")).capacity(GPU, 8).label("rack", rack);
        cluster.add_node(node).expect("names are different");
    }
    for pod in 0..nodes * 8 {
        let node = format!("n{}", pod / 8);
        let pod = Pod::new().name(format!("old-{pod}")).request(GPU, 1).on(node);
        cluster.add_pod(pod).expect("names are different");
    }
    let before = resident();
    let mut scheduler = Scheduler::new(cluster, Framework::default(), Settings::default());
    let now = Time::from_secs(1);
    let start = Instant::now();
    for gang in 0..gangs {
        let mut pod = Pod::new().request(GPU, 1);
        if own_shapes {
            pod = pod.label("job", gang.to_string());
        }
        let group = PodGroup::gang(format!("g{gang}"), 10).pods(10, pod);
        scheduler.handle_group(group, now).expect("it is sound");
    }
    let taken_in = start.elapsed();
    let start = Instant::now();
    assert_eq!(scheduler.poll_decision(now), None);
    println!("{title}");
    println!("  taken in {taken_in:.1?}, all tried and asleep {:.1?}", start.elapsed());
    println!("  {:?}, {} MiB more resident", scheduler.memory(), resident() - before);

    let (mut idle, mut helped, mut visited) = (Vec::new(), Vec::new(), 0);
    let mut next = 0;
    for _ in 0..20 {
        for freed in 0..10 {
            let seen = scheduler.work().visited;
            let start = Instant::now();
            // Spread over the cluster, so that each frees one GPU of another node.
            let name = format!("old-{}", next * 8);
            next += 1;
            scheduler.handle_pod_deleted("default", &name, now).expect("known");
            let decision = scheduler.poll_decision(now);
            let elapsed = start.elapsed();
            visited += scheduler.work().visited - seen;
            match decision {
                None => idle.push(elapsed),
                Some(Decision::Bind { plan, .. }) => {
                    assert_eq!(freed, 9);
                    helped.push(elapsed);
                    for assignment in plan.assignments() {
                        let name = &assignment.pod().name;
                        scheduler.handle_binding("default", name, Ok(()), now).expect("known");
                    }
                    assert_eq!(scheduler.poll_decision(now), None);
                }
                Some(other) => panic!("{other:?}"),
            }
        }
    }
    println!(
        "  an event that helps nobody {:.1?}, one that helps a gang {:.1?} (medians of {} and {})",
        median(idle.clone()),
        median(helped.clone()),
        idle.len(),
        helped.len()
    );
    println!("  counts visited per event {}", visited / 200);
    let counters = scheduler.counters();
    println!(
        "  {} tries, {} placed, {} woken, {} wakes withdrawn",
        counters.attempts, counters.placed, counters.woken, scheduler.work().spared
    );
}

fn main() {
    run("100,000 pods of one shape", false);
    run("10,000 gangs of 10, each of a shape of its own", true);
}
