//! Elastic quotas over random changes: sums and runtimes against a tree made anew.

use phalanx::model::Amounts;
use phalanx::quota::{ElasticQuota, ElasticQuotas, QuotaSums, ROOT_QUOTA};

use crate::support::dice::Dice;

const RESOURCES: [&str; 2] = ["cpu", "gpu"];
const PARENTS: [&str; 3] = ["p0", "p1", "p2"];
const LEAVES: [&str; 6] = ["q0", "q1", "q2", "q3", "q4", "q5"];

fn amounts(dice: &mut Dice, sides: u64) -> Amounts {
    let mut amounts = Amounts::new();
    for resource in RESOURCES {
        amounts.set(resource, dice.roll(sides) as i64);
    }
    amounts
}

fn quota(dice: &mut Dice) -> ElasticQuota {
    let is_parent = dice.one_in(3);
    let mut quota = ElasticQuota::new(dice.of(if is_parent { &PARENTS[..] } else { &LEAVES[..] }));
    quota.is_parent = is_parent;
    if !is_parent && !dice.one_in(4) {
        quota.parent = dice.of(&PARENTS).into();
    }
    quota.allow_lent = !dice.one_in(3);
    quota.min = amounts(dice, 10);
    for resource in RESOURCES {
        quota.max.set(resource, quota.min.of(resource) + 1 + dice.roll(20) as i64);
        quota.shared_weight.set(resource, 1 + dice.roll(5) as i64);
    }
    quota
}

/// Sums that hold whenever; what a refresh leaves behind does not.
fn kept(sums: &QuotaSums) -> QuotaSums {
    let mut sums = sums.clone();
    (sums.scaled_min, sums.runtime) = (Amounts::new(), Amounts::new());
    sums
}

/// Amounts that are there, without zeros.
fn plain(amounts: &Amounts) -> Vec<(String, i64)> {
    let there = amounts.iter().filter(|(_, amount)| *amount != 0);
    let mut list: Vec<_> = there.map(|(name, amount)| (name.to_owned(), amount)).collect();
    list.sort();
    list
}

fn anew(quotas: &ElasticQuotas, total: &Amounts) -> ElasticQuotas {
    let mut other = ElasticQuotas::new();
    other.set_total(total.clone());
    for name in quotas.names() {
        other.put(quotas.quota(name).expect("named").clone());
    }
    for name in quotas.names() {
        let sums = quotas.sums(name).expect("named");
        other.add_request(name, &sums.self_request, &sums.self_non_preemptible_request);
        other.add_used(name, &sums.self_used, &sums.self_non_preemptible_used);
    }
    other
}

fn same(a: &QuotaSums, b: &QuotaSums) -> bool {
    let lists = |sums: &QuotaSums| {
        let sums = kept(sums);
        [
            sums.child_request,
            sums.request,
            sums.used,
            sums.non_preemptible_request,
            sums.non_preemptible_used,
        ]
        .map(|amounts| plain(&amounts))
    };
    lists(a) == lists(b)
}

#[test]
fn what_was_added_up_is_what_adds_up() {
    for seed in 0..20 {
        let dice = &mut Dice(seed);
        let mut quotas = ElasticQuotas::new();
        let total = amounts(dice, 120);
        quotas.set_total(total.clone());
        for step in 0..80 {
            let any = if dice.one_in(3) { &PARENTS[..] } else { &LEAVES[..] };
            let name = dice.of(any);
            match dice.roll(8) {
                0..=2 => quotas.put(quota(dice)),
                3 => drop(quotas.remove(name)),
                4..=5 => {
                    let (delta, held) = (amounts(dice, 12), amounts(dice, 3));
                    quotas.add_request(dice.of(&LEAVES), &delta, &held);
                }
                _ => {
                    let (delta, held) = (amounts(dice, 6), amounts(dice, 2));
                    quotas.add_used(dice.of(&LEAVES), &delta, &held);
                }
            }
            let other = anew(&quotas, &total);
            for name in quotas.names() {
                let both = [&quotas, &other].map(|all| all.sums(name).expect("named"));
                assert!(same(both[0], both[1]), "{seed} {step} {name}: {both:#?}");
                let runtimes = [&quotas, &other].map(|all| plain(&all.runtime(name)));
                assert_eq!(runtimes[0], runtimes[1], "{seed} {step} {name}");
            }
            divided(&quotas);
        }
    }
}

/// The total is divided: minima first, no more than is requested, and nothing is left over that is
/// requested.
fn divided(quotas: &ElasticQuotas) {
    let total = quotas.shared_total();
    for resource in RESOURCES {
        let (mut given, mut requested, mut guaranteed) = (0, 0, 0);
        for quota in quotas.children(ROOT_QUOTA) {
            let request = quotas.limited_request(&quota.name).of(resource);
            let runtime = quotas.runtime(&quota.name).of(resource);
            let min = quota.min.of(resource).min(request);
            assert!((min..=request).contains(&runtime), "{}: {resource} {runtime}", quota.name);
            (given, requested) = (given + runtime, requested + request);
            guaranteed += min;
        }
        assert_eq!(given, requested.min(total.of(resource)).max(guaranteed), "{resource}");
    }
}
