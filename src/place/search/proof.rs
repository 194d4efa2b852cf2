//! Certificates from the facts that a search has found.

use alloc::string::{String, ToString};
use alloc::vec::Vec;

use super::domains::Solver;
use super::parts::{Parts, TooFew};
use crate::model::resources::PODS;
use crate::place::certificate::{CandidateLack, Certificate, Lack, Refusal};
use crate::place::search::domains::bounds::Crowd;

/// The certificate of a group that more is needed of than there is.
pub(crate) fn too_few(parts: &Parts<'_>, short: TooFew) -> Certificate {
    let part = &parts.parts[short.part];
    let refusal = Refusal {
        group: parts.name(short.part),
        candidates: Vec::new(),
        too_few: Some((part.all, part.need)),
    };
    Certificate { refusal }
}

/// The certificate of a search that has found everything impossible.
pub(crate) fn of(solver: &mut Solver<'_, '_>) -> Certificate {
    Certificate { refusal: refusal(solver, 0, 0) }
}

/// Why a part can go nowhere within a domain. Each candidate lacks something, or was searched.
fn refusal(solver: &mut Solver<'_, '_>, part: usize, within: usize) -> Refusal {
    let mut candidates = Vec::new();
    for key in solver.parts.parts[part].keys.clone() {
        for domain in solver.tier(part, within, key) {
            let lack = lack(solver, part, domain).unwrap_or(Lack::Searched);
            // Where the part is not confined, the domain is its parent's.
            let path = if key.is_some() { path(solver, domain) } else { Vec::new() };
            candidates.push(CandidateLack { key: key.map(String::from), path, lack });
        }
    }
    Refusal { group: solver.parts.name(part), candidates, too_few: None }
}

fn path(solver: &Solver<'_, '_>, domain: usize) -> Vec<Option<String>> {
    let cluster = solver.model.cluster;
    let values = solver.domains[domain].path.iter();
    values.map(|value| value.map(|value| cluster.label_text(value).to_string())).collect()
}

/// The lack of a domain for a part, if sums and counts show one.
pub(crate) fn lack(solver: &mut Solver<'_, '_>, part: usize, domain: usize) -> Option<Lack> {
    let parts = solver.parts;
    let own = &parts.parts[part];
    for (dimension, &need) in own.least.iter().enumerate() {
        let free = solver.domains[domain].sums[dimension];
        if need > free {
            return Some(Lack::Room { resource: resource(solver, dimension), need, free });
        }
    }
    for &(class, need) in parts.required(part) {
        let fits = solver.count(class, domain);
        if fits < i64::from(need) {
            let members = &solver.model.members;
            let pod = parts.required_member(part, |member| members[member].class == class);
            let pod = pod.map_or("", |member| &members[member].pod.name).to_string();
            return Some(Lack::Count { pod, need, fits: fits as u32 });
        }
    }
    if own.children.is_empty() {
        let fits: i64 = parts
            .classes(part)
            .iter()
            .map(|&(class, count)| solver.count(class, domain).min(i64::from(count)))
            .sum();
        if fits < i64::from(own.need) {
            return Some(Lack::Members { need: own.need, fits: fits as u32 });
        }
        let crowd = solver.crowd(part, domain)?;
        let (resource, Crowd { each, need, fits, .. }) = (resource(solver, crowd.dimension), crowd);
        return Some(Lack::Shares { resource, each, need, fits });
    }
    let mut fits = own.all;
    let mut blocked = Vec::new();
    for &child in &own.children {
        let barred = parts.parts[child].need > 0 && !reachable(solver, child, domain);
        if barred {
            fits -= parts.parts[child].weight;
            blocked.push(refusal(solver, child, domain));
        }
    }
    (fits < own.need).then_some(Lack::Groups { need: own.need, fits, blocked })
}

fn resource(solver: &Solver<'_, '_>, dimension: usize) -> String {
    let model = &solver.model;
    let name = |place: usize| model.cluster.resource_name(model.dimensions.resources[place]);
    dimension.checked_sub(1).map_or(PODS, name).into()
}

/// Whether some domain of a part within another lacks nothing that sums and counts tell.
fn reachable(solver: &mut Solver<'_, '_>, part: usize, within: usize) -> bool {
    for key in solver.parts.parts[part].keys.clone() {
        for domain in solver.tier(part, within, key) {
            if lack(solver, part, domain).is_none() {
                return true;
            }
        }
    }
    false
}
