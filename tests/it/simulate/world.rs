//! A cluster with racks, and random gangs of whole nodes.

use std::time::Duration;

use phalanx::simulate::{Estimates, Job, Random};
use phalanx::{Cluster, Framework, Node, Pod, PodGroup, Time, plugins};

pub(super) const GPU: &str = "nvidia.com/gpu";

pub(super) fn node(index: usize) -> Node {
    let rack = format!("r{}", index / 4);
    Node::new(format!("n{index:02}")).capacity(GPU, 8).label("rack", rack)
}

pub(super) fn cluster(nodes: usize) -> Cluster {
    let mut cluster = Cluster::builder().levels(["rack"]).build().unwrap();
    for index in 0..nodes {
        cluster.add_node(node(index)).unwrap();
    }
    cluster
}

pub(super) fn framework() -> Framework {
    let fit = Framework::builder().filter(plugins::Fit).filter(plugins::TaintToleration);
    fit.score(1, plugins::MostAllocated::of([(GPU, 1)])).build().unwrap()
}

/// As [`jobs`], but for two thirds of them, which take a part of one node.
pub(super) fn mixed_jobs(count: usize, nodes: usize, estimates: Estimates, seed: u64) -> Vec<Job> {
    let mut random = Random::new(seed ^ 0x5eed);
    let mut jobs = jobs(count, nodes, estimates, seed);
    for job in &mut jobs {
        if random.below(3) > 0 {
            let name = job.group.name.clone();
            let pod = Pod::new().request(GPU, [1, 2, 3, 4, 6][random.below(5) as usize]);
            let estimate = job.group.run_time_estimate;
            job.group = PodGroup::gang(name, 1).pods(1, pod);
            job.group.run_time_estimate = estimate;
        }
        // Smaller jobs, so more of them at a time.
        job.submit = Time::from_millis(job.submit.as_millis() * 2 / 5);
    }
    jobs
}

/// Jobs of one to eight nodes, those of up to four within one rack, at a load that makes a line.
pub(super) fn jobs(count: usize, nodes: usize, estimates: Estimates, seed: u64) -> Vec<Job> {
    let mut random = Random::new(seed);
    let mut submit = 0;
    (0..count)
        .map(|index| {
            let size = [1, 1, 1, 2, 2, 3, 4, 6, 8][random.below(9) as usize].min(nodes as u32);
            let run = Duration::from_millis(random.within(1_000, 600_000));
            // The mean job takes three nodes for five minutes.
            submit += random.within(0, 2 * 900_000 * 10 / (nodes as u64 * 11));
            let gang = PodGroup::gang(format!("job-{index}"), size)
                .pods(size as usize, Pod::new().request(GPU, 8))
                .run_time_estimate(estimates.of(run, &mut random));
            let gang = if (2..=4).contains(&size) { gang.require("rack") } else { gang };
            Job::new(gang, Time::from_millis(submit), run)
        })
        .collect()
}
