use super::*;

#[test]
fn values_are_counted_by_power_of_two() {
    let mut histogram = Histogram::default();
    for value in [0, 1, 2, 3, 4, 1_000, u64::MAX] {
        histogram.add(value);
    }
    let counts: Vec<_> = histogram.buckets().filter(|(_, count)| *count > 0).collect();
    assert_eq!(counts, [(1, 1), (2, 1), (4, 2), (8, 1), (1_024, 1), (1 << 64, 1)]);
    assert_eq!((histogram.count(), histogram.sum()), (7, u64::MAX));
}
