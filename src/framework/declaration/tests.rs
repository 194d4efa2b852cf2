use alloc::vec;

use super::*;

/// Every combination of what the predicates read.
fn all() -> Vec<Declaration> {
    let keys = || Reach::Domain(vec!["zone".into()]);
    let reaches = [Reach::Static, Reach::Node, keys(), Reach::Cluster];
    let mut all = Vec::new();
    for reach in reaches {
        for bits in 0..128_u32 {
            let has = |bit: u32| bits >> bit & 1 == 1;
            let mut declaration = Declaration::with_reach(reach.clone());
            declaration.monotone = has(0);
            declaration.reads_group = has(1);
            declaration.reads_time = has(2);
            declaration.reads_nodes = has(3);
            declaration.room = has(4);
            declaration.reads_feasible = has(6);
            if has(5) {
                let pods = CountedPods::Repelling;
                declaration = declaration.counting(CounterSpec { key: "zone".into(), pods });
            }
            all.push(declaration);
        }
    }
    all
}

#[test]
fn each_predicate_is_its_truth_table() {
    for declaration in all() {
        let d = &declaration;
        let (fixed, node) = (d.reach == Reach::Static, d.reach == Reach::Node);
        let local = (fixed || node) && d.counters.is_empty() && !d.reads_feasible;
        let counts = !d.counters.is_empty();
        assert_eq!(d.is_pod_independent(), fixed && !counts);
        assert_eq!(d.is_pod_local(), local);
        assert_eq!(d.is_node_local(), local && !d.reads_nodes);
        assert_eq!(d.is_cacheable(), !(d.reads_group || d.reads_time));
        assert_eq!(d.is_counting_bound(), fixed && !counts || local && d.monotone);
    }
}

/// The definitions that were in eight places before, each by the predicates.
#[test]
fn the_predicates_say_what_was_said_before() {
    // Scores that read feasible nodes are prepared apart.
    for declaration in all().into_iter().filter(|declaration| !declaration.reads_feasible) {
        let d = &declaration;
        let near = matches!(d.reach, Reach::Static | Reach::Node);
        let counts = !d.counters.is_empty();
        // Preparing tables: may answers be kept, and once a node?
        let kept = !d.reads_group && !d.reads_time;
        let before = kept.then_some(near && !counts);
        assert_eq!(d.is_cacheable().then(|| d.is_pod_local()), before);
        // Counting in a search, and in the verifier of its certificates.
        let before = match d.reach {
            Reach::Static => !counts,
            Reach::Node => d.monotone && !d.room && !counts,
            _ => false,
        };
        let by_amounts = d.room && !d.is_pod_independent();
        assert_eq!(d.is_counting_bound() && !by_amounts, before);
        // A bound on room that holds until a node changes for the better.
        let before = near && d.monotone && kept && !d.reads_nodes && !counts;
        assert_eq!(d.is_node_local() && d.monotone && d.is_cacheable(), before);
        // Plugins that read beyond the node, with and without regard to nodes and counts: where the
        // old predicates forgot counters, the new ones read further.
        let far = !near || d.reads_nodes;
        assert_eq!(!d.is_node_local(), far || counts);
        let beyond = matches!(d.reach, Reach::Domain(_) | Reach::Cluster);
        assert_eq!(!d.is_pod_local(), beyond || counts);
    }
}

#[test]
fn the_constructors_have_the_reach_they_name() {
    assert!(Declaration::constant().is_pod_independent());
    assert!(Declaration::constant().is_counting_bound());
    for declaration in [Declaration::node(), Declaration::usage()] {
        assert!(declaration.is_node_local() && !declaration.is_pod_independent());
        assert!(!declaration.is_counting_bound());
        assert!(declaration.monotone().is_counting_bound());
    }
    let domain = Declaration::domain(["zone"]).monotone();
    for declaration in [domain, Declaration::cluster().monotone()] {
        assert!(!declaration.is_pod_local() && !declaration.is_counting_bound());
    }
    assert!(Declaration::constant().reading_nodes().is_pod_local());
    assert!(!Declaration::constant().reading_nodes().is_node_local());
}
