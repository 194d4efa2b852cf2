//! Which pods are on each row, to tell who came and who went.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::cmp::Ordering;

use smallvec::SmallVec;

use crate::base::hash::FixedMap;
use crate::model::PodShape;
use crate::state::{Cluster, Row};

/// The shapes of the pods on each row.
#[derive(Debug)]
pub(crate) struct PodCensus {
    /// By row, in order: numbers of shapes, doubled, odd for pods that are being deleted.
    rows: Vec<SmallVec<[u32; 8]>>,
    shapes: Vec<Arc<PodShape>>,
    /// By address; the shapes are held, so addresses are not used again.
    numbers: FixedMap<usize, u32>,
    now: SmallVec<[u32; 8]>,
}

impl PodCensus {
    /// O(pods).
    pub(crate) fn new(cluster: &Cluster) -> PodCensus {
        let mut roll = PodCensus {
            rows: Vec::new(),
            shapes: Vec::new(),
            numbers: FixedMap::default(),
            now: SmallVec::new(),
        };
        roll.rows.resize_with(cluster.rows(), SmallVec::new);
        for row in 0..cluster.rows() {
            roll.read(cluster, row);
            core::mem::swap(&mut roll.now, &mut roll.rows[row]);
        }
        roll
    }

    /// Takes in the pods of a row as they are, and tells of each shape that came or left: whether
    /// the pod is being deleted, and whether it came. False if that is not known.
    pub(crate) fn update(
        &mut self,
        cluster: &Cluster,
        row: u32,
        mut tell: impl FnMut(&Arc<PodShape>, bool, bool),
    ) -> bool {
        let row = row as usize;
        if row >= self.rows.len() || self.shapes.len() > 2 * cluster.pods.len() + 1_024 {
            return false;
        }
        self.read(cluster, row);
        let known = &self.rows[row];
        let (mut old, mut new) = (known.iter().peekable(), self.now.iter().peekable());
        loop {
            let order = match (old.peek(), new.peek()) {
                (None, None) => break,
                (Some(one), Some(other)) => one.cmp(other),
                (Some(_), None) => Ordering::Less,
                (None, Some(_)) => Ordering::Greater,
            };
            let (number, came) = match order {
                Ordering::Less => (old.next(), false),
                Ordering::Greater => (new.next(), true),
                Ordering::Equal => {
                    old.next();
                    new.next();
                    continue;
                }
            };
            if let Some(&number) = number {
                tell(&self.shapes[number as usize / 2], number % 2 == 1, came);
            }
        }
        core::mem::swap(&mut self.now, &mut self.rows[row]);
        true
    }

    fn read(&mut self, cluster: &Cluster, row: Row) {
        self.now.clear();
        for pod in cluster.view(row).into_iter().flat_map(crate::state::NodeView::pods) {
            let Some(entry) = cluster.shapes.entry(pod.shape_id()) else { continue };
            let address = Arc::as_ptr(&entry.shape) as usize;
            let shapes = &mut self.shapes;
            let number = *self.numbers.entry(address).or_insert_with(|| {
                shapes.push(Arc::clone(&entry.shape));
                shapes.len() as u32 - 1
            });
            self.now.push(2 * number + u32::from(pod.deleting()));
        }
        self.now.sort_unstable();
    }
}
