use super::*;

fn cpu(amount: i64) -> Amounts {
    Amounts::from([("cpu", amount)])
}

#[test]
fn thresholds_are_stated_by_amounts_and_a_measure() {
    let of = |thresholds: Amounts, measure: &str| {
        let measure = measure.into();
        AggregatedThresholds { thresholds, measure, ..AggregatedThresholds::default() }.is_stated()
    };
    assert!(of(cpu(65), "p95"));
    assert!(!of(cpu(65), "") && !of(Amounts::new(), "p95") && !of(Amounts::new(), ""));
}

#[test]
fn usage_over_a_time_is_of_the_measure_and_the_time() {
    let hour = |hours: u64| Duration::from_secs(3_600 * hours);
    let known = |hours, measure: &str, usage| AggregatedUsage {
        over: hour(hours),
        measure: measure.into(),
        usage,
    };
    let mut usage = NodeUsage::new(Time::ZERO, cpu(1));
    usage.aggregated = [
        known(1, "p95", cpu(10)),
        known(2, "p95", cpu(20)),
        known(3, "p95", Amounts::new()),
        known(2, "avg", cpu(5)),
    ]
    .into();
    assert_eq!(usage.over("p95", hour(1)), Some(&cpu(10)));
    assert_eq!(usage.over("avg", hour(2)), Some(&cpu(5)));
    // A measure that is not known of that time says nothing; one without amounts is not known.
    assert_eq!((usage.over("avg", hour(1)), usage.over("p95", hour(3))), (None, None));
    // A time of 0 is the longest that is known, or now.
    assert_eq!(usage.over("p95", Duration::ZERO), Some(&cpu(20)));
    assert_eq!(usage.over("p50", Duration::ZERO), Some(&cpu(1)));
    // A report without the node's own usage is none.
    usage.node = None;
    assert_eq!((usage.over("p95", hour(1)), usage.over("p50", Duration::ZERO)), (None, None));
}
