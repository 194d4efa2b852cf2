//! Remedies: changes to a request or a cluster, each tried by placing the group again.

use alloc::string::{String, ToString};
use alloc::vec::Vec;

use super::claims;
use super::report::{DomainReport, LevelReport, Remedy};
use crate::framework::Framework;
use crate::model::{GroupPolicy, Node, PodGroup};
use crate::place::error::PlaceError;
use crate::place::outcome::Outcome;
use crate::place::planner::place_gang;
use crate::place::request::Request;
use crate::state::Cluster;

/// A node label key and its value.
type Place = (String, String);

/// Changes after which a group is placed, the cheapest first.
pub(crate) fn remedies(
    cluster: &Cluster,
    framework: &Framework,
    request: &Request<'_>,
    levels: &[LevelReport],
    template: Option<&Node>,
) -> Result<Vec<Remedy>, PlaceError> {
    let trial = Trial { cluster, framework, request };
    let required = trial.confinement();
    let best = levels.iter().find(|level| level.key == required);
    let best = best.map_or(&[][..], |level| &level.best);
    let mut remedies = Vec::new();
    remedies.extend(trial.level_up()?);
    remedies.extend(trial.lower_minimum()?);
    remedies.extend(trial.relax_claims()?);
    remedies.extend(trial.free(required.as_deref(), best));
    if let Some(template) = template {
        remedies.extend(trial.add_nodes(required.as_deref(), best, template)?);
    }
    remedies.sort_by_key(Remedy::cost);
    Ok(remedies)
}

struct Trial<'t, 'r> {
    cluster: &'t Cluster,
    framework: &'t Framework,
    request: &'t Request<'r>,
}

impl Trial<'_, '_> {
    /// Whether a changed group is placed, all else as in the request.
    fn again(&self, cluster: &Cluster, group: PodGroup) -> Result<bool, PlaceError> {
        match place_gang(cluster, self.framework, self.request.with_group(group)) {
            Ok(outcome) => Ok(!matches!(outcome, Outcome::Unplaced(_))),
            // A change can put running members in two domains; then it is no remedy.
            Err(PlaceError::Scattered { .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// The level that confines the whole group.
    fn confinement(&self) -> Option<String> {
        let topology = &self.request.group().topology;
        topology.require.clone().or_else(|| topology.highest.clone())
    }

    fn level_up(&self) -> Result<Option<Remedy>, PlaceError> {
        let Some(own) = self.confinement() else { return Ok(None) };
        let levels: Vec<&str> = self.cluster.levels().collect();
        let above = levels.iter().position(|level| *level == own).unwrap_or(0);
        let coarser = levels[..above].iter().rev().map(|level| Some(*level));
        for to in coarser.chain([None]) {
            let mut group = self.request.group().clone();
            group.topology.require = to.map(String::from);
            group.topology.highest = None;
            if self.again(self.cluster, group)? {
                return Ok(Some(Remedy::LevelUp { to: to.map(String::from) }));
            }
        }
        Ok(None)
    }

    fn lower_minimum(&self) -> Result<Option<Remedy>, PlaceError> {
        let from = self.request.group().policy.minimum();
        let fits = |minimum: u32| {
            let mut group = self.request.group().clone();
            group.policy = GroupPolicy::Gang { min_count: minimum };
            self.again(self.cluster, group)
        };
        if from < 2 || !fits(1)? {
            return Ok(None);
        }
        let (mut low, mut high) = (1, from);
        while high - low > 1 {
            let middle = low + (high - low) / 2;
            if fits(middle)? { low = middle } else { high = middle }
        }
        Ok(Some(Remedy::LowerMinimum { to: low, from }))
    }

    /// Changes of claims: of each kind of change of a request the first that does.
    fn relax_claims(&self) -> Result<Vec<Remedy>, PlaceError> {
        let mut found: Vec<Remedy> = Vec::new();
        for (claim, change, pods, group) in claims::relaxations(self.request.group()) {
            let is_known = |known: &Remedy| match known {
                Remedy::RelaxClaim { claim: own, change: before, .. } => {
                    *own == claim && change.is_like(before)
                }
                _ => false,
            };
            if !found.iter().any(is_known) && self.again(self.cluster, group)? {
                found.push(Remedy::RelaxClaim { claim, change, pods });
            }
        }
        Ok(found)
    }

    fn free(&self, key: Option<&str>, best: &[DomainReport]) -> Option<Remedy> {
        let group = self.request.group();
        let first = group.pods.first()?;
        if !group.groups.is_empty()
            || !group.topology.slices.is_empty()
            || group.wants_island()
            || group.pods.iter().any(|pod| pod.shape() != first.shape())
        {
            return None;
        }
        let domain = best.iter().max_by_key(|domain| domain.fits)?;
        let members = domain.need.checked_sub(domain.fits).filter(|members| *members > 0)?;
        if (group.pods.len() as u64) < u64::from(domain.need) {
            return None;
        }
        let amounts = first.shape().requests.iter().filter(|(_, amount)| *amount > 0);
        let amounts = amounts
            .map(|(name, amount)| (name.to_string(), amount.saturating_mul(i64::from(members))));
        Some(Remedy::Free {
            key: key.map(String::from),
            value: domain.value.clone(),
            members,
            amounts: amounts.collect(),
        })
    }

    fn add_nodes(
        &self,
        key: Option<&str>,
        best: &[DomainReport],
        template: &Node,
    ) -> Result<Option<Remedy>, PlaceError> {
        let mut least: Option<(usize, Node, Option<Place>)> = None;
        for report in best.iter().take(3) {
            let domain = key.map(|key| (key.to_string(), report.value.clone()));
            let mut labelled = template.clone();
            if let Some((key, value)) = &domain {
                labelled = labelled.label(key.clone(), value.clone());
                // The labels of levels above are those of a node of the domain.
                let above: Vec<&str> =
                    self.cluster.levels().take_while(|level| level != key).collect();
                let sample = self.cluster.nodes().find(|node| node.has_label(key, value));
                let levels = self.cluster.levels().any(|level| level == key);
                for level in above.into_iter().filter(|_| levels) {
                    if let Some(text) = sample.and_then(|node| node.label(level)) {
                        labelled = labelled.label(level, text);
                    }
                }
            }
            let fits = |count: usize| -> Result<bool, PlaceError> {
                let mut txn = self.cluster.txn();
                txn.add_nodes(&labelled, count)?;
                self.again(&txn, self.request.group().clone())
            };
            let most = self.request.group().all_pods().len();
            let most = least.as_ref().map_or(most, |(count, _, _)| (*count).min(most));
            if most == 0 || !fits(most)? {
                continue;
            }
            let (mut low, mut high) = (0, most);
            while high - low > 1 {
                let middle = low + (high - low) / 2;
                if fits(middle)? { high = middle } else { low = middle }
            }
            if least.as_ref().is_none_or(|(count, _, _)| high < *count) {
                least = Some((high, labelled, domain));
            }
        }
        Ok(least.map(|(count, template, domain)| Remedy::AddNodes { count, domain, template }))
    }
}
