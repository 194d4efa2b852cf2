//! Defect Q9: what an event of one member costs does not grow with its group.
//!
//! Told by the time that the test's own thread has had on a processor: eight times as many members take less
//! than twenty times as long, where a quadratic cost takes sixty-four times. With optimisation, 10,000 events
//! of members take less than 200 ms as well. Where the system does not tell that time, nothing is compared.

use std::time::Duration;

use phalanx::framework::PermitVerdict;
use phalanx::queue::{Gone, OnBindFailure, PreemptionSettings, Settings, Ticket};
use phalanx::{Decision, Event, Pod, PodGroup, Scheduler};

use super::steps::*;

const FEW: usize = 500;
const MANY: usize = 4_000;
const MEMBERS: usize = 10_000;

/// Holds what a run takes to a time in proportion to its members.
fn grows_evenly(run: impl Fn(usize) -> Duration) {
    if thread_time().is_none() {
        run(FEW);
        return;
    }
    let least = |count: usize| (0..3).map(|_| run(count)).min().unwrap();
    assert_even(least(FEW), least(MANY));
    if !cfg!(debug_assertions) {
        let all = least(MEMBERS);
        eprintln!("{MEMBERS} members: {all:?}");
        // Alone they take less than 50 ms; beside other tests, on another machine, up to four times that.
        assert!(all < Duration::from_millis(200), "{MEMBERS} members: {all:?}");
    }
}

fn assert_even(few: Duration, many: Duration) {
    eprintln!("{FEW} members: {few:?}, {MANY}: {many:?}");
    // Short times say nothing: the system counts in ticks. A quadratic cost took a second.
    let bar = (20 * few).max(Duration::from_millis(250));
    assert!(many < bar, "{FEW} members: {few:?}, {MANY}: {many:?}");
}

/// The time that this thread has had on a processor, which no other thread takes part in; `None` where the
/// system does not tell.
pub(super) fn thread_time() -> Option<Duration> {
    let own = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    own.split_whitespace().next()?.parse().ok().map(Duration::from_nanos)
}

pub(super) fn timed(act: impl FnOnce()) -> Duration {
    let before = thread_time().unwrap_or_default();
    act();
    thread_time().unwrap_or_default().saturating_sub(before)
}

fn of(index: usize) -> Pod {
    gpu().name(format!("p{index}")).in_group("g")
}

fn retries(settings: &mut Settings) {
    settings.on_bind_failure = OnBindFailure::Retry;
    settings.event_capacity = 16;
}

/// A gang whose bindings are out, of which half must run.
fn binding(count: usize, change: impl Fn(&mut Settings)) -> (Scheduler, Ticket) {
    let mut scheduler = scheduler(gpus(count.div_ceil(8), 8), change);
    let mut group = PodGroup::gang("g", count as u32 / 2);
    group.pods = (0..count).map(|index| gpu().name(format!("p{index}"))).collect();
    scheduler.handle_group(group, at(0)).unwrap();
    let (ticket, plan) = plan(&mut scheduler, at(0));
    assert_eq!(plan.len(), count);
    (scheduler, ticket)
}

fn running(count: usize) -> Scheduler {
    let (mut scheduler, ticket) = binding(count, retries);
    scheduler.handle_bound(ticket, at(0)).unwrap();
    scheduler
}

#[test]
fn members_that_arrive_one_by_one() {
    grows_evenly(|count| {
        let mut scheduler = scheduler(gpus(1, 8), retries);
        scheduler.handle_group(PodGroup::gang("g", count as u32), at(0)).unwrap();
        timed(|| (0..count).for_each(|n| scheduler.handle_pod(of(n), at(1)).unwrap()))
    });
}

#[test]
fn members_that_arrive_bound_one_by_one() {
    grows_evenly(|count| {
        let mut scheduler = scheduler(gpus(count.div_ceil(8), 8), retries);
        scheduler.handle_group(PodGroup::gang("g", count as u32), at(0)).unwrap();
        timed(|| {
            for n in 0..count {
                let pod = of(n).on(format!("n{:04}", n / 8));
                scheduler.handle_event(Event::PodChanged { pod, version: 0 }, at(1)).unwrap();
            }
        })
    });
}

#[test]
fn members_that_are_reported_bound_one_by_one() {
    grows_evenly(|count| {
        let (mut scheduler, ticket) = binding(count, retries);
        timed(|| {
            for n in 0..count {
                let name = format!("p{n}");
                scheduler.handle_binding(ticket, "default", &name, Ok(()), at(1)).unwrap();
            }
        })
    });
}

#[test]
fn members_whose_bindings_fail_one_by_one() {
    grows_evenly(|count| {
        let (mut scheduler, ticket) = binding(count, |settings| {
            settings.on_bind_failure = OnBindFailure::KeepMinimum;
            settings.event_capacity = 16;
        });
        timed(|| {
            for n in 0..count / 2 {
                let result = Err("refused".to_owned());
                let name = format!("p{n}");
                scheduler.handle_binding(ticket, "default", &name, result, at(1)).unwrap();
            }
        })
    });
}

#[test]
fn members_that_are_unbound_one_by_one() {
    grows_evenly(|count| {
        let (mut scheduler, ticket) = binding(count, |settings| settings.event_capacity = 16);
        let result = Err("refused".to_owned());
        scheduler.handle_binding(ticket, "default", "p0", result, at(1)).unwrap();
        assert!(matches!(scheduler.poll_decision(at(1)), Some(Decision::Unbind { .. })));
        timed(|| {
            for n in 1..count {
                scheduler.handle_gone(Gone::unbound("default", &format!("p{n}")), at(1)).unwrap();
            }
        })
    });
}

#[test]
fn members_that_are_lost_while_others_are_bound() {
    grows_evenly(|count| {
        let (mut scheduler, _) = binding(count, retries);
        timed(|| (0..count).for_each(|n| delete(&mut scheduler, &format!("p{n}"), at(1))))
    });
}

#[test]
fn members_that_are_lost_one_by_one_while_they_run() {
    grows_evenly(|count| {
        let mut scheduler = running(count);
        timed(|| (0..count).for_each(|n| delete(&mut scheduler, &format!("p{n}"), at(1))))
    });
}

#[test]
fn members_that_finish_one_by_one() {
    grows_evenly(|count| {
        let mut scheduler = running(count);
        timed(|| {
            for n in 0..count {
                scheduler.handle_gone(Gone::finished("default", &format!("p{n}")), at(1)).unwrap();
            }
        })
    });
}

/// A gang of another scheduler that is a victim goes pod by pod.
#[test]
fn victims_that_go_one_by_one() {
    grows_evenly(|count| {
        let mut scheduler = scheduler(gpus(count.div_ceil(8), 8), |settings| {
            retries(settings);
            settings.preemption = Some(PreemptionSettings::new());
        });
        let mut group = PodGroup::gang("g", count as u32).evicted_whole();
        group.pods =
            (0..count).map(|n| gpu().name(format!("p{n}")).on(format!("n{:04}", n / 8))).collect();
        scheduler.handle_group(group, at(0)).unwrap();
        scheduler.handle_group(gang("new", count).priority(10), at(1)).unwrap();
        let decision = scheduler.poll_decision(at(1));
        let Some(Decision::Evict { ticket, .. }) = decision else { panic!("{decision:?}") };
        timed(|| {
            for n in 0..count {
                scheduler
                    .handle_gone(Gone::evicted(ticket, format!("default/p{n}")), at(2))
                    .unwrap();
            }
        })
    });
}

/// Members that come to a plan that a permit holds.
#[test]
fn members_that_arrive_one_by_one_while_a_permit_holds_the_others() {
    use phalanx::framework::permit_fn;
    use phalanx::plugins::Fit;
    grows_evenly(|count| {
        let permit = permit_fn("later", |_| PermitVerdict::Hold { until: at(1_000) });
        let framework = phalanx::Framework::builder().filter(Fit).permit(permit).build().unwrap();
        let mut scheduler = Scheduler::new(gpus(1, 8), framework, Settings::default());
        scheduler.handle_group(PodGroup::gang("g", 1).pods(1, gpu()), at(0)).unwrap();
        assert_eq!(scheduler.poll_decision(at(0)), None);
        timed(|| (0..count).for_each(|n| scheduler.handle_pod(of(n), at(1)).unwrap()))
    });
}

/// 30,000 pods of one group through the store of the watches: they arrive, are seen bound, and go.
#[test]
fn pods_of_one_group_come_through_the_watches_one_by_one() {
    use phalanx::kubernetes::watch::{Store, WatchEvent};
    let run = |count: usize| {
        let mut scheduler = scheduler(gpus(count.div_ceil(8), 8), retries);
        let mut store = Store::new("phalanx");
        let mut version = 0;
        let mut line = |word: &str, mut object: serde_json::Value| {
            version += 1;
            object["metadata"]["resourceVersion"] = version.to_string().into();
            serde_json::json!({"type": word, "object": object}).to_string()
        };
        let pod = |n: usize, node: Option<String>| {
            serde_json::json!({"apiVersion": "v1", "kind": "Pod",
                "metadata": {"namespace": "default", "name": format!("p{n}"), "uid": format!("u{n}")},
                "spec": {"schedulerName": "phalanx", "nodeName": node,
                         "schedulingGroup": {"podGroupName": "g"},
                         "containers": [{"name": "c", "resources": {"requests": {GPU: "1"}}}]}})
        };
        let group = serde_json::json!({"apiVersion": "scheduling.k8s.io/v1alpha2", "kind": "PodGroup",
            "metadata": {"namespace": "default", "name": "g", "uid": "g"},
            "spec": {"schedulingPolicy": {"gang": {"minCount": count}}}});
        let mut lines = vec![line("ADDED", group)];
        lines.extend((0..count).map(|n| line("ADDED", pod(n, None))));
        for word in ["MODIFIED", "DELETED"] {
            lines.extend((0..count).map(|n| line(word, pod(n, Some(format!("n{:04}", n / 8))))));
        }
        timed(|| {
            for line in &lines {
                let event: WatchEvent = serde_json::from_str(line).unwrap();
                for update in store.apply(event).unwrap() {
                    update.pass_to(&mut scheduler, at(1)).unwrap();
                }
            }
        })
    };
    let (few, many) = (run(FEW), run(MANY));
    if thread_time().is_none() {
        return;
    }
    assert_even(few, many);
    if !cfg!(debug_assertions) {
        let all = run(30_000);
        // The goal is a second each.
        assert!(all < 3 * Duration::from_secs(3), "30,000 pods thrice: {all:?}");
    }
}
