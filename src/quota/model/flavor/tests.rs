use super::*;
use crate::model::{Effect, NodeSelectorTerm, Operator, Requirement};

#[test]
fn taints_and_labels_decide() {
    let spot = Flavor::new("spot").taint(Taint::new("k", "v", Effect::NoExecute));
    let mut pods = PodSet::default();
    assert!(!spot.admits(&pods));
    pods.tolerations.push(Toleration::equal("k", "v"));
    assert!(spot.admits(&pods));
    let mild = Flavor::new("mild").taint(Taint::new("x", "", Effect::PreferNoSchedule));
    assert!(mild.admits(&pods));
}

#[test]
fn only_keys_of_the_flavor_count() {
    let two = Flavor::new("two").label("type", "two");
    let affinity = |key: &str, value: &str| PodSet {
        affinity: Some(NodeSelector {
            terms: alloc::vec![NodeSelectorTerm::labels([Requirement::new(
                key,
                Operator::In,
                [value]
            )])],
        }),
        ..PodSet::default()
    };
    assert!(two.admits(&affinity("type", "two")));
    assert!(!two.admits(&affinity("type", "three")));
    assert!(two.admits(&affinity("other", "three")));
}
