use super::super::testing::{cluster, passing};
use super::*;
use crate::model::{HostPort, Node, Pod};

#[test]
fn ports_conflict_by_number_protocol_and_address() {
    let mut cluster = cluster([Node::new("n")]);
    let port = |ip: &str, protocol: &str, port| {
        let mut pod = Pod::new();
        let (ip, protocol) = (ip.into(), protocol.into());
        pod.shape_mut().ports.push(HostPort { ip, protocol, port });
        pod
    };
    let running = port("10.0.0.1", "TCP", 80).name("a").on("n");
    cluster.add_pod(running).unwrap();
    for (pod, fits) in [
        (port("10.0.0.1", "TCP", 80), false),
        (port("0.0.0.0", "TCP", 80), false),
        (port("10.0.0.2", "TCP", 80), true),
        (port("::", "TCP", 80), true),
        (port("10.0.0.1", "UDP", 80), true),
        (port("10.0.0.1", "TCP", 81), true),
    ] {
        assert_eq!(!passing(NodePorts, &cluster, &pod).is_empty(), fits, "{pod:?}");
    }
    let twice = Pod::new().host_port("TCP", 90).host_port("TCP", 90);
    assert_eq!(passing(NodePorts, &cluster, &twice), ["n"]);
}
