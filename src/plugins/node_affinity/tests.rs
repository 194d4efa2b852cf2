use super::super::testing::{cluster, passing, refused, scores};
use super::*;
use crate::model::{
    Node, NodeSelector, NodeSelectorTerm, Operator, Pod, PreferredNodeTerm, Requirement,
};
use crate::state::Cluster;

fn nodes() -> Cluster {
    cluster([
        Node::new("a").label("gen", "2").label("disk", "ssd"),
        Node::new("b").label("gen", "10").label("disk", ""),
        Node::new("c").label("gen", "+7"),
        Node::new("d").label("gen", "x"),
    ])
}

fn expression(key: &str, operator: Operator, values: &[&str]) -> NodeSelectorTerm {
    NodeSelectorTerm::labels([Requirement::new(key, operator, values.iter().copied())])
}

fn names(operator: Operator, values: &[&str]) -> NodeSelectorTerm {
    NodeSelectorTerm {
        match_fields: alloc::vec![Requirement::new(
            "metadata.name",
            operator,
            values.iter().copied()
        )],
        ..NodeSelectorTerm::default()
    }
}

fn requiring(terms: &[NodeSelectorTerm]) -> Pod {
    Pod::new().node_affinity(model::NodeAffinity {
        required: Some(NodeSelector { terms: terms.to_vec() }),
        preferred: Vec::new(),
    })
}

#[test]
fn operators_judge_as_kubernetes_does() {
    let cluster = nodes();
    for (operator, values, expected) in [
        (Operator::In, &["2", "x"][..], &["a", "d"][..]),
        (Operator::NotIn, &["2"], &["b", "c", "d"]),
        (Operator::Gt, &["2"], &["b", "c"]),
        (Operator::Lt, &["8"], &["a", "c"]),
        (Operator::Gt, &["-5"], &[]),
        (Operator::Gt, &["1", "2"], &[]),
        (Operator::In, &[], &[]),
        (Operator::Unknown("Near".into()), &["2"], &[]),
    ] {
        let pod = requiring(&[expression("gen", operator.clone(), values)]);
        assert_eq!(passing(NodeAffinityPlugin::new(), &cluster, &pod), expected, "{operator:?}");
    }
    let disk = |operator| requiring(&[expression("disk", operator, &[])]);
    assert_eq!(passing(NodeAffinityPlugin::new(), &cluster, &disk(Operator::Exists)), ["a", "b"]);
    let absent = disk(Operator::DoesNotExist);
    assert_eq!(passing(NodeAffinityPlugin::new(), &cluster, &absent), ["c", "d"]);
}

#[test]
fn requirements_without_a_sound_term_match_nothing() {
    let cluster = nodes();
    let broken = expression("gen", Operator::In, &[]);
    for terms in [&[][..], &[NodeSelectorTerm::default()], core::slice::from_ref(&broken)] {
        assert!(passing(NodeAffinityPlugin::new(), &cluster, &requiring(terms)).is_empty());
    }
    let pod = requiring(&[broken, expression("gen", Operator::In, &["2"])]);
    assert_eq!(passing(NodeAffinityPlugin::new(), &cluster, &pod), ["a"]);
}

#[test]
fn names_narrow_the_nodes() {
    let cluster = nodes();
    let pod = requiring(&[names(Operator::In, &["a"]), names(Operator::In, &["d"])]);
    assert_eq!(passing(NodeAffinityPlugin::new(), &cluster, &pod), ["a", "d"]);
    // Several values narrow, but never match.
    let pod = requiring(&[names(Operator::In, &["a", "b"])]);
    assert!(passing(NodeAffinityPlugin::new(), &cluster, &pod).is_empty());
    let pod = requiring(&[names(Operator::NotIn, &["a"])]);
    assert_eq!(passing(NodeAffinityPlugin::new(), &cluster, &pod), ["b", "c", "d"]);
    let mut term = names(Operator::In, &["a"]);
    term.match_fields.push(Requirement::new("metadata.name", Operator::In, ["b"]));
    assert!(refused(NodeAffinityPlugin::new(), &cluster, &requiring(&[term])));
    let mut unknown = names(Operator::In, &[""]);
    unknown.match_fields[0].key = "metadata.uid".into();
    let pod = requiring(&[unknown]);
    assert_eq!(passing(NodeAffinityPlugin::new(), &cluster, &pod), ["a", "b", "c", "d"]);
}

#[test]
fn node_selectors_are_compared_as_they_are() {
    let cluster = nodes();
    let pod = Pod::new().node_selector("disk", "");
    assert_eq!(passing(NodeAffinityPlugin::new(), &cluster, &pod), ["b"]);
    let pod = Pod::new().node_selector("not a key!", "v");
    assert!(passing(NodeAffinityPlugin::new(), &cluster, &pod).is_empty());
}

#[test]
fn preferences_add_up_and_scale_to_the_highest() {
    let cluster = nodes();
    let prefer = |weight, term| PreferredNodeTerm { weight, preference: term };
    let affinity = model::NodeAffinity {
        required: None,
        preferred: alloc::vec![
            prefer(30, expression("disk", Operator::Exists, &[])),
            prefer(60, expression("gen", Operator::Gt, &["5"])),
            prefer(0, expression("gen", Operator::In, &[])),
            prefer(50, NodeSelectorTerm::default()),
        ],
    };
    let pod = Pod::new().node_affinity(affinity.clone());
    assert_eq!(scores(NodeAffinityPlugin::new(), &cluster, &pod), [33, 100, 66, 0]);
    let added = NodeAffinityPlugin::with_added(affinity);
    assert_eq!(scores(added, &cluster, &Pod::new()), [33, 100, 66, 0]);
}

#[test]
fn added_affinity_holds_beside_the_pods_own() {
    let cluster = nodes();
    let added = NodeAffinityPlugin::with_added(model::NodeAffinity {
        required: Some(NodeSelector {
            terms: alloc::vec![expression("gen", Operator::Gt, &["5"])],
        }),
        preferred: Vec::new(),
    });
    assert_eq!(passing(added.clone(), &cluster, &Pod::new()), ["b", "c"]);
    let pod = Pod::new().node_selector("disk", "");
    assert_eq!(passing(added, &cluster, &pod), ["b"]);
}
