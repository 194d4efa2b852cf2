//! Faults that altered documents found, each by its smallest case.

use phalanx::kubernetes::watch::{Kind, Store, WatchEvent};
use phalanx::queue::{Backfill, PriorityThenTime, SavedScheduler, Settings};
use phalanx::{Cluster, Framework, Node, Pod, PodGroup, Scheduler, Time};
use serde_json::{Value, json};

use crate::everything;

const NOW: Time = Time::from_secs(1);

fn apply(store: &mut Store, word: &str, version: u64, mut object: Value) {
    object["metadata"]["resourceVersion"] = version.to_string().into();
    let line = json!({"type": word, "object": object});
    let event: WatchEvent = serde_json::from_value(line).unwrap();
    store.apply(event).unwrap();
}

/// A pod of a group that is made again for another scheduler while the watch is broken: the group
/// counted it as its scheduler's own, and counted it off as another's.
#[test]
fn a_pod_that_changes_its_scheduler_is_counted_for_the_new_one() {
    let pod = |scheduler: &str, uid: &str| {
        json!({"apiVersion": "v1", "kind": "Pod",
            "metadata": {"namespace": "default", "name": "p", "uid": uid},
            "spec": {"schedulerName": scheduler, "containers": [],
                "schedulingGroup": {"podGroupName": "g"}}})
    };
    for (first, second) in [("other", "phalanx"), ("phalanx", "other")] {
        let mut store = Store::new("phalanx");
        apply(&mut store, "ADDED", 1, pod(first, "1"));
        store.begin_list(Kind::Pod);
        apply(&mut store, "ADDED", 2, pod(second, "2"));
        apply(&mut store, "DELETED", 3, pod(second, "2"));
        assert!(store.waiting_pods("default/g").is_empty());
    }
}

/// A scheduler with a gang that runs, as a document.
fn saved() -> Value {
    let mut cluster = Cluster::new();
    cluster.add_node(Node::new("n").capacity("cpu", 4)).unwrap();
    let mut scheduler = Scheduler::new(cluster, Framework::default(), Settings::new());
    let gang = PodGroup::gang("g", 2).pods(2, Pod::new().request("cpu", 1));
    scheduler.handle_group(gang, NOW).unwrap();
    while let Some(decision) = scheduler.poll_decision(NOW) {
        let phalanx::Decision::Bind { ticket, .. } = decision else { panic!("{decision:?}") };
        scheduler.handle_bound(ticket, NOW).unwrap();
    }
    serde_json::to_value(scheduler.save()).unwrap()
}

/// A member that is bound and not in the cluster was taken as it is.
#[test]
fn a_save_of_which_the_parts_contradict_each_other_is_refused() {
    let read = |document: &Value| serde_json::from_value::<SavedScheduler>(document.clone());
    let right = saved();
    let scheduler =
        Scheduler::restore(read(&right).unwrap(), Framework::default(), PriorityThenTime);
    scheduler.check().unwrap();
    let mut wrong = right.clone();
    let pods = wrong["cluster"]["pods"].as_array_mut().expect("a list of pods");
    assert_eq!(pods.len(), 2);
    pods.pop();
    let error = read(&wrong).unwrap_err().to_string();
    assert!(error.contains("default/g-1 is Bound"), "{error}");
}

/// A promise to one group under the name of another outlived the other, and then named a group that was gone.
#[test]
fn a_save_of_which_a_hold_is_for_another_group_is_refused() {
    let mut kinds = std::collections::BTreeSet::new();
    for (text, _) in (0..20).flat_map(|seed| everything::saved(seed, 10).take(6)) {
        let right: Value = serde_json::from_str(&text).unwrap();
        let groups: Vec<Value> =
            right["groups"].as_array().unwrap().iter().map(|group| group[0].clone()).collect();
        for (place, hold) in right["holds"].as_array().unwrap().iter().enumerate() {
            let owners = hold[1]["owners"].as_array().unwrap();
            let Some(other) = groups.iter().find(|group| !owners.contains(group)) else { continue };
            let mut wrong = right.clone();
            wrong["holds"][place][1]["owners"] = json!([other]);
            let read: Result<SavedScheduler, _> = serde_json::from_value(wrong);
            assert!(read.is_err(), "{hold}");
            kinds.extend(hold[0].as_object().unwrap().keys().cloned());
        }
    }
    assert!(["Plan", "Room", "Promise"].iter().all(|kind| kinds.contains(*kind)), "{kinds:?}");
}

/// The number of a member's leaf was taken for a length.
#[test]
fn a_member_of_a_leaf_that_is_not_there_has_no_demand() {
    let settings = Settings::new().backfill(Backfill::easy());
    let mut scheduler = Scheduler::new(Cluster::new(), Framework::default(), settings);
    scheduler.handle_group(PodGroup::of("g", 1, Pod::new().request("cpu", 1)), NOW).unwrap();
    let mut text = serde_json::to_string(&scheduler.save()).unwrap();
    assert_eq!(text.matches(r#""leaf":0"#).count(), 1);
    text = text.replace(r#""leaf":0"#, &format!(r#""leaf":{}"#, usize::MAX / 2));
    let marred: SavedScheduler = serde_json::from_str(&text).unwrap();
    let mut scheduler = Scheduler::restore(marred, Framework::default(), PriorityThenTime);
    assert!(scheduler.poll_decision(NOW).is_none());
}
