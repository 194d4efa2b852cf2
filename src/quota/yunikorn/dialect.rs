//! Tenants as YuniKorn has them.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::cmp::Reverse;

use super::guarantees::{Guarantees, is_over_guarantee, is_under_guarantee};
use super::queues::{QueueState, Queues, YuniKornPreemptionPolicy};
use super::resource::Resource;
use super::resources;
use super::settings::YuniKornSettings;
use crate::quota::claim::{AssignmentMode, Claim, HolderId, Usage};
use crate::quota::dialect::Peer;
use crate::quota::peer::Candidate;
use crate::quota::queue::QueueKind;
use crate::quota::tenants::Tenants;
use crate::quota::tree::{FlavorResource, QueueId, QueueTree};

impl Tenants {
    /// YuniKorn's semantics: limits on the path, and preemption for what is guaranteed.
    ///
    /// A queue's guarantee is its `guaranteed`, its limit the `max`. What the nodes have is the
    /// guarantee of the inner queue `root`, in which every queue stands that names no parent.
    ///
    /// ```
    /// use phalanx::Time;
    /// use phalanx::model::Amounts;
    /// use phalanx::quota::{Claim, Flavor, AssignmentMode, PodSet, Queue, Quota, Tenants};
    ///
    /// let mut tenants = Tenants::yunikorn();
    /// tenants.set_flavor(Flavor::new("all"));
    /// tenants.set_queue(Queue::inner("root").quota("all", "gpu", Quota::nominal(16)))?;
    /// for team in ["vision", "speech"] {
    ///     tenants.set_queue(Queue::leaf(team).quota("all", "gpu", Quota::nominal(8)))?;
    /// }
    /// let gang = |name: &str, queue: &str, gpus: i64| {
    ///     let mut requests = Amounts::new();
    ///     requests.set("gpu", gpus);
    ///     Claim::new(name, queue).pods(PodSet::new("main", 1, requests))
    /// };
    /// for name in ["one", "two", "three", "four"] {
    ///     let claim = gang(name, "vision", 4);
    ///     let decision = tenants.decide(&claim)?;
    ///     tenants.admit(&claim, &decision.assignment, Time::ZERO)?;
    /// }
    /// let decision = tenants.decide(&gang("own", "speech", 8))?;
    /// assert_eq!((decision.assignment.mode, decision.victims.len()), (AssignmentMode::Preempt, 2));
    /// // Nothing is taken back beyond the guarantee.
    /// assert!(tenants.decide(&gang("own", "speech", 9))?.victims.is_empty());
    /// # Ok::<(), phalanx::quota::QuotaError>(())
    /// ```
    pub fn yunikorn() -> Tenants {
        Tenants::yunikorn_with(YuniKornSettings::default())
    }

    /// YuniKorn's semantics with settings.
    pub fn yunikorn_with(settings: YuniKornSettings) -> Tenants {
        Tenants::of_peer(Peer::YuniKorn(settings))
    }

    /// The decision on what a claim of an active leaf would use.
    pub(in crate::quota) fn judge_yunikorn(
        &self,
        settings: &YuniKornSettings,
        queue: QueueId,
        claim: &Claim,
        usage: &Usage,
    ) -> (AssignmentMode, Vec<HolderId>) {
        let fits = |freed: &[(QueueId, Usage)]| {
            usage.iter().all(|&(of, amount)| {
                self.tree().path(queue).all(|at| self.room(at, of, freed) >= amount)
            })
        };
        if fits(&[]) {
            return (AssignmentMode::Fit, Vec::new());
        }
        (AssignmentMode::Preempt, self.guaranteed_victims(settings, queue, claim, usage, fits))
    }

    /// Amount that a queue itself may still use once others have given back.
    fn room(&self, at: QueueId, of: FlavorResource, freed: &[(QueueId, Usage)]) -> i64 {
        let tree = self.tree();
        let below = freed.iter().filter(|(leaf, _)| tree.path(*leaf).any(|above| above == at));
        let amounts = below.flat_map(|(_, usage)| usage).filter(|(own, _)| *own == of);
        let freed: i64 = amounts.map(|(_, amount)| *amount).sum();
        self.most(at, of).saturating_sub(tree.sums(at, of).used).saturating_add(freed)
    }

    /// Holders of other queues that are beyond their guarantees, so that the claim's queue has what is
    /// guaranteed to it; none if that does not suffice, or is not so.
    fn guaranteed_victims(
        &self,
        settings: &YuniKornSettings,
        queue: QueueId,
        claim: &Claim,
        usage: &Usage,
        fits: impl Fn(&[(QueueId, Usage)]) -> bool,
    ) -> Vec<HolderId> {
        let tree = self.tree();
        let queues = states(tree, settings);
        let (path, ask) = (path(tree, queue), amounts(tree, usage));
        let mut left = Guarantees::new(&queues, Some(&path));
        left.add(&path, &ask);
        let Some(fence) = Fence::new(&queues, &path, &ask, claim.priority) else {
            return Vec::new();
        };
        let (mut victims, mut freed) = (Vec::new(), Vec::new());
        let mut all: Vec<Candidate<'_>> = self.candidates();
        // The newest first, whatever their priorities.
        all.sort_by_key(|own| Reverse(own.holder.reserved));
        for own in all {
            let from = self::path(tree, own.holder.queue);
            let has = amounts(tree, &own.holder.usage);
            let may = own.holder.queue != queue
                && resources::match_any(Some(&ask), Some(&has))
                && fence.lets(&queues, &from, own.holder.priority);
            let before = left.remaining(&from);
            if !may || !(before.is_none() || is_over_guarantee(Some(&ask), before.as_ref())) {
                continue;
            }
            left.take(&from, &has);
            victims.push(own.id);
            freed.push((own.holder.queue, own.holder.usage.clone()));
            if fits(&freed) && is_under_guarantee(Some(&ask), left.remaining(&path).as_ref()) {
                return victims;
            }
        }
        Vec::new()
    }
}

fn amounts(tree: &QueueTree, usage: &[(FlavorResource, i64)]) -> Resource {
    let mut sum = Resource::new();
    for &(of, amount) in usage {
        let own = sum.entry(tree.names(of).1.to_string()).or_default();
        *own = own.saturating_add(amount);
    }
    sum
}

/// The path of a queue as a text. A name that is a path already is taken as it is.
fn path(tree: &QueueTree, queue: QueueId) -> String {
    let mut names: Vec<QueueId> = tree.path(queue).collect();
    names.reverse();
    let mut path = String::new();
    for name in names.iter().filter_map(|at| tree.spec(*at)).map(|spec| spec.name.as_str()) {
        let below = name.strip_prefix(&path).is_some_and(|rest| rest.starts_with('.'));
        path = if path.is_empty() || below { name.into() } else { format!("{path}.{name}") };
    }
    path
}

/// The queues as YuniKorn has them.
fn states(tree: &QueueTree, settings: &YuniKornSettings) -> Queues {
    let all = tree.queues(QueueKind::Inner).chain(tree.queues(QueueKind::Leaf));
    Queues::new(all.filter_map(|at| {
        let spec = tree.spec(at)?;
        let root = tree.parent(at).is_none();
        let rules = settings.rules.get(&spec.name).copied().unwrap_or_default();
        let (mut most, mut guaranteed) = (Resource::new(), Resource::new());
        let mut used = Vec::new();
        for (of, _) in tree.books(at) {
            let (name, sums) = (tree.names(of).1, tree.sums(at, of));
            used.push((of, sums.used));
            let quota = tree.quota(at, of);
            let limit = quota.and_then(|quota| quota.limit);
            if let Some(limit) = if root { Some(sums.nominal) } else { limit } {
                most.insert(name.into(), limit);
            }
            // Without a guarantee, not one of nothing.
            if let Some(quota) = quota.filter(|quota| !root && quota.nominal > 0) {
                guaranteed.insert(name.into(), quota.nominal);
            }
        }
        let closed = |at: QueueId| {
            let rules = tree.spec(at).and_then(|spec| settings.rules.get(&spec.name));
            rules.is_some_and(|rules| rules.preemption == YuniKornPreemptionPolicy::Disabled)
        };
        let disabled = tree.path(at).any(closed);
        Some(QueueState {
            path: path(tree, at),
            parent: tree.parent(at).map(|above| path(tree, above)),
            leaf: spec.kind == QueueKind::Leaf,
            max: (!most.is_empty()).then_some(most),
            guaranteed: (!guaranteed.is_empty()).then_some(guaranteed),
            allocated: Some(amounts(tree, &used)),
            pending: None,
            priority: rules.priority,
            preemption: if disabled {
                YuniKornPreemptionPolicy::Disabled
            } else {
                rules.preemption
            },
        })
    }))
}

/// How far a claim may take from others: up to the first queue on its path that is fenced, or that is
/// full.
struct Fence {
    top: String,
    /// By path, the priority that counts there.
    priorities: BTreeMap<String, i64>,
}

impl Fence {
    fn new(queues: &Queues, path: &str, ask: &Resource, priority: i64) -> Option<Fence> {
        let mut fence = Fence { top: String::new(), priorities: BTreeMap::new() };
        let mut priority = priority;
        for queue in queues.path(path).into_iter().rev() {
            let offset = i64::from(queue.priority.offset);
            priority = if queue.priority.fence { offset } else { priority.saturating_add(offset) };
            fence.priorities.insert(queue.path.clone(), priority);
            fence.top.clone_from(&queue.path);
            if queue.preemption == YuniKornPreemptionPolicy::Fence || !queues.fits(&queue.path, ask)
            {
                break;
            }
        }
        (!fence.top.is_empty()).then_some(fence)
    }

    /// Whether a holder of a leaf may be taken: it is below the fence, open to preemption, and its
    /// priority is no higher where the two paths meet.
    fn lets(&self, queues: &Queues, leaf: &str, priority: i64) -> bool {
        let mut priority = priority;
        for queue in queues.path(leaf).into_iter().rev() {
            if queue.preemption == YuniKornPreemptionPolicy::Disabled {
                return false;
            }
            if let Some(own) = self.priorities.get(&queue.path) {
                return priority <= *own;
            }
            let offset = i64::from(queue.priority.offset);
            priority = if queue.priority.fence { offset } else { priority.saturating_add(offset) };
        }
        false
    }
}
