//! Benchmarks that peers run in process, and Kueue's and KAI's, whose work is done here in process.

use std::time::Instant;

use phalanx::queue::{Gone, PreemptionSettings, Settings};
use phalanx::quota::kai::KaiSettings;
use phalanx::quota::{Flavor, Queue, Quota, Tenants};
use phalanx::state::Assignment;
use phalanx::{
    Cluster, Decision, Framework, Node, Outcome, Planner, Pod, PodGroup, QueueError, Request,
    Scheduler, Time,
};

use super::Row;
use crate::scene::{GPU, Scene};

/// kube-scheduler 1.36.3 in process, every node judged, on a machine of this class: pods a second.
const KUBE: [(&str, usize, usize, usize, bool, f64); 6] = [
    ("kube-scheduler 1,000 nodes", 1_000, 2_000, 1, false, 600.0),
    ("kube-scheduler 5,000 nodes", 5_000, 10_000, 1, false, 130.0),
    ("kube-scheduler 15,000 nodes", 15_000, 10_000, 1, false, 34.0),
    ("kube-scheduler gangs of 64", 5_000, 6_400, 64, false, 106.0),
    ("kube-scheduler racks, gangs of 4", 5_000, 4_000, 4, true, 75.0),
    ("kube-scheduler racks, a gang of 512", 5_000, 5_120, 512, true, 41.0),
];

/// A gang on empty nodes: Armada's 10,000 of 10,000 nodes in 318 ms and 32,000 of 1,000 nodes in 606.
const ARMADA: [(&str, usize, usize, f64); 2] = [
    ("Armada 10,000 on 10,000 nodes", 10_000, 10_000, 10_000.0 * 1e3 / 318.0),
    ("Armada 32,000 on 1,000 nodes", 1_000, 32_000, 32_000.0 * 1e3 / 606.0),
];

/// KAI's allocate: nodes of 8 GPUs and jobs of one; milliseconds, of which 100 are its session.
const KAI: [(&str, usize, usize, f64); 3] = [
    ("KAI allocate 10/50", 10, 50, 106.6),
    ("KAI allocate 50/200", 50, 200, 127.1),
    ("KAI allocate 100/500", 100, 500, 183.3),
];

/// KAI's reclaim of half of the nodes for one job, all full of jobs of one; milliseconds. Its 200 and 500
/// nodes are not run: the search for victims grows faster than the nodes.
const RECLAIM: [(&str, usize, f64); 3] = [
    ("KAI reclaim large 10", 10, 104.0),
    ("KAI reclaim large 50", 50, 130.0),
    ("KAI reclaim large 100", 100, 241.0),
];

/// Kueue's sets: cohorts, queues of each, and per queue jobs of 1, 5 and 20 cpus; seconds.
const KUEUE: [(&str, usize, usize, [usize; 3], f64); 2] = [
    ("Kueue baseline", 5, 6, [350, 100, 50], 351.1),
    ("Kueue large-scale", 10, 100, [35, 11, 4], 1_179.4),
];

pub(super) fn measure(divide: usize, only: &str) -> Result<Vec<Row>, QueueError> {
    let mut rows = Vec::new();
    let part = |count: usize| count.div_ceil(divide);
    let wanted = |name: &str| name.contains(only);
    for (name, nodes, pods, gang, topology, theirs) in KUBE.into_iter().filter(|row| wanted(row.0))
    {
        let gang = if divide > 1 { gang.min(8) } else { gang };
        let scene =
            Scene { nodes: part(nodes), pods: part(pods), gang, topology, ..Scene::default() };
        let bound = place(&scene);
        rows.push(row("10", name, (part(nodes), part(pods)), bound, theirs));
    }
    for (name, nodes, pods, theirs) in ARMADA.into_iter().filter(|row| wanted(row.0)) {
        let bound = one_gang(part(nodes), part(pods))?;
        rows.push(row("10", name, (part(nodes), part(pods)), bound, theirs));
    }
    for (name, nodes, jobs, millis) in KAI.into_iter().filter(|row| wanted(row.0)) {
        let bound = allocate(nodes, part(jobs))?;
        rows.push(row("8", name, (nodes, part(jobs)), bound, jobs as f64 / millis * 1e3));
    }
    for (name, nodes, millis) in RECLAIM.into_iter().filter(|row| wanted(row.0)) {
        let own = part(nodes).max(2);
        let bound = reclaim(own)?;
        rows.push(row("8", name, (own, own / 2), bound, nodes as f64 / 2.0 / millis * 1e3));
    }
    for (name, cohorts, queues, counts, seconds) in KUEUE.into_iter().filter(|row| wanted(row.0)) {
        let all = counts.iter().sum::<usize>() * cohorts * queues;
        let counts = counts.map(part);
        let own = counts.iter().sum::<usize>() * cohorts * queues;
        let bound = admit(cohorts, queues, counts)?;
        rows.push(row("7", name, (0, own), bound, all as f64 / seconds));
    }
    Ok(rows)
}

/// How many were done, in how many seconds.
type Done = (usize, f64);

fn row(
    section: &'static str,
    name: &str,
    (nodes, pods): (usize, usize),
    (bound, seconds): Done,
    theirs: f64,
) -> Row {
    Row {
        section,
        name: name.to_string(),
        nodes,
        pods,
        bound,
        rate: bound as f64 / seconds.max(1e-9),
        alike: None,
        theirs: Some(theirs),
        through_server: section == "7",
    }
}

/// Gangs one after the other, each committed.
fn place(scene: &Scene) -> Done {
    let framework = Framework::kubernetes();
    let mut cluster = scene.nodes();
    let mut planner = Planner::new();
    let groups: Vec<PodGroup> = scene.gangs().collect();
    let mut bound = 0;
    let begin = Instant::now();
    for group in &groups {
        let request = Request::new(group).strategy(phalanx::Strategy::Kubernetes);
        let outcome = planner.place(&cluster, &framework, request);
        if let Some(plan) = outcome.ok().as_ref().and_then(Outcome::plan)
            && cluster.commit(&framework, plan).is_ok()
        {
            bound += plan.len();
        }
    }
    (bound, begin.elapsed().as_secs_f64())
}

/// One gang on nodes of 32 cpus, with pods of one.
fn one_gang(nodes: usize, pods: usize) -> Result<Done, QueueError> {
    let mut cluster = Cluster::new();
    for index in 0..nodes {
        let node = Node::new(format!("n{index:05}")).capacity("cpu", 32);
        cluster.add_node(node.capacity("memory", "256Gi").capacity("pods", 110))?;
    }
    let pod = Pod::new().request("cpu", 1).request("memory", "4Gi");
    let group = PodGroup::gang("gang", pods as u32).pods(pods, pod);
    let framework = Framework::kubernetes();
    let begin = Instant::now();
    let outcome = Planner::new().place(&cluster, &framework, &group)?;
    let mut bound = 0;
    if let Some(plan) = outcome.plan()
        && cluster.commit(&framework, plan).is_ok()
    {
        bound = plan.len();
    }
    Ok((bound, begin.elapsed().as_secs_f64()))
}

fn gpu_nodes(nodes: usize) -> Result<Cluster, QueueError> {
    let mut cluster = Cluster::new();
    for index in 0..nodes {
        let node = Node::new(format!("n{index:05}")).capacity("cpu", 32);
        let node = node.capacity("memory", "256Gi").capacity("pods", 110);
        cluster.add_node(node.capacity(GPU, 8))?;
    }
    Ok(cluster)
}

fn gpu_queues(shares: &[i64], gpus: i64) -> Result<Tenants, QueueError> {
    let mut tenants = Tenants::kai_with(KaiSettings::default().capacity(GPU, gpus));
    tenants.set_flavor(Flavor::new("all"));
    for (number, share) in shares.iter().enumerate() {
        let own = Queue::leaf(format!("q{number}")).parent("all");
        tenants.set_queue(own.quota("all", GPU, Quota::nominal(*share)))?;
    }
    Ok(tenants)
}

/// Jobs of one GPU of four queues, from the first that is known to the last that is bound.
fn allocate(nodes: usize, jobs: usize) -> Result<Done, QueueError> {
    let gpus = nodes as i64 * 8;
    let tenants = gpu_queues(&[gpus / 4; 4], gpus)?;
    let scheduler = Scheduler::new(gpu_nodes(nodes)?, Framework::default(), Settings::new());
    let mut scheduler = scheduler.with_tenants(tenants);
    let pod = Pod::new().request(GPU, 1);
    let job = |number: usize| {
        let own = PodGroup::gang(format!("job-{number}"), 1).queue(format!("q{}", number % 4));
        own.pods(1, pod.clone())
    };
    let begin = Instant::now();
    for number in 0..jobs {
        scheduler.handle_group(job(number), Time::from_secs(1))?;
    }
    let bound = settle(&mut scheduler, Time::from_secs(1))?;
    Ok((bound, begin.elapsed().as_secs_f64()))
}

/// All nodes are full of jobs of one GPU of a queue that deserves none; a job of half of the nodes of
/// one that deserves all is to start: from when it is known to when it is bound. Quota by itself names
/// the jobs that yield in the order of their queue, which frees no whole node. So victims are searched
/// over quota and room at once.
fn reclaim(nodes: usize) -> Result<Done, QueueError> {
    let gpus = nodes as i64 * 8;
    let tenants = gpu_queues(&[0, gpus], gpus)?;
    let settings = Settings::new().preemption(PreemptionSettings::new().joint(true));
    let scheduler = Scheduler::new(gpu_nodes(nodes)?, Framework::default(), settings);
    let mut scheduler = scheduler.with_tenants(tenants);
    let pod = |gpus: i64| Pod::new().request(GPU, gpus);
    for number in 0..nodes * 8 {
        let own = PodGroup::gang(format!("job-{number}"), 1).queue("q0").pods(1, pod(1));
        scheduler.handle_group(own, Time::from_secs(1))?;
    }
    settle(&mut scheduler, Time::from_secs(1))?;
    let half = nodes / 2;
    let large = PodGroup::gang("large", half as u32).queue("q1").pods(half, pod(8));
    let begin = Instant::now();
    scheduler.handle_group(large, Time::from_secs(10))?;
    let bound = settle(&mut scheduler, Time::from_secs(10))?;
    Ok((bound, begin.elapsed().as_secs_f64()))
}

/// Cohorts of queues with 20 cpus each, which may borrow 100: all jobs are known at once, and each
/// ends when it is admitted. The largest go first, as theirs do.
fn admit(cohorts: usize, queues: usize, counts: [usize; 3]) -> Result<Done, QueueError> {
    let mut tenants = Tenants::kueue();
    tenants.set_flavor(Flavor::new("default"));
    for cohort in 0..cohorts {
        tenants.set_queue(Queue::inner(format!("cohort-{cohort}")))?;
        for queue in 0..queues {
            let quota = Quota::nominal(20_000).borrowing_limit(100_000);
            let own = Queue::leaf(format!("q{cohort}-{queue}")).parent(format!("cohort-{cohort}"));
            tenants.set_queue(own.quota("default", "cpu", quota))?;
        }
    }
    let cpus = (cohorts * queues * 20) as i64;
    let mut cluster = Cluster::new();
    // Quota alone decides: there is room for all that it admits.
    cluster.add_node(Node::new("all").capacity("cpu", cpus * 2).capacity("pods", 1_000_000))?;
    let scheduler = Scheduler::new(cluster, Framework::default(), Settings::new());
    let mut scheduler = scheduler.with_tenants(tenants);
    let mut jobs = Vec::new();
    for cohort in 0..cohorts {
        for queue in 0..queues {
            for ((count, cpus), priority) in counts.iter().zip([1, 5, 20]).zip([50, 100, 200]) {
                let pod = Pod::new().request("cpu", cpus);
                jobs.extend((0..*count).map(|number| {
                    let name = format!("job-{cohort}-{queue}-{cpus}-{number}");
                    let own = PodGroup::gang(name, 1).queue(format!("q{cohort}-{queue}"));
                    own.priority(priority).pods(1, pod.clone().priority(priority))
                }));
            }
        }
    }
    let now = Time::from_secs(1);
    let mut admitted = 0;
    let begin = Instant::now();
    for job in jobs {
        scheduler.handle_group(job, now)?;
    }
    loop {
        // All that runs ends before the next are admitted.
        let running = bind(&mut scheduler, now)?;
        if running.is_empty() {
            break;
        }
        admitted += running.len();
        for (namespace, name) in running {
            scheduler.handle_gone(Gone::deleted(&namespace, &name), now)?;
        }
    }
    Ok((admitted, begin.elapsed().as_secs_f64()))
}

fn settle(scheduler: &mut Scheduler, now: Time) -> Result<usize, QueueError> {
    Ok(bind(scheduler, now)?.len())
}

/// Binds all that starts, and deletes victims at once; the names of the pods bound.
fn bind(scheduler: &mut Scheduler, now: Time) -> Result<Vec<(String, String)>, QueueError> {
    let mut bound = Vec::new();
    while let Some(decision) = scheduler.poll_decision(now) {
        match decision {
            Decision::Bind { ticket, plan, .. } => {
                let pods = plan.assignments().map(Assignment::pod);
                bound.extend(pods.map(|pod| (pod.namespace().to_string(), pod.name.clone())));
                scheduler.handle_bound(ticket, now)?;
            }
            Decision::Evict { victims, .. } => {
                for pod in victims.iter().flat_map(|victim| &victim.pods) {
                    scheduler.handle_gone(Gone::deleted(&pod.namespace, &pod.name), now)?;
                }
            }
            _ => {}
        }
    }
    Ok(bound)
}
