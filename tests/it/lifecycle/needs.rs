//! Waiting groups as requests for more nodes.

use phalanx::autoscale::{Autoscaler, NodeTemplate, ScaleUpRequest};
use phalanx::queue::Settings;
use phalanx::{Cluster, Decision, Event, Framework, Node, Pod, PodGroup, Scheduler, Time};

#[test]
fn what_waits_is_asked_for_in_queue_order_and_starts_once_the_nodes_are_there() {
    let now = Time::from_secs(1);
    let mut cluster = Cluster::new();
    cluster.add_node(Node::new("n1").capacity("cpu", 8)).unwrap();
    let mut scheduler = Scheduler::new(cluster, Framework::default(), Settings::default());
    let gang = |name: &str, count: usize| {
        PodGroup::gang(name, count as u32).pods(count, Pod::new().request("cpu", 4))
    };
    scheduler.handle_group(gang("first", 2), now).unwrap();
    scheduler.handle_group(gang("low", 2), now).unwrap();
    scheduler.handle_group(gang("high", 4).priority(5), now).unwrap();
    scheduler.handle_group(gang("other-queue", 1).queue("b").priority(3), now).unwrap();
    let drain = |scheduler: &mut Scheduler, now: Time| {
        let mut bound = Vec::new();
        while let Some(decision) = scheduler.poll_decision(now) {
            if let Decision::Bind { ticket, plan, .. } = decision {
                bound.push(plan.group().to_string());
                scheduler.handle_bound(ticket, now).unwrap();
            }
        }
        bound
    };
    assert_eq!(drain(&mut scheduler, now), ["default/other-queue"]);
    let needs = scheduler.needs(now);
    let names: Vec<&str> = needs.iter().map(|need| need.group().name.as_str()).collect();
    assert_eq!(names, ["high", "first", "low"]);

    let template = NodeTemplate::new(Node::new("t").capacity("cpu", 8), 1);
    let request = ScaleUpRequest::new(needs).template(template);
    let (cluster, framework) = (scheduler.cluster(), scheduler.framework());
    let answer = Autoscaler::new().scale_up(cluster, framework, request).unwrap();
    let nodes: Vec<Node> = answer.start().unwrap().nodes().cloned().collect();
    assert_eq!(nodes.len(), 4);
    for node in nodes {
        scheduler.handle_event(Event::NodeChanged { node, version: 1 }, now).unwrap();
    }
    for _ in 0..20 {
        let time = scheduler.next_wake().unwrap_or(now).max(scheduler.now());
        drain(&mut scheduler, time);
    }
    assert!(scheduler.needs(now).is_empty());
}
