//! Tests: sets of rows.

use super::*;

#[test]
fn a_full_set_ends_at_its_capacity() {
    for capacity in [0, 1, 63, 64, 65, 130] {
        let set = RowSet::full(capacity);
        assert_eq!(set.len(), capacity);
        assert!(!set.contains(Row::new(capacity)));
        assert!(set.iter().eq(Row::all(capacity)));
    }
}

#[test]
fn rows_are_sorted_each_once() {
    let mut set = RowSet::default();
    let mut sorted = Vec::new();
    for (count, end) in [(0, 1), (3, 70), (40, 70), (500, 1_000), (20, 100_000)] {
        let rows: Vec<u32> = (0..count).map(|i| i * 7_919 % end).collect();
        set.sort(&rows, end as usize, &mut sorted);
        let mut expected = rows;
        expected.sort_unstable();
        expected.dedup();
        assert_eq!(sorted, expected);
    }
}

#[test]
fn rows_of_a_part_are_those_of_all_in_it() {
    let rows: RowSet = [0, 1, 63, 64, 200, 255, 256, 400, 511].map(Row::new).into_iter().collect();
    for (start, end) in [(0, 0), (0, 1), (0, 256), (64, 256), (256, 300), (256, 512), (512, 768)] {
        let expected = rows.iter().filter(|row| (start..end).contains(&row.index()));
        assert!(rows.between(start, end).eq(expected), "from {start} to {end}");
    }
}

#[test]
fn insert_and_remove_report_change() {
    let mut set = RowSet::new(10);
    let [near, far, absent] = [3, 700, 9_999].map(Row::new);
    assert!(set.insert(near) && !set.insert(near) && set.insert(far));
    assert!(set.remove(near) && !set.remove(near) && !set.remove(absent));
    assert_eq!(set.iter().collect::<Vec<_>>(), [far]);
}
