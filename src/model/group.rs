//! Groups of pods.

use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::time::Duration;

use super::Labels;
use super::PreemptionPolicy;
use super::device::IslandRule;
use super::error::{ModelError, Problem};
use super::pod::Pod;
use crate::base::ObjectName;
use crate::base::hash::{FixedMap, FixedState};

/// Pods that are placed together: a leaf holds pods, an inner group holds groups.
///
/// A group is a tree by construction, so it cannot contain itself.
///
/// ```
/// use phalanx::{Pod, PodGroup};
///
/// let gang = PodGroup::of("trainer", 4, Pod::new().request("nvidia.com/gpu", 1))
///     .require("rack");
/// assert_eq!(gang.pods[3].name, "trainer-3");
/// assert!(gang.check().is_ok());
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "camelCase", default))]
#[non_exhaustive]
pub struct PodGroup {
    /// The namespace.
    pub namespace: String,
    /// The name; unique among the groups of one tree.
    pub name: String,
    /// A number of the embedder's own, handed back untouched.
    pub key: u64,
    /// How many members must be placed for the group to count.
    pub policy: GroupPolicy,
    /// Minimum of pods, running ones included, for a group of groups to count, beside the minimum
    /// of groups. `None` asks for no more than the groups do. Not read of a group of pods.
    pub min_pods: Option<u32>,
    /// The topology request.
    pub topology: TopologyRequest,
    /// Members, in the order in which sequential strategies try them.
    pub pods: Vec<Pod>,
    /// Groups inside, in order.
    pub groups: Vec<PodGroup>,
    /// Higher goes first.
    pub priority: i32,
    /// The queue it waits in; empty where there are no queues.
    pub queue: String,
    /// The user that it is of, and the user's groups: limits by user read it, of the root of a tree.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Owner::is_none"))]
    pub owner: Owner,
    /// Whether members may be evicted one by one.
    pub disruption: DisruptionMode,
    /// Whether its members are never taken for others.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "core::ops::Not::not"))]
    pub non_preemptible: bool,
    /// How long a member that has started is not taken for others.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Option::is_none"))]
    pub min_run_time: Option<Duration>,
    /// How long it runs at most once it has started, by its owner's estimate; `None` if that is not
    /// known. Read of the root of a tree, by [backfill](crate::queue::Backfill).
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Option::is_none"))]
    pub run_time_estimate: Option<Duration>,
    /// How long it may run, all of its runs together; `None`: no bound. At its end the
    /// [`Scheduler`](crate::Scheduler) has it evicted ([`Decision::EvictDue`]) and pauses it. Read of
    /// the root of a tree.
    ///
    /// [`Decision::EvictDue`]: crate::queue::Decision::EvictDue
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Option::is_none"))]
    pub max_run_time: Option<Duration>,
    /// How long members wait for the rest after a place was found for them.
    pub schedule_timeout: Option<Duration>,
    /// Whether what runs is kept when the rest times out or fails.
    pub keep_running: bool,
    /// Groups that start together with this one or not at all, by full name.
    pub gang_group: Vec<ObjectName>,
    /// Whether this group of one pod leads its sibling, which is to sit with it.
    pub leader: bool,
    /// Whatever else the embedder's own plugins read.
    pub attributes: Labels,
}

/// How many members of a group must be placed for it to count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "camelCase", rename_all_fields = "camelCase"))]
#[non_exhaustive]
pub enum GroupPolicy {
    /// Any one; members come and go as they please.
    Basic {},
    /// At least so many: of pods in a leaf, of groups in an inner group.
    Gang {
        /// The minimum; at least 1.
        min_count: u32,
    },
}

impl GroupPolicy {
    /// The least number of members that counts.
    pub fn minimum(self) -> u32 {
        match self {
            GroupPolicy::Basic {} => 1,
            GroupPolicy::Gang { min_count } => min_count,
        }
    }
}

impl Default for GroupPolicy {
    fn default() -> GroupPolicy {
        GroupPolicy::Basic {}
    }
}

/// Whether members of a group may be evicted one by one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "camelCase"))]
#[non_exhaustive]
pub enum DisruptionMode {
    /// One by one.
    #[default]
    Single,
    /// All or none.
    All,
}

/// A group's request to the topology. The default asks nothing.
///
/// Levels are named by their node label key, such as `topology.kubernetes.io/zone`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "camelCase", default))]
#[non_exhaustive]
pub struct TopologyRequest {
    /// All members within one domain of this level, or not at all.
    pub require: Option<String>,
    /// All members within one domain of this level if possible, else of the next level up.
    pub prefer: Option<String>,
    /// The coarsest level that `prefer` may fall back to; not read without `prefer`. A level not
    /// above the preferred one allows no other.
    pub highest: Option<String>,
    /// Slices, coarsest first: every so many members, in order, within one domain.
    pub slices: Vec<Slice>,
    /// Members evenly over the domains of this level.
    pub spread: Option<String>,
    /// Members evenly over the fewest domains.
    pub balanced: bool,
    /// Neighbours in the order of members are neighbours in the tree.
    pub ranked: bool,
    /// All members on one node, and all their devices within one island of it. Below every level:
    /// `require` and `prefer` apply to that node, and where one island is preferred but not to be
    /// had, they apply by themselves. It has no effect on a group without device requests.
    #[cfg_attr(not(feature = "devices"), doc(hidden))]
    pub island: IslandRule,
}

/// Every `size` members, in order, within one domain of a level.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct Slice {
    /// The level.
    pub level: String,
    /// How many members a slice has.
    pub size: u32,
}

impl TopologyRequest {
    /// The level that bounds the group in any case. A preference falls back to other levels, so none is
    /// assumed beside one.
    pub(crate) fn firm_level(&self) -> Option<&str> {
        self.require.as_deref().filter(|_| self.prefer.is_none())
    }
}

impl Slice {
    /// Slices of so many members.
    pub fn new(level: impl Into<String>, size: u32) -> Slice {
        Slice { level: level.into(), size }
    }
}

impl PodGroup {
    /// The deepest tree of groups accepted. Kubernetes allows 4 levels.
    ///
    /// A deeper one is an error of [`PodGroup::check`], which looks no deeper. Copying and dropping a
    /// tree recurse, as they do for any nested value: do not build trees of thousands of levels.
    pub const MAX_DEPTH: usize = 16;

    /// A group with a minimum of `min_count` members, in namespace `default`.
    pub fn gang(name: impl Into<String>, min_count: u32) -> PodGroup {
        PodGroup {
            namespace: "default".into(),
            name: name.into(),
            policy: GroupPolicy::Gang { min_count },
            ..PodGroup::default()
        }
    }

    /// A gang of `count` pods like `template`, in namespace `default`: all start, or none.
    ///
    /// The same as [`PodGroup::gang`] with [`PodGroup::pods`], where the minimum is the number of pods.
    /// O(count).
    ///
    /// ```
    /// use phalanx::{Pod, PodGroup};
    ///
    /// let gang = PodGroup::of("trainer", 4, Pod::new().request("nvidia.com/gpu", 8));
    /// assert_eq!((gang.policy.minimum(), gang.pods.len()), (4, 4));
    /// ```
    pub fn of(name: impl Into<String>, count: u32, template: Pod) -> PodGroup {
        PodGroup::gang(name, count).pods(count as usize, template)
    }

    /// A group without a minimum, in namespace `default`.
    pub fn basic(name: impl Into<String>) -> PodGroup {
        PodGroup { namespace: "default".into(), name: name.into(), ..PodGroup::default() }
    }

    /// Sets the namespace. Pods added afterwards by [`PodGroup::pods`] are put in it.
    #[must_use]
    pub fn in_namespace(mut self, namespace: impl Into<String>) -> PodGroup {
        self.namespace = namespace.into();
        self
    }

    /// Adds `count` pods like `template`, named `<group>-<index>`, in the group's namespace.
    #[must_use]
    pub fn pods(mut self, count: usize, template: Pod) -> PodGroup {
        let mut template = template;
        if template.namespace() != self.namespace {
            template.shape_mut().namespace.clone_from(&self.namespace);
        }
        let first = self.pods.len();
        self.pods.extend((first..first.saturating_add(count)).map(|index| {
            let mut pod = template.clone();
            pod.name = format!("{}-{index}", self.name);
            pod
        }));
        self
    }

    /// Adds a pod as it is.
    #[must_use]
    pub fn pod(mut self, pod: Pod) -> PodGroup {
        self.pods.push(pod);
        self
    }

    /// Adds a group inside.
    #[must_use]
    pub fn group(mut self, group: PodGroup) -> PodGroup {
        self.groups.push(group);
        self
    }

    /// Asks for one domain of a level, or nothing.
    #[must_use]
    pub fn require(mut self, level: impl Into<String>) -> PodGroup {
        self.topology.require = Some(level.into());
        self
    }

    /// Asks for one domain of a level, else of the next level up.
    #[must_use]
    pub fn prefer(mut self, level: impl Into<String>) -> PodGroup {
        self.topology.prefer = Some(level.into());
        self
    }

    /// Asks that all members are on one node and their devices within one island of it, or
    /// nothing: devices of every kind, and none that is in no island.
    ///
    /// ```
    /// use phalanx::model::{Device, DeviceRequest};
    /// use phalanx::plugins::{DeviceFit, Fit};
    /// use phalanx::{Cluster, Framework, Node, Pod, PodGroup, place_gang};
    ///
    /// let gpu = |island: &str| Device::new("gpu", "H100").island(island);
    /// let node = (0..4).fold(Node::new("n1"), |node, _| node.device(gpu("left")));
    /// let node = (0..4).fold(node, |node, _| node.device(gpu("right")));
    /// let mut cluster = Cluster::new();
    /// cluster.add_node(node)?;
    /// let framework = Framework::builder().filter(Fit).filter(DeviceFit).build()?;
    ///
    /// let pair = Pod::new().device(DeviceRequest::whole("gpu", 2));
    /// let gang = PodGroup::of("pairs", 2, pair).require_island();
    /// let outcome = place_gang(&cluster, &framework, &gang)?;
    /// let islands: Vec<_> = outcome.plan().unwrap().islands().collect();
    /// assert_eq!(islands, [("default/pairs", "n1", "left")]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[cfg(feature = "devices")]
    #[must_use]
    pub fn require_island(mut self) -> PodGroup {
        self.topology.island = IslandRule::Required;
        self
    }

    /// Asks that all members are on one node and their devices within one island of it, if
    /// possible.
    #[cfg(feature = "devices")]
    #[must_use]
    pub fn prefer_island(mut self) -> PodGroup {
        self.topology.island = IslandRule::Preferred;
        self
    }

    /// Whether the group confines its devices to one island, or would like to: it has the rule,
    /// and a member with device requests.
    pub(crate) fn wants_island(&self) -> bool {
        let asks = |group: &PodGroup| group.pods.iter().any(|pod| !pod.shape().devices.is_empty());
        self.topology.island != IslandRule::Any && self.any(&asks)
    }

    /// Whether it preempts nothing: a pod of the tree says so.
    pub(crate) fn never_preempts(&self) -> bool {
        let never = |pod: &Pod| pod.preemption_policy == PreemptionPolicy::Never;
        self.any(&|group| group.pods.iter().any(never))
    }

    /// Whether this holds of the group or of one inside.
    pub(crate) fn any(&self, holds: &impl Fn(&PodGroup) -> bool) -> bool {
        holds(self) || self.groups.iter().any(|group| group.any(holds))
    }

    /// Asks that every `size` members, in order, are within one domain of a level. The coarsest
    /// slices come first.
    #[must_use]
    pub fn slice(mut self, level: impl Into<String>, size: u32) -> PodGroup {
        self.topology.slices.push(Slice { level: level.into(), size });
        self
    }

    /// Sets the priority.
    #[must_use]
    pub fn priority(mut self, priority: i32) -> PodGroup {
        self.priority = priority;
        self
    }

    /// Makes its members go together or not at all when they are evicted.
    #[must_use]
    pub fn evicted_whole(mut self) -> PodGroup {
        self.disruption = DisruptionMode::All;
        self
    }

    /// Makes its members safe from preemption: they are never taken for others.
    #[must_use]
    pub fn non_preemptible(mut self) -> PodGroup {
        self.non_preemptible = true;
        self
    }

    /// Sets how long a member that has started is not taken for others.
    #[must_use]
    pub fn min_run_time(mut self, time: Duration) -> PodGroup {
        self.min_run_time = Some(time);
        self
    }

    /// Sets how long it runs at most, by its owner's estimate.
    #[must_use]
    pub fn run_time_estimate(mut self, estimate: Duration) -> PodGroup {
        self.run_time_estimate = Some(estimate);
        self
    }

    /// Sets how long it may run.
    #[must_use]
    pub fn max_run_time(mut self, time: Duration) -> PodGroup {
        self.max_run_time = Some(time);
        self
    }

    /// Sets how long members wait for the rest.
    #[must_use]
    pub fn schedule_timeout(mut self, timeout: Duration) -> PodGroup {
        self.schedule_timeout = Some(timeout);
        self
    }

    /// Sets the number of the embedder's own.
    #[must_use]
    pub fn key(mut self, key: u64) -> PodGroup {
        self.key = key;
        self
    }

    /// Asks for a minimum of pods over the whole tree, beside the minimum of groups.
    #[must_use]
    pub fn min_pods(mut self, pods: u32) -> PodGroup {
        self.min_pods = Some(pods);
        self
    }

    /// Sets the queue.
    #[must_use]
    pub fn queue(mut self, queue: impl Into<String>) -> PodGroup {
        self.queue = queue.into();
        self
    }

    /// Sets whether members may be evicted one by one.
    #[must_use]
    pub fn disruption(mut self, mode: DisruptionMode) -> PodGroup {
        self.disruption = mode;
        self
    }

    /// Keeps what runs when the rest times out or fails.
    #[must_use]
    pub fn keep_running(mut self) -> PodGroup {
        self.keep_running = true;
        self
    }

    /// Adds a group that starts together with this one or not at all.
    #[must_use]
    pub fn starts_with(mut self, partner: ObjectName) -> PodGroup {
        self.gang_group.push(partner);
        self
    }

    /// Makes this group of one pod the leader of its sibling.
    #[must_use]
    pub fn leader(mut self) -> PodGroup {
        self.leader = true;
        self
    }

    /// Sets the user that it is of.
    #[must_use]
    pub fn owner(mut self, owner: Owner) -> PodGroup {
        self.owner = owner;
        self
    }

    /// Sets an attribute that the embedder's own plugins read.
    #[must_use]
    pub fn attribute(mut self, key: impl Into<String>, value: impl Into<String>) -> PodGroup {
        self.attributes.insert(key.into(), value.into());
        self
    }

    /// Sets how far up a preference may fall back.
    #[must_use]
    pub fn highest(mut self, level: impl Into<String>) -> PodGroup {
        self.topology.highest = Some(level.into());
        self
    }

    /// Asks for members evenly over the domains of a level.
    #[must_use]
    pub fn spread(mut self, level: impl Into<String>) -> PodGroup {
        self.topology.spread = Some(level.into());
        self
    }

    /// Asks for members evenly over the fewest domains.
    #[must_use]
    pub fn balanced(mut self) -> PodGroup {
        self.topology.balanced = true;
        self
    }

    /// Asks that neighbours in the order of members are neighbours in the tree.
    #[must_use]
    pub fn ranked(mut self) -> PodGroup {
        self.topology.ranked = true;
        self
    }

    /// All pods of the tree, in order: a group's own, then those of the groups inside.
    pub fn all_pods(&self) -> Vec<&Pod> {
        let mut pods = Vec::new();
        self.visit(&mut |group| pods.extend(&group.pods));
        pods
    }

    /// How many pods the tree has.
    pub fn pod_count(&self) -> usize {
        self.pods.len() + self.groups.iter().map(PodGroup::pod_count).sum::<usize>()
    }

    /// The full name: `namespace/name`.
    pub fn full_name(&self) -> ObjectName {
        ObjectName::new(&self.namespace, &self.name)
    }

    /// Calls `visit` for this group and all groups inside, parents first.
    pub fn visit<'a>(&'a self, visit: &mut impl FnMut(&'a PodGroup)) {
        visit(self);
        for group in &self.groups {
            group.visit(visit);
        }
    }

    /// Whether the tree can be placed at all.
    ///
    /// A minimum above the number of members is no error: members may come later. It is answered
    /// by not placing the group.
    ///
    /// # Errors
    /// A name is empty or used twice, a group is empty or holds both pods and groups, or a minimum
    /// is 0. The tree is deeper than [`PodGroup::MAX_DEPTH`]. A pod is not sound, names another group or is
    /// of another namespace. Group names are unique in their tree; pod names in their namespace.
    pub fn check(&self) -> Result<(), ModelError> {
        let mut numbered = true;
        self.check_level(1, &mut None, &mut numbered)?;
        if !self.groups.is_empty() {
            let mut groups = Vec::new();
            self.visit(&mut |group| groups.push((&*group.namespace, &*group.name)));
            self.check_names("group", &groups)?;
        }
        if numbered {
            return Ok(());
        }
        let pods: Vec<_> =
            self.all_pods().into_iter().map(|pod| (pod.namespace(), &*pod.name)).collect();
        self.check_names("pod", &pods)
    }

    fn check_names(&self, kind: &str, names: &[(&str, &str)]) -> Result<(), ModelError> {
        let mut seen = FixedMap::with_capacity_and_hasher(names.len(), FixedState::default());
        match names.iter().find(|name| seen.insert(**name, ()).is_some()) {
            None => Ok(()),
            Some((namespace, name)) => {
                let name = format!("{kind} {namespace}/{name}");
                Err(ModelError::new(self.object(), "members", Problem::Duplicate(name)))
            }
        }
    }

    /// Whether the tree is no deeper than [`PodGroup::MAX_DEPTH`]; looks no deeper itself.
    pub(crate) fn check_depth(&self) -> Result<(), ModelError> {
        if self.is_within(PodGroup::MAX_DEPTH) {
            return Ok(());
        }
        let text = format!("is nested deeper than {} levels", PodGroup::MAX_DEPTH);
        Err(ModelError::new(self.object(), "groups", Problem::Invalid(text)))
    }

    fn is_within(&self, levels: usize) -> bool {
        levels > 0 && self.groups.iter().all(|group| group.is_within(levels - 1))
    }

    /// Whether a pod is of this group: of its namespace, and naming it or none. `sibling` is a pod
    /// of the group that was checked before; the namespace of a shape is compared once.
    fn check_member(&self, pod: &Pod, sibling: Option<&Pod>) -> Result<(), ModelError> {
        let is_named = pod.group.as_ref().is_none_or(|group| *group == self.name);
        let is_near = sibling.is_some_and(|sibling| Arc::ptr_eq(sibling.shape(), pod.shape()))
            || pod.namespace() == self.namespace;
        if is_named && is_near {
            return Ok(());
        }
        let named = format!("{}/{}", pod.namespace(), pod.group.as_ref().unwrap_or(&self.name));
        let problem = Problem::OtherGroup { named, listed: self.full_name().into() };
        Err(ModelError::new(format!("pod {}/{}", pod.namespace(), pod.name), "group", problem))
    }

    fn object(&self) -> String {
        format!("group {}/{}", self.namespace, self.name)
    }

    /// All checks but that of names that occur twice. `last` is the pod before; `numbered` becomes
    /// false if names do not come in the order of numbers, in which they are all different.
    fn check_level<'a>(
        &'a self,
        depth: usize,
        last: &mut Option<&'a Pod>,
        numbered: &mut bool,
    ) -> Result<(), ModelError> {
        let fault = |field: &str, problem| Err(ModelError::new(self.object(), field, problem));
        if self.name.is_empty() {
            return fault("name", Problem::Required);
        }
        if depth > PodGroup::MAX_DEPTH {
            let text = format!("is nested deeper than {} levels", PodGroup::MAX_DEPTH);
            return fault("groups", Problem::Invalid(text));
        }
        if self.policy == (GroupPolicy::Gang { min_count: 0 }) {
            let problem = Problem::OutOfRange { value: 0, min: 1, max: i64::from(u32::MAX) };
            return fault("policy.gang.minCount", problem);
        }
        match (self.pods.is_empty(), self.groups.is_empty()) {
            (true, true) => return fault("pods", Problem::Required),
            (false, false) => {
                return fault(
                    "pods",
                    Problem::Invalid("stand beside groups; put them in one".into()),
                );
            }
            _ => {}
        }
        if let Some(index) = self.topology.slices.iter().position(|slice| slice.size == 0) {
            let problem = Problem::OutOfRange { value: 0, min: 1, max: i64::from(u32::MAX) };
            return fault(&format!("topology.slices[{index}].size"), problem);
        }
        for (index, pod) in self.pods.iter().enumerate() {
            pod.check_after(last.map(Pod::shape))?;
            if pod.name.is_empty() {
                return fault("pods.name", Problem::Required);
            }
            self.check_member(pod, last.filter(|_| index > 0))?;
            *numbered = *numbered && last.is_none_or(|last| precedes(last, pod));
            *last = Some(pod);
        }
        self.groups.iter().try_for_each(|group| group.check_level(depth + 1, last, numbered))
    }
}

/// Whether a pod is in the namespace of another and its name before, in an order in which `p-9`
/// comes before `p-10`: shorter names first.
fn precedes(pod: &Pod, next: &Pod) -> bool {
    let order = pod.name.len().cmp(&next.name.len()).then_with(|| pod.name.cmp(&next.name));
    order.is_lt() && (Arc::ptr_eq(pod.shape(), next.shape()) || pod.namespace() == next.namespace())
}

/// The user that work is of, and the groups of that user. Limits by user and group
/// (`phalanx::quota::UserLimit`) read it.
///
/// ```
/// use phalanx::model::Owner;
/// use phalanx::{Pod, PodGroup};
///
/// let gang = PodGroup::of("train", 2, Pod::new());
/// let gang = gang.owner(Owner::new("ada").group("research"));
/// assert_eq!(gang.owner.user, "ada");
/// ```
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "camelCase", default))]
pub struct Owner {
    /// The user; empty if it is not known. Then the groups are not read either.
    pub user: String,
    /// The groups of the user, in no order that means anything.
    pub groups: Vec<String>,
}

impl Owner {
    /// A user in no group.
    pub fn new(user: impl Into<String>) -> Owner {
        Owner { user: user.into(), groups: Vec::new() }
    }

    /// Adds a group of the user.
    #[must_use]
    pub fn group(mut self, group: impl Into<String>) -> Owner {
        self.groups.push(group.into());
        self
    }

    /// Whether the user is not known.
    pub fn is_none(&self) -> bool {
        self.user.is_empty()
    }
}

#[cfg(test)]
mod tests;
