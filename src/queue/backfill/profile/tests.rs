use super::*;
use crate::model::PodShape;
use crate::queue::backfill::demand::ResourceNumbers;

fn cpus(count: i64) -> Demand {
    let mut shape = PodShape::default();
    shape.set_request("cpu", count);
    ResourceNumbers::default().of_shape(&shape)
}

#[test]
fn a_hole_is_used_only_by_what_is_over_before_it_closes() {
    let at = Time::from_secs;
    let mut profile = Profile::new(at(0), &cpus(2));
    profile.give(at(10), Time::MAX, &cpus(6));
    profile.take(at(10), at(20), &cpus(7));
    let secs = |secs| Some(Duration::from_secs(secs));
    assert_eq!(profile.earliest(at(0), Time::MAX, &cpus(2), secs(10)), Some(at(0)));
    assert_eq!(profile.earliest(at(0), Time::MAX, &cpus(2), secs(11)), Some(at(20)));
    assert_eq!(profile.earliest(at(0), Time::MAX, &cpus(1), None), Some(at(0)));
    assert_eq!(profile.earliest(at(1), Time::MAX, &cpus(1), secs(50)), Some(at(1)));
    assert_eq!(profile.earliest(at(0), Time::MAX, &cpus(8), None), Some(at(20)));
    assert_eq!(profile.earliest(at(0), Time::MAX, &cpus(9), secs(1)), None);
    profile.give(at(10), at(20), &cpus(7));
    assert_eq!(profile.earliest(at(0), Time::MAX, &cpus(8), secs(5)), Some(at(10)));
}
