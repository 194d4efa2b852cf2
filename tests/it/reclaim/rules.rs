//! Rules of the joint search one by one.

use std::time::Duration;

use phalanx::model::Amounts;
use phalanx::preempt::{
    Consolidation, NoVictims, PreemptingPlanner, Preemption, PreemptionRequest, RunningWork,
};
use phalanx::quota::{
    AssignmentMode, Claim, Flavor, PodSet, Queue, Quota, TenantSettings, Tenants,
};
use phalanx::reclaim::{Reclaim, ReclaimError, reclaim};
use phalanx::{Cluster, Framework, Node, Pod, PodGroup, Request, Time};

fn claim(name: &str, queue: &str, gpus: i64) -> Claim {
    let mut requests = Amounts::new();
    requests.set("gpu", gpus);
    Claim::new(name, queue).pods(PodSet::new("main", 1, requests))
}

/// Two queues of equal shares, by GPUs. If one could take CPUs from the other, the other could take
/// them back.
#[test]
fn equal_shares_take_no_turns_over_another_resource() {
    let mut tenants = Tenants::default();
    tenants.set_flavor(Flavor::new("all"));
    let both =
        |gpus: i64, cpus: i64| [("gpu", Quota::nominal(gpus)), ("cpu", Quota::nominal(cpus))];
    let with = |queue: Queue, quotas: [(&str, Quota); 2]| {
        quotas.into_iter().fold(queue, |own, (name, quota)| own.quota("all", name, quota))
    };
    tenants.set_queue(with(Queue::inner("root"), both(8, 32))).unwrap();
    for name in ["a", "b", "c"] {
        tenants.set_queue(with(Queue::leaf(name).parent("root"), both(0, 0))).unwrap();
    }
    let claim = |name: &str, queue: &str, gpus: i64, cpus: i64| {
        let mut requests = Amounts::new();
        requests.set("gpu", gpus);
        requests.set("cpu", cpus);
        Claim::new(name, queue).pods(PodSet::new("main", 1, requests))
    };
    let first = [("a1", "a", 4, 7), ("b1", "b", 4, 6), ("c1", "c", 0, 18), ("b2", "b", 0, 1)];
    for (at, (name, queue, gpus, cpus)) in first.into_iter().enumerate() {
        let own = claim(name, queue, gpus, cpus);
        let decision = tenants.decide(&own).unwrap();
        assert_eq!(decision.assignment.mode, AssignmentMode::Fit, "{name}");
        tenants.admit(&own, &decision.assignment, Time::from_secs(at as u64)).unwrap();
    }
    let own = claim("a2", "a", 0, 1);
    let decision = tenants.decide(&own).unwrap();
    assert_eq!(decision.victims, []);
    let b2 = tenants.find("b2").unwrap();
    let yields = tenants.yields(&own, &decision.assignment).unwrap().unwrap();
    assert!(!yields.may_yield(&[b2]));
    drop(yields);
    // One GPU less, and `a` has the smaller share.
    let a1 = tenants.find("a1").unwrap();
    tenants.release(a1).unwrap();
    let less = claim("a1", "a", 3, 7);
    let assignment = tenants.decide(&less).unwrap().assignment;
    tenants.admit(&less, &assignment, Time::from_secs(9)).unwrap();
    let decision = tenants.decide(&own).unwrap();
    let named: Vec<_> = decision.victims.iter().map(|victim| victim.holder).collect();
    assert_eq!(named, [b2]);
}

/// Quota that is reserved for a group goes with it: its queue would be left with nothing of its guarantee.
#[test]
fn a_group_that_waits_for_more_gives_nothing_back_for_it() {
    let mut tenants = Tenants::default();
    tenants.set_flavor(Flavor::new("all"));
    for name in ["a", "b"] {
        let queue = Queue::leaf(name).parent("root").quota("all", "gpu", Quota::nominal(4));
        tenants.set_queue(queue).unwrap();
    }
    let elastic = claim("b1", "b", 4);
    let assignment = tenants.decide(&elastic).unwrap().assignment;
    let b1 = tenants.admit(&elastic, &assignment, Time::ZERO).unwrap();
    let leaf = tenants.holder(b1).unwrap().queue;
    let mut more = assignment.usage.clone();
    more[0].1 = 2;
    let own = claim("a1", "a", 4);
    let may_yield = |tenants: &mut Tenants, by: &str| {
        tenants.reserve(by, leaf, &more).unwrap();
        let assignment = tenants.decide(&own).unwrap().assignment;
        let yields = tenants.yields(&own, &assignment).unwrap().unwrap();
        let found = (yields.may_yield(&[b1]), yields.candidates().contains(&b1));
        drop(yields);
        tenants.unreserve(by).unwrap();
        found
    };
    // Reserved for another group, it stays in use when b1 has gone: b borrows.
    assert_eq!(may_yield(&mut tenants, "b2"), (true, true));
    assert_eq!(may_yield(&mut tenants, "b1"), (false, false));
}

/// A queue beside the claim's gives back, and the share of both falls: one further off may give back since.
/// Whichever holder has the lower number.
#[test]
fn queues_beside_the_claims_make_it_milder_for_those_further_off() {
    for near_first in [true, false] {
        let mut tenants = Tenants::with(TenantSettings::default().patience(Duration::ZERO));
        tenants.set_flavor(Flavor::new("all"));
        tenants.set_queue(Queue::inner("root").quota("all", "gpu", Quota::nominal(10))).unwrap();
        for (inner, leaves) in [("a", ["a1", "a2"]), ("b", ["b1", "b2"])] {
            tenants.set_queue(Queue::inner(inner).parent("root")).unwrap();
            for leaf in leaves {
                let queue = Queue::leaf(leaf).parent(inner);
                tenants.set_queue(queue.quota("all", "gpu", Quota::nominal(0))).unwrap();
            }
        }
        let mut holders = Vec::new();
        let (near, far) = (["a1"; 2], ["b1"; 3]);
        let order = if near_first { [&near[..], &far] } else { [&far[..], &near] };
        for (at, queue) in order.concat().into_iter().enumerate() {
            let own = claim(&format!("job-{at}"), queue, 2);
            let assignment = tenants.decide(&own).unwrap().assignment;
            holders.push(tenants.admit(&own, &assignment, Time::from_secs(at as u64)).unwrap());
        }
        let (near, far) = (holders[if near_first { 0 } else { 4 }], holders[2]);
        let own = claim("own", "a2", 2);
        let assignment = tenants.decide(&own).unwrap().assignment;
        let yields = tenants.yields(&own, &assignment).unwrap().unwrap();
        // With the claim `a` has 6 of 10, without the one beside it as much as `b` in the end.
        assert!(!yields.may_yield(&[far]) && yields.may_yield(&[near]));
        assert!(yields.may_yield(&[near, far]) && yields.may_yield(&[far, near]));
        assert!(yields.may_begin(&[far]) && yields.candidates().contains(&far));
        assert!(yields.matters_without_room(near));
    }
}

struct World {
    cluster: Cluster,
    tenants: Tenants,
}

impl World {
    /// Two nodes of four GPUs in each of two racks, and two queues with so much each.
    fn new(promised: [i64; 2]) -> World {
        let mut cluster = Cluster::builder().levels(["rack"]).build().unwrap();
        for number in 0..4 {
            let node = Node::new(format!("n{number}")).capacity("gpu", 4);
            cluster.add_node(node.label("rack", format!("k{}", number / 2))).unwrap();
        }
        let mut tenants = Tenants::default();
        tenants.set_flavor(Flavor::new("all"));
        for (name, promised) in ["a", "b"].iter().zip(promised) {
            let queue = Queue::leaf(*name).parent("root");
            tenants.set_queue(queue.quota("all", "gpu", Quota::nominal(promised))).unwrap();
        }
        World { cluster, tenants }
    }

    fn run(&mut self, name: &str, queue: &str, gpus: i64, node: &str, start: u64) {
        let pod = Pod::new().name(name).request("gpu", gpus).since(Time::from_secs(start));
        self.cluster.add_pod(pod.on(node)).unwrap();
        let own = claim(&format!("default/{name}"), queue, gpus);
        let assignment = self.tenants.decide(&own).unwrap().assignment;
        self.tenants.admit(&own, &assignment, Time::from_secs(start)).unwrap();
    }

    fn ask(&mut self, gang: &PodGroup, moves: bool) -> Reclaim {
        let gpus: i64 = gang.pods.iter().map(|pod| pod.shape().requests.of("gpu")).sum();
        let own = claim("default/new", &gang.queue, gpus);
        let request = Request::new(gang).now(Time::from_secs(1_000));
        let mut request = PreemptionRequest::new(request);
        if moves {
            request = request.consolidation(Consolidation::new(4).or_evict());
        }
        let (framework, running) = (Framework::default(), RunningWork::new());
        let known = (&self.cluster, &framework, &running);
        reclaim(&mut PreemptingPlanner::new(), known, (&mut self.tenants, &own), request).unwrap()
    }
}

fn names(found: &Reclaim) -> Vec<&str> {
    let preempt = found.answer.preempt().unwrap_or_else(|| panic!("{}", found.answer));
    preempt.victims.iter().map(|victim| victim.name.as_str()).collect()
}

fn gang(members: usize, queue: &str) -> PodGroup {
    let gang = PodGroup::gang("new", members as u32).pods(members, Pod::new().request("gpu", 4));
    gang.require("rack").queue(queue)
}

/// Quota suffices and room is in pieces. The queue that borrows yields, though quota names nobody;
/// and only as much as it borrows: the two jobs of the other rack would cost less.
#[test]
fn a_queue_that_borrows_yields_room() {
    let mut world = World::new([12, 4]);
    for (name, node, start) in [("b0", "n0", 10), ("b1", "n2", 500), ("b2", "n3", 600)] {
        world.run(name, "b", 2, node, start);
    }
    assert!(matches!(world.ask(&gang(1, "a"), false).answer, Preemption::Placed(_)));
    let found = world.ask(&gang(2, "a"), false);
    assert_eq!((found.assignment.mode, names(&found)), (AssignmentMode::Fit, vec!["default/b0"]));
    assert_eq!(found.holders, [world.tenants.find("default/b0").unwrap()]);
}

/// A queue within its guarantee yields nothing.
#[test]
fn a_queue_within_its_guarantee_yields_no_room() {
    let mut world = World::new([4, 12]);
    for at in 0..4 {
        world.run(&format!("b{at}"), "b", 3, &format!("n{at}"), 10);
    }
    let found = world.ask(&gang(1, "a"), false);
    let Preemption::NoVictimsHelp(help) = &found.answer else { panic!("{}", found.answer) };
    assert!(matches!(help.reason, NoVictims::NoUnits | NoVictims::DoesNotFit));
}

/// Moves come first where room alone is short.
#[test]
fn moves_come_before_victims_where_quota_suffices() {
    let mut world = World::new([8, 8]);
    for (at, node) in [(0, "n0"), (1, "n2"), (2, "n3")] {
        world.run(&format!("b{at}"), "b", 2, node, 10);
    }
    let found = world.ask(&gang(2, "a"), true);
    let preempt = found.answer.preempt().unwrap();
    assert_eq!((preempt.victims.len(), preempt.moves.len()), (0, 1), "{}", found.answer);
}

/// Where quota is short nothing moves: a unit that moves gives no quota back.
#[test]
fn nothing_moves_where_quota_is_short() {
    let mut world = World::new([8, 4]);
    for at in 0..4 {
        world.run(&format!("b{at}"), "b", 3, &format!("n{at}"), 10 + at as u64);
    }
    let found = world.ask(&gang(2, "a"), true);
    let preempt = found.answer.preempt().unwrap();
    assert!(preempt.moves.is_empty());
    assert_eq!((found.assignment.mode, names(&found).len()), (AssignmentMode::Preempt, 3));
}

/// Dialects that name victims by their own search say so.
#[test]
fn other_dialects_say_that_they_do_not_say() {
    let mut tenants = Tenants::yunikorn();
    tenants.set_flavor(Flavor::new("all"));
    tenants.set_queue(Queue::inner("root").quota("all", "gpu", Quota::nominal(4))).unwrap();
    tenants.set_queue(Queue::leaf("a").quota("all", "gpu", Quota::nominal(0))).unwrap();
    let gang = gang(1, "a");
    let own = claim("default/new", "a", 4);
    let (cluster, framework, running) = (Cluster::new(), Framework::default(), RunningWork::new());
    let known = (&cluster, &framework, &running);
    let found = reclaim(
        &mut PreemptingPlanner::new(),
        known,
        (&mut tenants, &own),
        PreemptionRequest::new(&gang),
    );
    assert_eq!(found.unwrap_err(), ReclaimError::Dialect);
}
