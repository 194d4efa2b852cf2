//! Answers that change by themselves, or are out of range, are caught.

use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};

use phalanx::framework::{
    Context, Declaration, DomainContext, DomainScore, Normalization, PermitContext, PermitVerdict,
    Reach, Verdict, filter_fn, permit_fn, score_fn,
};
use phalanx::laws::{Law, check_domain_score, check_permit, check_score};
use phalanx::model::PodShape;
use phalanx::state::{NodeView, Row};
use phalanx::{Filter, Plan, Pod, PodGroup, Score, Time};

use super::worlds::*;

#[test]
fn a_name_is_needed() {
    let error = filter_breaks(filter_fn("", Reach::Static, |_, _| true));
    assert_eq!(error.law, Law::Name);
}

#[test]
fn answers_that_change_by_themselves_are_caught() {
    let calls = AtomicI64::new(0);
    let filter = filter_fn("moody", Reach::Cluster, move |_, _| {
        calls.fetch_add(1, Ordering::Relaxed) % 4 != 0
    });
    assert_eq!(filter_breaks(filter).law, Law::Repeatable);
    let calls = AtomicI64::new(0);
    let score = score_fn("drifting", Reach::Cluster, move |_, _| {
        calls.fetch_add(1, Ordering::Relaxed).min(100)
    });
    assert_eq!(score_breaks(score).law, Law::Repeatable);
}

#[test]
fn a_declaration_that_changes_by_itself_is_caught() {
    struct Fickle(AtomicUsize);

    impl Filter for Fickle {
        fn name(&self) -> &str {
            "fickle"
        }

        fn filter(&self, _: &Context<'_>, _: NodeView<'_>) -> Verdict {
            Verdict::Pass
        }

        fn declare(&self, _: &PodShape) -> Declaration {
            if self.0.fetch_add(1, Ordering::Relaxed).is_multiple_of(2) {
                Declaration::node()
            } else {
                Declaration::constant()
            }
        }
    }

    assert_eq!(filter_breaks(Fickle(AtomicUsize::new(0))).law, Law::Repeatable);
}

#[test]
fn scores_that_need_clamping_are_caught() {
    let big = score_fn("big", Reach::Static, |_, _| 101);
    assert_eq!(score_breaks(big).law, Law::Range);
    let negative = score_fn("negative", Reach::Static, |_, _| -1);
    assert_eq!(score_breaks(negative).law, Law::Range);

    struct Scaled(Normalization);

    impl Score for Scaled {
        fn name(&self) -> &str {
            "scaled"
        }

        fn score(&self, _: &Context<'_>, node: NodeView<'_>) -> i64 {
            node.pod_count() * 1_000
        }

        fn normalization(&self) -> Normalization {
            self.0
        }

        fn rescale(&self, raw: i64, low: i64, high: i64) -> i64 {
            (raw - low) * 200 / (high - low).max(1)
        }

        fn declare(&self, _: &PodShape) -> Declaration {
            Declaration::node()
        }
    }

    assert_eq!(score_breaks(Scaled(Normalization::Extremes)).law, Law::Range);
    assert_eq!(check_score(Scaled(Normalization::Max), &cluster(), &shapes()), Ok(()));
}

#[test]
fn permits_are_pure_and_hold_for_the_future() {
    let (cluster, plan) = (cluster(), Plan::default());
    let group = PodGroup::gang("g", 2).pods(2, Pod::new());
    let now = Time::from_secs(5);
    let contexts = [PermitContext::new(&cluster, &group, &plan, now); 2];
    let check = |verdict: fn(&PermitContext<'_>) -> PermitVerdict| {
        check_permit(&permit_fn("permit", verdict), &contexts).map_err(|error| error.law)
    };
    assert_eq!(check(|_| PermitVerdict::Admit), Ok(()));
    assert_eq!(check(|cx| PermitVerdict::Hold { until: cx.now }), Err(Law::Hold));
    assert_eq!(check(|_| PermitVerdict::Hold { until: Time::MAX }), Ok(()));
    let calls = AtomicUsize::new(0);
    let moody = permit_fn("moody", move |_| match calls.fetch_add(1, Ordering::Relaxed) {
        0 => PermitVerdict::Admit,
        _ => PermitVerdict::Deny { reason: "not again".into() },
    });
    assert_eq!(check_permit(&moody, &contexts).unwrap_err().law, Law::Repeatable);
}

#[test]
fn scores_of_domains_are_pure_and_within_range() {
    struct Constant(i64, Normalization);

    impl DomainScore for Constant {
        fn name(&self) -> &str {
            "constant"
        }

        fn score(&self, _: &DomainContext<'_>) -> i64 {
            self.0
        }

        fn normalization(&self) -> Normalization {
            self.1
        }
    }

    let cluster = cluster();
    let group = PodGroup::gang("g", 2).pods(2, Pod::new());
    let rows = [0, 1].map(Row::new);
    let domains = [DomainContext::new(&cluster, &group, &rows, &[])];
    for (raw, normalization, sound) in [
        (100, Normalization::None, true),
        (101, Normalization::None, false),
        (101, Normalization::Max, true),
        (-1, Normalization::MaxReversed, false),
        (5, Normalization::Extremes, false),
    ] {
        let law = check_domain_score(&Constant(raw, normalization), &domains);
        assert_eq!(law.map_err(|error| error.law), if sound { Ok(()) } else { Err(Law::Range) });
    }
}

#[test]
fn the_error_names_plugin_law_shape_and_node() {
    let late = filter_fn("late", Reach::Static, |cx, node| {
        cx.pod().requests.of("cpu") < 3_000 || node.pod_count() == 0 || node.name() != "n3"
    });
    let error = filter_breaks(late);
    assert_eq!((error.shape, error.node.as_str()), (2, "n3"));
    let text = error.to_string();
    for part in ["\"late\"", "law reach", "shape 2", "\"n3\"", "came to n3"] {
        assert!(text.contains(part), "{text}");
    }
}
