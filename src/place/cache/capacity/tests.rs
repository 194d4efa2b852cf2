use super::*;
use crate::model::Node;

#[test]
fn a_cluster_whose_tree_no_request_has_read_is_followed() {
    let mut cluster = Cluster::builder().levels(["rack"]).build().unwrap();
    let node = |name: &str, rack| Node::new(name).capacity("gpu", 4).label("rack", rack);
    cluster.add_node(node("n0", "r0")).unwrap();
    let (framework, mut capacity) = (Framework::default(), Capacity::default());
    let free = Amount::Free(cluster.resource("gpu").unwrap());
    let rack = cluster.levels[0];
    capacity.sync(&cluster, &framework);
    let column = capacity.amount(&cluster, free);
    let key = capacity.tree.key(&cluster, rack);
    assert_eq!(capacity.sum(column, Extent::Domain(key, 0)), 4);
    cluster.add_node(node("n1", "r0")).unwrap();
    capacity.rebase(&cluster, cluster.moment());
    capacity.sync(&cluster, &framework);
    let column = capacity.amount(&cluster, free);
    let key = capacity.tree.key(&cluster, rack);
    assert_eq!(capacity.sum(column, Extent::Domain(key, 0)), 8);
    assert_eq!(capacity.sum(column, Extent::Whole), 8);
}
