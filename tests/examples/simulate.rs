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
