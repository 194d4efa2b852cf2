//! The window of an operator: metrics, the page, questions, the configuration that changes, bad input.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::server::RELEASE_1_37;
use crate::world::{SOON, World, group, node, pod};

/// A port that is free now.
pub fn port() -> u16 {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port is free");
    listener.local_addr().expect("it has an address").port()
}

/// Sends a request; returns its status and body, none while nobody listens.
fn ask(port: u16, head: &str, body: &str) -> Option<(u16, String)> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).ok()?;
    let length = body.len();
    let request = format!("{head}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}");
    stream.write_all(request.as_bytes()).ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    let status = answer.split_whitespace().nth(1)?.parse().ok()?;
    Some((status, answer.split_once("\r\n\r\n")?.1.to_owned()))
}

fn get(port: u16, path: &str) -> (u16, String) {
    let deadline = Instant::now() + SOON;
    loop {
        let head = format!("GET {path} HTTP/1.1\r\nHost: localhost");
        match ask(port, &head, "") {
            Some(answer) => return answer,
            None => assert!(Instant::now() < deadline, "nobody listens"),
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Asks until the body says something.
fn until(port: u16, path: &str, wanted: &str) -> String {
    let deadline = Instant::now() + SOON;
    loop {
        let (_, body) = get(port, path);
        if body.contains(wanted) {
            return body;
        }
        assert!(Instant::now() < deadline, "{path} does not say {wanted}: {body}");
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// Runs the command line.
fn phalanx(arguments: &[&str]) -> Output {
    let output = Command::new(env!("CARGO_BIN_EXE_phalanx")).args(arguments).output();
    output.expect("the program can be started")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn add_gang(world: &World, name: &str, pods: usize) {
    world.server.create("podgroups", group(name, pods));
    for index in 0..pods {
        world.server.create("pods", pod(&format!("{name}-{index}"), name));
    }
}

const MANIFEST: &str = "
apiVersion: v1
kind: Pod
metadata: {name: NAME, namespace: ml}
spec: {priority: 9, containers: [{name: c, resources: {requests: {cpu: CPU}}}]}
";

const CONFIG: &str = "
levels: [rack]
timeouts: {firstBackoff: 100ms, longestBackoff: 1s}
queues:
  dialect: volcanoProportion
  objects:
  - {apiVersion: scheduling.volcano.sh/v1beta1, kind: Queue, metadata: {name: vision}, spec: {weight: 1}}
";

#[test]
fn an_operator_sees_why_and_what_would_be() {
    let world = World::new(RELEASE_1_37);
    world.server.create("nodes", node("n1"));
    world.server.create("nodes", node("n2"));
    add_gang(&world, "small", 4);
    add_gang(&world, "large", 80);
    let port = port();
    let listen = format!("127.0.0.1:{port}");
    let configuration = "levels: [rack]\ntimeouts: {firstBackoff: 100ms, longestBackoff: 1s}\n";
    let _scheduler = world.scheduler_with(configuration, &["--listen", &listen]);
    world.until_bound(4);

    until(port, "/metrics", "phalanx_groups_waiting{reason=\"capacity\"} 1");
    let metrics = until(port, "/metrics", "phalanx_groups{state=\"running\"} 1");
    for line in [
        "phalanx_leader 1",
        "phalanx_pods_bound_total 4",
        "phalanx_api_requests_total{result=\"taken\"}",
        "phalanx_watch_silence_seconds{kind=\"Pod\"}",
        "phalanx_victims_total 0",
        "phalanx_input_lag_seconds_count",
        "phalanx_groups{state=\"running\"} 1",
    ] {
        assert!(metrics.contains(line), "{line}: {metrics}");
    }

    // The page has the group that waits, why, and what would help; the tree; the decision.
    let page = until_page(port, "lower the minimum");
    for part in ["ml/large", "80 pods must fit", "<details", "2 nodes", "ml/small", "<form"] {
        assert!(page.contains(part), "{part}: {page}");
    }
    let (status, nodes) = get(port, "/nodes?path=r");
    let nodes: Value = serde_json::from_str(&nodes).expect("it is JSON");
    assert_eq!((status, nodes["nodes"].as_array().map(Vec::len)), (200, Some(2)));

    let (status, why) = get(port, "/why?group=ml%2Flarge");
    let why: Value = serde_json::from_str(&why).expect("it is JSON");
    assert_eq!(status, 200);
    assert_eq!(why["state"], "unschedulable");
    assert!(why["remedies"].as_array().is_some_and(|all| !all.is_empty()), "{why}");
    assert_eq!(get(port, "/why?group=nobody").0, 404);

    let address = format!("http://{listen}");
    let own = phalanx(&["why", "large", "--address", &address]);
    assert!(own.status.success(), "{}", text(&own.stderr));
    assert!(text(&own.stdout).contains("to place it: lower the minimum"), "{own:?}");

    // A pod that fits starts; one that does not would need others to go. Nothing changes.
    let folder = world.folder();
    let what_if = |cpu: &str| {
        let path = folder.join("manifest.yaml");
        let manifest = MANIFEST.replace("NAME", "new").replace("CPU", cpu);
        std::fs::write(&path, manifest).expect("a file can be written");
        let path = path.to_string_lossy().into_owned();
        let own = phalanx(&["what-if", &path, "--address", &address, "--output", "json"]);
        assert!(own.status.success(), "{}", text(&own.stderr));
        serde_json::from_str::<Value>(&text(&own.stdout)).expect("it is JSON")
    };
    let fits = what_if("8");
    assert_eq!(fits["groups"][0]["starts"], true, "{fits}");
    assert_eq!(fits["groups"][0]["nodes"].as_object().map(serde_json::Map::len), Some(1));
    world.server.create("pods", bound("filler", "n2", 30));
    world.server.create("pods", bound("filler-too", "n1", 30));
    until(port, "/nodes", "\"pods\":1");
    let (waits, deadline) = (|| what_if("16"), Instant::now() + SOON);
    let answer = loop {
        let answer = waits();
        if answer["groups"][0]["starts"] == false {
            break answer;
        }
        assert!(Instant::now() < deadline, "{answer}");
    };
    let victims = answer["withPreemption"][0]["victims"].as_array().expect("there are some");
    assert!(!victims.is_empty(), "{answer}");
    assert_eq!(get(port, "/why?group=new").0, 404, "nothing was added");
    let bad = phalanx(&["what-if", "/nowhere", "--address", &address]);
    assert_eq!(bad.status.code(), Some(1));
    assert!(text(&bad.stderr).contains("/nowhere"), "{bad:?}");
}

/// The page of a browser, once it says something.
fn until_page(port: u16, wanted: &str) -> String {
    let deadline = Instant::now() + SOON;
    loop {
        let head = "GET / HTTP/1.1\r\nHost: localhost\r\nAccept: text/html";
        let (status, body) = ask(port, head, "").expect("it listens");
        if status == 200 && body.contains(wanted) {
            return body;
        }
        assert!(Instant::now() < deadline, "the page does not say {wanted}: {body}");
        std::thread::sleep(Duration::from_millis(100));
    }
}

fn bound(name: &str, node: &str, cpu: u32) -> Value {
    json!({
        "metadata": {"name": name, "namespace": "ml", "uid": format!("uid-{name}")},
        "spec": {
            "schedulerName": "other", "nodeName": node,
            "containers": [{"name": "c", "resources": {"requests": {"cpu": cpu.to_string()}}}],
        },
        "status": {"phase": "Running"},
    })
}

#[test]
fn a_snapshot_replays_to_the_same_decisions() {
    let world = World::new(RELEASE_1_37);
    world.server.create("nodes", node("n1"));
    add_gang(&world, "large", 40);
    let port = port();
    let listen = format!("127.0.0.1:{port}");
    let _scheduler = world.scheduler_with(CONFIG, &["--listen", &listen]);
    until(port, "/metrics", "phalanx_queue_waiting{queue=\"vision\"}");
    let file = world.folder().join("snapshot.jsonl");
    let config = world.folder().join("config.yaml");
    let (file, config) =
        (file.to_string_lossy().into_owned(), config.to_string_lossy().into_owned());
    let address = format!("http://{listen}");
    let own = phalanx(&["snapshot", &file, "--address", &address]);
    assert!(own.status.success(), "{}", text(&own.stderr));
    let own = phalanx(&["replay", &file, "--config", &config]);
    assert!(own.status.success(), "{} {}", text(&own.stdout), text(&own.stderr));
    assert!(text(&own.stdout).contains("the same decisions"));
    // A line that says otherwise is found.
    let lines = std::fs::read_to_string(&file).expect("it was written");
    let record = lines.lines().last().expect("it has records");
    let mut record: Value = serde_json::from_str(record).expect("it is JSON");
    record["poll"]["decision"] =
        json!({"evictStale": {"group": "ml/large", "pods": [], "since": 0}});
    std::fs::write(&file, format!("{}\n{record}\n", lines.lines().next().expect("the state")))
        .expect("a file can be written");
    let own = phalanx(&["replay", &file, "--config", &config]);
    assert_eq!(own.status.code(), Some(1), "{} {}", text(&own.stdout), text(&own.stderr));
    std::fs::write(&file, "{}\n").expect("a file can be written");
    let own = phalanx(&["replay", &file]);
    assert_eq!(own.status.code(), Some(1));
    assert!(text(&own.stderr).contains("line 1"), "{own:?}");
}

#[test]
fn a_changed_file_is_read_anew_and_a_wrong_one_is_refused() {
    let world = World::new(RELEASE_1_37);
    world.server.create("nodes", node("n1"));
    let port = port();
    let listen = format!("127.0.0.1:{port}");
    let scheduler = world.scheduler_with(CONFIG, &["--listen", &listen]);
    until(port, "/metrics", "phalanx_queue_waiting{queue=\"vision\"}");
    let config = world.folder().join("config.yaml");
    let write = |text: &str| std::fs::write(&config, text).expect("a file can be written");
    let hang_up = || {
        let pid = scheduler.id().to_string();
        let sent = Command::new("kill").args(["-HUP", &pid]).status();
        assert!(sent.expect("the program `kill` is there").success());
    };
    write("levels: [rack]\nprofile: nothing\n");
    hang_up();
    until(port, "/metrics", "phalanx_configuration_reloads_total{result=\"refused\"}");
    assert!(get(port, "/metrics").1.contains("queue=\"vision\""), "the old one stays");
    write(&CONFIG.replace("vision", "speech"));
    hang_up();
    let metrics = until(port, "/metrics", "phalanx_queue_waiting{queue=\"speech\"}");
    assert!(!metrics.contains("queue=\"vision\""), "{metrics}");
    // Gangs are placed after it as before.
    add_gang(&world, "after", 2);
    drop(scheduler);
}

#[test]
fn the_lease_is_given_up_at_the_end_and_another_replica_follows() {
    let world = World::new(RELEASE_1_37);
    world.server.create("nodes", node("n1"));
    let configuration = "leaderElection: {enabled: true, lease: 60s, renew: 40s, retry: 100ms}";
    let first = world.scheduler(configuration);
    add_gang(&world, "one", 2);
    world.until_bound(2);
    let port = port();
    let listen = format!("127.0.0.1:{port}");
    let _second = world.scheduler_with(configuration, &["--listen", &listen]);
    until(port, "/metrics", "phalanx_leader 0");
    assert_eq!(get(port, "/").0, 503);
    assert_eq!(get(port, "/readyz").0, 200);
    let status = first.terminate(Duration::from_secs(20));
    assert!(status.success(), "{status}");
    // The lease would hold for a minute yet.
    let begin = Instant::now();
    until(port, "/metrics", "phalanx_leader 1");
    assert!(begin.elapsed() < Duration::from_secs(40));
    add_gang(&world, "two", 2);
    world.until_bound(4);
}

#[test]
fn pods_that_wait_have_events_and_a_large_gang_has_few() {
    let world = World::new(RELEASE_1_37);
    world.server.create("nodes", node("n1"));
    add_gang(&world, "large", 80);
    let _scheduler = world.scheduler("timeouts: {firstBackoff: 100ms, longestBackoff: 1s}");
    world.server.until(SOON, "all conditions are written", |state| {
        let waits = |pod: &Value| {
            let conditions = pod["status"]["conditions"].as_array();
            conditions.is_some_and(|all| all.iter().any(|own| own["reason"] == "Unschedulable"))
        };
        state.list("pods").filter(|pod| waits(pod)).count() == 80
    });
    world.server.until(SOON, "events are written", |state| {
        let failed = state.list("events").filter(|event| event["reason"] == "FailedScheduling");
        let of_pods = failed.filter(|event| event["regarding"]["kind"] == "Pod");
        let notes: Vec<&str> = of_pods.filter_map(|event| event["note"].as_str()).collect();
        assert!(notes.len() <= 32, "{notes:?}");
        notes.iter().any(|note| note.contains("So do 64 more pods of its group"))
    });
}

/// The page of a browser that runs nothing, as it understands it; none without a browser.
fn browsed(address: &str) -> Option<String> {
    let names = ["chromium", "chromium-browser", "google-chrome"];
    let run = |name: &str| {
        let arguments = ["--headless", "--no-sandbox", "--disable-gpu", "--dump-dom", address];
        let output = Command::new(name).args(arguments).output().ok()?;
        output.status.success().then(|| text(&output.stdout))
    };
    names.into_iter().find_map(run)
}

#[test]
fn the_page_is_quick_and_usable_with_five_thousand_nodes() {
    let nodes = 5_000;
    let world = World::new(RELEASE_1_37);
    for index in 0..nodes {
        let mut own = node(&format!("n{index:04}"));
        own["metadata"]["labels"]["rack"] = format!("r{:03}", index / 16).into();
        own["metadata"]["labels"]["zone"] = format!("z{}", index / 1_000).into();
        world.server.create("nodes", own);
    }
    // More than fits into one rack.
    world.server.create("podgroups", {
        let mut own = group("wide", 20);
        own["spec"]["schedulingConstraints"] = json!({"topology": [{"key": "rack"}]});
        own
    });
    for index in 0..20 {
        let mut own = pod(&format!("wide-{index}"), "wide");
        own["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "30".into();
        world.server.create("pods", own);
    }
    let port = port();
    let listen = format!("127.0.0.1:{port}");
    let configuration = "levels: [zone, rack]\ntimeouts: {longestBackoff: 1s}\n";
    let _scheduler = world.scheduler_with(configuration, &["--listen", &listen]);
    until(port, "/readyz", "ok");
    let page = until_page(port, "ml/wide");
    let begin = Instant::now();
    let head = "GET / HTTP/1.1\r\nHost: localhost\r\nAccept: text/html";
    let (status, _) = ask(port, head, "").expect("it listens");
    let took = begin.elapsed();
    println!("page of {nodes} nodes: {} bytes in {took:?}, not optimised", page.len());
    assert_eq!(status, 200);
    assert!(took < Duration::from_secs(5), "{took:?}");
    assert!(page.len() < 500_000, "{}", page.len());
    assert!(page.contains("5000 nodes") && page.contains("r312"), "{page}");
    // Whatever can be opened or sent is of elements that a keyboard reaches.
    assert!(!page.contains("onclick") && !page.contains("tabindex"));
    match browsed(&format!("http://{listen}/")) {
        Some(seen) => {
            let count = |word: &str| seen.matches(word).count();
            assert_eq!(count("<details"), count("</details>"));
            assert_eq!(count("<summary"), 6, "the cluster and five zones");
            assert!(count("<a ") > 300 && seen.contains("ml/wide"));
            // The picture of the README is made so.
            if let Ok(picture) = std::env::var("SCREENSHOT") {
                let picture = format!("--screenshot={picture}");
                let arguments = ["--headless", "--no-sandbox", "--window-size=1200,900", &picture];
                let address = format!("http://{listen}/");
                let run = Command::new("chromium").args(arguments).arg(address).output();
                assert!(run.is_ok_and(|output| output.status.success()));
            }
        }
        None => println!("note: there is no Chromium; the page is not looked at in a browser"),
    }
}

#[test]
fn beyond_loopback_only_health_is_open_without_a_token() {
    let world = World::new(RELEASE_1_37);
    world.server.create("nodes", node("n1"));
    let plain = port();
    let listen = format!("0.0.0.0:{plain}");
    let first = world.scheduler_with("{}", &["--listen", &listen]);
    until(plain, "/readyz", "ok");
    assert_eq!(get(plain, "/healthz").0, 200);
    for path in ["/", "/metrics", "/snapshot", "/why?group=a", "/nodes"] {
        assert_eq!(get(plain, path).0, 403, "{path}");
    }
    drop(first);

    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/stand_in");
    let (certificate, key) = (tests.join("certificate.pem"), tests.join("key.pem"));
    let token = world.folder().join("token");
    std::fs::write(&token, "secret\n").expect("a file can be written");
    let configuration = format!(
        "serving: {{certificate: {}, key: {}, token: {}}}",
        certificate.display(),
        key.display(),
        token.display()
    );
    let secured = port();
    let listen = format!("0.0.0.0:{secured}");
    let _second = world.scheduler_with(&configuration, &["--listen", &listen]);
    let address = format!("https://localhost:{secured}");
    let (ca, token) = (certificate.to_string_lossy(), token.to_string_lossy());
    let deadline = Instant::now() + SOON;
    loop {
        let own = phalanx(&["snapshot", "--address", &address, "--ca", &ca, "--token", &token]);
        if own.status.success() && text(&own.stdout).contains("\"cluster\"") {
            break;
        }
        assert!(Instant::now() < deadline, "{}", text(&own.stderr));
        std::thread::sleep(Duration::from_millis(100));
    }
    let own = phalanx(&["snapshot", "--address", &address, "--ca", &ca]);
    assert_eq!(own.status.code(), Some(1));
    assert!(text(&own.stderr).contains("401"), "{own:?}");
    let plain = phalanx(&["snapshot", "--address", &format!("http://localhost:{secured}")]);
    assert_eq!(plain.status.code(), Some(1), "it is not served without encryption");
}

#[test]
fn bad_input_ends_with_one_clear_sentence() {
    let scheduler = |arguments: &[&str]| {
        let program = env!("CARGO_BIN_EXE_kubernetes-scheduler");
        let output = Command::new(program).args(arguments).output();
        output.expect("the program can be started")
    };
    let folder = std::env::temp_dir().join(format!("bad-input-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder can be made");
    let path = |name: &str| folder.join(name).to_string_lossy().into_owned();
    std::fs::write(path("wrong.yaml"), "profile: wide\n").expect("a file can be written");
    std::fs::write(path("levels.yaml"), "levels: [a, a]\n").expect("a file can be written");
    std::fs::write(path("config"), "no: kubeconfig\n").expect("a file can be written");
    for (arguments, code, part) in [
        (vec!["--nothing"], 2, "--nothing"),
        (vec!["--listen"], 2, "--listen"),
        (vec!["--listen", "here"], 2, "here"),
        (vec!["--config", "/nowhere.yaml"], 2, "/nowhere.yaml"),
        (vec!["--config", &path("")], 2, "directory"),
        (vec!["--config", &path("wrong.yaml")], 2, "wrong.yaml"),
        (vec!["--config", &path("levels.yaml")], 2, "levels"),
        (vec!["--kubeconfig", "/nowhere"], 1, "/nowhere"),
        (vec!["--kubeconfig", &path("config")], 1, "current context"),
    ] {
        let own = scheduler(&arguments);
        let said = text(&own.stderr);
        assert_eq!(own.status.code(), Some(code), "{arguments:?}: {said}");
        assert!(said.contains(part) && !said.contains("panicked"), "{arguments:?}: {said}");
        assert!(own.stdout.is_empty());
    }
    let help = scheduler(&["--help"]);
    assert!(help.status.success() && text(&help.stdout).starts_with("usage: "));
    for arguments in [vec![], vec!["what"], vec!["why"], vec!["why", "a", "--address", "x"]] {
        assert_eq!(phalanx(&arguments).status.code(), Some(2), "{arguments:?}");
    }
    let nobody = phalanx(&["why", "a", "--address", &format!("http://127.0.0.1:{}", port())]);
    assert_eq!(nobody.status.code(), Some(1));
    let full = folder.join("no/folder").to_string_lossy().into_owned();
    assert_eq!(phalanx(&["snapshot", &full]).status.code(), Some(1));
    std::fs::remove_dir_all(&folder).expect("it was made");
}
