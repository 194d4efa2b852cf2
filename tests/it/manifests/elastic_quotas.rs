//! Koordinator's quotas, and what pods say of themselves in its words.

use phalanx::kubernetes::queues::QueueManifests;
use phalanx::kubernetes::{Mode, Reader, Value};
use phalanx::model::{Amounts, Labels, PriorityBand, QosClass};
use phalanx::quota::{
    DEFAULT_QUOTA, ElasticQuotaError, KoordinatorSettings, Queue, QueueKind, QuotaTopology,
    ROOT_QUOTA, Tenants,
};

use super::queues::{example, read};

fn total() -> Amounts {
    let mut total = Amounts::new();
    total.set("cpu", 100_000);
    total.set("memory", 400 << 30);
    total.set("nvidia.com/gpu", 64);
    total
}

/// The queue of a name, as it stands in the tree.
fn stated(tenants: &Tenants, name: &str) -> Option<Queue> {
    let tree = tenants.tree();
    let kinds = [QueueKind::Leaf, QueueKind::Inner];
    tree.spec(kinds.into_iter().find_map(|kind| tree.queue(kind, name))?).cloned()
}

#[test]
fn the_quota_of_a_namespace_arrives() {
    let manifests = example("koordinator-namespace.yaml");
    assert_eq!(manifests.notes, []);
    let (namespace, quota) = &manifests.elastic_quotas[0];
    assert_eq!((namespace.as_str(), quota.parent.as_str()), ("quota-example", ROOT_QUOTA));
    assert!(quota.allow_lent && !quota.is_parent);
    let cpu = [&quota.min, &quota.max].map(|amounts| amounts.of("cpu"));
    let memory = [&quota.min, &quota.max].map(|amounts| amounts.of("memory"));
    assert_eq!((cpu, memory), ([10_000, 40_000], [20 << 20, 40 << 30]));
    let mut labels = Labels::new();
    assert_eq!(manifests.elastic_quota_of("quota-example", &labels), "quota-example");
    assert_eq!(manifests.elastic_quota_of("default", &labels), DEFAULT_QUOTA);
    labels.insert("quota.scheduling.koordinator.sh/name".into(), "own".into());
    assert_eq!(manifests.elastic_quota_of("quota-example", &labels), "own");
    let tenants = manifests.koordinator(KoordinatorSettings::default(), &total()).expect("sound");
    assert_eq!(stated(&tenants, "quota-example").as_ref(), Some(&quota.queue("all")));
}

#[test]
fn a_pair_that_the_webhook_refuses_is_refused() {
    let manifests = example("koordinator-parent.yaml");
    assert_eq!(manifests.notes, []);
    let mut topology = QuotaTopology::default();
    let mut quotas = manifests.elastic_quotas.iter().map(|(_, quota)| quota.clone());
    assert_eq!(topology.put(quotas.next().expect("the parent")), Ok(()));
    let parent = topology.quota("quota-parent-example");
    assert_eq!(parent, manifests.elastic_quotas.first().map(|(_, quota)| quota));
    assert_eq!(topology.quota("quota-example"), None);
    let refused = ElasticQuotaError::MinSum("quota-parent-example".into());
    assert_eq!(topology.put(quotas.next().expect("the child")), Err(refused));
    // Runtimes are computed of it all the same, as in Koordinator's scheduler.
    let tenants = manifests.koordinator(KoordinatorSettings::default(), &total()).expect("sound");
    let child = stated(&tenants, "quota-example").expect("there");
    assert_eq!(child.parent.as_deref(), Some("quota-parent-example"));
    let flavors = child.groups.iter().flat_map(|group| &group.flavors);
    let cpu = flavors.flat_map(|own| &own.resources).find(|(resource, _)| resource == "cpu");
    let cpu = cpu.map(|(_, quota)| quota).expect("stated");
    let weight = cpu.weight.map(|weight| weight.as_nanos() as i64);
    assert_eq!(weight.or(cpu.limit), Some(40_000));
}

#[test]
fn the_gpus_of_a_team_arrive() {
    let manifests = example("koordinator-gpu.yaml");
    assert_eq!(manifests.notes, []);
    let quota = &manifests.elastic_quotas[0].1;
    let gpus = [&quota.min, &quota.max].map(|amounts| amounts.of("nvidia.com/gpu"));
    assert_eq!(gpus, [16, 40]);
}

#[test]
fn labels_and_annotations_are_read_and_the_rest_is_named() {
    let manifests = read(
        "apiVersion: scheduling.sigs.k8s.io/v1alpha1
kind: ElasticQuota
metadata:
  name: q
  labels:
    quota.scheduling.koordinator.sh/parent: p
    quota.scheduling.koordinator.sh/is-parent: 'true'
    quota.scheduling.koordinator.sh/allow-lent-resource: 'false'
    quota.scheduling.koordinator.sh/tree-id: t
    quota.scheduling.koordinator.sh/is-root: 'true'
    quota.scheduling.koordinator.sh/allow-force-update: 'true'
    quota.scheduling.koordinator.sh/odd: x
    team: a
  annotations:
    quota.scheduling.koordinator.sh/shared-weight: '{\"cpu\": \"500m\", \"gpu\": 3}'
    quota.scheduling.koordinator.sh/namespaces: '[\"a\", \"b\"]'
    quota.scheduling.koordinator.sh/runtime: '{\"cpu\": 4}'
    quota.scheduling.koordinator.sh/max-strict-check-resource-keys: '[\"cpu\"]'
spec: {min: {cpu: 1}, max: {cpu: 2}, other: 1}
",
    );
    let (namespace, quota) = &manifests.elastic_quotas[0];
    assert_eq!((namespace.as_str(), quota.parent.as_str()), ("default", "p"));
    assert_eq!((quota.is_parent, quota.allow_lent, quota.tree_id.as_str()), (true, false, "t"));
    assert_eq!((quota.is_tree_root, quota.force_update), (true, true));
    assert_eq!((quota.shared_weight.of("cpu"), quota.shared_weight.of("gpu")), (500, 3));
    assert_eq!(manifests.elastic_namespaces["b"], "q");
    let notes: Vec<&str> = manifests.notes.iter().map(|note| note.text.as_str()).collect();
    assert_eq!(notes.len(), 3, "{notes:?}");
    for (note, part) in notes.iter().zip(["spec.other", "/odd", "max-strict-check"]) {
        assert!(note.contains(part) && note.ends_with("is not understood"), "{note}");
    }
    // Weights that cannot be read are the maxima, as in Koordinator, and are named.
    let odd = read(
        "{apiVersion: scheduling.sigs.k8s.io/v1alpha1, kind: ElasticQuota, metadata: {name: q, \
         annotations: {quota.scheduling.koordinator.sh/shared-weight: '[1]'}}, spec: {max: {cpu: 2}}}",
    );
    assert_eq!(odd.notes.len(), 1);
    assert_eq!(odd.elastic_quotas[0].1.weights().of("cpu"), 2_000);
    let mut manifests = QueueManifests::new(Mode::AsWritten);
    let negative: Value = serde_json::from_value(serde_json::json!({
        "apiVersion": "scheduling.sigs.k8s.io/v1alpha1", "kind": "ElasticQuota",
        "metadata": {"name": "q"}, "spec": {"min": {"cpu": "-1"}},
    }))
    .expect("a value");
    let error = manifests.take(&negative).expect_err("negative").to_string();
    assert!(error.contains("elasticquota default/q") && error.contains("spec.min"), "{error}");
}

#[test]
fn pods_name_quota_class_and_band() {
    let pod = |name: &str, rest: &str| {
        serde_json::from_str::<Value>(&format!(
            r#"{{"apiVersion": "v1", "kind": "Pod", "metadata": {{"name": "{name}", "labels": {{
                "quota.scheduling.koordinator.sh/name": "vision"{rest}}}}},
                "spec": {{"priority": 5500, "containers": [{{"name": "a", "resources": {{
                "requests": {{"kubernetes.io/batch-cpu": 2000}},
                "limits": {{"kubernetes.io/batch-cpu": 2000}}}}}}]}}}}"#
        ))
        .expect("a value")
    };
    let mut reader = Reader::new(Mode::AsStored);
    let own = r#", "koordinator.sh/qosClass": "BE""#;
    reader.take("a", pod("be", own)).expect("sound");
    reader.take("b", pod("plain", "")).expect("sound");
    let manifests = reader.finish().expect("sound");
    for group in &manifests.groups {
        assert_eq!(group.queue, "vision");
        let shape = group.pods[0].shape();
        assert_eq!(shape.band(), PriorityBand::Batch);
        assert_eq!(shape.limit("kubernetes.io/batch-cpu"), 2_000);
    }
    let be = manifests.groups.iter().find(|group| group.name == "be").expect("there");
    assert_eq!(be.pods[0].shape().qos(), QosClass::Be);
}
