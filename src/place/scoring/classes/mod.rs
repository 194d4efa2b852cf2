//! Plugins that read beyond the node, in time per class of nodes.
//!
//! A shape's [`ScoreTable`] knows what its near plugins say of each row. Its [`ClassedPlugins`] holds the far
//! ones, each asked once a class of rows ([`Grain`](crate::framework::Grain)) and kept up to date
//! by the pods that come and go ([`PodEvents`]). A [`ClassIndex`] puts both together for all rows, or for
//! those of a domain.

mod index;
mod max_trees;
mod partition;
mod plugin;
mod plugins;
mod pod_census;
mod pod_events;
mod ranking;

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;

use self::index::ClassIndex;
pub(crate) use self::partition::Partitions;
pub(crate) use self::plugin::{Plugin, View};
pub(crate) use self::plugins::ClassedPlugins;
pub(crate) use self::pod_events::PodEvents;
use super::table::ScoreTable;
use crate::framework::Framework;
use crate::model::PodShape;
use crate::state::{Cluster, Overlay, Row};

/// What all companies of a planner share.
#[derive(Debug, Default)]
pub(crate) struct NodeClasses {
    columns: Partitions,
    pub(crate) events: PodEvents,
    /// Fields of the domain being filled, by shape of the gang.
    fields: Vec<ClassIndex>,
}

/// The planner's log of rows that changed, oldest first.
#[derive(Clone, Copy)]
pub(crate) struct Log<'a> {
    pub(crate) rows: &'a [u32],
    /// How many were dropped before the first.
    pub(crate) start: u64,
}

/// What a decision stands on.
#[derive(Clone, Copy)]
pub(crate) struct Site<'a> {
    pub(crate) framework: &'a Framework,
    pub(crate) cluster: &'a Cluster,
    pub(crate) overlay: &'a Overlay,
    pub(crate) log: Log<'a>,
}

impl<'a> Site<'a> {
    fn sight(self, shape: &'a PodShape) -> View<'a> {
        let Site { framework, cluster, overlay, .. } = self;
        View { framework, cluster, overlay, shape }
    }
}

impl<'a> Log<'a> {
    fn between(self, from: u64, to: u64) -> impl Iterator<Item = Row> + 'a {
        let rows = &self.rows[(from - self.start) as usize..(to - self.start) as usize];
        rows.iter().map(|&row| row as Row)
    }

    fn end(self) -> u64 {
        self.start + self.rows.len() as u64
    }
}

impl NodeClasses {
    /// Nodes have changed, or nothing is known of what has.
    pub(crate) fn forget(&mut self) {
        self.columns.clear();
        self.events.forget();
    }

    /// Prepares the far plugins of a table, if it has any and they are not prepared; false if one
    /// of them has to be asked about every node.
    ///
    /// Nothing may be placed in the overlay.
    pub(crate) fn ready(
        &mut self,
        table: &mut ScoreTable,
        framework: &Framework,
        cluster: &Cluster,
        overlay: &Overlay,
    ) -> bool {
        if !table.is_far() {
            return true;
        }
        let known = |company: &ClassedPlugins| {
            company.is_known(&self.events) && company.covers(table.concerned)
        };
        if table.company.as_deref().is_some_and(known) {
            return true;
        }
        self.events.listen(cluster);
        let sight = View { framework, cluster, overlay, shape: &table.prepared.shape };
        let (columns, events) = (&mut self.columns, &self.events);
        let fresh =
            ClassedPlugins::prepare(table.far_plugins(), table.concerned, sight, columns, events);
        let old = table.company.take();
        table.calls += old.map_or(0, |old| old.calls());
        table.company = fresh.map(Box::new);
        table.company.is_some()
    }

    /// The best of all rows under the plugins of a table, near and far. The table's ranking is up to
    /// date.
    pub(crate) fn best_of_all(&mut self, table: &mut ScoreTable, site: Site<'_>) -> Option<Row> {
        let mut company = table.company.take()?;
        let mut whole = core::mem::take(&mut company.whole);
        let Site { framework, cluster, log, .. } = site;
        let sight = site.sight(&table.prepared.shape);
        company.follow(sight, &mut self.columns, &self.events);
        let parts = table.prepared.parts(framework);
        if whole.is_made(&company) && whole.cursor >= log.start {
            for row in log.between(whole.cursor, table.cursor) {
                whole.judge(row, table.ranking.judgement(row).as_ref());
            }
        } else {
            let rows = 0..cluster.rows();
            whole.make(&mut company, sight, &mut self.columns, rows.clone(), parts.len());
            rows.for_each(|row| whole.judge(row, table.ranking.judgement(row).as_ref()));
        }
        whole.cursor = table.cursor;
        let best = whole.best(&mut company, sight, &parts, Some);
        company.whole = whole;
        table.company = Some(company);
        best
    }

    /// The same of some rows. `positions` has one more than a row's place among them, 0 for all
    /// others. `number` is that of the shape in its gang; `cursor` is `None` at its first member
    /// in these rows, and for this function to keep.
    pub(crate) fn best_within(
        &mut self,
        table: &mut ScoreTable,
        site: Site<'_>,
        rows: &[Row],
        positions: &[u32],
        number: usize,
        cursor: &mut Option<u64>,
    ) -> Option<Row> {
        if self.fields.len() <= number {
            self.fields.resize_with(number + 1, ClassIndex::default);
        }
        let mut company = table.company.take()?;
        let field = &mut self.fields[number];
        let Site { framework, cluster, overlay, log } = site;
        let parts = table.prepared.parts(framework);
        let shape = Arc::clone(&table.prepared.shape);
        let sight = site.sight(&shape);
        company.follow(sight, &mut self.columns, &self.events);
        let made = field.is_made(&company);
        let from = cursor.filter(|_| made).unwrap_or_else(|| {
            field.make(&mut company, sight, &mut self.columns, rows.iter().copied(), parts.len());
            for (position, &row) in rows.iter().enumerate() {
                field.judge(position, table.ranking.judgement(row).as_ref());
            }
            table.cursor
        });
        let seat_of = |row: Row| (positions[row] as usize).checked_sub(1);
        for row in log.between(from, log.end()) {
            if let Some(position) = seat_of(row) {
                let node = overlay.view(cluster, row);
                let judgement = node.and_then(|node| {
                    table.prepared.judge(framework, cluster, node, &mut table.calls)
                });
                field.judge(position, judgement.as_ref());
            }
        }
        *cursor = Some(log.end());
        let best = field.best(&mut company, sight, &parts, seat_of);
        table.company = Some(company);
        best
    }
}
