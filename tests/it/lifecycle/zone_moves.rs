//! Amounts of NUMA zones while pods move: a move says which, and they are held until the pod is there.

use phalanx::model::{Amounts, Zone, ZonePart, ZonePolicy, ZoneScope, ZoneShare};
use phalanx::queue::PreemptionSettings;
use phalanx::{Cluster, Decision, Event, Node, Pod, PodGroup, Scheduler};

use super::moves::{moved, wide};
use super::steps::*;

/// Two nodes with two zones of two GPUs each. A pod with one GPU of a zone runs on the first, one with
/// two GPUs on the second.
fn two_nodes() -> Scheduler {
    let mut cluster = Cluster::new();
    for name in ["n0000", "n0001"] {
        let node = Node::new(name).capacity(GPU, 4).capacity("pods", 9);
        let node = (0..2).fold(node, |node, zone| node.zone(Zone::new(zone).capacity(GPU, 2)));
        let node = node.aligning(ZonePolicy::SingleNumaNode, ZoneScope::Container);
        cluster.add_node(node).unwrap();
    }
    let settings = Some(PreemptionSettings::new().consolidation(4));
    let mut scheduler = scheduler(cluster, |own| own.preemption = settings);
    for (name, gpus, node) in [("small", 1, "n0000"), ("large", 2, "n0001")] {
        let part = ZonePart::new().amount(GPU, gpus);
        let mut pod = Pod::new().request(GPU, gpus).zone_part(part).name(name).on(node);
        pod.zone_shares = vec![share(0, gpus)];
        scheduler.handle_group(PodGroup::gang(name, 1).pod(pod), at(0)).unwrap();
    }
    scheduler
}

fn share(zone: u32, gpus: i64) -> ZoneShare {
    ZoneShare::new(zone, Amounts::new().with(GPU, gpus))
}

/// Free GPUs of the zones of a node.
fn free(scheduler: &Scheduler, node: &str) -> [i64; 2] {
    let room = scheduler.cluster().node(node).unwrap().zone_room().unwrap();
    let gpus = room.resource(GPU).unwrap();
    [room.free(0, gpus), room.free(1, gpus)]
}

#[test]
fn a_move_says_which_zones_and_they_are_held_until_the_pod_is_there() {
    let mut scheduler = two_nodes();
    assert_eq!((free(&scheduler, "n0000"), free(&scheduler, "n0001")), ([1, 2], [0, 2]));
    scheduler.handle_group(wide("new", 4), at(1)).unwrap();
    let (_, moves) = moved(&mut scheduler, at(1));
    let [step] = &moves[..] else { panic!("{moves:?}") };
    assert_eq!((&*step.pod.name, &*step.to), ("large", "n0000"));
    assert_eq!(step.zone_shares, [share(1, 2)]);
    assert_eq!(free(&scheduler, "n0000"), [1, 0]);
    // It is deleted and made anew: the gang starts where it was, and the zone is still held for it.
    delete(&mut scheduler, "large", at(2));
    let mut places = Vec::new();
    while let Some(decision) = scheduler.poll_decision(at(2)) {
        let Decision::Bind { ticket, plan, .. } = decision else { panic!("{decision:?}") };
        bind(&mut scheduler, ticket, &plan, at(2));
        places.extend(plan.assignments().map(|own| own.node().to_owned()));
    }
    assert_eq!(places, ["n0001"]);
    assert_eq!(free(&scheduler, "n0000"), [1, 0]);
    let part = ZonePart::new().amount(GPU, 2);
    let anew = Pod::new().request(GPU, 2).zone_part(part).name("large").in_group("large");
    scheduler.handle_pod(anew, at(3)).unwrap();
    let Some(Decision::Bind { ticket, plan, .. }) = scheduler.poll_decision(at(3)) else {
        panic!("its place is held");
    };
    let own = plan.assignments().next().unwrap();
    assert_eq!((own.node(), own.zone_shares()), ("n0000", &[share(1, 2)][..]));
    bind(&mut scheduler, ticket, &plan, at(3));
    assert_eq!(free(&scheduler, "n0000"), [1, 0]);
}

#[test]
fn a_pod_that_no_zone_takes_does_not_move() {
    let mut scheduler = two_nodes();
    // Two GPUs are free of each node, one in each zone: no zone takes a pod of two.
    let mut pod = scheduler.cluster().pod("default", "large").unwrap().to_pod();
    pod.zone_shares = vec![share(0, 1), share(1, 1)];
    scheduler.handle_event(Event::PodChanged { pod, version: 0 }, at(1)).unwrap();
    assert_eq!(free(&scheduler, "n0001"), [1, 1]);
    let mut wider = scheduler.cluster().pod("default", "small").unwrap().to_pod();
    let shape = wider.shape_mut();
    shape.requests.set(GPU, 2);
    shape.zones.parts = vec![ZonePart::new().amount(GPU, 2)];
    wider.zone_shares = vec![share(0, 1), share(1, 1)];
    scheduler.handle_event(Event::PodChanged { pod: wider, version: 0 }, at(1)).unwrap();
    scheduler.handle_group(wide("new", 4), at(1)).unwrap();
    assert_eq!(scheduler.poll_decision(at(1)), None);
}
