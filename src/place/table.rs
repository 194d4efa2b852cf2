//! What all plugins say of all nodes for one pod shape, kept up to date.

use alloc::sync::Arc;
use alloc::vec::Vec;

use super::board::{Board, Judgement, Normalized, key};
use crate::base::RowSet;
use crate::base::chunks::CHUNK;
use crate::base::exact::all_below;
use crate::framework::evaluation::Stage;
use crate::framework::{
    Ahead, Block, Context, Declaration, Framework, MAX_SCORE, Normalization, Preparation, Prepared,
    Reach,
};
use crate::model::PodShape;
use crate::state::{Cluster, NodeView, Overlay, Row, Takes};

/// All nodes judged for one shape, under a framework whose plugins read no further than the node
/// itself for this shape.
#[derive(Debug)]
pub(crate) struct Table {
    pub(crate) shape: Arc<PodShape>,
    filters: Vec<Stage>,
    /// Scores that need no normalisation.
    plain: Vec<Stage>,
    /// Scores that do.
    normalized: Vec<Stage>,
    /// Plugins that have nothing to say as long as no pod has affinity terms.
    unconcerned: Vec<Unconcerned>,
    only: Option<RowSet>,
    refused: bool,
    /// The sum of scores that are the same for every node.
    constant: i64,
    /// Whether a plugin reads more of a node than its sums.
    pub(crate) reads_pods: bool,
    /// Whether the filters' room is how many pods a feasible row takes.
    pub(crate) counts: bool,
    pub(crate) board: Board,
    /// Whether the board is made; it is not where too few pods fit for it to be of use.
    pub(crate) scored: bool,
    /// An upper bound on how many pods of the shape fit in all, if it was worked out.
    room: Option<i64>,
    /// How much of the planner's log of changed rows is accounted for.
    pub(crate) cursor: u64,
    /// When it was asked for last, in requests.
    pub(crate) last_use: u64,
    /// Evaluations of a node by a plugin.
    pub(crate) calls: u64,
}

#[derive(Debug, Clone, Copy)]
enum Unconcerned {
    Filter(usize),
    Score(usize),
}

/// Buffers for building, used again and again.
#[derive(Debug, Default)]
pub(crate) struct Scratch {
    verdicts: Vec<i64>,
}

impl Table {
    /// Prepares all plugins for a shape; `None` if one of them reads further than the node.
    pub(crate) fn prepare(
        framework: &Framework,
        cluster: &Cluster,
        shape: &Arc<PodShape>,
    ) -> Option<Table> {
        let mut table = Table {
            shape: Arc::clone(shape),
            filters: Vec::new(),
            plain: Vec::new(),
            normalized: Vec::new(),
            unconcerned: Vec::new(),
            only: None,
            refused: false,
            constant: 0,
            reads_pods: false,
            counts: true,
            board: Board::default(),
            scored: false,
            room: None,
            cursor: 0,
            last_use: 0,
            calls: 0,
        };
        let cx = Context::new(cluster, shape);
        for (plugin, filter) in framework.filters().iter().enumerate() {
            let declaration = filter.declare(shape);
            let near = is_near(&declaration)?;
            match filter.prepare(&cx) {
                Preparation::Skip | Preparation::Constant(_) if near => {}
                Preparation::Skip if declaration.reads_affinity => {
                    table.unconcerned.push(Unconcerned::Filter(plugin));
                }
                Preparation::Reject(_) if near => table.refused = true,
                Preparation::Ready(prepared) if near => {
                    table.add_filter(plugin, &declaration, prepared);
                }
                Preparation::Narrow(prepared, rows) if near => {
                    match &mut table.only {
                        Some(only) => only.intersect(&rows),
                        only => *only = Some(rows),
                    }
                    table.add_filter(plugin, &declaration, prepared);
                }
                _ => return None,
            }
        }
        for (plugin, (weight, score)) in framework.scores().iter().enumerate() {
            let declaration = score.declare(shape);
            let near = is_near(&declaration)?;
            let normalization = score.normalization();
            match score.prepare(&cx) {
                Preparation::Skip if near => {}
                Preparation::Skip if declaration.reads_affinity => {
                    table.unconcerned.push(Unconcerned::Score(plugin));
                }
                Preparation::Constant(raw) if near && normalization != Normalization::Own => {
                    table.constant += weight * normalization.apply(&**score, raw, raw, raw);
                }
                Preparation::Ready(prepared) | Preparation::Narrow(prepared, _)
                    if near && !declaration.reads_feasible =>
                {
                    table.reads_pods |= declaration.reads_pods;
                    let stages = match normalization {
                        Normalization::None => &mut table.plain,
                        Normalization::Own => return None,
                        _ => &mut table.normalized,
                    };
                    stages.push(Stage { plugin, prepared, counters: Vec::new() });
                }
                _ => return None,
            }
        }
        Some(table)
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
                Unconcerned::Filter(plugin) => framework.filters()[plugin].prepare(&cx),
                Unconcerned::Score(plugin) => framework.scores()[plugin].1.prepare(&cx),
            };
            matches!(preparation, Preparation::Skip)
        })
    }

    /// Judges every row. Returns false, with nothing scored, if fewer than `wanted` pods fit.
    pub(crate) fn build(
        &mut self,
        framework: &Framework,
        cluster: &Cluster,
        wanted: usize,
        scratch: &mut Scratch,
    ) -> bool {
        self.room = None;
        self.scored = false;
        if wanted > cluster.rows() {
            // More than one pod a row: what there is room for may decide it at once.
            let room = self.count_room(framework, cluster, |_| true);
            if room < wanted as i64 {
                self.room = Some(room);
                return false;
            }
        }
        if self.is_plain() {
            return self.build_plain(framework, cluster, wanted);
        }
        let verdicts = &mut scratch.verdicts;
        verdicts.clear();
        verdicts.resize(cluster.rows(), 0);
        let gaps = cluster.node_count() != cluster.rows();
        let mut feasible = 0;
        for block in Block::all(cluster) {
            let verdicts = &mut verdicts[block.rows()];
            self.filter_block(framework, cluster, &block, gaps, verdicts);
            feasible += verdicts.iter().map(|verdict| usize::from(*verdict >= 0)).sum::<usize>();
        }
        self.calls += (self.filters.len() * cluster.rows()) as u64;
        if feasible == 0 {
            // Nothing to score; kept as it is, for rows that may become feasible.
            self.room = Some(0);
            self.board.rebuild_empty(
                cluster.columns.rank.iter().copied(),
                cluster.rows(),
                self.normalized.len(),
            );
            self.scored = true;
            return wanted == 0;
        }
        if feasible < wanted {
            let verdicts = &scratch.verdicts;
            let room = self.count_room(framework, cluster, |row| verdicts[row] >= 0);
            self.room = Some(room);
            if room < wanted as i64 {
                return false;
            }
        }
        self.score_normalized(framework, cluster, &scratch.verdicts);
        self.scored = true;
        true
    }

    /// [`Table::build`] where no score is normalised: filters and scores in one pass, so that the
    /// columns are read once.
    fn build_plain(&mut self, framework: &Framework, cluster: &Cluster, wanted: usize) -> bool {
        let gaps = cluster.node_count() != cluster.rows();
        let mut board = core::mem::take(&mut self.board);
        board.rebuild_plain(|keys| {
            keys.reserve(cluster.rows());
            for block in Block::all(cluster) {
                self.add_keys(framework, cluster, &block, gaps, keys);
            }
        });
        self.board = board;
        self.scored = true;
        self.calls += ((self.filters.len() + self.plain.len()) * cluster.rows()) as u64;
        self.board.feasible() >= wanted
            || self.board.feasible() > 0 && self.room(framework, cluster) >= wanted as i64
    }

    /// Makes the verdicts of a block negative where a filter rejects the row.
    fn filter_block(
        &self,
        framework: &Framework,
        cluster: &Cluster,
        block: &Block<'_>,
        gaps: bool,
        verdicts: &mut [i64],
    ) {
        if self.refused {
            verdicts.fill(-1);
        }
        if gaps {
            mark_out(verdicts, |at| block.node(at).is_some());
        }
        if let Some(only) = &self.only {
            mark_out(verdicts, |at| only.contains(block.rows().start + at));
        }
        let cx = Context::new(cluster, &self.shape);
        for stage in &self.filters {
            let cx = Context { prepared: &stage.prepared, ..cx };
            framework.filters()[stage.plugin].filter_block(&cx, block, verdicts);
        }
    }

    /// Appends the keys of a block's rows, if no score is normalised.
    fn add_keys(
        &self,
        framework: &Framework,
        cluster: &Cluster,
        block: &Block<'_>,
        gaps: bool,
        keys: &mut Vec<u64>,
    ) {
        let mut verdicts = [0_i64; CHUNK];
        let verdicts = &mut verdicts[..block.len()];
        self.filter_block(framework, cluster, block, gaps, verdicts);
        if verdicts.iter().all(|verdict| *verdict < 0) {
            keys.resize(keys.len() + block.len(), 0);
            return;
        }
        let mut scores = [0_i64; CHUNK];
        let mut totals = [0_i64; CHUNK];
        let totals = &mut totals[..block.len()];
        let cx = Context::new(cluster, &self.shape);
        add_plain(framework, &cx, &self.plain, block, self.constant, totals, &mut scores);
        let rows = totals.iter().zip(verdicts).zip(block.rank());
        keys.extend(rows.map(|((&total, verdict), &rank)| {
            // All ones where the verdict is not negative.
            let feasible = !(*verdict >> 63) as u64;
            key(total, rank) & feasible
        }));
    }

    /// Appends the keys that the rows of a block would have with so many more pods of the shape on
    /// each, if no score is normalised. Sums must not overflow.
    pub(crate) fn look_ahead(
        &mut self,
        framework: &Framework,
        cluster: &Cluster,
        block: &Block<'_>,
        (takes, pods): (&Takes, u32),
        ahead: &mut Ahead,
        keys: &mut Vec<u64>,
    ) {
        ahead.fill(block, takes, i64::from(pods));
        let gaps = cluster.node_count() != cluster.rows();
        self.add_keys(framework, cluster, &block.with(ahead), gaps, keys);
        self.calls += ((self.filters.len() + self.plain.len()) * block.len()) as u64;
    }

    /// The key that one row would have with so many more pods of the shape on it, if no score is
    /// normalised. Sums must not overflow.
    pub(crate) fn key_ahead(
        &mut self,
        framework: &Framework,
        cluster: &Cluster,
        row: Row,
        (takes, pods): (&Takes, u32),
    ) -> u64 {
        let Some(mut node) = cluster.view(row) else { return 0 };
        let usage = takes.ahead(cluster, row, i64::from(pods));
        node.usage = Some(&usage);
        let mut calls = 0;
        let key = self.key_of(framework, cluster, node, &mut calls);
        self.calls += calls;
        key
    }

    fn score_normalized(&mut self, framework: &Framework, cluster: &Cluster, verdicts: &[i64]) {
        let mut board = core::mem::take(&mut self.board);
        let mut scores = [0_i64; CHUNK];
        let cx = Context::new(cluster, &self.shape);
        board.rebuild_normalized(
            &self.parts(framework),
            |ranks, plain, raws| {
                for block in Block::all(cluster) {
                    ranks.extend(block.rank());
                    let mut totals = [0_i64; CHUNK];
                    let totals = &mut totals[..block.len()];
                    add_plain(
                        framework,
                        &cx,
                        &self.plain,
                        &block,
                        self.constant,
                        totals,
                        &mut scores,
                    );
                    plain.extend(&*totals);
                    for (stage, column) in self.normalized.iter().zip(raws.iter_mut()) {
                        let cx = Context { prepared: &stage.prepared, ..cx };
                        let scores = &mut scores[..block.len()];
                        framework.scores()[stage.plugin].1.score_block(&cx, &block, scores);
                        column.extend(&*scores);
                    }
                }
            },
            |row| verdicts[row] >= 0,
        );
        self.board = board;
        self.calls += ((self.plain.len() + self.normalized.len()) * cluster.rows()) as u64;
    }

    /// The normalised scores, for the board.
    pub(crate) fn parts<'a>(&self, framework: &'a Framework) -> Vec<Normalized<'a>> {
        self.normalized
            .iter()
            .map(|stage| {
                let (weight, score) = &framework.scores()[stage.plugin];
                Normalized { weight: *weight, score: &**score }
            })
            .collect()
    }

    /// An upper bound on how many pods of the shape fit in all.
    ///
    /// O(1) if it is known for the rows as they are, else a pass. The board must be made, or the
    /// bound known.
    pub(crate) fn room(&mut self, framework: &Framework, cluster: &Cluster) -> i64 {
        if let Some(room) = self.room {
            return room;
        }
        let room = self.count_room(framework, cluster, |row| self.board.is_feasible(row));
        self.room = Some(room);
        room
    }

    fn count_room(
        &self,
        framework: &Framework,
        cluster: &Cluster,
        feasible: impl Fn(Row) -> bool,
    ) -> i64 {
        let mut sum = 0_i64;
        let mut room = [0_i64; CHUNK];
        for block in Block::all(cluster) {
            let room = &mut room[..block.len()];
            self.room_block(framework, cluster, &block, room);
            for (row, room) in block.rows().zip(room.iter()) {
                if feasible(row) {
                    // A feasible row takes one pod, whatever the bound says.
                    sum = sum.saturating_add((*room).max(1));
                }
            }
        }
        sum
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
        for block in Block::all(cluster) {
            self.room_block(framework, cluster, &block, &mut rooms[block.rows()]);
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

    /// Judges one row of the table's own board again, with what a decision under way has placed on
    /// it.
    #[inline]
    pub(crate) fn refresh_own(
        &mut self,
        ground: (&Framework, &Cluster, &Overlay),
        row: Row,
        parts: &[Normalized<'_>],
    ) {
        self.room = None;
        let mut board = core::mem::take(&mut self.board);
        let mut calls = 0;
        self.refresh(ground, (row, row), &mut board, parts, &mut calls);
        self.board = board;
        self.calls += calls;
    }

    /// Judges one row again, which has a place on a board.
    #[inline]
    pub(crate) fn refresh(
        &self,
        (framework, cluster, overlay): (&Framework, &Cluster, &Overlay),
        (row, place): (Row, usize),
        board: &mut Board,
        parts: &[Normalized<'_>],
        calls: &mut u64,
    ) {
        let node = overlay.view(cluster, row);
        if self.is_plain() {
            let key = node.map_or(0, |node| self.key_of(framework, cluster, node, calls));
            board.set_plain(place, key);
            return;
        }
        let judgement = node.and_then(|node| self.judge(framework, cluster, node, calls));
        board.set(place, cluster.columns.rank[row], judgement.as_ref(), parts);
    }

    /// How many rows of `rows` are feasible, as the board has them.
    pub(crate) fn feasible_within(&self, rows: &[Row]) -> usize {
        rows.iter().filter(|&&row| self.board.is_feasible(row)).count()
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
    fn judge(
        &self,
        framework: &Framework,
        cluster: &Cluster,
        node: NodeView<'_>,
        calls: &mut u64,
    ) -> Option<Judgement> {
        if !self.passes(framework, cluster, node, calls) {
            return None;
        }
        let plain = self.plain_total(framework, cluster, node, calls);
        let cx = Context::new(cluster, &self.shape);
        let raws = self.normalized.iter().map(|stage| raw(framework, stage, cx, node)).collect();
        *calls += self.normalized.len() as u64;
        Some(Judgement { plain, raws })
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

fn add_plain(
    framework: &Framework,
    cx: &Context<'_>,
    stages: &[Stage],
    block: &Block<'_>,
    constant: i64,
    totals: &mut [i64],
    scores: &mut [i64; CHUNK],
) {
    totals.fill(constant);
    let scores = &mut scores[..block.len()];
    for stage in stages {
        let (weight, score) = &framework.scores()[stage.plugin];
        score.score_block(&Context { prepared: &stage.prepared, ..*cx }, block, scores);
        // Weights and scores are far below 2^31, which spares a wide multiplication.
        let weight = *weight as i32;
        let sound = all_below(31, scores);
        for (total, score) in totals.iter_mut().zip(&*scores) {
            let score = if sound { *score as i32 } else { (*score).clamp(0, MAX_SCORE) as i32 };
            let score = if score < MAX_SCORE as i32 { score } else { MAX_SCORE as i32 };
            *total += i64::from((weight * score) as u32);
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

/// Whether a plugin reads no further than the node, the shape and the cluster's nodes; `None` if
/// its answers cannot be kept between requests at all.
fn is_near(declaration: &Declaration) -> Option<bool> {
    let kept =
        !declaration.reads_group && !declaration.reads_time && declaration.counters.is_empty();
    kept.then_some(matches!(declaration.reach, Reach::Static | Reach::Node))
}
