//! Placement requests.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;

use super::error::PlaceError;
use super::gang::Gang;
use crate::base::Time;
use crate::base::hash::hash_of;
#[cfg(feature = "peers")]
use crate::framework::KueueGates;
use crate::framework::{Framework, Strategy};
use crate::model::{ModelError, Pod, PodGroup, Workload};
use crate::state::{Cluster, NodeView, Row};

/// A group to be placed, and how.
///
/// Made from a `&PodGroup` or a `&Workload`; everything else has defaults.
///
/// ```
/// use phalanx::{Pod, PodGroup, Request, Time};
///
/// let gang = PodGroup::of("trainer", 2, Pod::new());
/// let request = Request::new(&gang).now(Time::from_secs(60)).within("zone", "a");
/// ```
#[derive(Debug, Clone)]
#[must_use]
pub struct Request<'a> {
    subject: Subject<'a>,
    pub(crate) now: Time,
    pub(crate) budget: u64,
    pub(crate) salt: u64,
    pub(crate) strategy: Option<Strategy>,
    pub(crate) within: Option<Domain>,
    #[cfg(feature = "peers")]
    pub(crate) kueue_gates: KueueGates,
}

/// The nodes whose label has a value.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Domain {
    /// The node label key.
    pub key: String,
    /// Its value.
    pub value: String,
}

impl<'a> Request<'a> {
    /// Steps a search may take unless the request says otherwise.
    pub const DEFAULT_BUDGET: u64 = 200_000;

    /// A request for a group.
    pub fn new(group: &'a PodGroup) -> Request<'a> {
        Request::of(Subject::Group(group))
    }

    fn of(subject: Subject<'a>) -> Request<'a> {
        Request {
            subject,
            now: Time::ZERO,
            budget: Request::DEFAULT_BUDGET,
            salt: 0,
            strategy: None,
            within: None,
            #[cfg(feature = "peers")]
            kueue_gates: KueueGates::default(),
        }
    }

    /// Sets the time.
    pub fn now(mut self, now: Time) -> Request<'a> {
        self.now = now;
        self
    }

    /// Sets how many steps a search may take, an option of [`Strategy::Search`]. A step is one
    /// candidate domain tried for one group, one node filled in a packing, or one move of an order.
    /// While the ways to fill a node are listed, 1,024 looks at a class of pods are a step. So a
    /// step takes about the same time in small groups as in large ones, a few microseconds. The
    /// default of 200,000 steps is a fraction of a second up to a second or two.
    pub fn budget(mut self, steps: u64) -> Request<'a> {
        self.budget = steps;
        self
    }

    /// Sets what decides between equal scores before the order of nodes does. Schedulers that
    /// plan side by side take different salts, so as not to meet on the same nodes. 0, the
    /// default, leaves it to the order of nodes.
    pub fn salt(mut self, salt: u64) -> Request<'a> {
        self.salt = salt;
        self
    }

    /// Sets the strategy, in place of the framework's own.
    pub fn strategy(mut self, strategy: Strategy) -> Request<'a> {
        self.strategy = Some(strategy);
        self
    }

    /// Sets Kueue's feature gates, the options of [`Strategy::Kueue`].
    #[cfg(feature = "peers")]
    pub fn kueue_gates(mut self, gates: KueueGates) -> Request<'a> {
        self.kueue_gates = gates;
        self
    }

    /// Stays on the nodes whose label has a value.
    pub fn within(mut self, key: impl Into<String>, value: impl Into<String>) -> Request<'a> {
        self.within = Some(Domain { key: key.into(), value: value.into() });
        self
    }

    /// The same request for another group.
    pub(crate) fn with_group(&self, group: PodGroup) -> Request<'static> {
        Request {
            subject: Subject::Own(Box::new(group)),
            now: self.now,
            budget: self.budget,
            salt: self.salt,
            strategy: self.strategy,
            within: self.within.clone(),
            #[cfg(feature = "peers")]
            kueue_gates: self.kueue_gates,
        }
    }

    /// The same request for its group, prepared.
    pub(crate) fn for_gang<'b>(&self, gang: &'b Gang) -> Request<'b> {
        Request {
            subject: Subject::Gang(gang),
            now: self.now,
            budget: self.budget,
            salt: self.salt,
            strategy: self.strategy,
            within: self.within.clone(),
            #[cfg(feature = "peers")]
            kueue_gates: self.kueue_gates,
        }
    }

    /// The group.
    pub fn group(&self) -> &PodGroup {
        match &self.subject {
            Subject::Group(group) => group,
            Subject::Own(group) => group,
            Subject::Gang(gang) => gang.group(),
        }
    }

    /// The prepared group.
    pub(crate) fn gang(&self) -> Result<Gang, ModelError> {
        match &self.subject {
            Subject::Gang(gang) => Ok(Gang::clone(gang)),
            Subject::Group(_) | Subject::Own(_) => {
                let group = self.group();
                // Copying recurses, so how deep the tree is comes first.
                group.check_depth()?;
                Gang::new(group.clone())
            }
        }
    }

    /// Refuses a group with a member that is bound already.
    pub(crate) fn refuse_bound(&self, cluster: &Cluster) -> Result<(), PlaceError> {
        if matches!(self.subject, Subject::Gang(_)) {
            return Ok(());
        }
        let group = self.group();
        let bound = |pod: &&Pod| cluster.slot_of(pod.namespace(), &pod.name).is_some();
        match group.all_pods().into_iter().find(bound) {
            Some(pod) => Err(PlaceError::AlreadyBound(pod.full_name())),
            None => Ok(()),
        }
    }

    /// The rows the request is confined to, in the order of ties; `None` means all.
    pub(crate) fn rows(&self, cluster: &Cluster) -> Option<Vec<Row>> {
        let domain = self.within.as_ref()?;
        let nodes = cluster.nodes().filter(|node| node.has_label(&domain.key, &domain.value));
        Some(nodes.map(NodeView::row).collect())
    }
}

/// The tie-break between equal scores that comes before the order of nodes.
pub(crate) fn tie(cluster: &Cluster, row: Row, salt: u64) -> u64 {
    if salt == 0 {
        return 0;
    }
    let name = cluster.view(row).map_or("", |node| node.name());
    hash_of(&(salt, name))
}

/// A checked request, with the cluster and the framework it is answered from: the input of every
/// strategy.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Task<'a> {
    pub(crate) cluster: &'a Cluster,
    pub(crate) framework: &'a Framework,
    pub(crate) gang: &'a Gang,
    pub(crate) request: &'a Request<'a>,
}

impl<'a> Task<'a> {
    /// The strategy of the request, else that of the framework.
    pub(crate) fn strategy(&self) -> Strategy {
        self.request.strategy.unwrap_or_else(|| self.framework.strategy())
    }

    /// The root group.
    pub(crate) fn group(&self) -> &'a PodGroup {
        self.gang.group()
    }
}

/// The group of a request: borrowed, owned, or prepared.
#[derive(Debug, Clone)]
enum Subject<'a> {
    Group(&'a PodGroup),
    Own(Box<PodGroup>),
    Gang(&'a Gang),
}

impl<'a> From<&'a Gang> for Request<'a> {
    fn from(gang: &'a Gang) -> Request<'a> {
        Request::of(Subject::Gang(gang))
    }
}

impl<'a> From<&'a PodGroup> for Request<'a> {
    fn from(group: &'a PodGroup) -> Request<'a> {
        Request::new(group)
    }
}

impl From<&Workload> for Request<'static> {
    /// The workload as one gang of all its groups.
    fn from(workload: &Workload) -> Request<'static> {
        Request::from(workload.clone().into_group())
    }
}

impl From<PodGroup> for Request<'static> {
    fn from(group: PodGroup) -> Request<'static> {
        Request::of(Subject::Own(Box::new(group)))
    }
}
