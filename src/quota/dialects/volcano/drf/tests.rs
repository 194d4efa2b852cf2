use super::*;

fn job(name: &str, path: &str, weights: &str, cpu: f64, asks: f64) -> VolcanoJobStanding {
    VolcanoJobStanding {
        name: name.into(),
        allocated: Resources::new(cpu, 0.0),
        request: Resources::new(asks, 0.0),
        path: path.into(),
        weights: weights.into(),
    }
}

#[test]
fn the_smaller_share_over_weight_goes_first_from_the_root_down() {
    let mut shares = HierarchicalShares::new(Resources::new(10_000.0, 10_000.0));
    shares.set(&job("j1", "root/sci", "1/2", 4000.0, 9000.0));
    shares.set(&job("j2", "root/eng/dev", "1/1/1", 3000.0, 9000.0));
    assert_eq!(shares.compare("root/sci", "root/eng/dev"), Ordering::Less, "0.4/2 before 0.3");
    assert_eq!(shares.compare("root/eng/dev", "root/sci"), Ordering::Greater);
    shares.set(&job("j2", "root/eng/dev", "1/1/1", 1000.0, 9000.0));
    assert_eq!(shares.compare("root/eng/dev", "root/sci"), Ordering::Less);
}

#[test]
fn those_that_are_saturated_go_last() {
    let mut shares = HierarchicalShares::new(Resources::new(10_000.0, 10_000.0));
    shares.set(&job("j1", "root/a", "1/1", 1000.0, 1000.0));
    shares.set(&job("j2", "root/b", "1/1", 5000.0, 9000.0));
    assert_eq!(shares.compare("root/b", "root/a"), Ordering::Less, "a has all that it asks for");
}

#[test]
fn a_child_that_is_ahead_counts_with_the_share_of_the_one_that_is_behind() {
    let mut shares = HierarchicalShares::new(Resources::new(10_000.0, 10_000.0));
    shares.set(&job("j1", "root/eng/dev", "1/1/1", 6000.0, 9000.0));
    shares.set(&job("j2", "root/eng/prod", "1/1/1", 1000.0, 9000.0));
    shares.set(&job("j3", "root/sci", "1/1", 2500.0, 9000.0));
    // 0.1 and 0.1 in place of 0.6 and 0.1: less than 0.25.
    assert_eq!(shares.compare("root/eng/dev", "root/sci"), Ordering::Less);
}

#[test]
fn equal_shares_let_a_victim_go() {
    assert!(may_take(0.5, 0.5) && may_take(0.4, 0.5) && may_take(0.500_000_5, 0.5));
    assert!(!may_take(0.6, 0.5));
}
