//! Trials of all candidate domains of a group, for comparison with other schedulers.

use alloc::string::{String, ToString};
use alloc::vec::Vec;

use super::Sequential;
use super::engine::{Confinement, Engine};
use super::reference::ReferenceEngine;
use crate::framework::Framework;
use crate::place::error::PlaceError;
use crate::place::layout::Layout;
use crate::place::request::Request;
use crate::place::topology::partition::all_rows;
use crate::place::topology::tiers::{DomainSense, tiers};
use crate::state::Cluster;

/// The result of one candidate domain, for comparison with other schedulers.
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

/// Tries a group in every candidate domain of its first tier, each on the cluster as it is. Under
/// the sequential strategy, with the plain loop.
///
/// # Errors
/// As [`place_gang`](crate::place::place_gang).
pub fn trials<'a>(
    cluster: &Cluster,
    framework: &Framework,
    request: impl Into<Request<'a>>,
) -> Result<Vec<DomainTrial>, PlaceError> {
    let request = request.into();
    let gang = request.gang()?;
    let group = gang.group();
    let rows = request.rows(cluster);
    let within = Confinement::rows(rows.as_deref());
    let engine = ReferenceEngine::new(cluster, framework, &gang, &request);
    let sense = DomainSense::of(request.strategy.unwrap_or_else(|| framework.strategy()));
    let mut strategy = Sequential::new(cluster, framework, engine, sense);
    let Some(tier) = tiers(cluster, group).into_iter().next() else { return Ok(Vec::new()) };
    let candidates = strategy.candidates(group, within, &tier)?;
    let mut trials = Vec::new();
    let mut feasible = Vec::new();
    for candidate in candidates.iter() {
        let mut layout = Layout::default();
        let fits =
            strategy.fill_group(&gang, group, 0, within.candidate(candidate), &mut layout)?;
        strategy.engine.rollback(0)?;
        let name_of = |row| cluster.view(row).map_or("", |node| node.name()).to_string();
        trials.push(DomainTrial {
            name: match (candidate.value(), candidate.island) {
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
