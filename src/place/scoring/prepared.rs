//! All plugins of a framework, made ready for one pod shape.

use alloc::sync::Arc;
use alloc::vec::Vec;

use super::classes::Plugin;
use super::ranking::{Normalized, Ranking, RawScores, key};
use crate::base::RowSet;
use crate::base::chunks::CHUNK;
use crate::base::sum::Sum;
use crate::framework::evaluation::Stage;
use crate::framework::{
    Block, Context, Declaration, Framework, MAX_SCORE, Normalization, Preparation, Prepared, Reach,
};
use crate::model::PodShape;
use crate::state::{Cluster, NodeView, Overlay, Row};

/// Rows of a small block.
const SMALL: usize = 64;

/// The plugins that have something to say about a shape: at work those that read no further than
/// the node, noted the others.
#[derive(Debug)]
pub(crate) struct PreparedPlugins {
    pub(crate) shape: Arc<PodShape>,
    pub(crate) filters: Vec<Stage>,
    /// Scores that need no normalisation.
    pub(crate) plain: Vec<Stage>,
    /// Scores that do.
    pub(crate) normalized: Vec<Stage>,
    /// Plugins that have nothing to say as long as no pod has affinity terms.
    pub(crate) unconcerned: Vec<Plugin>,
    /// Plugins that read further than the node.
    pub(crate) far: Vec<Plugin>,
    only: Option<RowSet>,
    refused: bool,
    /// The sum of scores that are the same for every node.
    pub(crate) constant: i64,
    /// Whether a plugin reads more of a node than its sums.
    pub(crate) reads_pods: bool,
    /// Whether the filters' room is how many pods a feasible row takes.
    pub(crate) counts: bool,
}

impl PreparedPlugins {
    /// Prepares all plugins for a shape that read no further than the node, and notes the others;
    /// `None` if one of them reads what is not kept at all.
    pub(crate) fn prepare(
        framework: &Framework,
        cluster: &Cluster,
        shape: &Arc<PodShape>,
    ) -> Option<PreparedPlugins> {
        let mut all = PreparedPlugins {
            shape: Arc::clone(shape),
            filters: Vec::new(),
            plain: Vec::new(),
            normalized: Vec::new(),
            unconcerned: Vec::new(),
            far: Vec::new(),
            only: None,
            refused: false,
            constant: 0,
            reads_pods: false,
            counts: true,
        };
        let cx = Context::new(cluster, shape);
        for (plugin, filter) in framework.filters().iter().enumerate() {
            let declaration = filter.declare(shape);
            let near = is_near(&declaration)?;
            match filter.prepare(&cx) {
                Preparation::Skip | Preparation::Constant(_) if near => {}
                Preparation::Skip if declaration.reads_affinity => {
                    all.unconcerned.push(Plugin::Filter(plugin));
                }
                Preparation::Reject(_) if near => all.refused = true,
                Preparation::Ready(prepared) if near => {
                    all.add_filter(plugin, &declaration, prepared);
                }
                Preparation::Narrow(prepared, rows) if near => {
                    match &mut all.only {
                        Some(only) => only.intersect(&rows),
                        only => *only = Some(rows),
                    }
                    all.add_filter(plugin, &declaration, prepared);
                }
                _ => all.far.push(Plugin::Filter(plugin)),
            }
        }
        for (plugin, (weight, score)) in framework.scores().iter().enumerate() {
            let declaration = score.declare(shape);
            let near = is_near(&declaration)?;
            let normalization = score.normalization();
            match score.prepare(&cx) {
                Preparation::Skip if near => {}
                Preparation::Skip if declaration.reads_affinity => {
                    all.unconcerned.push(Plugin::Score(plugin));
                }
                Preparation::Constant(raw) if near && normalization != Normalization::Own => {
                    all.constant += weight * normalization.apply(&**score, raw, raw, raw);
                }
                Preparation::Ready(prepared) | Preparation::Narrow(prepared, _)
                    if near && !declaration.reads_feasible =>
                {
                    all.reads_pods |= declaration.reads_pods;
                    let stages = match normalization {
                        Normalization::None => &mut all.plain,
                        Normalization::Own => return None,
                        _ => &mut all.normalized,
                    };
                    stages.push(Stage { plugin, prepared, counters: Vec::new() });
                }
                _ => all.far.push(Plugin::Score(plugin)),
            }
        }
        Some(all)
    }

    fn add_filter(&mut self, plugin: usize, declaration: &Declaration, prepared: Prepared) {
        self.reads_pods |= declaration.reads_pods;
        self.counts &= declaration.room || declaration.reach == Reach::Static;
        self.filters.push(Stage { plugin, prepared, counters: Vec::new() });
    }

    /// Whether plugins that had nothing to say still have nothing to say.
    pub(crate) fn still_holds(&self, framework: &Framework, cluster: &Cluster) -> bool {
        if self.unconcerned.is_empty() || !cluster.has_affinity_pods() {
            return true;
        }
        let cx = Context::new(cluster, &self.shape);
        self.unconcerned.iter().all(|plugin| {
            let preparation = match *plugin {
                Plugin::Filter(plugin) => framework.filters()[plugin].prepare(&cx),
                Plugin::Score(plugin) => framework.scores()[plugin].1.prepare(&cx),
            };
            matches!(preparation, Preparation::Skip)
        })
    }

    /// Makes the verdicts of a block negative where a filter rejects the row.
    pub(crate) fn filter_block(
        &self,
        framework: &Framework,
        cluster: &Cluster,
        block: &Block<'_>,
        verdicts: &mut [i64],
    ) {
        if self.refused {
            verdicts.fill(-1);
        }
        if cluster.node_count() != cluster.rows() {
            mark_out(verdicts, |at| block.node(at).is_some());
        }
        if let Some(only) = &self.only {
            mark_out(verdicts, |at| only.contains(block.row(at)));
        }
        let cx = Context::new(cluster, &self.shape);
        for stage in &self.filters {
            let cx = Context { prepared: &stage.prepared, ..cx };
            framework.filters()[stage.plugin].filter_block(&cx, block, verdicts);
        }
    }

    /// Appends the keys of a block's rows, if no score is normalised.
    pub(crate) fn add_keys(
        &self,
        framework: &Framework,
        cluster: &Cluster,
        block: &Block<'_>,
        keys: &mut Vec<u64>,
    ) {
        // Buffers cost what is cleared of them.
        if block.len() <= SMALL {
            let buffers = [&mut [0; SMALL][..], &mut [0; SMALL], &mut [0; SMALL]];
            self.add_keys_with(buffers, framework, cluster, block, keys);
        } else {
            let buffers = [&mut [0; CHUNK][..], &mut [0; CHUNK], &mut [0; CHUNK]];
            self.add_keys_with(buffers, framework, cluster, block, keys);
        }
    }

    /// [`PreparedPlugins::add_keys`] with cleared buffers that are as long as the block, or longer.
    fn add_keys_with(
        &self,
        [verdicts, totals, scores]: [&mut [i64]; 3],
        framework: &Framework,
        cluster: &Cluster,
        block: &Block<'_>,
        keys: &mut Vec<u64>,
    ) {
        let (verdicts, totals) = (&mut verdicts[..block.len()], &mut totals[..block.len()]);
        self.filter_block(framework, cluster, block, verdicts);
        if verdicts.iter().all(|verdict| *verdict < 0) {
            keys.resize(keys.len() + block.len(), 0);
            return;
        }
        let cx = Context::new(cluster, &self.shape);
        add_plain(framework, &cx, &self.plain, block, self.constant, totals, scores);
        let rows = totals.iter().zip(&*verdicts).zip(block.rank());
        keys.extend(rows.map(|((&total, verdict), &rank)| {
            // All ones where the verdict is not negative.
            let feasible = !(*verdict >> 63) as u64;
            key(total, rank) & feasible
        }));
    }

    /// The normalised scores, for the ranking.
    pub(crate) fn parts<'a>(&self, framework: &'a Framework) -> Vec<Normalized<'a>> {
        self.normalized
            .iter()
            .map(|stage| {
                let (weight, score) = &framework.scores()[stage.plugin];
                Normalized { weight: *weight, score: &**score }
            })
            .collect()
    }

    /// An upper bound on how many pods fit on the feasible rows: `least` on each, or what the filters
    /// say there is room for.
    pub(crate) fn count_room(
        &self,
        framework: &Framework,
        cluster: &Cluster,
        least: i64,
        feasible: impl Fn(Row) -> bool,
    ) -> i64 {
        let mut sum = Sum::default();
        let mut room = [0_i64; CHUNK];
        for block in Block::all(cluster) {
            let room = &mut room[..block.len()];
            self.room_block(framework, cluster, &block, room);
            for (row, room) in block.rows().zip(room.iter()) {
                sum.add(if feasible(row) { (*room).max(least) } else { 0 });
            }
        }
        sum.total()
    }

    fn room_block(
        &self,
        framework: &Framework,
        cluster: &Cluster,
        block: &Block<'_>,
        room: &mut [i64],
    ) {
        let cx = Context::new(cluster, &self.shape);
        room.fill(i64::MAX);
        for stage in &self.filters {
            let cx = Context { prepared: &stage.prepared, ..cx };
            framework.filters()[stage.plugin].room_block(&cx, block, room);
        }
    }

    /// The room of every row, with what was placed on it.
    pub(crate) fn rooms(
        &self,
        framework: &Framework,
        cluster: &Cluster,
        overlay: &Overlay,
        rooms: &mut Vec<i64>,
    ) {
        rooms.resize(cluster.rows(), 0);
        for (block, rooms) in Block::all(cluster).zip(rooms.chunks_mut(Block::MOST)) {
            self.room_block(framework, cluster, &block, rooms);
        }
        let cx = Context::new(cluster, &self.shape);
        for row in overlay.touched() {
            let Some(node) = overlay.view(cluster, row) else { continue };
            let bounds = self.filters.iter().map(|stage| {
                let cx = Context { prepared: &stage.prepared, ..cx };
                framework.filters()[stage.plugin].room(&cx, node)
            });
            rooms[row] = bounds.min().unwrap_or(i64::MAX);
        }
    }

    /// Evaluates one row again, which has a place on a ranking.
    #[inline]
    pub(crate) fn refresh(
        &self,
        (framework, cluster, overlay): (&Framework, &Cluster, &Overlay),
        (row, place): (Row, usize),
        ranking: &mut Ranking,
        parts: &[Normalized<'_>],
        calls: &mut u64,
    ) {
        let node = overlay.view(cluster, row);
        if self.is_plain() {
            let key = node.map_or(0, |node| self.key_of(framework, cluster, node, calls));
            ranking.set_plain(place, key);
            return;
        }
        let judgement = node.and_then(|node| self.judge(framework, cluster, node, calls));
        ranking.set(place, cluster.columns.rank[row], judgement.as_ref(), parts);
    }

    /// How many plugins judge a row, but for scores that are normalised.
    pub(crate) fn plugins(&self) -> usize {
        self.filters.len() + self.plain.len()
    }

    /// Whether no score is normalised.
    #[inline]
    pub(crate) fn is_plain(&self) -> bool {
        self.normalized.is_empty()
    }

    /// The key of a node, if no score is normalised; 0 if it is not feasible.
    #[inline]
    pub(crate) fn key_of(
        &self,
        framework: &Framework,
        cluster: &Cluster,
        node: NodeView<'_>,
        calls: &mut u64,
    ) -> u64 {
        if !self.passes(framework, cluster, node, calls) {
            return 0;
        }
        key(self.plain_total(framework, cluster, node, calls), cluster.columns.rank[node.row()])
    }

    /// What all plugins say of a node; `None` if it is not feasible.
    pub(crate) fn judge(
        &self,
        framework: &Framework,
        cluster: &Cluster,
        node: NodeView<'_>,
        calls: &mut u64,
    ) -> Option<RawScores> {
        if !self.passes(framework, cluster, node, calls) {
            return None;
        }
        let plain = self.plain_total(framework, cluster, node, calls);
        let cx = Context::new(cluster, &self.shape);
        let raws = self.normalized.iter().map(|stage| raw(framework, stage, cx, node)).collect();
        *calls += self.normalized.len() as u64;
        Some(RawScores { plain, raws })
    }

    /// Whether a node passes all filters.
    #[inline]
    fn passes(
        &self,
        framework: &Framework,
        cluster: &Cluster,
        node: NodeView<'_>,
        calls: &mut u64,
    ) -> bool {
        if self.refused || self.only.as_ref().is_some_and(|only| !only.contains(node.row())) {
            return false;
        }
        let cx = Context::new(cluster, &self.shape);
        self.filters.iter().all(|stage| {
            *calls += 1;
            let cx = Context { prepared: &stage.prepared, ..cx };
            framework.filters()[stage.plugin].filter(&cx, node).passes()
        })
    }

    /// The weighted sum of the scores that are not normalised.
    #[inline]
    fn plain_total(
        &self,
        framework: &Framework,
        cluster: &Cluster,
        node: NodeView<'_>,
        calls: &mut u64,
    ) -> i64 {
        let cx = Context::new(cluster, &self.shape);
        let mut total = self.constant;
        for stage in &self.plain {
            let weight = framework.scores()[stage.plugin].0;
            total += weight * raw(framework, stage, cx, node).clamp(0, MAX_SCORE);
        }
        *calls += self.plain.len() as u64;
        total
    }
}

#[inline]
fn raw(framework: &Framework, stage: &Stage, cx: Context<'_>, node: NodeView<'_>) -> i64 {
    let cx = Context { prepared: &stage.prepared, ..cx };
    framework.scores()[stage.plugin].1.score(&cx, node)
}

pub(crate) fn add_plain(
    framework: &Framework,
    cx: &Context<'_>,
    stages: &[Stage],
    block: &Block<'_>,
    constant: i64,
    totals: &mut [i64],
    scores: &mut [i64],
) {
    totals.fill(constant);
    let scores = &mut scores[..block.len()];
    for stage in stages {
        let (weight, score) = &framework.scores()[stage.plugin];
        score.score_block(&Context { prepared: &stage.prepared, ..*cx }, block, scores);
        // What wraps is below zero itself.
        let beyond = |bits, score: &i64| bits | score | MAX_SCORE.wrapping_sub(*score);
        let beyond = scores.iter().fold(0, beyond);
        if beyond < 0 {
            for score in scores.iter_mut() {
                *score = (*score).clamp(0, MAX_SCORE);
            }
        }
        if *weight == 1 {
            totals.iter_mut().zip(&*scores).for_each(|(total, score)| *total += score);
            continue;
        }
        // Weights and scores are far below 2^31, which spares a wide multiplication.
        let weight = *weight as u32;
        for (total, score) in totals.iter_mut().zip(&*scores) {
            *total += (u64::from(*score as u32) * u64::from(weight)) as i64;
        }
    }
}

fn mark_out(verdicts: &mut [i64], stays: impl Fn(usize) -> bool) {
    for (at, verdict) in verdicts.iter_mut().enumerate() {
        if !stays(at) {
            *verdict = -1;
        }
    }
}

/// Whether filters that judge room tell by sums over all nodes that fewer than `wanted` pods of a
/// shape fit, before anything else is prepared or looked at.
pub(crate) fn is_too_large(
    framework: &Framework,
    cluster: &Cluster,
    shape: &PodShape,
    wanted: usize,
) -> bool {
    let cx = Context::new(cluster, shape);
    framework.judging_room().any(|filter| {
        if is_near(&filter.declare(shape)) != Some(true) {
            return false;
        }
        match filter.prepare(&cx) {
            Preparation::Ready(prepared) | Preparation::Narrow(prepared, _) => {
                let cx = Context { prepared: &prepared, ..cx };
                filter.room_of_all(&cx, wanted as i64) < wanted as i64
            }
            _ => false,
        }
    })
}

/// Whether a plugin reads no further than the node, the shape and the cluster's nodes; `None` if
/// its answers cannot be kept between requests at all.
fn is_near(declaration: &Declaration) -> Option<bool> {
    let kept = !declaration.reads_group && !declaration.reads_time;
    let near = matches!(declaration.reach, Reach::Static | Reach::Node);
    kept.then_some(near && declaration.counters.is_empty())
}
