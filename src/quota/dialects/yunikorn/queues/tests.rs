use super::*;

#[allow(clippy::unnecessary_wraps, reason = "as queues have it")]
fn of<const N: usize>(amounts: [(&str, i64); N]) -> Option<Resource> {
    Some(amounts.into_iter().map(|(name, amount)| (name.into(), amount)).collect())
}

fn queue(path: &str, leaf: bool) -> QueueState {
    let parent = path.rsplit_once('.').map(|(parent, _)| parent.into());
    QueueState { path: path.into(), parent, leaf, ..QueueState::default() }
}

#[test]
fn priorities_go_up_with_offsets_until_a_fence() {
    let mut all = [queue("root", false), queue("root.p", false), queue("root.p.leaf", true)];
    all[1].priority.offset = 5;
    all[2].priority = PriorityRule { fence: true, offset: 3 };
    let asks = BTreeMap::from([("root.p.leaf".into(), 100)]);
    let queues = Queues::new(all.clone());
    assert_eq!(queues.priority("root", &asks), 8);
    assert_eq!(queues.priority("root", &BTreeMap::new()), MIN_PRIORITY);
    all[2].priority.fence = false;
    assert_eq!(Queues::new(all).priority("root.p", &asks), 108);
}

#[test]
fn a_child_states_its_own_fair_maximum_and_the_root_drops_what_it_has_none_of() {
    let mut all = [queue("root", false), queue("root.p", false)];
    all[0].max = of([("cpu", 10), ("disk", 0)]);
    all[1].max = of([("cpu", 0), ("gpu", 4)]);
    let queues = Queues::new(all);
    assert_eq!(queues.fair_max("root.p"), of([("cpu", 0), ("gpu", 4)]));
    assert_eq!(queues.max("root.p"), of([("cpu", 0), ("gpu", 4), ("disk", 0)]));
    assert_eq!(queues.max_set("root.p"), of([("cpu", 0), ("gpu", 4)]));
}
