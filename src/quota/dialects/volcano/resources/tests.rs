use super::*;

#[test]
fn a_missing_resource_is_nothing_or_has_no_bound() {
    let gpus = Resources::new(1.0, 1.0).scalar("gpu", 1000.0);
    let none = Resources::new(1.0, 1.0);
    assert!(!gpus.less_equal(&none, Missing::Zero));
    assert!(gpus.less_equal(&none, Missing::Infinity));
    assert!(none.less_equal(&gpus, Missing::Zero));
    assert!(!none.less_equal(&gpus, Missing::Infinity));
    assert_eq!(gpus.exceeding(&none, Missing::Zero), ["gpu"]);
    assert!(gpus.exceeding(&none, Missing::Infinity).is_empty());
    assert!(none.less_partly(&gpus, Missing::Zero));
    assert!(!none.less_partly(&gpus, Missing::Infinity));
}

#[test]
fn requests_choose_what_is_compared_and_pods_never_are() {
    let used = Resources::new(2000.0, 0.0).scalar("pods", 9.0).scalar("gpu", 0.0);
    let bound = Resources::new(1000.0, 0.0).scalar("pods", 1.0);
    let request = Resources::new(1.0, 0.0).scalar("pods", 1.0).scalar("gpu", 1.0);
    assert_eq!(used.exceeding_of(&bound, Some(&request)), ["cpu"]);
    assert_eq!(used.within_of(&bound, &request), ["gpu"]);
    assert!(used.within_of_any(&bound, &request).is_empty());
    assert_eq!(used.beyond_of_named(&bound, &request), ["cpu"]);
    assert!(Resources::default().scalar("pods", 3.0).is_empty());
}

#[test]
fn a_share_of_nothing_is_all_of_it() {
    assert_eq!((share(0.0, 0.0), share(2.0, 0.0), share(1.0, 4.0)), (0.0, 1.0, 0.25));
}

#[test]
fn a_difference_leads_from_the_one_to_the_other() {
    let one = Resources::new(5.0, 1.0).scalar("gpu", 3.0).scalar("disk", 2.0);
    let other = Resources::new(2.0, 4.0).scalar("gpu", 7.0).scalar("net", 6.0);
    let (more, less) = one.difference(&other, Missing::Zero);
    let expected_more = Resources::new(3.0, 0.0).scalar("disk", 2.0);
    let expected_less = Resources::new(0.0, 3.0).scalar("gpu", 4.0).scalar("net", 6.0);
    assert_eq!((&more, &less), (&expected_more, &expected_less));
    assert!(other.plus(&more).minus(&less).equals(&one));
    assert_eq!(one.beyond(&other), expected_more);
    // A resource that one side does not name is without a bound there.
    let (more, less) = one.difference(&other, Missing::Infinity);
    assert_eq!(more.scalars, BTreeMap::from([("net".into(), -1.0)]));
    let bounded = BTreeMap::from([("disk".into(), -1.0), ("gpu".into(), 4.0)]);
    assert_eq!(less.scalars, bounded);
}

#[test]
fn sums_and_multiples_are_of_each_resource() {
    let one = Resources::new(5.0, 1.0).scalar("gpu", 3.0);
    let mut sum = one.clone();
    sum.add(&Resources::new(1.0, 2.0).scalar("gpu", 1.0).scalar("disk", 2.0));
    assert_eq!(sum, Resources::new(6.0, 3.0).scalar("gpu", 4.0).scalar("disk", 2.0));
    assert_eq!(one.plus(&one), one.times(2.0));
    assert_eq!(one.minus(&one), one.times(0.0));
}

#[test]
fn less_is_strict_and_at_most_within_the_tolerance() {
    let one = Resources::new(1.0, 1.0).scalar("gpu", 1.0);
    let two = one.times(2.0);
    let near = Resources::new(0.95, 0.95).scalar("gpu", 0.95);
    for missing in [Missing::Zero, Missing::Infinity] {
        assert!(one.less(&two, missing) && !two.less(&one, missing));
        assert!(!one.less(&one, missing) && !one.less(&near, missing));
        assert!(one.less_equal(&near, missing) && !two.less_equal(&one, missing));
        // One amount that is less suffices.
        let mixed = Resources::new(3.0, 0.0).scalar("gpu", 3.0);
        assert!(mixed.less_partly(&one, missing) && mixed.less_equal_partly(&one, missing));
        assert!(!two.less_partly(&one, missing) && !two.less_equal_partly(&one, missing));
        assert!(!one.less_partly(&near, missing) && one.less_equal_partly(&near, missing));
    }
}
