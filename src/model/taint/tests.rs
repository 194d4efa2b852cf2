use super::*;

#[test]
fn the_empty_toleration_consents_to_empty_values_only() {
    let any = Toleration::default();
    assert!(any.tolerates(&Taint::new("k", "", Effect::NoSchedule)));
    assert!(!any.tolerates(&Taint::new("k", "v", Effect::NoSchedule)));
    let gt = Toleration { operator: TolerationOperator::Unknown("Gt".into()), ..any };
    assert!(!gt.tolerates(&Taint::new("k", "", Effect::NoSchedule)));
}
