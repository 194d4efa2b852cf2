use super::super::super::testing::{cluster, passing, scores};
use super::super::{LoadAwareFilter, amounts};
use super::*;
use crate::model::{CPU, MEMORY, NodeUsage};
use crate::state::Cluster;
use crate::{Event, Time};
use crate::{Node, Pod};
use alloc::boxed::Box;

fn report(cluster: &mut Cluster, node: &str, usage: NodeUsage, version: u64) {
    let usage = Some(Box::new(usage));
    let event = Event::NodeUsageChanged { name: node.into(), usage, version };
    cluster.apply(event).unwrap();
}

#[test]
fn what_is_in_use_counts_not_what_is_promised() {
    let node = |name| Node::new(name).capacity(CPU, 10).capacity(MEMORY, "10Gi");
    let mut cluster = cluster([node("busy"), node("idle"), node("unknown")]);
    let full = Pod::new().name("full").request(CPU, 10).on("idle");
    cluster.add_pod(full.clone().since(Time::ZERO)).unwrap();
    report(&mut cluster, "busy", NodeUsage::new(Time::ZERO, amounts(6_000, 1 << 30)), 1);
    let idle = NodeUsage::new(Time::ZERO, amounts(500, 1 << 30));
    let own = amounts(400, 1 << 20);
    let idle = idle.pod("default", "full", PriorityBand::Prod, own);
    report(&mut cluster, "idle", idle.clone(), 1);
    let pod = Pod::new().request(CPU, 1).request(MEMORY, "1Gi");
    // 60 % and 8.5 % are above 65; the report is of the time at which the pod was started, so that
    // it is estimated beside it.
    let load = LoadAwareFilter::default;
    assert_eq!(passing(load(), &cluster, &pod), ["unknown"]);
    let later = Time::from_secs(120);
    let idle = NodeUsage { updated: Some(later), ..idle };
    report(&mut cluster, "idle", idle.clone(), 2);
    assert_eq!(passing(load(), &cluster, &pod), ["idle", "unknown"]);
    // CPU: 31.5 and 86.5 % are free beside the pod. Memory: less than 83 %, as the pod is
    // estimated at 0.7 GiB rounded up to a byte. Each is rounded down before the mean is.
    assert_eq!(scores(LoadAwareScore::default(), &cluster, &pod), [56, 84, 0]);
    // A report older than the known one counts for nothing; so does one about a pod that is
    // gone.
    report(&mut cluster, "idle", NodeUsage::new(Time::ZERO, amounts(9_000, 0)), 1);
    assert_eq!(cluster.node("idle").unwrap().measured(), Some(&idle));
    cluster.remove_node("idle").unwrap();
    cluster.add_node(node("idle")).unwrap();
    assert_eq!(cluster.node("idle").unwrap().measured(), None);
}
