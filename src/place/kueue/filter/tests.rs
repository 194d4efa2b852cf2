use super::*;
use alloc::vec;
use alloc::vec::Vec;

fn expression(operator: KueueOperator, values: &[&str]) -> Expression {
    let values: Vec<String> = values.iter().map(|&value| value.into()).collect();
    Expression { key: "k".into(), operator, values }
}

#[test]
fn operators_follow_kubernetes() {
    let labels = BTreeMap::from([("k".into(), "5".into())]);
    let none = BTreeMap::new();
    for (operator, values, with, without) in [
        (KueueOperator::In, &["5", "6"][..], true, false),
        (KueueOperator::In, &["6"], false, false),
        (KueueOperator::NotIn, &["6"], true, true),
        (KueueOperator::NotIn, &["5"], false, true),
        (KueueOperator::Exists, &[], true, false),
        (KueueOperator::DoesNotExist, &[], false, true),
        (KueueOperator::Gt, &["4"], true, false),
        (KueueOperator::Gt, &["5"], false, false),
        (KueueOperator::Lt, &["6"], true, false),
    ] {
        let one = expression(operator, values);
        assert!(well_formed(&one));
        assert_eq!(matches(&one, &labels), with, "{one:?}");
        assert_eq!(matches(&one, &none), without, "{one:?}");
    }
    assert!(!matches_term(&[], &labels));
    for broken in [
        expression(KueueOperator::In, &[]),
        expression(KueueOperator::Exists, &["5"]),
        expression(KueueOperator::Gt, &["x"]),
        expression(KueueOperator::Lt, &["1", "2"]),
    ] {
        assert!(!well_formed(&broken), "{broken:?}");
        let mut pod_set = KueuePodSet::default();
        pod_set.affinity.required = vec![vec![broken]];
        assert!(Filter::new(&pod_set, &KueueFlavor::default(), KueueGates::default()).is_err());
    }
}

#[test]
fn tolerations_follow_kubernetes() {
    let taint = KueueTaint { key: "k".into(), value: "5".into(), effect: "NoSchedule".into() };
    let toleration = |key: &str, operator, value: &str, effect: Option<&str>| KueueToleration {
        key: key.into(),
        operator,
        value: value.into(),
        effect: effect.map(String::from),
    };
    for (one, expected) in [
        (toleration("k", KueueTolerationOperator::Equal, "5", None), true),
        (toleration("k", KueueTolerationOperator::Equal, "6", None), false),
        (toleration("", KueueTolerationOperator::Exists, "", Some("NoSchedule")), true),
        (toleration("", KueueTolerationOperator::Exists, "", Some("NoExecute")), false),
        (toleration("x", KueueTolerationOperator::Exists, "", None), false),
        (toleration("k", KueueTolerationOperator::Gt, "4", None), true),
        (toleration("k", KueueTolerationOperator::Lt, "4", None), false),
        (toleration("k", KueueTolerationOperator::Lt, "x", None), false),
    ] {
        assert_eq!(tolerates(&one, &taint), expected, "{one:?}");
    }
    assert_eq!(taint_text(&taint), "k=5:NoSchedule");
    assert_eq!(taint_text(&KueueTaint { value: String::new(), ..taint }), "k:NoSchedule");
}
