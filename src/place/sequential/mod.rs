//! The sequential strategy.
//!
//! For each candidate domain: for each member in order: filter every node, score every feasible
//! node, take the best, assume it, go on. Then the best domain. Nested groups recurse, and see
//! what their siblings before them took.
//!
//! The strategy is written once, over an `Engine` that knows how to fill a leaf: the
//! `ReferenceEngine` one is the executable definition, the fast one is held equal to it by tests.
//!
//! Source: kube-scheduler 1.36, `schedule_one_podgroup.go`; KEP-5732, KEP-6012.

mod counted;
mod fill;
#[cfg(feature = "parallel")]
mod parallel;
pub(crate) mod reference;
pub(crate) mod run;
pub(crate) mod strategy;
pub(crate) mod tables;

use alloc::string::{String, ToString};
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;
use core::cmp::Reverse;

use self::reference::ReferenceEngine;
use super::error::PlaceError;
use super::gang::Gang;
use super::layout::{Layout, Member};
use super::request::Request;
use crate::framework::{DomainContext, DomainSums, Framework, Normalization};
use crate::model::{IslandRule, PodGroup, PodShape};
use crate::place::topology::candidates::{Candidate, Tier, all_rows, home, running, tiers};
use crate::place::topology::totals::{Totals, TotalsOf};
use crate::state::plan::PlanDomain;
use crate::state::{Cluster, DeviceTerm, LabelKey, Overlay, Row};

/// Where members are placed and taken back.
pub(crate) trait Engine {
    /// The cluster as it was when the request came.
    fn cluster(&self) -> &Cluster;

    /// The cluster with what was placed, or as it was beside an overlay.
    fn state(&self) -> &Cluster;

    /// What was placed, where the state does not have it.
    fn overlay(&self) -> Option<&Overlay>;

    /// This point, to go back to.
    fn mark(&self) -> usize;

    /// Takes back what was placed since a point.
    fn rollback(&mut self, mark: usize) -> Result<(), PlaceError>;

    /// Places one member on a row.
    fn take(&mut self, member: &Member) -> Result<(), PlaceError>;

    /// Places the members of a leaf in order, each on its best row within `rows` (`None`: all),
    /// and skips those that do not fit. `first` is the place of the first member.
    fn fill(
        &mut self,
        leaf: &PodGroup,
        first: usize,
        rows: Option<&[Row]>,
        placed: &mut Vec<Member>,
    ) -> Result<(), PlaceError>;

    /// Whether it is clear, without placing, that fewer than `wanted` members of a leaf fit.
    fn is_hopeless(
        &self,
        first: usize,
        members: usize,
        wanted: usize,
        rows: Option<&[Row]>,
    ) -> bool;

    /// How many members of a leaf would be placed in each candidate, if that can be told from
    /// counts.
    fn counts(
        &mut self,
        leaf: &PodGroup,
        first: usize,
        candidates: &[Candidate],
    ) -> Option<Vec<usize>> {
        let _ = (leaf, first, candidates);
        None
    }

    /// What comes of each candidate of a group, tried side by side on the ground as it is; `None`
    /// if this ground tries one after another.
    fn trials(
        &mut self,
        group: (&PodGroup, usize),
        candidates: (&[Candidate], Option<&[Row]>),
        prune: bool,
    ) -> Option<Result<Vec<Option<Layout>>, PlaceError>> {
        let _ = (group, candidates, prune);
        None
    }

    /// The islands within `rows` that a group may be confined to, or none if this ground does not
    /// know them.
    fn islands(
        &mut self,
        group: &PodGroup,
        rows: Option<&[Row]>,
        prune: bool,
    ) -> Result<Arc<[Candidate]>, PlaceError> {
        let _ = (group, rows, prune);
        Ok(Arc::from([]))
    }

    /// Has what is filled from now on stay within an island, or no longer.
    fn confine(&mut self, island: Option<DeviceTerm>) {
        let _ = island;
    }

    /// The island that what is filled stays within.
    fn confinement(&self) -> Option<DeviceTerm> {
        None
    }

    /// The only candidate of a group that is not confined.
    fn unconfined(&mut self) -> Arc<[Candidate]> {
        Arc::from([Candidate::whole()])
    }

    /// An empty list to put members in.
    fn spare(&mut self) -> Vec<Member> {
        Vec::new()
    }

    /// The parts that a label's values make of `rows`, in order of value.
    fn partition(&mut self, rows: Option<&[Row]>, key: LabelKey) -> Arc<[Candidate]>;
}

/// What is proposed for one domain: pods with their rows, or how many there are of a shape.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Proposal<'a> {
    pub(crate) rows: &'a [Row],
    pub(crate) proposed: &'a [(&'a PodShape, Row)],
    pub(crate) counted: &'a [(&'a PodShape, usize)],
}

/// The strategy at work.
pub(crate) struct Sequential<'a, G> {
    pub(crate) framework: &'a Framework,
    pub(crate) ground: G,
    /// Whether to pass over domains that cannot do, without trying them.
    pub(crate) prune: bool,
}

/// What one candidate domain came to, for those who compare with other schedulers.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct DomainTrial {
    /// The label value or the name of the island; empty where the group is not confined.
    pub name: String,
    /// The members placed, by index, with the names of their nodes.
    pub placed: Vec<(usize, String)>,
    /// Whether enough members were placed.
    pub feasible: bool,
    /// Domain-level scores, normalised and weighted, in the order of the framework; empty if the
    /// domain is not feasible.
    pub scores: Vec<i64>,
}

/// Tries a group in every candidate domain of its first tier, each on the cluster as it is, and
/// tells what came of each. Under the sequential strategy, with the plain loop.
///
/// # Errors
/// As [`place_gang`](super::place_gang).
pub fn trials<'a>(
    cluster: &Cluster,
    framework: &Framework,
    request: impl Into<Request<'a>>,
) -> Result<Vec<DomainTrial>, PlaceError> {
    let request = request.into();
    let gang = request.gang()?;
    let group = gang.group();
    let rows = request.rows(cluster);
    let ground = ReferenceEngine::new(cluster, framework, &gang, &request);
    let mut strategy = Sequential { framework, ground, prune: false };
    let Some(tier) = tiers(cluster, group).into_iter().next() else { return Ok(Vec::new()) };
    let candidates = strategy.candidates(group, rows.as_deref(), &tier)?;
    let mut trials = Vec::new();
    let mut feasible = Vec::new();
    for candidate in candidates.iter() {
        let mut layout = Layout::default();
        let fits =
            strategy.try_candidate(&gang, group, 0, (candidate, rows.as_deref()), &mut layout)?;
        strategy.ground.rollback(0)?;
        let name_of = |row| cluster.view(row).map_or("", |node| node.name()).to_string();
        trials.push(DomainTrial {
            name: match (candidate.value, candidate.island) {
                (Some(value), _) => cluster.label_text(value).to_string(),
                (None, Some(island)) => cluster.device_text(island).to_string(),
                (None, None) => String::new(),
            },
            placed: layout.members.iter().map(|m| (m.number as usize, name_of(m.row))).collect(),
            feasible: fits,
            scores: Vec::new(),
        });
        if fits {
            feasible.push((trials.len() - 1, candidate, layout));
        }
    }
    let whole = all_rows(cluster);
    let contexts: Vec<_> = feasible
        .iter()
        .map(|(_, candidate, layout)| (candidate.rows(rows.as_deref()).unwrap_or(&whole), layout))
        .collect();
    let scores = strategy.domain_scores(&gang, group, &contexts);
    for ((trial, _, _), scores) in feasible.iter().zip(scores) {
        trials[*trial].scores = scores;
    }
    Ok(trials)
}

impl<G: Engine> Sequential<'_, G> {
    /// Places a group in the best of its domains within `rows`, or leaves the ground as it was.
    /// Returns whether the group counts. `first` is the place of its first member.
    pub(crate) fn place(
        &mut self,
        gang: &Gang,
        group: &PodGroup,
        first: usize,
        rows: Option<&[Row]>,
        layout: &mut Layout,
    ) -> Result<bool, PlaceError> {
        refuse_unsupported(group)?;
        for tier in tiers(self.ground.cluster(), group) {
            let candidates = self.candidates(group, rows, &tier)?;
            let mut found: Vec<(&Candidate, Layout)> = Vec::new();
            if let Some((candidate, trial)) =
                self.place_counted(gang, group, first, rows, &candidates)?
            {
                self.adopt(group, &tier, candidate, trial, layout);
                return Ok(true);
            }
            let mark = self.ground.mark();
            let first_is_best = self.framework.domain_scores().is_empty();
            let mut trials = if first_is_best {
                None
            } else {
                self.ground.trials((group, first), (&candidates, rows), self.prune).transpose()?
            };
            if let Some(trials) = &mut trials {
                let trials = candidates.iter().zip(trials.drain(..));
                found.extend(trials.filter_map(|(candidate, trial)| Some((candidate, trial?))));
            }
            for candidate in candidates.iter().filter(|_| trials.is_none()) {
                let within = candidate.rows(rows);
                if self.prune && self.is_hopeless(group, first, within) {
                    continue;
                }
                let mut trial = Layout { members: self.ground.spare(), domains: Vec::new() };
                let fits = self.try_candidate(gang, group, first, (candidate, rows), &mut trial)?;
                if fits && (candidates.len() == 1 || first_is_best) {
                    // Nothing to compare with: what was placed stays.
                    self.adopt(group, &tier, candidate, trial, layout);
                    return Ok(true);
                }
                self.ground.rollback(mark)?;
                if fits {
                    found.push((candidate, trial));
                }
            }
            let contexts: Vec<_> = found
                .iter()
                .map(|(candidate, trial)| (candidate.rows(rows).unwrap_or(&[]), trial))
                .collect();
            let totals: Vec<i64> = if found.len() > 1 {
                let scores = self.domain_scores(gang, group, &contexts);
                scores.iter().map(|scores| scores.iter().sum()).collect()
            } else {
                vec![0; found.len()]
            };
            // Candidates are in order of name, so the first of the best is the one to take.
            let best = (0..found.len()).min_by_key(|&index| (Reverse(totals[index]), index));
            let Some(best) = best else { continue };
            let (candidate, trial) = found.swap_remove(best);
            for member in &trial.members {
                self.ground.take(member)?;
            }
            self.adopt(group, &tier, candidate, trial, layout);
            return Ok(true);
        }
        Ok(false)
    }

    /// Places members or subgroups within a candidate, whatever is possible, and returns whether
    /// the group counts.
    pub(crate) fn try_candidate(
        &mut self,
        gang: &Gang,
        group: &PodGroup,
        first: usize,
        (candidate, rows): (&Candidate, Option<&[Row]>),
        layout: &mut Layout,
    ) -> Result<bool, PlaceError> {
        let outer = self.ground.confinement();
        self.ground.confine(candidate.island.or(outer));
        let fits = self.fill_group(gang, group, first, candidate.rows(rows), layout);
        self.ground.confine(outer);
        fits
    }

    fn adopt(
        &self,
        group: &PodGroup,
        tier: &Tier,
        candidate: &Candidate,
        trial: Layout,
        layout: &mut Layout,
    ) {
        let first = layout.members.len();
        let end = first + trial.members.len();
        let cluster = self.ground.cluster();
        if let (Tier::Label(key), Some(value)) = (tier, candidate.value) {
            let (key, value) = (key.clone(), cluster.label_text(value).to_string());
            let group = group.full_name();
            layout.domains.push(PlanDomain { group, key, value, first, end, island: false });
        } else if let (Some(island), Some(&[row])) = (candidate.island, candidate.rows(None)) {
            let key = cluster.view(row).map_or("", |node| node.name()).to_string();
            let value = cluster.device_text(island).to_string();
            let group = group.full_name();
            layout.domains.push(PlanDomain { group, key, value, first, end, island: true });
        }
        layout.domains.extend(trial.domains.into_iter().map(|mut domain| {
            domain.first += first;
            domain.end += first;
            domain
        }));
        if layout.members.is_empty() {
            layout.members = trial.members;
        } else {
            layout.members.extend(trial.members);
        }
    }

    /// The candidate domains of a tier.
    fn candidates(
        &mut self,
        group: &PodGroup,
        rows: Option<&[Row]>,
        tier: &Tier,
    ) -> Result<Arc<[Candidate]>, PlaceError> {
        let key = match tier {
            Tier::Whole => return Ok(self.ground.unconfined()),
            // Within an island, an island is no further confinement.
            Tier::Island if self.ground.confinement().is_some() => {
                return Ok(Arc::from([Candidate::whole()]));
            }
            Tier::Island => {
                return match self.ground.islands(group, rows, self.prune) {
                    Err(PlaceError::Scattered { .. })
                        if group.topology.island != IslandRule::Required =>
                    {
                        Ok(Arc::from([]))
                    }
                    islands => islands,
                };
            }
            Tier::Label(key) => key,
        };
        let Some(id) = self.ground.cluster().label_key(key) else { return Ok(Arc::from([])) };
        // Members that run already decide where the others go. If they are in several domains,
        // there is none that could be preferred.
        let home = match home(self.ground.cluster(), group, key) {
            Err(_) if group.topology.require.as_deref() != Some(key) => return Ok(Arc::from([])),
            home => home?,
        };
        let parts = self.ground.partition(rows, id);
        Ok(match home {
            None => parts,
            Some(home) => parts.iter().filter(|part| part.value == Some(home)).cloned().collect(),
        })
    }

    /// Places members or subgroups in order within `rows`, whatever is possible, and returns
    /// whether the group counts.
    fn fill_group(
        &mut self,
        gang: &Gang,
        group: &PodGroup,
        first: usize,
        rows: Option<&[Row]>,
        layout: &mut Layout,
    ) -> Result<bool, PlaceError> {
        let minimum = group.policy.minimum() as usize;
        if group.groups.is_empty() {
            let before = layout.members.len();
            self.ground.fill(group, first, rows, &mut layout.members)?;
            let placed = layout.members.len() - before;
            return Ok(
                placed >= minimum || placed + running(self.ground.cluster(), group) >= minimum
            );
        }
        let mut count = 0;
        let mut member = first;
        let before = layout.members.len();
        for subgroup in &group.groups {
            if self.place(gang, subgroup, member, rows, layout)?
                || runs(self.ground.cluster(), subgroup)
            {
                count += 1;
            }
            member += subgroup.pod_count();
        }
        let enough_pods = group.min_pods.is_none_or(|least| {
            let placed = layout.members.len() - before;
            placed + running(self.ground.cluster(), group) >= least as usize
        });
        Ok(count >= minimum && enough_pods)
    }

    pub(crate) fn is_hopeless(&self, group: &PodGroup, first: usize, rows: Option<&[Row]>) -> bool {
        if !group.groups.is_empty() {
            return false;
        }
        let wanted = group.policy.minimum() as usize;
        let wanted = wanted.saturating_sub(running(self.ground.cluster(), group));
        self.ground.is_hopeless(first, group.pods.len(), wanted, rows)
    }

    /// Normalised, weighted scores of domains: one list a domain, one score a plugin.
    fn domain_scores(
        &self,
        gang: &Gang,
        group: &PodGroup,
        domains: &[(&[Row], &Layout)],
    ) -> Vec<Vec<i64>> {
        if self.framework.domain_scores().is_empty() {
            return vec![Vec::new(); domains.len()];
        }
        let proposed: Vec<Vec<(&PodShape, Row)>> = domains
            .iter()
            .map(|(_, layout)| {
                let shape = |member: u32| &**gang.shape(gang.shape_of()[member as usize]);
                layout.members.iter().map(|m| (shape(m.number), m.row)).collect()
            })
            .collect();
        let proposals = domains.iter().zip(&proposed);
        let proposals: Vec<Proposal<'_>> = proposals
            .map(|((rows, _), proposed)| Proposal { rows, proposed, counted: &[] })
            .collect();
        let mut scores = vec![Vec::new(); domains.len()];
        self.score_proposals(group, &proposals, |domain, score| scores[domain].push(score));
        scores
    }

    /// Tells each normalised, weighted score of domains whose pods need not be placed yet, plugin
    /// by plugin, with the place of its domain.
    pub(crate) fn score_proposals(
        &self,
        group: &PodGroup,
        proposals: &[Proposal<'_>],
        mut tell: impl FnMut(usize, i64),
    ) {
        let (cluster, overlay) = (self.ground.state(), self.ground.overlay());
        let running = running(self.ground.cluster(), group);
        let domains = proposals.iter().map(|proposal| proposal.rows).collect();
        let totals = Totals::new(cluster, overlay, domains);
        let mut raws = Vec::with_capacity(proposals.len());
        for (weight, plugin) in self.framework.domain_scores() {
            raws.clear();
            for (domain, &Proposal { rows, proposed, counted }) in proposals.iter().enumerate() {
                let sums = TotalsOf { all: &totals, domain };
                raws.push(plugin.score(&DomainContext {
                    cluster,
                    overlay,
                    sums: self.prune.then_some(&sums as &dyn DomainSums),
                    group,
                    rows,
                    proposed,
                    counted,
                    running,
                }));
            }
            let high = raws.iter().copied().max().unwrap_or(0);
            for (domain, raw) in raws.iter().enumerate() {
                tell(domain, weight * scale(plugin.normalization(), *raw, high));
            }
        }
    }
}

pub(crate) fn scale(normalization: Normalization, raw: i64, high: i64) -> i64 {
    let high = i128::from(high);
    let proportion = |raw: i64| (100 * i128::from(raw) / high).clamp(0, 100) as i64;
    match normalization {
        Normalization::Max if high > 0 => proportion(raw),
        Normalization::MaxReversed if high > 0 => 100 - proportion(raw),
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

/// What there is to be said against a leaf where it is known, without trying, that it does not fit:
/// the same as if it had been tried.
pub(crate) fn refuse_unsound(cluster: &Cluster, leaf: &PodGroup) -> Result<(), PlaceError> {
    refuse_unsupported(leaf)?;
    match &leaf.topology.require {
        Some(key) if cluster.label_key(key).is_some() => home(cluster, leaf, key).map(|_| ()),
        _ => Ok(()),
    }
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
