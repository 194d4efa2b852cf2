//! The edges: the end of time, settings of no wait, a deleted placeholder, saves that were
//! tampered with.

use std::sync::mpsc::channel;
use std::time::Duration;

use phalanx::framework::{Reach, filter_fn};
use phalanx::plugins::Fit;
use phalanx::queue::{
    Discipline, Gone, HeadOfLine, PriorityThenTime, ReservationPolicy, SavedScheduler, Settings,
};
use phalanx::{Cluster, Decision, Event, Framework, Node, Pod, PodGroup, Scheduler, Time};
use serde_json::{Value, json};

use super::steps::*;
use crate::support::budget;

type Change = Box<dyn Fn(&mut Settings) + Send>;

/// The result of a call, unless it takes longer than any call should.
fn ends<T: Send + 'static>(name: &str, act: impl FnOnce() -> T + Send + 'static) -> T {
    let (send, done) = channel();
    std::thread::spawn(move || send.send(act()));
    let outcome = done.recv_timeout(Duration::from_secs(120));
    outcome.unwrap_or_else(|error| panic!("{name}: no end, or a panic: {error}"))
}

/// Decisions until there are none, at most 1,000; what is to be unbound is unbound.
fn decisions(scheduler: &mut Scheduler, now: Time) -> usize {
    let mut count = 0;
    while let Some(decision) = scheduler.poll_decision(now) {
        count += 1;
        if count == 1_000 {
            break;
        }
        if let Decision::Unbind { pods, .. } = decision {
            for pod in pods {
                scheduler
                    .handle_gone(Gone::unbound(pod.pod.namespace(), pod.pod.name()), now)
                    .unwrap();
            }
        }
    }
    count
}

/// A filter that refuses pods with a label, and promises nothing.
fn no_labels() -> Framework {
    let no = filter_fn("no", Reach::Cluster, |cx, _| cx.pod().labels.is_empty());
    Framework::builder().filter(Fit).filter(no).build().unwrap()
}

#[test]
fn polling_ends_at_the_end_of_time() {
    for after in [None, Some(Duration::ZERO), Some(Duration::from_secs(60))] {
        let count = ends("the end of time", move || {
            let mut settings = Settings::default();
            let policy = after.map(|after| ReservationPolicy::new().after(after));
            settings.discipline = Discipline::in_order(HeadOfLine::BestEffort, policy);
            let mut scheduler = Scheduler::new(gpus(1, 8), no_labels(), settings);
            let group = PodGroup::gang("g", 1).pods(1, gpu().label("a", "b"));
            scheduler.handle_group(group, Time::MAX).unwrap();
            scheduler.handle_group(gang("h", 9), Time::MAX).unwrap();
            let mut count = 0;
            for _ in 0..10 {
                count += decisions(&mut scheduler, Time::MAX);
                scheduler.handle_time(Time::MAX);
            }
            // Each call tries each group a bounded number of times.
            assert!(scheduler.metrics().attempts <= 200, "{:?}", scheduler.metrics());
            count
        });
        assert_eq!(count, 0);
    }
}

#[test]
fn polling_ends_with_settings_of_zero() {
    let zero = ReservationPolicy::new().after(Duration::ZERO).timeout(Duration::ZERO).at_most(1);
    let set: [(&str, Change); 8] = [
        ("max_in_unschedulable", Box::new(|s| s.max_in_unschedulable = Duration::ZERO)),
        ("bind_timeout", Box::new(|s| s.bind_timeout = Duration::ZERO)),
        ("permit_timeout", Box::new(|s| s.permit_timeout = Duration::ZERO)),
        ("stale_after", Box::new(|s| s.stale_after = Duration::ZERO)),
        (
            "reservation",
            Box::new(move |s| {
                s.discipline = Discipline::in_order(HeadOfLine::BestEffort, Some(zero));
            }),
        ),
        ("backoff", Box::new(|s| s.backoff.most = Duration::ZERO)),
        ("demote_after", Box::new(|s| s.demote_after = Some(0))),
        ("event_capacity", Box::new(|s| s.event_capacity = 0)),
    ];
    for (name, set) in set {
        let (count, attempts) = ends(name, move || {
            let mut settings = Settings::default();
            set(&mut settings);
            let mut scheduler = Scheduler::new(gpus(1, 8), no_labels(), settings);
            let group = PodGroup::gang("g", 1).pods(1, gpu().label("a", "b"));
            scheduler.handle_group(group, at(1)).unwrap();
            scheduler.handle_group(gang("h", 9), at(1)).unwrap();
            scheduler.handle_group(gang("i", 1), at(1)).unwrap();
            (decisions(&mut scheduler, at(1)), scheduler.metrics().attempts)
        });
        assert!(count <= 20 && attempts <= 100, "{name}: {count} {attempts}");
    }
}

#[test]
fn a_trial_survives_a_placeholder_that_was_deleted() {
    let mut scheduler = scheduler(gpus(1, 8), |settings| {
        let after = Duration::from_secs(1);
        let policy = ReservationPolicy::new().after(after);
        settings.discipline = Discipline::in_order(HeadOfLine::BestEffort, Some(policy));
    });
    scheduler.handle_group(gang("old", 6), at(0)).unwrap();
    bind_all(&mut scheduler, at(0));
    scheduler.handle_group(gang("g", 4), at(1)).unwrap();
    for now in [1, 3, 5] {
        bind_all(&mut scheduler, at(now));
    }
    let placeholders: Vec<String> = scheduler
        .cluster()
        .pods()
        .filter(|pod| pod.namespace() == Scheduler::RESERVED_NAMESPACE)
        .map(|pod| pod.name().to_owned())
        .collect();
    assert_eq!(placeholders.len(), 2);
    let namespace = Scheduler::RESERVED_NAMESPACE;
    scheduler.handle_gone(Gone::deleted(namespace, &placeholders[0]), at(6)).unwrap();
    let trial = scheduler.trial("default/g", at(6));
    assert!(trial.as_ref().is_ok_and(|trial| !trial.as_ref().unwrap().is_placed()), "{trial:?}");
    // It comes again with the next decision, since there is still room for it.
    assert_eq!(scheduler.poll_decision(at(6)), None);
    assert_eq!(scheduler.cluster().pod_count(), 8);
}

fn paths(value: &Value, at: &str, out: &mut Vec<String>) {
    match value {
        Value::Object(map) => {
            for (key, inner) in map {
                let key = key.replace('~', "~0").replace('/', "~1");
                paths(inner, &format!("{at}/{key}"), out);
            }
        }
        Value::Array(list) => {
            for (key, inner) in list.iter().enumerate() {
                paths(inner, &format!("{at}/{key}"), out);
            }
        }
        _ => out.push(at.to_owned()),
    }
}

/// A scheduler with something in most fields: groups that wait in each way, a plan being bound,
/// a gang group, an orphan, a reservation.
fn varied() -> Scheduler {
    let mut cluster = Cluster::new();
    for name in ["n1", "n2"] {
        cluster.add_node(Node::new(name).capacity("cpu", 8)).unwrap();
    }
    let policy = ReservationPolicy::new().after(Duration::ZERO);
    let settings = Settings::default().reservation(policy);
    let mut scheduler = Scheduler::new(cluster, Framework::default(), settings);
    let cpu = || Pod::new().request("cpu", 4);
    let now = at(1);
    scheduler.handle_group(PodGroup::gang("g", 5).pods(5, cpu()), now).unwrap();
    scheduler.handle_group(PodGroup::gang("h", 2).pods(2, cpu()), now).unwrap();
    let mut partner = PodGroup::gang("i", 1).pods(1, cpu());
    partner.gang_group.push("default/none".parse().unwrap());
    scheduler.handle_group(partner, now).unwrap();
    scheduler.handle_pod(cpu().name("orphan").in_group("later"), now).unwrap();
    assert!(decisions(&mut scheduler, now) > 0);
    scheduler.handle_group(PodGroup::gang("j", 2).pods(2, cpu()), now).unwrap();
    scheduler.poll_decision(now);
    scheduler.handle_event(Event::NodeRemoved { name: "n1".into(), version: 0 }, now).unwrap();
    scheduler
}

/// Every number, text and truth of a save is replaced by others.
#[test]
fn a_save_that_was_tampered_with_is_refused_or_harmless() {
    let value = serde_json::to_value(varied().save()).unwrap();
    let mut all = Vec::new();
    paths(&value, "", &mut all);
    assert!(all.len() > 200, "{} fields", all.len());
    let others = [
        json!(0),
        json!(77),
        json!(1_u64 << 30),
        json!(u64::MAX),
        json!("x/y"),
        Value::Null,
        json!(true),
    ];
    let (mut faults, mut refused) = (Vec::new(), 0);
    for path in all.into_iter().step_by(budget::of(8, 1) as usize) {
        for other in &others {
            let mut marred = value.clone();
            let place = marred.pointer_mut(&path).unwrap();
            if place == other {
                continue;
            }
            *place = other.clone();
            let Ok(saved) = serde_json::from_value::<SavedScheduler>(marred) else {
                refused += 1;
                continue;
            };
            if std::panic::catch_unwind(move || live_on(saved)).is_err() {
                faults.push(format!("{path} = {other}"));
            }
        }
    }
    assert!(faults.is_empty(), "{} faults: {faults:#?}", faults.len());
    assert!(refused > budget::part(500), "{refused}");
}

/// A restored scheduler takes inputs of all kinds, and every poll ends.
fn live_on(saved: SavedScheduler) {
    let mut scheduler = Scheduler::restore(saved, Framework::default(), PriorityThenTime);
    for round in 0..4 {
        let now = at(2 + 400 * round);
        for count in 0.. {
            let Some(_) = scheduler.poll_decision(now) else { break };
            assert!(count < 1_000, "decisions without end");
        }
        let node = Node::new("n1").capacity("cpu", 8);
        let _ = scheduler.handle_event(Event::NodeChanged { node, version: 0 }, now);
        let groups: Vec<String> = scheduler.groups().map(ToOwned::to_owned).collect();
        for group in groups {
            let _ = (scheduler.status(&group), scheduler.trial(&group, now));
        }
        let late = Pod::new().request("cpu", 1);
        let _ = scheduler.handle_pod(late.clone().name("late").in_group("h"), now);
        let _ = scheduler.handle_pod(late.clone().name("orphan").in_group("i"), now);
        let group = PodGroup::gang(format!("new-{round}"), 1).pods(1, late);
        let _ = scheduler.handle_group(group, now);
        let _ = scheduler.handle_gone(Gone::deleted("default", "g-0"), now);
        let _ = scheduler.handle_group_removed("default/j", now);
    }
}
