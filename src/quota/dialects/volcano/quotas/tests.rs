//! Shares of the proportion plugin, and capacities.

use super::*;

fn cpu(amount: f64) -> Resources {
    Resources::new(amount, 0.0)
}

fn queue(name: &str, deserved: f64, allocated: f64) -> Attributes {
    Attributes {
        deserved: cpu(deserved),
        allocated: cpu(allocated),
        request: cpu(allocated),
        ..Attributes::new(name)
    }
}

#[test]
fn one_resource_suffices_to_reclaim() {
    let mut rich = queue("rich", 1000.0, 1000.0);
    rich.deserved.memory = 8.0;
    let total = Resources::new(8000.0, 80.0);
    let quotas = Quotas::capacity(&total, &Resources::default(), alloc::vec![rich]);
    assert!(!quotas.may_reclaim("rich", &cpu(1000.0)));
    assert!(quotas.may_reclaim("rich", &Resources::new(1000.0, 8.0)), "within on memory");
}

#[test]
fn victims_leave_a_queue_what_it_deserves_and_its_guarantee() {
    let mut over = queue("over", 2000.0, 4000.0);
    over.guarantee = cpu(1000.0);
    let queues = alloc::vec![over, queue("taker", 4000.0, 0.0)];
    let quotas = Quotas::capacity(&cpu(8000.0), &cpu(1000.0), queues);
    let task = cpu(1500.0);
    let all = [("over", &task), ("over", &task), ("over", &task)];
    assert_eq!(quotas.victims("taker", &task, &all), [true, true, false], "1,000 left");
    let memory = Resources::new(0.0, 8.0);
    let unrelated = [("over", &memory)];
    assert_eq!(quotas.victims("taker", &task, &unrelated), [false]);
}

#[test]
fn a_queue_that_deserves_nothing_comes_last_among_equals() {
    let queues = alloc::vec![queue("none", 0.0, 0.0), queue("full", 1000.0, 1000.0)];
    let quotas = Quotas::capacity(&cpu(8000.0), &Resources::default(), queues);
    assert_eq!(quotas.compare("full", "none"), Ordering::Less);
    assert_eq!(quotas.compare("none", "full"), Ordering::Greater);
}

#[test]
fn the_share_of_a_queue_is_of_what_it_deserves_and_all_if_that_is_nothing() {
    assert_eq!(queue("a", 1000.0, 250.0).configured_share(), 0.25);
    assert_eq!(queue("a", 0.0, 250.0).configured_share(), 1.0);
    assert_eq!(queue("a", 0.0, 0.0).configured_share(), 1.0);
}

#[test]
fn a_queue_that_has_what_it_deserves_is_passed_over_by_proportion_alone() {
    let total = cpu(4000.0);
    let queues = || alloc::vec![queue("full", 0.0, 3000.0), queue("half", 0.0, 1000.0)];
    let none = Resources::default();
    let mut proportion = queues();
    proportion[1].request = cpu(3000.0);
    let proportion = Quotas::proportion(&total, &none, proportion);
    // Each deserves half: the first has more, the second less.
    assert_eq!((proportion.overused("full"), proportion.overused("half")), (true, false));
    assert!(!proportion.overused("unknown"));
    let capacity = Quotas::capacity(&total, &none, queues());
    assert!(!capacity.overused("full") && !capacity.overused("half"));
}

#[test]
fn of_equal_shares_a_queue_that_deserves_something_goes_first() {
    let queues = || {
        let mut late = queue("none", 0.0, 0.0);
        late.share = 1.0;
        alloc::vec![late, queue("full", 1000.0, 1000.0)]
    };
    let none = Resources::default();
    let capacity = Quotas::capacity(&cpu(4000.0), &none, queues());
    assert_eq!(capacity.compare("full", "none"), Ordering::Less);
    assert_eq!(capacity.compare("none", "full"), Ordering::Greater);
    assert_eq!(capacity.compare("none", "none"), Ordering::Equal);
}
