//! The score table of one pod shape: verdicts and scores of all nodes, kept up to date.

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;

use super::changes::{ChangeLog, NodeEvent};
use super::classes::{Classed, Local, NodeClasses, Within};
use super::prepared::{PreparedPlugins, add_plain};
use super::ranking::{Normalized, Ranking};
use super::tie_order::{OrderStamp, Ranks};
use super::view::View;
use crate::base::chunks::CHUNK;
use crate::base::simd::vectorized;
use crate::framework::prepared::Plugin;
use crate::framework::{Block, Context, Framework, Gathered};
use crate::model::PodShape;
use crate::state::{Cluster, Overlay, Row, Takes};

/// Rows up to which each is evaluated by itself: that costs less than to lay them side by side.
pub(crate) const FEW: usize = 2;

/// All nodes evaluated for one shape: by node-local plugins in a ranking, by the others once a class
/// of nodes.
#[derive(Debug)]
pub(crate) struct ScoreTable {
    pub(crate) prepared: PreparedPlugins,
    /// Amounts that a pod of the shape takes of a node.
    pub(crate) takes: Arc<Takes>,
    /// Whether the plugins that skipped the shape while no pod had affinity terms apply now.
    pub(crate) concerned: bool,
    /// The plugins that read beyond the node; `None` until they are needed.
    classed: Option<Box<Classed>>,
    pub(crate) ranking: Ranking,
    /// Whether the ranking is made; it is not where too few pods fit for it to be of use.
    pub(crate) scored: bool,
    /// An upper bound on how many pods of the shape fit on all nodes, if it was computed.
    room: Option<i64>,
    /// How much of the planner's log of changed rows is accounted for, and of changed nodes.
    pub(crate) cursor: u64,
    pub(crate) nodes: u64,
    /// The order among equals that the keys are made with.
    pub(crate) order: OrderStamp,
    /// Its number among all tables, by when its rows were all judged first.
    pub(crate) made: u64,
    /// The number of the last request that used it.
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
    /// A table that is not built yet, for an order among equals and as of so many changes of nodes;
    /// `None` as [`PreparedPlugins::prepare`].
    pub(crate) fn prepare(
        framework: &Framework,
        cluster: &Cluster,
        shape: &Arc<PodShape>,
        (ranks, order): &(Ranks, OrderStamp),
        nodes: u64,
    ) -> Option<ScoreTable> {
        let mut prepared = PreparedPlugins::prepare(framework, cluster, shape)?;
        prepared.ranks = ranks.clone();
        Some(ScoreTable {
            takes: Arc::new(Takes::of(&prepared.shape, cluster)),
            prepared,
            concerned: false,
            classed: None,
            ranking: Ranking::default(),
            scored: false,
            room: None,
            cursor: 0,
            nodes,
            order: *order,
            made: 0,
            last_use: 0,
            calls: 0,
        })
    }

    /// Resolves resources that no node offered when the table was made. False if still none does,
    /// and so many pods might take more of one than 64 bits hold, which nothing would notice.
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

    /// Whether plugins that read beyond the node apply to this shape.
    #[inline]
    pub(crate) fn has_non_local(&self) -> bool {
        !self.prepared.non_local.is_empty()
            || self.concerned && !self.prepared.unconcerned.is_empty()
    }

    /// The non-local plugins that apply to this shape.
    fn non_local(&self) -> impl Iterator<Item = Plugin> + '_ {
        let unconcerned = if self.concerned { &self.prepared.unconcerned[..] } else { &[] };
        self.prepared.non_local.iter().chain(unconcerned).copied()
    }

    /// Evaluations of a node by a plugin.
    pub(crate) fn all_calls(&self) -> u64 {
        self.calls + self.classed.as_ref().map_or(0, |classed| classed.plugins.calls())
    }

    /// Prepares the non-local plugins, if any apply and they are not prepared. False if one of them
    /// has to be evaluated for every node.
    ///
    /// Nothing may be placed in the overlay.
    pub(crate) fn prepare_non_local(
        &mut self,
        classes: &mut NodeClasses,
        view: View<'_>,
        changes: &mut ChangeLog,
    ) -> bool {
        if !self.has_non_local() {
            return true;
        }
        let follows = |known: &mut Box<Classed>| {
            known.plugins.covers(self.concerned)
                && known.plugins.follow_nodes(view.cluster, changes)
        };
        if self.classed.as_mut().is_some_and(follows) {
            return true;
        }
        let old = self.classed.take();
        self.calls += old.as_ref().map_or(0, |old| old.plugins.calls());
        let (plugins, shape) = (self.non_local(), &self.prepared.shape);
        self.classed = classes.prepare(old, plugins, shape, self.concerned, view, changes);
        self.classed.is_some()
    }

    /// The best of all rows under all plugins. The ranking is up to date.
    #[inline]
    pub(crate) fn best_of_all(
        &mut self,
        classes: &mut NodeClasses,
        view: View<'_>,
        changes: &ChangeLog,
    ) -> Option<Row> {
        if !self.has_non_local() {
            return self.ranking.best().map(Row::new);
        }
        let ScoreTable { classed, prepared, ranking, cursor, calls, .. } = self;
        let local = Local { prepared, ranking, cursor: *cursor, calls };
        classes.best_of_all(classed.as_deref_mut()?, &local, view, changes)
    }

    /// The best of the rows of a domain, where non-local plugins apply.
    pub(crate) fn best_within(
        &mut self,
        classes: &mut NodeClasses,
        view: View<'_>,
        changes: &ChangeLog,
        within: &mut Within<'_>,
    ) -> Option<Row> {
        let ScoreTable { classed, prepared, ranking, cursor, calls, .. } = self;
        let mut local = Local { prepared, ranking, cursor: *cursor, calls };
        classes.best_within(classed.as_deref_mut()?, &mut local, view, changes, within)
    }

    /// Prepares the plugins again after some nodes have changed; false if all rows have to be
    /// evaluated again, `None` as [`PreparedPlugins::prepare`].
    pub(crate) fn follow_nodes(
        &mut self,
        framework: &Framework,
        cluster: &Cluster,
        (events, ranks): (&[NodeEvent], &Ranks),
    ) -> Option<bool> {
        self.prepared.ranks = ranks.clone();
        let rows = events.iter().map(|event| Row::from(event.row));
        let same = self.prepared.follow(framework, cluster, &rows)?;
        self.nodes += events.len() as u64;
        self.takes = Arc::new(Takes::of(&self.prepared.shape, cluster));
        self.room = None;
        if same && self.scored {
            self.ranking.grow(cluster.rows(), |row| ranks.of(cluster, Row::new(row)));
            for row in rows {
                self.ranking.set_rank(row.index(), ranks.of(cluster, row));
            }
            self.ranking.in_order = ranks.in_row_order(cluster);
        }
        Some(same && self.scored)
    }

    /// Makes all keys anew with other ranks. No plugin is asked.
    pub(crate) fn set_ranks(
        &mut self,
        framework: &Framework,
        cluster: &Cluster,
        (ranks, order): (&Ranks, OrderStamp),
    ) {
        self.prepared.ranks = ranks.clone();
        if self.order == order {
            return;
        }
        self.order = order;
        if let Some(classed) = &mut self.classed {
            classed.forget_order();
        }
        if self.scored {
            let parts = self.prepared.parts(framework);
            self.ranking.set_ranks(cluster.rows(), |row| ranks.of(cluster, Row::new(row)), &parts);
            self.ranking.in_order = ranks.in_row_order(cluster);
        }
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
            let room = self.prepared.count_room(cluster, 0, |_| true);
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
            self.prepared.filter_block(cluster, &block, verdicts);
            feasible += verdicts.iter().map(|verdict| usize::from(*verdict >= 0)).sum::<usize>();
        }
        self.calls += (self.prepared.filters.filters.len() * cluster.rows()) as u64;
        if feasible == 0 {
            // Nothing to score; kept as it is, for rows that may become feasible.
            self.room = Some(0);
            self.ranking.rebuild_empty(
                Row::all(cluster.rows()).map(|row| self.prepared.ranks.of(cluster, row)),
                cluster.rows(),
                self.prepared.normalized.len(),
            );
            self.scored = true;
            return wanted == 0;
        }
        if feasible < wanted {
            let verdicts = &buffers.verdicts;
            let room = self.prepared.count_room(cluster, 1, |row| verdicts[row] >= 0);
            self.room = Some(room);
            if room < wanted as i64 {
                return false;
            }
        }
        self.score_normalized(framework, cluster, &buffers.verdicts);
        self.scored = true;
        true
    }

    /// [`ScoreTable::build`] where no score is normalised.
    fn build_plain(&mut self, framework: &Framework, cluster: &Cluster, wanted: usize) -> bool {
        self.judge_all(framework, cluster);
        self.ranking.feasible() >= wanted
            || self.ranking.feasible() > 0 && self.room(cluster) >= wanted as i64
    }

    /// Evaluates every row where no score is normalised: filters and scores in one pass, so that the
    /// columns are read once. Nothing may be placed.
    pub(crate) fn judge_all(&mut self, framework: &Framework, cluster: &Cluster) {
        self.room = None;
        let ScoreTable { prepared, ranking, .. } = self;
        ranking.rebuild_plain(|keys| {
            keys.reserve(cluster.rows());
            for block in Block::all(cluster) {
                prepared.add_keys(framework, cluster, &block, keys);
            }
        });
        ranking.in_order = prepared.ranks.in_row_order(cluster);
        self.scored = true;
        self.calls += (self.prepared.plugins() * cluster.rows()) as u64;
    }

    /// Appends the keys of rows as they were gathered, if no score is normalised.
    pub(crate) fn add_keys(
        &mut self,
        framework: &Framework,
        cluster: &Cluster,
        rows: &Gathered,
        overlay: Option<&Overlay>,
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
        takes: &Takes,
        pods: u32,
    ) -> u64 {
        let Some(mut node) = cluster.view(row) else { return 0 };
        let usage = takes.ahead(cluster, row, i64::from(pods));
        node.usage = Some(&usage);
        self.prepared.key_of(framework, cluster, node, &mut self.calls)
    }

    fn score_normalized(&mut self, framework: &Framework, cluster: &Cluster, verdicts: &[i64]) {
        let ScoreTable { prepared, ranking, .. } = self;
        let mut scores = [0_i64; CHUNK];
        let cx = Context::new(cluster, &prepared.shape);
        ranking.rebuild_normalized(
            &prepared.parts(framework),
            |ranks, plain, raws| {
                for block in Block::all(cluster) {
                    ranks.extend(block.rows().map(|row| prepared.ranks.of(cluster, row)));
                    let mut totals = [0_i64; CHUNK];
                    let totals = &mut totals[..block.len()];
                    let (stages, constant) = (&prepared.plain, prepared.constant);
                    vectorized(
                        #[inline(always)]
                        || add_plain(framework, &cx, stages, &block, constant, totals, &mut scores),
                    );
                    plain.extend(&*totals);
                    for (stage, column) in prepared.normalized.iter().zip(raws.iter_mut()) {
                        let scores = &mut scores[..block.len()];
                        stage.prepared.score_block(&stage.context(cx), &block, scores);
                        column.extend(&*scores);
                    }
                }
            },
            |row| verdicts[row] >= 0,
        );
        let scores = self.prepared.plain.len() + self.prepared.normalized.len();
        self.calls += (scores * cluster.rows()) as u64;
    }

    /// An upper bound on how many pods of the shape fit on all nodes.
    ///
    /// O(1) if it is known for the rows as they are, else a pass. The ranking must be made, or the
    /// bound known.
    pub(crate) fn room(&mut self, cluster: &Cluster) -> i64 {
        if let Some(room) = self.room {
            return room;
        }
        let room =
            self.prepared.count_room(cluster, 1, |row| self.ranking.is_feasible(row.index()));
        self.room = Some(room);
        room
    }

    /// Evaluates one row of the table's own ranking again, with what a decision under way has placed on
    /// it.
    #[inline]
    pub(crate) fn refresh_own(&mut self, view: View<'_>, row: Row, parts: &[Normalized<'_>]) {
        self.room = None;
        self.prepared.refresh(view, (row, row.index()), &mut self.ranking, parts, &mut self.calls);
    }

    /// Evaluates rows of the table's own ranking again, in ascending order, if no score is normalised and
    /// nothing placed holds devices.
    pub(crate) fn refresh_all(
        &mut self,
        View { framework, cluster, overlay }: View<'_>,
        rows: &[u32],
        gathered: &mut Gathered,
        keys: &mut Vec<u64>,
    ) {
        self.room = None;
        keys.clear();
        for rows in rows.chunks(Block::MOST) {
            gathered.are_now(cluster, rows);
            self.add_keys(framework, cluster, gathered, Some(overlay), keys);
        }
        self.ranking.set_all(rows.iter().map(|row| *row as usize).zip(keys.iter().copied()));
    }

    /// Whether it is clear that none of `rows` is feasible. The ranking need not be up to date with
    /// what a decision under way has placed and taken back; of such rows nothing is clear.
    pub(crate) fn is_closed(&self, rows: &[Row], overlay: &Overlay) -> bool {
        !rows.iter().any(|&row| self.ranking.is_feasible(row.index()) || overlay.has_touched(row))
    }
}
