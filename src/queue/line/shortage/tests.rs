use super::*;
use crate::model::{Node, Pod};

fn cluster(gpus: &[i64]) -> Cluster {
    let mut cluster = Cluster::builder().levels(["rack"]).build().unwrap();
    for (index, gpus) in gpus.iter().enumerate() {
        let node = Node::new(std::format!("n{index}")).capacity("gpu", *gpus);
        cluster.add_node(node.label("rack", std::format!("r{}", index / 2))).unwrap();
    }
    cluster
}

fn gpu(count: i64) -> Pod {
    Pod::new().request("gpu", count)
}

fn room(cluster: &Cluster, tree: &PodGroup) -> Option<(u64, u64)> {
    let framework = Framework::default();
    match find_shortage(cluster, &framework, &mut WaitIndex::default(), tree, true) {
        Some((Shortage::Capacity { needed, available, .. }, _)) => Some((needed, available)),
        _ => None,
    }
}

#[test]
fn what_cannot_be_done_without_is_counted_against_the_best_domain() {
    let cluster = cluster(&[2, 1, 3, 0]);
    let gang = PodGroup::gang("g", 5).pods(5, gpu(1));
    assert_eq!(room(&cluster, &gang), None);
    assert_eq!(room(&cluster, &gang.clone().require("rack")), Some((5, 3)));
    assert_eq!(room(&cluster, &gang.clone().prefer("rack")), None);
    // Two of five may stay away, so three must find capacity for two GPUs each.
    assert_eq!(room(&cluster, &PodGroup::gang("g", 3).pods(5, gpu(2))), Some((3, 2)));
    // Pods that others can replace do not count.
    let mixed = PodGroup::gang("g", 4).pods(2, gpu(1)).pods(3, gpu(3));
    assert_eq!(room(&cluster, &mixed), Some((2, 1)));
}

#[test]
fn groups_of_a_tree_are_summed_if_all_must_be_placed() {
    let cluster = cluster(&[2, 2, 2]);
    let part = |name: &str| PodGroup::gang(name, 2).pods(2, gpu(1));
    let tree = |min| {
        PodGroup::gang("t", min).group(part("a")).group(part("b")).group(part("c")).group(part("d"))
    };
    assert_eq!(room(&cluster, &tree(4)), Some((8, 6)));
    assert_eq!(room(&cluster, &tree(3)), None);
    let confined =
        PodGroup::gang("t", 1).group(PodGroup::gang("a", 5).pods(5, gpu(1)).require("rack"));
    assert_eq!(room(&cluster, &confined), Some((5, 4)));
}
