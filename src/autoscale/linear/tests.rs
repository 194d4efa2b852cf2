use super::*;

fn cover(need: i64, each: &[i64]) -> Cover {
    Cover { need, each: each.to_vec() }
}

/// The least cost over all counts in a box, by trying them.
fn brute(program: &Program, low: &[u32], high: &[u32]) -> Option<i128> {
    let mut best = None;
    let mut at = low.to_vec();
    loop {
        let sum = |weights: &[i64]| -> i64 {
            weights.iter().zip(&at).map(|(w, n)| w * i64::from(*n)).sum()
        };
        if program.covers.iter().all(|cover| sum(&cover.each) >= cover.need)
            && program.limits.iter().all(|(weights, most)| sum(weights) <= *most)
        {
            let cost = program.costs.iter().zip(&at).map(|(c, n)| c * i128::from(*n)).sum();
            best = Some(best.map_or(cost, |best: i128| best.min(cost)));
        }
        let mut place = 0;
        loop {
            if place == at.len() {
                return best;
            }
            if at[place] < high[place] {
                at[place] += 1;
                break;
            }
            at[place] = low[place];
            place += 1;
        }
    }
}

#[test]
fn the_bound_is_never_above_the_least_and_tight_where_parts_do_not_matter() {
    let mut seed = 7_u64;
    let mut dice = |sides: u64| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) % sides
    };
    let (mut tight, mut infeasible) = (0, 0);
    for _ in 0..2_000 {
        let variants = 1 + dice(3) as usize;
        let mut row = |most: u64| (0..variants).map(|_| dice(most) as i64).collect::<Vec<_>>();
        let covers = (0..3).map(|_| cover(0, &row(5))).collect();
        let costs = row(9).into_iter().map(|cost| i128::from(cost) + 1).collect();
        let mut program = Program { costs, covers, limits: vec![(row(3), 0)] };
        for cover in &mut program.covers {
            cover.need = dice(6) as i64;
        }
        program.limits[0].1 = dice(24) as i64;
        let low: Vec<u32> = (0..variants).map(|_| dice(2) as u32).collect();
        let high: Vec<u32> = low.iter().map(|low| low + dice(5) as u32).collect();
        let least = brute(&program, &low, &high);
        match (program.bound(&low, &high), least) {
            (Some(bound), Some(least)) => {
                assert!(bound.cost <= least, "{program:?} {low:?} {high:?}");
                tight += usize::from(bound.cost == least);
            }
            (None, Some(least)) => {
                panic!("{least} was ruled out: {program:?} {low:?} {high:?}")
            }
            (None, None) => infeasible += 1,
            (Some(_), None) => {}
        }
    }
    assert!(tight > 500 && infeasible > 300, "{tight} tight, {infeasible} without a set");
}

#[test]
fn large_amounts_are_scaled_in_favour_of_the_program() {
    let big = cover(10 << 40, &[3 << 40, (3 << 40) + 1]).scaled();
    assert!(big.each.iter().all(|each| *each <= MOST));
    let program = Program { costs: vec![5, 4], covers: vec![big], limits: vec![(vec![1, 1], 100)] };
    let bound = program.bound(&[0, 0], &[50, 50]).unwrap();
    // Ten thirds of the cheaper one, a little less for rounding.
    assert_eq!(bound.cost, 14);
}
