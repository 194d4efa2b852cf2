use super::*;
use crate::model::{Node, Pod, PodGroup};
use crate::{Cluster, Framework, Strategy, place_gang};
use alloc::format;
use alloc::string::ToString;

fn placed_in(framework: &Framework, pods: usize) -> String {
    let mut cluster = Cluster::builder().levels(["block", "rack"]).build().unwrap();
    for (block, sizes) in [("a", [4, 4]), ("b", [3, 3]), ("c", [6, 1])] {
        for (rack, size) in sizes.into_iter().enumerate() {
            let node = Node::new(format!("{block}{rack}"))
                .capacity("cpu", size)
                .label("block", block)
                .label("rack", format!("{block}{rack}"));
            cluster.add_node(node).unwrap();
        }
    }
    let gang = PodGroup::gang("g", pods as u32).pods(pods, Pod::new().request("cpu", 1));
    let outcome = place_gang(&cluster, framework, gang.require("block")).unwrap();
    let plan = outcome.plan().unwrap();
    let (_, _, block) = plan.domains().next().unwrap();
    block.to_string()
}

#[test]
fn the_tightest_domain_and_the_fewest_racks() {
    for strategy in [Strategy::Search, Strategy::Kubernetes] {
        let framework = Framework::builder().filter(crate::plugins::Fit).strategy(strategy);
        let framework = framework.domain_score(1, LeastFree::of("cpu")).build().unwrap();
        assert_eq!((placed_in(&framework, 5), placed_in(&framework, 7)), ("b".into(), "c".into()));
    }
    let framework = Framework::builder()
        .filter(crate::plugins::Fit)
        .score(1, crate::plugins::LeastAllocated::of([("cpu", 1)]))
        .strategy(Strategy::Kubernetes)
        .domain_score(1, FewestDomains::of("rack"))
        .build()
        .unwrap();
    // Five pods need both racks of blocks a and b, but not of c.
    assert_eq!(placed_in(&framework, 5), "c");
    assert_eq!(placed_in(&framework, 1), "a");
}
