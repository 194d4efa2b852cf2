use alloc::vec;
use alloc::vec::Vec;

use proptest::prelude::*;

use super::*;

/// A small instance: what one pod of each demand asks for and how many there are, what bins have
/// free, and how many pods may be left out.
fn packing(demands: &[([i64; 2], u32)], bins: &[[i64; 2]], slack: u32) -> Packing {
    let demand =
        |(ask, count): &([i64; 2], u32)| Demand { ask: ask.to_vec(), count: *count, quota: 0 };
    Packing {
        width: 2,
        demands: demands.iter().map(demand).collect(),
        free: bins.concat(),
        allow: vec![true; bins.len() * demands.len()],
        slack: vec![slack],
    }
}

/// Whether all pods but so many have a place, by trying every bin for every pod.
fn brute_force(left: &[[i64; 2]], free: &mut [[i64; 2]], slack: u32) -> bool {
    let Some((ask, rest)) = left.split_first() else { return true };
    if slack > 0 && brute_force(rest, free, slack - 1) {
        return true;
    }
    (0..free.len()).any(|bin| {
        if free[bin][0] < ask[0] || free[bin][1] < ask[1] {
            return false;
        }
        let before = free[bin];
        free[bin] = [before[0] - ask[0], before[1] - ask[1]];
        let fits = brute_force(rest, free, slack);
        free[bin] = before;
        fits
    })
}

/// Whether an answer puts no more pods anywhere than there are and than fit, and leaves out no more
/// than may be.
fn holds(packing: &Packing, answer: &[(usize, usize, u32)]) -> bool {
    let mut free = packing.free.clone();
    let mut left: Vec<i64> = packing.demands.iter().map(|own| i64::from(own.count)).collect();
    for &(demand, bin, count) in answer {
        left[demand] -= i64::from(count);
        for (dimension, ask) in packing.demands[demand].ask.iter().enumerate() {
            free[bin * packing.width + dimension] -= ask * i64::from(count);
        }
    }
    let out: i64 = left.iter().sum();
    free.iter().chain(&left).all(|rest| *rest >= 0) && out <= i64::from(packing.slack[0])
}

proptest! {
    #[test]
    fn packings_are_those_of_brute_force(
        demands in prop::collection::vec(([1_i64..5, 0_i64..4], 1_u32..4), 1..4),
        bins in prop::collection::vec([1_i64..8, 0_i64..8], 1..4),
        slack in 0_u32..2,
    ) {
        let packing = packing(&demands, &bins, slack);
        let pods = demands.iter().flat_map(|(ask, count)| vec![*ask; *count as usize]);
        let expected = brute_force(&pods.collect::<Vec<_>>(), &mut bins.clone(), slack);
        for answer in [packing.easily(), Some(packing.complete(&mut 1_000_000))] {
            match answer {
                Some(Packed::Fits(places)) => prop_assert!(expected && holds(&packing, &places)),
                Some(Packed::Never) => prop_assert!(!expected),
                Some(Packed::Unknown) => prop_assert!(false, "the steps ran out"),
                None => {}
            }
        }
    }
}

#[test]
fn quick_fills_find_what_is_not_tight() {
    let demands = [([3, 1], 4), ([1, 2], 3), ([2, 2], 2)];
    let roomy = packing(&demands, &[[9, 9], [9, 9], [9, 9]], 0);
    let Some(Packed::Fits(places)) = roomy.easily() else {
        panic!("there is room for twice as many")
    };
    assert!(holds(&roomy, &places));
    // One pod too many, unless it may be left out.
    let ones = |slack| packing(&[([1, 0], 5)], &[[3, 0], [1, 0]], slack);
    assert_eq!(ones(0).easily(), Some(Packed::Never));
    assert!(matches!(ones(1).easily(), Some(Packed::Fits(places)) if holds(&ones(1), &places)));
    assert_eq!(packing(&demands, &[[9, 2], [2, 9]], 0).easily(), Some(Packed::Never));
}

/// Weaker prunes and a worse order change no answer: they show in the steps.
#[test]
fn tight_packings_take_few_steps() {
    let mut state = 7_u64;
    let mut below = |most: u64| {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % most
    };
    let mut taken = 0;
    for _ in 0..400 {
        let bins: Vec<[i64; 2]> =
            (0..6).map(|_| [8 + below(9) as i64, 8 + below(9) as i64]).collect();
        let demands: Vec<([i64; 2], u32)> = (0..6)
            .map(|_| ([1 + below(7) as i64, 1 + below(7) as i64], 1 + below(4) as u32))
            .collect();
        let mut steps = 20_000;
        packing(&demands, &bins, 0).complete(&mut steps);
        taken += 20_000 - steps;
    }
    assert!(taken <= 5_844, "{taken}");
}
