//! Tests: partitions of nodes by level.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::super::cluster::Cluster;
use super::*;
use crate::model::Node;

proptest! {
    #[test]
    fn parts_are_those_of_the_nodes_there_are(
        steps in proptest::collection::vec((0..3_u8, 0..9_u8, 0..4_u8), 1..60),
    ) {
        let mut cluster = Cluster::builder().levels(["zone", "rack"]).build().unwrap();
        let mut before = cluster.clone();
        for (step, name, value) in steps {
            let mut node = Node::new(std::format!("n{name}"));
            if value > 0 {
                node = node.label("rack", std::format!("r{value}"));
            }
            let _ = match step {
                0 => cluster.add_node(node).map(drop),
                1 => cluster.update_node(&node),
                _ => cluster.remove_node(&node.name),
            };
            let key = cluster.label_key("rack").unwrap();
            let mut expected: BTreeMap<&str, Vec<Row>> = BTreeMap::new();
            for node in cluster.nodes() {
                if let Some(value) = node.label("rack") {
                    expected.entry(value).or_default().push(node.row());
                }
            }
            for rows in expected.values_mut() {
                rows.sort_unstable();
            }
            let parts = cluster.level_parts.parts(key).unwrap();
            let parts: Vec<(&str, Vec<Row>)> = parts
                .iter()
                .map(|part| {
                    let mut rows = part.rows.to_vec();
                    rows.sort_unstable();
                    (cluster.label_text(part.value), rows)
                })
                .collect();
            prop_assert_eq!(parts, expected.into_iter().collect::<Vec<_>>());
            // A clone made before is not touched.
            let known: usize =
                before.level_parts.parts(key).unwrap().iter().map(|part| part.rows.len()).sum();
            let labelled = before.nodes().filter(|node| node.label("rack").is_some()).count();
            prop_assert_eq!(known, labelled);
            before = cluster.clone();
        }
    }
}
