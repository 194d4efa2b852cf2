//! Plugins that answer nonsense, and sets of them that do not go together.

#![allow(clippy::needless_borrows_for_generic_args, reason = "groups are placed by reference")]

use phalanx::framework::{Reach, filter_fn};
use phalanx::{Framework, place_gang};

use crate::api::odd::*;

#[test]
fn plugins_that_answer_nonsense_are_contained() {
    let cluster = cluster();
    let framework = Framework::builder()
        .filter(filter_fn("all", Reach::Cluster, |_, _| true))
        .score(
            (1 << 20) as u32,
            phalanx::framework::score_fn("huge", Reach::Static, |_, node| {
                if node.name() == "n2" { i64::MAX } else { i64::MIN }
            }),
        )
        .build()
        .unwrap();
    let outcome = place_gang(&cluster, &framework, &gang(9)).unwrap();
    assert_eq!(outcome.plan().unwrap().pods_per_node(), [("n2", 9)]);
}

#[test]
fn sets_of_plugins_that_do_not_go_together_are_refused() {
    let all = || filter_fn("all", Reach::Static, |_, _| true);
    let one = |name| phalanx::framework::score_fn(name, Reach::Static, |_, _| 1);
    assert!(Framework::builder().filter(all()).filter(all()).build().is_err());
    assert!(Framework::builder().score(0, one("a")).build().is_err());
    assert!(Framework::builder().score(u32::MAX, one("a")).build().is_err());
    assert!(Framework::builder().score(1, one("")).build().is_err());
    assert!(Framework::builder().score(1, one("a")).score(1, one("b")).build().is_ok());
}
