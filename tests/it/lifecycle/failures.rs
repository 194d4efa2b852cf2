//! Victims that could not go: when they are asked for again, and when not.

use std::time::Duration;

use phalanx::queue::{PreemptionSettings, Settings, Ticket};
use phalanx::{Decision, Event, Node, Pod, PodGroup, Scheduler, Time};

use super::steps::*;

fn preempts(settings: &mut Settings) {
    let mut preemption = PreemptionSettings::default();
    preemption.start_timeout = Duration::from_secs(60);
    preemption.grace_period = Duration::from_secs(60);
    settings.preemption = Some(preemption);
}

/// A group that runs on the only node, and one that wants the room of it.
fn full_node(old: PodGroup, new: PodGroup) -> (Scheduler, Ticket) {
    let mut scheduler = scheduler(gpus(1, 2), preempts);
    let name = old.full_name();
    scheduler.handle_group(old, at(0)).unwrap();
    assert_eq!(bind_all(&mut scheduler, at(0)), [name]);
    scheduler.handle_group(new.priority(10), at(1)).unwrap();
    let (ticket, _) = victims(&mut scheduler, at(1));
    (scheduler, ticket)
}

/// The next decision, which is to evict: the ticket, and the names of the victims.
fn victims(scheduler: &mut Scheduler, now: Time) -> (Ticket, Vec<String>) {
    match scheduler.poll_decision(now) {
        Some(Decision::Preempt { ticket, victims, .. }) => {
            (ticket, victims.into_iter().map(|victim| victim.name).collect())
        }
        other => panic!("{other:?}"),
    }
}

fn add_node(scheduler: &mut Scheduler, now: Time) {
    let node = Node::new("more").capacity(GPU, 1);
    scheduler.handle_event(Event::NodeChanged { node, version: 0 }, now).unwrap();
}

/// A member stays because another of its gang could not go. It is asked for at once where it is
/// enough without the other.
#[test]
fn a_victim_that_was_put_off_with_another_is_asked_for_where_it_is_enough() {
    let inner = |name: &str| PodGroup::gang(name, 1).pods(1, gpu());
    let old = PodGroup::gang("old", 1).group(inner("a")).group(inner("b"));
    let (mut scheduler, first) = full_node(old, gang("new", 2));
    scheduler.handle_eviction_failed(first, "default/a-0", Some(at(50)), at(2)).unwrap();
    let cancelled = scheduler.poll_decision(at(2));
    assert!(matches!(cancelled, Some(Decision::CancelEvictions { .. })), "{cancelled:?}");
    assert_eq!(scheduler.poll_decision(at(2)), None);
    // A node with room for one member of two.
    add_node(&mut scheduler, at(10));
    let (second, names) = victims(&mut scheduler, at(10));
    assert_eq!(names, ["default/b-0"]);
    assert_ne!(first, second);
    assert_eq!(scheduler.poll_decision(at(10)), None);
    scheduler.handle_evicted(second, "default/b-0", at(11)).unwrap();
    assert_eq!(bind_all(&mut scheduler, at(11)), ["default/new"]);
    // Nothing is left to be asked for at the time that was named.
    assert_eq!(scheduler.poll_decision(at(50)), None);
}

/// The time in which a victim must begin to go is that from the decision that the embedder sees.
#[test]
fn a_victim_is_not_late_before_it_is_asked_for() {
    let (mut scheduler, ticket) = full_node(gang("old", 2).evicted_whole(), gang("new", 2));
    scheduler.handle_eviction_failed(ticket, "default/old", Some(at(20)), at(2)).unwrap();
    assert_eq!(scheduler.poll_decision(at(2)), None);
    // The embedder comes back late, with something else to say.
    scheduler.handle_pod(gpu().name("orphan").in_group("none"), at(300)).unwrap();
    assert_eq!(victims(&mut scheduler, at(300)), (ticket, vec!["default/old".into()]));
    assert_eq!(scheduler.poll_decision(at(300)), None);
    scheduler.handle_evicted(ticket, "default/old", at(310)).unwrap();
    assert_eq!(bind_all(&mut scheduler, at(310))[0], "default/new");
}

/// What does not end is asked for again, once for each time that has passed since it was.
#[test]
fn a_victim_that_does_not_end_is_asked_for_once_in_its_time() {
    let (mut scheduler, ticket) = full_node(gang("old", 2).evicted_whole(), gang("new", 2));
    scheduler.handle_evicted(ticket, "default/old-0", at(2)).unwrap();
    let mut asked: Vec<Time> = vec![at(2)];
    for secs in (290..590).step_by(2) {
        // Timers fire by inputs, and not only by polls.
        scheduler.handle_pod(Pod::new().name("orphan").in_group("none"), at(secs)).unwrap();
        while let Some(decision) = scheduler.poll_decision(at(secs)) {
            let Decision::Preempt { ticket: same, victims, .. } = decision else {
                panic!("{decision:?}");
            };
            assert_eq!((same, victims.len()), (ticket, 1));
            asked.push(at(secs));
        }
    }
    assert!(asked.len() > 2, "{asked:?}");
    let spans = asked.windows(2).map(|pair| pair[1].since(pair[0]));
    assert!(spans.min() >= Some(Duration::from_secs(60)), "{asked:?}");
}
