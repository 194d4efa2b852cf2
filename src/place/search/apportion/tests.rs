use super::*;
use proptest::prelude::*;

#[test]
fn twenty_from_nineteen_ten_ten_is_ten_and_ten() {
    assert_eq!(fewest(&[19, 10, 10], 20), Some(vec![0, 10, 10]));
    assert_eq!(balanced(&[19, 10, 10], 20), Some(vec![0, 10, 10]));
    assert_eq!(level(&[19, 10, 10], 20), Some(vec![7, 7, 6]));
    assert_eq!(fewest(&[3, 3, 2, 1], 7), Some(vec![3, 3, 0, 1]));
    assert_eq!(fewest(&[3, 3], 7), None);
}

proptest! {
    #[test]
    fn choices_are_the_best_of_all(room in prop::collection::vec(0_i64..12, 1..7), pods in 1_i64..30) {
        let subsets = (0_u32..1 << room.len()).map(|bits| {
            let of = |domain: &usize| bits >> domain & 1 == 1;
            (0..room.len()).filter(of).collect::<Vec<_>>()
        });
        let sum = |subset: &Vec<usize>| subset.iter().map(|&d| room[d].min(pods)).sum::<i64>();
        let best = subsets.filter(|s| sum(s) >= pods).map(|s| (s.len(), sum(&s))).min();
        let shares = fewest(&room, pods);
        prop_assert_eq!(shares.is_some(), best.is_some());
        if let (Some(shares), Some((count, spare))) = (shares, best) {
            prop_assert_eq!(shares.iter().sum::<i64>(), pods);
            prop_assert!(shares.iter().zip(&room).all(|(share, room)| share <= room));
            let used: Vec<usize> = (0..room.len()).filter(|&d| shares[d] > 0).collect();
            prop_assert_eq!((used.len(), sum(&used)), (count, spare));
            let even = balanced(&room, pods).unwrap();
            prop_assert_eq!(even.iter().filter(|share| **share > 0).count(), count);
        }
        if let Some(shares) = level(&room, pods) {
            prop_assert_eq!(shares.iter().sum::<i64>(), pods);
            let top = shares.iter().max().unwrap();
            for (share, room) in shares.iter().zip(&room) {
                prop_assert!(share <= room && (share == room || share + 1 >= *top));
            }
        }
    }
}

#[test]
fn large_sums_take_the_roomiest_and_the_smallest_that_ends_it() {
    const M: i64 = 1_000_000;
    let room = [4 * M, 5 * M, M, 3 * M];
    assert_eq!(fewest(&room, 9 * M), Some(vec![4 * M, 5 * M, 0, 0]));
    assert_eq!(fewest(&room, 8 * M), Some(vec![0, 5 * M, 0, 3 * M]));
    assert_eq!(fewest(&room, 3 * M), Some(vec![0, 0, 0, 3 * M]));
    assert_eq!(fewest(&room, 12 * M + 1), Some(vec![4 * M, 5 * M, 1, 3 * M]));
    assert_eq!(fewest(&room, 13 * M + 1), None);
}
