//! Why a group is not placed, for people and as data, and what would change that.

use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;

use super::certificate::{Lack, Refusal};
use super::error::PlaceError;
use super::outcome::Outcome;
use super::planner::place_gang;
use super::request::Request;
use crate::framework::{Evaluation, Framework, Rejection, Strategy};
use crate::model::{GroupPolicy, Node, PodGroup};
use crate::place::cache::capacity::Capacity;
use crate::place::search::domains::Solver;
use crate::place::search::parts::Parts;
use crate::place::search::problem::Problem;
use crate::place::search::proof::lack;
use crate::place::topology::candidates::all_rows;
use crate::state::Cluster;

/// A node label key and its value.
type Place = (String, String);

/// Domains listed for a level.
const LISTED: usize = 5;

/// Why a group is not placed, and what would change that.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Explanation {
    /// The full name of the group.
    pub group: String,
    /// The answer that is explained.
    pub outcome: Outcome,
    /// For each kind of pod, the nodes each filter rejects, first rejections only.
    pub rejections: Vec<Rejections>,
    /// For each level, coarsest first, and for all nodes together: the best domains.
    pub levels: Vec<LevelReport>,
    /// The member or the group inside that blocks the rest, if one does.
    pub blocked: Option<String>,
    /// Changes after which the group is placed, those that touch the fewest members first. One step
    /// less does not do. [`Remedy::Free`] is counted, the others were tried.
    pub remedies: Vec<Remedy>,
}

/// The nodes that filters reject for one kind of pod.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Rejections {
    /// The first pod of the kind, and how many there are.
    pub pod: String,
    /// How many pods are like it.
    pub pods: usize,
    /// Nodes looked at.
    pub nodes: usize,
    /// How many of them each filter is the first to reject, most first; `None` stands for nodes
    /// that a filter's preparation left out.
    pub by: Vec<(Option<String>, usize)>,
}

/// The domains of one level.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct LevelReport {
    /// The node label key; `None` for all nodes together.
    pub key: Option<String>,
    /// How many domains there are.
    pub domains: usize,
    /// The best of them, best first.
    pub best: Vec<DomainReport>,
}

/// What a domain holds of a group.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct DomainReport {
    /// The label value; empty for all nodes together.
    pub value: String,
    /// How much of the group fits at most: members, or groups inside. Exact for identical pods that
    /// are not confined to an island of devices; islands are not looked at.
    pub fits: u32,
    /// How much is needed.
    pub need: u32,
    /// What it lacks, if sums and counts tell.
    pub lack: Option<Lack>,
}

/// A change after which a group is placed.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Remedy {
    /// Ask for a coarser level, or for none.
    LevelUp {
        /// The level that does; `None` to require none.
        to: Option<String>,
    },
    /// Ask for fewer members, or fewer groups inside.
    LowerMinimum {
        /// The largest minimum that does.
        to: u32,
        /// The minimum asked for.
        from: u32,
    },
    /// Take away pods that leave room for so many more members. Only for identical pods.
    Free {
        /// The node label key; `None` for all nodes.
        key: Option<String>,
        /// The domain.
        value: String,
        /// How many members' worth of room, each on one node.
        members: u32,
        /// What that is in all, by resource.
        amounts: Vec<(String, i64)>,
    },
    /// Add nodes like a template.
    AddNodes {
        /// How many; one less does not do.
        count: usize,
        /// The node label key and the value the nodes need; `None` for any.
        domain: Option<(String, String)>,
        /// The template, with the labels of the domain.
        template: Node,
    },
}

impl Remedy {
    /// How many members, groups or nodes it touches; what remedies are ordered by.
    pub fn cost(&self) -> u64 {
        match self {
            Remedy::LevelUp { .. } => 0,
            Remedy::LowerMinimum { to, from } => u64::from(from.saturating_sub(*to)),
            Remedy::Free { members, .. } => u64::from(*members),
            Remedy::AddNodes { count, .. } => *count as u64,
        }
    }
}

/// Explains what comes of a request under the search strategy; with `template`, also how many
/// nodes like it would have to be added.
///
/// Slow beside a decision: it looks at every node for every kind of pod, and decides about a dozen
/// changed requests anew.
///
/// # Errors
/// As [`place_gang`].
///
/// # Example
/// ```
/// use phalanx::model::{Node, Pod, PodGroup};
/// use phalanx::place::{Remedy, explain};
/// use phalanx::{Cluster, Framework};
///
/// let mut cluster = Cluster::builder().levels(["rack"]).build()?;
/// for (name, rack) in [("n1", "a"), ("n2", "a"), ("n3", "b")] {
///     cluster.add_node(Node::new(name).capacity("cpu", 4).label("rack", rack))?;
/// }
/// let gang = PodGroup::gang("g", 3).pods(3, Pod::new().request("cpu", 3)).require("rack");
/// let template = Node::new("new").capacity("cpu", 4);
///
/// let why = explain(&cluster, &Framework::default(), &gang, Some(&template))?;
/// assert_eq!(why.levels[0].best[0].fits, 2);
/// assert!(why.remedies.contains(&Remedy::LowerMinimum { to: 2, from: 3 }));
/// assert!(why.remedies.contains(&Remedy::LevelUp { to: None }));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn explain<'a>(
    cluster: &Cluster,
    framework: &Framework,
    request: impl Into<Request<'a>>,
    template: Option<&Node>,
) -> Result<Explanation, PlaceError> {
    let request = request.into().strategy(Strategy::Search);
    let outcome = place_gang(cluster, framework, request.clone())?;
    let mut explanation = Explanation {
        group: request.group().full_name(),
        blocked: match &outcome {
            Outcome::Unplaced(unplaced) => {
                unplaced.certificate.as_ref().and_then(|proof| blocking(&proof.refusal))
            }
            _ => None,
        },
        outcome,
        rejections: Vec::new(),
        levels: Vec::new(),
        remedies: Vec::new(),
    };
    let try_out = Trial { cluster, framework, request: &request };
    explanation.rejections = try_out.rejections()?;
    explanation.levels = try_out.levels()?;
    if matches!(explanation.outcome, Outcome::Unplaced(_)) {
        let required = try_out.confinement();
        let best = explanation.levels.iter().find(|level| level.key == required);
        let best: Vec<DomainReport> = best.map_or_else(Vec::new, |level| level.best.clone());
        let mut remedies = Vec::new();
        remedies.extend(try_out.level_up()?);
        remedies.extend(try_out.lower_minimum()?);
        remedies.extend(try_out.free(required.as_deref(), &best));
        if let Some(template) = template {
            remedies.extend(try_out.add_nodes(required.as_deref(), &best, template)?);
        }
        remedies.sort_by_key(Remedy::cost);
        explanation.remedies = remedies;
    }
    Ok(explanation)
}

struct Trial<'t, 'r> {
    cluster: &'t Cluster,
    framework: &'t Framework,
    request: &'t Request<'r>,
}

impl Trial<'_, '_> {
    fn again(&self, cluster: &Cluster, group: PodGroup) -> Result<bool, PlaceError> {
        let mut request = Request::from(group).strategy(Strategy::Search);
        request.now = self.request.now;
        request.salt = self.request.salt;
        request.budget = self.request.budget;
        request.within.clone_from(&self.request.within);
        match place_gang(cluster, self.framework, request) {
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

    fn rejections(&self) -> Result<Vec<Rejections>, PlaceError> {
        let gang = self.request.gang()?;
        let rows = self.request.rows(self.cluster);
        let rows = rows.unwrap_or_else(|| all_rows(self.cluster));
        let pods = gang.group().all_pods();
        let mut all = Vec::new();
        for (place, shape) in gang.all_shapes().iter().enumerate() {
            let like = |number: &usize| gang.shape_of()[*number] as usize == place;
            let mut alike = (0..pods.len()).filter(like);
            let Some(first) = alike.next() else { continue };
            let judged =
                Evaluation::new(self.framework, self.cluster, shape, None, self.request.now);
            let mut by: Vec<(Option<String>, usize)> = Vec::new();
            for view in rows.iter().filter_map(|&row| self.cluster.view(row)) {
                let name = match judged.filter(view) {
                    Ok(()) => continue,
                    Err(Rejection::Narrowed) => None,
                    Err(Rejection::Filter(plugin, _) | Rejection::Refused(plugin, _)) => {
                        self.framework.filters().get(plugin).map(|filter| filter.name().to_string())
                    }
                };
                match by.iter_mut().find(|(known, _)| *known == name) {
                    Some((_, count)) => *count += 1,
                    None => by.push((name, 1)),
                }
            }
            by.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
            all.push(Rejections {
                pod: pods[first].name.clone(),
                pods: 1 + alike.count(),
                nodes: rows.len(),
                by,
            });
        }
        Ok(all)
    }

    fn levels(&self) -> Result<Vec<LevelReport>, PlaceError> {
        let gang = self.request.gang()?;
        let rows = self.request.rows(self.cluster);
        let (mut rooms, now) = (Capacity::default(), self.request.now);
        let mut model = Problem::new(self.cluster, self.framework, &gang, now, rows, &mut rooms);
        let parts = Parts::new(&model, gang.group(), false);
        let mut solver = Solver::new(&mut model, &parts)?;
        let mut keys: Vec<Option<&str>> = Vec::new();
        let topology = &gang.group().topology;
        let asked = [topology.require.as_deref(), topology.prefer.as_deref()];
        let flat =
            asked.into_iter().flatten().filter(|key| self.cluster.levels().all(|l| l != *key));
        keys.extend(self.cluster.levels().map(Some));
        keys.extend(flat.map(Some));
        keys.push(None);
        keys.dedup();
        let need = parts.parts[0].need;
        let mut levels = Vec::new();
        for key in keys {
            let tier = solver.tier(0, 0, key);
            let domains = tier.len();
            let mut best: Vec<DomainReport> = tier
                .into_iter()
                .map(|domain| DomainReport {
                    value: match key {
                        Some(_) => solver.domains[domain]
                            .value()
                            .map_or("", |value| self.cluster.label_text(value))
                            .to_string(),
                        None => String::new(),
                    },
                    fits: solver.capacity(0, domain).clamp(0, i64::from(u32::MAX)) as u32,
                    need,
                    lack: lack(&mut solver, 0, domain),
                })
                .collect();
            // Stable: among equals in order of name.
            best.sort_by_key(|report| (report.lack.is_some(), core::cmp::Reverse(report.fits)));
            best.truncate(LISTED);
            levels.push(LevelReport { key: key.map(String::from), domains, best });
        }
        Ok(levels)
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

/// What the first domain of a certificate blames: the innermost group inside, or a kind of pod.
fn blocking(refusal: &Refusal) -> Option<String> {
    match &refusal.candidates.first()?.lack {
        Lack::Groups { blocked, .. } => Some(innermost(blocked.first()?).group.clone()),
        Lack::Count { pod, .. } => Some(pod.clone()),
        _ => None,
    }
}

fn innermost(refusal: &Refusal) -> &Refusal {
    match refusal.candidates.first().map(|candidate| &candidate.lack) {
        Some(Lack::Groups { blocked, .. }) => blocked.first().map_or(refusal, innermost),
        _ => refusal,
    }
}

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.group, self.outcome.word())?;
        for kind in &self.rejections {
            let total: usize = kind.by.iter().map(|(_, count)| count).sum();
            let passing = kind.nodes - total.min(kind.nodes);
            write!(f, "\n{} pods like {}: {passing} of {} nodes", kind.pods, kind.pod, kind.nodes)?;
            for (name, count) in &kind.by {
                write!(f, "; {} rejects {count}", name.as_deref().unwrap_or("preparation"))?;
            }
        }
        for level in &self.levels {
            let name = level.key.as_deref().unwrap_or("all nodes");
            write!(f, "\n{name} ({} domains), best:", level.domains)?;
            for domain in &level.best {
                write!(f, "\n  {}: ", if domain.value.is_empty() { "-" } else { &domain.value })?;
                match &domain.lack {
                    Some(lack) => write!(f, "{lack}")?,
                    None => write!(f, "room for {} of {}", domain.fits, domain.need)?,
                }
            }
        }
        if let Some(blocked) = &self.blocked {
            write!(f, "\nblocked by {blocked}")?;
        }
        for remedy in &self.remedies {
            write!(f, "\nto place it: {remedy}")?;
        }
        Ok(())
    }
}

impl fmt::Display for Remedy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Remedy::LevelUp { to: Some(to) } => write!(f, "require {to} only"),
            Remedy::LevelUp { to: None } => f.write_str("require no level"),
            Remedy::LowerMinimum { to, from } => write!(f, "lower the minimum from {from} to {to}"),
            Remedy::Free { key, value, members, amounts } => {
                match key {
                    Some(key) => {
                        write!(f, "free room for {members} more members in {key}={value}")?;
                    }
                    None => write!(f, "free room for {members} more members")?,
                }
                for (at, (name, amount)) in amounts.iter().enumerate() {
                    write!(f, "{}{amount} of {name}", if at == 0 { ": " } else { ", " })?;
                }
                Ok(())
            }
            Remedy::AddNodes { count, domain, template } => {
                write!(f, "add {count} nodes like {}", template.name)?;
                match domain {
                    Some((key, value)) => write!(f, " in {key}={value}"),
                    None => Ok(()),
                }
            }
        }
    }
}
