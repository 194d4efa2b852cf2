//! Storage objects come from manifests and watches.

use phalanx::kubernetes::watch::{Kind, Store, Update, WatchEvent};
use phalanx::kubernetes::{Mode, Reader};
use phalanx::state::StorageKind;
use phalanx::{Cluster, Event, Framework, place_gang};
use serde_json::{Value, json};

fn objects() -> Value {
    json!([
        {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1", "labels": {"zone": "a"}},
         "status": {"capacity": {"cpu": "8", "pods": "9"}}},
        {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n2", "labels": {"zone": "b"}},
         "status": {"capacity": {"cpu": "8", "pods": "9"}}},
        {"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": "fast"},
         "provisioner": "csi", "volumeBindingMode": "WaitForFirstConsumer",
         "allowedTopologies": [{"matchLabelExpressions": [{"key": "zone", "values": ["b"]}]}]},
        {"apiVersion": "v1", "kind": "PersistentVolumeClaim",
         "metadata": {"name": "data", "namespace": "default"},
         "spec": {"accessModes": ["ReadWriteOnce"], "storageClassName": "fast",
                  "resources": {"requests": {"storage": "1Gi"}}}},
        {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"},
         "spec": {"containers": [{"name": "c"}],
                  "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]}}
    ])
}

#[test]
fn a_claim_of_a_manifest_decides_where_its_pod_goes() {
    let mut reader = Reader::new(Mode::AsWritten);
    let text = json!({"apiVersion": "v1", "kind": "List", "items": objects()}).to_string();
    reader.read("dump", &mut serde_json::Deserializer::from_str(&text)).unwrap();
    let manifests = reader.finish().unwrap();
    assert!(manifests.notes.is_empty(), "{:?}", manifests.notes);
    let mut cluster = Cluster::new();
    for node in manifests.nodes {
        cluster.add_node(node).unwrap();
    }
    let framework = Framework::kubernetes();
    let group = &manifests.groups[0];
    assert!(!place_gang(&cluster, &framework, group).unwrap().is_placed());
    for object in manifests.storage {
        cluster.set_storage(object).unwrap();
    }
    let outcome = place_gang(&cluster, &framework, group).unwrap();
    assert_eq!(outcome.plan().unwrap().pods_per_node(), [("n2", 1)]);
}

#[test]
fn watches_of_storage_are_events_of_the_cluster() {
    let mut store = Store::new("default-scheduler");
    let send = |store: &mut Store, verb: &str, mut object: Value, version: u64| {
        object["metadata"]["resourceVersion"] = version.to_string().into();
        let line = json!({"type": verb, "object": object}).to_string();
        store.apply(serde_json::from_str::<WatchEvent>(&line).unwrap()).unwrap()
    };
    let claim = objects()[3].clone();
    let updates = send(&mut store, "ADDED", claim.clone(), 5);
    let [Update::Event(Event::StorageChanged { object, version: 0 })] = &updates[..] else {
        panic!("{updates:?}")
    };
    assert_eq!(object.key().name, "default/data");
    assert!(send(&mut store, "MODIFIED", claim.clone(), 5).is_empty(), "stale");
    assert!(send(&mut store, "MODIFIED", claim.clone(), 6).is_empty(), "nothing has changed");
    let mut bound = claim.clone();
    bound["spec"]["volumeName"] = "v".into();
    bound["metadata"]["annotations"] = json!({"pv.kubernetes.io/bind-completed": "yes"});
    assert_eq!(send(&mut store, "MODIFIED", bound, 7).len(), 1);
    store.begin_list(Kind::Storage(StorageKind::Claim));
    let end = json!({"type": "BOOKMARK", "object": {"apiVersion": "v1",
        "kind": "PersistentVolumeClaim", "metadata": {"resourceVersion": "9",
        "annotations": {"k8s.io/initial-events-end": "true"}}}});
    let end: WatchEvent = serde_json::from_str(&end.to_string()).unwrap();
    let updates = store.apply(end).unwrap();
    assert!(matches!(&updates[..], [Update::Event(Event::StorageRemoved { .. })]), "{updates:?}");
}
