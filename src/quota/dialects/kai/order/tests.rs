use super::*;

#[test]
fn pod_sets_below_their_minimum_come_first_then_those_least_over_it() {
    let set = |name, active, min_available| PodSetState { name, active, min_available };
    // One and a half times the minimum, a third over it, and just as much under another name.
    let (half, third, other) = (set("a", 3, 2), set("b", 4, 3), set("c", 8, 6));
    assert_eq!(pod_set_order(&third, &half), Ordering::Less);
    assert_eq!(pod_set_order(&half, &third), Ordering::Greater);
    assert_eq!(pod_set_order(&third, &other), Ordering::Less);
    // Groups below the minimum by name alone.
    let (empty, nearly) = (set("y", 0, 9), set("x", 8, 9));
    assert_eq!(pod_set_order(&empty, &half), Ordering::Less);
    assert_eq!(pod_set_order(&half, &nearly), Ordering::Greater);
    assert_eq!(pod_set_order(&empty, &nearly), Ordering::Greater);
    // Without a minimum, as with one of 1.
    assert_eq!(pod_set_order(&set("e", 2, 0), &set("f", 2, 1)), Ordering::Less);
    assert_eq!(pod_set_order(&set("e", 3, 0), &set("f", 2, 1)), Ordering::Greater);
}
