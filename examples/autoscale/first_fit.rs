//! First-fit decreasing by template: how cluster-autoscaler estimates, made to start gangs whole.
//!
//! For each template alone: the gangs that wait, the largest first, are placed on what is there and on
//! new nodes of that template, of which one more is added until the gang fits. The template that costs
//! least for a GPU that starts is bought so, and the rest goes round again.

use std::error::Error;

use phalanx::autoscale::NodeTemplate;
use phalanx::{Cluster, Framework, Node, Planner, PodGroup};

use super::scene::{GPU, RACK};

/// The nodes bought.
pub(crate) struct FirstFit {
    pub(crate) price: u64,
    pub(crate) nodes: usize,
    /// Gangs that no template starts.
    pub(crate) left: usize,
}

/// More blocks of a template than this are not added for one gang.
const MOST_BLOCKS: usize = 40;

/// Buys nodes for all gangs.
pub(crate) fn buy(
    cluster: &Cluster,
    templates: &[NodeTemplate],
    backlog: &[PodGroup],
) -> Result<FirstFit, Box<dyn Error>> {
    let mut cluster = cluster.clone();
    let mut waiting: Vec<&PodGroup> = backlog.iter().collect();
    let size = |group: &PodGroup| -> i64 {
        group.pods.iter().map(|pod| pod.shape().requests.of(GPU)).sum()
    };
    waiting.sort_by_key(|group| (-size(group), group.name.clone()));
    let mut bought = FirstFit { price: 0, nodes: 0, left: 0 };
    start(&mut cluster, &mut waiting)?;
    while !waiting.is_empty() {
        let mut best: Option<(u128, usize, Try<'_>)> = None;
        for (number, template) in templates.iter().enumerate() {
            let tried = estimate(&cluster, template, &waiting, bought.nodes)?;
            let gpus: i64 = tried.started.iter().map(|group| size(group)).sum();
            if gpus > 0 {
                let each = u128::from(tried.blocks as u64 * template.price) * 1_000_000;
                let each = each / gpus as u128;
                if best.as_ref().is_none_or(|best| each < best.0) {
                    best = Some((each, number, tried));
                }
            }
        }
        let Some((_, number, tried)) = best else { break };
        bought.price += tried.blocks as u64 * templates[number].price;
        bought.nodes += tried.blocks * templates[number].nodes as usize;
        waiting.retain(|group| !tried.started.iter().any(|other| other.name == group.name));
        cluster = tried.cluster;
    }
    bought.left = waiting.len();
    Ok(bought)
}

/// The outcome of one template.
struct Try<'a> {
    cluster: Cluster,
    blocks: usize,
    started: Vec<&'a PodGroup>,
}

/// Places the gangs that fit as it is.
fn start(cluster: &mut Cluster, waiting: &mut Vec<&PodGroup>) -> Result<(), Box<dyn Error>> {
    let (framework, mut planner) = (Framework::default(), Planner::new());
    let mut left = Vec::new();
    for &group in &*waiting {
        match planner.place(cluster, &framework, group)?.plan() {
            Some(plan) => cluster.commit(&framework, plan)?,
            None => left.push(group),
        }
    }
    *waiting = left;
    Ok(())
}

fn estimate<'a>(
    cluster: &Cluster,
    template: &NodeTemplate,
    waiting: &[&'a PodGroup],
    before: usize,
) -> Result<Try<'a>, Box<dyn Error>> {
    let (framework, mut planner) = (Framework::default(), Planner::new());
    let mut tried = Try { cluster: cluster.clone(), blocks: 0, started: Vec::new() };
    for &group in waiting {
        let own = tried.cluster.clone();
        let mut added = 0;
        let enough = group.pods.len().min(MOST_BLOCKS);
        loop {
            if let Some(plan) = planner.place(&tried.cluster, &framework, group)?.plan() {
                tried.cluster.commit(&framework, plan)?;
                tried.blocks += added;
                tried.started.push(group);
                break;
            }
            if added == enough || !may_use(template, group) {
                tried.cluster = own;
                break;
            }
            for node in block(template, before + 1_000 * (tried.blocks + added)) {
                tried.cluster.add_node(node)?;
            }
            added += 1;
        }
    }
    Ok(tried)
}

/// Whether the template's nodes are any use to a gang at all.
fn may_use(template: &NodeTemplate, group: &PodGroup) -> bool {
    let selects = &group.pods[0].shape().node_selector;
    selects.iter().all(|(label, value)| template.node.labels.get(label) == Some(value))
        && (group.topology.require.is_none() || !template.own_domains.is_empty())
}

fn block(template: &NodeTemplate, number: usize) -> Vec<Node> {
    let name = format!("ffd-{}-{number}", template.name());
    let node = |index| {
        let mut node = template.node.clone();
        node.name = format!("{name}-{index}");
        if template.own_domains.is_empty() { node } else { node.label(RACK, &name) }
    };
    (0..template.nodes).map(node).collect()
}
