//! Answers: victims, moves, and claims.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use super::cost::{Cost, MoveClaim, MoveCost};
use crate::base::ObjectName;
use crate::model::{PodGroup, ZoneShare};
use crate::place::{Certificate, Outcome};
use crate::state::{NodeView, Plan, PodView};

/// The answer to a request that may preempt.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "camelCase"))]
#[non_exhaustive]
#[must_use]
#[allow(clippy::large_enum_variant, reason = "an answer is moved once, and most of them are plans")]
pub enum Preemption {
    /// Every pod has its place, and nothing has to go.
    Placed(Plan),
    /// The plan holds once the victims are gone and the moves are made.
    Preempt(Box<Preempt>),
    /// No set of units that may be taken makes room.
    NoVictimsHelp(NoVictimsHelp),
    /// The budget of steps ran out before a set was found. There may be one.
    Exhausted {
        /// A lower bound of the cost of any set.
        lower_bound: Cost,
    },
    /// A plan was found, and a permit holds or denies it. Nothing has to go.
    Permit(Outcome),
}

/// A set of victims, and the plan they make room for.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "camelCase"))]
#[non_exhaustive]
pub struct Preempt {
    /// The units to evict, most important first: by priority descending, then by name. Empty where
    /// it is enough to wait for pods that terminate.
    pub victims: Vec<Victim>,
    /// Pods that go elsewhere instead of going for good, in an order in which no node is ever over
    /// its capacity: one after another, once the victims have gone. Those that stop leave before the
    /// first of them, and start at their turn.
    pub moves: Vec<Move>,
    /// The plan, to be committed when the victims are gone and the moves are made.
    pub plan: Plan,
    /// The cost of the victims.
    pub cost: Cost,
    /// A lower bound of the cost of any set. Where the cost equals it, the set is proved to be
    /// least.
    pub lower_bound: Cost,
    /// The cost of the moves.
    #[cfg_attr(feature = "serde", serde(default))]
    pub move_cost: MoveCost,
    /// The claim on the moves; `None` where there are none, or some in place of evictions.
    #[cfg_attr(feature = "serde", serde(default))]
    pub move_claim: Option<MoveClaim>,
    /// Steps that the search has taken.
    pub steps: u64,
}

/// A unit to evict.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "camelCase"))]
#[non_exhaustive]
pub struct Victim {
    /// The full name of the group that goes whole, or of the pod.
    pub name: ObjectName,
    /// Whether it is a group that goes whole.
    pub whole: bool,
    /// The full name of the group that the pods belong to, if that is known.
    pub group: Option<ObjectName>,
    /// The priority.
    pub priority: i32,
    /// Pods × milliseconds run, or what the policy puts in its place.
    pub work_lost: u64,
    /// Its pods, by namespace and name.
    pub pods: Vec<EvictedPod>,
}

/// A pod to evict.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "camelCase"))]
#[non_exhaustive]
pub struct EvictedPod {
    /// The namespace.
    pub namespace: String,
    /// The name.
    pub name: String,
    /// The identity that survives the name; may be empty.
    pub uid: String,
    /// The embedder's own number.
    pub key: u64,
    /// The node it is on.
    pub node: String,
}

/// A pod that goes from one node to another.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "camelCase"))]
#[non_exhaustive]
pub struct Move {
    /// The pod, and the node it is on.
    pub pod: EvictedPod,
    /// The unit that it moves with: the full name of the group that goes whole, or of the pod. Moves
    /// of one unit come one after another.
    pub unit: ObjectName,
    /// The node it goes to. Of a group that moves whole, a member may come back to its own.
    pub to: String,
    /// The devices chosen for it there, one list a device request: indexes of the node's devices.
    #[cfg_attr(feature = "serde", serde(default, skip_serializing_if = "Vec::is_empty"))]
    pub devices: Vec<Vec<u32>>,
    /// The amounts of the node's NUMA zones that are predicted for it there.
    #[cfg_attr(feature = "serde", serde(default, skip_serializing_if = "Vec::is_empty"))]
    pub zone_shares: Vec<ZoneShare>,
    /// Whether it has to stop before the others are done: there is no order in which it could move
    /// at once.
    pub stops: bool,
}

/// Why no set of victims makes room.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "camelCase"))]
#[non_exhaustive]
pub struct NoVictimsHelp {
    /// The full name of the group.
    pub group: ObjectName,
    /// The reason.
    pub reason: NoVictims,
    /// The proof that the group does not fit even without all units that may be taken, where the
    /// strategy gives one. It is verified on the transaction that
    /// [`PreemptionRequest::without_all`](super::PreemptionRequest::without_all) makes; that of
    /// [`NoVictims::NoMoves`] on one that has evicted the pods of `together`, but for the group's.
    pub certificate: Option<Certificate>,
    /// The tree that the certificate is about, where that is not the group alone: the group together
    /// with all that may move.
    #[cfg_attr(feature = "serde", serde(default, skip_serializing_if = "Option::is_none"))]
    pub together: Option<Box<PodGroup>>,
}

/// The reason that no victims help.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "camelCase"))]
#[non_exhaustive]
pub enum NoVictims {
    /// A member has the preemption policy `Never`.
    PreemptionPolicyNever,
    /// There is no unit that may be taken.
    NoUnits,
    /// The group does not fit even without all units that may be taken.
    DoesNotFit,
    /// The group fits without all that may be taken, and no set of it may yield and gives what is
    /// short beside room; see [`Yielding`](super::Yielding).
    NotEntitled,
    /// No moves of as many units as may move make room, and nothing may be evicted.
    NoMoves,
}

impl Victim {
    /// Sorts victims by priority, highest first, then by name.
    pub(crate) fn sort(victims: &mut [Victim]) {
        victims.sort_by(|a, b| (b.priority, &a.name).cmp(&(a.priority, &b.name)));
    }
}

impl EvictedPod {
    /// A pod by its names.
    pub(crate) fn of(pod: PodView<'_>) -> EvictedPod {
        EvictedPod {
            namespace: String::from(pod.namespace()),
            name: String::from(pod.name()),
            uid: String::from(pod.uid()),
            key: pod.key(),
            node: pod.node().map(NodeView::name).map(String::from).unwrap_or_default(),
        }
    }

    /// The full name: namespace and name in one value.
    pub fn full_name(&self) -> ObjectName {
        ObjectName::new(&self.namespace, &self.name)
    }
}

impl Preempt {
    /// Whether no set of victims costs less.
    pub fn is_least(&self) -> bool {
        self.lower_bound >= self.cost
    }
}

impl Preemption {
    /// The plan, once the victims are gone.
    pub fn plan(&self) -> Option<&Plan> {
        match self {
            Preemption::Placed(plan) => Some(plan),
            Preemption::Preempt(preempt) => Some(&preempt.plan),
            _ => None,
        }
    }

    /// The victims and their plan, if there are any.
    pub fn preempt(&self) -> Option<&Preempt> {
        match self {
            Preemption::Preempt(preempt) => Some(preempt),
            _ => None,
        }
    }

    /// The answer in a word: `placed`, `preempt`, `no-victims-help`, `exhausted`, `permit`.
    pub fn word(&self) -> &'static str {
        match self {
            Preemption::Placed(_) => "placed",
            Preemption::Preempt(_) => "preempt",
            Preemption::NoVictimsHelp(_) => "no-victims-help",
            Preemption::Exhausted { .. } => "exhausted",
            Preemption::Permit(_) => "permit",
        }
    }
}

impl fmt::Display for Victim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Victim { name, priority, pods, .. } = self;
        write!(f, "{name} (priority {priority}, ")?;
        match pods.len() {
            1 => f.write_str("1 pod)"),
            count => write!(f, "{count} pods)"),
        }
    }
}

impl fmt::Display for NoVictims {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            NoVictims::PreemptionPolicyNever => "its preemption policy is Never",
            NoVictims::NoUnits => "there is no unit that may be taken",
            NoVictims::NotEntitled => "no set that may yield gives room and quota",
            NoVictims::NoMoves => "no moves of running units make room",
            NoVictims::DoesNotFit => "it does not fit without all that may be taken either",
        })
    }
}

impl fmt::Display for Preemption {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Preemption::Placed(plan) => write!(f, "{}: {} pods placed", plan.group(), plan.len()),
            Preemption::Preempt(preempt) => {
                let group = preempt.plan.group();
                match (preempt.victims.is_empty(), preempt.moves.is_empty()) {
                    (true, false) => write!(f, "{group}: fits when {}", preempt.move_cost),
                    (false, false) => {
                        let (cost, moves) = (preempt.cost, preempt.move_cost);
                        write!(f, "{group}: fits when {moves} and these go: {cost}")
                    }
                    _ => write!(f, "{group}: fits when these go: {}", preempt.cost),
                }
            }
            Preemption::NoVictimsHelp(help) => {
                write!(f, "{}: no victims help: {}", help.group, help.reason)
            }
            Preemption::Exhausted { lower_bound } => {
                write!(f, "no victims found within the budget; at least {lower_bound}")
            }
            Preemption::Permit(outcome) => write!(f, "{outcome}"),
        }
    }
}
