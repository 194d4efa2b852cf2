//! Starts that are overdue.

use super::{Demand, Start};
use crate::base::Time;
use crate::queue::terms::ids::GroupId;

#[test]
fn a_start_is_overdue_once_the_time_promised_before_has_gone_by() {
    let group: GroupId = 7;
    let start = |before: Option<u64>| Start {
        group,
        demand: Demand::default(),
        at: Time::from_secs(50),
        end: Time::from_secs(60),
        before: before.map(Time::from_secs),
    };
    let overdue = |before, now| start(before).overdue(Time::from_secs(now)).is_some();
    assert!(overdue(Some(10), 11));
    assert!(!overdue(Some(10), 10), "its moment is not over");
    assert!(!overdue(Some(10), 9));
    assert!(!overdue(None, 1_000), "nothing was promised");
}
