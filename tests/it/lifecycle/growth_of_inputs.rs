//! Growth of every input and every question that is not of members: ten times as many groups, queues
//! or nodes cost less than twenty-five times as much. A quadratic cost takes a hundred times.
//!
//! Told by the time that the test's own thread has had on a processor, as in [`super::defects_growth`]:
//! it does not grow while other tests run. Where an answer counts its own work, that is compared.

use std::time::Duration;

use phalanx::autoscale::{Autoscaler, NodeTemplate, ScaleUpRequest};
use phalanx::framework::{PermitVerdict, permit_fn};
use phalanx::plugins::Fit;
use phalanx::queue::Settings;
use phalanx::quota::{Flavor, Queue, QueueKind, Quota, Tenants};
use phalanx::{
    Event, Framework, Node, Planner, PodGroup, Request, Scheduler, Strategy, place_gang,
};

use super::defects_growth::{thread_time, timed};
use super::steps::*;

const FEW: usize = 300;
const MANY: usize = 10 * FEW;

/// Holds the time of an act at n and at 10 n together, at one of three tries: other programs share the
/// processor's caches, and may slow a try down. A quadratic cost is four times the bar at each.
#[track_caller]
pub(super) fn grows_evenly(act: impl Fn(usize) -> Duration) {
    let mut last = (Duration::ZERO, Duration::ZERO);
    for _ in 0..3 {
        let (few, many) = (act(FEW), act(MANY));
        // Times that are shorter are lost in the noise of what is shared.
        let bar = (25 * few).max(Duration::from_millis(400));
        if thread_time().is_none() || many < bar {
            return;
        }
        last = (few, many);
    }
    panic!("{FEW}: {:?}, {MANY}: {:?}", last.0, last.1);
}

/// Groups that wait for members.
fn waiting(count: usize) -> Scheduler {
    let mut scheduler = scheduler(gpus(8, 8), |settings| settings.event_capacity = 16);
    for n in 0..count {
        scheduler.handle_group(PodGroup::gang(format!("g{n}"), 1), at(0)).unwrap();
    }
    scheduler
}

/// Groups of one pod on eight nodes that hold them all.
fn fitting(count: usize) -> Scheduler {
    let mut scheduler = scheduler(gpus(8, count as i64), |settings| settings.event_capacity = 16);
    for n in 0..count {
        scheduler.handle_group(gang(&format!("g{n}"), 1), at(0)).unwrap();
    }
    scheduler
}

fn names(count: usize) -> impl Iterator<Item = String> {
    (0..count).map(|n| format!("default/g{n}"))
}

#[test]
fn groups_come_and_go() {
    grows_evenly(|count| {
        let mut scheduler = waiting(0);
        timed(|| {
            for n in 0..count {
                scheduler.handle_group(gang(&format!("g{n}"), 9), at(0)).unwrap();
            }
            for name in names(count) {
                scheduler.handle_group_removed(&name, at(1)).unwrap();
            }
        })
    });
}

#[test]
fn groups_pause_and_resume() {
    grows_evenly(|count| {
        let mut scheduler = waiting(count);
        timed(|| {
            names(count).for_each(|name| scheduler.handle_pause(&name, at(1)).unwrap());
            names(count).for_each(|name| scheduler.handle_resume(&name, at(2)).unwrap());
        })
    });
}

#[test]
fn strategies_of_groups_change() {
    grows_evenly(|count| {
        let mut scheduler = waiting(count);
        let strategy = Some(Strategy::Kubernetes);
        timed(|| {
            for name in names(count) {
                scheduler.handle_strategy(&name, strategy, at(1)).unwrap();
            }
        })
    });
}

#[test]
fn time_passes_and_the_queue_is_ordered_anew() {
    grows_evenly(|count| {
        let mut scheduler = waiting(count);
        timed(|| (0..count).for_each(|n| scheduler.handle_time(at(n as u64))))
    });
    grows_evenly(|count| {
        let mut scheduler = fitting(count);
        timed(|| scheduler.handle_reorder(at(1)))
    });
}

#[test]
fn a_start_is_one_instant() {
    grows_evenly(|count| {
        let mut scheduler = waiting(0);
        timed(|| {
            scheduler.begin_sync(at(0));
            for n in 0..count {
                scheduler.handle_group(gang(&format!("g{n}"), 1), at(n as u64)).unwrap();
            }
            scheduler.end_sync(at(count as u64));
        })
    });
}

#[test]
fn queues_and_flavors_come_and_go() {
    grows_evenly(|count| {
        let mut tenants = Tenants::default();
        tenants.set_flavor(Flavor::new("all"));
        let mut scheduler = waiting(0).with_tenants(tenants);
        timed(|| {
            for n in 0..count {
                scheduler.handle_flavor(Flavor::new(format!("f{n}")), at(0)).unwrap();
                let queue = Queue::leaf(format!("q{n}")).parent("root");
                let queue = queue.quota("all", GPU, Quota::nominal(8));
                scheduler.handle_queue(queue, at(0)).unwrap();
            }
            for n in 0..count {
                let name = format!("q{n}");
                scheduler.handle_queue_removed(QueueKind::Leaf, &name, at(1)).unwrap();
                scheduler.handle_flavor_removed(&format!("f{n}"), at(1)).unwrap();
            }
        })
    });
}

#[test]
fn nodes_come_change_and_go() {
    grows_evenly(|count| {
        let mut scheduler = waiting(0);
        let node = |n: usize, gpus: i64| Node::new(format!("m{n}")).capacity(GPU, gpus);
        timed(|| {
            for gpus in [4, 8] {
                for n in 0..count {
                    let event = Event::NodeChanged { node: node(n, gpus), version: 0 };
                    scheduler.handle_event(event, at(0)).unwrap();
                }
            }
            for n in 0..count {
                let event = Event::NodeRemoved { name: format!("m{n}"), version: 0 };
                scheduler.handle_event(event, at(1)).unwrap();
            }
        })
    });
}

#[test]
fn decisions_and_events_are_polled() {
    grows_evenly(|count| {
        let mut scheduler = fitting(count);
        timed(|| assert_eq!(bind_all(&mut scheduler, at(1)).len(), count))
    });
    grows_evenly(|count| {
        let mut scheduler = scheduler(gpus(8, 8), |settings| settings.event_capacity = 2 * count);
        for n in 0..count {
            scheduler.handle_group(PodGroup::gang(format!("g{n}"), 1), at(0)).unwrap();
        }
        timed(|| assert!(std::iter::from_fn(|| scheduler.poll_event()).count() >= count))
    });
}

#[test]
fn a_gang_is_bound_by_one_report() {
    grows_evenly(|count| {
        let mut scheduler = scheduler(gpus(8, count as i64), |_| ());
        scheduler.handle_group(gang("g", count), at(0)).unwrap();
        let (ticket, plan) = plan(&mut scheduler, at(0));
        assert_eq!(plan.len(), count);
        timed(|| scheduler.handle_bound(ticket, at(1)).unwrap())
    });
}

#[test]
fn plans_meet_conflicts() {
    grows_evenly(|count| {
        let mut scheduler = fitting(count);
        let tickets: Vec<_> = (0..count).map(|_| plan(&mut scheduler, at(0)).0).collect();
        timed(|| {
            for ticket in tickets {
                scheduler.handle_conflict(ticket, "lost", at(1)).unwrap();
            }
        })
    });
}

#[test]
fn permits_are_given_and_asked_again() {
    let held = |count: usize| {
        let permit = permit_fn("later", |_| PermitVerdict::Hold { until: at(1_000) });
        let framework = Framework::builder().filter(Fit).permit(permit).build().unwrap();
        let mut scheduler = Scheduler::new(gpus(8, count as i64), framework, Settings::default());
        for n in 0..count {
            scheduler.handle_group(gang(&format!("g{n}"), 1), at(0)).unwrap();
        }
        assert_eq!(scheduler.poll_decision(at(0)), None);
        scheduler
    };
    grows_evenly(|count| {
        let mut scheduler = held(count);
        timed(|| {
            for name in names(count) {
                scheduler.handle_permit_changed(&name, at(1)).unwrap();
            }
            for name in names(count) {
                scheduler.handle_permit(&name, PermitVerdict::Admit, at(2)).unwrap();
            }
        })
    });
}

#[test]
fn nominations_are_taken_up() {
    grows_evenly(|count| {
        let cluster = gpus(8, count as i64);
        let plans: Vec<_> = (0..count)
            .map(|n| {
                let group = gang(&format!("g{n}"), 1);
                let placed = place_gang(&cluster, &Framework::default(), &group).unwrap();
                placed.plan().unwrap().clone()
            })
            .collect();
        let mut scheduler = fitting(count);
        timed(|| {
            for plan in plans {
                scheduler.handle_nomination(plan, at(1)).unwrap();
            }
        })
    });
}

/// A planner: pods of a gang on few nodes, and a small gang on more nodes.
#[test]
fn gangs_are_placed_and_committed() {
    let run = |mut cluster: phalanx::Cluster, size: usize| {
        let framework = Framework::default();
        let group = gang("g", size);
        let mut planner = Planner::new();
        timed(|| {
            let placed = planner.place(&cluster, &framework, Request::new(&group)).unwrap();
            cluster.commit(&framework, placed.plan().unwrap()).unwrap();
        })
    };
    grows_evenly(|count| run(gpus(8, count as i64), count));
    grows_evenly(|count| run(gpus(count, 8), 64));
}

/// A group of groups: it cost the square of their number.
#[test]
fn groups_of_many_groups_are_placed() {
    grows_evenly(|count| {
        let mut cluster = gpus(8, count as i64);
        let framework = Framework::default();
        let inner = |n: usize| gang(&format!("g{n}"), 1);
        let tree =
            (0..count).fold(PodGroup::gang("tree", count as u32), |tree, n| tree.group(inner(n)));
        let mut planner = Planner::new();
        timed(|| {
            let request = Request::new(&tree).strategy(Strategy::Kubernetes);
            let placed = planner.place(&cluster, &framework, request).unwrap();
            cluster.commit(&framework, placed.plan().unwrap()).unwrap();
        })
    });
}

/// Tenants count their own steps: a claim that comes and goes costs the same beside ten times as many.
#[test]
fn holders_come_and_go() {
    use phalanx::Time;
    use phalanx::model::Amounts;
    use phalanx::quota::{Claim, PodSet};
    let dialects: [fn() -> Tenants; 3] = [Tenants::kueue, Tenants::default, Tenants::koordinator];
    for dialect in dialects {
        let run = |count: usize| {
            let mut tenants = dialect();
            tenants.set_flavor(Flavor::new("all"));
            let queue = Queue::leaf("q").parent("root").quota("all", GPU, Quota::nominal(1 << 40));
            tenants.set_queue(queue).unwrap();
            let of = tenants.intern("all", GPU);
            let mut requests = Amounts::new();
            requests.set(GPU, 1);
            let before = tenants.steps();
            let time = timed(|| {
                let holders: Vec<_> = (0..count)
                    .map(|n| {
                        let claim = Claim::new(format!("c{n}"), "q");
                        let claim = claim.pods(PodSet::new("main", 1, requests.clone()));
                        let usage = [(of, 1)].into_iter().collect();
                        tenants.restore(&claim, &usage, Time::ZERO).unwrap()
                    })
                    .collect();
                for holder in holders {
                    tenants.release(holder).unwrap();
                }
            });
            (tenants.steps() - before, time)
        };
        let (few, many) = (run(FEW), run(MANY));
        assert!(many.0 <= 10 * few.0, "{} steps of {FEW}, {} of {MANY}", few.0, many.0);
        grows_evenly(|count| run(count).1);
    }
}

/// An autoscaler counts the calls of plugins: they follow the gang, not its square.
#[test]
fn nodes_are_bought_for_larger_gangs() {
    let calls = |count: usize| {
        let group = gang("g", count);
        let node = Node::new("t").capacity(GPU, 8);
        let request = ScaleUpRequest::new([&group]).template(NodeTemplate::new(node, 1));
        let mut autoscaler = Autoscaler::new();
        let cluster = gpus(1, 1);
        let answer = autoscaler.scale_up(&cluster, &Framework::default(), request).unwrap();
        assert_eq!(answer.start().unwrap().blocks.len(), (count - 1).div_ceil(8));
        autoscaler.plugin_calls()
    };
    let (few, many) = (calls(81), calls(801));
    assert!(few > 0 && many <= 15 * few, "{few} calls for 81 pods, {many} for 801");
}

/// The store of watches: nodes and groups that come, are listed again, and go.
#[test]
fn objects_come_through_the_watches() {
    use phalanx::kubernetes::watch::{Store, WatchEvent};
    grows_evenly(|count| {
        let mut store = Store::new("phalanx");
        let mut version = 0;
        let mut send = |word: &str, mut object: serde_json::Value| {
            version += 1;
            object["metadata"]["resourceVersion"] = version.to_string().into();
            let line = serde_json::json!({"type": word, "object": object}).to_string();
            let event: WatchEvent = serde_json::from_str(&line).unwrap();
            store.apply(event).unwrap().len()
        };
        let node = |n: usize| {
            serde_json::json!({"apiVersion": "v1", "kind": "Node",
                "metadata": {"name": format!("n{n}"), "uid": format!("u{n}")},
                "status": {"allocatable": {GPU: "8", "pods": "110"}}})
        };
        let group = |n: usize| {
            serde_json::json!({"apiVersion": "scheduling.k8s.io/v1alpha2", "kind": "PodGroup",
                "metadata": {"namespace": "default", "name": format!("g{n}"), "uid": format!("g{n}")},
                "spec": {"schedulingPolicy": {"gang": {"minCount": 2}}}})
        };
        timed(|| {
            for word in ["ADDED", "MODIFIED", "DELETED"] {
                for n in 0..count {
                    send(word, node(n));
                    send(word, group(n));
                }
            }
        })
    });
}
