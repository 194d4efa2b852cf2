//! The reference engine: a transaction, and the plain loop for every member.

use alloc::borrow::Cow;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::cmp::Reverse;

use super::engine::{Confinement, Engine};
use crate::framework::device_fit::choose_for;
use crate::framework::{Evaluation, Framework};
use crate::model::{Pod, PodGroup, PodShape};
use crate::place::error::PlaceError;
use crate::place::gang::Gang;
use crate::place::layout::Member;
use crate::place::request::{Request, tie};
use crate::place::topology::islands::confined;
use crate::place::topology::partition::{Candidate, all_rows, partition};
use crate::state::{Cluster, LabelKey, Overlay, Row, Txn};

/// The executable definition of what the sequential strategy places.
pub(crate) struct ReferenceEngine<'a> {
    txn: Txn,
    framework: &'a Framework,
    request: &'a Request<'a>,
    pods: Vec<&'a Pod>,
}

impl<'a> ReferenceEngine<'a> {
    pub(crate) fn new(
        cluster: &Cluster,
        framework: &'a Framework,
        gang: &'a Gang,
        request: &'a Request<'a>,
    ) -> ReferenceEngine<'a> {
        let pods = gang.group().all_pods();
        ReferenceEngine { txn: cluster.txn(), framework, request, pods }
    }

    /// The best of the feasible rows for a pod.
    fn best_row(&self, leaf: &PodGroup, shape: &PodShape, rows: &[Row]) -> Option<Row> {
        let txn = &self.txn;
        let now = self.request.now;
        let mut evaluation = Evaluation::new(self.framework, txn, shape, Some(leaf), now);
        let passes = |row: &Row| txn.view(*row).is_some_and(|node| evaluation.filter(node).is_ok());
        let feasible: Vec<Row> = rows.iter().copied().filter(passes).collect();
        let totals = evaluation.totals(&feasible);
        let key = |&(row, total): &(Row, i64)| {
            (Reverse(total), tie(txn, row, self.request.salt), txn.columns.rank[row])
        };
        feasible.into_iter().zip(totals).min_by_key(key).map(|(row, _)| row)
    }
}

impl Engine for ReferenceEngine<'_> {
    #[cfg(feature = "parallel")]
    type Fork<'f>
        = ReferenceEngine<'f>
    where
        Self: 'f;

    fn state(&self) -> (&Cluster, Option<&Overlay>) {
        (&self.txn, None)
    }

    fn mark(&self) -> usize {
        self.txn.changes()
    }

    fn rollback(&mut self, mark: usize) -> Result<(), PlaceError> {
        Ok(self.txn.rollback_to(mark)?)
    }

    fn take(&mut self, member: &Member) -> Result<(), PlaceError> {
        let pod = self.pods[member.number as usize];
        self.txn.place_with(pod, member.row, member.devices.clone())?;
        Ok(())
    }

    fn fill(
        &mut self,
        leaf: &PodGroup,
        first: usize,
        Confinement { rows, island }: Confinement<'_>,
        placed: &mut Vec<Member>,
    ) -> Result<(), PlaceError> {
        let whole = if rows.is_none() { all_rows(&self.txn) } else { Vec::new() };
        let rows = rows.unwrap_or(&whole);
        for (index, pod) in leaf.pods.iter().enumerate() {
            if !pod.scheduling_gates.is_empty() {
                continue;
            }
            // Within an island, a pod is placed as if it named the island itself.
            let shape = match island {
                None => Some(Cow::Borrowed(&**pod.shape())),
                Some(island) => confined(&self.txn, pod.shape(), island),
            };
            let Some(shape) = shape else { continue };
            if let Some(row) = self.best_row(leaf, &shape, rows) {
                // A row without devices for the pod is only found best where no filter looks at
                // them; the pod stays unplaced then.
                let chosen = choose_for(self.framework, &self.txn, &shape, row);
                let Ok(devices) = chosen else { continue };
                self.txn.place_with(pod, row, devices.clone())?;
                placed.push(Member { number: (first + index) as u32, row, devices });
            }
        }
        Ok(())
    }

    fn partition(&mut self, rows: Option<&[Row]>, keys: &[LabelKey]) -> Arc<[Candidate]> {
        match rows {
            Some(rows) => partition(&self.txn, rows, keys),
            None => partition(&self.txn, &all_rows(&self.txn), keys),
        }
    }

    #[cfg(feature = "parallel")]
    fn fork(&self) -> Option<ReferenceEngine<'_>> {
        None
    }

    #[cfg(feature = "parallel")]
    fn count_calls(&mut self, _: u64) -> u64 {
        0
    }
}
