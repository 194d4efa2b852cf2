//! The front door: one call that places a group, by preemption where nothing else helps.

mod asked;
mod attempt;

use alloc::string::String;
use alloc::vec::Vec;

use self::asked::{Asked, Stop};
use self::attempt::{Attempt, Known};
use super::answer::Preemption;
use super::domains::Field;
use super::moves::{self, Defragmentation, Room};
use super::need::Need;
use super::request::Consolidation;
use super::request::PreemptionRequest;
use super::running::RunningWork;
use crate::framework::Framework;
use crate::place::planner::what_if::Session;
use crate::place::{PlaceError, Planner};
use crate::state::{Cluster, NodeView};

/// A planner that preempts: answers requests, with what it keeps between them.
///
/// It tries sets of victims in one transaction that it rolls back; what it knows of the cluster is
/// not lost by that. Give each thread its own. What it keeps never changes an answer.
///
/// ```
/// use phalanx::preempt::{PreemptingPlanner, Preemption, RunningWork};
/// use phalanx::{Cluster, Framework, Node, Pod, PodGroup};
///
/// let mut cluster = Cluster::new();
/// for name in ["n1", "n2"] {
///     cluster.add_node(Node::new(name).capacity("gpu", 8))?;
///     cluster.add_pod(Pod::new().name(format!("old-{name}")).in_group("old").request("gpu", 6).on(name))?;
/// }
/// let mut running = RunningWork::new();
/// running.set_group(&PodGroup::gang("old", 2).evicted_whole())?;
///
/// let gang = PodGroup::of("new", 1, Pod::new().request("gpu", 4)).priority(1);
/// let mut planner = PreemptingPlanner::new();
/// let answer = planner.place(&cluster, &Framework::default(), &running, &gang)?;
/// let Preemption::Preempt(preempt) = answer else { panic!("the cluster is full") };
/// // The pods of a gang go together, or not at all.
/// assert_eq!((preempt.cost.units, preempt.cost.pods), (1, 2));
/// assert_eq!(preempt.victims[0].name, "default/old");
/// assert!(preempt.is_least());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Default)]
pub struct PreemptingPlanner {
    session: Session,
    units: Option<Known>,
    field: Option<Field>,
    trials: u64,
}

impl PreemptingPlanner {
    /// A planner that knows nothing yet.
    pub fn new() -> PreemptingPlanner {
        PreemptingPlanner::default()
    }

    /// The planner that sets of victims are tried with; see [`Planner::threads`].
    #[must_use]
    pub fn with_planner(planner: Planner) -> PreemptingPlanner {
        PreemptingPlanner { session: Session::new(planner), ..PreemptingPlanner::default() }
    }

    /// How often a plugin was evaluated on a node so far.
    pub fn plugin_calls(&self) -> u64 {
        self.session.plugin_calls()
    }

    /// How many sets of victims the planner has judged so far.
    pub fn trials(&self) -> u64 {
        self.trials
    }

    /// Places a group whole; if it does not fit, finds the least set of units that must go for it.
    ///
    /// The least set is that of least [`Cost`](super::Cost) among all sets of units that the policy allows. The
    /// answer names the set and a lower bound; where they are equal the set is proved to be least.
    ///
    /// # Errors
    /// As [`place_gang`](crate::place_gang).
    pub fn place<'a>(
        &mut self,
        cluster: &Cluster,
        framework: &Framework,
        running: &RunningWork,
        request: impl Into<PreemptionRequest<'a>>,
    ) -> Result<Preemption, PlaceError> {
        let ask = request.into();
        ask.request.refuse_bound(cluster)?;
        let gang = ask.request.gang()?;
        let request = ask.request.for_gang(&gang);
        let PreemptingPlanner { session, units, field, trials } = self;
        let asked = Asked { cluster, framework, running, ask: &ask, request: &request };
        let outcome =
            session.look(cluster, |planner, seen| planner.place(seen, framework, request.clone()));
        let opened = asked
            .fits(outcome?)
            .and_then(|mut certificate| Ok((asked.may_preempt(&mut certificate)?, certificate)));
        let (ceiling, certificate) = match opened {
            Ok(opened) => opened,
            Err(stop) => return stop.end(),
        };
        session.ask(cluster, |planner, txn| {
            let mut attempt = Attempt { planner, txn, field, trials, asked, ceiling };
            attempt.steps(certificate, units).or_else(Stop::end)
        })
    }

    /// Finds the fewest moves that free a domain for a gang, or the cluster if the gang asks for none,
    /// and the room that is won. Nothing is evicted; the gang need not come.
    ///
    /// Units move by the rules of the request, or by [`Consolidation::default`].
    ///
    /// ```
    /// use phalanx::preempt::{Consolidation, PreemptingPlanner, PreemptionRequest, RunningWork};
    /// use phalanx::{Cluster, Framework, Node, Pod, PodGroup};
    ///
    /// // Two nodes, each half full.
    /// let mut cluster = Cluster::new();
    /// for name in ["n1", "n2"] {
    ///     cluster.add_node(Node::new(name).capacity("gpu", 8))?;
    ///     cluster.add_pod(Pod::new().name(format!("old-{name}")).request("gpu", 4).on(name))?;
    /// }
    /// let shape = PodGroup::of("whole-node", 1, Pod::new().request("gpu", 8));
    /// let request = PreemptionRequest::new(&shape).consolidation(Consolidation::new(1));
    /// let mut planner = PreemptingPlanner::new();
    /// let freed =
    ///     planner.defragment(&cluster, &Framework::default(), &RunningWork::new(), request)?;
    /// assert_eq!(freed.answer.preempt().unwrap().moves.len(), 1);
    /// assert_eq!((freed.room[0].before, freed.room[0].after), (0, 1));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`place_gang`](crate::place_gang).
    pub fn defragment<'a>(
        &mut self,
        cluster: &Cluster,
        framework: &Framework,
        running: &RunningWork,
        request: impl Into<PreemptionRequest<'a>>,
    ) -> Result<Defragmentation, PlaceError> {
        let mut ask = request.into();
        let settings = ask.consolidation.unwrap_or_default();
        ask.consolidation = Some(Consolidation { evict: false, ..settings });
        let answer = self.place(cluster, framework, running, ask.clone())?;
        let (mut nodes, mut room) = (Vec::new(), Vec::new());
        if let Some(preempt) = answer.preempt().filter(|preempt| !preempt.moves.is_empty()) {
            let mut txn = cluster.txn();
            for pod in cluster.pods().filter(|pod| pod.deleting() && pod.node().is_some()) {
                txn.evict_pod(pod.id())?;
            }
            let before = Cluster::clone(&txn);
            moves::make(&mut txn, &preempt.moves)?;
            let need = Need::new(&before, framework, &ask.request);
            let rows = moves::domain_rows(&need, &before, &preempt.plan);
            nodes = rows.iter().filter_map(|&row| before.view(row)).map(name_of).collect();
            nodes.sort();
            let counts = moves::room(&need, &before, &rows).into_iter();
            let counts = counts.zip(moves::room(&need, &txn, &rows)).zip(&need.kinds);
            room = counts
                .map(|((before, after), kind)| Room {
                    need: kind.count.max(0) as u64,
                    before,
                    after,
                })
                .collect();
        }
        Ok(Defragmentation { answer, nodes, room })
    }
}

fn name_of(node: NodeView<'_>) -> String {
    String::from(node.name())
}
