//! Tests: minimum counts.

use super::*;
use crate::framework::{Framework, permit_fn};
use crate::model::{Node, Pod, PodGroup};
use crate::{Cluster, Outcome, Planner, Request, Time};

#[test]
fn members_that_run_count_and_too_few_wait_or_are_denied() {
    let mut cluster = Cluster::new();
    cluster.add_node(Node::new("n").capacity("cpu", 8)).unwrap();
    cluster.add_pod(Pod::new().name("g-old").in_group("g").on("n")).unwrap();
    let group = PodGroup::gang("g", 1).pods(2, Pod::new());
    let place = |permit: MinimumCount, group: &PodGroup| {
        let framework = Framework::builder().permit(permit).without_room_filter().build().unwrap();
        let request = Request::new(group).now(Time::from_secs(10));
        Planner::new().place(&cluster, &framework, request).unwrap()
    };
    assert!(place(MinimumCount::of(3), &group).is_placed());
    let Outcome::Denied { by, reason } = place(MinimumCount::of(4), &group) else { panic!() };
    assert_eq!((&*by, &*reason), ("MinimumCount", "3 of at least 4 pods would run"));
    let until = |outcome| match outcome {
        Outcome::Held { until, .. } => until,
        other => panic!("{other}"),
    };
    assert_eq!(until(place(MinimumCount::of(4).held(), &group)), Time::from_secs(310));
    let hasty = group.schedule_timeout(Duration::from_secs(5));
    assert_eq!(until(place(MinimumCount::of(4).held(), &hasty)), Time::from_secs(15));
}

#[test]
fn an_embedder_may_judge_by_a_closure() {
    let mut cluster = Cluster::new();
    cluster.add_node(Node::new("n")).unwrap();
    let evening = permit_fn("evening", |cx| {
        if cx.now < Time::from_secs(60) {
            return PermitVerdict::Hold { until: Time::from_secs(60) };
        }
        PermitVerdict::Admit
    });
    let framework = Framework::builder().permit(evening).without_room_filter().build().unwrap();
    let group = PodGroup::gang("g", 1).pods(1, Pod::new());
    let at = |now| {
        let request = Request::new(&group).now(Time::from_secs(now));
        Planner::new().place(&cluster, &framework, request).unwrap().is_placed()
    };
    assert!(!at(59) && at(60));
}
