use alloc::vec::Vec;

use super::*;
use crate::framework::{Context, FilterPreparation};
use crate::model::{Node, Pod};
use crate::state::Cluster;

#[test]
fn plain_pods_are_not_looked_at_by_what_does_not_concern_them() {
    let pod = Pod::new().request("cpu", 1);
    let mut cluster = Cluster::new();
    cluster.add_node(Node::new("n").capacity("cpu", 1)).unwrap();
    let cx = Context::new(&cluster, pod.shape());
    let framework = Framework::kubernetes();
    let looks = |(at, _): &(usize, &str)| {
        !matches!(framework.prepare_filter(*at, &cx), FilterPreparation::Skip)
    };
    let asked: Vec<&str> =
        framework.filter_names().enumerate().filter(looks).map(|(_, name)| name).collect();
    assert_eq!(asked, ["NodeResourcesFit"]);
}

#[test]
fn the_profile_is_a_sound_set_in_the_order_of_kube_scheduler() {
    let framework = Framework::kubernetes();
    let filters: Vec<&str> = framework.filters().iter().map(|filter| filter.name()).collect();
    assert_eq!(
        filters,
        [
            "NodeUnschedulable",
            "NodeName",
            "TaintToleration",
            "NodeAffinity",
            "NodePorts",
            "NodeResourcesFit",
            "VolumeRestrictions",
            "NodeVolumeLimits",
            "VolumeBinding",
            "VolumeZone",
            "PodTopologySpread",
            "InterPodAffinity",
            "DeviceFit",
            "ZoneFit",
        ]
    );
    let scores = framework.scores().iter().map(|(weight, score)| (score.name(), *weight));
    assert_eq!(
        scores.collect::<Vec<_>>(),
        [
            ("TaintToleration", 3),
            ("NodeAffinity", 2),
            ("NodeResourcesFit", 1),
            ("PodTopologySpread", 2),
            ("InterPodAffinity", 2),
            ("NodeResourcesBalancedAllocation", 1),
            ("ImageLocality", 1),
        ]
    );
    assert_eq!(framework.strategy(), Strategy::Kubernetes);
    // A framework that is built unchecked passes the checks.
    for framework in [framework, Framework::default(), Framework::spread()] {
        assert!(framework.to_builder().build().is_ok());
    }
}
