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
mod units;

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;

use self::index::{ClassIndex, Said};
use self::partition::Partitions;
use self::plugins::ClassedPlugins;
use super::changes::{ChangeLog, NodeEvent};
use super::prepared::PreparedPlugins;
use super::ranking::Ranking;
use super::view::View;
use crate::framework::prepared::Plugin;
use crate::model::PodShape;
use crate::state::Row;

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
        self.whole.forget();
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

    /// Notes changes of nodes.
    pub(crate) fn nodes_changed(&mut self, events: &[NodeEvent]) {
        self.partitions.nodes_changed(events);
    }

    /// Prepares the non-local plugins of a shape; `None` if one of them has to be evaluated for
    /// every node. The memory of an older preparation is used again. Nothing may be placed in the
    /// overlay.
    pub(crate) fn prepare(
        &mut self,
        old: Option<Box<Classed>>,
        plugins: impl Iterator<Item = Plugin>,
        shape: &Arc<PodShape>,
        complete: bool,
        view: View<'_>,
        changes: &mut ChangeLog,
    ) -> Option<Box<Classed>> {
        changes.pods.listen();
        changes.placed.ask(|| view.cluster.placed());
        let partitions = &mut self.partitions;
        let plugins = ClassedPlugins::prepare(plugins, shape, complete, view, partitions, changes)?;
        let mut whole = old.map_or_else(ClassIndex::default, |old| old.whole);
        whole.forget();
        Some(Box::new(Classed { plugins, whole }))
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
            whole.take(local.ranking, changes.between(whole.cursor, local.cursor));
        } else {
            let rows = (None, local.ranking);
            whole.make(plugins, view, &mut self.partitions, rows, parts.len());
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
            let rows = (Some(within.rows), local.ranking);
            index.make(plugins, view, &mut self.partitions, rows, parts.len());
            local.cursor
        });
        let Local { prepared, calls, .. } = local;
        let View { framework, cluster, .. } = view;
        for row in changes.since(from).iter().map(|&row| Row::from(row)) {
            let Some(position) = within.position(row) else { continue };
            let node = view.node(row);
            index.judge(position, |plain| {
                if plain {
                    let key = |node| prepared.key_of(framework, cluster, node, calls);
                    Said::Key(node.map_or(0, key))
                } else {
                    let scores = |node| prepared.judge(framework, cluster, node, calls);
                    Said::Scores(node.and_then(scores))
                }
            });
        }
        *within.cursor = Some(changes.end());
        index.best(plugins, view, &parts, &local.prepared.ranks, |row| within.position(row))
    }
}
