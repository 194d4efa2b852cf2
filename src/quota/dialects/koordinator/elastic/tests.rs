//! Sums of elastic quotas.

use super::*;

fn amounts(cpu: i64) -> Amounts {
    let mut amounts = Amounts::new();
    amounts.set("cpu", cpu);
    amounts
}

fn quota(name: &str, parent: &str, min: i64, max: i64) -> ElasticQuota {
    let mut quota = ElasticQuota::new(name);
    quota.parent = parent.into();
    (quota.min, quota.max) = (amounts(min), amounts(max));
    quota
}

#[test]
fn requests_go_up_within_limits_and_quotas_may_move() {
    let mut quotas = ElasticQuotas::new();
    // The child is stated before its parent.
    quotas.put(quota("leaf", "inner", 2, 6));
    quotas.add_request("leaf", &amounts(10), &amounts(3));
    quotas.add_used("leaf", &amounts(4), &amounts(1));
    for inner in ["inner", "other"] {
        quotas.put(quota(inner, ROOT_QUOTA, 4, 5));
    }
    let sums = |quotas: &ElasticQuotas, name| quotas.sums(name).cloned().unwrap_or_default();
    assert_eq!(sums(&quotas, "inner").request, amounts(6));
    assert_eq!(sums(&quotas, ROOT_QUOTA).request.of("cpu"), 5);
    assert_eq!(sums(&quotas, "inner").non_preemptible_used, amounts(1));
    quotas.put(quota("leaf", "other", 2, 3));
    assert_eq!(sums(&quotas, "inner").request.of("cpu"), 0);
    assert_eq!(sums(&quotas, "other").request, amounts(3));
    assert_eq!(sums(&quotas, ROOT_QUOTA).used, amounts(4));
    quotas.remove("leaf");
    assert_eq!(sums(&quotas, ROOT_QUOTA).used, amounts(0));
    assert_eq!(sums(&quotas, "other").request, amounts(0));
}

#[test]
fn a_quota_that_does_not_lend_keeps_its_minimum() {
    let mut quotas = ElasticQuotas::new();
    quotas.add_total(&amounts(10));
    let mut own = quota("own", ROOT_QUOTA, 4, 10);
    own.allow_lent = false;
    quotas.put(own);
    quotas.put(quota("other", ROOT_QUOTA, 2, 10));
    quotas.add_request("other", &amounts(20), &Amounts::new());
    assert_eq!(quotas.refresh("own"), amounts(4));
    assert_eq!(quotas.refresh("other"), amounts(6));
    quotas.add_used(SYSTEM_QUOTA, &amounts(3), &Amounts::new());
    assert_eq!(quotas.refresh("other"), amounts(3));
    quotas.put(quota(DEFAULT_QUOTA, "", 0, 5));
    quotas.add_request(DEFAULT_QUOTA, &amounts(9), &Amounts::new());
    assert_eq!((quotas.refresh(DEFAULT_QUOTA), quotas.refresh("other")), (amounts(5), amounts(3)));
    assert_eq!(quotas.refresh("missing"), Amounts::new());
}

#[test]
fn scaled_minima_are_those_of_the_last_refresh() {
    let mut quotas = ElasticQuotas::new();
    quotas.set_scale_min(true);
    for name in ["a", "b", "c"] {
        quotas.put(quota(name, ROOT_QUOTA, 10, 30));
        quotas.add_request(name, &amounts(20), &Amounts::new());
    }
    quotas.add_total(&amounts(20));
    assert_eq!(quotas.refresh("a"), amounts(6));
    // `b` and `c` have not been asked.
    assert_eq!(quotas.sums("b").map(|sums| sums.scaled_min.clone()), Some(amounts(10)));
    assert_eq!(["a", "b", "c"].map(|name| quotas.runtime(name).of("cpu")), [7, 7, 6]);
    let more = quotas.runtime_with("a", &amounts(30));
    quotas.add_request("a", &amounts(30), &Amounts::new());
    assert_eq!(quotas.runtime("a"), more);
    quotas.add_request("a", &amounts(-30), &Amounts::new());
    for name in ["b", "c"] {
        quotas.refresh(name);
    }
    assert_eq!(quotas.refresh("a"), quotas.runtime("a"));
}

#[test]
fn circles_of_parents_have_nothing() {
    let mut quotas = ElasticQuotas::new();
    quotas.add_total(&amounts(20));
    quotas.put(quota("a", "b", 1, 5));
    quotas.put(quota("b", "a", 1, 5));
    quotas.add_request("a", &amounts(3), &Amounts::new());
    assert_eq!(quotas.refresh("a"), Amounts::new());
    assert_eq!(quotas.runtime("b"), Amounts::new());
}
