use super::*;

#[test]
fn weights_are_those_stated_unless_all_are_zero() {
    let mut quota = ElasticQuota::new("q");
    quota.max = Amounts::from([("cpu", 8), ("memory", 4)]);
    assert_eq!(quota.weights(), &quota.max);
    quota.shared_weight = Amounts::from([("cpu", 0), ("memory", 0)]);
    assert_eq!(quota.weights(), &quota.max);
    quota.shared_weight = Amounts::from([("cpu", 3), ("memory", 0)]);
    assert_eq!(quota.weights(), &Amounts::from([("cpu", 3), ("memory", 0)]));
}
