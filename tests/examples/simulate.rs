//! The simulation of traces: arguments, formats, answers, the report.

#[path = "../../examples/simulate/mod.rs"]
mod program;

use std::process::Command;

use crate::common::cli::Finish;
use serde_json::{Value, json};

fn run(arguments: &[&str]) -> Finish {
    let arguments: Vec<String> = arguments.iter().map(ToString::to_string).collect();
    program::PROGRAM.run(&arguments, program::run)
}

fn file(name: &str, text: &str) -> String {
    let path = format!("{}/simulate-{name}", env!("CARGO_TARGET_TMPDIR"));
    std::fs::write(&path, text).unwrap();
    path
}

/// Four processors; the fourth job is larger than that, the last outruns its estimate.
const SWF: &str = "; MaxProcs: 4
1 0 -1 100 2 -1 -1 2 120 -1 1 1 1 -1 1 -1 -1 -1
2 10 -1 50 4 -1 -1 4 60 -1 1 1 1 -1 1 -1 -1 -1
3 20 -1 30 2 -1 -1 -1 30 -1 1 1 1 -1 2 -1 -1 -1
4 30 -1 30 8 -1 -1 8 30 -1 1 1 1 -1 2 -1 -1 -1
5 31 -1 500 1 -1 -1 1 40 -1 1 1 1 -1 2 -1 -1 -1
";

fn cells(finish: &Finish) -> Vec<Value> {
    assert_eq!(finish.code, 0, "{}", finish.err);
    finish.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn starts_are_in_the_order_of_input_and_null_for_what_never_fits() {
    let path = file("starts.swf", SWF);
    let all = ["--jobs", &path, "--format", "swf", "--starts", "--output", "json"];
    let finish = run(&[&all[..], &["--policy", "fcfs,easy"]].concat());
    assert_eq!(finish.err.trim(), "1 job larger than the machine, never placed: 4");
    let found = cells(&finish);
    let fcfs = json!([[1, 0], [2, 100_000], [3, 150_000], [4, null], [5, 150_000]]);
    assert_eq!((&found[0]["starts"], &found[0]["jobs"]), (&fcfs, &5.into()));
    assert_eq!(found[0]["makespan_s"], 650.0);
    // The last job is to be over at 90 s by its estimate, and is not: the second waits for it.
    let easy = json!([[1, 0], [2, 550_000], [3, 20_000], [4, null], [5, 50_000]]);
    assert_eq!(found[1]["starts"], easy);
    let killed = cells(&run(&[&all[..], &["--policy", "easy", "--kill"]].concat()));
    assert_eq!(
        killed[0]["starts"],
        json!([[1, 0], [2, 100_000], [3, 20_000], [4, null], [5, 50_000]])
    );
    for key in
        ["mean_wait_s", "mean_bounded_slowdown", "utilisation", "decisions", "decisions_per_s"]
    {
        assert!(killed[0][key].is_number(), "{key}");
    }
}

#[test]
fn shards_together_are_the_grid_and_a_sweep_goes_on_where_it_was() {
    let path = file("grid.swf", SWF);
    let grid = ["--jobs", &path, "--format", "swf", "--policy", "fcfs,easy,conservative,srtf"];
    let grid = [&grid[..], &["--processors", "4,8", "--seed", "1,2", "--output", "json"]].concat();
    let without_speed = |finish: &Finish| {
        let mut found = cells(finish);
        for cell in &mut found {
            cell["decisions_per_s"] = Value::Null;
        }
        found
    };
    let whole = without_speed(&run(&grid));
    assert_eq!(whole.len(), 16);
    let mut shards: Vec<Value> = (0..3)
        .flat_map(|index| {
            without_speed(&run(&[&grid[..], &["--shard", &format!("{index}/3")]].concat()))
        })
        .collect();
    let key = |cell: &Value| cell.to_string();
    let mut sorted = whole.clone();
    sorted.sort_by_key(key);
    shards.sort_by_key(key);
    assert_eq!(shards, sorted);
    assert_eq!(without_speed(&run(&[&grid[..], &["--threads", "3"]].concat())), whole);

    let kept = file("kept.jsonl", "");
    let sweep = [&grid[..], &["--results", &kept]].concat();
    run(&[&sweep[..], &["--shard", "0/2"]].concat());
    // Cut off in the middle of a line, as by a signal.
    let half = std::fs::read_to_string(&kept).unwrap();
    std::fs::write(&kept, format!("{half}{{\"policy\":\"ea\n")).unwrap();
    assert_eq!(without_speed(&run(&sweep)), whole);
    assert_eq!(std::fs::read_to_string(&kept).unwrap().lines().count(), 17);
}

#[test]
fn a_recording_replays() {
    let path = file("record.swf", SWF);
    let lines = file("record.jsonl", "");
    let finish = run(&["--jobs", &path, "--format", "swf", "--record", &lines]);
    assert_eq!(finish.code, 0, "{}", finish.err);
    let finish = run(&["--replay", &lines]);
    assert_eq!((finish.code, finish.err.as_str()), (0, ""));
    // A decision that is not what is decided.
    let text = std::fs::read_to_string(&lines).unwrap().replace("\"node-0\"", "\"node-3\"");
    let (state, rest) = text.split_once('\n').unwrap();
    let original = std::fs::read_to_string(&lines).unwrap();
    let changed = file("changed.jsonl", &format!("{}\n{rest}", original.lines().next().unwrap()));
    assert_ne!(state, "");
    assert_ne!(run(&["--replay", &changed]).code, 0);
}

#[test]
fn other_formats_are_read() {
    let philly = file(
        "philly.csv",
        "timestamp,duration,num_gpus,gpu_time,cluster\n2017-10-09 07:01:55,66.0,1,66.0,a\n\
         2017-10-09 07:01:50,10.0,16,160.0,b\n",
    );
    let arguments =
        ["--format", "philly", "--nodes", "2", "--policy", "easy", "--starts", "--output", "json"];
    let found = cells(&run(&[&["--jobs", &philly][..], &arguments].concat()));
    assert_eq!(found[0]["starts"], json!([[0, 10_000], [1, 0]]));
    let stream = file(
        "stream.jsonl",
        "{\"name\":\"a\",\"processors\":1,\"jobs\":[[0,0,1,5,5]]}\n\
         {\"name\":\"b\",\"processors\":2,\"jobs\":[[7,3,2,5,5],[8,4,1,9,9]]}\n",
    );
    let arguments = [
        "--format",
        "stream",
        "--name",
        "b",
        "--policy",
        "easy_sjbf",
        "--starts",
        "--output",
        "json",
    ];
    let found = cells(&run(&[&["--jobs", &stream][..], &arguments].concat()));
    assert_eq!(found[0]["starts"], json!([[7, 3], [8, 8]]));
    let openb = file(
        "openb.csv",
        "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time\n\
         p,1,1,1,600,,LS,Running,0,100,0\nq,1,1,1,600,,LS,Running,1,50,1\n",
    );
    let arguments = [
        "--format",
        "openb",
        "--nodes",
        "1",
        "--gpus-per-node",
        "1",
        "--starts",
        "--output",
        "json",
    ];
    let found = cells(&run(&[&["--jobs", &openb][..], &arguments].concat()));
    assert_eq!(found[0]["starts"], json!([["p", 0], ["q", 100_000]]));
    let muri = file(
        "muri.csv",
        "job_id,num_gpu,submit_time,iterations,model_name,iteration_time\na,8,0,10,bert,1000\n\
         b,8,1000,1,bert,1000\n",
    );
    let arguments = ["--format", "muri", "--nodes", "1", "--policy", "srtf", "--output", "json"];
    let found = cells(&run(&[&["--jobs", &muri][..], &arguments].concat()));
    assert_eq!(found[0]["jobs"], 2);
    assert!(found[0]["makespan_s"].as_f64().unwrap() > 11.0);
}

#[test]
fn wrong_arguments_and_files_are_named() {
    let swf = file("wrong.swf", SWF);
    let bad = file("bad.swf", "1 0 -1 x 1 -1 -1 1 1\n");
    for (arguments, code, expected) in [
        (&["--format", "swf"][..], 2, "--jobs is needed"),
        (&["--jobs", &swf][..], 2, "--format is needed"),
        (&["--jobs", &swf, "--format", "xml"][..], 2, "none of"),
        (&["--jobs", &swf, "--format", "swf", "--policy", "best"][..], 2, "none of"),
        (&["--jobs", &swf, "--format", "swf", "--shard", "3/3"][..], 2, "is not i/n"),
        (&["--jobs", &swf, "--format", "swf", "--processors", "0"][..], 2, "whole number"),
        (&["--jobs", &bad, "--format", "swf", "--processors", "1"][..], 2, "line 1: field 4"),
        (&["--jobs", "no/such", "--format", "swf"][..], 2, "no/such"),
    ] {
        let finish = run(arguments);
        assert_eq!((finish.code, finish.out.as_str()), (code, ""), "{arguments:?}");
        assert!(finish.err.contains(expected), "{}", finish.err);
    }
}

fn report() -> String {
    let path = file("report.swf", SWF);
    let finish = run(&[
        "--jobs",
        &path,
        "--format",
        "swf",
        "--policy",
        "fcfs,easy,srtf",
        "--output",
        "html",
    ]);
    assert_eq!(finish.code, 0, "{}", finish.err);
    finish.out
}

#[test]
fn the_report_needs_nothing_from_elsewhere_and_holds_the_table() {
    let html = report();
    for foreign in ["http://", "https://", "src=", "@import", "url("] {
        assert!(!html.contains(foreign), "{foreign}");
    }
    for cell in ["fcfs", "easy", "srtf", "4 processors", "650", "utilisation"] {
        assert!(html.contains(cell), "{cell}");
    }
    let data =
        html.split("type=\"application/json\">").nth(1).unwrap().split("</script>").next().unwrap();
    let data: Value = serde_json::from_str(data).unwrap();
    assert_eq!(data.as_array().unwrap().len(), 3);
    assert_eq!(data[0]["bars"].as_array().unwrap().len(), 2 + 4 + 2 + 1);
}

#[test]
fn a_browser_draws_the_report() {
    let names = ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome"];
    let own = std::env::var("CHROME").ok();
    let browsers = own.as_deref().into_iter().chain(names);
    let version = |name: &&str| {
        Command::new(name).arg("--version").output().is_ok_and(|output| output.status.success())
    };
    let Some(browser) = browsers.into_iter().find(version) else {
        eprintln!("no headless Chromium here: the report is not drawn");
        return;
    };
    let html = report();
    let page = file("report.html", &html);
    let picture = format!("{page}.png");
    let _ = std::fs::remove_file(&picture);
    let flags = [
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--hide-scrollbars",
        "--window-size=1200,1600",
    ];
    let dom =
        Command::new(browser).args(flags).arg("--dump-dom").arg(format!("file://{page}")).output();
    let dom = String::from_utf8(dom.unwrap().stdout).unwrap();
    assert!(dom.contains("data-drawn=\"yes\""), "the script did not run to its end");
    let table = |text: &str| -> Vec<String> {
        let table = text.split("id=\"grid\"").nth(1).and_then(|rest| rest.split("</table>").next());
        let cells = table.unwrap_or("").split("<td>").skip(1);
        cells.map(|cell| cell.split("</td>").next().unwrap_or("").to_owned()).collect()
    };
    assert_eq!(table(&html).len(), 3 * (3 + program::COLUMNS.len()));
    assert_eq!(table(&dom), table(&html));
    let mut shot = Command::new(browser);
    shot.args(flags).arg(format!("--screenshot={picture}")).arg(format!("file://{page}"));
    assert!(shot.output().unwrap().status.success());
    // A blank page of that size packs to a few kilobytes.
    assert!(std::fs::metadata(&picture).unwrap().len() > 20_000);
}

#[test]
fn summaries_over_seeds_are_those_of_the_textbook() {
    use program::statistics::{Summary, student};
    // Mean 5, squares 10 + 4 · 0: deviation √(40/4).
    let Summary { count, mean, deviation, half } = Summary::of(&[1.0, 3.0, 5.0, 7.0, 9.0]).unwrap();
    assert_eq!((count, mean), (5, 5.0));
    assert!((deviation - 10.0_f64.sqrt()).abs() < 1e-12);
    assert!((half - 2.7764 * 2.0_f64.sqrt()).abs() < 1e-12);
    assert_eq!(Summary::of(&[1.0]), None);
    assert!(!Summary::of(&[-1.0, 1.5]).unwrap().is_clear());
    assert!(Summary::of(&[1.0, 1.01]).unwrap().is_clear());
    // Quantiles beyond the table, as printed in tables of Student's distribution.
    for (freedom, quantile) in [(40, 2.0211), (60, 2.0003), (120, 1.9799), (100_000, 1.9600)] {
        assert!((student(freedom) - quantile).abs() < 1e-4, "{freedom}");
    }
    assert!((1..200).all(|freedom| student(freedom) > student(freedom + 1)));
}

#[test]
fn policies_are_compared_seed_by_seed() {
    let path = file("summary.swf", SWF);
    let base = ["--jobs", &path, "--format", "swf", "--policy", "fcfs,easy"];
    let drawn = [&base[..], &["--arrivals", "resample", "--seeds", "6"]].concat();
    let cells = cells(&run(&[&drawn[..], &["--output", "json"]].concat()));
    let of = |policy: &str| -> Vec<f64> {
        let own = cells.iter().filter(|cell| cell["policy"] == policy);
        own.map(|cell| cell["mean_wait_s"].as_f64().unwrap()).collect()
    };
    let (fcfs, easy) = (of("fcfs"), of("easy"));
    assert_eq!((fcfs.len(), easy.len()), (6, 6));
    assert!(fcfs.iter().any(|wait| *wait != fcfs[0]), "all seeds draw the same jobs");
    let summary = run(&[&drawn[..], &["--output", "summary"]].concat()).out;
    let line =
        summary.lines().find(|line| line.starts_with("easy,") && line.contains("mean_wait_s"));
    let fields: Vec<&str> = line.unwrap().rsplit(',').collect();
    let number = |at: usize| fields[at].parse::<f64>().unwrap();
    let mean = fcfs.iter().zip(&easy).map(|(fcfs, easy)| easy - fcfs).sum::<f64>() / 6.0;
    assert!((number(2) - mean).abs() < 1e-9, "{line:?}");
    assert!(number(1) <= number(2) && number(2) <= number(0));
    let text = run(&drawn).out;
    assert!(text.contains("to fcfs: ") && text.contains("6 seeds"), "{text}");
    // One seed has no interval.
    assert!(!run(&base).out.contains("interval"));
    for bad in [&["--seed", "1", "--seeds", "2"][..], &["--seeds", "0"], &["--load", "0"]] {
        assert_ne!(run(&[&base[..], bad].concat()).code, 0, "{bad:?}");
    }
}

#[test]
fn drawn_workloads_keep_what_they_promise() {
    use program::workload::{Arrivals, Change};
    let lines = (0..2_000).map(|id| {
        format!("{id} {} -1 {} 2 -1 -1 2 -1 -1 1 1 1 -1 1 -1 -1 -1", id * 10, 5 + id % 7)
    });
    let jobs = lines.collect::<Vec<String>>().join("\n");
    let trace = program::trace::read("drawn", &jobs, "swf", None).unwrap();
    let poisson = |load| Change { arrivals: Arrivals::Poisson, load };
    let (one, same) = (poisson(100).of(&trace, 3), poisson(100).of(&trace, 3));
    assert_eq!(one, same);
    assert_ne!(one, poisson(100).of(&trace, 4));
    let at = |trace: &program::trace::Trace| -> Vec<f64> {
        trace.jobs.iter().map(|job| job.submit.as_millis() as f64 / 1_000.0).collect()
    };
    let gaps: Vec<f64> = at(&one).windows(2).map(|pair| pair[1] - pair[0]).collect();
    let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
    let longer = gaps.iter().filter(|gap| **gap > 10.0).count() as f64 / gaps.len() as f64;
    // The mean is the trace's, and e^-1 of exponential gaps are longer than it.
    assert!((mean - 10.0).abs() < 0.7 && (longer - 0.3679).abs() < 0.04, "{mean} {longer}");
    let half = at(&poisson(200).of(&trace, 3));
    assert!(half.iter().zip(at(&one)).all(|(fast, slow)| (fast * 2.0 - slow).abs() < 0.01));
    // Jobs keep their order under Poisson arrivals; times do when jobs are drawn.
    assert!(one.jobs.iter().zip(&trace.jobs).all(|(a, b)| (&a.id, a.run) == (&b.id, b.run)));
    let drawn = Change { arrivals: Arrivals::Resample, load: 100 }.of(&trace, 3);
    assert_eq!(at(&drawn), at(&trace));
    assert!(drawn.jobs.iter().zip(&trace.jobs).any(|(a, b)| a.run != b.run));
    assert!(Change { arrivals: Arrivals::Trace, load: 100 }.is_none());
}

#[test]
fn the_job_model_is_asked_for_by_options() {
    let path = file(
        "model.csv",
        "job_id,num_gpu,submit_time,iterations,model_name,iteration_time\na,64,0,100,bert,1000\n\
         b,8,200000000,100,bert,1000\n",
    );
    let base = ["--jobs", &path, "--format", "muri", "--nodes", "8", "--output", "json"];
    let run_all = run;
    let run = |more: &[&str]| run_all(&[&base[..], more].concat());
    let makespan = |finish: &Finish| cells(finish)[0]["makespan_s"].as_f64().unwrap();
    // 100 iterations of 1.015 s, and 10 s to start; the second job ends last.
    let plain = makespan(&run(&[]));
    assert!((plain - (200_000.0 + 111.5)).abs() < 1e-6, "{plain}");
    // Eight nodes are in two racks; one node has a T4, as has the rack of it.
    let rates =
        r#"{"levels": [["kubernetes.io/hostname", 0.5]], "beyond": 0.25, "devices": {"T4": 0.1}}"#;
    let slow = cells(&run(&["--rates", rates]));
    assert_eq!(slow[0]["makespan_s"].as_f64().unwrap(), 200_000.0 + 223.0);
    assert_eq!(slow[0]["mean_rate"].as_f64().unwrap(), 0.375);
    let slow = cells(&run(&["--rates", rates, "--devices", "A100,T4"]));
    assert!((slow[0]["mean_rate"].as_f64().unwrap() - 0.2625).abs() < 1e-9);
    // Eleven stretches of 10 s, each with a save after it.
    let saves = cells(&run(&["--checkpoint", "10,5,1"]));
    assert!((saves[0]["makespan_s"].as_f64().unwrap() - (plain + 55.0)).abs() < 1e-6);
    // Racks fail while the first job runs.
    let path = file(
        "failures.csv",
        "job_id,num_gpu,submit_time,iterations,model_name,iteration_time\na,64,0,100,bert,1000\n\
         b,8,400000,100,bert,1000\n",
    );
    let fails = |more: &[&str]| {
        let base = ["--jobs", &path, "--format", "muri", "--nodes", "8", "--output", "json"];
        let all = ["--failures", "0,40,20", "--checkpoint", "10,1,1"];
        let mut found = cells(&run_all(&[&base[..], &all, more].concat()))[0].clone();
        found["decisions_per_s"] = Value::Null;
        found
    };
    assert_eq!(fails(&[]), fails(&[]), "the same seed");
    assert_ne!(fails(&["--seed", "2"])["mean_completion_s"], fails(&[])["mean_completion_s"]);
    assert!(fails(&[])["restarts"].as_u64().unwrap() > 0);
    // An elastic gang goes on with the other rack.
    let elastic = fails(&["--elastic", "30"]);
    assert_eq!(elastic["finished"], 2);
    assert_ne!(elastic["mean_completion_s"], fails(&[])["mean_completion_s"]);
    for (bad, expected) in [
        (&["--rates", "{\"level\": 1}"][..], "is not known"),
        (&["--rates", "{\"beyond\": -1}"][..], "is no rate"),
        (&["--checkpoint", "1,x"][..], "whole numbers"),
        (&["--elastic", "0"][..], "from 1 to 100"),
        (&["--policy", "srtf", "--elastic", "50"][..], "no job model"),
    ] {
        let finish = run(bad);
        assert!(finish.code != 0 && finish.err.contains(expected), "{bad:?}: {}", finish.err);
    }
}

#[test]
fn options_come_from_a_file_and_the_command_line_goes_before() {
    let jobs = file("config.swf", SWF);
    let text = json!({
        "jobs": jobs, "format": "swf", "policy": ["fcfs", "easy"], "processors": [4, 8], "kill": true,
        "output": "json", "checkpoint": "10,1,1", "starts": false,
    });
    let config = file("config.json", &text.to_string());
    let from_file = cells(&run(&["--config", &config]));
    assert_eq!(from_file.len(), 4);
    assert!(from_file.iter().all(|cell| cell["kill"] == true && !cell["model"].is_null()));
    let one = cells(&run(&["--config", &config, "--policy", "fcfs", "--processors", "4"]));
    assert_eq!((one.len(), &one[0]["policy"]), (1, &json!("fcfs")));
    let spelled = ["--jobs", &jobs, "--format", "swf", "--policy", "fcfs", "--processors", "4"];
    let rest = ["--kill", "--checkpoint", "10,1,1", "--output", "json"];
    let same = cells(&run(&[&spelled[..], &rest].concat()));
    assert_eq!(same[0]["mean_wait_s"], one[0]["mean_wait_s"]);
    for (text, expected) in [
        ("[]", "is no object"),
        ("{\"colour\": 1}", "colour: is no option"),
        ("{\"kill\": 1}", "kill: is true or false"),
        ("{\"jobs\": [[1]]}", "is a list of texts"),
        ("{\"config\": \"x\"}", "names no other"),
        ("{", "EOF"),
    ] {
        let bad = file("bad.json", text);
        let finish = run(&["--config", &bad]);
        assert!(finish.code == 2 && finish.err.contains(expected), "{text}: {}", finish.err);
    }
}

#[test]
fn policies_are_put_together() {
    let jobs = file(
        "parts.csv",
        "timestamp,duration,num_gpus,gpu_time,cluster\n2017-10-09 07:00:00,900.0,16,0,a\n\
         2017-10-09 07:00:10,300.0,8,0,b\n2017-10-09 07:00:20,300.0,8,0,b\n",
    );
    let base = ["--jobs", &jobs, "--format", "philly", "--nodes", "2", "--output", "json"];
    let waits = |policy: &str, seed: &str| {
        let more = ["--policy", policy, "--seed", seed];
        let cell = cells(&run(&[&base[..], &more].concat()))[0].clone();
        (cell["mean_wait_s"].as_f64().unwrap(), cell["work_lost_s"].as_f64().unwrap())
    };
    // A seed for which the two clusters are of two tenants: the first borrows, and yields to the other.
    let seed = (1..20)
        .map(|seed| seed.to_string())
        .find(|seed| waits("easy+tenants+preemption", seed) != waits("easy+tenants", seed));
    let seed = seed.expect("no seed parts the tenants");
    let (kept, yielded) = (waits("easy+tenants", &seed), waits("easy+tenants+preemption", &seed));
    assert!(kept.1 == 0.0 && yielded.1 > 0.0, "{kept:?} {yielded:?}");
    assert_eq!(waits("tenants_joint", &seed), waits("none+tenants+preemption", &seed));
    assert_eq!(waits("tenants_quota", &seed), waits("none+tenants+preemption+byquota", &seed));
    assert_eq!(waits("reservations", "1"), waits("none+reservations", "1"));
    waits("conservative+tenants+preemption+moves+turns", &seed);
    for (bad, expected) in [
        ("easy+fcfs", "is none of"),
        ("tenants", "is none of"),
        ("easy+moves", "moves needs preemption"),
        ("easy+reservations", "promises in place"),
    ] {
        let finish = run(&[&base[..], &["--policy", bad]].concat());
        assert!(finish.code == 2 && finish.err.contains(expected), "{bad}: {}", finish.err);
    }
}

#[test]
fn the_model_of_lublin_and_feitelson_is_that_of_the_paper() {
    use phalanx::simulate::Random;
    use program::lublin;
    let mut random = Random::new(1);
    // Mean and variance of a gamma distribution: shape × scale, shape × scale².
    for (shape, scale) in [(4.2, 0.94), (312.0, 0.03), (10.46, 0.4871)] {
        let drawn: Vec<f64> =
            (0..20_000).map(|_| lublin::gamma(&mut random, (shape, scale))).collect();
        let mean = drawn.iter().sum::<f64>() / 20_000.0;
        let variance = drawn.iter().map(|x| (x - mean) * (x - mean)).sum::<f64>() / 20_000.0;
        assert!((mean / (shape * scale) - 1.0).abs() < 0.02, "{shape}: {mean}");
        assert!((variance / (shape * scale * scale) - 1.0).abs() < 0.05, "{shape}: {variance}");
    }
    let weights = lublin::weights();
    assert!((weights.iter().sum::<f64>() - 48.0).abs() < 1e-9);
    // Most jobs arrive about the mode of the gamma distribution, at two in the afternoon; few at five
    // in the morning.
    let busiest = (0..48).max_by(|a, b| weights[*a].total_cmp(&weights[*b])).unwrap();
    assert!((26..=29).contains(&busiest) && weights[10] < 0.3, "{busiest} {weights:?}");
    let trace = lublin::draw(20_000, 128, 1);
    assert_eq!(trace, lublin::draw(20_000, 128, 1));
    assert_ne!(trace, lublin::draw(20_000, 128, 2));
    let share = |of: &dyn Fn(u32) -> bool| {
        trace.jobs.iter().filter(|job| of(job.size)).count() as f64 / 20_000.0
    };
    let serial = share(&|size| size == 1);
    assert!((0.234..0.254).contains(&serial), "{serial}");
    assert!(share(&|size| size.is_power_of_two()) > 0.82);
    assert!(trace.jobs.iter().all(|job| (1..=128).contains(&job.size)));
    assert!(trace.jobs.iter().all(|job| job.run.as_secs_f64() < 162_755.0));
    let arguments = ["--generate", "200", "--processors", "64", "--policy", "easy", "--seeds", "3"];
    let found = cells(&run(&[&arguments[..], &["--output", "json"]].concat()));
    assert_eq!(found.len(), 3);
    assert_ne!(found[0]["makespan_s"], found[1]["makespan_s"]);
    assert!(found.iter().all(|cell| cell["finished"] == 200));
}

#[test]
fn tables_of_published_traces_are_read_by_maps() {
    let starts = |arguments: &[&str]| {
        let rest = ["--policy", "easy", "--starts", "--output", "json"];
        cells(&run(&[arguments, &rest].concat()))[0]["starts"].clone()
    };
    let helios = file(
        "helios.csv",
        "job_id,user,vc,gpu_num,cpu_num,node_num,state,submit_time,start_time,end_time,duration,queue\n\
         7,u1,vc1,8,32,1,COMPLETED,2020-04-01 00:00:10,2020-04-01 00:00:12,2020-04-01 00:01:52,100,2\n\
         8,u1,vc1,0,4,1,COMPLETED,2020-04-01 00:00:11,2020-04-01 00:00:11,2020-04-01 00:00:21,10,0\n\
         9,u2,vc2,4,16,1,FAILED,2020-04-01 00:00:20,2020-04-01 00:00:20,2020-04-01 00:00:30,10,0\n",
    );
    let found = starts(&["--jobs", &helios, "--format", "helios", "--nodes", "1"]);
    // Times count from the first; the job without GPUs is left out.
    assert_eq!(found, json!([[7, 0], [9, 100_000]]));
    let rows = "a,worker,1,Terminated,100.0,200.0,600.0,29.3,50.0,MISC\n\
                a2,worker,1,Terminated,110.0,210.0,600.0,29.3,50.0,MISC\n\
                b,ps,4,Terminated,120.0,130.0,600.0,29.3,200.0,V100\n\
                c,worker,1,Running,130.0,,600.0,29.3,100.0,V100\n\
                d,worker,1,Terminated,140.0,150.0,600.0,29.3,,\n";
    let header = "job_name,task_name,inst_num,status,start_time,end_time,plan_cpu,plan_mem,plan_gpu,\
                  gpu_type\n";
    let bare = file("pai.csv", rows);
    let headed = file("pai-headed.csv", &format!("{header}{rows}"));
    for path in [&bare, &headed] {
        // Two halves of one GPU; eight GPUs wait for both.
        let found = starts(&["--jobs", path, "--format", "pai2020", "--nodes", "1"]);
        assert_eq!(found, json!([["a", 100_000], ["a2", 110_000], ["b", 210_000]]));
    }
    let borg = file(
        "borg.csv",
        "time,type,collection_id,scheduling_class,missing_type,collection_type,priority,\
         alloc_collection_id,instance_index,machine_id\n\
         1000000,0,5,1,,0,200,,0,\n1000000,0,5,1,,0,200,,1,\n2000000,3,5,1,,0,200,,0,11\n\
         3000000,3,5,1,,0,200,,1,12\n60000000,6,5,1,,0,200,,0,11\n62000000,7,5,1,,0,200,,1,12\n\
         4000000,0,6,1,,0,200,,0,\n5000000,3,6,1,,0,200,,0,11\n9000000,6,6,1,,0,200,,0,11\n\
         9000000,0,7,1,,0,200,,0,\n",
    );
    // Two instances from 2 s to 62 s, one of 4 s, and one that was never scheduled.
    let found = starts(&["--jobs", &borg, "--format", "borg2019", "--processors", "2"]);
    assert_eq!(found, json!([[5, 1_000], [6, 61_000]]));
    let any = file("any.csv", "who,when,took,n\nx,1000,5000,2\ny,2000,1000,1\n");
    let map = "id=who,submit=when,run=took,size=n,unit=ms";
    let any = ["--jobs", &any, "--format", "csv", "--processors", "2", "--columns"];
    assert_eq!(starts(&[&any[..], &[map]].concat()), json!([["x", 1_000], ["y", 6_000]]));
    for (map, expected) in [
        ("id=who", "neither run"),
        ("colour=who", "is not KEY=COLUMN"),
        ("submit=when,run=took,size=m", "column m is missing"),
        ("submit=when,run=took,size=n,unit=h", "is none of: s, ms, us"),
    ] {
        let finish = run(&[&any[..], &[map]].concat());
        assert!(finish.code == 2 && finish.err.contains(expected), "{map}: {}", finish.err);
    }
}

#[test]
fn tables_and_pictures_are_written() {
    let jobs = file("tables.swf", SWF);
    let (table, samples) = (file("jobs.csv", ""), file("samples.csv", ""));
    let folder = format!("{}/simulate-pictures", env!("CARGO_TARGET_TMPDIR"));
    let arguments =
        ["--jobs", &jobs, "--format", "swf", "--policy", "fcfs,easy", "--output", "json"];
    let more = ["--job-table", &table, "--sample-table", &samples, "--pictures", &folder];
    let found = cells(&run(&[&arguments[..], &more].concat()));
    let text = std::fs::read_to_string(&table).unwrap();
    let lines: Vec<Vec<&str>> = text.lines().map(|line| line.split(',').collect()).collect();
    assert_eq!(lines.len(), 1 + 2 * 4);
    let column = |name: &str| lines[0].iter().position(|own| *own == name).unwrap();
    let waits: Vec<f64> =
        lines[1..5].iter().map(|line| line[column("wait_s")].parse().unwrap()).collect();
    let mean = waits.iter().sum::<f64>() / 4.0;
    assert!((mean - found[0]["mean_wait_s"].as_f64().unwrap()).abs() < 1e-9);
    assert!(std::fs::read_to_string(&samples).unwrap().lines().count() > 2 * 4);
    let names =
        ["over-time", "difference", "beside", "nodes-0", "nodes-1", "tenants-0", "tenants-1"];
    for name in names {
        let picture = std::fs::read_to_string(format!("{folder}/{name}.svg")).unwrap();
        assert!(picture.starts_with("<svg ") && picture.ends_with("</svg>\n"), "{name}");
        assert!(picture.contains("time in hours") && !picture.contains("NaN"), "{name}");
    }
    // A bar for each run on each processor, and for each run of each tenant, beside the ground and
    // the keys of two tenants.
    let bars = |name: &str| {
        let picture = std::fs::read_to_string(format!("{folder}/{name}.svg")).unwrap();
        picture.matches("<rect ").count() - 1 - 2
    };
    assert_eq!((bars("nodes-0"), bars("tenants-0")), (2 + 4 + 2 + 1, 4));
    // Two pictures over one time: the first is over sooner, so that its own has another scale.
    let both = std::fs::read_to_string(format!("{folder}/beside.svg")).unwrap();
    assert_eq!(both.matches("<svg ").count(), 3);
    assert_eq!(both.matches("Jobs on nodes over time</title>").count(), 2);
}

#[test]
fn shards_are_merged_to_the_grid() {
    let jobs = file("merge.swf", SWF);
    let grid = ["--jobs", &jobs, "--format", "swf", "--policy", "fcfs,easy", "--processors", "4,8"];
    let grid =
        [&grid[..], &["--arrivals", "resample", "--seeds", "3", "--output", "json"]].concat();
    let whole = cells(&run(&grid));
    let shards: Vec<String> = (0..5)
        .map(|index| {
            let shard = run(&[&grid[..], &["--shard", &format!("{index}/5")]].concat());
            file(&format!("merge-{index}.jsonl"), &shard.out)
        })
        .collect();
    let mut names = shards.clone();
    names.push(shards[2].clone());
    let merged = cells(&run(&["--merge", &names.join(","), "--output", "json"]));
    let lines = |cells: &[Value]| -> Vec<String> {
        let line =
            |cell: &Value| format!("{} {} {}", cell["policy"], cell["seed"], cell["mean_wait_s"]);
        cells.iter().map(line).collect()
    };
    assert_eq!(lines(&merged), lines(&whole));
    let summary = |arguments: &[&str]| run(&[arguments, &["--output", "summary"]].concat()).out;
    let direct = [&grid[..8], &["--arrivals", "resample", "--seeds", "3"]].concat();
    let (one, other) = (summary(&["--merge", &names.join(",")]), summary(&direct));
    assert_eq!(one.lines().count(), other.lines().count());
    // Numbers that went through a file may differ in their last digit.
    for (one, other) in one.split([',', '\n']).zip(other.split([',', '\n'])) {
        match (one.parse::<f64>(), other.parse::<f64>()) {
            (Ok(one), Ok(other)) => assert!((one - other).abs() < 1e-6, "{one} {other}"),
            _ => assert_eq!(one, other),
        }
    }
    let bad = file("merge-bad.jsonl", "{\"a\": 1}\n");
    let finish = run(&["--merge", &bad]);
    assert!(finish.code == 2 && finish.err.contains("line 1: is no cell"), "{}", finish.err);
}

#[test]
fn warm_up_is_cut_off_and_power_and_cost_are_sums() {
    let jobs = file("warm.swf", SWF);
    let base = ["--jobs", &jobs, "--format", "swf", "--policy", "fcfs", "--output", "json"];
    let run = |more: &[&str]| cells(&run(&[&base[..], more].concat()))[0].clone();
    // Waits of 0, 90, 130 and 119 s; the first two arrive by 10 s.
    assert_eq!(run(&[])["mean_wait_s"], (90.0 + 130.0 + 119.0) / 4.0);
    assert_eq!(run(&["--warmup", "11"])["mean_wait_s"], 124.5);
    // 4 processors for 650 s, of which 2 × 100 + 4 × 50 + 2 × 30 + 500 are in use.
    let cell = run(&["--watts", "100,300", "--price", "2"]);
    let (there, used) = (2_600.0, 960.0);
    let energy = (300.0 * used + 100.0 * (there - used)) / 3.6e6;
    assert!((cell["energy_kwh"].as_f64().unwrap() - energy).abs() < 1e-12);
    assert!((cell["cost"].as_f64().unwrap() - 2.0 * there / 3_600.0).abs() < 1e-12);
}

#[test]
fn a_list_of_grids_is_run_one_after_another() {
    let (one, other) = (file("list-one.swf", SWF), file("list-other.swf", SWF));
    let grid =
        |jobs: &str| json!({"jobs": jobs, "format": "swf", "seeds": 2, "arrivals": "resample"});
    let list = json!([grid(&one), grid(&other)]);
    let config = file("list.json", &list.to_string());
    let base = ["--config", &config, "--policy", "fcfs,easy", "--output"];
    let found = cells(&run(&[&base[..], &["json"]].concat()));
    let traces: Vec<&str> = found.iter().filter_map(|cell| cell["trace"].as_str()).collect();
    assert_eq!(traces, [["simulate-list-one.swf"; 4], ["simulate-list-other.swf"; 4]].concat());
    let alone = cells(&run(&[
        "--jobs",
        &one,
        "--format",
        "swf",
        "--seeds",
        "2",
        "--policy",
        "fcfs,easy",
        "--arrivals",
        "resample",
        "--output",
        "json",
    ]));
    for (cell, alone) in found.iter().zip(&alone) {
        for key in ["mean_wait_s", "jain", "jain_jobs", "goodput_h", "makespan_s"] {
            assert_eq!(cell[key], alone[key], "{key}");
        }
        assert!(alone["trace"].is_null());
    }
    let summary = run(&[&base[..], &["summary"]].concat()).out;
    assert_eq!(summary.matches("policy,of,figure").count(), 1);
    assert_eq!(summary.lines().count(), 1 + 2 * 2 * (program::COLUMNS.len() - 1));
    // A table for each trace, a line for each policy.
    let tables = run(&[&base[..], &["markdown"]].concat()).out;
    assert_eq!((tables.matches("| policy |").count(), tables.matches("| `").count()), (2, 4));
    let mean = |cells: &[Value]| {
        let hours = cells.iter().map(|cell| cell["mean_wait_s"].as_f64().unwrap() / 3_600.0);
        hours.sum::<f64>() / cells.len() as f64
    };
    let first = tables.lines().find(|line| line.starts_with("| `fcfs`")).unwrap();
    assert!(first.starts_with(&format!("| `fcfs` | {:.2} ± ", mean(&found[..2]))), "{first}");
    for (more, expected) in [(["--output", "html"], "html"), (["--job-table", "t"], "for one grid")]
    {
        let finish = run(&[&["--config", &config][..], &more].concat());
        assert!(finish.code == 2 && finish.err.contains(expected), "{}", finish.err);
    }
    let empty = file("empty.json", "[]");
    assert!(run(&["--config", &empty]).err.contains("is no object"));
}

#[test]
fn fairness_and_goodput_are_those_of_the_definition() {
    // Two GPUs. The first runs at once; the others wait for its end, half and two thirds of their stay.
    let jobs =
        file("fair.csv", "submit,duration,gpus,cluster\n0,100,2,a\n0,100,2,b\n150,100,2,a\n");
    let arguments = ["--jobs", &jobs, "--format", "philly", "--nodes", "1", "--gpus-per-node", "2"];
    let found =
        cells(&run(&[&arguments[..], &["--policy", "fcfs,srtf", "--output", "json"]].concat()));
    // Shares of the stay: 1, 1/2 and 100/150; by queue (1 + 2/3) / 2 and 1/2.
    let index = |shares: &[f64]| {
        let (sum, squares): (f64, f64) =
            (shares.iter().sum(), shares.iter().map(|share| share * share).sum());
        sum * sum / (shares.len() as f64 * squares)
    };
    for cell in &found {
        let near = |key: &str, value: f64| {
            let own = cell[key].as_f64().unwrap();
            assert!((own - value).abs() < 1e-9, "{} {key}: {own}, not {value}", cell["policy"]);
        };
        near("jain_jobs", index(&[1.0, 0.5, 100.0 / 150.0]));
        near("jain", index(&[f64::midpoint(1.0, 100.0 / 150.0), 0.5]));
        // Only the first is over when the last arrives.
        near("goodput_h", 200.0 / 3_600.0);
    }
}

/// A figure of a cell is a value.
fn near(cell: &Value, key: &str, value: f64) {
    let own = cell[key].as_f64().unwrap();
    assert!((own - value).abs() < 1e-6, "{key}: {own}, not {value}");
}

#[test]
fn nodes_are_bought_for_what_waits_and_go_when_idle() {
    let text = "submit,duration,gpus,cluster\n0,1000,8,a\n10,100,8,a\n20,50,16,a\n";
    let jobs = file("bought.csv", text);
    let base = [
        "--jobs", &jobs, "--format", "philly", "--nodes", "1", "--policy", "easy", "--starts",
        "--output", "json",
    ];
    let finish = run(&base);
    assert!(finish.err.contains("never placed: 2"), "{}", finish.err);
    let pools = |delay: u32| {
        json!({"every": 0, "idle": 50, "pools": [{"most": 1, "delay": delay, "price": 36}]})
            .to_string()
    };
    let cell = cells(&run(&[&base[..], &["--autoscale", &pools(100)]].concat()))[0].clone();
    // Ordered at 10 for the second job, there from 110 to 260; and again from 1,100 on, when the
    // first node is free, for the third job, which needs both.
    assert_eq!(cell["starts"], json!([[0, 0], [1, 110_000], [2, 1_100_000]]));
    assert_eq!(cell["nodes_bought"], 2.0);
    near(&cell, "node_hours_bought", (150.0 + 50.0) / 3_600.0);
    near(&cell, "cost", 2.0);
    // The node that is always there has a price of its own: 8 GPUs for 1,150 s.
    let priced = run(&[&base[..], &["--autoscale", &pools(100), "--price", "1"]].concat());
    near(&cells(&priced)[0], "cost", 2.0 + 8.0 * 1_150.0 / 3_600.0);
    // With failures, tenants and preemption it goes on; the cell says what it is a function of.
    let all =
        ["--policy", "none+tenants+preemption", "--failures", "2,1,60", "--checkpoint", "100,5,5"];
    let base = ["--jobs", &jobs, "--format", "philly", "--nodes", "2", "--output", "json"];
    let cell = cells(&run(&[&base[..], &all, &["--autoscale", &pools(10)]].concat()))[0].clone();
    assert_eq!(cell["finished"], 3);
    assert_eq!(cell["model"]["autoscale"]["idle"], 50);
    for (bad, expected) in [
        ("{}", "pools: is a list"),
        ("{\"pools\": [{}]}", "most: is a number"),
        ("{\"pools\": [{\"most\": 1, \"cost\": 1}]}", "\"cost\" is not known"),
    ] {
        let finish = run(&[&base[..], &["--autoscale", bad]].concat());
        assert!(finish.code == 2 && finish.err.contains(expected), "{bad}: {}", finish.err);
    }
}

#[test]
fn bought_nodes_are_of_the_cheapest_kind_and_wait_for_one_another() {
    let scaled = |jobs: &str, more: &[&str], pools: &Value| {
        let base = ["--jobs", jobs, "--format", "philly", "--nodes", "1", "--starts"];
        let pools = pools.to_string();
        let own = ["--output", "json", "--autoscale", pools.as_str()];
        cells(&run(&[&base[..], &own, more].concat()))[0].clone()
    };
    // The first holds the node for all of the time. Two nodes are ordered at 0 for the other, which
    // starts at 200 with the second; the first is there from 10 on. Both go at 230 + 50.
    let text = "submit,duration,gpus,cluster\n0,1000,8,a\n0,30,16,a\n";
    let jobs = file("kinds.csv", text);
    let pools = json!({"every": 0, "idle": 50, "pools": [
        {"most": 5, "delay": 10, "price": 72}, {"most": 1, "delay": 200, "price": 36}]});
    for policy in ["fcfs", "easy", "easy_sjbf", "conservative", "none", "none+reservations+turns"] {
        let cell = scaled(&jobs, &["--policy", policy], &pools);
        assert_eq!(cell["starts"], json!([[0, 0], [1, 200_000]]), "{policy}");
        near(&cell, "nodes_bought", 2.0);
        near(&cell, "cost", (270.0 * 72.0 + 80.0 * 36.0) / 3_600.0);
    }
}

#[test]
fn tenants_have_quota_of_what_can_be_bought_and_pools_are_racks() {
    // Each tenant has two of 1 + 3 nodes. The gang needs both in one rack, which the pool is.
    let jobs = file("tenant.csv", "submit,duration,gpus,cluster\n0,50,16,a\n");
    let config = json!({"jobs": jobs, "format": "philly", "nodes": 1, "starts": true,
        "policy": ["none+tenants", "easy+tenants+preemption+moves", "conservative+tenants"],
        "output": "json", "autoscale": {"pools": [{"most": 3, "delay": 100, "price": 36}]}});
    let found = cells(&run(&["--config", &file("tenant.json", &config.to_string())]));
    assert_eq!(found.len(), 3);
    for cell in &found {
        assert_eq!(cell["starts"], json!([[0, 100_000]]), "{}", cell["policy"]);
        // Two nodes for 50 s each.
        near(cell, "cost", 1.0);
    }
    let again = cells(&run(&["--config", &file("tenant.json", &config.to_string())]));
    let plain = |cell: &Value| {
        let mut cell = cell.clone();
        cell["decisions_per_s"] = Value::Null;
        cell
    };
    assert_eq!(
        found.iter().map(plain).collect::<Vec<_>>(),
        again.iter().map(plain).collect::<Vec<_>>()
    );
    // The chart has rows for nodes that were bought.
    let pools = r#"{"pools": [{"most": 3, "delay": 100}]}"#;
    let page = run(&[
        "--jobs",
        &jobs,
        "--format",
        "philly",
        "--nodes",
        "1",
        "--autoscale",
        pools,
        "--output",
        "html",
    ]);
    assert!(page.code == 0 && page.out.contains("\"nodes\":2"), "{}", page.err);
    let processors = run(&["--generate", "10", "--processors", "4", "--autoscale", pools]);
    assert!(processors.code == 2 && processors.err.contains("needs nodes of GPUs"));
}

#[test]
fn the_manifest_of_a_sweep_is_placed_and_its_commands_make_the_grid() {
    use phalanx::kubernetes::{Mode, Reader};

    let text = include_str!("../../examples/simulate/sweep.yaml");
    let documents: Vec<Value> =
        text.split("\n---\n").map(|document| serde_saphyr::from_str(document).unwrap()).collect();
    let mut reader = Reader::new(Mode::AsWritten);
    for document in &documents {
        let document = document.to_string();
        reader.read("sweep.yaml", &mut serde_json::Deserializer::from_str(&document)).unwrap();
    }
    let groups = reader.finish().unwrap().groups;
    let sweep = groups.iter().find(|group| group.full_name() == "research/sweep").unwrap();
    assert_eq!(sweep.pod_count(), 16);
    let mut cluster = phalanx::Cluster::new();
    for index in 0..4 {
        let node = phalanx::Node::new(format!("n{index}"));
        cluster
            .add_node(node.capacity("cpu", 4).capacity("memory", "8Gi").capacity("pods", 9))
            .unwrap();
    }
    // By room alone: the claim is the volume controller's to bind.
    let framework = phalanx::Framework::builder().filter(phalanx::plugins::Fit).build().unwrap();
    assert!(phalanx::place_gang(&cluster, &framework, sweep).unwrap().is_placed());

    // The commands of its pods, with folders of this machine.
    let jobs = file("sweep.swf", SWF);
    let mut options: Value =
        serde_json::from_str(documents[0]["data"]["sweep.json"].as_str().unwrap()).unwrap();
    (options["jobs"], options["processors"], options["seeds"]) =
        (jobs.into(), json!([4, 8]), 2.into());
    let config = file("sweep.json", &options.to_string());
    let folder = format!("{}/simulate-sweep", env!("CARGO_TARGET_TMPDIR"));
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).unwrap();
    let command = |document: &Value| {
        let containers = &document["spec"]["template"]["spec"]["containers"];
        containers[0]["args"][0].as_str().unwrap().replace("/results", &folder)
    };
    let shard = |index: usize| {
        let command = command(&documents[2]).replace("/options/sweep.json", &config);
        let command = command.replace("$JOB_COMPLETION_INDEX", &index.to_string());
        run(&command.split_whitespace().skip(1).collect::<Vec<_>>())
    };
    let kept = |index: usize| std::fs::read_to_string(format!("{folder}/{index}.jsonl")).unwrap();
    for index in 0..16 {
        let finish = shard(index);
        assert_eq!((finish.code, &finish.out), (0, &kept(index)), "{}", finish.err);
    }
    // A pod that is evicted while it writes, and begins again, ends with the same cells.
    let whole = kept(3);
    std::fs::write(format!("{folder}/3.jsonl"), &whole[..whole.len() / 2]).unwrap();
    assert_eq!(
        cells(&shard(3))[0]["mean_wait_s"],
        cells(&Finish::with(0, whole))[0]["mean_wait_s"]
    );
    let merge = command(&documents[3]);
    assert!(merge.starts_with("simulate --merge ") && merge.ends_with(" --output summary"));
    let files: Vec<String> = (0..16).map(|index| format!("{folder}/{index}.jsonl")).collect();
    let merged = cells(&run(&["--merge", &files.join(","), "--output", "json"]));
    let direct = cells(&run(&["--config", &config, "--output", "json"]));
    assert_eq!((merged.len(), direct.len()), (8, 8));
    for (merged, direct) in merged.iter().zip(&direct) {
        for key in ["policy", "seed", "processors", "mean_wait_s"] {
            assert_eq!(merged[key], direct[key], "{key}");
        }
    }
}
