//! The worked examples of the field, by name.

use phalanx::plugins::{Fit, MostAllocated};
use phalanx::{
    Cluster, CommitError, Framework, Node, Outcome, Planner, Pod, PodGroup, Request, Strategy,
    place_gang,
};

const GPU: &str = "nvidia.com/gpu";
const STRATEGIES: [Strategy; 2] = [Strategy::Kubernetes, Strategy::Search];

fn cluster(nodes: usize, gpus: u32) -> Cluster {
    let mut cluster = Cluster::new();
    for index in 0..nodes {
        let node = Node::new(format!("n{index}")).capacity("cpu", 64).capacity("memory", "512Gi");
        cluster.add_node(node.capacity(GPU, gpus)).unwrap();
    }
    cluster
}

/// GPUs taken, node by node.
fn taken(cluster: &Cluster) -> Vec<i64> {
    let gpu = cluster.resource(GPU).unwrap();
    cluster.nodes().map(|node| node.used(gpu)).collect()
}

/// A TensorFlow job as Kubeflow and Volcano explain gangs with it.
#[test]
fn parameter_server_and_workers_start_together_or_not_at_all() {
    let server = Pod::new().name("ps-0").request("cpu", 1);
    let worker = Pod::new().request("cpu", 1).request(GPU, 2);
    let job = PodGroup::gang("tf", 5).pod(server).pods(4, worker);
    let framework = Framework::default();
    for strategy in STRATEGIES {
        let mut cluster = cluster(1, 4);
        let before = cluster.generation();
        let request = phalanx::Request::new(&job).strategy(strategy);
        let outcome = place_gang(&cluster, &framework, request.clone()).unwrap();
        assert!(matches!(outcome, Outcome::Unplaced(_)), "{outcome}");
        assert_eq!((cluster.generation(), cluster.pod_count()), (before, 0));

        cluster.add_node(Node::new("n1").capacity("cpu", 64).capacity(GPU, 4)).unwrap();
        let outcome = place_gang(&cluster, &framework, request).unwrap();
        cluster.commit(&framework, outcome.plan().expect("8 GPUs are enough")).unwrap();
        assert_eq!((cluster.pod_count(), taken(&cluster)), (5, vec![4, 4]));
        assert_eq!(cluster.group_pods("default/tf").count(), 5);
    }
}

/// The example of Volcano's and Koordinator's bin-packing documents.
#[test]
fn weighted_bin_packing_fills_a_node_before_it_opens_the_next() {
    let pack = MostAllocated::of([(GPU, 20), ("cpu", 2), ("memory", 1)]);
    let framework = Framework::builder().filter(Fit).score(1, pack).build().unwrap();
    let mut cluster = cluster(2, 8);
    let mut planner = Planner::new();
    let mut nodes = Vec::new();
    for index in 0..5 {
        let pod = Pod::new().request("cpu", 4).request("memory", "16Gi").request(GPU, 2);
        let alone = PodGroup::basic(format!("p{index}")).pods(1, pod);
        let outcome = planner.place(&cluster, &framework, &alone).unwrap();
        let plan = outcome.plan().expect("there is room").clone();
        nodes.push(plan.pods_per_node()[0].0.to_string());
        cluster.commit(&framework, &plan).unwrap();
        if index == 2 {
            assert_eq!(taken(&cluster), [6, 0]);
        }
    }
    assert_eq!(nodes, ["n0", "n0", "n0", "n0", "n1"]);
    assert_eq!(taken(&cluster), [8, 2]);
}

#[test]
fn packing_leaves_a_whole_node_free_and_spreading_leaves_none() {
    let gang = PodGroup::gang("g", 8).pods(8, Pod::new().request(GPU, 1));
    for (framework, expected) in [(Framework::default(), [8, 0]), (Framework::spread(), [4, 4])] {
        for strategy in STRATEGIES {
            let mut cluster = cluster(2, 8);
            let request = phalanx::Request::new(&gang).strategy(strategy);
            let outcome = place_gang(&cluster, &framework, request).unwrap();
            cluster.commit(&framework, outcome.plan().expect("there is room")).unwrap();
            assert_eq!(taken(&cluster), expected);
        }
    }
}

/// Two gangs of four on six GPUs. Pod by pod, in turn, each holds three and waits for ever; whole
/// or not at all, one runs, and then the other.
#[test]
fn gangs_that_would_deadlock_pod_by_pod_run_one_after_the_other() {
    let framework = Framework::default();
    let gangs = ["a", "b"]
        .map(|name| PodGroup::gang(name, 4).pods(4, Pod::new().request(GPU, 1).in_group(name)));

    let mut stuck = cluster(2, 3);
    for index in 0..4 {
        for gang in &gangs {
            let mut pod = gang.pods[index].clone();
            pod.group = None;
            let alone = PodGroup::basic(format!("{}-alone", pod.name)).pod(pod);
            if let Some(plan) = place_gang(&stuck, &framework, &alone).unwrap().plan() {
                stuck.commit(&framework, plan).unwrap();
            }
        }
    }
    let begun = |name: &&str| {
        (0..4).filter(|n| stuck.pod("default", &format!("{name}-{n}")).is_some()).count()
    };
    assert_eq!(["a", "b"].each_ref().map(begun), [3, 3]);
    let running =
        |cluster: &Cluster| ["default/a", "default/b"].map(|g| cluster.group_pods(g).count());

    let mut cluster = cluster(2, 3);
    let [first, second] =
        gangs.each_ref().map(|gang| place_gang(&cluster, &framework, gang).unwrap());
    // Both plans were made on the empty cluster; only one of them can be taken up.
    cluster.commit(&framework, first.plan().expect("six GPUs take four")).unwrap();
    let conflict =
        cluster.commit(&framework, second.plan().expect("so they did before")).unwrap_err();
    assert!(matches!(conflict, CommitError::Conflict { .. }), "{conflict}");
    assert!(!place_gang(&cluster, &framework, &gangs[1]).unwrap().is_placed());
    assert_eq!(running(&cluster), [4, 0]);

    for pod in &gangs[0].pods {
        cluster.remove_pod(pod.namespace(), &pod.name).unwrap();
    }
    let outcome = place_gang(&cluster, &framework, &gangs[1]).unwrap();
    cluster.commit(&framework, outcome.plan().expect("the first is gone")).unwrap();
    assert_eq!(running(&cluster), [0, 4]);
}

/// Volcano's `minMember` above the sum of its role minima: seven pods are not nine.
#[test]
fn a_minimum_of_pods_beside_role_minima_is_honoured() {
    let mut cluster = Cluster::new();
    cluster.add_node(Node::new("n1").capacity("nvidia.com/gpu", 7)).unwrap();
    let role =
        |name: &str| PodGroup::gang(name, 3).pods(5, Pod::new().request("nvidia.com/gpu", 1));
    let mut job = PodGroup::gang("job", 2).group(role("ps")).group(role("worker"));
    job.min_pods = Some(9);
    for strategy in [Strategy::Search, Strategy::Kubernetes] {
        let request = Request::new(&job).strategy(strategy);
        let outcome = place_gang(&cluster, &Framework::default(), request).unwrap();
        assert!(!outcome.is_placed(), "{outcome}");
    }
    cluster.add_node(Node::new("n2").capacity("nvidia.com/gpu", 2)).unwrap();
    let outcome = place_gang(&cluster, &Framework::default(), &job).unwrap();
    assert_eq!(outcome.plan().unwrap().len(), 9);
}
