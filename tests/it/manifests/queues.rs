//! Manifests of queues.

use std::fs;
use std::path::Path;

use phalanx::kubernetes::queues::QueueManifests;
use phalanx::kubernetes::{Mode, Value};
use phalanx::quota::{
    AssignmentMode as Fit, Claim, Flavor, KueueSettings, QueueKind, QueuePreemptionPolicy,
    UNLIMITED, Weight,
};

/// Contents of the documents of a text, or the first error.
pub(super) fn try_read(text: &str) -> Result<QueueManifests, String> {
    let mut manifests = QueueManifests::new(Mode::AsWritten);
    for document in serde_saphyr::from_multiple::<Value>(text).expect("sound YAML") {
        manifests.take(&document).map_err(|error| error.to_string())?;
    }
    Ok(manifests)
}

pub(super) fn read(text: &str) -> QueueManifests {
    try_read(text).expect("sound")
}

/// The text of an example.
pub(super) fn text(name: &str) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/manifests/queues");
    fs::read_to_string(folder.join(name)).expect("a file")
}

pub(super) fn example(name: &str) -> QueueManifests {
    read(&text(name))
}

fn workload(name: &str, count: u32, cpu: &str) -> String {
    format!(
        "apiVersion: kueue.x-k8s.io/v1beta2
kind: Workload
metadata: {{name: {name}, namespace: default, creationTimestamp: '2026-08-22T10:00:00Z'}}
spec:
  queueName: team-queue
  podSets:
  - name: main
    count: {count}
    minCount: 2
    template:
      spec:
        nodeSelector: {{node-type: spot}}
        containers: [{{name: a, resources: {{requests: {{cpu: '{cpu}'}}}}}}]
"
    )
}

#[test]
fn flavors_are_chosen_by_labels_and_credits_are_not_asked_for() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/manifests/queues");
    let mut text = fs::read_to_string(folder.join("kueue-shared-quota.yaml")).expect("a file");
    text += "---\napiVersion: v1\nkind: Namespace\nmetadata: {name: default}\n---\n";
    text += &workload("w", 3, "2");
    let manifests = read(&text);
    assert_eq!(manifests.notes, []);
    let mut tenants = manifests.tenants(KueueSettings::default()).expect("sound");
    let pending = manifests.pending().expect("sound");
    let names: Vec<&str> = pending.iter().map(|claim| claim.name.as_str()).collect();
    assert_eq!((names, pending[0].queue.as_str()), (vec!["default/w"], "team-cluster-queue"));
    assert_eq!(pending[0].pod_sets[0].min_count, Some(2));
    let assignment = tenants.decide(&pending[0]).expect("sound").assignment;
    assert_eq!(assignment.mode, Fit::Fit);
    let (of, amount) = assignment.usage[0];
    assert_eq!((tenants.tree().names(of), amount), (("spot", "cpu"), 6_000));
}

#[test]
fn what_is_not_understood_is_named() {
    let manifests = example("kueue-concurrent-admission.yaml");
    let notes: Vec<String> = manifests.notes.iter().map(ToString::to_string).collect();
    let expected =
        "clusterqueue team-cluster-queue: spec.concurrentAdmissionPolicy is not understood";
    assert_eq!(notes, [expected]);
    let odd = read(
        "{apiVersion: kueue.x-k8s.io/v1beta2, kind: ResourceFlavor, metadata: {name: f}, \
         spec: {topologyName: t}}\n---\n{apiVersion: kueue.x-k8s.io/v1beta2, kind: Topology, \
         metadata: {name: t}}",
    );
    assert_eq!(odd.notes[0].text, "spec.topologyName is not understood");
    assert_eq!(odd.ignored["kueue.x-k8s.io/Topology"], 1);
}

#[test]
fn a_team_in_a_cohort_arrives_with_its_policies() {
    let manifests = example("mlbatch-team.yaml");
    assert_eq!(manifests.notes, []);
    let queue = &manifests.queues[0];
    assert_eq!(queue.parent.as_deref(), Some("default-cohort"));
    let preemption = queue.preemption;
    assert_eq!(preemption.within_cluster_queue, QueuePreemptionPolicy::LowerOrNewerEqualPriority);
    assert_eq!(preemption.reclaim_within_cohort, QueuePreemptionPolicy::Any);
    assert!(!preemption.borrow_within_cohort.lower_priority);
    let mut tenants = manifests.tenants(KueueSettings::default()).expect("sound");
    let leaf = tenants.tree().queue(QueueKind::Leaf, "team1-cluster-queue").expect("there");
    let amount = |tenants: &phalanx::quota::Tenants, resource: &str| {
        let of = tenants.tree().flavor_resource("default-flavor", resource).expect("known");
        tenants.tree().sums(leaf, of).nominal
    };
    assert_eq!(amount(&tenants, "cpu"), 8_000);
    assert_eq!(amount(&tenants, "memory"), 128 << 30);
    assert!(!tenants.is_active(leaf), "the flavor has no manifest");
    tenants.set_flavor(Flavor::new("default-flavor"));
    assert!(tenants.is_active(leaf));
    // Pods are counted because the queue covers them.
    let mut claim = Claim::new("c", "team1-cluster-queue");
    claim = claim.pods(phalanx::quota::PodSet::new("main", 101, phalanx::model::Amounts::new()));
    assert_eq!(tenants.decide(&claim).expect("sound").assignment.mode, Fit::NoFit);
}

#[test]
fn weights_limits_and_what_is_held_arrive() {
    let text = "
apiVersion: kueue.x-k8s.io/v1beta2
kind: Cohort
metadata: {name: labs}
spec: {parentName: root, fairSharing: {weight: '0.5'}}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: ClusterQueue
metadata: {name: q}
spec:
  cohortName: labs
  stopPolicy: Hold
  resourceGroups:
  - coveredResources: [cpu]
    flavors:
    - name: f
      resources: [{name: cpu, nominalQuota: 1E, borrowingLimit: 2, lendingLimit: '500m'}]
---
apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata: {name: high}
value: 100
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: Workload
metadata: {name: w, annotations: {kueue.x-k8s.io/priority-boost: '7'}}
spec:
  queueName: lq
  priorityClassRef: {group: scheduling.k8s.io, kind: PriorityClass, name: high}
  podSets: [{template: {spec: {containers: [{name: a, resources: {requests: {cpu: 3}}}]}}}]
status:
  conditions:
  - {type: QuotaReserved, status: 'True', lastTransitionTime: '1970-01-01T00:01:00Z'}
  - {type: Evicted, status: 'True'}
  admission:
    clusterQueue: q
    podSetAssignments: [{name: main, flavors: {cpu: f}, resourceUsage: {cpu: 3}}]
";
    let manifests = read(text);
    assert_eq!(manifests.queues[0].weight, Weight::from_nanos(500_000_000));
    let tenants = manifests.tenants(KueueSettings::default()).expect("sound");
    let leaf = tenants.tree().queue(QueueKind::Leaf, "q").expect("there");
    let cpu = tenants.tree().flavor_resource("f", "cpu").expect("known");
    let quota = tenants.tree().quota(leaf, cpu).expect("stated");
    assert_eq!(quota.nominal, UNLIMITED);
    assert_eq!((quota.borrowing_limit, quota.lending_limit), (Some(2_000), Some(500)));
    assert_eq!(tenants.tree().sums(leaf, cpu).used, 3_000);
    let holder = tenants.find("default/w").and_then(|id| tenants.holder(id)).expect("held");
    assert_eq!((holder.priority, holder.leaving), (107, true));
    assert_eq!(holder.reserved, phalanx::Time::from_secs(60));
    assert!(tenants.tree().spec(leaf).expect("there").stopped);
}

#[test]
fn bad_manifests_are_errors_that_name_the_field() {
    let bad = |spec: &str| {
        let text = format!(
            "{{apiVersion: kueue.x-k8s.io/v1beta2, kind: ClusterQueue, metadata: {{name: q}}, \
             spec: {spec}}}"
        );
        let mut manifests = QueueManifests::new(Mode::AsWritten);
        let document: Value = serde_saphyr::from_str(&text).expect("YAML");
        manifests.take(&document).expect_err("bad").to_string()
    };
    let quota = |quota: &str| {
        format!(
            "{{resourceGroups: [{{coveredResources: [cpu], flavors: [{{name: f, resources: \
             [{{name: cpu, {quota}}}]}}]}}]}}"
        )
    };
    for (spec, part) in [
        ("{queueingStrategy: Random}".to_string(), "spec.queueingStrategy"),
        ("{preemption: {withinClusterQueue: Any}}".into(), "spec.preemption.withinClusterQueue"),
        (quota("nominalQuota: -1"), "nominalQuota"),
        (quota("nominalQuota: many"), "nominalQuota"),
        (quota("borrowingLimit: 1"), "nominalQuota"),
    ] {
        let error = bad(&spec);
        assert!(error.contains("clusterqueue q") && error.contains(part), "{error}");
    }
}
