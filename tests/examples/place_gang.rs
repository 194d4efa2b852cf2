//! The example program `place_gang`: manifests in, an answer and an exit code out.

#[path = "../../examples/place_gang/mod.rs"]
mod program;

use std::io::Write;

use serde_json::{Value, json};

use crate::common::cli::Finish;

fn run(arguments: &[&str]) -> Finish {
    let arguments: Vec<String> = arguments.iter().map(ToString::to_string).collect();
    program::PROGRAM.run(&arguments, program::run)
}

fn file(name: &str, bytes: impl AsRef<[u8]>) -> String {
    let path = format!("{}/place-gang-{name}", env!("CARGO_TARGET_TMPDIR"));
    std::fs::write(&path, bytes).unwrap();
    path
}

/// Runs on two files, and reads the answer as JSON.
fn answer(cluster: &str, workload: &str, more: &[&str]) -> (u8, Value) {
    let arguments = [&["--cluster", cluster, "--workload", workload, "--output", "json"], more];
    let finish = run(&arguments.concat());
    let mut answer: Value = serde_json::from_str(&finish.out).unwrap_or_else(|error| {
        panic!("{error}: {:?}", (finish.out, finish.err));
    });
    assert!(answer["seconds"].take().as_f64().is_some_and(|seconds| seconds >= 0.0));
    (finish.code, answer["groups"].take())
}

fn node(name: &str, gpus: u32) -> Value {
    let amounts = json!({ "cpu": "32", "memory": "256Gi", "pods": "110", "nvidia.com/gpu": gpus.to_string() });
    json!({
        "apiVersion": "v1", "kind": "Node", "metadata": { "name": name },
        "status": { "capacity": amounts, "allocatable": amounts },
    })
}

fn pod(name: &str, gpus: u32, group: Option<&str>, on: Option<&str>) -> Value {
    let mut spec = json!({ "containers": [{
        "name": "main", "image": "main",
        "resources": { "limits": { "cpu": "1", "memory": "1Gi", "nvidia.com/gpu": gpus.to_string() } },
    }] });
    if let Some(group) = group {
        spec["schedulingGroup"] = json!({ "podGroupName": group });
    }
    if let Some(node) = on {
        spec["nodeName"] = node.into();
    }
    json!({ "apiVersion": "v1", "kind": "Pod", "metadata": { "name": name, "namespace": "ml" }, "spec": spec })
}

fn group(name: &str, minimum: u32, priority: i32) -> Value {
    json!({
        "apiVersion": "scheduling.k8s.io/v1alpha2", "kind": "PodGroup",
        "metadata": { "name": name, "namespace": "ml" },
        "spec": { "schedulingPolicy": { "gang": { "minCount": minimum } }, "priority": priority },
    })
}

fn list(items: &[Value]) -> String {
    json!({ "apiVersion": "v1", "kind": "List", "items": items }).to_string()
}

/// The same objects as YAML: a document each. JSON is YAML, but for the separators.
fn documents(items: &[Value]) -> String {
    items.iter().fold(String::new(), |text, item| text + &format!("---\n{item:#}\n"))
}

fn word<'a>(group: &'a Value, key: &str) -> &'a str {
    group[key].as_str().unwrap()
}

fn nodes(group: &Value) -> Vec<(&str, &str)> {
    let assignments = group["assignments"].as_array().unwrap();
    assignments.iter().map(|at| (word(at, "pod"), word(at, "node"))).collect()
}

#[test]
fn groups_are_placed_by_priority_and_each_sees_those_before() {
    let cluster =
        file("order-cluster.json", list(&[node("n1", 8), pod("old", 2, None, Some("n1"))]));
    let mut items = vec![group("low", 4, 1), group("high", 4, 10), pod("lone", 2, None, None)];
    for (name, priority) in [("low", 1), ("high", 10)] {
        items.extend((0..4).map(|index| {
            let mut pod = pod(&format!("{name}-{index}"), 1, Some(name), None);
            pod["spec"]["priority"] = priority.into();
            pod
        }));
    }
    let workload = file("order-workload.json", list(&items));
    let (code, groups) = answer(&cluster, &workload, &[]);
    let said: Vec<_> =
        groups.as_array().unwrap().iter().map(|g| (word(g, "group"), word(g, "outcome"))).collect();
    // Six GPUs are free: four for the high one, none for the low one, two for the lone pod.
    assert_eq!(code, 1);
    assert_eq!(said[0], ("ml/high", "placed"));
    assert_eq!((said[1].0, said[1].1 != "placed"), ("ml/low", true));
    assert_eq!(said[2], ("ml/lone", "placed"));
    let placed = ["ml/high-0", "ml/high-1", "ml/high-2", "ml/high-3"].map(|pod| (pod, "n1"));
    assert_eq!(nodes(&groups[0]), placed);
    assert_eq!(nodes(&groups[1]), []);
    assert!(word(&groups[1], "explanation").contains("NodeResourcesFit"), "{}", groups[1]);
}

#[test]
fn every_form_of_the_same_manifests_gives_the_same_answer() {
    let cluster = [node("n1", 4), node("n2", 4), pod("old", 1, None, Some("n2"))];
    let mut workload = vec![group("g", 3, 0)];
    workload.extend((0..3).map(|index| pod(&format!("g-{index}"), 2, Some("g"), None)));
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(documents(&workload).as_bytes()).unwrap();
    let concatenated = documents(&workload).replace("---\n", "");
    let clusters = [file("c.json", list(&cluster)), file("c.yaml", documents(&cluster))];
    let workloads = [
        file("w.json", list(&workload)),
        file("w-array.json", Value::from(workload.clone()).to_string()),
        file("w-stream.json", concatenated),
        file("w.yaml", documents(&workload)),
        file("w-list.yml", list(&workload)),
        file("w.yaml.gz", encoder.finish().unwrap()),
    ];
    let (code, expected) = answer(&clusters[0], &workloads[0], &[]);
    assert_eq!((code, word(&expected[0], "outcome")), (0, "placed"));
    for cluster in &clusters {
        for workload in &workloads {
            assert_eq!(answer(cluster, workload, &[]), (0, expected.clone()), "{workload}");
        }
    }
    let everything = file("both.json", list(&[&cluster[..], &workload].concat()));
    assert_eq!(answer(&everything, &everything, &[]), (0, expected));
}

#[test]
fn profiles_pack_or_spread() {
    let cluster = file("profile-cluster.json", list(&[node("n1", 8), node("n2", 8)]));
    let mut workload = vec![group("g", 8, 0)];
    workload.extend((0..8).map(|index| pod(&format!("g-{index}"), 1, Some("g"), None)));
    let workload = file("profile-workload.json", list(&workload));
    for (profile, on_the_first) in [("binpack", 8), ("spread", 4), ("kubernetes", 4)] {
        let (code, groups) = answer(&cluster, &workload, &["--profile", profile]);
        let count = nodes(&groups[0]).iter().filter(|(_, node)| *node == "n1").count();
        assert_eq!((code, count), (0, on_the_first), "{profile}");
    }
}

#[test]
fn text_shows_every_node_and_why_a_group_stays_out() {
    let cluster = file("text-cluster.json", list(&[node("n1", 4)]));
    let mut workload = vec![group("big", 3, 0), pod("lone", 1, None, None)];
    workload.extend((0..3).map(|index| pod(&format!("big-{index}"), 2, Some("big"), None)));
    let workload = file("text-workload.json", list(&workload));
    let finish = run(&["--cluster", &cluster, "--workload", &workload]);
    assert_eq!((finish.code, finish.err.as_str()), (1, ""));
    for expected in
        ["ml/big: ", "✓ ml/lone: 1 pod on 1 node", "▒···      0 + 1 of 4", "1 of 2 groups placed"]
    {
        assert!(finish.out.contains(expected), "{expected}: {}", finish.out);
    }
}

#[test]
fn bad_input_names_file_object_and_field_and_prints_nothing_else() {
    let good = file("good.json", list(&[node("n1", 4)]));
    let mut negative = node("n2", 4);
    negative["status"]["capacity"]["cpu"] = "-4".into();
    let mut nonsense = pod("p", 1, None, None);
    nonsense["spec"]["containers"][0]["resources"]["limits"]["cpu"] = "many".into();
    let text = list(&[pod("p", 1, None, None)]);
    for (name, bytes, expected) in [
        ("negative.json", list(&[negative]).into_bytes(), &["node n2", "cpu"][..]),
        ("nonsense.json", list(&[nonsense]).into_bytes(), &["pod ml/p", "cpu"]),
        (
            "twice.json",
            list(&[pod("p", 1, None, None), pod("p", 1, None, None)]).into(),
            &["ml/p", "name"],
        ),
        ("zero.json", list(&[group("g", 0, 0)]).into_bytes(), &["ml/g", "minCount"]),
        (
            "groupless.json",
            list(&[pod("p", 1, Some("none"), None)]).into_bytes(),
            &["ml/p", "none"],
        ),
        ("cut.json", text.as_bytes()[..text.len() / 2].to_vec(), &[]),
        ("cut.yaml", b"kind: Pod\nmetadata: {name: [".to_vec(), &[]),
        ("latin.json", b"{\"kind\": \"P\xf6d\"}".to_vec(), &[]),
        ("latin.yaml", b"kind: P\xf6d\n".to_vec(), &[]),
        ("gzip.json.gz", vec![0x1f, 0x8b, 8, 0, 0, 1], &["gzip"]),
        ("empty.yaml", b" \n".to_vec(), &["empty"]),
        ("word.yaml", b"nonsense\n".to_vec(), &[]),
    ] {
        let path = file(name, bytes);
        let finish = run(&["--cluster", &good, "--workload", &path, "--output", "json"]);
        assert_eq!((finish.code, finish.out.as_str()), (2, ""), "{name}: {}", finish.err);
        assert!(finish.err.contains(&path), "{name}: {}", finish.err);
        for part in expected {
            assert!(finish.err.contains(part), "{name}: {part}: {}", finish.err);
        }
    }
    let missing = run(&["--cluster", "no/such/file", "--workload", &good]);
    assert_eq!((missing.code, missing.out.as_str()), (2, ""));
    assert!(missing.err.contains("no/such/file"));
}

#[test]
fn a_pod_on_a_node_that_is_not_there_is_remarked_on_and_takes_nothing() {
    let cluster = file("orphan.json", list(&[node("n1", 4), pod("old", 4, None, Some("n9"))]));
    let workload = file("orphan-w.json", list(&[pod("new", 4, None, None)]));
    let finish = run(&["--cluster", &cluster, "--workload", &workload]);
    assert_eq!(finish.code, 0);
    assert_eq!(finish.err, "note: pod ml/old: runs on node n9, which is not in the files\n");
}

#[test]
fn wrong_arguments_print_the_usage_and_help_is_no_mistake() {
    for arguments in [
        &["--cluster", "x"][..],
        &["--workload", "x"],
        &["--as-stored"],
        &["--cluster"],
        &["x"],
        &["--profile", "tight"],
        &["--output", "xml"],
        &["--as-stored=yes"],
    ] {
        let finish = run(arguments);
        assert_eq!((finish.code, finish.out.as_str()), (2, ""), "{arguments:?}");
        assert!(finish.err.contains("Usage: place_gang"), "{}", finish.err);
    }
    let help = run(&["--help"]);
    assert_eq!((help.code, help.err.as_str()), (0, ""));
    assert!(help.out.contains("Usage: place_gang"));
}

#[test]
fn without_arguments_a_gang_is_placed_on_a_real_cluster() {
    let finish = run(&["--output", "json"]);
    let answer: Value = serde_json::from_str(&finish.out).unwrap();
    assert_eq!((finish.code, word(&answer["groups"][0], "outcome")), (0, "placed"));
    assert_eq!(nodes(&answer["groups"][0]).len(), 25);
}

/// Every kind of workload, from its example, on the cluster of the examples and on openb.
#[test]
fn each_kind_of_workload_is_placed() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/manifests");
    let cluster = format!("{folder}/cluster.yaml");
    for (name, placed) in [
        ("job", 4),
        ("jobset", 1),
        ("leaderworkerset", 8),
        ("mpijob", 4),
        ("pytorchjob", 5),
        ("raycluster", 4),
        ("rayjob", 4),
        ("statefulset", 3),
        ("tfjob", 7),
        ("trainjob", 4),
        ("volcano-job", 5),
        ("xgboostjob", 4),
    ] {
        let file = format!("{folder}/{name}.yaml");
        let finish = run(&["--cluster", &cluster, "--manifests", &file, "--output", "json"]);
        assert_eq!(finish.code, 0, "{name}: {}{}", finish.out, finish.err);
        let answer: Value = serde_json::from_str(&finish.out).unwrap();
        let groups = answer["groups"].as_array().unwrap();
        let pods = groups.iter().map(|group| group["assignments"].as_array().unwrap().len());
        assert_eq!(pods.sum::<usize>(), placed, "{name}");
    }
    let finish = run(&["--manifests", &format!("{folder}/leaderworkerset.yaml")]);
    assert_eq!(finish.code, 0, "{}", finish.out);
    assert!(finish.err.contains("has no nodes: those of openb are taken"), "{}", finish.err);
    let finish = run(&["--cluster", &cluster, "--manifests", &format!("{folder}/mpijob.yaml")]);
    let note = "mpijob team-a/allreduce: 1 pods of launcher wait: starts after worker is ready";
    assert!(finish.err.contains(note), "{}", finish.err);
}

#[test]
fn kinds_that_are_not_known_are_named() {
    let wrapper = json!({"apiVersion": "workload.codeflare.dev/v1beta2", "kind": "AppWrapper",
        "metadata": {"name": "s"}});
    let workload = json!({"apiVersion": "v1", "kind": "List", "items": [node("n", 1), wrapper]});
    let workload = file("unknown.json", workload.to_string());
    let finish = run(&["--manifests", &workload]);
    let note = "note: workload.codeflare.dev/AppWrapper: passed over, 1 in all";
    assert!(finish.err.contains(note), "{}", finish.err);
    let both = run(&["--workload", &workload, "--manifests", &workload]);
    assert_eq!(both.code, 2);
}

#[test]
fn the_account_says_of_each_document_what_became_of_its_fields() {
    let text = "# a comment
---
---
apiVersion: v1
kind: Pod
metadata: {name: a, labels: {queue: q}}
spec:
  nodeSelector: {disk: ssd}
  schedulerName: other
  runtimeClassName: gvisor
  containers: [{name: c, env: [{name: A, value: b}]}]
---
apiVersion: v1
kind: Pod
metadata: {name: b}
spec:
  tolerations:
    - {key: k, operator: Near}
  containers: [{name: c}]
";
    let path = file("account.yaml", text);
    let finish = run(&["--manifests", &path, "--reading", "json"]);
    let lines: Vec<Value> =
        finish.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(
        lines[0],
        json!({
            "doc": 1, "kind": "Pod", "name": "a",
            "honoured": ["/metadata/labels/queue", "/spec/nodeSelector/disk"],
            "refused": ["/spec/runtimeClassName"],
            "ignored": [{
                "path": "/spec/schedulerName", "why": "the embedder says whose pods it places",
            }],
        })
    );
    // A document that cannot be taken is an error with its field and its line.
    assert_eq!(lines[1]["refused"], json!(["/metadata", "/spec"]));
    assert_eq!(finish.code, 2);
    assert!(finish.err.contains("pod default/b: spec.tolerations[0].operator: "), "{}", finish.err);
    assert!(finish.err.ends_with("(line 18)\n"), "{}", finish.err);
}

/// The documents that an account has lines for, by number and name, and its errors.
fn account(name: &str, text: &str) -> (Vec<(u64, String)>, String) {
    let path = file(name, text);
    let finish = run(&["--manifests", &path, "--reading", "json"]);
    let lines = finish.out.lines().map(|line| {
        let line: Value = serde_json::from_str(line).unwrap();
        (line["doc"].as_u64().unwrap(), line["name"].as_str().unwrap().to_owned())
    });
    (lines.collect(), finish.err.replace(&path, "FILE"))
}

#[test]
fn streams_of_every_form_are_accounted_for_document_by_document() {
    let named = |names: &[(u64, &str)]| -> Vec<(u64, String)> {
        names.iter().map(|(at, name)| (*at, (*name).to_owned())).collect()
    };
    let node = |name: &str| node(name, 1).to_string();
    // JSON values one after the other, as `kubectl` writes them.
    let text = format!("{}\n{}\n", node("a"), node("b"));
    assert_eq!(account("stream.json", &text), (named(&[(0, "a"), (1, "b")]), String::new()));
    // Lines that end as on Windows, anchors, and a document that is empty.
    let text = "---\r\napiVersion: v1\r\nkind: Node\r\nmetadata: &m {name: a}\r\n---\r\n---\r\n\
                apiVersion: v1\r\nkind: Node\r\nmetadata: {name: b, labels: {x: z}}\r\n";
    assert_eq!(account("crlf.yaml", text), (named(&[(0, "a"), (2, "b")]), String::new()));
    // A document that is no YAML is an error with its line, and those beside it are read.
    let text = "apiVersion: v1\nkind: Node\nmetadata: {name: a}\n---\na: [\n---\napiVersion: v1\n\
                kind: Node\nmetadata: {name: b}\n";
    let (lines, errors) = account("broken.yaml", text);
    assert_eq!(lines, named(&[(0, "a"), (2, "b")]));
    assert!(errors.contains("line 5") || errors.contains("line 6"), "{errors}");
    // The line of an error in a list is that of the object's field.
    let text = "apiVersion: v1
kind: List
items:
  - apiVersion: v1
    kind: Pod
    metadata: {name: a}
    spec: {containers: [{name: c}]}
  - apiVersion: v1
    kind: Pod
    metadata: {name: b}
    spec:
      containers: [{name: c}]
      tolerations:
        - {key: k, operator: Near}
";
    let (_, errors) = account("list.yaml", text);
    assert!(errors.ends_with("(line 14)\n"), "{errors}");
    // A key that stands twice, and a wrong type.
    for (text, error) in [
        (
            "apiVersion: v1\nkind: Node\nmetadata:\n  name: a\n  name: b\n",
            "error: FILE: node b: metadata: \"name\" occurs twice (line 4)\n",
        ),
        (
            "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec:\n  containers: [{name: c}]\n  \
             nodeName: 5\n",
            "error: FILE: pod default/a: spec.nodeName: is a number, not a string (line 6)\n",
        ),
    ] {
        assert_eq!(account("fault.yaml", text).1, error);
    }
}

#[test]
fn pods_with_refused_fields_are_not_placed_and_the_explanation_names_them() {
    let cluster = file("refused-cluster.json", node("n1", 8).to_string());
    let mut pod = pod("a", 1, None, None);
    // Its RuntimeClass is not there: neither its overhead nor its nodes are known.
    pod["spec"]["runtimeClassName"] = json!("gvisor");
    let workload = file("refused-pod.json", pod.to_string());
    let (code, groups) = answer(&cluster, &workload, &[]);
    assert_eq!(code, 1);
    let why = groups[0]["explanation"].as_str().unwrap();
    assert!(why.contains("/spec/runtimeClassName is not in force"), "{why}");
}
