//! Every public type of data is read back as it was written, and small texts mean their defaults.

use std::fmt::Debug;
use std::time::Duration;

use phalanx::model::{
    Amounts, Device, DeviceRequest, DisruptionMode, Effect, GroupPolicy, HostPort, Image,
    IslandRule, LabelSelector, Labels, NodeAffinity, NodeInclusion, NodeSelectorTerm, Operator,
    PodAffinityTerm, PodShape, Requirement, Slice, SpreadConstraint, Taint, Toleration,
    TolerationOperator, TopologyRequest, WeightedPodAffinityTerm, WhenUnsatisfiable, ZonePart,
    ZonePolicy,
};
use phalanx::place::{Domain, UnplacedKind};
use phalanx::{
    Cluster, Event, Framework, Node, Outcome, Plan, Pod, PodGroup, Quantity, Strategy as Layout,
    Time, Workload, place_gang,
};
use proptest::prelude::*;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::support::worlds::{bytes, cases, gang, node, pod, world};

/// Writes, reads, compares, and writes again: the text is the same.
fn there_and_back<T: Serialize + DeserializeOwned + PartialEq + Debug>(value: &T) {
    let text = serde_json::to_string(value).expect("it is written");
    let read: T = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"));
    assert_eq!(&read, value, "{text}");
    assert_eq!(serde_json::to_string(&read).expect("it is written"), text);
    // Formats that tell no names and no order apart would not do; YAML does.
    let value = serde_json::to_value(value).expect("it is a value");
    let again: T = serde_json::from_value(value).expect("it is read from a value");
    assert_eq!(again, read);
}

fn selector() -> LabelSelector {
    let rules = [
        (Operator::In, vec!["a", "b"]),
        (Operator::NotIn, vec!["c"]),
        (Operator::Exists, vec![]),
        (Operator::DoesNotExist, vec![]),
        (Operator::Gt, vec!["5"]),
        (Operator::Lt, vec!["7"]),
        (Operator::Unknown("Near".into()), vec!["x"]),
    ];
    let rules = rules.map(|(operator, values)| Requirement::new("key", operator, values));
    rules.into_iter().fold(LabelSelector::label("app", "web"), LabelSelector::requirement)
}

fn term() -> PodAffinityTerm {
    let term = PodAffinityTerm::new("zone", selector()).namespace("team");
    term.namespaces_by(LabelSelector::default())
}

fn device() -> Device {
    Device::new("gpu", "A100").capacity("compute", 1_000).island("left").numa(1)
}

/// A pod with something in every field.
fn full_pod() -> Pod {
    let terms = NodeSelectorTerm::labels(selector().match_expressions);
    let terms = terms.field(Requirement::new("metadata.name", Operator::In, ["n1"]));
    let mut tolerates = Toleration::equal("k", "v");
    tolerates.operator = TolerationOperator::Unknown("Lt".into());
    tolerates.effect = Some(Effect::Unknown("NoLunch".into()));
    let mut lonely = term();
    lonely.label_selector = None;
    let gpus = DeviceRequest::shares("gpu", 2, "compute", 250);
    let mut pod = Pod::new()
        .name("p")
        .in_namespace("team")
        .uid("u-1")
        .key(u64::MAX)
        .priority(i32::MIN)
        .in_group("gang")
        .on("n1")
        .request("cpu", "1500m")
        .request("memory", "1Gi")
        .label("app", "web")
        .node_selector("disk", "ssd")
        .node_affinity(
            NodeAffinity::new()
                .require(terms.clone())
                .require(NodeSelectorTerm::default())
                .prefer(9, terms),
        )
        .toleration(Toleration::exists("k"))
        .toleration(tolerates)
        .spread(
            SpreadConstraint::new(1, "zone", selector())
                .min_domains(2)
                .node_affinity_policy(NodeInclusion::Ignore)
                .node_taints_policy(NodeInclusion::Honor)
                .match_label_key("app"),
        )
        .spread(SpreadConstraint::new(3, "rack", LabelSelector::default()).preferred())
        .affinity(term())
        .anti_affinity(lonely)
        .host_port("UDP", 53)
        .device(gpus.model("A100").in_island("left").island(IslandRule::Required))
        .device(
            DeviceRequest::whole("nic", 1).island(IslandRule::Preferred).numa(IslandRule::Required),
        )
        .attribute("colour", "green");
    pod.deleting = true;
    pod.scheduling_gates = vec!["quota".into()];
    pod.device_indexes = vec![vec![0, 3], vec![]];
    let shape = pod.shape_mut();
    shape.node_name = Some("n1".into());
    shape.owner_selector = Some(selector());
    shape.images = vec!["web:1".into()];
    shape.containers = 3;
    let weighted = WeightedPodAffinityTerm::new(50, term());
    shape.preferred_pod_affinity = vec![weighted.clone()];
    shape.preferred_pod_anti_affinity = vec![weighted];
    pod
}

/// A node with something in every field.
fn full_node() -> Node {
    let mut node = Node::new("n1")
        .capacity("cpu", 64)
        .capacity("pods", 110)
        .allocatable("cpu", "63500m")
        .allocatable("zero", 0)
        .label("zone", "a")
        .taint(Taint::new("k", "v", Effect::NoExecute))
        .taint(Taint::new("k", "", Effect::PreferNoSchedule))
        .unschedulable()
        .image("web:1", 1_000)
        .device(device())
        .tie_rank(-3)
        .key(7);
    node.images.push(Image::new(["a", "b"], 0));
    node
}

/// A group with something in every field.
fn full_group() -> PodGroup {
    let mut group = PodGroup::gang("root", 2).in_namespace("team").priority(4);
    group.key = 9;
    group.topology.require = Some("zone".into());
    group.topology.prefer = Some("rack".into());
    group.topology.highest = Some("zone".into());
    group.topology.slices = vec![Slice::new("rack", 4)];
    group.topology.spread = Some("rack".into());
    group.topology.balanced = true;
    group.topology.ranked = true;
    group.queue = "research".into();
    group.disruption = DisruptionMode::All;
    group.schedule_timeout = Some(Duration::new(5, 7));
    group.keep_running = true;
    group.gang_group = vec!["team/other".parse().unwrap()];
    group.attributes = Labels::from([("a".into(), "b".into())]);
    let mut leader = PodGroup::basic("leader").in_namespace("team").pod(full_pod());
    leader.leader = true;
    group.group(leader).group(PodGroup::gang("workers", 3).pods(3, Pod::new()))
}

#[test]
fn full_objects_go_there_and_back() {
    there_and_back(&full_node());
    there_and_back(&full_pod());
    there_and_back(&**full_pod().shape());
    there_and_back(&full_group());
    there_and_back(&full_group().topology);
    there_and_back(&Workload::new("w").queue("q").priority(-1).group(full_group()));
    there_and_back(&selector());
    there_and_back(&term());
    there_and_back(&device());
    there_and_back(&HostPort { ip: "::1".into(), protocol: "SCTP".into(), port: u16::MAX });
    for policy in [GroupPolicy::Basic {}, GroupPolicy::Gang { min_count: u32::MAX }] {
        there_and_back(&policy);
    }
    for way in [WhenUnsatisfiable::DoNotSchedule, WhenUnsatisfiable::ScheduleAnyway] {
        there_and_back(&way);
    }
    there_and_back(&Domain { key: "zone".into(), value: "a".into() });
    for layout in [Layout::Kubernetes, Layout::Search] {
        there_and_back(&layout);
    }
    for time in [Time::ZERO, Time::from_secs(5), Time::MAX] {
        there_and_back(&time);
    }
    for quantity in ["0", "-1", "1500m", "1.5Gi", "1n"] {
        there_and_back(&quantity.parse::<Quantity>().unwrap());
    }
}

#[test]
fn every_event_goes_there_and_back() {
    let name = || "n1".to_owned();
    let labels = Labels::from([("big".into(), "yes".into())]);
    for event in [
        Event::NodeChanged { node: full_node(), version: 1 },
        Event::NodeRemoved { name: name(), version: u64::MAX },
        Event::NamespaceChanged { name: name(), labels, version: 0 },
        Event::NamespaceRemoved { name: name(), version: 3 },
        Event::PodChanged { pod: full_pod(), version: 4 },
        Event::PodDeleted { namespace: "team".into(), name: name(), version: 5 },
    ] {
        there_and_back(&event);
    }
}

#[test]
fn every_outcome_goes_there_and_back() {
    let mut cluster = Cluster::builder().levels(["zone"]).build().unwrap();
    cluster.add_node(Node::new("n1").capacity("cpu", 4).label("zone", "a")).unwrap();
    let group = PodGroup::gang("g", 2).pods(2, Pod::new().request("cpu", 1)).require("zone");
    let outcome = place_gang(&cluster, &Framework::default(), &group).unwrap();
    let Outcome::Placed(plan) = &outcome else { panic!("{outcome}") };
    assert_eq!((plan.len(), plan.domains().len()), (2, 1));
    there_and_back(plan);
    there_and_back(&outcome);
    let plan = plan.clone();
    there_and_back(&Outcome::Held { plan, until: Time::from_secs(9), by: "quota".into() });
    there_and_back(&Outcome::Denied { by: "quota".into(), reason: "spent".into() });
    let never = PodGroup::gang("g", 9).pods(9, Pod::new().request("cpu", 1));
    let outcome = place_gang(&cluster, &Framework::default(), &never).unwrap();
    let Outcome::Unplaced(unplaced) = &outcome else { panic!("{outcome}") };
    for kind in [UnplacedKind::Infeasible, UnplacedKind::Exhausted, UnplacedKind::Greedy] {
        let mut unplaced = unplaced.clone();
        unplaced.kind = kind;
        there_and_back(&Outcome::Unplaced(unplaced));
    }
}

#[test]
fn small_texts_mean_their_defaults() {
    fn read<T: DeserializeOwned>(text: &str) -> T {
        serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
    }
    assert_eq!(read::<Node>(r#"{"name":"n"}"#), Node::new("n"));
    assert_eq!(read::<Pod>(r#"{"name":"p"}"#), Pod::new().name("p"));
    assert_eq!(read::<PodShape>("{}"), PodShape::default());
    assert_eq!(read::<PodGroup>("{}"), PodGroup::default());
    assert_eq!(read::<TopologyRequest>("{}"), TopologyRequest::default());
    assert_eq!(read::<Toleration>("{}"), Toleration::default());
    assert_eq!(read::<LabelSelector>("{}"), LabelSelector::default());
    assert_eq!(read::<NodeSelectorTerm>("{}"), NodeSelectorTerm::default());
    assert_eq!(read::<Amounts>(r#"{"cpu":5,"a":1}"#).iter().next(), Some(("a", 1)));
    assert_eq!(
        read::<SpreadConstraint>(
            r#"{"maxSkew":1,"topologyKey":"z","whenUnsatisfiable":"DoNotSchedule"}"#
        )
        .node_affinity_policy,
        NodeInclusion::Honor
    );
    assert!(serde_json::from_str::<Plan>("{}").is_err());
    assert!(serde_json::from_str::<GroupPolicy>(r#"{"gang":{}}"#).is_err());
}

proptest! {
    #![proptest_config(cases(500))]

    #[test]
    fn random_objects_go_there_and_back(
        node in node(3),
        pod in pod(),
        group in gang("g"),
        cluster in world(),
    ) {
        there_and_back(&node);
        there_and_back(&pod);
        there_and_back(&group);
        for view in cluster.nodes() {
            there_and_back(&view.to_node());
        }
        for view in cluster.pods() {
            there_and_back(&view.to_pod());
        }
        let text = bytes(&cluster);
        prop_assert_eq!(bytes(&serde_json::from_str(&text).unwrap()), text);
        let outcome = place_gang(&cluster, &Framework::default(), &group).unwrap();
        there_and_back(&outcome);
    }
}

#[test]
fn what_is_not_stated_is_not_written() {
    let written = |value: serde_json::Value| value.to_string();
    let node = written(serde_json::to_value(Node::new("n")).unwrap());
    for field in ["partitions", "zones"] {
        assert!(!node.contains(field), "{node}");
    }
    let pod = written(serde_json::to_value(Pod::new().name("p")).unwrap());
    for field in ["preemptionPolicy", "zones", "claims"] {
        assert!(!pod.contains(field), "{pod}");
    }
    let never = Pod::new().name("p").never_preempting();
    assert!(written(serde_json::to_value(&never).unwrap()).contains("preemptionPolicy"));
    there_and_back(&never);
    // Each of the two parts of what is asked of zones is written without the other.
    let mut strict = Pod::new().name("p");
    strict.shape_mut().zones.least = ZonePolicy::SingleNumaNode;
    there_and_back(&strict);
    let mut parts = Pod::new().name("p");
    parts.shape_mut().zones.parts.push(ZonePart::default());
    there_and_back(&parts);
    assert!(!strict.shape().zones.is_empty() && !parts.shape().zones.is_empty());
}

#[test]
fn shapes_are_equal_only_if_all_their_lists_are() {
    let taint = |key: &str| Pod::new().toleration(Toleration::exists(key));
    assert_eq!(taint("a").shape(), taint("a").shape());
    assert_ne!(taint("a").shape(), taint("b").shape());
    let spread = |key: &str| Pod::new().spread(SpreadConstraint::new(1, key, selector()));
    assert_ne!(spread("zone").shape(), spread("rack").shape());
    let near = |key: &str| Pod::new().affinity(PodAffinityTerm::new(key, selector()));
    assert_ne!(near("zone").shape(), near("rack").shape());
    assert_ne!(near("zone").shape(), Pod::new().shape());
}
