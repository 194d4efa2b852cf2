//! The account of each field: nothing that bears on placement is passed over in silence, and what it
//! says is true.

use std::collections::BTreeSet;
use std::io::Read;

use flate2::read::GzDecoder;
use phalanx::kubernetes::{Manifests, Mode, Reader, Reading, Value};

use super::reading::{example, stored, written};

/// Classes of paths that are honoured or refused, and never ignored.
const OF_PLACE: [&str; 9] =
    ["resource", "device", "claim", "node", "pod-affinity", "spread", "gang", "topology", "volume"];

/// A file of a peer, and what of each document bears on placement.
#[derive(Debug, serde::Deserialize)]
struct Peer {
    path: String,
    text: String,
    docs: Vec<Expected>,
}

#[derive(Debug, serde::Deserialize)]
struct Expected {
    doc: usize,
    paths: Vec<Bearing>,
}

#[derive(Debug, serde::Deserialize)]
struct Bearing {
    path: String,
    class: String,
}

fn unpacked(bytes: &[u8]) -> String {
    let mut text = String::new();
    GzDecoder::new(bytes).read_to_string(&mut text).unwrap();
    text
}

fn peers() -> Vec<Peer> {
    let text = unpacked(include_bytes!("../../data/peer-manifests.jsonl.gz"));
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// The documents of a stream by their numbers, those of empty ones counted.
fn documents(text: &str) -> Vec<Value> {
    let mut parts: Vec<String> = vec![String::new()];
    let mut explicit = false;
    for line in text.lines() {
        let is_mark = line == "---" || line.starts_with("--- ");
        let is_empty = |part: &String| {
            part.lines().all(|line| line.trim().is_empty() || line.trim_start().starts_with('#'))
        };
        if is_mark && (explicit || !parts.last().is_some_and(is_empty)) {
            parts.push(String::new());
        }
        explicit |= is_mark;
        let part = parts.last_mut().unwrap();
        part.push_str(if is_mark { &line[3..] } else { line });
        part.push('\n');
    }
    let value = |part: &String| {
        let options = serde_saphyr::options! {
            duplicate_keys: serde_saphyr::DuplicateKeyPolicy::LastWins,
        };
        let mut input = part.as_bytes();
        let mut values = serde_saphyr::read_with_options::<_, Value>(&mut input, options);
        values.next().map_or(Value::Null, |value| value.unwrap())
    };
    parts.iter().map(value).collect()
}

fn covers(named: &str, path: &str) -> bool {
    path == named || path.strip_prefix(named).is_some_and(|rest| rest.starts_with('/'))
}

/// The paths that a reading passes over, or ignores though they bear on where pods go.
fn missing(peer: &Peer) -> Vec<String> {
    let mut missing = Vec::new();
    let documents = documents(&peer.text);
    for expected in &peer.docs {
        let reading = Reading::of(&documents[expected.doc], Mode::AsWritten);
        let mut named: Vec<&str> = reading.honoured.iter().map(String::as_str).collect();
        named.extend(reading.refused.iter().map(|remark| remark.path.as_str()));
        for Bearing { path, class } in &expected.paths {
            let mut taken = named.clone();
            if !OF_PLACE.contains(&class.as_str()) {
                taken.extend(reading.ignored.iter().map(|remark| remark.path.as_str()));
            }
            let is_named = taken.iter().any(|name| covers(name, path) || covers(path, name));
            if !is_named {
                missing.push(format!("{} document {}: {path} ({class})", peer.path, expected.doc));
            }
        }
    }
    missing
}

#[test]
fn nothing_that_bears_on_placement_is_passed_over() {
    let peers = peers();
    assert!(peers.len() > 40);
    let missing: Vec<String> = peers.iter().flat_map(missing).collect();
    assert!(missing.is_empty(), "{missing:#?}");
}

/// The same of a whole collection: `PHALANX_MANIFESTS` names a folder with `manifests.jsonl.gz`
/// (`id`, `text`) and `expectations.jsonl` (`id`, `path`, `docs`).
#[test]
fn nothing_of_a_collection_is_passed_over() {
    #[derive(serde::Deserialize)]
    struct Manifest {
        id: String,
        text: String,
    }
    #[derive(serde::Deserialize)]
    struct Expectation {
        id: String,
        path: String,
        docs: Vec<Expected>,
    }
    let Ok(folder) = std::env::var("PHALANX_MANIFESTS") else { return };
    let text = unpacked(&std::fs::read(format!("{folder}/manifests.jsonl.gz")).unwrap());
    let manifests: Vec<Manifest> =
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let text = std::fs::read_to_string(format!("{folder}/expectations.jsonl")).unwrap();
    let mut missed = Vec::new();
    for line in text.lines() {
        let Expectation { id, path, docs } = serde_json::from_str(line).unwrap();
        let manifest = manifests.iter().find(|manifest| manifest.id == id).unwrap();
        missed.extend(missing(&Peer { path, text: manifest.text.clone(), docs }));
    }
    assert!(missed.is_empty(), "{missed:#?}");
}

/// Every pod that waits.
fn waiting(manifests: &Manifests) -> Vec<&phalanx::Pod> {
    manifests.groups.iter().flat_map(|group| group.all_pods()).collect()
}

#[test]
fn pods_of_refused_fields_are_left_alone_by_name() {
    let mut seen = 0;
    // The collection has few pods with refused fields.
    let pod = |annotations: &str, limits: &str| {
        format!(
            "{{apiVersion: v1, kind: Pod, metadata: {{name: p, annotations: {{{annotations}}}}}, \
             spec: {{containers: [{{name: c, resources: {{limits: {{{limits}}}}}}}]}}}}"
        )
    };
    let own = [
        pod("", "hygon.com/dcumem: 100"),
        pod("nvidia.com/vgpu-mode: mig", "nvidia.com/gpu: 1"),
        pod("scheduling.koordinator.sh/resource-spec: '{}'", "cpu: 1"),
    ];
    let peers = peers().into_iter().map(|peer| (peer.path, peer.text));
    for (path, text) in peers.chain(own.map(|text| ("own".to_owned(), text))) {
        for document in documents(&text) {
            let reading = Reading::of(&document, Mode::AsWritten);
            let mut reader = Reader::new(Mode::AsWritten);
            if reading.is_whole() || reader.take(&path, document).is_err() {
                continue;
            }
            // Groups without their pods, and workloads without their runtime, make no pods.
            let Ok(manifests) = reader.finish() else { continue };
            for pod in waiting(&manifests) {
                seen += 1;
                for remark in &reading.refused {
                    let named = |gate: &String| gate.contains(&remark.path);
                    assert!(pod.scheduling_gates.iter().any(named), "{path}: {pod:?}");
                }
            }
        }
    }
    assert!(seen > 2, "{seen}");
}

/// The value at a path, taken out.
fn without(value: &Value, path: &str) -> Value {
    let (step, rest) = match path[1..].split_once('/') {
        Some((step, rest)) => (step, Some(format!("/{rest}"))),
        None => (&path[1..], None),
    };
    let step = step.replace("~1", "/").replace("~0", "~");
    match (value, rest) {
        (Value::Map(entries), rest) => {
            let entries = entries.iter().filter_map(|(name, inner)| match &rest {
                _ if *name != step => Some((name.clone(), inner.clone())),
                Some(rest) => Some((name.clone(), without(inner, rest))),
                None => None,
            });
            Value::Map(entries.collect())
        }
        (Value::List(values), rest) => {
            let at: usize = step.parse().unwrap();
            let values = values.iter().enumerate().filter_map(|(index, inner)| match &rest {
                _ if index != at => Some(inner.clone()),
                Some(rest) => Some(without(inner, rest)),
                None => None,
            });
            Value::List(values.collect())
        }
        (other, _) => other.clone(),
    }
}

fn read(documents: &[Value], mode: Mode) -> String {
    let mut reader = Reader::new(mode);
    for document in documents {
        if let Err(error) = reader.take("m.yaml", document.clone()) {
            return error.to_string();
        }
    }
    reader.finish().map_or_else(|error| error.to_string(), |manifests| format!("{manifests:?}"))
}

/// Fields of documents that their account calls honoured and that change nothing when taken out.
fn unread(documents: &[Value]) -> Vec<String> {
    let whole = read(documents, Mode::AsWritten);
    let mut unread = Vec::new();
    for (at, document) in documents.iter().enumerate() {
        let reading = Reading::of(document, Mode::AsWritten);
        let holds: BTreeSet<&str> =
            reading.holds.iter().map(|remark| remark.path.as_str()).collect();
        for path in reading.honoured.iter().filter(|path| !holds.contains(path.as_str())) {
            let mut changed = documents.to_vec();
            changed[at] = without(document, path);
            if read(&changed, Mode::AsWritten) == whole {
                unread.push(format!("{} {path}", reading.kind));
            }
        }
    }
    unread
}

#[test]
fn what_is_honoured_is_read() {
    let text = include_str!("every_field.yaml");
    let documents: Vec<Value> = documents(text);
    for document in &documents {
        let reading = Reading::of(document, Mode::AsWritten);
        assert!(reading.is_whole(), "{}: {:?}", reading.name, reading.refused);
    }
    read_whole(&documents);
    let mut unread = unread(&documents);
    // Members must have the priority of their group anyway, and a suspended group has no pods.
    let expected = [
        "CompositePodGroup /spec/priorityClassName",
        "PodGroup /spec/priorityClassName",
        "RayCluster /spec/workerGroupSpecs/1/replicas",
        "RayCluster /spec/workerGroupSpecs/1/template/spec/containers/0/image",
    ];
    unread.retain(|path| !expected.contains(&path.as_str()));
    assert!(unread.is_empty(), "{unread:#?}");
}

fn read_whole(documents: &[Value]) {
    let whole = read(documents, Mode::AsWritten);
    assert!(whole.starts_with("Manifests"), "{whole}");
}

/// The table of fields in the guide. `PHALANX_WRITE_DOCS=1` writes it anew.
#[test]
fn the_guide_has_the_table_of_the_code() {
    const MARKS: [&str; 2] = ["<!-- fields: begin -->\n", "<!-- fields: end -->"];
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/kubernetes/fields.md");
    let text = std::fs::read_to_string(path).unwrap();
    let (before, rest) = text.split_once(MARKS[0]).unwrap();
    let (table, after) = rest.split_once(MARKS[1]).unwrap();
    let mut rows = String::from("| dialect | kind | field | | why |\n|---|---|---|---|---|\n");
    for row in phalanx::kubernetes::field_table() {
        let (dialect, kind, path) = (row.dialect, row.kind, row.path);
        rows.push_str(&format!(
            "| {dialect} | {kind} | `{path}` | {} | {} |\n",
            row.verdict, row.why
        ));
    }
    if std::env::var_os("PHALANX_WRITE_DOCS").is_some() {
        let text = [before, MARKS[0], &rows, MARKS[1], after].concat();
        std::fs::write(path, text).unwrap();
    } else {
        assert!(table == rows, "the guide is behind the code: see above how to write it");
    }
}

#[test]
fn examples_have_nothing_refused() {
    for name in ["cluster.yaml", "coscheduling.yaml", "kubernetes-1.36.yaml", "jobset.yaml"] {
        for document in documents(&example(name)) {
            let reading = Reading::of(&document, Mode::AsWritten);
            assert!(reading.is_whole(), "{name}: {:?}", reading.refused);
        }
    }
}

const POD: &str = "
apiVersion: v1
kind: Pod
metadata: {name: a, namespace: ml}
spec:
  containers: [{name: c, resources: {requests: {cpu: 1}}}]
";

fn gates(text: &str) -> Vec<String> {
    let manifests = written(text).unwrap();
    waiting(&manifests).iter().flat_map(|pod| pod.scheduling_gates.clone()).collect()
}

#[test]
fn a_field_that_nobody_knows_is_refused_in_manifests_and_as_stored() {
    let text = format!("{POD}  nodeFlavor: fast\n");
    let gate = "/spec/nodeFlavor is not in force: no field that is known";
    assert_eq!(gates(&text), [gate]);
    let manifests = stored(&text).unwrap();
    assert_eq!(waiting(&manifests)[0].scheduling_gates, [gate]);
    // What runs, runs.
    let manifests = written(&format!("{text}  nodeName: n1\n")).unwrap();
    assert!(manifests.bound[0].scheduling_gates.is_empty());
}

#[test]
fn what_stands_beside_pods_leaves_them_alone() {
    let range = "---
apiVersion: v1
kind: LimitRange
metadata: {name: defaults, namespace: ml}
spec: {limits: [{type: Container, defaultRequest: {memory: 1Gi}}]}
";
    assert!(gates(POD).is_empty());
    let gates = gates(&format!("{POD}{range}"));
    assert!(gates[0].starts_with("limitrange defaults: /spec is not in force"), "{gates:?}");
    // The API server has applied it.
    let manifests = stored(&format!("{POD}{range}")).unwrap();
    assert!(waiting(&manifests)[0].scheduling_gates.is_empty());
}

#[test]
fn flavours_with_nodes_leave_their_queue_alone() {
    let queued =
        POD.replace("namespace: ml", "namespace: ml, labels: {kueue.x-k8s.io/queue-name: lab}");
    let queues = |flavor: &str| {
        format!(
            "{queued}---
apiVersion: kueue.x-k8s.io/v1beta2
kind: LocalQueue
metadata: {{name: lab, namespace: ml}}
spec: {{clusterQueue: all}}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: ClusterQueue
metadata: {{name: all}}
spec: {{resourceGroups: [{{coveredResources: [cpu], flavors: [{{name: f}}]}}]}}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: ResourceFlavor
metadata: {{name: f}}
spec: {flavor}
"
        )
    };
    assert!(gates(&queues("{}")).is_empty());
    let gates = gates(&queues("{nodeLabels: {tier: fast}}"));
    assert!(gates[0].contains("resourceflavor f: /spec/nodeLabels/tier"), "{gates:?}");
}

#[test]
fn a_node_of_which_a_field_is_refused_takes_no_pods() {
    let node = "
apiVersion: v1
kind: Node
metadata: {name: n1, annotations: {hami.io/node-mlu-register: '[]'}}
status: {allocatable: {cpu: 8, pods: 10}}
";
    let manifests = written(node).unwrap();
    assert!(manifests.nodes[0].unschedulable);
    assert!(
        manifests.notes[0].text.starts_with("/metadata/annotations/hami.io~1node-mlu-register")
    );
}

/// Pods that a watch leaves alone.
fn left_alone(objects: &[serde_json::Value]) -> Vec<(String, String)> {
    use phalanx::kubernetes::watch::{Store, Update};
    let mut store = Store::new("phalanx");
    let mut found = Vec::new();
    for (version, object) in (1_u32..).zip(objects) {
        let mut object = object.clone();
        object["metadata"]["resourceVersion"] = version.to_string().into();
        let line = serde_json::json!({ "type": "ADDED", "object": object }).to_string();
        for update in store.apply(serde_json::from_str(&line).unwrap()).unwrap() {
            if let Update::LeftAlone { name, reason, .. } = update {
                found.push((name, reason));
            }
        }
    }
    found
}

#[test]
fn a_watch_leaves_every_member_of_a_group_alone_and_names_the_field() {
    use serde_json::json;
    let member = |name: &str, annotation: &str| {
        json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {
                "name": name, "namespace": "ml", "uid": name, "annotations": { annotation: "g" },
            },
            "spec": { "schedulerName": "phalanx", "containers": [{ "name": "c" }] },
        })
    };
    let volcano = "scheduling.k8s.io/group-name";
    let group = |spec: serde_json::Value| {
        json!({
            "apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "PodGroup",
            "metadata": { "name": "g", "namespace": "ml", "uid": "g" }, "spec": spec,
        })
    };
    for (spec, field) in [
        (
            json!({ "minMember": 2, "networkTopology": { "mode": "hard", "highestTierAllowed": 1 } }),
            "spec.networkTopology",
        ),
        (json!({ "minMember": 2, "subGroupPolicy": [{ "name": "a" }] }), "/spec/subGroupPolicy"),
        (json!({ "minMember": 2, "minRacks": 2 }), "/spec/minRacks"),
    ] {
        // Whether the group comes first or last.
        let members = [member("a", volcano), member("b", volcano)];
        let first = [vec![group(spec.clone())], members.to_vec()].concat();
        let last = [members.to_vec(), vec![group(spec)]].concat();
        for objects in [first, last] {
            let found = left_alone(&objects);
            let names: BTreeSet<&str> = found.iter().map(|(name, _)| name.as_str()).collect();
            assert_eq!(names, BTreeSet::from(["a", "b"]), "{found:?}");
            assert!(found.iter().all(|(_, reason)| reason.contains(field)), "{found:?}");
        }
    }
    // What no watch follows is refused by name, too.
    let mut part = member("k", "gpu-fraction");
    part["metadata"]["annotations"]["gpu-fraction"] = "0.5".into();
    let found = left_alone(&[part]);
    assert!(found[0].1.contains("parts of cards"), "{found:?}");
}
