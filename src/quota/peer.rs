//! The common part of other schedulers' dialects.
//!
//! A resource has one flavor. What there is to divide is the guarantee of the inner queue `root`, in
//! which every queue stands that names no parent. A claim is given what it asks for whole, or fewer of
//! its pods where it says that they would do.

use alloc::vec::Vec;

use smallvec::SmallVec;

use super::amount::{MOST, UNLIMITED, minus};
use super::books::Holder;
use super::claim::{
    AssignmentMode, Claim, FlavorChoice, HolderId, PodSetAssignment, QuotaAssignment,
    QuotaDecision, QuotaVictim, Usage, VictimReason, add_usage,
};
use super::dialect::{Dialect, Peer};
use super::error::QuotaError;
use super::kueue::decide_reduced;
use super::peer_share::PeerShare;
use super::queue::{Queue, QueueKind};
use super::share::ShareValue;
use super::tenants::{KueueSettings, Tenants};
use super::tree::{FlavorResource, QueueId};
use super::volcano::VolcanoRule;
use crate::model::resources::PODS;

/// The queue that all others stand below.
pub(super) const ROOT: &str = "root";

/// A holder that may be named.
pub(super) struct Candidate<'a> {
    pub(super) id: HolderId,
    pub(super) holder: &'a Holder,
}

impl Tenants {
    /// Tenants in another scheduler's dialect.
    pub(super) fn of_peer(peer: Peer) -> Tenants {
        let mut tenants = Tenants::kueue_with(KueueSettings::default());
        tenants.rules.heads.fair = true;
        tenants.rules.heads.non_borrowing_first = false;
        let share = match &peer {
            Peer::Volcano(VolcanoRule::Capacity) => PeerShare::Deserved,
            Peer::Volcano(VolcanoRule::Proportion | VolcanoRule::Drf) => PeerShare::Whole,
            Peer::YuniKorn(_) => PeerShare::Guarantee,
        };
        if let Peer::YuniKorn(settings) = &peer {
            tenants.rules.heads.fair = settings.fair;
        }
        tenants.books.tree.peer_share = Some(share);
        tenants.dialect = Dialect::Peer(peer);
        tenants
    }

    /// A queue of such a dialect stands in the root if it names no parent, as does a parent that is
    /// only named; and its name is its alone.
    pub(super) fn below_root(&mut self, mut queue: Queue) -> Result<Queue, QuotaError> {
        if queue.kind == QueueKind::Inner && queue.name == ROOT {
            return Ok(queue);
        }
        self.check_name(&queue)?;
        let parent = queue.parent.get_or_insert_with(|| ROOT.into());
        if parent != ROOT && self.books.tree.queue(QueueKind::Inner, parent).is_none() {
            self.books.set_queue(Queue::inner(parent.as_str()).parent(ROOT))?;
        }
        Ok(queue)
    }

    /// In a dialect of another scheduler, what limits and the whole leave to a leaf of a resource;
    /// `None` in others. More than that it never has at once; it may have less.
    pub fn peer_room(&self, queue: QueueId, of: FlavorResource) -> Option<i64> {
        let Dialect::Peer(_) = self.dialect else { return None };
        let tree = &self.books.tree;
        tree.path(queue).map(|at| minus(self.most(at, of), tree.sums(at, of).used)).min()
    }

    /// The most of a resource that a queue itself may hold: its limit, and at the root what there is
    /// in all.
    pub(super) fn most(&self, at: QueueId, of: FlavorResource) -> i64 {
        let tree = &self.books.tree;
        let limit = tree.quota(at, of).and_then(|quota| quota.limit).unwrap_or(UNLIMITED);
        if tree.parent(at).is_none() { limit.min(tree.sums(at, of).nominal) } else { limit }
    }

    /// Whether an amount more fits into the capacity of the cluster, once another is freed.
    pub(super) fn has_whole(&self, queue: QueueId, usage: &Usage, freed: &Usage) -> bool {
        let tree = &self.books.tree;
        let Some(root) = tree.path(queue).last() else { return false };
        usage.iter().all(|&(of, amount)| {
            let freed = freed.iter().find(|(own, _)| *own == of).map_or(0, |(_, own)| *own);
            let sums = tree.sums(root, of);
            minus(sums.nominal, sums.used).saturating_add(freed) >= amount
        })
    }

    /// Whether limits, with nothing in use, let so much be.
    fn is_possible(&self, queue: QueueId, usage: &Usage) -> bool {
        let tree = &self.books.tree;
        usage.iter().all(|&(of, amount)| {
            amount <= MOST && tree.path(queue).all(|at| amount <= self.most(at, of))
        })
    }

    /// The holders below the root that may go, those that are leaving first, then lower priority, then the newest.
    pub(super) fn candidates(&self) -> Vec<Candidate<'_>> {
        let leaves = self.books.tree.queues(QueueKind::Leaf);
        let holders = leaves.flat_map(|leaf| self.books.holders(leaf));
        let candidate = |id| Some(Candidate { id, holder: self.books.holder(id)? });
        let mut all: Vec<Candidate<'_>> =
            holders.filter_map(candidate).filter(|own| !own.holder.stays()).collect();
        all.sort_by(|a, b| a.holder.key.cmp(&b.holder.key));
        all
    }

    /// The decision on a claim of an active leaf, by another scheduler's rules.
    pub(super) fn decide_peer(&self, peer: &Peer, queue: QueueId, claim: &Claim) -> QuotaDecision {
        decide_reduced(claim, |counts| self.attempt_peer(peer, queue, claim, counts))
    }

    fn attempt_peer(
        &self,
        peer: &Peer,
        queue: QueueId,
        claim: &Claim,
        counts: Option<&[u32]>,
    ) -> QuotaDecision {
        let (pod_sets, usage) = self.wanted_of_peer(queue, claim, counts);
        let (mode, victims) = if self.is_possible(queue, &usage) {
            match peer {
                Peer::Volcano(rule) => self.judge_volcano(*rule, queue, claim, &usage),
                Peer::YuniKorn(settings) => self.judge_yunikorn(settings, queue, claim, &usage),
            }
        } else {
            (AssignmentMode::NoFit, Vec::new())
        };
        let named = |id| {
            let own = self.books.holder(id).is_some_and(|holder| holder.queue == queue);
            let reason =
                if own { VictimReason::InClusterQueue } else { VictimReason::InCohortReclamation };
            QuotaVictim { holder: id, reason }
        };
        let mut assignment = QuotaAssignment { pod_sets, usage, mode, level: 0 };
        assignment.set_mode(mode);
        QuotaDecision { assignment, victims: victims.into_iter().map(named).collect() }
    }

    /// Usage of a claim, for the resources that a queue on its path has quota of.
    fn wanted_of_peer(
        &self,
        queue: QueueId,
        claim: &Claim,
        counts: Option<&[u32]>,
    ) -> (SmallVec<[PodSetAssignment; 1]>, Usage) {
        let tree = &self.books.tree;
        let (mut usage, mut sets) = (Usage::new(), SmallVec::new());
        let flavor_of = |resource: &str| {
            tree.path(queue).find_map(|at| {
                let flavors = tree.spec(at)?.groups.iter().flat_map(|group| &group.flavors);
                let mut flavors =
                    flavors.filter(|own| own.resources.iter().any(|(name, _)| name == resource));
                tree.flavor_resource(&flavors.next()?.name, resource)
            })
        };
        for (at, set) in claim.pod_sets.iter().enumerate() {
            let count = counts.and_then(|counts| counts.get(at).copied()).unwrap_or(set.count);
            let mut chosen = PodSetAssignment::new(at, count);
            let stated = set.requests.iter().filter(|(name, _)| *name != PODS);
            let stated = stated.map(|(name, amount)| (name, set.scaled(amount, count)));
            for (name, amount) in stated.chain([(PODS, i64::from(count))]) {
                let Some(of) = flavor_of(name).filter(|_| amount != 0) else { continue };
                chosen.flavors.push(FlavorChoice { of, mode: AssignmentMode::Fit, tried: None });
                chosen.requests.push(amount);
                add_usage(&mut usage, of, amount);
            }
            sets.push(chosen);
        }
        (sets, usage)
    }

    /// The share of a queue by the rule of the dialect.
    pub(super) fn peer_share(&self, at: u32, more: &Usage) -> ShareValue {
        super::share::borrowed_share(&self.books.tree, &self.books.tree.cells, at, more)
    }
}
