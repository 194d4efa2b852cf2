use alloc::vec;

use super::*;
use crate::autoscale::linear::Cover;

#[test]
fn sets_are_judged_in_order_and_the_first_that_suffices_is_found() {
    // Blocks of 1, 2 and 3 units at 2, 3 and 5; seven units at least, and none but sets whose
    // counts sum to an even number suffice.
    let program = Program {
        costs: vec![2, 3, 5],
        covers: vec![Cover { need: 7, each: vec![1, 2, 3] }],
        limits: vec![(vec![1, 1, 1], 9)],
    };
    let mut judged: Vec<(i128, Reverse<Vec<u32>>)> = Vec::new();
    let mut boxes = Boxes::new(&program, vec![0; 3], vec![9; 3]);
    let mut steps = 10_000;
    let found = boxes.run(&program, None, &mut steps, &mut |set, _| {
        let cost: i128 = set.iter().zip(&program.costs).map(|(n, c)| i128::from(*n) * c).sum();
        judged.push((cost, Reverse(set.to_vec())));
        Ok(if set.iter().sum::<u32>() % 2 == 0 { Verdict::Yes } else { Verdict::No })
    });
    // 11 is the least for seven units: (1, 3, 0) and (0, 2, 1) cost it; the first is even.
    assert_eq!(
        Boxes::new(&program, vec![0; 3], vec![9; 3]).settle(&program, &mut 500),
        Some(vec![1, 3, 0])
    );
    assert_eq!(found.unwrap(), Searched::First(vec![1, 3, 0]));
    assert!(judged.is_sorted());
}

#[test]
fn a_search_without_a_set_ends() {
    let program = Program {
        costs: vec![1],
        covers: vec![Cover { need: 2, each: vec![1] }],
        limits: vec![(vec![1], 4)],
    };
    let mut boxes = Boxes::new(&program, vec![0], vec![4]);
    let mut judged = 0;
    let found = boxes.run(&program, None, &mut 1_000, &mut |_, _| {
        judged += 1;
        Ok(Verdict::No)
    });
    assert_eq!((found.unwrap(), judged), (Searched::Nothing, 3));
    assert_eq!(boxes.least(), None);
}
