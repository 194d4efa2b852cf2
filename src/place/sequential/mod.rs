//! The sequential strategy.
//!
//! For each candidate domain: for each member in order: filter every node, score every feasible
//! node, take the best, assume it, go on. Then the best domain. Nested groups recurse, and see
//! what their siblings before them took.
//!
//! The strategy is written once, over an `Engine` that fills a leaf: the reference engine is the
//! executable definition, and tests hold the table engine equal to it.
//!
//! Source: kube-scheduler 1.36, `schedule_one_podgroup.go`; KEP-5732, KEP-6012.

mod claimed;
mod counted;
pub(crate) mod engine;
#[cfg(feature = "parallel")]
mod parallel;
pub(crate) mod reference;
pub(crate) mod run;
pub(crate) mod strategy;
pub(crate) mod tables;
pub(crate) mod trials;
pub(crate) mod workspace;

use alloc::string::ToString;
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;
use core::cmp::Reverse;

use self::engine::{Confinement, Engine};
use super::error::PlaceError;
use super::gang::Gang;
use super::layout::Layout;
use crate::framework::{DomainContext, DomainSums, Framework, Normalization};
use crate::model::{IslandRule, PodGroup, PodShape};
use crate::place::topology::islands::islands;
use crate::place::topology::partition::{Candidate, all_rows};
use crate::place::topology::pinned::{home, refuse_scattered, running, runs};
use crate::place::topology::tiers::{DomainKey, DomainSense, Tier, tiers};
use crate::place::topology::totals::{Totals, TotalsOf};
use crate::state::plan::{PlanDomain, PlanLabel};
use crate::state::{Cluster, Row};

/// The only candidate of a group that is not confined.
static WHOLE: [Candidate; 1] = [Candidate::whole()];

/// A proposal for one domain: pods with their rows, or how many there are of a shape.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Proposal<'a> {
    pub(crate) rows: &'a [Row],
    pub(crate) proposed: &'a [(&'a PodShape, Row)],
    pub(crate) counted: &'a [(&'a PodShape, usize)],
}

/// The sequential strategy over an engine.
pub(crate) struct Sequential<'a, E> {
    /// The cluster as it was when the request came.
    pub(crate) cluster: &'a Cluster,
    pub(crate) framework: &'a Framework,
    pub(crate) engine: E,
    /// The property by which domains are told apart.
    pub(crate) sense: DomainSense,
    /// Whether domains that cannot hold the group are passed over without a trial.
    pub(crate) prune: bool,
    /// The number of threads that trials may use; one without the feature `parallel`.
    #[cfg_attr(not(feature = "parallel"), allow(dead_code))]
    pub(crate) threads: usize,
}

impl<'a, E: Engine> Sequential<'a, E> {
    /// The strategy on one thread, with a trial of every candidate domain.
    pub(crate) fn new(
        cluster: &'a Cluster,
        framework: &'a Framework,
        engine: E,
        sense: DomainSense,
    ) -> Sequential<'a, E> {
        Sequential { cluster, framework, engine, sense, prune: false, threads: 1 }
    }

    /// Places a group in the best of its domains within a confinement, or leaves the engine as it
    /// was. Returns whether the group counts. `first` is the number of its first member.
    pub(crate) fn place(
        &mut self,
        gang: &Gang,
        group: &PodGroup,
        first: usize,
        within: Confinement<'_>,
        layout: &mut Layout,
    ) -> Result<bool, PlaceError> {
        refuse_unsupported(group)?;
        let tiers = tiers(self.cluster, group);
        for (number, tier) in tiers.iter().enumerate() {
            // A tier without room for the rest of a group that runs leaves it to the next.
            let goes_on = number + 1 < tiers.len() && group.pod_count() > 0;
            let is_taken = |trial: &Layout| !goes_on || !trial.members.is_empty();
            let parts;
            let candidates: &[Candidate] = if *tier == Tier::Whole {
                &WHOLE
            } else {
                parts = self.candidates(group, within, tier)?;
                &parts
            };
            if let Some((candidate, trial)) =
                self.place_counted(gang, group, first, within, candidates)?
                && is_taken(&trial)
            {
                self.adopt(group, tier, candidate, trial, layout);
                return Ok(true);
            }
            let mark = self.engine.mark();
            let first_is_best = self.framework.domain_scores().is_empty();
            let mut found: Vec<(&Candidate, Layout)> = Vec::new();
            let trials = self.try_side_by_side(gang, (group, first), within, candidates)?;
            let one_by_one = if trials.is_some() { &[] } else { candidates };
            if let Some(trials) = trials {
                let trials = candidates.iter().zip(trials);
                found.extend(
                    trials.filter_map(|(candidate, trial)| {
                        Some((candidate, trial.filter(is_taken)?))
                    }),
                );
            }
            for candidate in one_by_one {
                let inside = within.candidate(candidate);
                if self.prune && self.is_hopeless(group, first, inside.rows) {
                    continue;
                }
                // An empty list of members is used again, for its capacity.
                let mut trial = Layout::default();
                if layout.members.is_empty() {
                    core::mem::swap(&mut trial.members, &mut layout.members);
                }
                let fits =
                    self.fill_group(gang, group, first, inside, &mut trial)? && is_taken(&trial);
                if fits && (candidates.len() == 1 || first_is_best) {
                    // Nothing to compare with: what was placed stays.
                    self.adopt(group, tier, candidate, trial, layout);
                    return Ok(true);
                }
                self.engine.rollback(mark)?;
                if fits {
                    found.push((candidate, trial));
                }
            }
            let contexts: Vec<_> = found
                .iter()
                .map(|(candidate, trial)| (candidate.rows(within.rows).unwrap_or(&[]), trial))
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
                self.engine.take(member)?;
            }
            self.adopt(group, tier, candidate, trial, layout);
            return Ok(true);
        }
        Ok(false)
    }

    /// The trials of all candidates on several threads: there are none without the feature.
    #[cfg(not(feature = "parallel"))]
    #[allow(clippy::unused_self, clippy::unnecessary_wraps)]
    fn try_side_by_side(
        &mut self,
        _: &Gang,
        _: (&PodGroup, usize),
        _: Confinement<'_>,
        _: &[Candidate],
    ) -> Result<Option<Vec<Option<Layout>>>, PlaceError> {
        Ok(None)
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
        let cluster = self.cluster;
        if let Tier::Key(key) = tier
            && let Some(domain_key) = self.domain_key(group, key)
        {
            let asked = (group.full_name().into(), Some(&group.topology));
            let range = (first, end);
            layout.domains.push(domain_key.record(cluster, asked, &candidate.path, range));
        } else if let (Some(island), Some(&[row])) = (candidate.island, candidate.rows(None)) {
            let key = cluster.view(row).map_or("", |node| node.name()).to_string();
            let path = vec![PlanLabel { key, value: Some(cluster.device_text(island).into()) }];
            let required = usize::from(group.topology.island == IslandRule::Required);
            let group = group.full_name().into();
            layout.domains.push(PlanDomain { group, path, island: true, required, first, end });
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
        within: Confinement<'_>,
        tier: &Tier,
    ) -> Result<Arc<[Candidate]>, PlaceError> {
        let key = match tier {
            Tier::Whole => return Ok(Arc::from([Candidate::whole()])),
            Tier::Island => return self.islands(group, within),
            Tier::Key(key) => key,
        };
        let domain_key = self.domain_key(group, key);
        // Members that run already decide where the others go.
        let home = home(self.cluster, (group, &[]), key, domain_key.as_ref())?;
        let Some(domain_key) = domain_key else { return Ok(Arc::from([])) };
        let parts = self.engine.partition(within.rows, &domain_key.keys);
        let open = |part: &&Candidate| domain_key.admits(&part.path) && home.allows(&part.path);
        if parts.iter().all(|part| open(&part)) {
            return Ok(parts);
        }
        Ok(parts.iter().filter(open).cloned().collect())
    }

    /// A key that a group is confined by.
    fn domain_key(&self, group: &PodGroup, key: &str) -> Option<DomainKey> {
        DomainKey::new(self.cluster, self.sense, group.topology.require.as_deref(), key)
    }

    /// The islands that a group may be confined to.
    fn islands(
        &self,
        group: &PodGroup,
        within: Confinement<'_>,
    ) -> Result<Arc<[Candidate]>, PlaceError> {
        // Within an island, an island is no further confinement.
        if within.island.is_some() {
            return Ok(Arc::from([Candidate::whole()]));
        }
        let (cluster, _) = self.engine.state();
        let whole = if within.rows.is_none() { all_rows(cluster) } else { Vec::new() };
        match islands(cluster, group, within.rows.unwrap_or(&whole), self.prune) {
            Err(PlaceError::Scattered { .. }) if group.topology.island != IslandRule::Required => {
                Ok(Arc::from([]))
            }
            islands => Ok(islands?.into()),
        }
    }

    /// Places members or subgroups in order within a confinement, whatever is possible, and returns
    /// whether the group counts.
    fn fill_group(
        &mut self,
        gang: &Gang,
        group: &PodGroup,
        first: usize,
        within: Confinement<'_>,
        layout: &mut Layout,
    ) -> Result<bool, PlaceError> {
        let minimum = group.policy.minimum() as usize;
        if group.groups.is_empty() {
            let before = layout.members.len();
            self.engine.fill(group, first, within, &mut layout.members)?;
            let placed = layout.members.len() - before;
            return Ok(placed >= minimum || placed + running(self.cluster, group) >= minimum);
        }
        let mut count = 0;
        let mut member = first;
        let before = layout.members.len();
        for subgroup in &group.groups {
            if self.place(gang, subgroup, member, within, layout)? || runs(self.cluster, subgroup) {
                count += 1;
            }
            member += subgroup.pod_count();
        }
        let enough_pods = group.min_pods.is_none_or(|least| {
            let placed = layout.members.len() - before;
            placed + running(self.cluster, group) >= least as usize
        });
        Ok(count >= minimum && enough_pods)
    }

    /// Whether it is clear, without placing, that too few members of a leaf fit some rows.
    fn is_hopeless(&self, group: &PodGroup, first: usize, rows: Option<&[Row]>) -> bool {
        if !group.groups.is_empty() {
            return false;
        }
        let minimum = group.policy.minimum() as usize;
        let is_hopeless = |wanted| self.engine.is_hopeless(first, group.pods.len(), wanted, rows);
        // Members that run are counted where it matters.
        is_hopeless(minimum) && is_hopeless(minimum.saturating_sub(running(self.cluster, group)))
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
        let plugins = self.framework.domain_scores();
        let mut raws = vec![Vec::with_capacity(domains.len()); plugins.len()];
        self.score_proposals(group, &proposals, |plugin, _, raw| raws[plugin].push(raw));
        let mut scores = vec![Vec::new(); domains.len()];
        for ((weight, plugin), raws) in plugins.iter().zip(raws) {
            let own = weighed(*weight, plugin.normalization(), raws);
            scores.iter_mut().zip(own).for_each(|(scores, score)| scores.push(score));
        }
        scores
    }

    /// Calls `tell` with each raw score of domains whose pods need not be placed yet, plugin by
    /// plugin, and with the indices of its plugin and its domain.
    pub(crate) fn score_proposals(
        &self,
        group: &PodGroup,
        proposals: &[Proposal<'_>],
        mut tell: impl FnMut(usize, usize, i64),
    ) {
        let (cluster, overlay) = self.engine.state();
        let running = running(self.cluster, group);
        let domains = proposals.iter().map(|proposal| proposal.rows).collect();
        let totals = Totals::new(cluster, overlay, domains);
        for (number, (_, plugin)) in self.framework.domain_scores().iter().enumerate() {
            for (domain, &Proposal { rows, proposed, counted }) in proposals.iter().enumerate() {
                let sums = TotalsOf { all: &totals, domain };
                let raw = plugin.score(&DomainContext {
                    cluster,
                    overlay,
                    sums: self.prune.then_some(&sums as &dyn DomainSums),
                    group,
                    rows,
                    proposed,
                    counted,
                    running,
                });
                tell(number, domain, raw);
            }
        }
    }
}

/// Scores of domains by one plugin, normalised over its raw scores and weighted.
pub(crate) fn weighed(weight: i64, normalization: Normalization, mut raws: Vec<i64>) -> Vec<i64> {
    let high = raws.iter().copied().max().unwrap_or(0);
    for raw in &mut raws {
        *raw = weight * scale(normalization, *raw, high);
    }
    raws
}

fn scale(normalization: Normalization, raw: i64, high: i64) -> i64 {
    let proportion = |raw: i64| match raw.checked_mul(100) {
        Some(raw) => (raw / high).clamp(0, 100),
        None => (100 * i128::from(raw) / i128::from(high)).clamp(0, 100) as i64,
    };
    match normalization {
        Normalization::Max if high > 0 => proportion(raw),
        Normalization::MaxReversed if high > 0 => 100 - proportion(raw),
        Normalization::MaxReversed => 100,
        _ => raw.clamp(0, 100),
    }
}

/// The error that a trial of a leaf would meet, for a leaf that is known not to fit without a trial.
pub(crate) fn refuse_unsound(
    cluster: &Cluster,
    sense: DomainSense,
    leaf: &PodGroup,
) -> Result<(), PlaceError> {
    refuse_unsupported(leaf)?;
    refuse_scattered(cluster, sense, (leaf, &[]))
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
