//! What all plugins say of all nodes for one pod shape, kept up to date.

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;

use super::classes::{Company, Plugin};
use super::prepared::{Judges, add_plain};
use super::ranking::{Board, Normalized};
use crate::base::chunks::CHUNK;
use crate::framework::{Block, Context, Framework, Gathered};
use crate::state::{Cluster, Overlay, Row, Takes};

/// Rows up to which each is judged by itself: that costs less than to lay them side by side.
pub(crate) const FEW: usize = 2;

/// All nodes judged for one shape, under a framework whose plugins read no further than the node
/// itself for this shape.
#[derive(Debug)]
pub(crate) struct Table {
    pub(crate) judges: Judges,
    /// What a pod of the shape takes of a node.
    pub(crate) takes: Arc<Takes>,
    /// Whether plugins that had nothing to say have now.
    pub(crate) concerned: bool,
    /// The plugins that read beyond the node at work, where they are needed.
    pub(crate) company: Option<Box<Company>>,
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
    /// A table that is not built yet.
    pub(crate) fn new(judges: Judges, cluster: &Cluster) -> Table {
        Table {
            takes: Arc::new(Takes::of(&judges.shape, cluster)),
            judges,
            concerned: false,
            company: None,
            board: Board::default(),
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
        let requests = || self.judges.shape.requests.iter().filter(|(_, amount)| *amount != 0);
        let wanted = requests().count();
        if self.takes.requests.len() == wanted {
            return true;
        }
        let fits = requests().all(|(name, amount)| {
            cluster.resource(name).is_some() || amount.checked_mul(pods as i64).is_some()
        });
        self.takes = Arc::new(Takes::of(&self.judges.shape, cluster));
        fits
    }

    /// Whether plugins that read beyond the node have something to say.
    pub(crate) fn is_far(&self) -> bool {
        !self.judges.far.is_empty() || self.concerned && !self.judges.unconcerned.is_empty()
    }

    /// Those that have.
    pub(crate) fn far_plugins(&self) -> impl Iterator<Item = Plugin> + '_ {
        let unconcerned = if self.concerned { &self.judges.unconcerned[..] } else { &[] };
        self.judges.far.iter().chain(unconcerned).copied()
    }

    /// Evaluations of a node by a plugin, near or far.
    pub(crate) fn all_calls(&self) -> u64 {
        self.calls + self.company.as_ref().map_or(0, |company| company.calls())
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
            let room = self.judges.count_room(framework, cluster, 0, |_| true);
            if room < wanted as i64 {
                self.room = Some(room);
                return false;
            }
        }
        if self.judges.is_plain() {
            return self.build_plain(framework, cluster, wanted);
        }
        let verdicts = &mut scratch.verdicts;
        verdicts.clear();
        verdicts.resize(cluster.rows(), 0);
        let mut feasible = 0;
        for (block, verdicts) in Block::all(cluster).zip(verdicts.chunks_mut(Block::MOST)) {
            self.judges.filter_block(framework, cluster, &block, verdicts);
            feasible += verdicts.iter().map(|verdict| usize::from(*verdict >= 0)).sum::<usize>();
        }
        self.calls += (self.judges.filters.len() * cluster.rows()) as u64;
        if feasible == 0 {
            // Nothing to score; kept as it is, for rows that may become feasible.
            self.room = Some(0);
            self.board.rebuild_empty(
                cluster.columns.rank.iter().copied(),
                cluster.rows(),
                self.judges.normalized.len(),
            );
            self.scored = true;
            return wanted == 0;
        }
        if feasible < wanted {
            let verdicts = &scratch.verdicts;
            let room = self.judges.count_room(framework, cluster, 1, |row| verdicts[row] >= 0);
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
        let mut board = core::mem::take(&mut self.board);
        board.rebuild_plain(|keys| {
            keys.reserve(cluster.rows());
            for block in Block::all(cluster) {
                self.judges.add_keys(framework, cluster, &block, keys);
            }
        });
        board.in_order = cluster.order.in_row_order;
        self.board = board;
        self.scored = true;
        self.calls += (self.judges.plugins() * cluster.rows()) as u64;
        self.board.feasible() >= wanted
            || self.board.feasible() > 0 && self.room(framework, cluster) >= wanted as i64
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
        self.judges.add_keys(framework, cluster, &block, keys);
        self.calls += (self.judges.plugins() * block.len()) as u64;
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
        self.judges.key_of(framework, cluster, node, &mut self.calls)
    }

    fn score_normalized(&mut self, framework: &Framework, cluster: &Cluster, verdicts: &[i64]) {
        let mut board = core::mem::take(&mut self.board);
        let mut scores = [0_i64; CHUNK];
        let cx = Context::new(cluster, &self.judges.shape);
        board.rebuild_normalized(
            &self.judges.parts(framework),
            |ranks, plain, raws| {
                for block in Block::all(cluster) {
                    ranks.extend(block.rank());
                    let mut totals = [0_i64; CHUNK];
                    let totals = &mut totals[..block.len()];
                    add_plain(
                        framework,
                        &cx,
                        &self.judges.plain,
                        &block,
                        self.judges.constant,
                        totals,
                        &mut scores,
                    );
                    plain.extend(&*totals);
                    for (stage, column) in self.judges.normalized.iter().zip(raws.iter_mut()) {
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
        self.calls +=
            ((self.judges.plain.len() + self.judges.normalized.len()) * cluster.rows()) as u64;
    }

    /// An upper bound on how many pods of the shape fit in all.
    ///
    /// O(1) if it is known for the rows as they are, else a pass. The board must be made, or the
    /// bound known.
    pub(crate) fn room(&mut self, framework: &Framework, cluster: &Cluster) -> i64 {
        if let Some(room) = self.room {
            return room;
        }
        let room = self.judges.count_room(framework, cluster, 1, |row| self.board.is_feasible(row));
        self.room = Some(room);
        room
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
        self.judges.refresh(ground, (row, row), &mut self.board, parts, &mut self.calls);
    }

    /// Judges rows of the table's own board again, in ascending order, if no score is normalised and
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
        self.board.set_all(rows.iter().map(|row| *row as Row).zip(keys.iter().copied()));
    }

    /// Whether it is clear that none of `rows` is feasible. The board need not be up to date with
    /// what a decision under way has placed and taken back; of such rows nothing is clear.
    pub(crate) fn is_closed(&self, rows: &[Row], overlay: &Overlay) -> bool {
        !rows.iter().any(|&row| self.board.is_feasible(row) || overlay.has_touched(row))
    }
}
