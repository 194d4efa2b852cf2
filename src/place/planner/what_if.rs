//! What-if questions: a planner, and a working copy of the cluster that it saw last.
//!
//! Preemption and autoscaling ask one question after another about a cluster that changes little in
//! between. Between two questions the copy has no changes of its own, so a cluster that has not moved
//! is not copied again, and the planner's caches hold.

use super::Planner;
use crate::state::journal::Moment;
use crate::state::{Cluster, StateError, Txn};

/// A planner, with a transaction that lasts from one question to the next.
#[derive(Debug, Default)]
pub(crate) struct Session {
    planner: Planner,
    /// The moment that the transaction is a copy of, and the transaction, without changes.
    base: Option<(Moment, Txn)>,
}

impl Session {
    /// A session of a planner.
    pub(crate) fn new(planner: Planner) -> Session {
        Session { planner, base: None }
    }

    /// How often a plugin was evaluated on a node so far.
    pub(crate) fn plugin_calls(&self) -> u64 {
        self.planner.plugin_calls()
    }

    /// Asks a question of a transaction that equals the cluster, and takes back what it has changed.
    ///
    /// O(1) beside the question if the cluster has not moved since the last one; else a copy of the
    /// cluster, and the planner follows the journal.
    pub(crate) fn ask<T, E: From<StateError>>(
        &mut self,
        cluster: &Cluster,
        question: impl FnOnce(&mut Planner, &mut Txn) -> Result<T, E>,
    ) -> Result<T, E> {
        let mut txn = self.copy_of(cluster);
        let answer = question(&mut self.planner, &mut txn);
        txn.rollback_to(0)?;
        self.base = Some((cluster.moment(), txn));
        answer
    }

    /// Asks a question that changes nothing: no copy is made for it. O(1) beside the question.
    pub(crate) fn look<T>(
        &mut self,
        cluster: &Cluster,
        question: impl FnOnce(&mut Planner, &Cluster) -> T,
    ) -> T {
        if let Some((_, txn)) = self.base.as_ref().filter(|own| own.0 == cluster.moment()) {
            return question(&mut self.planner, txn);
        }
        if let Some((moment, txn)) = self.base.take() {
            self.planner.rebase(&txn, moment);
        }
        question(&mut self.planner, cluster)
    }

    /// A transaction that equals the cluster.
    fn copy_of(&mut self, cluster: &Cluster) -> Txn {
        if let Some((moment, txn)) = self.base.take() {
            if moment == cluster.moment() {
                return txn;
            }
            // The transaction is what the cluster was then, and what is known of the one holds for
            // the other.
            self.planner.rebase(&txn, moment);
        }
        cluster.txn()
    }
}

#[cfg(test)]
mod tests;
