use std::format;

use proptest::prelude::*;

use super::*;
use crate::framework::DomainContext;
use crate::model::{Node, Pod, PodGroup};
use crate::state::{NodeView, Takes};

/// Some nodes have little of a resource or none, some are overcommitted, and some are gone.
/// Where `large` is set, amounts are near the end of 64 bits.
fn cluster(kinds: &[u8], large: bool) -> Cluster {
    let mut cluster = Cluster::new();
    for (at, &kind) in kinds.iter().enumerate() {
        let mut node = Node::new(format!("n{at}")).capacity("cpu", i64::from(kind % 5));
        node = node.capacity("memory", i64::from(kind % 7) << 20);
        if kind % 3 > 0 {
            node = node.capacity("g/g", if large { i64::MAX / 4 } else { i64::from(kind) });
        }
        cluster.add_node(node).unwrap();
        let pod =
            Pod::new().request("cpu", i64::from(kind % 4)).request("g/g", i64::from(kind / 40));
        let pod = pod.request("memory", i64::from(kind % 6) << 20);
        cluster.add_pod(pod.name(format!("p{at}")).on(format!("n{at}"))).unwrap();
    }
    for (at, _) in kinds.iter().enumerate().filter(|(_, kind)| **kind > 240) {
        cluster.remove_node(&format!("n{at}")).unwrap();
    }
    cluster
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn one_pass_comes_to_what_rows_add_up_to(
        kinds in proptest::collection::vec(0..=255_u8, 2..700),
        (domains, large) in (1..9_usize, proptest::bool::weighted(0.2)),
        placed in proptest::collection::vec(0..700_usize, 0..9),
    ) {
        let cluster = cluster(&kinds, large);
        let pod = Pod::new().request("cpu", 2).request("g/g", 1);
        let takes = Takes::of(pod.shape(), &cluster);
        let mut overlay = Overlay::default();
        for row in placed.into_iter().map(Row::new) {
            if cluster.view(row).is_some() {
                overlay.take(&cluster, row, 0, &takes, None);
            }
        }
        // The last of them is no domain that is asked about.
        let mut rows = vec![Vec::new(); domains + 1];
        for row in cluster.nodes().map(NodeView::row) {
            rows[row.index() * 7 % (domains + 1)].push(row);
        }
        rows.pop();
        let group = PodGroup::gang("g", 1);
        for overlay in [None, Some(&overlay)] {
            let slices = rows.iter().map(Vec::as_slice).collect();
            let totals = Totals::new(&cluster, overlay, slices);
            for name in ["cpu", "g/g", "memory", "cpu"] {
                let resource = cluster.resource(name).unwrap();
                // Amounts too large to be added up blindly: nodes may all have none of them.
                let huge = cluster.nodes().any(|node| node.allocatable(resource) > i64::MAX / 8);
                for (domain, rows) in rows.iter().enumerate() {
                    let mut cx = DomainContext::new(&cluster, &group, rows, &[]);
                    cx.overlay = overlay;
                    let known = TotalsOf { all: &totals, domain }.of(resource);
                    if let Some(known) = known {
                        prop_assert_eq!(known, cx.totals(resource));
                    }
                    for (scored, native) in ["cpu", "memory"].iter().enumerate() {
                        let own = TotalsOf { all: &totals, domain };
                        if let Some(taken) = own.taken(resource, scored) {
                            prop_assert_eq!(*native, name);
                            prop_assert_eq!(taken, cx.taken(resource, Some(scored)));
                        } else if *native == name {
                            let few = domains < 2 || rows.len() * domains < 8;
                            prop_assert!(few || large);
                        }
                    }
                    let few = domains < 2 || rows.len() * domains < 8;
                    prop_assert!(few || known.is_some() != huge);
                }
            }
        }
    }
}

#[test]
fn domains_with_rows_in_common_are_left_to_be_added_up() {
    let cluster = cluster(&[9; 12], false);
    let cpu = cluster.resource("cpu").unwrap();
    let totals = |domains: &[&[usize]]| {
        let rows: Vec<Vec<Row>> =
            domains.iter().map(|rows| rows.iter().copied().map(Row::new).collect()).collect();
        let totals = Totals::new(&cluster, None, rows.iter().map(Vec::as_slice).collect());
        TotalsOf { all: &totals, domain: 1 }.of(cpu).map(|totals| totals.allocatable)
    };
    assert_eq!(totals(&[&[0, 1], &[2, 3], &[4, 5]]), Some(8_000));
    assert_eq!(totals(&[&[0, 1], &[2, 3], &[3, 4, 5]]), None);
    assert_eq!(totals(&[&[0], &[]]), None);
}
