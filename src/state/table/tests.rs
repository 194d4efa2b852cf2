use core::cell::Cell;
use std::collections::BTreeMap;
use std::format;

use proptest::prelude::*;

use super::*;
use crate::Cluster;
use crate::model::{Node, Pod};

std::thread_local! {
    static TOUCHED: Cell<usize> = const { Cell::new(0) };
}

pub(super) fn touch(cells: usize) {
    TOUCHED.set(TOUCHED.get() + cells);
}

proptest! {
    #[test]
    fn a_table_is_a_plain_map(
        steps in prop::collection::vec((0_u8..8, 0_usize..40, 0_usize..9, -2_i64..3), 1..200),
    ) {
        let mut table = Table::default();
        let mut plain = BTreeMap::<(usize, usize), i64>::new();
        table.push_row(2, 0);
        let mut before = (table.clone(), plain.clone());
        for (step, column, at, amount) in steps {
            let at = at % table.rows;
            match step {
                0 => table.push_row(column, 0),
                1 => {
                    table.clear_row(at);
                    plain.retain(|(_, row), _| *row != at);
                }
                2 => before = (table.clone(), plain.clone()),
                _ => {
                    let sum = plain.entry((column, at)).or_default();
                    *sum += amount;
                    prop_assert_eq!(table.add(column, at, amount), *sum);
                }
            }
        }
        for (table, plain) in [(&table, &plain), (&before.0, &before.1)] {
            let of = |column, at| plain.get(&(column, at)).copied().unwrap_or(0);
            for column in 0..45 {
                let expected: Vec<i64> = (0..table.rows).map(|at| of(column, at)).collect();
                let got: Vec<i64> = (0..table.rows).map(|at| table.get(column, at)).collect();
                prop_assert_eq!(&got, &expected);
                let is_zero = expected.iter().all(|amount| *amount == 0);
                match table.column(column) {
                    Some(amounts) => prop_assert_eq!(amounts, &expected[..]),
                    None => prop_assert!(is_zero && (column >= DENSE || column >= table.columns)),
                }
                prop_assert!(is_zero || column < table.end());
                // A rare column is stored exactly if it has an amount.
                let stored = table.rare.iter().any(|(own, _)| *own == column);
                prop_assert_eq!(stored, column >= DENSE && !is_zero);
            }
            for at in 0..table.rows {
                let row: Vec<_> = table.row(at).collect();
                let expected: Vec<_> = (0..45).map(|column| (column, of(column, at))).collect();
                prop_assert_eq!(row, expected.into_iter().filter(|(_, a)| *a != 0).collect::<Vec<_>>());
            }
        }
    }
}

/// The cells touched while so many nodes come, each with a resource and a pod that takes some of
/// it; and while they are changed and go.
fn touched(count: usize, own: impl Fn(usize) -> usize) -> usize {
    TOUCHED.set(0);
    let mut cluster = Cluster::new();
    let node = |n: usize, amount: i64| {
        let node = Node::new(format!("n{n}")).capacity("cpu", 4);
        node.capacity(&format!("example.com/r{}", own(n)), amount)
    };
    for n in 0..count {
        cluster.add_node(node(n, 4)).unwrap();
        let pod = Pod::new().name(format!("p{n}")).on(format!("n{n}"));
        cluster.add_pod(pod.request(&format!("example.com/r{}", own(n)), 3)).unwrap();
    }
    for n in 0..count {
        let resource = cluster.resource(&format!("example.com/r{}", own(n))).unwrap();
        let view = cluster.node(&format!("n{n}")).unwrap();
        assert_eq!((view.allocatable(resource), view.used(resource)), (4, 3));
        assert_eq!(view.to_node(), node(n, 4));
        cluster.update_node(&node(n, 5)).unwrap();
    }
    for n in 0..count {
        cluster.remove_pod("default", &format!("p{n}")).unwrap();
        cluster.remove_node(&format!("n{n}")).unwrap();
    }
    TOUCHED.get()
}

/// Each chunk has up to 256 columns more; a row reads them a few times.
#[test]
fn resources_of_single_nodes_cost_in_proportion_to_the_nodes() {
    let (few, many) = (touched(512, |n| n), touched(4_096, |n| n));
    assert!(few > 512 * CHUNK && many <= 9 * few, "{few} for 512 nodes, {many} for 4,096");
    let common = touched(4_096, |n| n % 10);
    assert!(common < 4_096 * 400, "{common} for resources that many have");
}
