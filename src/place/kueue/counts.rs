//! Phase 1: how many pods and slices every domain holds, from the leaves up.
//!
//! Source: Kueue's `tas_flavor_snapshot.go`.

use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use core::ops::Range;

use super::filter::{Filter, Mismatch};
use super::request::Plan;
use super::tree::{Demand, Tree};
use crate::place::failure::{Exclusions, KueueRoom, NoFit};

/// Capacity of a domain; once domains are chosen, its share.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Counts {
    pub(super) pods: i64,
    /// Pods if the leader is here too.
    pub(super) pods_with_leader: i64,
    /// Slices; 0 below the slice level.
    pub(super) slices: i64,
    /// Slices if the leader is here too.
    pub(super) slices_with_leader: i64,
    /// 1 if the leader has room.
    pub(super) leaders: i64,
    /// The sum of the hosts' affinity scores.
    pub(super) score: i64,
}

/// The unit in which pods are divided.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Measure {
    Pods,
    Slices,
}

impl Counts {
    pub(super) fn room(&self, measure: Measure, with_leader: bool) -> i64 {
        match (measure, with_leader) {
            (Measure::Pods, false) => self.pods,
            (Measure::Pods, true) => self.pods_with_leader,
            (Measure::Slices, false) => self.slices,
            (Measure::Slices, true) => self.slices_with_leader,
        }
    }
}

/// Input of a count.
pub(super) struct Question<'a> {
    pub(super) worker: &'a Demand,
    pub(super) leader: Option<&'a Demand>,
    pub(super) filter: &'a Filter<'a>,
    /// The only domain to look into, if a replacement is confined to one.
    pub(super) within: Option<usize>,
}

/// Leaves that were looked at, and reasons for which some were left out.
#[derive(Debug, Default)]
pub(super) struct Survey {
    pub(super) leaves: u64,
    pub(super) excluded: Exclusions,
}

impl Survey {
    pub(super) fn no_fit(&self, room: KueueRoom) -> NoFit {
        NoFit { room, nodes_considered: self.leaves, excluded: self.excluded.clone() }
    }
}

/// The counts of all domains.
pub(super) fn count(
    tree: &Tree,
    free: &[i64],
    question: &Question<'_>,
    plan: &Plan,
) -> (Vec<Counts>, Survey) {
    let mut counts = vec![Counts::default(); tree.domains.len()];
    let mut survey = Survey { leaves: tree.leaves.len() as u64, ..Survey::default() };
    let mut rest = Vec::new();
    for (at, leaf) in tree.leaves.iter().enumerate() {
        let mut score = 0;
        if let Some(node) = &leaf.node {
            match question.filter.check(node) {
                Ok(sum) => score = sum,
                Err(mismatch) => {
                    match mismatch {
                        Mismatch::KueueTaint(taint) => {
                            *survey.excluded.taints.entry(taint).or_default() += 1;
                        }
                        Mismatch::NodeSelector => survey.excluded.node_selector += 1,
                        Mismatch::Affinity => survey.excluded.affinity += 1,
                    }
                    continue;
                }
            }
        }
        let own = &mut counts[leaf.domain];
        own.score = score;
        let inside = |domain: usize| (domain..tree.domains[domain].end).contains(&leaf.domain);
        if !question.within.is_none_or(inside) {
            survey.excluded.topology_domain += 1;
            continue;
        }
        let free = &free[tree.row(at)];
        let (pods, limit) = question.worker.fits(free);
        if let (0, Some(resource)) = (pods, limit) {
            *survey.excluded.resources.entry(String::from(resource)).or_default() += 1;
        }
        own.pods = pods;
        own.pods_with_leader = pods;
        if let Some(leader) = question.leader
            && leader.fits(free).0 > 0
        {
            own.leaders = 1;
            rest.clear();
            rest.extend_from_slice(free);
            leader.take(&mut rest, 1);
            own.pods_with_leader = question.worker.fits(&rest).0;
        }
    }
    roll_up(tree, &mut counts, 0..tree.domains.len(), plan, &plan.inner);
    (counts, survey)
}

/// Sums the counts of a range of domains, which holds whole subtrees, from the leaves up.
///
/// The leader costs a domain as much as it costs the cheapest child that has room for it.
pub(super) fn roll_up(
    tree: &Tree,
    counts: &mut [Counts],
    range: Range<usize>,
    plan: &Plan,
    inner: &[Option<i64>],
) {
    for id in range.rev() {
        let domain = &tree.domains[id];
        let mut own = counts[id];
        if domain.children.is_empty() {
            if domain.level == plan.slice_level {
                own.slices = own.pods / plan.slice_size;
                own.slices_with_leader = own.pods_with_leader / plan.slice_size;
            }
            counts[id] = own;
            continue;
        }
        // Children hand up whole slices of the inner layer only.
        let unit = inner.get(domain.level + 1).copied().flatten().unwrap_or(1);
        own = Counts::default();
        let mut cost: Option<(i64, i64)> = None;
        for &child in &domain.children {
            let child = counts[child];
            let pods = child.pods / unit * unit;
            let pods_with_leader = child.pods_with_leader / unit * unit;
            own.pods += pods;
            own.slices += child.slices;
            own.leaders = own.leaders.max(child.leaders);
            own.score = own.score.saturating_add(child.score);
            if plan.leaders == 0 || child.leaders > 0 {
                let here = (pods - pods_with_leader, child.slices - child.slices_with_leader);
                let least = cost.unwrap_or(here);
                cost = Some((least.0.min(here.0), least.1.min(here.1)));
            }
        }
        if let Some((pods, slices)) = cost {
            own.pods_with_leader = own.pods - pods;
            own.slices_with_leader = own.slices - slices;
        }
        if domain.level == plan.slice_level {
            own.slices = own.pods / plan.slice_size;
            own.slices_with_leader = own.pods_with_leader / plan.slice_size;
        }
        counts[id] = own;
    }
}
