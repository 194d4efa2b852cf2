//! Tests: shapes that terms concern.

use proptest::prelude::*;

use super::super::super::pod_rules::meaning;
use super::*;
use crate::model::{LabelSelector, Node, Pod};

/// A term about three namespaces with labels of their own; `scope` says which pods it means.
fn term(app: usize, scope: usize) -> PodAffinityTerm {
    let names = ["n0", "n1", "n2"];
    let mut term = PodAffinityTerm::new("zone", LabelSelector::label("app", APPS[app]));
    match scope {
        0 | 1 => {}
        2 => term.namespaces = [names[app].into()].into(),
        3 => term.namespaces = names.map(Into::into).into(),
        4 => term.namespace_selector = Some(LabelSelector::default()),
        _ => term.namespace_selector = Some(LabelSelector::label("of", APPS[app])),
    }
    term
}

const APPS: [&str; 3] = ["a", "b", "c"];

fn pod((namespace, app, terms): &(usize, usize, Vec<(usize, usize)>)) -> Pod {
    let pod = Pod::new().in_namespace(std::format!("n{namespace}")).label("app", APPS[*app]);
    terms.iter().fold(pod, |pod, &(app, scope)| pod.anti_affinity(term(app, scope)))
}

proptest! {
    /// Every shape that a term means, or that has a term which means the pod, is there once.
    #[test]
    fn no_shape_that_matters_is_left_out(
        drawn in proptest::collection::vec(
            (0..3_usize, 0..3_usize, proptest::collection::vec((0..3_usize, 0..6_usize), 0..3)),
            1..12,
        ),
    ) {
        let mut cluster = Cluster::new();
        cluster.add_node(Node::new("n")).unwrap();
        for (name, app) in ["n0", "n1"].iter().zip(APPS) {
            cluster.set_namespace(*name, Labels::from([("of".into(), app.into())]));
        }
        for (number, drawn) in drawn[1..].iter().enumerate() {
            cluster.add_pod(pod(drawn).name(std::format!("p{number}")).on("n")).unwrap();
        }
        let pod = pod(&drawn[0]);
        let pod = pod.shape();
        let own = expanded(required(&pod.pod_anti_affinity, &pod.namespace), &cluster);
        let mut known: Vec<ShapeId> = concerned(&cluster, pod, &own.iter().collect::<Vec<_>>())
            .into_iter()
            .map(|(id, _)| id)
            .collect();
        known.sort_unstable();
        prop_assert!(known.windows(2).all(|pair| pair[0] != pair[1]), "{known:?}");
        let labels = cluster.namespace(&pod.namespace).cloned().unwrap_or_default();
        for (id, shape, _) in cluster.shapes() {
            let meant = own.iter().any(|term| term.means(shape, &Labels::new()));
            let asker = (&**pod, &labels);
            let namespace = &shape.namespace;
            let means = meaning(&shape.pod_anti_affinity, |term| term, namespace, asker).next();
            let there = known.binary_search(&id).is_ok();
            prop_assert!(there || !(meant || means.is_some()), "{shape:?} for {pod:?}");
        }
    }
}
