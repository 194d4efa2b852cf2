use super::*;

#[test]
fn a_pass_runs_once_whatever_the_level() {
    at_each_level(|| {
        let mut runs = 0;
        let seven = vectorized(
            #[inline(always)]
            || {
                runs += 1;
                7
            },
        );
        assert_eq!((seven, runs), (7, 1));
    });
}
