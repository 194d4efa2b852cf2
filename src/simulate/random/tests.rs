use super::*;

#[test]
fn numbers_are_those_of_the_published_generator_and_stay_in_range() {
    // The first outputs for seed 1234567, as published with the reference code.
    let mut random = Random::new(1_234_567);
    assert_eq!(random.bits(), 6_457_827_717_110_365_317);
    assert_eq!(random.bits(), 3_203_168_211_198_807_973);
    assert_eq!((random.below(0), random.below(1)), (0, 0));
    assert!((0..1_000).all(|_| random.below(10) < 10));
    assert!((0..1_000).all(|_| (3..=5).contains(&random.within(3, 5))));
    assert_eq!(random.within(9, 2), 9);
    let _ = random.within(0, u64::MAX);
}
