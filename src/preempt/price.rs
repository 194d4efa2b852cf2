//! The price of victims that were chosen by another rule, or by hand.

use alloc::vec;
use alloc::vec::Vec;

use super::cost::Cost;
use super::policy::Preemptor;
use super::request::PreemptionRequest;
use super::running::RunningWork;
use super::unit::Units;
use crate::base::ObjectName;
use crate::state::{Cluster, StateError};

impl PreemptionRequest<'_> {
    /// What it costs that these pods go, by namespace and name, in the order in which
    /// [`PreemptingPlanner::place`](super::PreemptingPlanner::place) compares sets: how sets that
    /// were chosen by another rule, or by hand, are held against the least one.
    ///
    /// What goes along is counted: all of a group that goes whole, and what a minimum takes along.
    /// A pod that terminates already costs nothing. Whether the policy allows a unit is not asked,
    /// nor whether the group fits without it; the work lost is the policy's. O(pods · log pods) of
    /// the cluster.
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
    /// running.add_group(&PodGroup::gang("old", 2).evicted_whole())?;
    ///
    /// let gang = PodGroup::gang("new", 1).pods(1, Pod::new().request("gpu", 2)).priority(1);
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
}
