//! The replay of real jobs, and the example program around it.

#[path = "../../examples/replay/mod.rs"]
mod program;

use std::io::Write;

use crate::common::cli::Finish;
use program::simulation::{Machines, Policy, Summary};
use program::trace::Job;

fn run(arguments: &[&str]) -> Finish {
    let arguments: Vec<String> = arguments.iter().map(ToString::to_string).collect();
    program::PROGRAM.run(&arguments, program::run)
}

fn file(name: &str, bytes: &[u8]) -> String {
    let path = format!("{}/replay-{name}", env!("CARGO_TARGET_TMPDIR"));
    std::fs::write(&path, bytes).unwrap();
    path
}

fn gzip(text: &str) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(text.as_bytes()).unwrap();
    encoder.finish().unwrap()
}

fn job(id: &str, gpus: u32, submit: f64, seconds: f64) -> Job {
    let id = id.to_string();
    let model = String::new();
    let (stages, is_opportunistic) = ([0.0; 3], false);
    let (iterations, iteration, overhead) = (seconds, 1.0, 0.0);
    Job { id, gpus, submit, iterations, iteration, overhead, model, stages, is_opportunistic }
}

fn simulate(jobs: &[Job], nodes: u32, gpus: u32, policy: Policy) -> Summary {
    program::simulation::replay(jobs, Machines { nodes, gpus }, policy, |_| ()).unwrap()
}

#[test]
fn real_jobs_meet_the_published_results() {
    let jobs = program::embedded("trace3").unwrap();
    assert_eq!(jobs.len(), 992);
    let summary = simulate(&jobs, 8, 8, Policy::Srsf);
    for (metric, ours, theirs) in program::compared(Policy::Srsf, "trace3", &summary).unwrap() {
        assert!((ours - theirs).abs() <= 1e-6 * theirs, "{metric}: {ours}, published {theirs}");
    }
    assert!(summary.never_placed.is_empty());
}

#[test]
fn jobs_that_share_gpus_meet_the_published_results() {
    // The planner places each of them; neighbours decide how fast it is.
    for trace in ["trace3", "trace3_pr"] {
        let jobs = program::embedded(trace).unwrap();
        let summary = simulate(&jobs, 8, 8, Policy::Antman);
        for (metric, ours, theirs) in program::compared(Policy::Antman, trace, &summary).unwrap() {
            assert!((ours - theirs).abs() <= 1e-9 * theirs, "{metric}: {ours}, published {theirs}");
        }
    }
}

#[test]
fn a_job_beside_a_guaranteed_one_runs_in_its_gaps() {
    let staged = |id: &str, stages: [f64; 3], iteration: f64| Job {
        iteration,
        stages,
        ..job(id, 1, 0.0, 10.0)
    };
    let first = staged("first", [5.0, 10.0, 15.0], 30.0);
    // Data: one iteration, whose gap of 25 leaves 15 to the GPU. The GPU's other 5: another one, and
    // its gap leaves nothing. The network: two. So 4 iterations of 30.
    let own = staged("own", [10.0, 20.0, 30.0], 60.0);
    assert_eq!(program::sharing::beside(&own, &first), 120.0);
    // One that needs little is as fast as alone.
    let small = staged("small", [1.0, 0.0, 0.0], 40.0);
    assert_eq!(program::sharing::beside(&small, &first), 40.0);
    // Side by side on one GPU, and the guaranteed one is not slowed down.
    let own = Job { is_opportunistic: true, ..own };
    let summary = simulate(&[first.clone(), own.clone()], 1, 1, Policy::Antman);
    // 10 iterations of 30; by then the other has made 300 / 120 of 10, and makes the rest alone.
    assert_eq!(summary.makespan, 300.0 + (10.0 - 300.0 / 120.0) * 60.0);
    // Two opportunistic ones do not share, and a gang of two starts whole.
    let wide = Job { gpus: 2, ..own.clone() };
    let summary = simulate(&[own, wide], 1, 2, Policy::Antman);
    assert_eq!(summary.makespan, 600.0 + 600.0);
    let larger = simulate(&[Job { gpus: 3, ..first }], 1, 2, Policy::Antman);
    assert_eq!(larger.never_placed, ["first"]);
    let many = program::simulation::Machines { nodes: 51, gpus: 2 };
    assert!(program::simulation::replay(&[], many, Policy::Antman, |_| ()).is_err());
}

#[test]
fn policies_differ_in_who_goes_first() {
    // 10 s × 4 GPUs against 15 s × 1 GPU, on 4 GPUs.
    let jobs = [job("wide", 4, 0.0, 10.0), job("narrow", 1, 0.0, 15.0)];
    let time = simulate(&jobs, 1, 4, Policy::Srtf);
    assert_eq!((time.average_jct, time.makespan, time.p99_jct), (17.5, 25.0, 25.0));
    let service = simulate(&jobs, 1, 4, Policy::Srsf);
    assert_eq!((service.average_jct, service.makespan), (20.0, 25.0));
    // Both are asked for at the first event, the one that is left at the second.
    assert_eq!((time.events, time.asked, time.placed), (3, 3, 2));
}

#[test]
fn every_event_costs_a_running_job_its_overhead_anew() {
    let mut long = job("long", 1, 0.0, 100.0);
    long.overhead = 5.0;
    // The second arrives at 20 and ends at 30; both run side by side. The first works 15 s, then
    // 5 s, and its end after that is now + what is left, without the overhead.
    let summary = simulate(&[long, job("short", 1, 20.0, 10.0)], 1, 2, Policy::Srtf);
    assert_eq!((summary.makespan, summary.events), (30.0 + 80.0, 4));
    assert_eq!(summary.average_jct, f64::midpoint(110.0, 10.0));
}

#[test]
fn a_large_job_takes_whole_nodes_and_one_more_for_the_rest() {
    // Three nodes of 4. The small job, first in order, is on the first node; 10 GPUs are two idle
    // nodes and 2 more, which the first node has.
    let jobs = [job("small", 2, 0.0, 1.0), job("large", 10, 0.0, 10.0)];
    assert_eq!(simulate(&jobs, 3, 4, Policy::Srtf).makespan, 10.0);
    // With 3 GPUs in use there is no room for the rest, though 9 + 1 GPUs are free in all.
    let jobs = [job("small", 3, 0.0, 1.0), job("large", 10, 0.0, 10.0)];
    assert_eq!(simulate(&jobs, 3, 4, Policy::Srtf).makespan, 11.0);
}

#[test]
fn jobs_larger_than_the_cluster_are_reported_and_never_placed() {
    let text = "job_id,num_gpu,submit_time,iterations,model_name,iteration_time\n\
                a,9,0,10,bert,1000\nb,8,1000,10,bert,1000\nc,4000000000,0,1,dqn,1\n";
    let path = file("large.csv", text.as_bytes());
    let nodes = ["--nodes", "2", "--gpus-per-node", "4"];
    let finish = run(&[&["--jobs", &path, "--output", "json"], &nodes[..]].concat());
    assert_eq!(
        (finish.code, finish.err.trim()),
        (0, "2 jobs larger than the cluster, never placed: a, c")
    );
    let answer: serde_json::Value = serde_json::from_str(&finish.out).unwrap();
    assert_eq!(answer["never_placed"], serde_json::json!(["a", "c"]));
    assert_eq!((&answer["jobs"], &answer["policy"]), (&3.into(), &"srtf".into()));
    assert!((answer["average_jct_s"].as_f64().unwrap() - 10.15).abs() < 1e-9);
    assert!((answer["makespan_s"].as_f64().unwrap() - 11.15).abs() < 1e-9);
    assert_eq!(answer["placements_tried"], 2 + 3 + 2);
}

/// The rule written out with an array of free GPUs, for the crate's placements to be held to.
fn plainly(jobs: &[Job], nodes: usize, gpus: u32, policy: Policy) -> (Vec<Option<f64>>, u64) {
    let mut left: Vec<f64> = jobs.iter().map(|job| job.iterations).collect();
    let mut ends: Vec<Option<f64>> = vec![None; jobs.len()];
    let mut order: Vec<usize> = Vec::new();
    let mut places: Vec<(usize, f64)> = Vec::new();
    let (mut now, mut asked) = (0.0, 0);
    let same = |a: f64, b: f64| (a - b).abs() <= 1e-9 * a.abs().max(b.abs());
    loop {
        let arrivals = jobs.iter().enumerate().filter(|(job, _)| !order.contains(job));
        let arrivals = arrivals.filter(|(job, _)| ends[*job].is_none()).map(|(_, job)| job.submit);
        let event = arrivals.chain(places.iter().map(|place| place.1)).fold(f64::MAX, f64::min);
        if event == f64::MAX {
            return (ends, asked);
        }
        for (job, end) in places.drain(..) {
            if same(end, event) {
                ends[job] = Some(event);
            } else {
                let elapsed: f64 = event - now;
                left[job] -= (elapsed - jobs[job].overhead).max(0.0) / jobs[job].iteration;
            }
        }
        order.retain(|job| ends[*job].is_none());
        for (job, arriving) in jobs.iter().enumerate() {
            let waits = ends[job].is_none() && !order.contains(&job);
            if waits && (arriving.submit <= event || same(arriving.submit, event)) {
                order.push(job);
            }
        }
        now = event;
        let key = |job: usize| match policy {
            Policy::Srtf => left[job] * jobs[job].iteration,
            _ => left[job] * jobs[job].iteration * f64::from(jobs[job].gpus),
        };
        order.sort_by(|a, b| key(*a).total_cmp(&key(*b)));
        let mut free = vec![gpus; nodes];
        for &job in &order {
            asked += 1;
            let mut then = free.clone();
            let mut pods = vec![gpus; (jobs[job].gpus / gpus) as usize];
            pods.extend(Some(jobs[job].gpus % gpus).filter(|rest| *rest > 0));
            let fits = pods.iter().all(|pod| {
                let node = then.iter_mut().find(|free| **free >= *pod);
                node.map(|free| *free -= pod).is_some()
            });
            if fits {
                free = then;
                places.push((job, now + left[job] * jobs[job].iteration));
            }
        }
    }
}

proptest::proptest! {
    #![proptest_config(proptest::test_runner::Config { cases: 300, failure_persistence: None, ..Default::default() })]

    /// Ties, arrivals at one instant, odd sizes and jobs larger than the cluster included.
    #[test]
    fn other_traces_go_by_the_rule_too(
        shapes in proptest::collection::vec((1_u32..14, 0_u32..40, 0_u32..50, 1_u32..4, 0_u32..9), 1..40),
        nodes in 1_u32..5,
        gpus in 1_u32..9,
        by_service in proptest::bool::ANY,
    ) {
        let jobs: Vec<Job> = shapes
            .iter()
            .enumerate()
            .map(|(index, &(size, submit, iterations, iteration, overhead))| Job {
                iteration: f64::from(iteration) * 1.015,
                overhead: f64::from(overhead),
                ..job(&index.to_string(), size, f64::from(submit * 10), f64::from(iterations))
            })
            .collect();
        let policy = if by_service { Policy::Srsf } else { Policy::Srtf };
        let (ends, asked) = plainly(&jobs, nodes as usize, gpus, policy);
        let summary = simulate(&jobs, nodes, gpus, policy);
        let mut spans: Vec<f64> =
            ends.iter().zip(&jobs).filter_map(|(end, job)| Some((*end)? - job.submit)).collect();
        spans.sort_by(f64::total_cmp);
        let never: Vec<String> = (0..jobs.len()).filter(|job| ends[*job].is_none()).map(|job| job.to_string()).collect();
        proptest::prop_assert_eq!(&summary.never_placed, &never);
        proptest::prop_assert_eq!(summary.asked, asked);
        let close = |ours: f64, theirs: f64| (ours - theirs).abs() <= 1e-6 * theirs.max(1.0);
        let average = spans.iter().sum::<f64>() / spans.len().max(1) as f64;
        proptest::prop_assert!(close(summary.average_jct, average));
        proptest::prop_assert!(close(summary.makespan, ends.iter().flatten().fold(0.0, |a, b| b.max(a))));
        let p99 = spans.get((0.99 * spans.len() as f64) as usize).copied().unwrap_or(0.0);
        proptest::prop_assert!(close(summary.p99_jct, p99));
    }
}

#[test]
fn a_trace_may_be_compressed_and_the_answer_is_the_same() {
    let text = "job_id,num_gpu,submit_time,iterations,model_name,iteration_time\n\
                a,3,0,500,resnet18,921\nb,12,5000,80,gpt2,40\nc,1,5000,1000,a2c,7\n";
    let plain = file("plain.csv", text.as_bytes());
    let packed = file("packed.csv.gz", &gzip(text));
    let answers = [plain, packed].map(|path| {
        let finish = run(&["--jobs", &path, "--policy", "srsf", "--output", "json"]);
        assert_eq!((finish.code, finish.err.as_str()), (0, ""));
        let mut answer: serde_json::Value = serde_json::from_str(&finish.out).unwrap();
        assert!(answer["seconds"].take().as_f64().unwrap() >= 0.0);
        answer
    });
    assert_eq!(answers[0], answers[1]);
    assert_eq!(answers[0].as_object().unwrap().len(), 7);
}

#[test]
fn bad_input_names_the_file_and_prints_nothing_else() {
    let header = "job_id,num_gpu,submit_time,iterations,model_name,iteration_time\n";
    let packed = gzip(&header.repeat(100));
    for (name, bytes, expected) in [
        ("latin.csv", &b"job_id\xff"[..], "not UTF-8 at byte 6"),
        ("cut.csv.gz", &packed[..packed.len() - 9], "broken gzip data"),
        ("empty.csv", b"", "is empty"),
        ("jobless.csv", header.as_bytes(), "has no jobs"),
        ("other.csv", b"a,b\n1,2\n", "line 1: column job_id is missing"),
    ] {
        let path = file(name, bytes);
        let finish = run(&["--jobs", &path]);
        assert_eq!((finish.code, finish.out.as_str()), (2, ""), "{name}");
        assert!(finish.err.contains(&format!("{path}: {expected}")), "{}", finish.err);
    }
    let missing = run(&["--jobs", "no/such/file"]);
    assert_eq!((missing.code, missing.out.as_str()), (2, ""));
    assert!(missing.err.contains("no/such/file"));
}

#[test]
fn wrong_arguments_print_the_usage_and_help_is_no_mistake() {
    let jobs = file("arguments.csv", b"");
    for arguments in [
        &["--job", "x"][..],
        &["--jobs"],
        &["extra"],
        &["--policy", "srsf"],
        &["--jobs", &jobs, "--jobs", &jobs],
        &["--jobs", &jobs, "--policy", "fifo"],
        &["--jobs", &jobs, "--output", "xml"],
        &["--jobs", &jobs, "--nodes", "0"],
        &["--jobs", &jobs, "--nodes", "-1"],
        &["--jobs", &jobs, "--gpus-per-node", "99999999999999"],
    ] {
        let finish = run(arguments);
        assert_eq!((finish.code, finish.out.as_str()), (2, ""), "{arguments:?}");
        assert!(finish.err.contains("Usage: replay"), "{}", finish.err);
    }
    let help = run(&["--jobs", &jobs, "--help"]);
    assert_eq!((help.code, help.err.as_str()), (0, ""));
    assert!(help.out.contains("Usage: replay"));
}
