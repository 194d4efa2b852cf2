//! Results of bindings: of a whole plan, of one pod, and late ones of a plan that was undone.

use phalanx::queue::{GroupState, OnBindFailure, Settings};
use phalanx::{Decision, QueueError};

use super::steps::*;

#[test]
fn a_plan_is_reported_bound_whole() {
    let mut scheduler = scheduler(gpus(1, 8), |_| ());
    scheduler.handle_group(gang("a", 4), at(0)).unwrap();
    let (ticket, _) = plan(&mut scheduler, at(0));
    scheduler.handle_binding(ticket, "default", "a-1", Ok(()), at(1)).unwrap();
    scheduler.handle_bound(ticket, at(2)).unwrap();
    assert_eq!(scheduler.state("default/a"), Some(GroupState::Running));
    let status = scheduler.status("default/a").unwrap();
    assert_eq!((status.bound, status.planned), (4, 0));
    assert_eq!(scheduler.metrics().bound, 4);
    // All results are known now.
    assert_eq!(scheduler.handle_bound(ticket, at(3)), Err(QueueError::StaleTicket));
    assert_eq!(scheduler.metrics().bound, 4);
}

#[test]
fn a_late_result_says_nothing_of_the_next_plan() {
    let mut scheduler = scheduler(gpus(1, 8), |_| ());
    scheduler.handle_group(gang("a", 4), at(0)).unwrap();
    let (old, _) = plan(&mut scheduler, at(0));
    scheduler.handle_conflict(old, "another was faster", at(1)).unwrap();
    let (new, _) = plan(&mut scheduler, at(1));
    assert_ne!(old, new);
    for late in [Ok(()), Err("no".into())] {
        let refused = scheduler.handle_binding(old, "default", "a-0", late, at(2));
        assert_eq!(refused, Err(QueueError::StaleTicket));
        let status = scheduler.status("default/a").unwrap();
        assert_eq!((status.planned, status.bound, status.pending), (4, 0, 0));
        assert_eq!(scheduler.poll_decision(at(2)), None);
    }
    assert_eq!(scheduler.handle_bound(old, at(2)), Err(QueueError::StaleTicket));
    scheduler.handle_bound(new, at(3)).unwrap();
    assert_eq!(scheduler.state("default/a"), Some(GroupState::Running));
}

#[test]
fn a_late_failure_of_an_undone_plan_ends_its_unbinding() {
    let mut scheduler = scheduler(gpus(1, 8), |settings: &mut Settings| {
        settings.bind_timeout = core::time::Duration::from_secs(30);
    });
    scheduler.handle_group(gang("a", 2), at(0)).unwrap();
    let (ticket, _) = plan(&mut scheduler, at(0));
    let Some(Decision::Unbind { pods, .. }) = scheduler.poll_decision(at(30)) else {
        panic!("the time is over")
    };
    assert_eq!(pods.len(), 2);
    assert_eq!(scheduler.handle_bound(ticket, at(31)), Err(QueueError::StaleTicket));
    for name in ["a-0", "a-1"] {
        scheduler.handle_binding(ticket, "default", name, Err("no".into()), at(31)).unwrap();
    }
    assert_eq!(scheduler.cluster().pod_count(), 0);
    assert_eq!(bind_all(&mut scheduler, at(40)), ["default/a"]);
}

/// The server does not answer. The only nodes with room may be tried again after the back-off, also by
/// others, and the rest of a gang finds its place in the domain where some of it run.
#[test]
fn a_binding_without_an_answer_says_nothing_of_its_node() {
    let mut scheduler = scheduler(gpus(4, 1), |settings| {
        settings.on_bind_failure = OnBindFailure::Retry;
    });
    scheduler.handle_group(gang("g", 4).require("rack"), at(0)).unwrap();
    let (before, first) = plan(&mut scheduler, at(0));
    for (number, to) in first.assignments().enumerate() {
        let name = &to.pod().name;
        if number < 2 {
            scheduler.handle_binding(before, "default", name, Ok(()), at(0)).unwrap();
        } else {
            let reason = "the server is away".to_owned();
            scheduler.handle_unanswered(before, "default", name, reason, at(0)).unwrap();
        }
    }
    scheduler.handle_group(gang("h", 1), at(0)).unwrap();
    let (ticket, rest) = plan(&mut scheduler, at(1));
    assert_eq!((rest.group().as_str(), rest.len()), ("default/g", 2));
    // A refusal keeps pods of that shape from the node for longer.
    for to in rest.assignments() {
        let refused = Err("refused".to_owned());
        scheduler.handle_binding(ticket, "default", &to.pod().name, refused, at(1)).unwrap();
    }
    assert!(scheduler.poll_decision(at(3)).is_none());
    assert!(scheduler.check().is_ok());
    // A plan that has ended answers for nothing any more.
    let name = &rest.assignments().next().unwrap().pod().name;
    let late = scheduler.handle_unanswered(before, "default", name, String::new(), at(3));
    assert!(matches!(late, Err(QueueError::StaleTicket)), "{late:?}");
}
