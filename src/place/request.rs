//! What is asked of a planner.

use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;

use alloc::vec::Vec;

use super::error::PlaceError;
use super::gang::Gang;
use super::kueue::Gates;
use crate::base::Time;
use crate::base::hash::hash_of;
use crate::framework::Strategy;
use crate::model::{ModelError, Pod, PodGroup, Workload};
use crate::state::{Cluster, Row};

/// A group to be placed, and how.
///
/// Made from a `&PodGroup` or a `&Workload`; everything else has defaults.
///
/// ```
/// use phalanx::model::{Pod, PodGroup};
/// use phalanx::{Request, Time};
///
/// let gang = PodGroup::gang("trainer", 2).pods(2, Pod::new());
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
    pub(crate) gates: Gates,
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

/// Steps a search may take unless the request says otherwise.
pub const DEFAULT_BUDGET: u64 = 200_000;

impl<'a> Request<'a> {
    /// A request for a group.
    pub fn new(group: &'a PodGroup) -> Request<'a> {
        Request {
            subject: Subject::Group(group),
            now: Time::ZERO,
            budget: DEFAULT_BUDGET,
            salt: 0,
            strategy: None,
            within: None,
            gates: Gates::default(),
        }
    }

    /// Sets the time.
    pub fn now(mut self, now: Time) -> Request<'a> {
        self.now = now;
        self
    }

    /// Sets how many steps a search may take.
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

    /// Sets Kueue's feature gates, for [`Strategy::Kueue`].
    pub fn gates(mut self, gates: Gates) -> Request<'a> {
        self.gates = gates;
        self
    }

    /// Stays on the nodes whose label has a value.
    pub fn within(mut self, key: impl Into<String>, value: impl Into<String>) -> Request<'a> {
        self.within = Some(Domain { key: key.into(), value: value.into() });
        self
    }

    /// The group.
    pub fn group(&self) -> &PodGroup {
        match &self.subject {
            Subject::Group(group) => group,
            Subject::Own(group) => group,
            Subject::Gang(gang) => gang.group(),
        }
    }

    /// The group made ready.
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
            Some(pod) => Err(PlaceError::AlreadyBound(format!("{}/{}", pod.namespace(), pod.name))),
            None => Ok(()),
        }
    }

    /// The rows the request is confined to, in the order of ties; `None` means all.
    pub(crate) fn rows(&self, cluster: &Cluster) -> Option<Vec<Row>> {
        let domain = self.within.as_ref()?;
        let nodes = cluster.nodes().filter(|node| node.has_label(&domain.key, &domain.value));
        Some(nodes.map(super::super::state::view::NodeView::row).collect())
    }
}

/// What decides between equal scores before the order of nodes does.
pub(crate) fn tie(cluster: &Cluster, row: Row, salt: u64) -> u64 {
    if salt == 0 {
        return 0;
    }
    let name = cluster.view(row).map_or("", |node| node.name());
    hash_of(&(salt, name))
}

#[derive(Debug, Clone)]
enum Subject<'a> {
    Group(&'a PodGroup),
    Own(Box<PodGroup>),
    Gang(&'a Gang),
}

impl<'a> From<&'a Gang> for Request<'a> {
    fn from(gang: &'a Gang) -> Request<'a> {
        Request { subject: Subject::Gang(gang), ..Request::new(gang.group()) }
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
        Request {
            subject: Subject::Own(Box::new(group)),
            now: Time::ZERO,
            budget: DEFAULT_BUDGET,
            salt: 0,
            strategy: None,
            within: None,
            gates: Gates::default(),
        }
    }
}
