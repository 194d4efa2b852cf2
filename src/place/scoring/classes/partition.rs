//! Rows by their values of labels.

use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;

use smallvec::SmallVec;

use crate::base::hash::FixedMap;
use crate::framework::Grain;
use crate::state::journal::NodeChange;
use crate::state::{Cluster, LabelKey, Row};

/// The class of a row that is not in use.
const NONE: u32 = u32::MAX;

/// All rows in classes.
#[derive(Debug, Default)]
pub(crate) struct Partition {
    class_of: Vec<u32>,
    starts: Vec<u32>,
    rows: Vec<u32>,
}

impl Partition {
    /// From the class of each row, [`NONE`] for rows that are not in use.
    fn new(class_of: Vec<u32>, classes: usize) -> Partition {
        let mut starts = vec![0_u32; classes + 1];
        for &class in &class_of {
            if class != NONE {
                starts[class as usize + 1] += 1;
            }
        }
        for class in 0..classes {
            starts[class + 1] += starts[class];
        }
        let mut next = starts.clone();
        let mut rows = vec![0_u32; starts[classes] as usize];
        for (row, &class) in class_of.iter().enumerate() {
            if class != NONE {
                rows[next[class as usize] as usize] = row as u32;
                next[class as usize] += 1;
            }
        }
        Partition { class_of, starts, rows }
    }

    fn whole(cluster: &Cluster) -> Partition {
        let used = |row| if cluster.view(row).is_some() { 0 } else { NONE };
        Partition::new(Row::all(cluster.rows()).map(used).collect(), 1)
    }

    fn each(cluster: &Cluster) -> Partition {
        let used = |row| if cluster.view(row).is_some() { row.as_u32() } else { NONE };
        Partition::new(Row::all(cluster.rows()).map(used).collect(), cluster.rows())
    }

    /// Classes by the value of a label; class 0 is of those that lack it.
    fn of_label(cluster: &Cluster, key: LabelKey) -> Partition {
        let mut numbers: Vec<u32> = Vec::new();
        let mut classes = 1;
        let class_of = Row::all(cluster.rows()).map(|row| {
            let Some(node) = cluster.view(row) else { return NONE };
            let Some(value) = node.label_value(key) else { return 0 };
            if numbers.len() <= value.index() {
                numbers.resize(value.index() + 1, 0);
            }
            let number = &mut numbers[value.index()];
            if *number == 0 {
                *number = classes;
                classes += 1;
            }
            *number
        });
        let class_of: Vec<u32> = class_of.collect();
        Partition::new(class_of, classes as usize)
    }

    /// The classes of rows that are in the same class of both.
    fn product(&self, other: &Partition) -> Partition {
        let mut numbers: FixedMap<(u32, u32), u32> = FixedMap::default();
        let pairs = self.class_of.iter().zip(&other.class_of);
        let class_of: Vec<u32> = pairs
            .map(|(&one, &two)| {
                if one == NONE {
                    return NONE;
                }
                let next = numbers.len() as u32;
                *numbers.entry((one, two)).or_insert(next)
            })
            .collect();
        let classes = numbers.len();
        Partition::new(class_of, classes)
    }

    /// How many classes there are; some may be empty.
    #[inline]
    pub(crate) fn classes(&self) -> usize {
        self.starts.len() - 1
    }

    /// The class of a row in use.
    #[inline]
    pub(crate) fn class(&self, row: Row) -> usize {
        self.class_of[row] as usize
    }

    /// The rows of a class, ascending.
    #[inline]
    pub(crate) fn rows(&self, class: usize) -> &[u32] {
        &self.rows[self.starts[class] as usize..self.starts[class + 1] as usize]
    }

    /// A row of a class.
    #[inline]
    pub(crate) fn first(&self, class: usize) -> Option<Row> {
        self.rows(class).first().map(|&row| Row::from(row))
    }

    /// Whether there are nearly as many classes as rows.
    pub(crate) fn is_fine(&self) -> bool {
        self.classes() > 4 && self.classes() * 4 > self.rows.len()
    }
}

/// Partitions made so far.
#[derive(Debug, Default)]
pub(crate) struct Partitions {
    made: FixedMap<Grouping, Arc<Partition>>,
}

/// The key that tells rows apart: labels, or each row.
type Grouping = (SmallVec<[LabelKey; 4]>, bool);

impl Partitions {
    pub(crate) fn clear(&mut self) {
        self.made.clear();
    }

    /// Forgets the partitions that a change of a node concerns.
    pub(crate) fn node_changed(&mut self, change: NodeChange) {
        if change.has(NodeChange::ADDED) || change.has(NodeChange::REMOVED) {
            self.made.clear();
        } else {
            self.made.retain(|(keys, _), _| !keys.iter().any(|key| change.label(*key)));
        }
    }

    /// The classes of a grain.
    pub(crate) fn of_grain(&mut self, cluster: &Cluster, grain: &Grain) -> Arc<Partition> {
        if !grain.each {
            return self.of_labels(cluster, &grain.keys);
        }
        let each = self.made.entry((SmallVec::new(), true));
        Arc::clone(each.or_insert_with(|| Arc::new(Partition::each(cluster))))
    }

    /// The classes of rows with the same values of all labels, which come in order.
    pub(crate) fn of_labels(&mut self, cluster: &Cluster, keys: &[LabelKey]) -> Arc<Partition> {
        let grouping = (SmallVec::from_slice(keys), false);
        if let Some(column) = self.made.get(&grouping) {
            return Arc::clone(column);
        }
        let column = match keys {
            [] => Partition::whole(cluster),
            [key] => Partition::of_label(cluster, *key),
            [others @ .., key] => {
                let others = self.of_labels(cluster, others);
                others.product(&self.of_labels(cluster, &[*key]))
            }
        };
        let column = Arc::new(column);
        self.made.insert(grouping, Arc::clone(&column));
        column
    }
}
