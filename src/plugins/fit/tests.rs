use super::super::testing::{cluster, passing};
use super::*;
use crate::base::Time;
use crate::framework::{Evaluation, Framework, Rejection};
use crate::model::{Node, Pod};
use crate::state::Cluster;

const GPU: &str = "nvidia.com/gpu";

fn verdict(cluster: &Cluster, node: &str, pod: &Pod) -> Verdict {
    let framework = Framework::builder().filter(Fit).build().unwrap();
    let evaluation = Evaluation::new(&framework, cluster, pod.shape(), None, Time::ZERO);
    match evaluation.filter(cluster.node(node).unwrap()) {
        Ok(()) => Verdict::Pass,
        Err(Rejection::Filter(_, verdict)) => verdict,
        Err(other) => panic!("{other:?}"),
    }
}

#[test]
fn what_an_empty_node_could_not_take_is_unresolvable() {
    let mut cluster = cluster([Node::new("n").capacity("cpu", 4).capacity("pods", 2)]);
    cluster.add_pod(Pod::new().name("a").request("cpu", 3).on("n")).unwrap();
    let cpu = |amount: i64| Pod::new().request("cpu", amount);
    assert_eq!(verdict(&cluster, "n", &cpu(1)), Verdict::Pass);
    assert_eq!(verdict(&cluster, "n", &cpu(2)), Verdict::Unschedulable);
    assert_eq!(verdict(&cluster, "n", &cpu(5)), Verdict::Unresolvable);
    assert_eq!(verdict(&cluster, "n", &Pod::new().request(GPU, 1)), Verdict::Unresolvable);
    assert_eq!(verdict(&cluster, "n", &Pod::new().request(GPU, 0)), Verdict::Pass);
    cluster.add_pod(Pod::new().name("b").on("n")).unwrap();
    assert_eq!(verdict(&cluster, "n", &Pod::new()), Verdict::Unschedulable);
    assert_eq!(verdict(&cluster, "n", &cpu(5)), Verdict::Unresolvable);
}

#[test]
fn nothing_requested_fits_an_overcommitted_node() {
    let mut cluster = cluster([Node::new("n").capacity("cpu", 1)]);
    cluster.add_pod(Pod::new().name("a").request("cpu", 3).on("n")).unwrap();
    assert_eq!(verdict(&cluster, "n", &Pod::new()), Verdict::Pass);
    assert_eq!(verdict(&cluster, "n", &Pod::new().request("cpu", "1m")), Verdict::Unschedulable);
}

#[test]
fn only_extended_resources_can_be_ignored() {
    let cluster = cluster([Node::new("n")]);
    let filter = || Fit.ignoring([GPU, "cpu", "hugepages-2Mi"], ["vendor.example"]);
    let fits = |resource| !passing(filter(), &cluster, &Pod::new().request(resource, 1)).is_empty();
    assert!(fits(GPU) && fits("vendor.example/x"));
    for resource in ["cpu", "hugepages-2Mi", "vendor.example.com/x", "amd.com/gpu"] {
        assert!(!fits(resource), "{resource}");
    }
}

#[test]
fn sums_beyond_64_bits_bound_nothing() {
    let nodes = ["a", "b", "c"].map(|name| Node::new(name).capacity(GPU, i64::MAX));
    let cluster = cluster(nodes);
    for (divisor, fits) in [(4, 12), (1, 3)] {
        let pod = Pod::new().request(GPU, i64::MAX / divisor);
        let cx = Context::new(&cluster, pod.shape());
        let FilterPreparation::Ready(fit) = Arc::new(Fit).prepare(&cx) else { panic!() };
        assert!(fit.capacity().unwrap().of_all(&cx, 100) >= fits);
    }
}

#[test]
fn blocks_are_judged_as_nodes_are() {
    let wide = i64::MAX - 5;
    for huge in [false, true] {
        let mut cluster = Cluster::new();
        for i in 0..300_i64 {
            let mut node = Node::new(std::format!("n{i:03}")).capacity("cpu", i % 7);
            if i % 3 > 0 {
                node = node.capacity(GPU, if huge { wide } else { i % 9 });
            }
            if i % 5 == 0 {
                node = node.capacity("pods", i % 2);
            }
            cluster.add_node(node).unwrap();
            let bound = Pod::new().name(std::format!("p{i}")).request("cpu", i % 4);
            cluster.add_pod(bound.request(GPU, i % 11).on(std::format!("n{i:03}"))).unwrap();
        }
        for (cpu, gpu) in [(0, 0), (1, 0), (2, 3), (0, wide), (3, 20)] {
            let pod = Pod::new().request("cpu", cpu).request(GPU, gpu);
            let cx = Context::new(&cluster, pod.shape());
            let FilterPreparation::Ready(fit) = Arc::new(Fit).prepare(&cx) else { panic!() };
            let capacity = fit.capacity().unwrap();
            for block in Block::all(&cluster) {
                let mut verdicts = alloc::vec![0; block.len()];
                fit.filter_block(&cx, &block, &mut verdicts);
                let mut room = alloc::vec![9; block.len()];
                capacity.of_block(&cx, &block, &mut room);
                for (at, verdict) in verdicts.iter().enumerate() {
                    let node = block.node(at).unwrap();
                    assert_eq!(*verdict >= 0, fit.filter(&cx, node).passes());
                    assert_eq!(room[at], capacity.of_node(&cx, node).min(9));
                }
            }
        }
    }
}
