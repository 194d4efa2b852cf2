use super::*;
use crate::base::Time;
use core::cmp::Reverse;

fn turn(group: u64) -> Turn {
    let since = Time::ZERO;
    (Duration::ZERO, QueueKey { rank: 0, priority: Reverse(0), grown: 0, since, group })
}

#[test]
fn the_first_that_is_short_enough_is_found_by_chunks() {
    let run = |group: u64| Duration::from_secs(group * 7_919 % 1_009);
    let mut members = Members::default();
    for group in (0..1_000).map(|index| index * 613 % 1_000) {
        members.insert(turn(group), run(group));
    }
    for group in (0..1_000).filter(|group| group % 3 == 0) {
        members.remove(&turn(group));
    }
    members.remove(&turn(2_000));
    let left = || (0..1_000_u64).filter(|group| group % 3 > 0);
    for after in (0..1_000).step_by(37) {
        for most in [0, 1, 10, 100, 2_000].map(Duration::from_secs) {
            let expected = left().find(|group| *group > after && run(*group) <= most);
            let found = members.first(Some(&turn(after)), most).map(|(_, key)| key.group);
            assert_eq!(found, expected, "after {after}, {most:?}");
        }
    }
    left().for_each(|group| members.remove(&turn(group)));
    assert!(members.0.is_empty() && members.first(None, Duration::MAX).is_none());
}
