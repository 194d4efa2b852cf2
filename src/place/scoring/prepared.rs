//! The plugins of a framework, prepared for one pod shape.

use alloc::sync::Arc;
use alloc::vec::Vec;

use smallvec::SmallVec;

use super::ranking::{Normalized, Ranking, RawScores, key};
use super::tie_order::Ranks;
use super::view::View;
use crate::base::chunks::CHUNK;
use crate::base::simd::vectorized;
use crate::base::sum::Sum;
use crate::framework::prepared::{Plugin, PreparedFilters, PreparedPlugin, ReadyScore};
use crate::framework::{
    Block, Context, Declaration, FilterPreparation, Framework, MAX_SCORE, Normalization,
    ScorePlugin, ScorePreparation,
};
use crate::model::PodShape;
use crate::state::journal::Moment;
use crate::state::{Cluster, NodeView, Row};

/// Rows of a small block.
const SMALL: usize = 64;

/// The plugins that apply to a shape: node-local ones prepared, the others listed.
#[derive(Debug)]
pub(crate) struct PreparedPlugins {
    pub(crate) shape: Arc<PodShape>,
    /// The node-local filters.
    pub(crate) filters: PreparedFilters,
    /// Node-local scores that need no normalisation.
    pub(crate) plain: Vec<ReadyScore>,
    /// Node-local scores that are normalised.
    pub(crate) normalized: Vec<ReadyScore>,
    /// Plugins that skip the shape as long as no pod has affinity terms.
    pub(crate) unconcerned: Vec<Plugin>,
    /// The moment at which they were found.
    prepared_at: Moment,
    /// Plugins that read beyond the node.
    pub(crate) non_local: Vec<Plugin>,
    /// The sum of scores that are the same for every node.
    pub(crate) constant: i64,
    /// The raw scores of those, by their index in the framework.
    constants: SmallVec<[(usize, i64); 4]>,
    /// Whether a plugin reads other nodes, though not their pods.
    reads_nodes: bool,
    /// The order of nodes with equal totals.
    pub(crate) ranks: Ranks,
    /// Whether a plugin reads more of a node than its sums.
    pub(crate) reads_pods: bool,
    /// Whether the filters' room is how many pods a feasible row takes.
    pub(crate) counts: bool,
}

impl PreparedPlugins {
    /// Prepares the node-local plugins for a shape, and lists the others. `None` if no answer of
    /// some plugin can be kept: it reads the group or the time.
    pub(crate) fn prepare(
        framework: &Framework,
        cluster: &Cluster,
        shape: &Arc<PodShape>,
    ) -> Option<PreparedPlugins> {
        let mut all = PreparedPlugins {
            shape: Arc::clone(shape),
            filters: PreparedFilters::default(),
            plain: Vec::new(),
            normalized: Vec::new(),
            unconcerned: Vec::new(),
            prepared_at: cluster.moment(),
            non_local: Vec::new(),
            constant: 0,
            constants: SmallVec::new(),
            reads_nodes: false,
            ranks: Ranks::default(),
            reads_pods: false,
            counts: true,
        };
        let cx = Context::new(cluster, shape);
        for plugin in Plugin::all(framework, shape) {
            let declaration = plugin.declare(framework, shape);
            if !declaration.is_cacheable() {
                return None;
            }
            match plugin {
                _ if !declaration.is_pod_local() || declaration.reads_feasible => {
                    // Pods with terms of their own are seldom skipped, and dear to prepare for.
                    let may_skip = declaration.reads_affinity && !shape.has_pod_affinity();
                    let skips = may_skip && plugin.skips(framework, &cx);
                    if skips { &mut all.unconcerned } else { &mut all.non_local }.push(plugin);
                }
                Plugin::Filter(index) => {
                    let evaluates = all.filters.add(framework, index, &declaration, &cx);
                    let rejects = all.filters.rows.rejected().is_some();
                    all.reads_nodes |= declaration.reads_nodes && (evaluates || rejects);
                    if evaluates {
                        all.reads_pods |= declaration.reads_pods;
                        all.counts &= declaration.room || declaration.is_pod_independent();
                    }
                }
                Plugin::Score(index) => all.add_score(framework, index, &declaration, &cx),
            }
        }
        Some(all)
    }

    fn add_score(
        &mut self,
        framework: &Framework,
        index: usize,
        declaration: &Declaration,
        cx: &Context<'_>,
    ) {
        let (weight, score) = &framework.scores()[index];
        match framework.prepare_score(index, cx) {
            ScorePreparation::Skip => {}
            ScorePreparation::Constant(raw) => {
                self.add_constant(index, *weight, &**score, raw);
                self.reads_nodes |= declaration.reads_nodes;
            }
            ScorePreparation::Ready(prepared) => {
                self.reads_pods |= declaration.reads_pods;
                self.reads_nodes |= declaration.reads_nodes;
                let plain = score.normalization() == Normalization::None;
                let list = if plain { &mut self.plain } else { &mut self.normalized };
                list.push(PreparedPlugin { index, prepared, counters: Vec::new() });
            }
        }
    }

    fn add_constant(&mut self, plugin: usize, weight: i64, score: &dyn ScorePlugin, raw: i64) {
        self.constant += weight * score.normalization().apply(score, raw, raw, raw);
        self.constants.push((plugin, raw));
    }

    /// Prepares the plugins again after some nodes have changed. False if answers for other nodes
    /// may be others now; `None` as [`PreparedPlugins::prepare`].
    ///
    /// By the declarations of these plugins, only rows that changed have to be evaluated again. All
    /// rows are, if a plugin reads other nodes too, or a score begins or ceases to be the same for
    /// all nodes.
    pub(crate) fn follow(
        &mut self,
        framework: &Framework,
        cluster: &Cluster,
        rows: &(impl Iterator<Item = Row> + Clone),
    ) -> Option<bool> {
        let mut fresh = PreparedPlugins::prepare(framework, cluster, &self.shape)?;
        fresh.ranks = self.ranks.clone();
        for &(plugin, raw) in &self.constants {
            fresh.keep_constant(framework, cluster, (plugin, raw), rows.clone());
        }
        let plugins = |stages: &[ReadyScore], others: &[ReadyScore]| {
            stages.iter().map(|stage| stage.index).eq(others.iter().map(|stage| stage.index))
        };
        let same = !self.reads_nodes
            && !fresh.reads_nodes
            && self.constant == fresh.constant
            && plugins(&self.plain, &fresh.plain)
            && plugins(&self.normalized, &fresh.normalized)
            && (&self.non_local, &self.unconcerned) == (&fresh.non_local, &fresh.unconcerned);
        *self = fresh;
        Some(same)
    }

    /// Keeps a score that was the same for all nodes, if it reads nothing but the node itself and
    /// gives the nodes that changed the same score.
    fn keep_constant(
        &mut self,
        framework: &Framework,
        cluster: &Cluster,
        (plugin, raw): (usize, i64),
        mut rows: impl Iterator<Item = Row>,
    ) {
        let (weight, score) = &framework.scores()[plugin];
        if !score.declare(&self.shape).is_pod_independent() {
            return;
        }
        let is = |stage: &ReadyScore| stage.index == plugin;
        let stages = if score.normalization() == Normalization::None {
            &mut self.plain
        } else {
            &mut self.normalized
        };
        let Some(at) = stages.iter().position(is) else { return };
        let stage = &stages[at];
        let cx = stage.context(Context::new(cluster, &self.shape));
        let same = |node| stage.prepared.score(&cx, node) == raw;
        if rows.all(|row| cluster.view(row).is_none_or(same)) {
            stages.remove(at);
            self.add_constant(plugin, *weight, &**score, raw);
        }
    }

    /// Whether the plugins that skipped the shape still skip it.
    pub(crate) fn still_holds(&self, framework: &Framework, cluster: &Cluster) -> bool {
        let known = self.unconcerned.is_empty() || self.prepared_at == cluster.moment();
        if known || !cluster.has_affinity_pods() {
            return true;
        }
        let cx = Context::new(cluster, &self.shape);
        self.unconcerned.iter().all(|plugin| plugin.skips(framework, &cx))
    }

    /// Makes the verdicts of a block negative where a filter rejects the row.
    pub(crate) fn filter_block(&self, cluster: &Cluster, block: &Block<'_>, verdicts: &mut [i64]) {
        let cx = Context::new(cluster, &self.shape);
        self.filters.filter_block(cx, block, verdicts);
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
        buffers: [&mut [i64]; 3],
        framework: &Framework,
        cluster: &Cluster,
        block: &Block<'_>,
        keys: &mut Vec<u64>,
    ) {
        vectorized(
            #[inline(always)]
            || self.add_keys_of_rows(buffers, framework, cluster, block, keys),
        );
    }

    #[inline(always)]
    fn add_keys_of_rows(
        &self,
        [verdicts, totals, scores]: [&mut [i64]; 3],
        framework: &Framework,
        cluster: &Cluster,
        block: &Block<'_>,
        keys: &mut Vec<u64>,
    ) {
        let (verdicts, totals) = (&mut verdicts[..block.len()], &mut totals[..block.len()]);
        self.filter_block(cluster, block, verdicts);
        if verdicts.iter().all(|verdict| *verdict < 0) {
            keys.resize(keys.len() + block.len(), 0);
            return;
        }
        let cx = Context::new(cluster, &self.shape);
        add_plain(framework, &cx, &self.plain, block, self.constant, totals, scores);
        let key_of = |((&total, &verdict), rank): ((&i64, &i64), u32)| {
            // All ones where the verdict is not negative.
            let feasible = !(verdict >> 63) as u64;
            key(total, rank) & feasible
        };
        let rows = totals.iter().zip(&*verdicts);
        match self.ranks.salted() {
            None => keys.extend(rows.zip(block.rank().iter().copied()).map(key_of)),
            Some(ranks) => {
                keys.extend(rows.zip(block.rows().map(|row| ranks[row])).map(key_of));
            }
        }
    }

    /// The normalised scores, for the ranking.
    pub(crate) fn parts<'a>(&self, framework: &'a Framework) -> Vec<Normalized<'a>> {
        self.normalized
            .iter()
            .map(|stage| {
                let (weight, score) = &framework.scores()[stage.index];
                Normalized { weight: *weight, score: &**score }
            })
            .collect()
    }

    /// An upper bound on how many pods fit on the feasible rows: `least` on each, or what the filters
    /// say there is room for.
    pub(crate) fn count_room(
        &self,
        cluster: &Cluster,
        least: i64,
        feasible: impl Fn(Row) -> bool,
    ) -> i64 {
        let cx = Context::new(cluster, &self.shape);
        let mut sum = Sum::default();
        let mut room = [0_i64; CHUNK];
        for block in Block::all(cluster) {
            let room = &mut room[..block.len()];
            self.filters.room_block(cx, &block, room);
            vectorized(
                #[inline(always)]
                || {
                    for (row, room) in block.rows().zip(room.iter()) {
                        sum.add(if feasible(row) { (*room).max(least) } else { 0 });
                    }
                },
            );
        }
        sum.total()
    }

    /// The room of every row, with what was placed on it.
    pub(crate) fn rooms(&self, View { cluster, overlay, .. }: View<'_>, rooms: &mut Vec<i64>) {
        let cx = Context::new(cluster, &self.shape);
        rooms.resize(cluster.rows(), 0);
        for (block, rooms) in Block::all(cluster).zip(rooms.chunks_mut(Block::MOST)) {
            self.filters.room_block(cx, &block, rooms);
        }
        for row in overlay.touched() {
            if let Some(node) = overlay.view(cluster, row) {
                rooms[row] = self.filters.room(cx, node);
            }
        }
    }

    /// The same of one row.
    pub(crate) fn room(&self, view: View<'_>, row: Row) -> i64 {
        let room = |node| self.filters.room(Context::new(view.cluster, &self.shape), node);
        view.node(row).map_or(0, room)
    }

    /// Evaluates one row again, which has a place on a ranking.
    #[inline]
    pub(crate) fn refresh(
        &self,
        view: View<'_>,
        (row, place): (Row, usize),
        ranking: &mut Ranking,
        parts: &[Normalized<'_>],
        calls: &mut u64,
    ) {
        let View { framework, cluster, .. } = view;
        let node = view.node(row);
        if self.is_plain() {
            let key = node.map_or(0, |node| self.key_of(framework, cluster, node, calls));
            ranking.set_plain(place, key);
            return;
        }
        let judgement = node.and_then(|node| self.judge(framework, cluster, node, calls));
        ranking.set(place, self.ranks.of(cluster, row), judgement.as_ref(), parts);
    }

    /// How many plugins evaluate a row, normalised scores apart.
    pub(crate) fn plugins(&self) -> usize {
        self.filters.filters.len() + self.plain.len()
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
        let cx = Context::new(cluster, &self.shape);
        if !self.filters.passes(cx, node, calls) {
            return 0;
        }
        key(self.plain_total(framework, cluster, node, calls), self.ranks.of(cluster, node.row()))
    }

    /// The raw scores of a node; `None` if it is not feasible.
    pub(crate) fn judge(
        &self,
        framework: &Framework,
        cluster: &Cluster,
        node: NodeView<'_>,
        calls: &mut u64,
    ) -> Option<RawScores> {
        let cx = Context::new(cluster, &self.shape);
        if !self.filters.passes(cx, node, calls) {
            return None;
        }
        let plain = self.plain_total(framework, cluster, node, calls);
        let raws = self.normalized.iter().map(|stage| raw(stage, cx, node)).collect();
        *calls += self.normalized.len() as u64;
        Some(RawScores { plain, raws })
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
            let weight = framework.scores()[stage.index].0;
            total += weight * raw(stage, cx, node).clamp(0, MAX_SCORE);
        }
        *calls += self.plain.len() as u64;
        total
    }
}

#[inline]
fn raw(stage: &ReadyScore, cx: Context<'_>, node: NodeView<'_>) -> i64 {
    stage.prepared.score(&stage.context(cx), node)
}

#[inline(always)]
pub(crate) fn add_plain(
    framework: &Framework,
    cx: &Context<'_>,
    stages: &[ReadyScore],
    block: &Block<'_>,
    constant: i64,
    totals: &mut [i64],
    scores: &mut [i64],
) {
    totals.fill(constant);
    let scores = &mut scores[..block.len()];
    for stage in stages {
        stage.prepared.score_block(&stage.context(*cx), block, scores);
        // A difference that wraps is below zero itself.
        let beyond = |bits, score: &i64| bits | score | MAX_SCORE.wrapping_sub(*score);
        let beyond = scores.iter().fold(0, beyond);
        if beyond < 0 {
            for score in scores.iter_mut() {
                *score = (*score).clamp(0, MAX_SCORE);
            }
        }
        let weight = framework.scores()[stage.index].0;
        if weight == 1 {
            totals.iter_mut().zip(&*scores).for_each(|(total, score)| *total += score);
            continue;
        }
        // Weights and scores are far below 2^31, which spares a wide multiplication.
        let weight = weight as u32;
        for (total, score) in totals.iter_mut().zip(&*scores) {
            *total += (u64::from(*score as u32) * u64::from(weight)) as i64;
        }
    }
}

/// Whether sums over all nodes show, before anything else is evaluated, that fewer than `wanted`
/// pods of a shape fit. O(1) plugin calls for each filter that judges room.
pub(crate) fn is_too_large(
    framework: &Framework,
    cluster: &Cluster,
    shape: &PodShape,
    wanted: usize,
) -> bool {
    let cx = Context::new(cluster, shape);
    framework.judging_room().any(|(index, filter)| {
        let declaration = filter.declare(shape);
        if !declaration.is_pod_local() || !declaration.is_cacheable() {
            return false;
        }
        match framework.prepare_filter(index, &cx) {
            FilterPreparation::Ready(prepared) | FilterPreparation::Narrow(prepared, _) => {
                let capacity = prepared.capacity();
                capacity.is_some_and(|all| all.of_all(&cx, wanted as i64) < wanted as i64)
            }
            FilterPreparation::Skip | FilterPreparation::Reject(_) => false,
        }
    })
}
