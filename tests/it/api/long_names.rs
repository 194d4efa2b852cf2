//! Names of megabytes: every error that quotes one stays short.

use phalanx::kubernetes::{Mode, Reader};
use phalanx::queue::{Gone, Settings};
use phalanx::{
    Cluster, Event, Framework, Node, ObjectName, Pod, PodGroup, Quantity, Scheduler, Time,
    place_gang,
};

const LONG: usize = 4 << 20;

fn short(error: impl std::fmt::Display) {
    let text = error.to_string();
    assert!(text.len() < 4_096, "{} bytes: {}", text.len(), &text[..200]);
    assert!(text.contains("nnnn") && text.contains("bytes)"), "{text}");
}

#[test]
fn errors_clip_what_they_quote() {
    let name = "n".repeat(LONG);
    let framework = Framework::default();
    let mut cluster = Cluster::new();
    let pod = Pod::new().name(&name).request("cpu", 1).on("n1");
    cluster.add_node(Node::new("n1").capacity("cpu", 8)).unwrap();
    cluster.add_node(Node::new(&name).capacity("cpu", 8)).unwrap();
    cluster.add_pod(pod.clone()).unwrap();
    // State.
    short(cluster.add_pod(pod.clone()).unwrap_err());
    short(cluster.add_node(Node::new(&name)).unwrap_err());
    short(cluster.update_node(&Node::new(format!("{name}x"))).unwrap_err());
    short(cluster.remove_pod(&name, &name).unwrap_err());
    short(cluster.add_pod(Pod::new().name(format!("{name}x"))).unwrap_err());
    short(cluster.add_node(Node::new(format!("{name}y")).capacity("cpu", -1)).unwrap_err());
    short(Cluster::builder().levels([&name, &name]).build().unwrap_err());
    // Model and placement.
    short(PodGroup::gang(&name, 0).check().unwrap_err());
    let twice = PodGroup::gang("g", 1).pod(pod.clone()).pod(pod.clone());
    short(twice.check().unwrap_err());
    let bound = PodGroup::gang(&name, 1).pod(Pod::new().name(&name));
    short(place_gang(&cluster, &framework, &bound).unwrap_err());
    short(name.parse::<Quantity>().unwrap_err());
    short(name.parse::<ObjectName>().unwrap_err());
    short(name.parse::<Time>().unwrap_err());
    // Commit.
    let group = PodGroup::gang(&name, 1).pods(1, Pod::new().request("cpu", 8));
    let outcome = place_gang(&cluster, &framework, &group).unwrap();
    let plan = outcome.plan().unwrap().clone();
    cluster.add_pod(Pod::new().name("late").request("cpu", 8).on(&name)).unwrap();
    short(cluster.commit(&framework, &plan).unwrap_err());
    // Queue.
    let mut scheduler = Scheduler::new(Cluster::new(), framework, Settings::default());
    short(scheduler.handle_pause(&name, Time::ZERO).unwrap_err());
    short(scheduler.handle_pod(Pod::new().name(&name), Time::ZERO).unwrap_err());
    short(scheduler.handle_gone(Gone::unbound("default", &name), Time::ZERO).unwrap_err());
    let event = Event::PodChanged { pod: Pod::new().name(&name), version: 1 };
    short(scheduler.handle_event(event, Time::ZERO).unwrap_err());
    // Manifests.
    for json in [
        format!(r#"{{"apiVersion": "v1", "kind": "Pod", "metadata": {{"name": "{name}"}}}}"#),
        format!(r#"{{"apiVersion": "v1", "kind": "Node", "metadata": {{"name": "{name}"}}}}"#),
    ] {
        let mut reader = Reader::new(Mode::AsWritten);
        short(reader.read(&name, &mut serde_json::Deserializer::from_str(&json)).unwrap_err());
    }
}
