//! Nominations: plans that start a group once there is room, and plans that cannot.

use phalanx::queue::{Gate, GroupState};
use phalanx::{
    Cluster, Decision, Event, Node, Plan, Pod, PodGroup, QueueError, Scheduler, place_gang,
};

use super::steps::*;

/// The plan of a group on an empty cluster of so many GPUs.
fn planned(group: &PodGroup, gpus_each: i64) -> Plan {
    let empty = gpus(1, gpus_each);
    let framework = phalanx::Framework::default();
    place_gang(&empty, &framework, group).unwrap().plan().unwrap().clone()
}

/// The plan with its first assignments alone, as it might have travelled.
fn first(plan: &Plan, count: usize) -> Plan {
    let mut value = serde_json::to_value(plan).unwrap();
    let assignments = value["assignments"].as_array_mut().unwrap();
    assignments.truncate(count);
    let groups: Vec<_> = assignments.iter().map(|assignment| assignment["group"].clone()).collect();
    // A plan says how many pods it has of each group: this one has no more.
    for (place, group) in value["groups"].as_array_mut().unwrap().iter_mut().enumerate() {
        group["planned"] = groups.iter().filter(|own| **own == place).count().into();
    }
    value["domains"].as_array_mut().unwrap().clear();
    serde_json::from_value(value).unwrap()
}

/// One node of eight GPUs, six of them in use.
fn busy() -> Scheduler {
    let mut scheduler = scheduler(gpus(1, 8), |_| ());
    scheduler.handle_group(gang("old", 6), at(0)).unwrap();
    bind_all(&mut scheduler, at(0));
    scheduler
}

#[test]
fn a_nomination_without_pods_is_refused_and_the_group_is_placed_as_any_other() {
    let mut scheduler = scheduler(gpus(1, 8), |_| ());
    scheduler.handle_group(gang("g", 4), at(1)).unwrap();
    let empty = first(&planned(&gang("g", 4), 8), 0);
    let refused = scheduler.handle_nomination(empty, at(1));
    assert_eq!(refused, Err(QueueError::EmptyNomination("default/g".parse().unwrap())));
    assert_eq!(bind_all(&mut scheduler, at(1)), ["default/g"]);
    assert_eq!(scheduler.state("default/g"), Some(GroupState::Running));
}

#[test]
fn a_nomination_of_part_of_a_gang_is_refused() {
    let mut scheduler = busy();
    scheduler.handle_group(gang("g", 4), at(1)).unwrap();
    let short = first(&planned(&gang("g", 4), 8), 1);
    let refused = scheduler.handle_nomination(short, at(1));
    let gate = Gate::Members { group: "default/g".parse().unwrap(), have: 1, need: 4 };
    assert_eq!(refused, Err(QueueError::NominationBelowMinimum(gate)));
    assert!(scheduler.reservations().is_empty());
    assert_eq!(scheduler.poll_decision(at(1)), None);
}

/// Two of four run; a nomination of the other two, or of one of them.
#[test]
fn members_that_run_count_towards_the_minimum_of_a_nomination() {
    for (count, is_taken) in [(1, false), (2, true)] {
        let mut scheduler = scheduler(gpus(1, 8), |_| ());
        let group = PodGroup::gang("g", 4).pods(4, gpu());
        scheduler.handle_group(group, at(0)).unwrap();
        bind_all(&mut scheduler, at(0));
        for name in ["g-0", "g-1"] {
            delete(&mut scheduler, name, at(1));
        }
        let late = |name: &str| gpu().name(name).in_group("g");
        let rest = PodGroup::gang("g", 2).pod(late("g-8")).pod(late("g-9"));
        let plan = first(&planned(&rest, 8), count);
        for name in ["g-8", "g-9"] {
            scheduler.handle_pod(late(name), at(1)).unwrap();
        }
        let answer = scheduler.handle_nomination(plan, at(1));
        assert_eq!(answer.is_ok(), is_taken, "{answer:?}");
        assert_eq!(bind_all(&mut scheduler, at(1)), ["default/g"]);
        assert_eq!(scheduler.status("default/g").unwrap().bound, 4);
    }
}

/// A tree needs one of two roles. The nomination has one role whole, and half of the other.
#[test]
fn each_group_that_a_nomination_places_is_whole() {
    let role = |name: &str| PodGroup::gang(name, 2).pods(2, gpu());
    let tree = || PodGroup::gang("job", 1).group(role("a")).group(role("b"));
    let mut scheduler = scheduler(gpus(1, 8), |_| ());
    scheduler.handle_group(tree(), at(0)).unwrap();
    let plan = planned(&tree(), 8);
    assert_eq!(plan.len(), 4);
    let refused = scheduler.handle_nomination(first(&plan, 3), at(0));
    let gate = Gate::Members { group: "default/b".parse().unwrap(), have: 1, need: 2 };
    assert_eq!(refused, Err(QueueError::NominationBelowMinimum(gate)));
    scheduler.handle_nomination(first(&plan, 2), at(0)).unwrap();
    let Some(Decision::Bind { plan, .. }) = scheduler.poll_decision(at(0)) else { panic!() };
    assert_eq!(plan.len(), 2);
}

/// A nomination holds room for a group; then a pod of it is deleted, or the group needs more, or a
/// pod asks for more. The group gives back what is held and is tried as any other.
#[test]
fn a_nomination_that_no_longer_suits_its_group_is_dropped() {
    for change in 0..3 {
        let mut scheduler = busy();
        let group = |minimum| PodGroup::gang("g", minimum).pods(4, gpu());
        scheduler.handle_group(group(3), at(1)).unwrap();
        scheduler.handle_nomination(first(&planned(&group(3), 8), 3), at(1)).unwrap();
        assert_eq!(scheduler.poll_decision(at(1)), None);
        assert_eq!(scheduler.reservations().len(), 1);
        let wanted = match change {
            0 => {
                delete(&mut scheduler, "g-0", at(2));
                3
            }
            1 => {
                scheduler.handle_group(group(4), at(2)).unwrap();
                4
            }
            _ => {
                let larger = Pod::new().request(GPU, 2).name("g-0").in_group("g");
                scheduler.handle_pod(larger, at(2)).unwrap();
                3
            }
        };
        assert_eq!(scheduler.poll_decision(at(2)), None);
        assert!(scheduler.reservations().is_empty(), "{change}");
        assert!(is_asleep(&scheduler, "default/g"));
        let node = Node::new("new").capacity(GPU, 8);
        scheduler.handle_event(Event::NodeChanged { node, version: 0 }, at(30)).unwrap();
        assert_eq!(bind_all(&mut scheduler, at(30)), ["default/g"], "{change}");
        assert!(scheduler.status("default/g").unwrap().bound >= wanted);
    }
}

/// The nominated node is gone: the group goes where there is room.
#[test]
fn a_nomination_that_no_longer_holds_falls_back_to_a_placement() {
    let mut scheduler = scheduler(gpus(1, 2), |_| ());
    scheduler.handle_group(gang("g", 4), at(0)).unwrap();
    let mut elsewhere = Cluster::new();
    elsewhere.add_node(Node::new("elsewhere").capacity(GPU, 8)).unwrap();
    let framework = phalanx::Framework::default();
    let outcome = place_gang(&elsewhere, &framework, gang("g", 4)).unwrap();
    scheduler.handle_nomination(outcome.plan().unwrap().clone(), at(0)).unwrap();
    assert_eq!(scheduler.poll_decision(at(0)), None);
    let node = Node::new("new").capacity(GPU, 4);
    scheduler.handle_event(Event::NodeChanged { node, version: 0 }, at(1)).unwrap();
    assert_eq!(bind_all(&mut scheduler, at(1)), ["default/g"]);
}
