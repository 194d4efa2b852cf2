use super::*;

#[test]
fn absent_labels_meet_the_negative_operators() {
    for (operator, values, absent, a, empty) in [
        (Operator::In, &["a"][..], false, true, false),
        (Operator::NotIn, &["a"], true, false, true),
        (Operator::Exists, &[], false, true, true),
        (Operator::DoesNotExist, &[], true, false, false),
    ] {
        let requirement = Requirement::new("k", operator, values.iter().copied());
        assert_eq!(requirement.matches(None), absent);
        assert_eq!(requirement.matches(Some("a")), a);
        assert_eq!(requirement.matches(Some("")), empty);
    }
}

#[test]
fn numbers_compare_as_integers() {
    let gt = Requirement::new("k", Operator::Gt, ["5"]);
    assert!(gt.matches(Some("10")) && gt.matches(Some("+7")) && !gt.matches(Some("5")));
    assert!(!gt.matches(Some("x")) && !gt.matches(None));
    assert!(Requirement::new("k", Operator::Gt, ["-5"]).check().is_err());
    assert!(Requirement::new("k", Operator::Gt, ["5"]).check().is_ok());
}

#[test]
fn malformed_selectors_match_nothing() {
    for requirement in [
        Requirement::new("k", Operator::In, [""; 0]),
        Requirement::new("k", Operator::Exists, ["v"]),
        Requirement::new("", Operator::Exists, [""; 0]),
        Requirement::new("a/b/c", Operator::Exists, [""; 0]),
        Requirement::new("Upper/k", Operator::Exists, [""; 0]),
        Requirement::new("k", Operator::Unknown("Near".into()), [""; 0]),
        Requirement::new("k", Operator::NotIn, ["not valid!"]),
    ] {
        let selector =
            LabelSelector { match_expressions: alloc::vec![requirement], ..Default::default() };
        assert!(selector.check().is_err() && !selector.matches(&Labels::new()));
    }
}
