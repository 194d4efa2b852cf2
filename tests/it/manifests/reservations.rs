//! Koordinator's `Reservation`, read as a booking.

use phalanx::kubernetes::queues::reservation;
use phalanx::kubernetes::{Mode, Value};
use phalanx::model::LabelSelector;
use phalanx::queue::{Booking, BookingOwner, Settings};
use phalanx::{Cluster, Decision, Framework, Node, ObjectName, Pod, PodGroup, Scheduler, Time};

const TEMPLATE: &str = r#""template": {"metadata": {"namespace": "lab"}, "spec": {"containers": [
    {"name": "main", "resources": {"requests": {"cpu": "4"}}}]}}"#;
const OWNER: &str = r#""owners": [{"labelSelector": {"matchLabels": {"app": "own"}}}]"#;

fn read(metadata: &str, spec: &str, secs: u64) -> Result<Option<Booking>, String> {
    let text = format!(
        r#"{{"apiVersion": "scheduling.koordinator.sh/v1alpha1", "kind": "Reservation",
            "metadata": {{"name": "r"{metadata}}}, "spec": {{{TEMPLATE}{spec}}}}}"#
    );
    let value: Value = serde_json::from_str(&text).unwrap();
    let found = reservation(&value, Mode::AsWritten, Time::from_secs(secs));
    found.map_err(|error| error.to_string())
}

fn owned(spec: &str, secs: u64) -> Option<Booking> {
    read("", &format!(", {OWNER}{spec}"), secs).unwrap()
}

#[test]
fn the_window_is_the_life_of_the_reservation() {
    let created = r#", "creationTimestamp": "1970-01-01T00:01:40Z""#;
    let window = |spec: &str, secs| {
        let found = read(created, &format!(", {OWNER}{spec}"), secs).unwrap();
        found.map(|own| (own.from.as_secs(), own.until.as_secs()))
    };
    assert_eq!(window("", 200), Some((100, 100 + 24 * 3_600)));
    assert_eq!(window(r#", "ttl": "30m""#, 200), Some((100, 1_900)));
    assert_eq!(window(r#", "ttl": "30m""#, 1_900), None, "it is over");
    let never = read(created, &format!(r#", {OWNER}, "ttl": "0s""#), 1_000_000).unwrap().unwrap();
    assert_eq!(never.until, Time::MAX);
    let expires = r#", "ttl": "1h", "expires": "1970-01-01T00:05:00Z""#;
    assert_eq!(window(expires, 200), Some((100, 300)));
    // Without a time of its creation, it begins now.
    assert_eq!(owned("", 7).map(|own| own.from), Some(Time::from_secs(7)));
}

#[test]
fn room_that_is_available_stays_on_its_node() {
    let on = |status: &str| {
        let text = format!(
            r#"{{"apiVersion": "scheduling.koordinator.sh/v1alpha1", "kind": "Reservation",
                "metadata": {{"name": "r"}}, "spec": {{{TEMPLATE}, {OWNER}}}, "status": {status}}}"#
        );
        let value: Value = serde_json::from_str(&text).unwrap();
        let booking = reservation(&value, Mode::AsWritten, Time::ZERO).unwrap()?;
        let mut cluster = Cluster::new();
        for name in ["n1", "n2"] {
            cluster.add_node(Node::new(name).capacity("cpu", 8).capacity("pods", 10)).unwrap();
        }
        let mut scheduler = Scheduler::new(cluster, Framework::default(), Settings::default());
        scheduler.handle_booking(booking, Time::ZERO).unwrap();
        scheduler.poll_decision(Time::ZERO);
        scheduler.bookings()[0].kept.keys().next().cloned()
    };
    assert_eq!(on(r#"{"phase": "Available", "nodeName": "n2"}"#).as_deref(), Some("n2"));
    assert_eq!(on(r#"{"phase": "Pending", "nodeName": "n2"}"#).as_deref(), Some("n1"));
    assert_eq!(on(r#"{"phase": "Available", "nodeName": "n3"}"#), None, "its node is gone");
    assert_eq!(on(r#"{"phase": "Succeeded", "nodeName": "n2"}"#), None);
}

#[test]
fn owners_are_pods_groups_and_labels() {
    let of = |owner: &str| {
        read("", &format!(r#", "owners": [{owner}]"#), 0).map(|own| own.unwrap().owners)
    };
    let group = |name| BookingOwner::Group(ObjectName::new("lab", name));
    assert_eq!(
        of(r#"{"object": {"kind": "Pod", "namespace": "lab", "name": "p"}}"#),
        Ok(vec![BookingOwner::Pod(ObjectName::new("lab", "p"))])
    );
    assert_eq!(
        of(r#"{"object": {"namespace": "lab"}}"#),
        Ok(vec![BookingOwner::Pods {
            namespace: Some("lab".into()),
            selector: LabelSelector::default()
        }])
    );
    let job = r#"{"controller": {"apiVersion": "batch/v1", "kind": "Job", "name": "j", "namespace": "lab"}}"#;
    assert_eq!(of(job), Ok(vec![group("j"), group("job:j")]));
    let labels = r#"{"labelSelector": {"matchLabels": {"app": "a"}}}"#;
    let selector = LabelSelector::label("app", "a");
    let pods = BookingOwner::Pods { namespace: None, selector };
    assert_eq!(of(&format!("{labels}, {job}")), Ok(vec![pods, group("j"), group("job:j")]));
}

#[test]
fn what_no_booking_honours_is_refused_by_its_field() {
    for (spec, field) in [
        (r#", "preAllocation": true"#, "spec.preAllocation"),
        (r#", "unschedulable": true"#, "spec.unschedulable"),
        (r#", "taints": [{"key": "a", "effect": "NoSchedule"}]"#, "spec.taints"),
        (r#", "preAllocationPolicy": {}"#, "spec.preAllocationPolicy"),
        (r#", "allocatePolicy": "Restricted""#, "spec.allocatePolicy"),
        (r#", "ttl": "soon""#, "spec.ttl"),
    ] {
        let error = read("", &format!(", {OWNER}{spec}"), 0).unwrap_err();
        assert!(error.contains(field) && error.contains("reservation r"), "{error}");
    }
    for (owners, field) in [
        ("", "spec.owners"),
        ("{}", "spec.owners[0]"),
        (r#"{"object": {"uid": "u"}}"#, "spec.owners[0].object.uid"),
        (r#"{"object": {"name": "p"}}"#, "spec.owners[0].object.namespace"),
        (r#"{"object": {"kind": "Node", "name": "p"}}"#, "spec.owners[0].object.kind"),
        (
            r#"{"controller": {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "p"}}"#,
            "spec.owners[0].controller.kind",
        ),
        (
            r#"{"object": {"namespace": "a"}, "labelSelector": {"matchLabels": {"a": "b"}}}"#,
            "spec.owners[0]",
        ),
    ] {
        let error = read("", &format!(r#", "owners": [{owners}]"#), 0).unwrap_err();
        assert!(error.contains(field), "{error}");
    }
    // These say what a booking does.
    for spec in
        [r#", "allocatePolicy": "Aligned""#, r#", "preAllocation": false, "allocateOnce": true"#]
    {
        assert!(owned(spec, 0).unwrap().once);
    }
    assert!(!owned(r#", "allocateOnce": false"#, 0).unwrap().once);
}

/// From the manifest to the pod that uses the room.
#[test]
fn the_room_of_a_reservation_is_kept_for_its_owners() {
    let mut cluster = Cluster::new();
    cluster.add_node(Node::new("n1").capacity("cpu", 4)).unwrap();
    let mut scheduler = Scheduler::new(cluster, Framework::default(), Settings::default());
    let now = Time::from_secs(1);
    let booking = owned(r#", "allocateOnce": false"#, 1).unwrap();
    assert_eq!(booking.room.pods[0].shape().requests.of("cpu"), 4_000);
    scheduler.handle_booking(booking, now).unwrap();
    let bound = |scheduler: &mut Scheduler| {
        let mut bound = Vec::new();
        while let Some(decision) = scheduler.poll_decision(now) {
            if let Decision::Bind { groups, .. } = decision {
                bound.extend(groups.into_iter().map(|name| name.to_string()));
            }
        }
        scheduler.check().unwrap();
        bound
    };
    for (name, label) in [("guest", "other"), ("own", "own")] {
        // An owner's pod uses the whole room of one pod.
        let cpus = if label == "own" { 4 } else { 1 };
        let pod = Pod::new().request("cpu", cpus).label("app", label);
        scheduler.handle_group(PodGroup::gang(name, 1).pods(1, pod), now).unwrap();
        let expected: &[&str] = if label == "own" { &["default/own"] } else { &[] };
        assert_eq!(bound(&mut scheduler), expected);
    }
}
