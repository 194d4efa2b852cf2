//! Preemption in small worlds whose least answer a line of arithmetic tells.

use phalanx::model::{Effect, Taint};
use phalanx::plugins::{Fit, TaintToleration};
use phalanx::preempt::{
    Consolidation, MoveClaim, PreemptingPlanner, Preemption, PreemptionRequest, RunningWork,
};
use phalanx::{Cluster, Framework, Node, Pod, PodGroup, Request, Time};

use crate::support::dice::Dice;

const GPU: &str = "example.com/gpu";

const NOW: Time = Time::from_secs(100);

fn cluster(nodes: &[(&str, &str, i64)], pods: &[(&str, &str, i64)]) -> Cluster {
    let mut cluster = Cluster::builder().levels(["rack"]).build().unwrap();
    for (name, rack, gpus) in nodes {
        let node = Node::new(*name).capacity(GPU, *gpus).label("rack", *rack);
        cluster.add_node(node).unwrap();
    }
    for (name, node, gpus) in pods {
        let mut pod = Pod::new().name(*name).request(GPU, *gpus).label("app", *name).on(*node);
        pod.start = Some(Time::from_secs(10));
        pod.group = name.rsplit_once('-').map(|(group, _)| group.to_string());
        cluster.add_pod(pod).unwrap();
    }
    cluster
}

fn gang(members: usize, gpus: i64) -> PodGroup {
    PodGroup::gang("new", members as u32).pods(members, Pod::new().request(GPU, gpus)).priority(1)
}

fn ask(gang: &PodGroup) -> PreemptionRequest<'_> {
    PreemptionRequest::new(Request::new(gang).now(NOW))
}

fn answer(cluster: &Cluster, known: &RunningWork, asked: PreemptionRequest<'_>) -> Preemption {
    PreemptingPlanner::new().place(cluster, &Framework::default(), known, asked).unwrap()
}

fn victims(answer: &Preemption) -> Vec<String> {
    let preempt = answer.preempt().unwrap_or_else(|| panic!("{answer}"));
    preempt.victims.iter().map(|own| own.name.to_string()).collect()
}

#[test]
fn where_no_work_is_lost_the_fewest_pods_go() {
    for seed in 0..300 {
        let mut dice = Dice(seed);
        let nodes = 1 + dice.roll(2) as usize;
        let (mut cluster, mut sizes) = (Cluster::new(), vec![Vec::new(); nodes]);
        for (at, sizes) in sizes.iter_mut().enumerate() {
            let name = format!("n{at}");
            let count = 2 + dice.roll(5);
            sizes.extend((0..count).map(|_| 1 + dice.roll(5) as i64));
            let all: i64 = sizes.iter().sum();
            cluster.add_node(Node::new(&name).capacity(GPU, all)).unwrap();
            for (number, size) in sizes.iter().enumerate() {
                let pod = Pod::new().name(format!("{name}p{number}")).request(GPU, *size);
                cluster.add_pod(pod.on(&name).since(NOW)).unwrap();
            }
        }
        let (members, each) = (1 + dice.roll(3) as i64, 1 + dice.roll(4) as i64);
        // The members that a node has room for if its largest pods go: the fewest for that room.
        let mut fewest = vec![Some(0); 1];
        for sizes in &mut sizes {
            sizes.sort_unstable();
            let mut next = vec![None; members as usize + 1];
            let (mut freed, mut gone) = (0, 0);
            let mut counts = vec![(0, 0)];
            for size in sizes.iter().rev() {
                (freed, gone) = (freed + size, gone + 1);
                counts.push((freed / each, gone));
            }
            for (had, before) in fewest.iter().enumerate() {
                for (room, gone) in &counts {
                    let at = (had as i64 + room).min(members) as usize;
                    let all = before.map(|before: i64| before + gone);
                    next[at] = match (next[at], all) {
                        (Some(own), Some(all)) => Some(all.min(own)),
                        (own, all) => own.or(all),
                    };
                }
            }
            fewest = next;
        }
        let gang = gang(members as usize, each);
        let found = answer(&cluster, &RunningWork::new(), ask(&gang));
        let count = found.preempt().map(|own| own.victims.len() as i64);
        assert_eq!(count, fewest[members as usize], "{seed}: {sizes:?} {members} of {each}");
        if let Some(own) = found.preempt() {
            assert_eq!(own.cost, own.lower_bound, "{seed}");
        }
    }
}

#[test]
fn of_nodes_that_one_group_leaves_the_first_by_name_is_taken() {
    let mut known = RunningWork::new();
    known.set_group(&PodGroup::gang("g", 1).evicted_whole()).unwrap();
    for nodes in [["a", "b", "c"], ["c", "b", "a"], ["b", "c", "a"]] {
        let places = nodes.map(|name| (name, "r", 4));
        let pods = nodes.map(|name| (format!("g-{name}"), name, 4));
        let pods: Vec<_> = pods.iter().map(|(name, node, gpus)| (&**name, *node, *gpus)).collect();
        let cluster = cluster(&places, &pods);
        let gang = gang(1, 4);
        let found = answer(&cluster, &known, ask(&gang));
        let plan = &found.preempt().unwrap().plan;
        assert_eq!(plan.assignments().next().unwrap().node(), "a", "{nodes:?}");
    }
}

#[test]
fn members_of_the_group_itself_stay_and_those_of_one_with_a_like_name_go() {
    let nodes = [("n1", "r", 4), ("n2", "r", 4)];
    let cluster = cluster(&nodes, &[("big-new-0", "n1", 4), ("new-x", "n2", 4)]);
    let gang = gang(1, 4);
    let found = answer(&cluster, &RunningWork::new(), ask(&gang));
    assert_eq!(victims(&found), ["default/big-new-0"]);
    let cluster = self::cluster(&nodes[1..], &[("new-x", "n2", 4)]);
    let found = answer(&cluster, &RunningWork::new(), ask(&gang));
    assert_eq!(found.word(), "no-victims-help", "{found}");
}

#[test]
fn a_group_does_not_evict_the_groups_inside_it() {
    // All that runs is of a group inside `new`, which goes whole; no pod names `new` itself.
    let cluster = cluster(&[("n1", "r", 4)], &[("inner-0", "n1", 2), ("inner-1", "n1", 2)]);
    let mut known = RunningWork::new();
    let tree = PodGroup::gang("new", 1).group(PodGroup::gang("inner", 1)).evicted_whole();
    known.set_group(&tree).unwrap();
    let more = PodGroup::gang("new", 1)
        .group(PodGroup::gang("other", 1).pods(1, Pod::new().request(GPU, 2)))
        .priority(1);
    let found = answer(&cluster, &known, ask(&more));
    assert_eq!(found.word(), "no-victims-help", "{found}");
}

#[test]
fn a_member_that_was_evicted_before_is_not_counted_among_victims() {
    let cluster = cluster(&[("n1", "r", 4)], &[("g-0", "n1", 2), ("g-1", "n1", 2)]);
    let mut known = RunningWork::new();
    known.set_group(&PodGroup::gang("g", 1).evicted_whole()).unwrap();
    let gang = gang(1, 4);
    let found = answer(&cluster, &known, ask(&gang));
    let cost = found.preempt().unwrap().cost;
    assert_eq!((cost.pods, cost.work_lost), (2, 180_000));
    let mut txn = cluster.txn();
    txn.evict("default", "g-1").unwrap();
    let found = answer(&txn, &known, ask(&gang));
    let preempt = found.preempt().unwrap();
    assert_eq!((preempt.cost.pods, preempt.cost.work_lost), (1, 90_000));
    assert_eq!(preempt.victims[0].pods.len(), 1);
}

#[test]
fn each_set_that_the_planner_judges_is_counted() {
    // By amounts the pod could go for it; by its taint the node takes no other.
    let mut cluster = Cluster::new();
    let node = Node::new("n1").capacity(GPU, 4);
    cluster.add_node(node.taint(Taint::new("repair", "", Effect::NoSchedule))).unwrap();
    cluster.add_pod(Pod::new().name("p").request(GPU, 4).on("n1").since(NOW)).unwrap();
    let gang = gang(1, 4);
    let framework = Framework::builder().filter(Fit).filter(TaintToleration).build().unwrap();
    let mut planner = PreemptingPlanner::new();
    for count in 1..4 {
        let known = RunningWork::new();
        let found = planner.place(&cluster, &framework, &known, ask(&gang)).unwrap();
        assert_eq!(found.word(), "no-victims-help", "{found}");
        assert_eq!(planner.trials(), count);
    }
}

#[test]
fn any_budget_of_steps_has_an_answer_where_victims_and_moves_mix() {
    let nodes = [("n1", "a", 8), ("n2", "b", 4), ("n3", "b", 3)];
    let pods = [("p", "n1", 5), ("q", "n1", 2), ("s", "n1", 1), ("r", "n2", 1), ("t", "n3", 2)];
    let cluster = cluster(&nodes, &pods);
    let gang = gang(1, 8);
    let asked = || ask(&gang).consolidation(Consolidation::new(2).or_evict());
    let whole = answer(&cluster, &RunningWork::new(), asked());
    let best = whole.preempt().unwrap();
    let mut last = None;
    for budget in 0..700 {
        let found = answer(&cluster, &RunningWork::new(), asked().budget(budget));
        if let Some(own) = found.preempt() {
            assert!(own.cost >= best.cost, "{budget}");
            assert!(own.steps <= budget.max(1), "{budget}: {}", own.steps);
        }
        last = found.preempt().cloned();
    }
    assert_eq!(last.unwrap().cost, best.cost);
}

fn in_rack(group: PodGroup) -> PodGroup {
    group.require("rack")
}

/// Nodes where two units have to change places, so that one of them stops.
fn exchange(pods: usize, rule: impl Fn(PodGroup) -> PodGroup) -> Preemption {
    let left = pods as i64 - 1;
    let nodes = [("n1", "a", left), ("n2", "b", left)];
    let mut all: Vec<_> = (0..pods - 1).map(|at| (format!("p-{at}"), "n1", 1)).collect();
    all.push(("q-0".into(), "n2", left - 2));
    let all: Vec<_> = all.iter().map(|(name, node, gpus)| (&**name, *node, *gpus)).collect();
    let cluster = cluster(&nodes, &all);
    let mut known = RunningWork::new();
    for name in ["p", "q"] {
        known.set_group(&rule(PodGroup::gang(name, 1).evicted_whole())).unwrap();
    }
    let pod = Pod::new().request(GPU, 2).node_selector("rack", "a");
    let gang = PodGroup::gang("new", 1).pods(1, pod).priority(1);
    answer(&cluster, &known, ask(&gang).consolidation(Consolidation::new(2)))
}

#[test]
fn moves_of_which_one_stops_are_called_least_where_all_layouts_are_known() {
    let claim = |answer: Preemption| {
        let preempt = answer.preempt().unwrap_or_else(|| panic!("{answer}"));
        assert_eq!((preempt.move_cost.stopped.units, preempt.move_cost.units), (1, 2));
        // It is `q`, as less work is in it.
        let stops = preempt.moves.iter().filter(|step| step.stops);
        assert_eq!(stops.map(|step| &*step.pod.name).collect::<Vec<_>>(), ["q-0"]);
        preempt.move_claim
    };
    // As many pods as are laid out in all ways, and one more.
    for pods in [6, 11, 12] {
        assert_eq!(claim(exchange(pods, in_rack)), Some(MoveClaim::Least), "{pods}");
    }
    assert_ne!(claim(exchange(13, in_rack)), Some(MoveClaim::Least));
    // A wish beside what is required: which layouts it would like is not asked.
    assert_ne!(claim(exchange(6, |group| in_rack(group).prefer("rack"))), Some(MoveClaim::Least));
}

#[test]
fn the_steps_of_an_answer_are_enough_to_find_it() {
    let nodes = [("n1", "a", 8), ("n2", "a", 8)];
    let cluster = cluster(&nodes, &[("p", "n1", 4), ("q", "n2", 4)]);
    let gang = gang(1, 8);
    let asked = || ask(&gang).consolidation(Consolidation::new(1));
    let found = answer(&cluster, &RunningWork::new(), asked());
    let steps = found.preempt().unwrap().steps;
    assert!(steps > 1, "{steps}");
    let again = answer(&cluster, &RunningWork::new(), asked().budget(1));
    assert!(again.preempt().is_none_or(|own| own.steps <= 1), "{again}");
    for budget in [steps + 8, 10 * steps, 1_000_000] {
        let again = answer(&cluster, &RunningWork::new(), asked().budget(budget));
        let again = again.preempt().unwrap();
        assert_eq!(again.moves.len(), 1);
    }
}
