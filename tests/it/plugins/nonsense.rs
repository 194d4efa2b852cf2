//! Plugins that answer nonsense, and sets of them that do not go together.

#![allow(clippy::needless_borrows_for_generic_args, reason = "groups are placed by reference")]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use phalanx::framework::{
    DeviceChoice, DomainScore, FilterPlugin, FrameworkBuilder, FrameworkError, PermitVerdict,
    Reach, ScorePlugin, TightestFit, filter_fn, permit_fn, score_fn,
};
use phalanx::plugins::{Fit, PodGroupPodsCount};
use phalanx::{Framework, Permit, Strategy, place_gang};

use crate::api::odd::*;

#[test]
fn plugins_that_answer_nonsense_are_contained() {
    let cluster = cluster();
    let framework =
        Framework::builder()
            .filter(filter_fn("all", Reach::Cluster, |_, _| true))
            .score(
                (1 << 20) as u32,
                score_fn("huge", Reach::Static, |_, node| {
                    if node.name() == "n2" { i64::MAX } else { i64::MIN }
                }),
            )
            .without_room_filter()
            .build()
            .unwrap();
    let outcome = place_gang(&cluster, &framework, &gang(9)).unwrap();
    assert_eq!(outcome.plan().unwrap().pods_per_node(), [("n2", 9)]);
}

#[test]
fn sets_of_plugins_that_do_not_go_together_are_refused() {
    let all = || filter_fn("all", Reach::Static, |_, _| true);
    let one = |name| score_fn(name, Reach::Static, |_, _| 1);
    let error = |builder: FrameworkBuilder| builder.build().unwrap_err();
    let base = || Framework::builder().filter(Fit);
    let name = String::from("all");
    let twice = FrameworkError::Duplicate { stage: "filter", name };
    assert_eq!(error(base().filter(all()).filter(all())), twice);
    assert_eq!(error(base().score(0, one("a"))), FrameworkError::ZeroWeight("a".into()));
    assert_eq!(error(base().score(u32::MAX, one("a"))), FrameworkError::Weights("score"));
    assert_eq!(error(base().score(1, one(""))), FrameworkError::Nameless("score"));
    assert!(base().score(1, one("a")).score(1, one("b")).build().is_ok());
}

#[test]
fn to_do_without_a_filter_for_room_is_asked_by_name() {
    let other = || Framework::builder().filter(filter_fn("all", Reach::Static, |_, _| true));
    assert_eq!(other().build().unwrap_err(), FrameworkError::NoRoomFilter);
    let without = other().without_room_filter().build().unwrap();
    assert!(without.to_builder().build().is_ok());
    assert!(other().filter(Fit.ignoring(["x/x"], [""; 0])).build().is_ok());
}

/// Plugins that are shared stay shared: what they count is counted for both frameworks.
#[test]
fn a_builder_takes_what_a_framework_has_and_plugins_that_are_shared() {
    let calls = Arc::new(AtomicUsize::new(0));
    let count = |calls: &Arc<AtomicUsize>| {
        let calls = calls.clone();
        move || calls.fetch_add(1, Ordering::Relaxed)
    };
    let called = count(&calls);
    let filter: Arc<dyn FilterPlugin> = Arc::new(filter_fn("f", Reach::Cluster, move |_, _| {
        called();
        true
    }));
    let called = count(&calls);
    let score: Arc<dyn ScorePlugin> = Arc::new(score_fn("s", Reach::Cluster, move |_, _| {
        called();
        1
    }));
    let called = count(&calls);
    let permit: Arc<dyn Permit> = Arc::new(permit_fn("p", move |_| {
        called();
        PermitVerdict::Admit
    }));
    let domain_score: Arc<dyn DomainScore> = Arc::new(PodGroupPodsCount);
    let device_choice: Arc<dyn DeviceChoice> = Arc::new(TightestFit);
    let first = Framework::builder()
        .filter(Fit)
        .filter(filter.clone())
        .score(3, score.clone())
        .permit(permit.clone())
        .domain_score(2, domain_score)
        .device_choice(device_choice)
        .strategy(Strategy::Kubernetes)
        .build()
        .unwrap();
    let second = first.to_builder().score(1, score_fn("t", Reach::Static, |_, _| 0));
    let second = second.build().unwrap();
    assert_eq!((first.filter_names().len(), second.filter_names().len()), (2, 2));
    assert_eq!((first.score_names().len(), second.score_names().len()), (1, 2));
    assert_eq!(second.score_names().next().map(|(weight, _)| weight), Some(3));
    assert_eq!(
        (second.permit_names().len(), second.domain_score_names().next().map(|(weight, _)| weight)),
        (1, Some(2))
    );
    assert_eq!(second.strategy(), Strategy::Kubernetes);
    let cluster = cluster();
    for framework in [first, second] {
        calls.store(0, Ordering::Relaxed);
        let outcome = place_gang(&cluster, &framework, &gang(2)).unwrap();
        assert!(outcome.is_placed());
        // The filter, the score and the permit, each at least once.
        assert!(calls.load(Ordering::Relaxed) >= 3);
    }
}
