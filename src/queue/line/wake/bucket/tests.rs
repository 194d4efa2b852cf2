use super::*;
use crate::model::{Node, Pod};

#[test]
fn amounts_are_rounded_down_by_less_than_an_eighth() {
    for amount in (1..5_000).chain([i64::MAX, i64::MAX - 1, 1 << 40]) {
        let rounded = rounded(amount);
        assert!(rounded <= amount && amount - rounded <= amount / 8, "{amount} {rounded}");
    }
    assert_eq!((rounded(15), rounded(17), rounded(2_100)), (15, 16, 2_048));
}

#[test]
fn a_bucket_counts_by_domain_and_follows_both_ways() {
    let mut cluster = Cluster::builder().levels(["rack"]).build().unwrap();
    for (index, gpus) in [2, 3, 4].into_iter().enumerate() {
        let rack = if index < 2 { "a" } else { "b" };
        let node = Node::new(std::format!("n{index}")).capacity("gpu", gpus);
        cluster.add_node(node.label("rack", rack)).unwrap();
    }
    let shape = Pod::new().request("gpu", 2);
    let bucket_keys = BucketKey::of(shape.shape(), Some("rack"));
    assert_eq!(bucket_keys.len(), 2);
    let mut bucket = Bucket::new(&cluster, &bucket_keys[0]);
    assert_eq!((bucket.capacity.most(), bucket.capacity.len()), (2, 3));
    cluster.add_pod(Pod::new().name("p").request("gpu", 3).on("n2")).unwrap();
    let row = cluster.node("n2").unwrap().row();
    bucket.update(&cluster, &bucket_keys[0], cluster.label_key("rack"), row);
    assert_eq!((bucket.capacity.most(), bucket.capacity.len()), (2, 2));
    cluster.remove_pod("default", "p").unwrap();
    bucket.update(&cluster, &bucket_keys[0], cluster.label_key("rack"), row);
    assert_eq!((bucket.capacity.most(), bucket.capacity.len()), (2, 3));
}
