//! The check of certificates, without the planner.
//!
//! The planner and the check share the definition of a request: the keys that confine a group, the
//! nodes of a domain, the pods that run. All else is counted again from the cluster, plainly.

mod amounts;
mod bench;
mod devices;
mod together;

use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;

use self::devices::{Counted, Devices};
use self::together::{Site, Together};
use super::certificate::{CandidateLack, Certificate, Flaw, Lack, Proof, Refusal};
use super::error::PlaceError;
use super::request::Request;
use crate::base::Time;
use crate::framework::{Context, FilterPreparation, Framework, Reach};
use crate::model::resources::PODS;
use crate::model::{Pod, PodGroup};
use crate::place::topology::partition::names;
use crate::place::topology::requirement::Requirement;
use crate::state::{Cluster, NodeView, Row};

impl Certificate {
    /// Checks every claim against the cluster: that the domains listed are all there are, and that
    /// counts and sums are right and too small. The proof returned states whether it rests on
    /// searches too.
    ///
    /// O(nodes · filters · claims).
    ///
    /// # Errors
    /// The first flaw.
    pub fn verify<'a>(
        &self,
        cluster: &Cluster,
        framework: &Framework,
        request: impl Into<Request<'a>>,
    ) -> Result<Proof, Flaw> {
        let request = request.into();
        let group = request.group();
        group.check().map_err(PlaceError::from)?;
        let rows = request.rows(cluster);
        let rows = rows.unwrap_or_else(|| cluster.nodes().map(NodeView::row).collect());
        let check = Check { cluster, framework, now: request.now };
        let mut ask = Requirement::new(cluster, group);
        if group.groups.is_empty() {
            // A plan places something, even where enough members run.
            ask.need = ask.need.max(1);
        }
        let Some(claim) = self.refusal.too_few else {
            return check.refusal(&self.refusal, &ask, &rows);
        };
        let named = ask.find(&self.refusal.group);
        let named = named.ok_or_else(|| Flaw::Group(self.refusal.group.clone()))?;
        let short = claim == (named.all(), named.need) && claim.0 < claim.1;
        if short && self.refusal.candidates.is_empty() && !ask.countable() {
            return Ok(Proof::Counted);
        }
        Err(Flaw::Claim { group: named.name.clone(), domain: String::from("any domain") })
    }
}

/// The filter for claims: without it they hold nobody back.
const CLAIMS: &str = "DynamicResources";

/// Equal pods: their group, one of them, how many.
type Kind<'a> = (&'a PodGroup, &'a Pod, u32);

struct Check<'a> {
    cluster: &'a Cluster,
    framework: &'a Framework,
    now: Time,
}

impl Check<'_> {
    /// Checks that the candidates are all there are, and what each lacks.
    fn refusal(
        &self,
        refusal: &Refusal,
        ask: &Requirement<'_>,
        rows: &[Row],
    ) -> Result<Proof, Flaw> {
        if refusal.group != ask.name || refusal.too_few.is_some() {
            return Err(Flaw::Group(refusal.group.clone()));
        }
        let flaw = || Flaw::Candidates(ask.name.clone());
        let mut listed = refusal.candidates.iter();
        let mut proof = Proof::Counted;
        for (key, candidate) in ask.candidates(self.cluster, rows)? {
            let same = |claim: &&CandidateLack| {
                let path = claim.path.iter().map(Option::as_deref);
                claim.key.as_deref() == key && path.eq(names(self.cluster, &candidate.path))
            };
            let claim = listed.next().filter(same).ok_or_else(flaw)?;
            let group = ask.name.clone();
            let rows = candidate.rows(Some(rows)).unwrap_or(rows);
            let found = self.lacks(&claim.lack, ask, rows)?;
            proof = proof.max(found.ok_or(Flaw::Claim { group, domain: claim.name() })?);
        }
        if listed.next().is_some() || ask.need == 0 { Err(flaw()) } else { Ok(proof) }
    }

    /// Whether a domain lacks what is claimed, counted again.
    fn lacks(
        &self,
        lack: &Lack,
        ask: &Requirement<'_>,
        rows: &[Row],
    ) -> Result<Option<Proof>, Flaw> {
        let (right, need, have) = match lack {
            Lack::Room { resource, need, free } => {
                let there = rows
                    .iter()
                    .fold(0, |sum: i64, &row| sum.saturating_add(self.free(row, resource)));
                let least = ask.least(&|pod| self.takes(pod, resource));
                (least == *need && there == *free, *need, *free)
            }
            Lack::Count { pod, need, fits } => {
                let required = self.kinds(&ask.required());
                let named = |(_, pods): &&(Kind<'_>, Vec<&str>)| pods.contains(&pod.as_str());
                let counted = required
                    .iter()
                    .find(named)
                    .map(|((group, pod, count), _)| (*count, self.count(group, pod, rows)));
                let claim = (*need, i64::from(*fits));
                (counted == Some(claim), claim.0.into(), claim.1)
            }
            Lack::Members { need, fits } => {
                let pods: Vec<_> = ask.pods.iter().map(|&pod| (ask.group, pod)).collect();
                let kinds = self.kinds(&pods).into_iter().map(|(kind, _)| kind);
                let there: i64 = kinds
                    .map(|(group, pod, count)| self.count(group, pod, rows).min(count.into()))
                    .sum();
                let right = there == i64::from(*fits) && ask.inside.is_empty();
                (right && ask.need == *need, (*need).into(), (*fits).into())
            }
            Lack::Shares { resource, each, need, fits } => {
                let large = |pod: &&&Pod| self.takes(pod, resource) >= (*each).max(1);
                let large: Vec<&Pod> = ask.pods.iter().filter(large).copied().collect();
                let spare = ask.all().saturating_sub(ask.need);
                let there: i64 = rows.iter().map(|&row| self.shares(row, &large)).sum();
                let right = (large.len() as u32).checked_sub(spare) == Some(*need);
                (right && there == i64::from(*fits), (*need).into(), (*fits).into())
            }
            Lack::Devices { pod, claim, request, same, each, need, fits } => {
                let judged = self.framework.filters().iter().any(|own| own.name() == CLAIMS);
                let required = ask.required();
                let pods = required.iter().map(|(_, pod)| *pod);
                let devices = Devices::new(self.cluster, self.framework, pods, rows);
                let same = same.as_deref();
                let counted = devices.count(Counted { pod, claim, request, same, each: *each });
                let right = judged && counted == Some((*need, *fits)) && fits < need;
                return Ok(right.then_some(Proof::Counted));
            }
            Lack::Claims { pods, need, fits } => {
                let judged = self.framework.filters().iter().any(|own| own.name() == CLAIMS);
                let site = Site {
                    admits: &|group, pod, row| self.fits(group, pod, row).unwrap_or(0) > 0,
                    takes: &|pod, resource| self.takes(pod, resource),
                    free: &|row, resource| self.free(row, resource),
                };
                let together = Together::new(self.cluster, self.framework, &ask.required());
                let counted = together.and_then(|own| own.count(pods, &site, rows));
                let right = judged && counted == Some((*need, *fits)) && fits < need;
                return Ok(right.then_some(Proof::Counted));
            }
            Lack::Groups { need, fits, blocked } => {
                let (mut left, mut seen) = (ask.all(), Vec::new());
                let mut proof = Proof::Counted;
                for refusal in blocked {
                    let inner = ask.inside.iter().find(|inner| inner.name == refusal.group);
                    let inner = inner.filter(|inner| !seen.contains(&&inner.name));
                    let inner = inner.ok_or_else(|| Flaw::Group(refusal.group.clone()))?;
                    seen.push(&inner.name);
                    proof = proof.max(self.refusal(refusal, inner, rows)?);
                    left -= inner.weight;
                }
                let right = left == *fits && ask.need == *need && fits < need;
                return Ok(right.then_some(proof));
            }
            Lack::Searched => return Ok(Some(Proof::Searched)),
        };
        Ok((right && have < need).then_some(Proof::Counted))
    }

    /// Pods that filters cannot tell apart, with their names.
    fn kinds<'p>(&self, pods: &[(&'p PodGroup, &'p Pod)]) -> Vec<(Kind<'p>, Vec<&'p str>)> {
        let mut kinds: Vec<(Kind<'p>, Vec<&str>)> = Vec::new();
        for &(group, pod) in pods {
            let filters = self.framework.filters();
            let alone = filters.iter().any(|filter| filter.declare(pod.shape()).reads_group);
            let like = |((theirs, other, _), _): &&mut (Kind<'p>, Vec<&str>)| {
                other.shape() == pod.shape() && (!alone || core::ptr::eq(*theirs, group))
            };
            match kinds.iter_mut().find(like) {
                Some(((.., count), names)) => {
                    *count += 1;
                    names.push(&pod.name);
                }
                None => kinds.push(((group, pod, 1), vec![&pod.name])),
            }
        }
        kinds
    }

    /// Amount of a resource that a pod takes, where a filter judges room.
    fn takes(&self, pod: &Pod, resource: &str) -> i64 {
        let shape = pod.shape();
        match self.framework.judges_room(shape) {
            true if resource == PODS => 1,
            true => shape.requests.of(resource),
            false => 0,
        }
    }

    fn free(&self, row: Row, resource: &str) -> i64 {
        let Some(node) = self.cluster.view(row) else { return 0 };
        match self.cluster.resource(resource) {
            _ if resource == PODS => node.free_pods().clamp(0, 1 << 30),
            Some(id) => node.free(id).max(0),
            None => 0,
        }
    }

    /// How many pods fit on a node if each takes the least that any of these takes.
    fn shares(&self, row: Row, pods: &[&Pod]) -> i64 {
        let least = |resource: &str| pods.iter().map(|pod| self.takes(pod, resource)).min();
        let names = pods.iter().flat_map(|pod| pod.shape().requests.iter().map(|(name, _)| name));
        names.chain([PODS]).fold(1 << 30, |room: i64, name| match least(name) {
            Some(least) if least > 0 => room.min(self.free(row, name) / least),
            _ => room,
        })
    }

    /// How many pods like one fit, each node by itself: by room, and by the filters that read no
    /// more than the node and never change a "no".
    fn count(&self, group: &PodGroup, pod: &Pod, rows: &[Row]) -> i64 {
        rows.iter().map(|&row| self.fits(group, pod, row).unwrap_or(0)).sum()
    }

    fn fits(&self, group: &PodGroup, pod: &Pod, row: Row) -> Option<i64> {
        let (node, shape) = (self.cluster.view(row)?, pod.shape());
        let mut room = self.shares(row, &[pod]);
        for filter in self.framework.filters() {
            let declared = filter.declare(shape);
            let lasting = match declared.reach {
                Reach::Static => true,
                Reach::Node => declared.monotone && !declared.room,
                _ => false,
            };
            if !lasting || !declared.counters.is_empty() {
                continue;
            }
            let base = Context { now: self.now, ..Context::new(self.cluster, shape) };
            let cx = Context { group: Some(group), ..base };
            let prepared = match Arc::clone(filter).prepare(&cx) {
                FilterPreparation::Skip => continue,
                FilterPreparation::Ready(prepared) => prepared,
                FilterPreparation::Narrow(prepared, rows) if rows.contains(row) => prepared,
                FilterPreparation::Reject(_) | FilterPreparation::Narrow(..) => return None,
            };
            if !prepared.filter(&cx, node).passes() {
                return None;
            }
            if let Some(capacity) = prepared.capacity() {
                room = room.min(capacity.of_node(&cx, node).max(1));
            }
        }
        Some(room)
    }
}
