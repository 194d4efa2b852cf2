//! Plans bind volumes, commits keep them, and two gangs never get one volume.

use phalanx::model::{
    AccessMode, ClaimRef, LabelSelector, StorageCapacity, StorageDriver, VolumeBindings,
    VolumeClaim,
};
use phalanx::place::VolumeProblem;
use phalanx::reference::is_sound;
use phalanx::state::{Applied, StorageKey, StorageKind, StorageObject};
use phalanx::{Cluster, CommitError, Event, Framework, Plan, PodGroup, StateError, place_gang};

use super::{HOST, claim, cluster, gang, local};

fn plan(cluster: &Cluster, group: &PodGroup) -> Plan {
    let outcome = place_gang(cluster, &Framework::default(), group).unwrap();
    let plan = outcome.plan().unwrap_or_else(|| panic!("{outcome}")).clone();
    is_sound(&plan, group, cluster, &Framework::default()).unwrap();
    plan
}

fn bindings(plan: &Plan) -> Vec<VolumeBindings> {
    plan.assignments().map(|one| one.volumes().cloned().unwrap_or_default()).collect()
}

fn one_disk() -> Cluster {
    let mut cluster = cluster(&["a", "b"]);
    for object in [claim("x", "local", 5), claim("y", "local", 5)] {
        cluster.set_storage(object).unwrap();
    }
    cluster.set_storage(local("disk", 10, &["b"])).unwrap();
    cluster
}

#[test]
fn two_gangs_that_want_one_volume_conflict_by_name() {
    let mut cluster = one_disk();
    let framework = Framework::default();
    let (first, second) =
        (plan(&cluster, &gang("first", &[&["x"]])), plan(&cluster, &gang("second", &[&["y"]])));
    cluster.commit(&framework, &first).unwrap();
    let before = cluster.pod_count();
    let error = cluster.commit(&framework, &second).unwrap_err();
    let CommitError::Volumes { pod, node, problem } = &error else { panic!("{error}") };
    assert_eq!((pod.as_str(), node.as_str()), ("default/second-0", "b"));
    let VolumeProblem::Held { claim, volume, holder } = problem else { panic!("{error}") };
    assert_eq!((claim.as_str(), volume.as_str()), ("default/y", "disk"));
    assert_eq!((holder.as_str(), cluster.pod_count()), ("default/x", before));
    // The volume is given back if it was not written, and the plan holds again.
    let mut other = cluster.clone();
    other.release_claim("default", "x");
    other.commit(&framework, &second).unwrap();
    cluster.remove_pod("default", "first-0").unwrap();
    cluster.commit(&framework, &second).unwrap();
}

#[test]
fn a_volume_is_taken_only_for_the_access_that_it_offers() {
    use AccessMode::{ReadOnlyMany, ReadWriteMany, ReadWriteOnce};
    let place = |offered: &[AccessMode], asked: &[AccessMode]| {
        let mut cluster = cluster(&["a"]);
        let (offered, asked) = (offered.iter().copied(), asked.iter().copied());
        cluster.set_storage(local("disk", 10, &["a"]).access(offered)).unwrap();
        cluster.set_storage(claim("x", "local", 5).access(asked)).unwrap();
        let group = gang("g", &[&["x"]]);
        place_gang(&cluster, &Framework::default(), &group).unwrap().is_placed()
    };
    assert!(place(&[ReadWriteMany, ReadOnlyMany], &[ReadOnlyMany]));
    assert!(place(&[ReadWriteMany, ReadOnlyMany], &[ReadOnlyMany, ReadWriteMany]));
    assert!(!place(&[ReadWriteOnce], &[ReadWriteMany]));
    assert!(!place(&[ReadWriteMany], &[ReadOnlyMany, ReadWriteMany]));
    assert!(!place(&[], &[ReadWriteOnce]));
}

#[test]
fn what_a_commit_binds_is_saved_and_ends_with_an_event() {
    let mut cluster = one_disk();
    let framework = Framework::default();
    cluster.commit(&framework, &plan(&cluster, &gang("g", &[&["x"]]))).unwrap();
    let late = gang("late", &[&["y"]]);
    let text = serde_json::to_string(&cluster).unwrap();
    let mut saved: Cluster = serde_json::from_str(&text).unwrap();
    assert_eq!(serde_json::to_string(&saved).unwrap(), text);
    for cluster in [&mut cluster, &mut saved] {
        assert!(!place_gang(cluster, &framework, &late).unwrap().is_placed());
        // The volume is as it was: what was assumed is no longer.
        let object = StorageObject::from(local("disk", 10, &["b"]));
        let event = Event::StorageChanged { object, version: 7 };
        assert_eq!(cluster.apply(event.clone()).unwrap(), Applied::Changed);
        assert_eq!(cluster.apply(event).unwrap(), Applied::Stale);
        assert!(place_gang(cluster, &framework, &late).unwrap().is_placed());
        let key = StorageKey::new(StorageKind::Volume, "disk");
        let removed = Event::StorageRemoved { key, version: 8 };
        assert_eq!(cluster.apply(removed).unwrap(), Applied::Changed);
        assert!(!place_gang(cluster, &framework, &late).unwrap().is_placed());
        let object = StorageObject::from(local("disk", 10, &["b"]));
        let event = Event::StorageChanged { object, version: 8 };
        assert_eq!(cluster.apply(event).unwrap(), Applied::Stale);
    }
    let unsound = VolumeClaim::new("default", "");
    assert!(matches!(cluster.set_storage(unsound), Err(StateError::Model(_))));
    assert!(cluster.set_storage(claim("x", "local", -1)).is_err());
}

#[test]
fn a_plan_says_which_volumes_and_survives_as_data() {
    let mut cluster = cluster(&["a", "b"]);
    for object in [claim("x", "local", 5), claim("y", "local", 5), claim("m", "made", 5)] {
        cluster.set_storage(object).unwrap();
    }
    for object in [local("small", 6, &["b"]), local("large", 60, &["b"])] {
        cluster.set_storage(object).unwrap();
    }
    let group = gang("g", &[&["x", "m"], &["y"]]);
    let found = plan(&cluster, &group);
    let name = |name: &str| name.parse().unwrap();
    let [first, second] = &bindings(&found)[..] else { panic!() };
    assert_eq!(first.bind, [(name("default/x"), "small".to_string())]);
    assert_eq!(first.provision, [name("default/m")]);
    assert_eq!(second.bind, [(name("default/y"), "large".to_string())]);
    let text = serde_json::to_string(&found).unwrap();
    let read: Plan = serde_json::from_str(&text).unwrap();
    assert_eq!((bindings(&read), serde_json::to_string(&read).unwrap()), (bindings(&found), text));
    cluster.commit(&Framework::default(), &read).unwrap();
    let storage = cluster.storage();
    let made = storage.claim("default", "m").unwrap();
    assert_eq!(storage.selected_node(made), Some("b"));
    assert_eq!(storage.holder(storage.volume("large").unwrap()).unwrap().name, "y");
}

#[test]
fn a_transaction_takes_claims_back() {
    let cluster = one_disk();
    let framework = Framework::default();
    let mut txn = cluster.txn();
    let before = txn.checkpoint();
    let first = gang("first", &[&["x"]]);
    txn.place(&first.pods[0], txn.node("b").unwrap().id()).unwrap();
    let second = gang("second", &[&["y"]]);
    assert!(!place_gang(&txn, &framework, &second).unwrap().is_placed());
    // A pod that shares the claim follows it.
    let third = plan(&txn, &gang("third", &[&["x"]]));
    assert_eq!(third.pods_per_node(), [("b", 1)]);
    txn.rollback(before).unwrap();
    assert!(place_gang(&txn, &framework, &second).unwrap().is_placed());
}

#[test]
fn members_do_not_take_more_of_a_pool_than_it_has() {
    let mut cluster = cluster(&["a", "b"]);
    cluster.set_storage(StorageDriver::new("csi").tracking_capacity()).unwrap();
    for node in ["a", "b"] {
        let nodes = LabelSelector::label(HOST, node);
        cluster.set_storage(StorageCapacity::new(node, "made", nodes, 100)).unwrap();
    }
    for name in ["x", "y", "z"] {
        cluster.set_storage(claim(name, "made", 60)).unwrap();
    }
    let two = plan(&cluster, &gang("two", &[&["x"], &["y"]]));
    assert_eq!(two.pods_per_node(), [("a", 1), ("b", 1)]);
    let three = gang("three", &[&["x"], &["y"], &["z"]]);
    assert!(!place_gang(&cluster, &Framework::default(), &three).unwrap().is_placed());
}

/// A plan that was read is judged again, and members that share a claim took its storage twice then.
#[test]
fn a_claim_that_members_share_takes_its_storage_once() {
    let mut cluster = cluster(&["a", "b"]);
    cluster.set_storage(StorageDriver::new("csi").tracking_capacity()).unwrap();
    let nodes = LabelSelector::label(HOST, "a");
    cluster.set_storage(StorageCapacity::new("pool", "made", nodes, 100)).unwrap();
    cluster.set_storage(claim("x", "made", 60)).unwrap();
    let read = |plan: &Plan| -> Plan {
        serde_json::from_str(&serde_json::to_string(plan).unwrap()).unwrap()
    };
    let shared = plan(&cluster, &gang("shared", &[&["x"], &["x"]]));
    cluster.clone().commit(&Framework::default(), &read(&shared)).unwrap();
    // A volume is made on one node.
    let text = serde_json::to_string(&shared).unwrap();
    let at = text.rfind("\"node\":\"a\"").unwrap();
    let apart = format!("{}\"node\":\"b\"{}", &text[..at], &text[at + "\"node\":\"a\"".len()..]);
    let apart: Plan = serde_json::from_str(&apart).unwrap();
    assert!(cluster.commit(&Framework::default(), &apart).is_err());
}

#[test]
fn a_claim_that_a_pod_names_twice_is_one_claim() {
    let mut cluster = cluster(&["a"]);
    let single = claim("x", "made", 1).access([AccessMode::ReadWriteOncePod]);
    cluster.set_storage(single).unwrap();
    let plan = plan(&cluster, &gang("one", &[&["x", "x"]]));
    assert_eq!(bindings(&plan)[0].provision, ["default/x"]);
    cluster.commit(&Framework::default(), &plan).unwrap();
}

#[test]
fn a_claim_of_one_pod_has_one_in_a_gang_too() {
    let mut cluster = cluster(&["a", "b"]);
    let single = claim("x", "made", 1).access([AccessMode::ReadWriteOncePod]);
    cluster.set_storage(single).unwrap();
    let framework = Framework::default();
    assert!(place_gang(&cluster, &framework, &gang("one", &[&["x"]])).unwrap().is_placed());
    let two = gang("two", &[&["x"], &["x"]]);
    assert!(!place_gang(&cluster, &framework, &two).unwrap().is_placed());
    // Several pods of one node share a claim for which a volume is made.
    cluster.set_storage(claim("x", "made", 1)).unwrap();
    assert_eq!(plan(&cluster, &two).pods_per_node().len(), 1);
}

#[test]
fn explanations_name_the_claim() {
    let mut cluster = one_disk();
    cluster.set_storage(claim("y", "local", 50)).unwrap();
    let group = gang("g", &[&["x"], &["y"], &["none"]]);
    let told = phalanx::explain(&cluster, &Framework::default(), &group, None).unwrap().to_string();
    for line in [
        "on 1: claim default/x: no free volume of class local suits it",
        "on 2: claim default/y: no free volume of class local suits it",
        "on 2: claim default/none: does not exist",
    ] {
        assert!(told.contains(line), "{told}");
    }
}

#[test]
fn a_volume_is_set_aside_for_one_claim_and_its_successors_by_name_alone() {
    let reference = |namespace: &str, name: &str, uid: &str| ClaimRef {
        namespace: namespace.into(),
        name: name.into(),
        uid: uid.into(),
    };
    let mut claim = claim("x", "local", 5);
    claim.uid = "1".into();
    assert!(reference("default", "x", "1").means(&claim));
    assert!(reference("default", "x", "").means(&claim));
    assert!(!reference("default", "x", "2").means(&claim));
    assert!(!reference("default", "y", "1").means(&claim));
    assert!(!reference("other", "x", "1").means(&claim));
}
