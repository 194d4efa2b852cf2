//! Surveys of a cluster for one request: nodes rejected by filter, and room by domain.

use alloc::string::{String, ToString};
use alloc::vec::Vec;

use super::claims;
use super::report::{DomainReport, LevelReport, Rejections};
use crate::framework::{Evaluation, Framework, Rejection};
use crate::model::PodShape;
use crate::place::cache::capacity::Capacity;
use crate::place::error::PlaceError;
use crate::place::request::Request;
use crate::place::search::domains::Solver;
use crate::place::search::parts::Parts;
use crate::place::search::problem::Problem;
use crate::place::search::proof::lack;
use crate::place::topology::partition::all_rows;
use crate::state::{Cluster, Row, VolumeNeeds, VolumeRefusal};

/// The most domains listed for a level.
const LISTED: usize = 5;

/// For each kind of pod, the nodes that each filter is the first to reject.
pub(crate) fn rejections(
    cluster: &Cluster,
    framework: &Framework,
    request: &Request<'_>,
) -> Result<Vec<Rejections>, PlaceError> {
    let gang = request.gang()?;
    let rows = request.rows(cluster);
    let rows = rows.unwrap_or_else(|| all_rows(cluster));
    let pods = gang.group().all_pods();
    let mut all = Vec::new();
    for (place, shape) in gang.all_shapes().iter().enumerate() {
        let like = |number: &usize| gang.shape_of()[*number] as usize == place;
        let mut alike = (0..pods.len()).filter(like);
        let Some(first) = alike.next() else { continue };
        let judged = Evaluation::new(framework, cluster, shape, None, request.now);
        let mut by: Vec<(Option<String>, usize)> = Vec::new();
        for view in rows.iter().filter_map(|&row| cluster.view(row)) {
            let name = match judged.filter(view) {
                Ok(()) => continue,
                Err(Rejection::Narrowed) => None,
                Err(Rejection::Filter(plugin, _) | Rejection::Refused(plugin, _)) => {
                    framework.filters().get(plugin).map(|filter| filter.name().to_string())
                }
            };
            match by.iter_mut().find(|(known, _)| *known == name) {
                Some((_, count)) => *count += 1,
                None => by.push((name, 1)),
            }
        }
        by.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
        let count = 1 + alike.count();
        all.push(Rejections {
            pod: pods[first].name.clone(),
            pods: count,
            claims: claims::lacks(cluster, framework, (pods[first], count), &rows),
            nodes: rows.len(),
            by,
            volumes: refusals(cluster, shape, &rows),
        });
    }
    Ok(all)
}

/// Why claims of a pod cannot be met, and on how many rows, most first.
fn refusals(cluster: &Cluster, shape: &PodShape, rows: &[Row]) -> Vec<(VolumeRefusal, usize)> {
    if shape.volumes.is_empty() {
        return Vec::new();
    }
    let needs = match VolumeNeeds::of(cluster, shape) {
        Ok(needs) => needs,
        Err(refusal) => return Vec::from([(refusal, rows.len())]),
    };
    let mut refusals: Vec<(VolumeRefusal, usize)> = Vec::new();
    for view in rows.iter().filter_map(|&row| cluster.view(row)) {
        let Err(refusal) = needs.choose(view) else { continue };
        match refusals.iter_mut().find(|(known, _)| *known == refusal) {
            Some((_, count)) => *count += 1,
            None => refusals.push((refusal, 1)),
        }
    }
    // Stable: among equals in order of node.
    refusals.sort_by_key(|(_, count)| core::cmp::Reverse(*count));
    refusals.truncate(LISTED);
    refusals
}

/// For each level, coarsest first, and for all nodes together: the domains that hold most.
pub(crate) fn levels(
    cluster: &Cluster,
    framework: &Framework,
    request: &Request<'_>,
) -> Result<Vec<LevelReport>, PlaceError> {
    let gang = request.gang()?;
    let rows = request.rows(cluster);
    let (mut rooms, now) = (Capacity::default(), request.now);
    let mut model = Problem::new(cluster, framework, &gang, now, rows, &mut rooms);
    let parts = Parts::new(&model, gang.group(), false);
    let mut solver = Solver::new(&mut model, &parts)?;
    let mut keys: Vec<Option<&str>> = Vec::new();
    let topology = &gang.group().topology;
    let asked = [topology.require.as_deref(), topology.prefer.as_deref()];
    let flat = asked.into_iter().flatten().filter(|key| cluster.levels().all(|l| l != *key));
    keys.extend(cluster.levels().map(Some));
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
                        .map_or("", |value| cluster.label_text(value))
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
