use super::*;
use crate::model::{Node, Pod};

/// Tables that are built anew, of shapes that are equal and lie elsewhere, leave nothing behind.
#[test]
fn a_table_has_one_address() {
    let framework = Framework::default();
    let mut cluster = Cluster::new();
    cluster.add_node(Node::new("n").capacity("cpu", 8)).unwrap();
    let mut cache = PlannerCache::default();
    for round in 0..10 {
        cache.sync(&cluster, &framework, 0);
        for cpu in 1..=3 {
            let pod = Pod::new().request("cpu", cpu);
            let table = cache.table(&cluster, &framework, pod.shape(), 1).unwrap();
            assert!(table.is_ok());
        }
        assert_eq!((cache.tables.len(), cache.by_address.len()), (3, 3), "round {round}");
        // More has changed than is followed row by row.
        for _ in 0..200 {
            cluster.add_pod(Pod::new().name("p").on("n")).unwrap();
            cluster.remove_pod("default", "p").unwrap();
        }
    }
}
