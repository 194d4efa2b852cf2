use super::*;

fn count(existing: u64, running: u64, done: u64) -> MemberCounts {
    MemberCounts { existing, running, pending: existing - running, done }
}

/// Adds members that have finished, so many to each leaf.
fn finish(queued: &mut QueuedGroup, leaves: &[usize]) {
    for (leaf, count) in leaves.iter().enumerate() {
        for _ in 0..*count {
            let seq = queued.members.len() as u64;
            queued.members.insert(seq, Member::new(leaf, Pod::new()));
            queued.members.set_state(seq, MemberState::Done);
        }
    }
}

#[test]
fn a_tree_counts_as_soon_as_enough_roles_do() {
    let role = |name: &str, min| PodGroup::gang(name, min);
    let root = PodGroup::gang("job", 2).group(role("a", 2)).group(role("b", 3)).group(role("c", 1));
    let queued =
        QueuedGroup::new(root, alloc::vec!["a".into(), "b".into(), "c".into()], Time::ZERO);
    let short = queued.gate(&[count(2, 0, 0), count(2, 0, 0), count(0, 0, 0)]);
    let Some(Gate::Members { group, have, need }) = short else { panic!("{short:?}") };
    assert_eq!((group.as_str(), have, need), ("default/b", 2, 3));
    assert!(queued.gate(&[count(2, 0, 0), count(2, 0, 0), count(1, 0, 0)]).is_none());
    assert!(queued.gate(&[count(2, 0, 0), count(2, 0, 1), count(0, 0, 0)]).is_none());
    assert!(!queued.has_minimum(&[count(2, 2, 0), count(3, 2, 0), count(0, 0, 0)]));
    assert!(queued.has_minimum(&[count(2, 2, 0), count(3, 2, 0), count(0, 0, 1)]));
}

#[test]
fn a_minimum_of_pods_beside_one_of_groups_gates_and_shrinks() {
    let mut root =
        PodGroup::gang("job", 1).group(PodGroup::gang("a", 1)).group(PodGroup::gang("b", 1));
    root.min_pods = Some(4);
    let mut queued = QueuedGroup::new(root, alloc::vec!["a".into(), "b".into()], Time::ZERO);
    let short = queued.gate(&[count(2, 0, 0), count(1, 0, 0)]);
    let Some(Gate::Members { group, have, need }) = short else { panic!("{short:?}") };
    assert_eq!((group.as_str(), have, need), ("default/job", 3, 4));
    assert!(queued.gate(&[count(2, 0, 1), count(1, 0, 0)]).is_none());
    assert!(!queued.has_minimum(&[count(3, 2, 0), count(1, 1, 0)]));
    assert!(queued.has_minimum(&[count(3, 3, 0), count(1, 0, 1)]));
    let pod = Pod::new().name("a-0");
    queued.members.insert(0, Member::new(0, pod));
    finish(&mut queued, &[2, 1]);
    assert_eq!(queued.pending_tree().min_pods, Some(1));
    finish(&mut queued, &[1, 0]);
    assert_eq!(queued.pending_tree().min_pods, None);
}

#[test]
fn finished_members_are_taken_off_the_minimum_and_empty_leaves_stand() {
    let root = PodGroup::gang("job", 2).group(PodGroup::gang("a", 2)).group(PodGroup::gang("b", 2));
    let mut queued = QueuedGroup::new(root, alloc::vec!["a".into(), "b".into()], Time::ZERO);
    let pod = Pod::new().name("b-0");
    queued.members.insert(0, Member::new(1, pod));
    finish(&mut queued, &[1, 0]);
    let tree = queued.pending_tree();
    assert_eq!(tree.groups[0].pods[0].scheduling_gates.len(), 1);
    assert!(tree.check().is_ok());
    finish(&mut queued, &[1, 1]);
    let tree = queued.pending_tree();
    assert_eq!(tree.groups.len(), 1);
    assert_eq!((tree.policy.minimum(), tree.groups[0].policy.minimum()), (1, 1));
}
