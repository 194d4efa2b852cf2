use alloc::format;
use alloc::sync::Arc;

use super::index::WaitIndex;
use crate::framework::Framework;
use crate::model::{Node, Pod};
use crate::state::Cluster;

#[test]
fn capacity_is_looked_for_where_it_was_found_last_and_is_the_same_from_anywhere() {
    let mut cluster = Cluster::builder().levels(["rack"]).build().unwrap();
    for n in 0..40 {
        let node = Node::new(format!("n{n:02}")).capacity("gpu", 1);
        cluster.add_node(node.label("rack", format!("r{}", n / 4))).unwrap();
        if n < 30 {
            let pod = Pod::new().name(format!("p{n}")).request("gpu", 1);
            cluster.add_pod(pod.on(format!("n{n:02}"))).unwrap();
        }
    }
    let framework = Framework::default();
    let shape = Arc::clone(Pod::new().request("gpu", 1).shape());
    let mut index = WaitIndex::default();
    let available = |index: &mut WaitIndex, level, needed| {
        index.available(&cluster, &framework, (&shape, level), needed, true)
    };
    let row = |n: &str| cluster.node(n).unwrap().row().index();
    assert_eq!(available(&mut index, None, 1), 1);
    assert_eq!(index.found_at, row("n30"), "behind the nodes that are full");
    for start in 0..45 {
        for (level, needed, most) in
            [(None, 11, 10), (Some("rack"), 5, 4), (Some("rack"), 4, 4), (None, 10, 10)]
        {
            index.found_at = start;
            assert_eq!(available(&mut index, level, needed), most, "{start} {level:?}");
        }
    }
}
