//! The sequential strategy, plainly: the reference for everything faster.
//!
//! For each candidate domain: for each member in order: filter every node, score every feasible
//! node, take the best, assume it, go on. Then the best domain. Nested groups recurse, and see
//! what their siblings before them took.
//!
//! Source: kube-scheduler 1.36, `schedule_one_podgroup.go`; KEP-5732, KEP-6012.

use alloc::string::{String, ToString};
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;
use core::cmp::Reverse;

use super::domains::{Candidate, running, tiers};
use super::error::PlaceError;
use super::request::Request;
use crate::framework::device_choice::choose_for;
use crate::framework::{DomainContext, Evaluation, Framework, Normalization};
use crate::model::{Pod, PodGroup, PodShape};
use crate::state::plan::PlanDomain;
use crate::state::{Cluster, Row, Txn};

/// Members that were placed, in order, and the domains their groups are confined to.
#[derive(Debug, Clone, Default)]
pub(crate) struct Layout<'a> {
    pub(crate) members: Vec<Member<'a>>,
    pub(crate) domains: Vec<PlanDomain>,
}

/// A member and its row.
#[derive(Debug, Clone)]
pub(crate) struct Member<'a> {
    pub(crate) leaf: &'a PodGroup,
    pub(crate) pod: &'a Pod,
    pub(crate) row: Row,
    /// The devices chosen for it, if it asks for any.
    pub(crate) devices: Option<Arc<[Vec<u32>]>>,
}

/// The strategy at work.
pub(crate) struct Sequential<'a> {
    pub(crate) framework: &'a Framework,
    pub(crate) request: &'a Request<'a>,
}

/// What one candidate domain came to, for those who compare with other schedulers.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct DomainTrial {
    /// The label value; empty where the group is not confined.
    pub name: String,
    /// The members placed, by index, with the names of their nodes.
    pub placed: Vec<(usize, String)>,
    /// Whether enough members were placed.
    pub feasible: bool,
    /// Domain-level scores, normalised and weighted, in the order of the framework; empty if the
    /// domain is not feasible.
    pub scores: Vec<i64>,
}

/// Tries a group without subgroups in every candidate domain of its first tier, each on the
/// cluster as it is, and tells what came of each. Under the sequential strategy.
///
/// # Errors
/// As [`place_gang`](super::place_gang).
pub fn trials<'a>(
    cluster: &Cluster,
    framework: &Framework,
    request: impl Into<Request<'a>>,
) -> Result<Vec<DomainTrial>, PlaceError> {
    let request = request.into();
    request.group().check()?;
    let strategy = Sequential { framework, request: &request };
    let group = request.group();
    let mut txn = cluster.txn();
    let rows = all_rows(&txn, &request);
    let mut trials = Vec::new();
    let Some(tier) = tiers(&txn, group, &rows)?.into_iter().next() else { return Ok(trials) };
    let mut feasible = Vec::new();
    for candidate in &tier.candidates {
        let before = txn.checkpoint();
        let mut layout = Layout::default();
        let fits = strategy.fill(&mut txn, group, &candidate.rows, &mut layout)?;
        txn.rollback(before)?;
        let index =
            |member: &Member<'_>| group.pods.iter().position(|pod| core::ptr::eq(pod, member.pod));
        let placed = layout
            .members
            .iter()
            .filter_map(|member| Some((index(member)?, txn.view(member.row)?.name().to_string())));
        trials.push(DomainTrial {
            name: candidate.value.map_or("", |value| txn.label_text(value)).to_string(),
            placed: placed.collect(),
            feasible: fits,
            scores: Vec::new(),
        });
        if fits {
            feasible.push((trials.len() - 1, candidate, layout));
        }
    }
    let contexts: Vec<_> =
        feasible.iter().map(|(_, candidate, layout)| (*candidate, layout)).collect();
    let scores = strategy.domain_scores(&txn, group, &contexts);
    for ((trial, _, _), scores) in feasible.iter().zip(scores) {
        trials[*trial].scores = scores;
    }
    Ok(trials)
}

/// The rows a request may use, in the order of ties.
pub(crate) fn all_rows(cluster: &Cluster, request: &Request<'_>) -> Vec<Row> {
    let nodes = cluster.nodes();
    match &request.within {
        None => nodes.map(|node| node.row()).collect(),
        Some(domain) => nodes
            .filter(|node| node.has_label(&domain.key, &domain.value))
            .map(|node| node.row())
            .collect(),
    }
}

impl<'a> Sequential<'a> {
    /// Places a group in the best of its domains within `rows`, or leaves the transaction as it
    /// was. Returns whether the group counts.
    pub(crate) fn place(
        &self,
        txn: &mut Txn,
        group: &'a PodGroup,
        rows: &[Row],
        layout: &mut Layout<'a>,
    ) -> Result<bool, PlaceError> {
        refuse_unsupported(group)?;
        for tier in tiers(txn, group, rows)? {
            let mut found: Vec<(&Candidate, Layout<'a>)> = Vec::new();
            for candidate in &tier.candidates {
                let before = txn.checkpoint();
                let mut trial = Layout::default();
                if self.fill(txn, group, &candidate.rows, &mut trial)? {
                    found.push((candidate, trial));
                }
                txn.rollback(before)?;
            }
            let contexts: Vec<_> =
                found.iter().map(|(candidate, trial)| (*candidate, trial)).collect();
            let totals: Vec<i64> = if found.len() > 1 {
                self.domain_scores(txn, group, &contexts)
                    .iter()
                    .map(|scores| scores.iter().sum())
                    .collect()
            } else {
                vec![0; found.len()]
            };
            // Candidates are in order of name, so the first of the best is the one to take.
            let best = (0..found.len()).min_by_key(|&index| (Reverse(totals[index]), index));
            let Some(best) = best else { continue };
            let (candidate, trial) = found.swap_remove(best);
            for member in &trial.members {
                txn.place_with(member.pod, member.row, member.devices.clone())?;
            }
            let first = layout.members.len();
            let end = first + trial.members.len();
            if let (Some(key), Some(value)) = (tier.key, candidate.value) {
                let value = txn.label_text(value).to_string();
                layout.domains.push(PlanDomain {
                    group: group.full_name(),
                    key,
                    value,
                    first,
                    end,
                });
            }
            layout.domains.extend(trial.domains.into_iter().map(|mut domain| {
                domain.first += first;
                domain.end += first;
                domain
            }));
            layout.members.extend(trial.members);
            return Ok(true);
        }
        Ok(false)
    }

    /// Places members or subgroups in order within `rows`, whatever is possible, and returns
    /// whether the group counts.
    fn fill(
        &self,
        txn: &mut Txn,
        group: &'a PodGroup,
        rows: &[Row],
        layout: &mut Layout<'a>,
    ) -> Result<bool, PlaceError> {
        let mut count = 0;
        for subgroup in &group.groups {
            if self.place(txn, subgroup, rows, layout)? || runs(txn, subgroup) {
                count += 1;
            }
        }
        for pod in group.pods.iter().filter(|pod| pod.scheduling_gates.is_empty()) {
            if let Some(row) = self.best_row(txn, group, pod, rows) {
                let now = self.request.now;
                let chosen =
                    choose_for(self.framework, txn, pod.shape(), Some(group), now, row).devices();
                // A row without devices for the pod is only found best where no filter looks at
                // them; the pod stays unplaced then.
                let Ok(devices) = chosen else { continue };
                txn.place_with(pod, row, devices.clone())?;
                layout.members.push(Member { leaf: group, pod, row, devices });
                count += 1;
            }
        }
        if group.groups.is_empty() {
            count += running(txn, group);
        }
        Ok(count >= group.policy.minimum() as usize)
    }

    /// The best of the feasible rows for a pod.
    fn best_row(&self, txn: &Txn, leaf: &PodGroup, pod: &Pod, rows: &[Row]) -> Option<Row> {
        let mut evaluation =
            Evaluation::new(self.framework, txn, pod.shape(), Some(leaf), self.request.now);
        let passes = |row: &Row| txn.view(*row).is_some_and(|node| evaluation.filter(node).is_ok());
        let feasible: Vec<Row> = rows.iter().copied().filter(passes).collect();
        let totals = evaluation.totals(&feasible);
        let key = |&(row, total): &(Row, i64)| {
            (Reverse(total), tie(txn, row, self.request.salt), txn.columns.rank[row])
        };
        feasible.into_iter().zip(totals).min_by_key(key).map(|(row, _)| row)
    }

    /// Normalised, weighted scores of domains: one list a domain, one score a plugin.
    fn domain_scores(
        &self,
        cluster: &Cluster,
        group: &PodGroup,
        domains: &[(&Candidate, &Layout<'_>)],
    ) -> Vec<Vec<i64>> {
        let running = running(cluster, group);
        let mut all: Vec<Vec<i64>> = vec![Vec::new(); domains.len()];
        for (weight, plugin) in self.framework.domain_scores() {
            let raws: Vec<i64> = domains
                .iter()
                .map(|(candidate, layout)| {
                    let proposed: Vec<(&PodShape, Row)> = layout
                        .members
                        .iter()
                        .map(|member| (&**member.pod.shape(), member.row))
                        .collect();
                    plugin.score(&DomainContext {
                        cluster,
                        group,
                        rows: &candidate.rows,
                        proposed: &proposed,
                        running,
                    })
                })
                .collect();
            let high = raws.iter().copied().max().unwrap_or(0);
            for (scores, raw) in all.iter_mut().zip(raws) {
                scores.push(weight * scale(plugin.normalization(), raw, high));
            }
        }
        all
    }
}

fn scale(normalization: Normalization, raw: i64, high: i64) -> i64 {
    let high = i128::from(high);
    let proportion = |raw: i64| (100 * i128::from(raw) / high) as i64;
    match normalization {
        Normalization::Max if high > 0 => proportion(raw).clamp(0, 100),
        Normalization::MaxReversed if high > 0 => 100 - proportion(raw).clamp(0, 100),
        Normalization::MaxReversed => 100,
        _ => raw.clamp(0, 100),
    }
}

/// Whether enough of a subgroup runs for it to count without more.
fn runs(cluster: &Cluster, group: &PodGroup) -> bool {
    let have = if group.groups.is_empty() {
        running(cluster, group)
    } else {
        group.groups.iter().filter(|subgroup| runs(cluster, subgroup)).count()
    };
    have >= group.policy.minimum() as usize
}

/// What decides between equal scores before the order of nodes does.
pub(crate) fn tie(cluster: &Cluster, row: Row, salt: u64) -> u64 {
    if salt == 0 {
        return 0;
    }
    let name = cluster.view(row).map_or("", |node| node.name());
    crate::base::hash::hash_of(&(salt, name))
}

fn refuse_unsupported(group: &PodGroup) -> Result<(), PlaceError> {
    let topology = &group.topology;
    let what = if !topology.slices.is_empty() {
        "slices"
    } else if topology.spread.is_some() {
        "spreading over domains"
    } else if topology.balanced {
        "balanced domains"
    } else if topology.ranked {
        "ranked members"
    } else if group.leader {
        "leaders"
    } else {
        return Ok(());
    };
    Err(PlaceError::Unsupported { group: group.full_name(), what })
}
