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
mod tests {
    use super::*;
    use crate::framework::Framework;
    use crate::model::{Node, Pod, PodGroup};
    use crate::place::PlaceError;

    fn cluster(nodes: usize) -> Cluster {
        let mut cluster = Cluster::new();
        for index in 0..nodes {
            cluster.add_node(Node::new(alloc::format!("n{index}")).capacity("cpu", 8)).unwrap();
        }
        cluster
    }

    fn fits(session: &mut Session, cluster: &Cluster, cpus: i64) -> bool {
        let group = PodGroup::of("g", 1, Pod::new().request("cpu", cpus));
        session
            .ask(cluster, |planner, txn| {
                let outcome = planner.place(txn, &Framework::default(), &group)?;
                // A change that the question leaves behind.
                txn.cordon("n0")?;
                Ok::<_, PlaceError>(outcome.is_placed())
            })
            .unwrap()
    }

    #[test]
    fn a_question_leaves_nothing_behind() {
        let cluster = cluster(1);
        let mut session = Session::default();
        for _ in 0..3 {
            assert!(fits(&mut session, &cluster, 8), "the node is open again");
        }
        let (moment, txn) = session.base.as_ref().expect("kept");
        assert_eq!(*moment, cluster.moment());
        assert_eq!(txn.changes(), 0);
    }

    #[test]
    fn a_cluster_that_has_moved_is_seen_as_it_is() {
        let mut cluster = cluster(1);
        let mut session = Session::default();
        assert!(fits(&mut session, &cluster, 8));
        cluster.add_pod(Pod::new().name("p").request("cpu", 4).on("n0")).unwrap();
        assert!(!fits(&mut session, &cluster, 8));
        assert!(fits(&mut session, &cluster, 4));
    }

    #[test]
    fn a_second_question_evaluates_no_more_than_the_first() {
        let cluster = cluster(50);
        let mut session = Session::default();
        fits(&mut session, &cluster, 3);
        let calls = session.plugin_calls();
        assert!(calls > 0);
        fits(&mut session, &cluster, 3);
        assert!(session.plugin_calls() - calls <= calls, "{calls}, {}", session.plugin_calls());
    }

    #[test]
    fn a_fault_is_handed_on_and_the_copy_stays_sound() {
        let cluster = cluster(1);
        let mut session = Session::default();
        let fault = session.ask(&cluster, |_, txn| txn.cordon("missing").map(drop));
        assert!(matches!(fault, Err(StateError::UnknownNode(_))));
        assert!(fits(&mut session, &cluster, 8));
    }
}
