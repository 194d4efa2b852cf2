use super::*;

#[test]
fn clones_are_independent() {
    let mut a = Chunked::default();
    for i in 0..1_000_usize {
        a.push(i);
    }
    let mut b = a.clone();
    *b.get_mut(300) = 7;
    assert_eq!((a[300], b[300], a.len()), (300, 7, 1_000));
    assert_eq!((b.len(), a.iter().sum::<usize>()), (1_000, 499_500));
}
