use super::*;
use alloc::vec::Vec;

fn came(row: u32) -> Change {
    Change::Pods { row, shape: ShapeId(0), added: true, deleting: false }
}

#[test]
fn a_clone_continues_its_original_but_not_its_siblings() {
    let mut a = Journal::default();
    a.record(came(1));
    let seen = a.now();
    let mut b = a.clone();
    assert_eq!(b.now(), a.now());
    a.record(came(2));
    b.record(came(3));
    assert_eq!(b.since(seen).unwrap().collect::<Vec<_>>(), [came(3)]);
    assert_eq!(a.since(seen).unwrap().collect::<Vec<_>>(), [came(2)]);
    assert!(a.since(b.now()).is_none() && b.since(a.now()).is_none());
    for row in 0..REMEMBERED as u32 - 1 {
        let then = a.now();
        a.record(came(row));
        let node = Change::Node { row, change: NodeChange::TAINTS };
        a.record(node);
        assert_eq!(a.since(then).unwrap().collect::<Vec<_>>(), [came(row), node]);
        assert_eq!(a.since(a.now()).unwrap().count(), 0);
    }
    assert!(a.since(seen).is_none());
    assert_eq!(a.chunks.len() * CHUNK, REMEMBERED);
    assert!(a.tail.len() <= CHUNK);
    assert!(size_of::<Change>() <= 16);
}

#[test]
fn more_changes_are_remembered_of_more_rows() {
    let mut journal = Journal::default();
    for (rows, most) in [(1_000, 4_096), (200_000, 6_400), (1_000_000, 31_488), (9, 31_488)] {
        journal.suit(rows);
        assert_eq!(journal.remembered(), most);
        let then = journal.now();
        for row in 0..most as u32 {
            journal.record(came(row));
        }
        assert_eq!(journal.since(then).unwrap().count(), most);
        journal.record(came(0));
        assert!(journal.since(then).is_none());
    }
}
