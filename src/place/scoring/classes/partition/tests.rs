//! Tests: partitions that follow changes of nodes are those that are made anew.

use alloc::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use crate::model::Node;
use crate::state::journal::Change;

/// The rows of each class that has some, by a label value of theirs.
fn classes(cluster: &Cluster, partition: &Partition) -> Vec<Vec<u32>> {
    let mut classes: Vec<Vec<u32>> = Vec::new();
    for class in 0..partition.classes() {
        let rows = partition.rows(class);
        for (at, row) in rows.iter().enumerate() {
            assert_eq!(partition.class(Row::from(*row)), class);
            let place = partition.units.places[*row as usize] as usize;
            assert_eq!(place, partition.units.places(class).start + at);
            assert_eq!(partition.units.unit_of[place] as usize, class);
        }
        assert!(rows.is_sorted());
        classes.extend((!rows.is_empty()).then(|| rows.to_vec()));
    }
    classes.sort();
    let listed: usize = classes.iter().map(Vec::len).sum();
    assert_eq!(listed, cluster.node_count());
    classes
}

proptest! {
    #[test]
    fn a_partition_follows_its_nodes(
        steps in proptest::collection::vec((0..4_u8, 0..9_u8, 0..4_u8), 1..60),
    ) {
        let mut cluster = Cluster::new();
        // Labels have numbers from the start.
        cluster.add_node(Node::new("first").label("zone", "z1").label("rack", "r1")).unwrap();
        let [zone, rack] = ["zone", "rack"].map(|key| cluster.label_key(key).unwrap());
        let mut keys = [zone, rack];
        keys.sort_unstable();
        let grains = [
            Grain::default(),
            Grain::new([zone]),
            Grain::new([rack]),
            Grain::new(keys),
            Grain::default().each(),
        ];
        let mut followed = Partitions::default();
        for (step, name, value) in steps {
            let moment = cluster.moment();
            let mut node = Node::new(std::format!("n{name}")).label("rack", std::format!("r{name}"));
            if value > 0 {
                node = node.label("zone", std::format!("z{value}"));
            }
            let _ = match step {
                0 | 1 => cluster.add_node(node).map(drop),
                2 => cluster.update_node(&node),
                _ => cluster.remove_node(&node.name),
            };
            let events: Vec<NodeEvent> = cluster
                .journal
                .since(moment)
                .unwrap()
                .filter_map(|change| match change {
                    Change::Node { row, change } => Some(NodeEvent { row, change }),
                    _ => None,
                })
                .collect();
            followed.nodes_changed(&events);
            // Changes pile up, some few and some many.
            let asked = if step == 1 { 0 } else { grains.len() };
            for grain in &grains[..asked] {
                let anew = Partitions::default().of_grain(&cluster, grain);
                let followed = followed.of_grain(&cluster, grain);
                prop_assert_eq!(classes(&cluster, &followed), classes(&cluster, &anew));
                if let ([key], false) = (&grain.keys[..], grain.each) {
                    let mut of: BTreeMap<LabelValue, Vec<u32>> = BTreeMap::new();
                    for row in Row::all(cluster.rows()) {
                        if let Some(value) = cluster.view(row).and_then(|node| node.label_value(*key)) {
                            of.entry(value).or_default().push(row.as_u32());
                        }
                    }
                    for (value, rows) in of {
                        prop_assert_eq!(followed.rows_with(value), &rows[..]);
                    }
                }
            }
        }
    }

    /// Classes without nodes do not pile up.
    #[test]
    fn values_that_are_gone_are_forgotten(nodes in 1..6_usize) {
        let mut cluster = Cluster::new();
        let mut followed = Partitions::default();
        for number in 0..100 {
            let moment = cluster.moment();
            let name = std::format!("n{number}");
            cluster.add_node(Node::new(name.as_str()).label("host", name)).unwrap();
            if number >= nodes {
                cluster.remove_node(&std::format!("n{}", number - nodes)).unwrap();
            }
            let events = cluster.journal.since(moment).unwrap().filter_map(|change| match change {
                Change::Node { row, change } => Some(NodeEvent { row, change }),
                _ => None,
            });
            followed.nodes_changed(&events.collect::<Vec<_>>());
            let grain = Grain::new(cluster.label_key("host"));
            let classes = followed.of_grain(&cluster, &grain).classes();
            prop_assert!(classes <= 2 * cluster.rows() + 2, "{classes}");
        }
    }
}
