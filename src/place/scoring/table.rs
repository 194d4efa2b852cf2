//! What all plugins say of all nodes for one pod shape, kept up to date.

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;

use super::classes::{ClassedPlugins, Plugin};
use super::prepared::{PreparedPlugins, add_plain};
use super::ranking::{Normalized, Ranking};
use crate::base::chunks::CHUNK;
use crate::framework::{Block, Context, Framework, Gathered};
use crate::state::{Cluster, Overlay, Row, Takes};

/// Rows up to which each is judged by itself: that costs less than to lay them side by side.
pub(crate) const FEW: usize = 2;

/// All nodes judged for one shape, under a framework whose plugins read no further than the node
/// itself for this shape.
#[derive(Debug)]
pub(crate) struct ScoreTable {
    pub(crate) prepared: PreparedPlugins,
    /// What a pod of the shape takes of a node.
    pub(crate) takes: Arc<Takes>,
    /// Whether plugins that had nothing to say have now.
    pub(crate) concerned: bool,
    /// The plugins that read beyond the node at work, where they are needed.
    pub(crate) company: Option<Box<ClassedPlugins>>,
    pub(crate) ranking: Ranking,
    /// Whether the ranking is made; it is not where too few pods fit for it to be of use.
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
pub(crate) struct BuildBuffers {
    verdicts: Vec<i64>,
}

impl ScoreTable {
    /// A table that is not built yet.
    pub(crate) fn new(prepared: PreparedPlugins, cluster: &Cluster) -> ScoreTable {
        ScoreTable {
            takes: Arc::new(Takes::of(&prepared.shape, cluster)),
            prepared,
            concerned: false,
            company: None,
            ranking: Ranking::default(),
            scored: false,
            room: None,
            cursor: 0,
            last_use: 0,
            calls: 0,
        }
    }

    /// Looks resources up again that nobody had mentioned. False if still nobody has, and so many
    /// pods might take more of one than 64 bits hold, which nothing would notice.
    pub(crate) fn resolve(&mut self, cluster: &Cluster, pods: usize) -> bool {
        let requests = || self.prepared.shape.requests.iter().filter(|(_, amount)| *amount != 0);
        let wanted = requests().count();
        if self.takes.requests.len() == wanted {
            return true;
        }
        let fits = requests().all(|(name, amount)| {
            cluster.resource(name).is_some() || amount.checked_mul(pods as i64).is_some()
        });
        self.takes = Arc::new(Takes::of(&self.prepared.shape, cluster));
        fits
    }

    /// Whether plugins that read beyond the node have something to say.
    pub(crate) fn is_far(&self) -> bool {
        !self.prepared.far.is_empty() || self.concerned && !self.prepared.unconcerned.is_empty()
    }

    /// Those that have.
    pub(crate) fn far_plugins(&self) -> impl Iterator<Item = Plugin> + '_ {
        let unconcerned = if self.concerned { &self.prepared.unconcerned[..] } else { &[] };
        self.prepared.far.iter().chain(unconcerned).copied()
    }

    /// Evaluations of a node by a plugin, near or far.
    pub(crate) fn all_calls(&self) -> u64 {
        self.calls + self.company.as_ref().map_or(0, |company| company.calls())
    }

    /// Evaluates every row. Returns false, with nothing scored, if fewer than `wanted` pods fit.
    pub(crate) fn build(
        &mut self,
        framework: &Framework,
        cluster: &Cluster,
        wanted: usize,
        buffers: &mut BuildBuffers,
    ) -> bool {
        self.room = None;
        self.scored = false;
        if wanted > cluster.rows() {
            // More than one pod a row: what there is room for may decide it at once.
            let room = self.prepared.count_room(framework, cluster, 0, |_| true);
            if room < wanted as i64 {
                self.room = Some(room);
                return false;
            }
        }
        if self.prepared.is_plain() {
            return self.build_plain(framework, cluster, wanted);
        }
        let verdicts = &mut buffers.verdicts;
        verdicts.clear();
        verdicts.resize(cluster.rows(), 0);
        let mut feasible = 0;
        for (block, verdicts) in Block::all(cluster).zip(verdicts.chunks_mut(Block::MOST)) {
            self.prepared.filter_block(framework, cluster, &block, verdicts);
            feasible += verdicts.iter().map(|verdict| usize::from(*verdict >= 0)).sum::<usize>();
        }
        self.calls += (self.prepared.filters.len() * cluster.rows()) as u64;
        if feasible == 0 {
            // Nothing to score; kept as it is, for rows that may become feasible.
            self.room = Some(0);
            self.ranking.rebuild_empty(
                cluster.columns.rank.iter().copied(),
                cluster.rows(),
                self.prepared.normalized.len(),
            );
            self.scored = true;
            return wanted == 0;
        }
        if feasible < wanted {
            let verdicts = &buffers.verdicts;
            let room = self.prepared.count_room(framework, cluster, 1, |row| verdicts[row] >= 0);
            self.room = Some(room);
            if room < wanted as i64 {
                return false;
            }
        }
        self.score_normalized(framework, cluster, &buffers.verdicts);
        self.scored = true;
        true
    }

    /// [`ScoreTable::build`] where no score is normalised: filters and scores in one pass, so that the
    /// columns are read once.
    fn build_plain(&mut self, framework: &Framework, cluster: &Cluster, wanted: usize) -> bool {
        let mut ranking = core::mem::take(&mut self.ranking);
        ranking.rebuild_plain(|keys| {
            keys.reserve(cluster.rows());
            for block in Block::all(cluster) {
                self.prepared.add_keys(framework, cluster, &block, keys);
            }
        });
        ranking.in_order = cluster.order.in_row_order;
        self.ranking = ranking;
        self.scored = true;
        self.calls += (self.prepared.plugins() * cluster.rows()) as u64;
        self.ranking.feasible() >= wanted
            || self.ranking.feasible() > 0 && self.room(framework, cluster) >= wanted as i64
    }

    /// Appends the keys of rows as they were gathered, if no score is normalised.
    pub(crate) fn add_keys(
        &mut self,
        framework: &Framework,
        cluster: &Cluster,
        (rows, overlay): (&Gathered, Option<&Overlay>),
        keys: &mut Vec<u64>,
    ) {
        let block = Block::gathered(cluster, rows, overlay);
        self.prepared.add_keys(framework, cluster, &block, keys);
        self.calls += (self.prepared.plugins() * block.len()) as u64;
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
        self.prepared.key_of(framework, cluster, node, &mut self.calls)
    }

    fn score_normalized(&mut self, framework: &Framework, cluster: &Cluster, verdicts: &[i64]) {
        let mut ranking = core::mem::take(&mut self.ranking);
        let mut scores = [0_i64; CHUNK];
        let cx = Context::new(cluster, &self.prepared.shape);
        ranking.rebuild_normalized(
            &self.prepared.parts(framework),
            |ranks, plain, raws| {
                for block in Block::all(cluster) {
                    ranks.extend(block.rank());
                    let mut totals = [0_i64; CHUNK];
                    let totals = &mut totals[..block.len()];
                    add_plain(
                        framework,
                        &cx,
                        &self.prepared.plain,
                        &block,
                        self.prepared.constant,
                        totals,
                        &mut scores,
                    );
                    plain.extend(&*totals);
                    for (stage, column) in self.prepared.normalized.iter().zip(raws.iter_mut()) {
                        let cx = Context { prepared: &stage.prepared, ..cx };
                        let scores = &mut scores[..block.len()];
                        framework.scores()[stage.plugin].1.score_block(&cx, &block, scores);
                        column.extend(&*scores);
                    }
                }
            },
            |row| verdicts[row] >= 0,
        );
        self.ranking = ranking;
        self.calls +=
            ((self.prepared.plain.len() + self.prepared.normalized.len()) * cluster.rows()) as u64;
    }

    /// An upper bound on how many pods of the shape fit in all.
    ///
    /// O(1) if it is known for the rows as they are, else a pass. The ranking must be made, or the
    /// bound known.
    pub(crate) fn room(&mut self, framework: &Framework, cluster: &Cluster) -> i64 {
        if let Some(room) = self.room {
            return room;
        }
        let room =
            self.prepared.count_room(framework, cluster, 1, |row| self.ranking.is_feasible(row));
        self.room = Some(room);
        room
    }

    /// Evaluates one row of the table's own ranking again, with what a decision under way has placed on
    /// it.
    #[inline]
    pub(crate) fn refresh_own(
        &mut self,
        ground: (&Framework, &Cluster, &Overlay),
        row: Row,
        parts: &[Normalized<'_>],
    ) {
        self.room = None;
        self.prepared.refresh(ground, (row, row), &mut self.ranking, parts, &mut self.calls);
    }

    /// Evaluates rows of the table's own ranking again, in ascending order, if no score is normalised and
    /// nothing placed holds devices.
    pub(crate) fn refresh_all(
        &mut self,
        (framework, cluster, overlay): (&Framework, &Cluster, &Overlay),
        rows: &[u32],
        (gathered, keys): (&mut Gathered, &mut Vec<u64>),
    ) {
        self.room = None;
        keys.clear();
        for rows in rows.chunks(Block::MOST) {
            gathered.are_now(cluster, rows);
            self.add_keys(framework, cluster, (gathered, Some(overlay)), keys);
        }
        self.ranking.set_all(rows.iter().map(|row| *row as Row).zip(keys.iter().copied()));
    }

    /// Whether it is clear that none of `rows` is feasible. The ranking need not be up to date with
    /// what a decision under way has placed and taken back; of such rows nothing is clear.
    pub(crate) fn is_closed(&self, rows: &[Row], overlay: &Overlay) -> bool {
        !rows.iter().any(|&row| self.ranking.is_feasible(row) || overlay.has_touched(row))
    }
}
