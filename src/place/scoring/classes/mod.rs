//! Plugins with domain reach, evaluated once per class of nodes they cannot tell apart.
//!
//! The ranking of a shape's [`ScoreTable`](super::table::ScoreTable) holds what node-local plugins
//! say of each row. [`Classed`] holds the other plugins of the shape, each evaluated once a class of
//! rows ([`Grain`](crate::framework::Grain)) and kept up to date by the pods that come and go
//! ([`PodEvents`](super::changes::PodEvents)). A [`ClassIndex`] combines both for all rows, or for those of a domain.

mod index;
mod max_trees;
mod partition;
mod plugin;
mod plugins;
mod ranking;

use alloc::sync::Arc;
use alloc::vec::Vec;

use self::index::ClassIndex;
use self::partition::Partitions;
use self::plugins::ClassedPlugins;
use super::changes::ChangeLog;
use super::prepared::PreparedPlugins;
use super::ranking::Ranking;
use super::view::View;
use crate::framework::prepared::Plugin;
use crate::model::PodShape;
use crate::state::Row;
use crate::state::journal::NodeChange;

/// State that the non-local plugins of all shapes share.
#[derive(Debug, Default)]
pub(crate) struct NodeClasses {
    partitions: Partitions,
    /// Indices over the domain being filled, by shape of the gang.
    domains: Vec<ClassIndex>,
}

/// The non-local plugins of one shape, and the index of all rows by their classes.
#[derive(Debug)]
pub(crate) struct Classed {
    pub(crate) plugins: ClassedPlugins,
    whole: ClassIndex,
}

impl Classed {
    /// Forgets the order of rows: their ranks are others.
    pub(crate) fn forget_order(&mut self) {
        self.whole = ClassIndex::default();
    }
}

/// Answers of node-local plugins for the rows, for one shape.
pub(crate) struct Local<'a> {
    pub(crate) prepared: &'a PreparedPlugins,
    pub(crate) ranking: &'a Ranking,
    /// The end of the log that the ranking accounts for.
    pub(crate) cursor: u64,
    /// Evaluations of a node by a plugin.
    pub(crate) calls: &'a mut u64,
}

/// A domain being filled, for one shape of a gang.
pub(crate) struct Within<'a> {
    pub(crate) rows: &'a [Row],
    /// By row: one more than its position among `rows`; 0 for others.
    pub(crate) positions: &'a [u32],
    /// The number of the shape in its gang.
    pub(crate) shape: usize,
    /// The end of the log that the shape's ranking of the domain accounts for; `None` before the
    /// shape's first member.
    pub(crate) cursor: &'a mut Option<u64>,
}

impl Within<'_> {
    #[inline]
    fn position(&self, row: Row) -> Option<usize> {
        (self.positions[row] as usize).checked_sub(1)
    }
}

impl NodeClasses {
    /// Forgets all partitions.
    pub(crate) fn forget(&mut self) {
        self.partitions.clear();
    }

    /// Forgets the partitions that a change of a node concerns.
    pub(crate) fn node_changed(&mut self, change: NodeChange) {
        self.partitions.node_changed(change);
    }

    /// Prepares the non-local plugins of a shape; `None` if one of them has to be evaluated for
    /// every node. Nothing may be placed in the overlay.
    pub(crate) fn prepare(
        &mut self,
        plugins: impl Iterator<Item = Plugin>,
        shape: &Arc<PodShape>,
        complete: bool,
        view: View<'_>,
        changes: &mut ChangeLog,
    ) -> Option<Classed> {
        changes.pods.listen();
        let partitions = &mut self.partitions;
        let plugins = ClassedPlugins::prepare(plugins, shape, complete, view, partitions, changes)?;
        Some(Classed { plugins, whole: ClassIndex::default() })
    }

    /// The best of all rows. The ranking of the shape is up to date.
    pub(crate) fn best_of_all(
        &mut self,
        Classed { plugins, whole }: &mut Classed,
        local: &Local<'_>,
        view: View<'_>,
        changes: &ChangeLog,
    ) -> Option<Row> {
        plugins.follow(view, &mut self.partitions, &changes.pods);
        let parts = local.prepared.parts(view.framework);
        if whole.is_made(plugins) && changes.reaches(whole.cursor) {
            for row in changes.between(whole.cursor, local.cursor).map(Row::index) {
                whole.judge(row, local.ranking.judgement(row).as_ref());
            }
        } else {
            let rows = view.cluster.rows();
            whole.make(plugins, view, &mut self.partitions, Row::all(rows), parts.len());
            (0..rows).for_each(|row| whole.judge(row, local.ranking.judgement(row).as_ref()));
        }
        whole.cursor = local.cursor;
        whole.best(plugins, view, &parts, &local.prepared.ranks, |row| Some(row.index()))
    }

    /// The best of the rows of a domain.
    pub(crate) fn best_within(
        &mut self,
        Classed { plugins, .. }: &mut Classed,
        local: &mut Local<'_>,
        view: View<'_>,
        changes: &ChangeLog,
        within: &mut Within<'_>,
    ) -> Option<Row> {
        if self.domains.len() <= within.shape {
            self.domains.resize_with(within.shape + 1, ClassIndex::default);
        }
        let index = &mut self.domains[within.shape];
        let parts = local.prepared.parts(view.framework);
        plugins.follow(view, &mut self.partitions, &changes.pods);
        let made = index.is_made(plugins);
        let from = within.cursor.filter(|_| made).unwrap_or_else(|| {
            let rows = within.rows.iter().copied();
            index.make(plugins, view, &mut self.partitions, rows, parts.len());
            for (position, &row) in within.rows.iter().enumerate() {
                index.judge(position, local.ranking.judgement(row.index()).as_ref());
            }
            local.cursor
        });
        for row in changes.between(from, changes.end()) {
            if let Some(position) = within.position(row) {
                let judgement = view.node(row).and_then(|node| {
                    local.prepared.judge(view.framework, view.cluster, node, local.calls)
                });
                index.judge(position, judgement.as_ref());
            }
        }
        *within.cursor = Some(changes.end());
        index.best(plugins, view, &parts, &local.prepared.ranks, |row| within.position(row))
    }
}
