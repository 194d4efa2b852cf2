//! Gangs of every dialect, in pairs: an example is placed on the fewest nodes that its minimum needs,
//! and not on one fewer; the answer names the group, and how many of its pods have room.

use phalanx::kubernetes::Mode;
use phalanx::{Cluster, Framework, Outcome, explain, place_gang, reference};

use super::reading::{example, examples, read_yaml};

/// Nodes for one pod each, with GPUs.
fn nodes(count: usize) -> String {
    let node = |index: usize| {
        format!(
            "---
apiVersion: v1
kind: Node
metadata: {{name: n{index}, labels: {{kubernetes.io/hostname: n{index}, topology.kubernetes.io/zone: z1, topology.kubernetes.io/rack: r1}}}}
status: {{allocatable: {{cpu: 96, memory: 768Gi, nvidia.com/gpu: 8, pods: 1}}}}
"
        )
    };
    (0..count).map(node).collect()
}

/// The outcome for each group of an example on nodes of its own, as the pods placed, or the reason.
fn placed(name: &str, nodes: &str) -> Vec<Result<usize, String>> {
    let text = example(name);
    let manifests = read_yaml(Mode::AsWritten, &[("nodes.yaml", nodes), (name, &text)]).unwrap();
    let framework = Framework::default();
    let answers = manifests.groups.iter().map(|group| {
        let mut cluster = Cluster::builder().levels(manifests.levels.clone()).build().unwrap();
        for node in &manifests.nodes {
            cluster.add_node(node.clone()).unwrap();
        }
        let Outcome::Placed(plan) = place_gang(&cluster, &framework, group).unwrap() else {
            return Err(explain(&cluster, &framework, group, None).unwrap().to_string());
        };
        reference::is_sound(&plan, group, &cluster, &framework).unwrap();
        Ok(plan.assignments().count())
    });
    answers.collect()
}

/// The pods that must start together, by group of each example.
const MINIMA: [(&str, &[usize]); 19] = [
    ("coscheduling.yaml", &[3]),
    ("job.yaml", &[4]),
    // The workers start after the driver.
    ("jobset.yaml", &[1]),
    ("koordinator.yaml", &[4, 1]),
    ("kubernetes-1.35.yaml", &[4]),
    ("kubernetes-1.36.yaml", &[4]),
    ("kubernetes-1.37-composite.yaml", &[6]),
    ("label-pair.yaml", &[3]),
    ("leaderworkerset.yaml", &[4, 4]),
    // The launcher starts after the workers.
    ("mpijob.yaml", &[4]),
    ("pytorchjob.yaml", &[3]),
    ("raycluster.yaml", &[3]),
    ("rayjob.yaml", &[3]),
    ("statefulset.yaml", &[3]),
    ("tfjob.yaml", &[6]),
    ("trainjob.yaml", &[4]),
    ("volcano-job.yaml", &[4]),
    ("volcano-podgroup.yaml", &[4]),
    ("xgboostjob.yaml", &[4]),
];

/// Examples whose groups have no groups inside: the answer counts their pods.
const FLAT: [&str; 8] = [
    "coscheduling.yaml",
    "job.yaml",
    "koordinator.yaml",
    "kubernetes-1.35.yaml",
    "kubernetes-1.36.yaml",
    "label-pair.yaml",
    "statefulset.yaml",
    "trainjob.yaml",
];

#[test]
fn every_example_is_placed_whole_or_not_at_all_and_says_why() {
    let files = examples();
    let names = files.iter().map(|path| path.file_name().unwrap().to_str().unwrap());
    let names: Vec<&str> = names.filter(|name| *name != "cluster.yaml").collect();
    assert_eq!(names, MINIMA.map(|(name, _)| name));
    for (name, minima) in MINIMA {
        for (at, minimum) in minima.iter().enumerate() {
            let whole = placed(name, &nodes(*minimum));
            assert_eq!(whole.len(), minima.len(), "{name}");
            assert_eq!(whole[at].as_ref(), Ok(minimum), "{name}");
            let short = placed(name, &nodes(minimum - 1)).swap_remove(at);
            let why = short.expect_err("one node is missing");
            assert!(why.contains("team-a/"), "{name}: {why}");
            if FLAT.contains(&name) && *minimum > 1 {
                let lack = format!("needs {minimum} of pods, {} are free", minimum - 1);
                assert!(why.contains(&lack), "{name}: {why}");
            }
            // Nodes without room for what one pod asks: the plugin that refuses them is named.
            let small = nodes(*minimum).replace("cpu: 96", "cpu: 0");
            let why = placed(name, &small).swap_remove(at).expect_err("no node has a CPU");
            assert!(why.contains("Fit rejects "), "{name}: {why}");
        }
    }
}

#[test]
fn an_object_with_a_generated_name_is_read_as_often_as_it_stands() {
    let job = "---
apiVersion: batch/v1
kind: Job
metadata: {generateName: sample-, labels: {kueue.x-k8s.io/queue-name: q}}
spec:
  parallelism: 2
  completions: 2
  completionMode: Indexed
  template: {spec: {containers: [{name: c, resources: {requests: {cpu: 1}}}]}}
";
    let text = format!("{job}{job}");
    let manifests = read_yaml(Mode::AsWritten, &[("m.yaml", &text)]).unwrap();
    let names: Vec<&str> = manifests.groups.iter().map(|group| group.name.as_str()).collect();
    assert_eq!(names, ["sample-00000", "sample-00001"]);
    // An API server stores no object without a name.
    assert!(read_yaml(Mode::AsStored, &[("m.yaml", job)]).is_err());
}
