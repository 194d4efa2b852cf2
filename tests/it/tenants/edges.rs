//! Queues moved, resized and removed with work in them; claims that make no sense.

use phalanx::Time;
use phalanx::model::Amounts;
use phalanx::quota::{
    AssignmentMode, Claim, Flavor, Head, MOST, PodSet, Queue, QueueKind, QueueTree, Quota,
    QuotaError, Removal, Tenants, UNLIMITED, Usage,
};

fn leaf(name: &str, parent: &str, nominal: i64) -> Queue {
    Queue::leaf(name).parent(parent).quota("f", "gpu", Quota::nominal(nominal))
}

fn claim(name: &str, queue: &str, gpus: i64) -> Claim {
    let mut requests = Amounts::new();
    requests.set("gpu", gpus);
    Claim::new(name, queue).pods(PodSet::new("main", 1, requests))
}

#[test]
fn a_queue_that_moves_takes_its_use_along() {
    let mut tree = QueueTree::new();
    let a = tree.set_queue(leaf("a", "one", 4)).expect("sound");
    tree.set_queue(leaf("b", "one", 4)).expect("sound");
    tree.set_queue(leaf("c", "two", 4)).expect("sound");
    let gpu = tree.flavor_resource("f", "gpu").expect("known");
    tree.charge(a, gpu, 6).expect("in range");
    tree.wait(a, gpu, 3).expect("in range");
    let of = |tree: &QueueTree, name: &str| {
        let queue = tree.queue(QueueKind::Inner, name).expect("there");
        let sums = tree.sums(queue, gpu);
        (sums.subtree, sums.used, sums.pending)
    };
    assert_eq!((of(&tree, "one"), of(&tree, "two")), ((8, 6, 3), (4, 0, 0)));
    let moved = tree.set_queue(leaf("a", "two", 5)).expect("sound");
    assert_eq!(moved, a);
    assert_eq!((of(&tree, "one"), of(&tree, "two")), ((4, 0, 0), (9, 6, 3)));
    assert_eq!(tree.available(a, gpu), 3);
    // Resized below what it uses, in a tree that has too little.
    tree.set_queue(leaf("c", "two", 0)).expect("sound");
    assert_eq!(tree.available(a, gpu), -1);
}

#[test]
fn a_leaf_drains_and_an_inner_queue_stays_for_its_children() {
    let mut tree = QueueTree::new();
    let a = tree.set_queue(leaf("a", "one", 4)).expect("sound");
    tree.set_queue(Queue::inner("one").parent("root").quota("f", "gpu", Quota::nominal(2)))
        .expect("sound");
    let gpu = tree.flavor_resource("f", "gpu").expect("known");
    tree.charge(a, gpu, 1).expect("in range");
    let one = tree.queue(QueueKind::Inner, "one").expect("there");
    assert_eq!(tree.remove_queue(one), Ok(Removal::Implicit));
    assert_eq!(tree.queue(QueueKind::Inner, "root"), None);
    assert_eq!((tree.sums(one, gpu).subtree, tree.sums(one, gpu).used), (4, 1));
    assert_eq!(tree.remove_queue(a), Ok(Removal::Draining));
    assert!(tree.is_draining(a));
    assert_eq!(tree.sums(one, gpu).subtree, 4);
    tree.charge(a, gpu, -1).expect("in range");
    assert_eq!((tree.spec(a), tree.spec(one)), (None, None));
    assert!(matches!(tree.charge(a, gpu, 1), Err(QuotaError::UnknownQueue(_))));
    // Its place is taken by another; the old id is still known as gone.
    let b = tree.set_queue(leaf("b", "one", 4)).expect("sound");
    assert_ne!(a, b);
    assert!(tree.remove_queue(a).is_err());
}

/// U1. The first amount that came back dropped the queue, and the second found none.
#[test]
fn a_holder_of_a_queue_that_drains_gives_back_each_of_its_amounts() {
    let mut tenants = Tenants::default();
    tenants.set_flavor(Flavor::new("f"));
    let queue = leaf("a", "one", 4).quota("f", "cpu", Quota::nominal(8));
    let a = tenants.set_queue(queue).expect("sound");
    let mut requests = Amounts::new();
    requests.set("gpu", 2);
    requests.set("cpu", 3);
    let both = Claim::new("both", "a").pods(PodSet::new("main", 1, requests));
    let nothing = Claim::new("nothing", "a").pods(PodSet::new("main", 1, Amounts::new()));
    let mut holders = Vec::new();
    for claim in [&both, &nothing] {
        let decision = tenants.decide(claim).expect("sound");
        assert_eq!(decision.assignment.mode, AssignmentMode::Fit);
        holders.push(tenants.admit(claim, &decision.assignment, Time::ZERO).expect("in range"));
    }
    assert_eq!(tenants.remove_queue(a), Ok(Removal::Draining));
    let back = tenants.release(holders[0]).expect("both amounts");
    assert_eq!((back.name.as_str(), back.usage.len()), ("both", 2));
    assert!(tenants.find("both").is_none());
    // One that holds nothing keeps no queue, and can be given back all the same.
    assert!(tenants.release(holders[1]).is_ok() || tenants.holder(holders[1]).is_none());
    assert_eq!((tenants.find("nothing"), tenants.tree().spec(a)), (None, None));
}

#[test]
fn circles_are_remembered_until_they_open() {
    let mut tree = QueueTree::new();
    let inner = |name: &str, parent: &str| Queue::inner(name).parent(parent);
    let a = tree.set_queue(inner("a", "b")).expect("sound");
    let leaf_of_a = tree.set_queue(leaf("q", "a", 3)).expect("sound");
    assert!(tree.is_linked(leaf_of_a));
    let b = tree.set_queue(inner("b", "a")).expect("sound");
    assert!(!tree.is_linked(a) && !tree.is_linked(b) && !tree.is_linked(leaf_of_a));
    let own = tree.set_queue(inner("s", "s")).expect("sound");
    assert!(!tree.is_linked(own));
    tree.set_queue(inner("a", "c")).expect("sound");
    assert!(tree.is_linked(a) && tree.is_linked(b) && tree.is_linked(leaf_of_a));
    let gpu = tree.flavor_resource("f", "gpu").expect("known");
    let root = tree.path(b).last().expect("a root");
    assert_eq!(tree.spec(root).map(|spec| spec.name.as_str()), Some("c"));
    assert_eq!(tree.sums(root, gpu).subtree, 3);
    assert_eq!(tree.sums(b, gpu).subtree, 0);
}

#[test]
fn trees_are_no_deeper_than_they_may_be() {
    let mut tree = QueueTree::new();
    for level in 0..2 * QueueTree::MAX_DEPTH {
        let queue = Queue::inner(format!("n{level}")).parent(format!("n{}", level + 1));
        tree.set_queue(queue).expect("sound");
    }
    let deepest = tree.set_queue(leaf("q", "n0", 1)).expect("sound");
    let gpu = tree.flavor_resource("f", "gpu").expect("known");
    assert!(!tree.is_linked(deepest));
    assert!(tree.path(deepest).count() <= QueueTree::MAX_DEPTH as usize);
    assert!(tree.available(deepest, gpu) <= 1);
}

#[test]
fn what_makes_no_sense_is_an_error_and_changes_nothing() {
    let mut tenants = Tenants::kueue();
    tenants.set_flavor(Flavor::new("f"));
    let a = tenants.set_queue(leaf("a", "one", 4)).expect("sound");
    let negative = Queue::leaf("a").quota("f", "gpu", Quota::nominal(3).lending_limit(-1));
    assert!(matches!(tenants.set_queue(negative), Err(QuotaError::Negative { .. })));
    let twice = leaf("a", "one", 4).quota("f", "gpu", Quota::nominal(1));
    assert!(matches!(tenants.set_queue(twice), Err(QuotaError::Twice { .. })));
    let gpu = tenants.intern("f", "gpu");
    assert_eq!(tenants.tree().sums(a, gpu).nominal, 4);
    assert!(matches!(tenants.decide(&claim("x", "b", 1)), Err(QuotaError::UnknownQueue(_))));
    assert!(matches!(tenants.decide(&claim("x", "a", -1)), Err(QuotaError::Amount { .. })));
    let one = claim("x", "a", 1);
    let decision = tenants.decide(&one).expect("sound");
    let holder = tenants.admit(&one, &decision.assignment, Time::ZERO).expect("in range");
    let again = tenants.admit(&one, &decision.assignment, Time::ZERO);
    assert_eq!(again, Err(QuotaError::Held("x".into())));
    assert_eq!(tenants.tree().sums(a, gpu).used, 1);
    let below = [(gpu, 2)].into_iter().collect();
    assert!(tenants.keep(a, &below, -1).is_err());
    assert_eq!(tenants.tree().sums(a, gpu).used, 1);
    tenants.release(holder).expect("held");
    assert!(tenants.release(holder).is_err());
    assert_eq!(tenants.holder(holder).map(|holder| &holder.name), None);
}

#[test]
fn amounts_at_the_end_of_the_range_neither_fit_nor_overflow() {
    let mut tenants = Tenants::kueue();
    tenants.set_flavor(Flavor::new("f"));
    for name in ["a", "b"] {
        tenants.set_queue(leaf(name, "one", UNLIMITED)).expect("sound");
    }
    for (gpus, mode) in
        [(i64::MAX, AssignmentMode::NoFit), (MOST, AssignmentMode::Fit), (0, AssignmentMode::Fit)]
    {
        let decision = tenants.decide(&claim("x", "a", gpus)).expect("sound");
        assert_eq!(decision.assignment.mode, mode, "{gpus}");
    }
    let most = claim("x", "a", MOST);
    let decision = tenants.decide(&most).expect("sound");
    tenants.admit(&most, &decision.assignment, Time::ZERO).expect("in range");
    let more = claim("y", "b", 1);
    let decision = tenants.decide(&more).expect("sound");
    assert!(tenants.admit(&more, &decision.assignment, Time::ZERO).is_err());
    assert!(tenants.find("y").is_none());
}

#[test]
fn a_flavor_that_is_removed_is_handed_back_and_its_queues_admit_nothing() {
    let mut tenants = Tenants::default();
    let flavor = Flavor::new("f").label("card", "a100");
    tenants.set_flavor(flavor.clone());
    let queue = tenants.set_queue(leaf("a", "one", 4)).expect("sound");
    assert!(tenants.is_active(queue) && tenants.decide(&claim("w", "a", 1)).is_ok());
    assert_eq!(tenants.remove_flavor("other"), None);
    assert_eq!(tenants.remove_flavor("f"), Some(flavor));
    assert_eq!((tenants.remove_flavor("f"), tenants.flavor("f")), (None, None));
    assert!(!tenants.is_active(queue));
}

#[test]
fn an_order_of_heads_is_empty_until_one_is_set_and_when_all_are_taken() {
    let mut tenants = Tenants::default();
    tenants.set_flavor(Flavor::new("f"));
    let queues = ["a", "b"].map(|name| tenants.set_queue(leaf(name, "one", 4)).expect("sound"));
    let head = |name: &str| Head::new(name, Usage::default());
    let mut heads = tenants.heads();
    assert!(heads.is_empty());
    assert_eq!(heads.len(), 0);
    for queue in queues {
        heads.set(&mut tenants, queue, head("h"));
        assert!(!heads.is_empty());
    }
    assert_eq!(heads.len(), 2);
    heads.set(&mut tenants, queues[0], head("other"));
    assert_eq!((heads.len(), heads.get(queues[0]).map(|own| &*own.name)), (2, Some("other")));
    while heads.pop(&mut tenants).is_some() {}
    assert!(heads.is_empty() && heads.get(queues[0]).is_none());
}
