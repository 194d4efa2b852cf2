use super::*;

fn of_types<const N: usize>(amounts: [(&str, i64); N]) -> Resource {
    amounts.into_iter().map(|(name, amount)| (name.into(), amount)).collect()
}

#[test]
fn a_type_that_is_missing_is_unlimited_in_a_limit_and_none_in_a_need() {
    let limit = of_types([("cpu", 4)]);
    let need = of_types([("cpu", 2), ("gpu", 1)]);
    assert!(fits_limit(Some(&limit), Some(&need)));
    assert!(!fits(Some(&limit), Some(&need)));
    assert_eq!(least(Some(&limit), Some(&need)), Some(of_types([("cpu", 2), ("gpu", 1)])));
    assert_eq!(least(None, Some(&need)), Some(need));
}

#[test]
fn quantities_have_suffixes_and_no_sign_below_zero() {
    let read =
        |name: &str, text: &str| from_configuration(&BTreeMap::from([(name.into(), text.into())]));
    assert_eq!(read("vcore", "10"), Ok(of_types([("vcore", 10_000)])));
    assert_eq!(read("vcore", "500m"), Ok(of_types([("vcore", 500)])));
    assert_eq!(read("memory", "2 Gi"), Ok(of_types([("memory", 2 << 30)])));
    for wrong in ["-1", "1m", "x", "", "9E5", "99999999999999999999", "9Ei"] {
        assert_eq!(read("memory", wrong), Err("memory".into()), "{wrong}");
    }
}

#[test]
fn longer_lists_of_shares_count_by_the_sign_of_the_rest() {
    assert_eq!(compare_shares(&[0.0, 10.0], &[10.0]), Ordering::Equal);
    assert_eq!(compare_shares(&[-1.0, 10.0], &[10.0]), Ordering::Less);
    assert_eq!(compare_shares(&[10.0], &[1.0, 10.0]), Ordering::Less);
    assert_eq!(compare_shares(&[0.0, 10.0], &[5.0]), Ordering::Greater);
}

#[test]
fn a_guarantee_goes_before_the_fair_maximum() {
    let allocated = of_types([("cpu", 10), ("gpu", 1), ("disk", 5)]);
    let guaranteed = of_types([("cpu", 100)]);
    let fair_max = of_types([("cpu", 20), ("gpu", 4)]);
    assert_eq!(fair_share(Some(&allocated), Some(&guaranteed), Some(&fair_max)), 0.25);
    assert_eq!(fair_share(Some(&allocated), Some(&of_types([("gpu", 0)])), None), 1.0);
}

/// All amounts of two types, each absent or of -1 to 2.
fn small() -> Vec<Resource> {
    let each = || [None, Some(-1), Some(0), Some(1), Some(2)];
    let pairs = each().into_iter().flat_map(|x| each().map(|y| [("x", x), ("y", y)]));
    pairs
        .map(|pair| {
            let named = pair.into_iter().filter_map(|(name, own)| Some((name.into(), own?)));
            named.collect()
        })
        .collect()
}

#[test]
fn comparisons_are_of_each_type_and_what_is_absent_is_none() {
    let all = small();
    for a in &all {
        let own = ["x", "y"].map(|name| of(a, name));
        let positive = own.iter().all(|own| *own >= 0) && own != [0, 0];
        assert_eq!(is_positive(Some(a)), positive, "{a:?}");
        for b in &all {
            let other = ["x", "y"].map(|name| of(b, name));
            let at_least = own[0] >= other[0] && own[1] >= other[1];
            assert_eq!(is_at_least(Some(a), Some(b)), at_least, "{a:?} {b:?}");
            assert_eq!(is_greater(Some(a), Some(b)), at_least && own != other, "{a:?} {b:?}");
            assert_eq!(equal_or_zero(Some(a), Some(b)), own == other, "{a:?} {b:?}");
        }
        // An amount that was never set equals no amount above zero.
        assert_eq!(equal_or_zero(None, Some(a)), own == [0, 0], "{a:?}");
        assert_eq!(equal_or_zero(Some(a), None), own == [0, 0], "{a:?}");
    }
    assert!(!is_positive(None) && equal_or_zero(None, None));
}

#[test]
fn comparisons_of_existing_types_leave_out_what_only_one_side_names() {
    let of = |x: i64, y: i64| of_types([("x", x), ("y", y)]);
    let (x, z) = (of_types([("x", 1)]), of_types([("z", 9)]));
    let both = |a: &Resource, b: &Resource| {
        (is_at_least_existing(Some(a), Some(b)), is_greater_existing(Some(a), Some(b)))
    };
    assert_eq!(both(&of(1, 0), &x), (true, false));
    assert_eq!(both(&of(2, 0), &x), (true, true));
    assert_eq!(both(&of(0, 9), &x), (false, false));
    assert_eq!(both(&of(2, 1), &of(1, 2)), (false, false));
    assert_eq!(both(&of(2, 1), &of(1, 1)), (true, true));
    // No type in common.
    assert_eq!(both(&x, &z), (true, true));
    // Nothing on one side.
    assert_eq!(both(&Resource::new(), &x), (false, false));
    assert_eq!(both(&x, &Resource::new()), (true, true));
    assert_eq!(both(&of(1, 0), &Resource::new()), (false, false));
}

#[test]
fn the_score_of_a_fit_is_the_part_that_is_missing() {
    let need = of_types([("x", 4), ("y", 10)]);
    let score = |x: i64, y: i64| fit_score(Some(&of_types([("x", x), ("y", y)])), Some(&need));
    assert_eq!((score(4, 10), score(9, 99)), (0.0, 0.0));
    assert_eq!((score(3, 10), score(3, 5), score(0, -1)), (0.25, 0.75, 2.0));
    assert_eq!((fit_score(None, Some(&need)), fit_score(None, None)), (2.0, 0.0));
    for a in &small() {
        for b in &small() {
            // Nothing is missing exactly where it fits.
            let misses = fit_score(Some(a), Some(b)) != 0.0;
            assert_eq!(misses, !fits(Some(a), Some(b)), "{a:?} {b:?}");
        }
    }
}

#[test]
fn fairness_is_the_ratio_of_the_largest_shares() {
    let total = of_types([("x", 10), ("y", 100)]);
    let of = |x: i64, y: i64| of_types([("x", x), ("y", y)]);
    let ratio = |a: &Resource, b: &Resource| fairness_ratio(Some(a), Some(b), Some(&total));
    assert_eq!(ratio(&of(5, 10), &of(1, 25)), 2.0);
    assert_eq!(ratio(&of(1, 25), &of(5, 10)), 0.5);
    assert_eq!(ratio(&of(0, 0), &of(0, 0)), 1.0);
    assert_eq!(ratio(&of(0, 0), &of(1, 0)), 0.0);
    assert_eq!(fairness_ratio(None, None, None), 1.0);
}
