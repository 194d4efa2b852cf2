//! The price of victims that were chosen by another rule, or by hand.

use alloc::vec;
use alloc::vec::Vec;

use super::cost::Cost;
use super::policy::Preemptor;
use super::request::PreemptionRequest;
use super::running::RunningWork;
use super::unit::Units;
use super::yielding::Rule;
use crate::base::ObjectName;
use crate::state::{Cluster, PodView, StateError, Txn};

impl PreemptionRequest<'_> {
    /// Cost of evicting these pods, by namespace and name, in the order in which
    /// [`PreemptingPlanner::place`](super::PreemptingPlanner::place) compares sets. So a set that
    /// was chosen by another rule, or by hand, can be held against the least one.
    ///
    /// Pods that go along are counted: all of a group that goes whole, and those that a minimum
    /// takes along. A pod that terminates already costs nothing. Whether the policy allows a unit
    /// is not asked, nor whether the group fits without it; the work lost is the policy's. O(pods ·
    /// log pods) of the cluster.
    ///
    /// # Errors
    /// [`StateError::UnknownPod`] and [`StateError::NotBound`].
    ///
    /// ```
    /// use phalanx::preempt::{PreemptionRequest, RunningWork};
    /// use phalanx::{Cluster, Node, Pod, PodGroup, Request, Time};
    ///
    /// let mut cluster = Cluster::new();
    /// cluster.add_node(Node::new("n").capacity("gpu", 8))?;
    /// for name in ["a", "b"] {
    ///     let pod = Pod::new().name(name).in_group("old").since(Time::from_secs(60));
    ///     cluster.add_pod(pod.request("gpu", 4).on("n"))?;
    /// }
    /// let mut running = RunningWork::new();
    /// running.set_group(&PodGroup::gang("old", 2).evicted_whole())?;
    ///
    /// let gang = PodGroup::of("new", 1, Pod::new().request("gpu", 2)).priority(1);
    /// let request = PreemptionRequest::new(Request::new(&gang).now(Time::from_secs(100)));
    /// let cost = request.cost_of(&cluster, &running, [("default", "a")])?;
    /// assert_eq!((cost.units, cost.pods, cost.work_lost), (1, 2, 80_000));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn cost_of<'p>(
        &self,
        cluster: &Cluster,
        running: &RunningWork,
        pods: impl IntoIterator<Item = (&'p str, &'p str)>,
    ) -> Result<Cost, StateError> {
        let units = Units::new(cluster, running);
        let mut atoms: Vec<u32> = Vec::new();
        for (namespace, name) in pods {
            let full = || ObjectName::new(namespace, name);
            let pod = cluster.pod(namespace, name);
            let pod = pod.ok_or_else(|| StateError::UnknownPod(full()))?;
            if pod.node().is_none() {
                return Err(StateError::NotBound(full()));
            }
            atoms.extend(units.atom_of(pod).map(|atom| atom as u32));
        }
        atoms.sort_unstable();
        atoms.dedup();
        let closed = units.closure(&atoms, &mut vec![false; units.atoms.len()]);
        let preemptor =
            Preemptor { group: self.request.group(), now: self.request.now, runs: true };
        let work = |atom: u32| units.work_lost(cluster, self, &preemptor, atom as usize);
        Ok(units.cost(&closed, work))
    }

    /// A transaction without all that a set of victims may contain, and without the pods that
    /// terminate: the cluster that the certificate of [`NoVictimsHelp`](super::NoVictimsHelp) is
    /// about.
    ///
    /// A unit may be taken if the policy allows it, no protection keeps it, and the same holds of
    /// what its minimum takes along. Each such unit is in some set that may be taken, if not all of
    /// them in one. Nothing is evicted for a group that preempts nothing. O(pods · log pods).
    ///
    /// # Errors
    /// None today: each pod that is evicted runs in the cluster.
    ///
    /// ```
    /// use phalanx::preempt::{PreemptingPlanner, Preemption, PreemptionRequest, RunningWork};
    /// use phalanx::{Cluster, Framework, Node, Pod, PodGroup, Request, Strategy};
    ///
    /// let mut cluster = Cluster::new();
    /// cluster.add_node(Node::new("n").capacity("gpu", 8))?;
    /// for (name, priority) in [("low", 0), ("high", 9)] {
    ///     let pod = Pod::new().name(name).request("gpu", 4).priority(priority);
    ///     cluster.add_pod(pod.on("n"))?;
    /// }
    /// let gang = PodGroup::of("new", 1, Pod::new().request("gpu", 8)).priority(1);
    /// let request = PreemptionRequest::new(Request::new(&gang).strategy(Strategy::Search));
    /// let (framework, running) = (Framework::default(), RunningWork::new());
    /// let answer =
    ///     PreemptingPlanner::new().place(&cluster, &framework, &running, request.clone())?;
    /// let Preemption::NoVictimsHelp(help) = answer else { panic!("`high` stays") };
    /// let txn = request.without_all(&cluster, &running)?;
    /// assert_eq!(txn.node("n").map(|node| node.pod_count()), Some(1));
    /// assert!(help.certificate.unwrap().verify(&txn, &framework, &gang).is_ok());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn without_all(&self, cluster: &Cluster, running: &RunningWork) -> Result<Txn, StateError> {
        let mut txn = cluster.txn();
        let group = self.request.group();
        if group.never_preempts() {
            return Ok(txn);
        }
        let units = Units::new(cluster, running);
        let preemptor = Preemptor { group, now: self.request.now, runs: true };
        let rule = self.yielding.map(|rule| Rule::new(rule, units.holders(cluster, rule)));
        let is_free = |atom: u32| {
            rule.as_ref().is_none_or(|rule| rule.admits(atom as usize))
                && units.work_if_free(cluster, self, &preemptor, atom as usize).is_some()
        };
        let all = units.in_sets(is_free);
        let pods = all.iter().flat_map(|&atom| units.pods_of(cluster, atom as usize));
        for pod in pods.map(PodView::id).chain(units.going.iter().copied()) {
            txn.evict_pod(pod)?;
        }
        Ok(txn)
    }
}
