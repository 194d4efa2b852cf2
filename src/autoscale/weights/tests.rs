use super::*;

#[test]
fn groups_that_do_not_go_together_are_counted_as_such() {
    // Racks of 8: two groups of each size from 4 to 8 need nine, one of them for both of 4.
    let sizes = [4, 4, 5, 5, 6, 6, 7, 7, 8, 8];
    let weights = Weights::new(&sizes, 8, 4);
    assert_eq!((weights.total(), weights.most(8)), (72, 8));
    // A rack of 16 holds three of them: 5, 5 and 6. One of 3 holds none.
    assert_eq!((weights.most(16), weights.most(3)), (24, 0));
    // In parts: the fifth of 5 is worth 8.
    assert_eq!(weights.in_parts(10), 16);
    // Small ones beside: 8 leaves nothing, 7 leaves one.
    let weights = Weights::new(&[7, 7, 2, 1], 8, 2);
    assert_eq!((weights.total(), weights.most(8)), (18, 8));
}

#[test]
fn no_packing_is_worth_more_than_its_domains_hold() {
    // All ways to deal groups to three domains.
    let (sizes, rooms) = ([5_i64, 4, 3, 2, 2, 1], [8_i64, 6, 3]);
    for whole in [6, 8] {
        for least in 1..=4 {
            let weights = Weights::new(&sizes, whole, least);
            let bound: i64 = rooms.iter().map(|room| weights.most(*room)).sum();
            let mut best = 0;
            for code in 0..4_usize.pow(sizes.len() as u32) {
                let place = |at: usize| code / 4_usize.pow(at as u32) % 4;
                let mut left = rooms;
                let mut dealt = Vec::new();
                for (at, size) in sizes.iter().enumerate().filter(|(at, _)| place(*at) < 3) {
                    left[place(at)] -= size;
                    dealt.push(*size);
                }
                if left.iter().all(|left| *left >= 0) {
                    best = best.max(Weights::new(&dealt, whole, least).total());
                }
            }
            assert!(best <= bound, "{best} in {bound}, by {weights:?}");
            assert!(rooms.iter().all(|room| weights.most(*room) <= weights.in_parts(*room)));
        }
    }
}
