//! Faults that random trees found from outside, each by its smallest case.

use phalanx::Time;
use phalanx::quota::{
    AssignmentMode, Claim, Flavor, FlavorResource, PodSet, Queue, QueueKind, Quota, ROOT_QUOTA,
    Tenants, Usage, Weight, kai,
};

fn claim<const N: usize>(name: &str, queue: &str, amounts: [(&str, i64); N]) -> Claim {
    Claim::new(name, queue).pods(PodSet::new("main", 1, amounts))
}

fn hold(tenants: &mut Tenants, own: &Claim, amounts: &[(FlavorResource, i64)]) {
    let usage: Usage = amounts.iter().copied().collect();
    tenants.restore(own, &usage, Time::ZERO).unwrap();
}

/// A queue whose guarantee is above its limit was never satisfied, and others got parts by weight for ever.
#[test]
fn division_by_weight_ends_where_a_guarantee_is_above_its_limit() {
    let mut tenants = Tenants::volcano_proportion();
    tenants.set_flavor(Flavor::new("f"));
    let quota = |nominal| Quota::nominal(nominal);
    let root = Queue::inner("root").quota("f", "cpu", quota(40));
    let bound = Queue::leaf("a").quota("f", "cpu", quota(2).limit(1));
    let light = Queue::leaf("b").weight(Weight::from_nanos(1)).quota("f", "cpu", quota(0));
    for queue in [root, bound, light] {
        tenants.set_queue(queue).unwrap();
    }
    let cpu = tenants.intern("f", "cpu");
    hold(&mut tenants, &claim("h", "a", [("cpu", 5)]), &[(cpu, 5)]);
    let decision = tenants.decide(&claim("x", "b", [("cpu", 30)])).unwrap();
    assert_eq!(decision.assignment.mode, AssignmentMode::Fit);
}

/// Victims outside of a queue whose limit is what is full.
#[test]
fn no_holder_goes_where_a_limit_stays_full_without_it() {
    let dialects = [Tenants::volcano_capacity, Tenants::volcano_drf, Tenants::volcano_proportion];
    for (number, dialect) in dialects.into_iter().enumerate() {
        for reserved in [false, true] {
            let mut tenants = dialect();
            tenants.set_flavor(Flavor::new("f"));
            let both = |queue: Queue, gpu: Quota, cpu: Quota| {
                queue.quota("f", "gpu", gpu).quota("f", "cpu", cpu)
            };
            let none = || Quota::nominal(0);
            let mut queues = vec![
                both(Queue::inner("root"), Quota::nominal(20), Quota::nominal(20)),
                both(
                    Queue::inner("in").parent("root"),
                    none().limit(4).deserved(4),
                    none().deserved(5),
                ),
                Queue::inner("out").parent("root"),
            ];
            for (name, parent, cpu) in [("a", "in", 3), ("b", "in", 3), ("o", "out", 0)] {
                let leaf = Queue::leaf(name).parent(parent);
                queues.push(both(leaf, none().deserved(2), none().deserved(cpu)));
            }
            for queue in queues {
                tenants.set_queue(queue).unwrap();
            }
            let (gpu, cpu) = (tenants.intern("f", "gpu"), tenants.intern("f", "cpu"));
            if reserved {
                let leaf = tenants.tree().queue(QueueKind::Leaf, "a").unwrap();
                let usage: Usage = [(cpu, 1), (gpu, 4)].into_iter().collect();
                tenants.reserve("r", leaf, &usage).unwrap();
            } else {
                hold(
                    &mut tenants,
                    &claim("ha", "a", [("cpu", 1), ("gpu", 4)]),
                    &[(cpu, 1), (gpu, 4)],
                );
                tenants.set_kept(tenants.find("ha").unwrap(), true).unwrap();
            }
            hold(&mut tenants, &claim("ho", "o", [("cpu", 8), ("gpu", 6)]), &[(cpu, 8), (gpu, 6)]);
            let asks = claim("x", "b", [("cpu", 2), ("gpu", 1)]).priority(5);
            let victims = tenants.decide(&asks).unwrap().victims;
            for victim in &victims {
                tenants.release(victim.holder).unwrap();
            }
            let after = tenants.decide(&asks).unwrap().assignment.mode;
            let case =
                format!("dialect {number}, reserved {reserved}: {victims:?}, then {after:?}");
            assert!(victims.is_empty() || after == AssignmentMode::Fit, "{case}");
        }
    }
}

/// An inner queue that was removed stood alone, and below the root once it was restored.
#[test]
fn an_inner_queue_that_was_removed_stands_where_a_save_puts_it() {
    let dialects: [(Tenants, &str); 5] = [
        (Tenants::yunikorn(), "root"),
        (Tenants::volcano_proportion(), "root"),
        (Tenants::volcano_capacity(), "root"),
        (Tenants::volcano_drf(), "root"),
        (Tenants::kai(), kai::CLUSTER),
    ];
    for (mut tenants, top) in dialects {
        tenants.set_flavor(Flavor::new("f"));
        let quota = |nominal| Quota::nominal(nominal).deserved(4);
        tenants.set_queue(Queue::inner(top).quota("f", "gpu", Quota::nominal(8))).unwrap();
        tenants.set_queue(Queue::inner("c").parent(top)).unwrap();
        tenants.set_queue(Queue::leaf("q").parent("c").quota("f", "gpu", quota(0))).unwrap();
        let inner = tenants.tree().queue(QueueKind::Inner, "c").unwrap();
        tenants.remove_queue(inner).unwrap();
        let saved = tenants.save();
        let mut again = saved.restore();
        saved.drain(&mut again);
        for own in [&mut tenants, &mut again] {
            let tree = own.tree();
            let leaf = tree.queue(QueueKind::Leaf, "q").unwrap();
            let path = tree.path(leaf).map(|at| &*tree.spec(at).unwrap().name);
            assert_eq!(path.collect::<Vec<_>>(), ["q", "c", top]);
            let decision = own.decide(&claim("x", "q", [("gpu", 2)])).unwrap();
            assert_eq!(decision.assignment.mode, AssignmentMode::Fit);
        }
        // It is gone with the last queue in it.
        let leaf = tenants.tree().queue(QueueKind::Leaf, "q").unwrap();
        tenants.remove_queue(leaf).unwrap();
        assert!(tenants.tree().queue(QueueKind::Inner, "c").is_none());
    }
}

/// A limit that only Kueue has held claims back that these dialects decide to fit.
#[test]
fn limits_on_borrowing_mean_nothing_to_dialects_without_them() {
    // The first two let a queue have its share alone.
    let dialects = [
        (Tenants::volcano_capacity(), "root", AssignmentMode::Preempt),
        (Tenants::volcano_proportion(), "root", AssignmentMode::Preempt),
        (Tenants::volcano_drf(), "root", AssignmentMode::Fit),
        (Tenants::yunikorn(), "root", AssignmentMode::Fit),
        (Tenants::koordinator(), ROOT_QUOTA, AssignmentMode::Fit),
        (Tenants::kai(), "root", AssignmentMode::Fit),
    ];
    for (number, (mut tenants, top, expected)) in dialects.into_iter().enumerate() {
        tenants.set_flavor(Flavor::new("f"));
        let quota = Quota::nominal(4).deserved(8).limit(8).borrowing_limit(0).lending_limit(0);
        let leaf = Queue::leaf("a").quota("f", "cpu", quota);
        let other = Queue::leaf("b").quota("f", "cpu", Quota::nominal(4).limit(8));
        let root = Queue::inner(top).quota("f", "cpu", Quota::nominal(8));
        for queue in [root, leaf, other] {
            tenants.set_queue(queue).unwrap();
        }
        let (cpu, leaf) = (tenants.intern("f", "cpu"), tenants.tree().queue(QueueKind::Leaf, "a"));
        let usage: Usage = [(cpu, 6)].into_iter().collect();
        let decision = tenants.decide(&claim("x", "a", [("cpu", 6)])).unwrap();
        assert_eq!(decision.assignment.mode, expected, "dialect {number}");
        assert!(
            expected != AssignmentMode::Fit || tenants.fits(leaf.unwrap(), &usage, &[]),
            "dialect {number}"
        );
        let wrong = Queue::leaf("a").quota("f", "cpu", Quota::nominal(4).borrowing_limit(-1));
        assert!(tenants.set_queue(wrong).is_err(), "dialect {number}: a limit below zero");
    }
}
