//! Results of bindings: of a whole plan, of one pod, and late ones of a plan that was undone.

use phalanx::queue::{GroupState, Settings};
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
