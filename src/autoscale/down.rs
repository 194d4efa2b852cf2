//! Nodes that can be emptied and taken away.
//!
//! Nodes are tried one by one, those first that save most for the pods that leave them. A node is
//! closed, its units are laid out anew on what is left, and their moves are put in an order. What has
//! moved once stays where it is: a node that pods have come to is not taken away.

mod emptied;

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

use self::emptied::Emptied;
use super::error::AutoscaleError;
use super::shrink::{Blocked, KeptNode, NodeRemoval, ScaleDown, ScaleDownRequest};
use super::up::{Autoscaler, CLOSED};
use crate::base::ObjectName;
use crate::framework::Framework;
use crate::model::PodGroup;
use crate::place::{Planner, Request};
use crate::plugins::NodeUnschedulable;
use crate::preempt::moves::{Joint, Relocated, Repack, movable, named, relocate};
use crate::preempt::unit::Units;
use crate::preempt::{Consolidation, Move, PreemptionRequest, Preemptor, RunningWork};
use crate::state::{Cluster, PodView, Row, Txn};

impl Autoscaler {
    /// Finds nodes that can be emptied and taken away, with the moves of their pods, and what keeps
    /// each other node. Nothing is evicted for good, and nothing stops: at each step no node is over
    /// its capacity. The cluster is not touched.
    ///
    /// Units are those of [preemption](crate::preempt). A group that is disrupted whole moves
    /// whole, with its pods on other nodes. Members of other groups move one by one, as long as the
    /// minimum is left. What may not be disrupted, or would break a budget, keeps its node. Pods
    /// that terminate count as gone.
    ///
    /// ```
    /// use phalanx::autoscale::{Autoscaler, ScaleDownRequest};
    /// use phalanx::preempt::RunningWork;
    /// use phalanx::{Cluster, Framework, Node, Pod};
    ///
    /// let mut cluster = Cluster::new();
    /// for (name, used) in [("n1", 2), ("n2", 5), ("n3", 0)] {
    ///     cluster.add_node(Node::new(name).capacity("cpu", 8))?;
    ///     if used > 0 {
    ///         cluster.add_pod(Pod::new().name(format!("on-{name}")).request("cpu", used).on(name))?;
    ///     }
    /// }
    /// let (framework, running) = (Framework::default(), RunningWork::new());
    /// let request = ScaleDownRequest::new();
    /// let down = Autoscaler::new().scale_down(&cluster, &framework, &running, request)?;
    /// let gone: Vec<_> = down.removals.iter().map(|removal| removal.node.as_str()).collect();
    /// assert_eq!(gone, ["n3", "n1"]);
    /// assert_eq!(down.removals[1].moves[0].to, "n2");
    /// assert_eq!(down.kept[0].to_string(), "n2: pod default/on-n1 has moved to it");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// A node of the request is not there.
    pub fn scale_down(
        &mut self,
        cluster: &Cluster,
        framework: &Framework,
        running: &RunningWork,
        request: ScaleDownRequest<'_>,
    ) -> Result<ScaleDown, AutoscaleError> {
        let mut closing = framework.without_permits();
        if !framework.filters().iter().any(|filter| filter.name() == CLOSED) {
            closing = closing.to_builder().filter(NodeUnschedulable).build_sound();
        }
        if let Some(emptied) = Emptied::of(cluster) {
            closing = closing.to_builder().filter(emptied).build_sound();
        }
        let mut request = request;
        let named = request.candidates.take();
        let candidates = candidates(cluster, (&request, named))?;
        let units = Units::new(cluster, running);
        let down = Down { cluster, units: &units, request: &request };
        self.session
            .ask(cluster, |planner, txn| down.run((planner, txn), &closing, running, candidates))
    }
}

/// A node that may go: its row, its price, and how many pods would leave it.
struct Candidate {
    row: Row,
    name: String,
    price: u64,
    pods: usize,
}

/// The nodes that may go, in the order in which they are tried. O(nodes · log nodes + pods).
fn candidates(
    cluster: &Cluster,
    (request, named): (&ScaleDownRequest<'_>, Option<Vec<(String, u64)>>),
) -> Result<Vec<Candidate>, AutoscaleError> {
    let all = || cluster.nodes().map(|node| (String::from(node.name()), 1)).collect();
    let named: Vec<(String, u64)> = named.unwrap_or_else(all);
    let mut known = BTreeSet::new();
    let mut candidates = Vec::with_capacity(named.len());
    for (name, price) in named {
        let Some(node) = cluster.node(&name) else {
            return Err(AutoscaleError::UnknownNode(name));
        };
        if known.insert(node.row()) {
            let pods = node.pods().filter(|pod| !pod.deleting() && !request.goes(*pod)).count();
            candidates.push(Candidate { row: node.row(), name, price, pods });
        }
    }
    candidates.sort_by(|a, b| {
        // Pods for a price, as fractions.
        let (left, right) =
            (a.pods as u128 * u128::from(b.price), b.pods as u128 * u128::from(a.price));
        left.cmp(&right)
            .then(b.price.cmp(&a.price))
            .then(a.pods.cmp(&b.pods))
            .then_with(|| a.name.cmp(&b.name))
    });
    Ok(candidates)
}

struct Down<'d> {
    cluster: &'d Cluster,
    units: &'d Units,
    request: &'d ScaleDownRequest<'d>,
}

/// The decisions so far.
struct Decided {
    steps: u64,
    /// All atoms that have moved, ascending.
    moved: Vec<u32>,
    /// The rows that pods have moved to, with one of them.
    receives: BTreeMap<Row, ObjectName>,
}

impl Down<'_> {
    fn run(
        &self,
        (planner, txn): (&mut Planner, &mut Txn),
        framework: &Framework,
        running: &RunningWork,
        candidates: Vec<Candidate>,
    ) -> Result<ScaleDown, AutoscaleError> {
        let leaving = PodGroup::basic("leaving pods");
        let ask = PreemptionRequest::new(Request::new(&leaving).now(self.request.now));
        let ask = ask.policy(self.request.policy);
        let settings = Consolidation::new(Consolidation::MOST_UNITS).policy(self.request.policy);
        let preemptor = Preemptor { group: &leaving, now: self.request.now, runs: false };
        let own = (self.units, running);
        let work = movable(self.cluster, own, (&ask, &settings), &preemptor);
        for &pod in &self.units.going {
            txn.evict_pod(pod)?;
        }
        let request = Request::new(&leaving).now(self.request.now);
        let mut repack = Repack::new(
            (self.cluster, self.units, &work),
            running,
            (framework, &request),
            (planner, txn),
        );
        let mut decided =
            Decided { steps: self.request.budget, moved: Vec::new(), receives: BTreeMap::new() };
        let mut answer = ScaleDown::default();
        for candidate in candidates {
            let reason = |atom: u32| {
                let pod = self.first_pod(atom);
                match self.units.kept_by(self.cluster, &ask, &preemptor, atom as usize) {
                    Some(by) => Blocked::Unit { pod, by },
                    None => Blocked::Together { pod },
                }
            };
            match self.empty(&mut repack, &candidate, &reason, &mut decided)? {
                Ok(moves) => {
                    answer.price = answer.price.saturating_add(candidate.price);
                    let Candidate { name, price, .. } = candidate;
                    answer.removals.push(NodeRemoval { node: name, price, moves });
                }
                Err(reason) => answer.kept.push(KeptNode { node: candidate.name, reason }),
            }
        }
        answer.kept.sort_by(|a, b| a.node.cmp(&b.node));
        answer.steps = self.request.budget - decided.steps;
        Ok(answer)
    }

    /// Empties a node, or says what keeps it.
    fn empty(
        &self,
        repack: &mut Repack<'_>,
        candidate: &Candidate,
        reason: &dyn Fn(u32) -> Blocked,
        decided: &mut Decided,
    ) -> Result<Result<Vec<Move>, Blocked>, AutoscaleError> {
        if let Some(pod) = decided.receives.get(&candidate.row) {
            return Ok(Err(Blocked::Receives { pod: pod.clone() }));
        }
        let before = repack.txn.changes();
        repack.txn.cordon(&candidate.name)?;
        let found = self.leave(repack, candidate, reason, decided);
        if !matches!(found, Ok(Ok(_))) {
            repack.txn.rollback_to(before)?;
        }
        found
    }

    /// Moves the units of a node that is closed.
    fn leave(
        &self,
        repack: &mut Repack<'_>,
        candidate: &Candidate,
        reason: &dyn Fn(u32) -> Blocked,
        decided: &mut Decided,
    ) -> Result<Result<Vec<Move>, Blocked>, AutoscaleError> {
        let mut atoms: Vec<u32> = Vec::new();
        let mut stays = Vec::new();
        if let Some(node) = repack.txn.view(candidate.row) {
            for pod in node.pods() {
                match self.units.atom_of(pod) {
                    _ if self.request.goes(pod) => stays.push(pod.id()),
                    Some(atom) => atoms.push(atom as u32),
                    None => {}
                }
            }
        }
        // Pods that go with their node take no room of it.
        repack.evict(&stays)?;
        atoms.sort_unstable();
        atoms.dedup();
        if atoms.is_empty() {
            return Ok(Ok(Vec::new()));
        }
        let mut marks = vec![false; self.units.atoms.len()];
        let atoms = self.units.closure(&atoms, &mut marks);
        if let Some(&kept) = atoms.iter().find(|atom| repack.work[**atom as usize].is_none()) {
            return Ok(Err(reason(kept)));
        }
        if let Some(&again) = atoms.iter().find(|atom| decided.moved.binary_search(atom).is_ok()) {
            return Ok(Err(Blocked::Moved { pod: self.first_pod(again) }));
        }
        let mut all = decided.moved.clone();
        all.extend(&atoms);
        all.sort_unstable();
        all.dedup();
        let charged = self.units.charged(&all);
        for &atom in &atoms {
            if let Some(by) = self.units.kept_by_budget(repack.running, atom as usize, &charged) {
                return Ok(Err(Blocked::Unit { pod: self.first_pod(atom), by }));
            }
        }
        let no_room = |atom: u32| Blocked::NoRoom { pod: self.first_pod(atom) };
        let outcome = relocate(repack, &atoms, &mut decided.steps)?;
        let moves = match outcome {
            Relocated::Moved(moves) => moves,
            Relocated::NoRoom(Some(pod)) => {
                let pod = self.cluster.pod_view(pod.0).map(name_of);
                let first = || self.first_pod(atoms[0]);
                return Ok(Err(Blocked::NoRoom { pod: pod.unwrap_or_else(first) }));
            }
            Relocated::NoRoom(None) => return Ok(Err(no_room(self.tightest(repack, &atoms)?))),
            Relocated::NoOrder => {
                return Ok(Err(Blocked::NoOrder { pod: self.first_pod(atoms[0]) }));
            }
            Relocated::Unknown => return Ok(Err(Blocked::Exhausted)),
        };
        for place in &moves {
            if let Some(pod) = self.cluster.pod_view(place.pod.0) {
                decided.receives.entry(place.row).or_insert_with(|| name_of(pod));
            }
        }
        decided.moved = all;
        let moves: Vec<_> = moves.into_iter().map(|place| (place, false)).collect();
        Ok(Ok(named(self.cluster, (self.units, &atoms), &moves)))
    }

    /// The first atom of some that has no place even alone; else the first of all.
    fn tightest(&self, repack: &mut Repack<'_>, atoms: &[u32]) -> Result<u32, AutoscaleError> {
        for &atom in atoms {
            let pods: Vec<_> =
                self.units.pods_of(self.cluster, atom as usize).map(PodView::id).collect();
            if matches!(repack.joint_anew(&pods)?, Joint::Never(_)) {
                return Ok(atom);
            }
        }
        Ok(atoms[0])
    }

    fn first_pod(&self, atom: u32) -> ObjectName {
        let pods = self.units.pods_of(self.cluster, atom as usize).map(name_of);
        pods.min().unwrap_or_else(|| ObjectName::new("", ""))
    }
}

fn name_of(pod: PodView<'_>) -> ObjectName {
    ObjectName::new(pod.namespace(), pod.name())
}
