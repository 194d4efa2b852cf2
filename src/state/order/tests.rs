use super::*;

#[test]
fn sorted_input_seldom_takes_fresh_ranks() {
    for ascending in [true, false] {
        let (mut end, mut fresh) = (None, 0);
        for rows in 1..2_000_000 {
            let next = if ascending { rank_between(end, None) } else { rank_between(None, end) };
            end = next.or_else(|| {
                fresh += 1;
                let mut ranks = fresh_ranks(rows);
                if ascending { ranks.last() } else { ranks.next() }
            });
        }
        assert!(fresh < 8, "{fresh}");
    }
}

#[test]
fn fresh_ranks_ascend() {
    for count in [1, 2, 1_000, 1_000_000] {
        assert!(fresh_ranks(count).is_sorted_by(|a, b| a < b));
        assert_eq!(fresh_ranks(count).count(), count);
    }
}

#[test]
fn a_rank_lies_between_its_neighbours_or_there_is_none() {
    let ends = [0, 1, 2, 3, 5_000, 1 << 31, u32::MAX - 1, u32::MAX];
    for before in ends.map(Some).into_iter().chain([None]) {
        for after in ends.map(Some).into_iter().chain([None]) {
            let room = match (before, after) {
                (Some(before), Some(after)) => before < after && after - before > 1,
                (Some(before), None) => before < u32::MAX,
                (None, Some(after)) => after > 0,
                (None, None) => true,
            };
            let rank = rank_between(before, after);
            assert_eq!(rank.is_some(), room, "{before:?} {after:?}");
            if let Some(rank) = rank {
                assert!(before.is_none_or(|before| before < rank));
                assert!(after.is_none_or(|after| rank < after));
            }
        }
    }
}

#[test]
fn rows_stay_in_order_whatever_the_order_of_insertion() {
    for stride in [1_u32, 1_009, 2_999] {
        let mut order = NodeOrder::default();
        for i in 0..3_000_u32 {
            let row = i * stride % 3_000;
            let found = order.insert(row, |other| other.cmp(&row));
            assert!(found.before.is_none_or(|before| before < row));
            assert!(found.after.is_none_or(|after| after > row));
        }
        for row in (0..3_000).step_by(3) {
            order.remove(|other| other.cmp(&row));
        }
        let left: Vec<u32> = (0..3_000).filter(|row| row % 3 != 0).collect();
        assert_eq!(order.iter().collect::<Vec<_>>(), left);
    }
}
