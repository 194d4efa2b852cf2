use super::*;

#[test]
fn names_stand_in_the_order_of_the_kinds() {
    for (at, kind) in WorkloadKind::all().enumerate() {
        assert_eq!(kind as usize, at);
    }
}
