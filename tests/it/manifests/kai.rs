//! Manifests of KAI's queues and pod groups.

use std::time::Duration;

use phalanx::quota::kai::KaiSettings;
use phalanx::quota::{QueueKind, UNLIMITED, Weight};

use super::queues::{example, read, text, try_read};

#[test]
fn queues_stand_as_their_manifests_say() {
    let manifests = example("kai-default-queues.yaml");
    assert!(manifests.notes.is_empty(), "{:?}", manifests.notes);
    let tenants = manifests.kai_tenants(KaiSettings::default()).expect("sound");
    let tree = tenants.tree();
    assert!(tree.queue(QueueKind::Inner, "default-parent-queue").is_some());
    let leaf = tree.queue(QueueKind::Leaf, "default-queue").expect("no queue is below it");
    let gpu = tree.flavor_resource("default", "nvidia.com/gpu").expect("known");
    let quota = tree.quota(leaf, gpu).expect("stated");
    assert_eq!((quota.deserved, quota.limit), (Some(0), Some(UNLIMITED)));
    assert_eq!(quota.over_quota_weight, Some(Weight::ONE));
}

#[test]
fn what_is_omitted_is_nothing_and_what_is_not_known_is_noted() {
    let text = text("kai-shards.yaml");
    let class = "---
apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata: {name: train}
value: 50
";
    let manifests = read(&format!("{text}{class}"));
    assert_eq!(manifests.notes.len(), 1, "{:?}", manifests.notes);
    assert!(manifests.notes[0].to_string().contains("resourceQuota"), "{}", manifests.notes[0]);
    let queues = &manifests.kai_queues;
    let gpu = queues[1].resources["nvidia.com/gpu"];
    // A limit that is not stated is 0, as in KAI.
    assert_eq!((gpu.quota, gpu.limit), (10_000, 0));
    assert_eq!((queues[1].priority, queues[2].priority), (100, 50));
    let groups = manifests.kai_pod_groups().expect("the class is there");
    assert_eq!((groups[0].queue.as_str(), groups[0].priority), ("foo-queue-test", 50));
    assert!(!groups[0].non_preemptible);
    assert!(read(&text).kai_pod_groups().is_err(), "the class is not there");
}

#[test]
fn minimum_run_times_are_the_queues() {
    let manifests = example("kai-min-runtime.yaml");
    let runtime = manifests.kai_queues[0].min_runtime;
    assert_eq!(runtime.preempt, Some(Duration::from_secs(20)));
    assert_eq!(runtime.reclaim, Some(Duration::from_secs(30)));
}

const HALF: &str = "apiVersion: scheduling.run.ai/v2
kind: Queue
metadata: {name: half}
spec:
  resources:
    gpu: {quota: 0.5, limit: -1, overQuotaWeight: 1.5}
    cpu: {quota: 32000, limit: -1}
    memory: {quota: 4, limit: -1}
";

#[test]
fn parts_of_devices_need_devices_that_count_in_parts() {
    let manifests = read(HALF);
    assert!(manifests.kai_tenants(KaiSettings::default()).is_err());
    let settings = KaiSettings::default().unit("nvidia.com/gpu", 1000);
    let tenants = manifests.kai_tenants(settings).expect("thousandths");
    let tree = tenants.tree();
    let leaf = tree.queue(QueueKind::Leaf, "half").expect("known");
    let deserved = |resource: &str| {
        let of = tree.flavor_resource("default", resource).expect("known");
        tree.quota(leaf, of).and_then(|quota| quota.deserved)
    };
    assert_eq!(deserved("nvidia.com/gpu"), Some(500));
    assert_eq!(deserved("cpu"), Some(32_000));
    assert_eq!(deserved("memory"), Some(4_000_000));
}

#[test]
fn groups_inside_are_a_tree_and_circles_are_refused() {
    let group = |inner: &str| {
        format!(
            "apiVersion: scheduling.run.ai/v2alpha2
kind: PodGroup
metadata: {{name: serve, namespace: a}}
spec:
  queue: q
  preemptibility: non-preemptible
  topologyConstraint: {{topology: t, requiredTopologyLevel: block}}
  subGroups:
{inner}"
        )
    };
    let manifests = read(&group(
        "  - {name: prefill, minMember: 1}
  - {name: workers, parent: prefill, minMember: 4}
  - {name: leader, parent: prefill, minMember: 1}
  - {name: decode, minMember: 2}
",
    ));
    let groups = manifests.kai_pod_groups().expect("sound");
    let own = &groups[0];
    assert!(own.non_preemptible);
    assert_eq!(own.policy.minimum(), 2);
    assert_eq!(own.groups[0].groups[0].name, "workers");
    let refused = |inner: &str| try_read(&group(inner)).expect_err("refused");
    let circle = refused("  - {name: a, parent: b}\n  - {name: b, parent: a}\n");
    assert!(circle.contains("subGroups"), "{circle}");
    let twice = refused("  - {name: a}\n  - {name: a}\n");
    assert!(twice.contains("name"), "{twice}");
    let unknown = refused("  - {name: a, parent: nowhere}\n");
    assert!(unknown.contains("nowhere"), "{unknown}");
}
