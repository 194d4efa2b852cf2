//! Rows by their values of labels.

use alloc::sync::Arc;
use alloc::vec::Vec;

use smallvec::SmallVec;

use super::units::{NONE, Units};
use crate::base::hash::FixedMap;
use crate::framework::Grain;
use crate::place::scoring::changes::NodeEvent;
use crate::state::journal::NodeChange;
use crate::state::{Cluster, LabelKey, LabelValue, NodeView, Row};

/// All rows in classes.
#[derive(Debug, Clone, Default)]
pub(crate) struct Partition {
    /// [`NONE`] for rows that are not in use.
    class_of: Vec<u32>,
    /// By number of label value, of classes by one label; 0 for a value that no row has had.
    numbers: Vec<u32>,
    /// How many classes have a number.
    known: usize,
    /// The rows class by class.
    pub(super) units: Arc<Units>,
}

impl Partition {
    /// All rows by one label at most. Class 0 is of rows that lack it.
    fn new(cluster: &Cluster, grouping: &Grouping) -> Partition {
        let mut made = Partition::default();
        let classes = made.classify(cluster, grouping, Row::all(cluster.rows()), |_, _, _| {});
        made.lay_out(classes);
        made
    }

    /// Takes in changes of nodes; false if it must be made anew.
    fn follow(
        this: &mut Arc<Partition>,
        cluster: &Cluster,
        grouping: &Grouping,
        events: &[NodeEvent],
    ) -> bool {
        let moves = NodeChange::ADDED.and(NodeChange::REMOVED, true);
        let (keys, _) = grouping;
        let concerns =
            |change: NodeChange| change.has(moves) || keys.iter().any(|key| change.label(*key));
        let rows = events.iter().filter(|event| concerns(event.change));
        let rows: SmallVec<[Row; 8]> = rows.map(|event| Row::from(event.row)).collect();
        if rows.is_empty() {
            return true;
        }
        // Classes that nodes have left stay, until they are too many.
        if keys.len() > 1 || this.classes() > 2 * this.units.used() + 2 {
            return false;
        }
        let this = Arc::make_mut(this);
        if rows.len() > FEW {
            let classes = this.classify(cluster, grouping, rows.into_iter(), |_, _, _| {});
            this.lay_out(classes);
            return true;
        }
        let mut units = core::mem::take(&mut this.units);
        let own = Arc::make_mut(&mut units);
        this.classify(cluster, grouping, rows.into_iter(), |row, class, classes| {
            own.set(row.as_u32(), class, classes);
        });
        this.units = units;
        true
    }

    /// Finds the classes of some rows, and returns how many classes there are. `tell` is called with
    /// each row, its class, and how many there are.
    fn classify(
        &mut self,
        cluster: &Cluster,
        (keys, each): &Grouping,
        rows: impl Iterator<Item = Row>,
        mut tell: impl FnMut(Row, u32, usize),
    ) -> usize {
        self.class_of.resize(cluster.rows(), NONE);
        let least = if *each { cluster.rows() } else { 1 };
        let mut classes = least.max(self.known);
        for row in rows {
            let number = |node: NodeView<'_>| match keys.first() {
                None if *each => row.as_u32(),
                Some(key) => node.label_value(*key).map_or(0, |value| {
                    let at = value.index();
                    self.numbers.resize(self.numbers.len().max(at + 1), 0);
                    if self.numbers[at] == 0 {
                        self.numbers[at] = classes as u32;
                        classes += 1;
                    }
                    self.numbers[at]
                }),
                None => 0,
            };
            let class = cluster.view(row).map_or(NONE, number);
            self.class_of[row] = class;
            tell(row, class, classes);
        }
        self.known = classes;
        classes
    }

    fn lay_out(&mut self, classes: usize) {
        let rows = (0..).zip(self.class_of.iter().copied());
        Arc::make_mut(&mut self.units).fill(rows, classes);
    }

    /// Some rows by position, in units of one class each.
    pub(super) fn part(&self, rows: &[Row], into: &mut Units) {
        let mut numbers = alloc::vec![NONE; self.classes()];
        let mut units = 0;
        for &row in rows {
            if let Some(unit) = numbers.get_mut(self.class(row))
                && *unit == NONE
            {
                *unit = units;
                units += 1;
            }
        }
        let unit = |row: Row| numbers.get(self.class(row)).copied().unwrap_or(NONE);
        into.fill(rows.iter().map(|&row| (row.as_u32(), unit(row))), units as usize);
    }

    /// The classes of rows that are in the same class of both.
    fn product(&self, other: &Partition) -> Partition {
        let mut numbers: FixedMap<(u32, u32), u32> = FixedMap::default();
        let pairs = self.class_of.iter().zip(&other.class_of);
        let class_of = pairs.map(|(&one, &two)| {
            if one == NONE {
                return NONE;
            }
            let next = numbers.len() as u32;
            *numbers.entry((one, two)).or_insert(next)
        });
        let mut product = Partition { class_of: class_of.collect(), ..Partition::default() };
        product.lay_out(numbers.len());
        product
    }

    /// How many classes there are; some may be empty.
    #[inline]
    pub(crate) fn classes(&self) -> usize {
        self.units.len()
    }

    /// The class of a row in use.
    #[inline]
    pub(crate) fn class(&self, row: Row) -> usize {
        self.class_of[row] as usize
    }

    /// The rows of a class, ascending.
    #[inline]
    pub(crate) fn rows(&self, class: usize) -> &[u32] {
        &self.units.rows[self.units.places(class)]
    }

    /// The rows with a value of the label that tells rows apart.
    pub(crate) fn rows_with(&self, value: LabelValue) -> &[u32] {
        let class = self.numbers.get(value.index()).copied().unwrap_or(0);
        if class == 0 { &[] } else { self.rows(class as usize) }
    }

    /// A row of a class.
    #[inline]
    pub(crate) fn first(&self, class: usize) -> Option<Row> {
        self.rows(class).first().map(|&row| Row::from(row))
    }

    /// Whether there are nearly as many classes as rows.
    pub(crate) fn is_fine(&self) -> bool {
        self.classes() > 4 && self.classes() * 4 > self.units.rows.len()
    }
}

/// Changes of rows that a partition takes in one by one.
const FEW: usize = 4;
/// Changes of nodes that are kept.
const MOST: usize = 1_024;

/// Partitions made so far.
#[derive(Debug, Default)]
pub(crate) struct Partitions {
    /// Each with the number of changes that it accounts for.
    made: FixedMap<Grouping, (usize, Arc<Partition>)>,
    /// Changes of nodes since the first was made.
    events: Vec<NodeEvent>,
}

/// The key that tells rows apart: labels, or each row.
type Grouping = (SmallVec<[LabelKey; 4]>, bool);

impl Partitions {
    pub(crate) fn clear(&mut self) {
        self.made.clear();
        self.events.clear();
    }

    /// Notes changes of nodes. Partitions take them in when they are asked for.
    pub(crate) fn nodes_changed(&mut self, events: &[NodeEvent]) {
        if self.events.len() + events.len() > MOST {
            self.clear();
        }
        if !self.made.is_empty() {
            self.events.extend_from_slice(events);
        }
    }

    /// The classes of a grain.
    pub(crate) fn of_grain(&mut self, cluster: &Cluster, grain: &Grain) -> Arc<Partition> {
        self.of(
            (if grain.each { SmallVec::new() } else { grain.keys.clone() }, grain.each),
            cluster,
        )
    }

    /// The classes of rows with the same values of all labels, which come in order.
    pub(crate) fn of_labels(&mut self, cluster: &Cluster, keys: &[LabelKey]) -> Arc<Partition> {
        self.of((SmallVec::from_slice(keys), false), cluster)
    }

    fn of(&mut self, grouping: Grouping, cluster: &Cluster) -> Arc<Partition> {
        let end = self.events.len();
        if let Some((seen, known)) = self.made.get_mut(&grouping)
            && Partition::follow(known, cluster, &grouping, &self.events[*seen..])
        {
            *seen = end;
            return Arc::clone(known);
        }
        let column = Arc::new(match &*grouping.0 {
            [others @ .., key] if !others.is_empty() => {
                let others = self.of_labels(cluster, others);
                others.product(&self.of_labels(cluster, &[*key]))
            }
            _ => Partition::new(cluster, &grouping),
        });
        self.made.insert(grouping, (end, Arc::clone(&column)));
        column
    }
}

#[cfg(test)]
mod tests;
