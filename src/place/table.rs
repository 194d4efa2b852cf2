//! What all plugins say of all nodes for one pod shape, kept up to date.

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;

use smallvec::SmallVec;

use super::board::{Board, Judgement, Normalized, key};
use super::classes::{Company, Plugin};
use crate::base::RowSet;
use crate::base::chunks::CHUNK;
use crate::framework::evaluation::Stage;
use crate::framework::{
    Block, Context, Declaration, Framework, MAX_SCORE, Normalization, Preparation, Prepared, Reach,
};
use crate::model::PodShape;
use crate::state::{Cluster, NodeView, Overlay, Row};

/// All nodes judged for one shape by those plugins of a framework that read no further than the
/// node itself for this shape.
#[derive(Debug)]
pub(crate) struct Table {
    pub(crate) shape: Arc<PodShape>,
    filters: Vec<Stage>,
    /// Scores that need no normalisation.
    plain: Vec<Stage>,
    /// Scores that do.
    normalized: Vec<Stage>,
    /// Plugins that have nothing to say as long as no pod has affinity terms.
    unconcerned: Vec<Plugin>,
    /// Plugins that read further than the node.
    far: Vec<Plugin>,
    /// Whether those that had nothing to say have now.
    pub(crate) concerned: bool,
    /// The far plugins at work, where they are needed.
    pub(crate) company: Option<Box<Company>>,
    only: Option<RowSet>,
    refused: bool,
    /// The sum of scores that are the same for every node.
    constant: i64,
    /// Whether a plugin reads more of a node than its sums.
    pub(crate) reads_pods: bool,
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

/// Buffers for building, used again and again.
#[derive(Debug, Default)]
pub(crate) struct Scratch {
    verdicts: Vec<i64>,
}

impl Table {
    /// Prepares all plugins for a shape that read no further than the node, and notes the others;
    /// `None` if one of them reads what is not kept at all.
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
            far: Vec::new(),
            concerned: false,
            company: None,
            only: None,
            refused: false,
            constant: 0,
            reads_pods: false,
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
                    table.unconcerned.push(Plugin::Filter(plugin));
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
                _ => table.far.push(Plugin::Filter(plugin)),
            }
        }
        for (plugin, (weight, score)) in framework.scores().iter().enumerate() {
            let declaration = score.declare(shape);
            let near = is_near(&declaration)?;
            let normalization = score.normalization();
            match score.prepare(&cx) {
                Preparation::Skip if near => {}
                Preparation::Skip if declaration.reads_affinity => {
                    table.unconcerned.push(Plugin::Score(plugin));
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
                _ => table.far.push(Plugin::Score(plugin)),
            }
        }
        Some(table)
    }

    /// Whether far plugins have something to say.
    pub(crate) fn is_far(&self) -> bool {
        !self.far.is_empty() || self.concerned && !self.unconcerned.is_empty()
    }

    /// Those that have.
    pub(crate) fn far_plugins(&self) -> impl Iterator<Item = Plugin> + '_ {
        let unconcerned = if self.concerned { &self.unconcerned[..] } else { &[] };
        self.far.iter().chain(unconcerned).copied()
    }

    /// Evaluations of a node by a plugin, near or far.
    pub(crate) fn all_calls(&self) -> u64 {
        self.calls + self.company.as_ref().map_or(0, |company| company.calls())
    }

    fn add_filter(&mut self, plugin: usize, declaration: &Declaration, prepared: Prepared) {
        self.reads_pods |= declaration.reads_pods;
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
        let verdicts = &mut scratch.verdicts;
        verdicts.clear();
        verdicts.resize(cluster.rows(), 0);
        let gaps = cluster.node_count() != cluster.rows();
        let cx = Context::new(cluster, &self.shape);
        let mut feasible = 0;
        for block in Block::all(cluster) {
            let verdicts = &mut verdicts[block.rows()];
            if self.refused {
                verdicts.fill(-1);
            }
            if gaps {
                mark_out(verdicts, |at| block.node(at).is_some());
            }
            if let Some(only) = &self.only {
                mark_out(verdicts, |at| only.contains(block.rows().start + at));
            }
            for stage in &self.filters {
                let cx = Context { prepared: &stage.prepared, ..cx };
                framework.filters()[stage.plugin].filter_block(&cx, &block, verdicts);
            }
            feasible += verdicts.iter().map(|verdict| usize::from(*verdict >= 0)).sum::<usize>();
            self.calls += (self.filters.len() * block.len()) as u64;
        }
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
        if self.normalized.is_empty() {
            self.score_plain(framework, cluster, &scratch.verdicts);
        } else {
            self.score_normalized(framework, cluster, &scratch.verdicts);
        }
        self.scored = true;
        true
    }

    fn score_plain(&mut self, framework: &Framework, cluster: &Cluster, verdicts: &[i64]) {
        let (plain, constant, shape) = (&self.plain, self.constant, &self.shape);
        let mut scores = [0_i64; CHUNK];
        let mut totals = [0_i64; CHUNK];
        let cx = Context::new(cluster, shape);
        self.board.rebuild_plain(|keys| {
            keys.reserve(cluster.rows());
            for block in Block::all(cluster) {
                let totals = &mut totals[..block.len()];
                add_plain(framework, &cx, plain, &block, constant, totals, &mut scores);
                let verdicts = &verdicts[block.rows()];
                let ranks = block.rank();
                keys.extend(totals.iter().zip(verdicts).zip(ranks).map(
                    |((&total, &verdict), &rank)| {
                        // All ones where the verdict is not negative.
                        let feasible = !(verdict >> 63) as u64;
                        key(total, rank) & feasible
                    },
                ));
            }
        });
        self.calls += (self.plain.len() * cluster.rows()) as u64;
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
        let cx = Context::new(cluster, &self.shape);
        let mut sum = 0_i64;
        let mut room = [0_i64; CHUNK];
        for block in Block::all(cluster) {
            let room = &mut room[..block.len()];
            room.fill(i64::MAX);
            for stage in &self.filters {
                let cx = Context { prepared: &stage.prepared, ..cx };
                framework.filters()[stage.plugin].room_block(&cx, &block, room);
            }
            for (row, room) in block.rows().zip(room.iter()) {
                if feasible(row) {
                    // A feasible row takes one pod, whatever the bound says.
                    sum = sum.saturating_add((*room).max(1));
                }
            }
        }
        sum
    }

    /// Judges one row again, with what a decision under way has placed on it.
    #[inline]
    pub(crate) fn refresh(
        &mut self,
        framework: &Framework,
        cluster: &Cluster,
        overlay: &Overlay,
        row: Row,
        parts: &[Normalized<'_>],
    ) {
        self.room = None;
        let judgement = self.judge(framework, cluster, overlay, row);
        self.board.set(row, cluster.columns.rank[row], judgement.as_ref(), parts);
    }

    /// What all plugins say of one row; `None` if it is not feasible.
    pub(crate) fn judge(
        &mut self,
        framework: &Framework,
        cluster: &Cluster,
        overlay: &Overlay,
        row: Row,
    ) -> Option<Judgement> {
        let node = overlay.view(cluster, row)?;
        if self.refused || self.only.as_ref().is_some_and(|only| !only.contains(row)) {
            return None;
        }
        let cx = Context::new(cluster, &self.shape);
        for stage in &self.filters {
            self.calls += 1;
            let cx = Context { prepared: &stage.prepared, ..cx };
            if !framework.filters()[stage.plugin].filter(&cx, node).passes() {
                return None;
            }
        }
        let mut judgement = Judgement { plain: self.constant, raws: SmallVec::new() };
        for stage in &self.plain {
            let weight = framework.scores()[stage.plugin].0;
            let score = raw(framework, stage, cx, node);
            judgement.plain += weight * score.clamp(0, MAX_SCORE);
        }
        for stage in &self.normalized {
            judgement.raws.push(raw(framework, stage, cx, node));
        }
        self.calls += (self.plain.len() + self.normalized.len()) as u64;
        Some(judgement)
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
        for (total, score) in totals.iter_mut().zip(&*scores) {
            let score = (*score).clamp(0, MAX_SCORE) as i32;
            *total += i64::from(weight * score);
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
    let kept = !declaration.reads_group && !declaration.reads_time;
    let near = matches!(declaration.reach, Reach::Static | Reach::Node);
    kept.then_some(near && declaration.counters.is_empty())
}
