use super::*;

#[test]
fn estimates_are_upper_bounds() {
    let mut random = Random::new(1);
    for secs in [0, 1, 59, 60, 61, 5_000, 604_800, 604_801, 1 << 40] {
        let run = Duration::from_secs(secs);
        assert_eq!(Estimates::Exact.of(run, &mut random), run);
        for _ in 0..50 {
            let over = Estimates::Over { most: 3_000 }.of(run, &mut random);
            assert!(over >= run && over <= run * 3);
            let modal = Estimates::Modal.of(run, &mut random);
            assert!(modal >= run && (modal == run || LIMITS.contains(&modal.as_secs())));
        }
    }
}
