use super::*;

#[test]
fn what_nobody_has_takes_no_room_and_clones_are_independent() {
    let mut a = Sparse::default();
    a.set(9, None);
    assert!(a.chunks.is_empty() && a.get(9).is_none() && a.get_mut(9).is_none());
    a.set(700, Some(7));
    let mut b = a.clone();
    b.set(701, Some(8));
    b.set(700, None);
    *a.get_mut(700).unwrap() += 1;
    assert_eq!((a.get(700), a.get(701)), (Some(&8), None));
    assert_eq!((b.get(700), b.get(701), b.get(0)), (None, Some(&8), None));
    assert!(a.chunks[0].is_none());
}
