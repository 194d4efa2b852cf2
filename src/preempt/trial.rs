//! Trials: the planner's word on a set of units, in one transaction that is rolled back.

use alloc::vec::Vec;

use super::unit::Units;
use crate::framework::Framework;
use crate::place::{Outcome, PlaceError, Planner, Request, Unplaced};
use crate::state::{NodeView, Plan, PodId, PodView, Row, Txn};

/// Means to try sets.
#[derive(Debug)]
pub(crate) struct Trial<'t> {
    pub(crate) planner: &'t mut Planner,
    pub(crate) txn: &'t mut Txn,
    pub(crate) framework: &'t Framework,
    pub(crate) request: &'t Request<'t>,
    /// How many sets were tried.
    pub(crate) count: u64,
}

impl Trial<'_> {
    /// The plan of the group if these atoms go, should it fit then. For a pod that can go to one
    /// row `only`, what goes elsewhere is left where it is.
    pub(crate) fn fits(
        &mut self,
        units: &Units,
        atoms: &[u32],
        only: Option<Row>,
    ) -> Result<Option<Plan>, PlaceError> {
        Ok(self.outcome(units, atoms, only)?.ok())
    }

    /// The same, or why it does not fit.
    pub(crate) fn outcome(
        &mut self,
        units: &Units,
        atoms: &[u32],
        only: Option<Row>,
    ) -> Result<Result<Plan, Option<Unplaced>>, PlaceError> {
        self.count += 1;
        let before = self.txn.changes();
        let txn = &*self.txn;
        let pods: Vec<PodId> = match only {
            None => {
                let all = atoms.iter().flat_map(|&atom| units.pods_of(txn, atom as usize));
                all.map(PodView::id).collect()
            }
            Some(row) => {
                let goes = |pod: &PodView<'_>| {
                    let atom = units.atom_of(*pod).map(|atom| atom as u32);
                    atom.is_some_and(|atom| atoms.binary_search(&atom).is_ok())
                };
                txn.view(row)
                    .into_iter()
                    .flat_map(NodeView::pods)
                    .filter(goes)
                    .map(PodView::id)
                    .collect()
            }
        };
        for pod in pods {
            self.txn.evict_pod(pod)?;
        }
        let outcome = self.planner.place(self.txn, self.framework, self.request.clone());
        self.txn.rollback_to(before)?;
        Ok(match outcome? {
            Outcome::Placed(plan) | Outcome::Held { plan, .. } => Ok(plan),
            Outcome::Denied { .. } => Err(None),
            Outcome::Unplaced(unplaced) => Err(Some(unplaced)),
        })
    }
}
