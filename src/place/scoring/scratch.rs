//! Scratch state of one placement: the overlay and undo marks, with the change log they write.

use alloc::sync::Arc;
use alloc::vec::Vec;

use super::changes::ChangeLog;
use super::classes::Within;
use super::ranking::Ranking;
use super::table::ScoreTable;
use super::view::View;
use crate::framework::Framework;
use crate::framework::device_fit::choose_devices;
use crate::model::PodShape;
use crate::place::error::PlaceError;
use crate::place::gang::Gang;
use crate::place::layout::Member;
use crate::state::{Cluster, Devices, Overlay, Row, StateError, Takes};

/// An overlay with the log of what changed, and buffers.
#[derive(Debug, Default)]
pub(crate) struct Scratch {
    pub(crate) overlay: Overlay,
    /// The resources that the shapes of the request take.
    pub(crate) takes: Vec<Arc<Takes>>,
    pub(crate) shapes: Vec<Arc<PodShape>>,
    pub(crate) changes: ChangeLog,
    /// The end of the changed rows before each pod that was placed.
    ends: Vec<u64>,
    rankings: Vec<Ranking>,
    positions: Vec<u32>,
    /// Evaluations of a node by a plugin.
    pub(crate) calls: u64,
}

/// A sum of this row would not fit 64 bits with a pod of the shape of this number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Overflow(pub(crate) Row, pub(crate) u32);

impl Scratch {
    /// A scratch with nothing placed, for trials beside each other: its log goes on where this one
    /// ends.
    #[cfg(feature = "parallel")]
    pub(crate) fn fork(&self) -> Scratch {
        let (takes, changes) = (self.takes.clone(), self.changes.fork());
        Scratch { takes, changes, ..Scratch::default() }
    }

    /// The state with what was placed so far.
    #[inline]
    pub(crate) fn view<'a>(&'a self, framework: &'a Framework, cluster: &'a Cluster) -> View<'a> {
        View { framework, cluster, overlay: &self.overlay }
    }

    /// Whether no sum of a row can overflow, wherever so many pods of the request go.
    pub(crate) fn cannot_overflow(&self, cluster: &Cluster, pods: usize) -> bool {
        const NARROW: u64 = 1 << 60;
        let amounts = self
            .takes
            .iter()
            .flat_map(|takes| takes.requests.iter().map(|(_, amount)| *amount).chain(takes.scored));
        let most = amounts.map(i64::unsigned_abs).max().unwrap_or(0);
        cluster.columns.is_narrow() && most.checked_mul(pods as u64).is_some_and(|all| all < NARROW)
    }

    /// The error of a sum that would not fit.
    pub(crate) fn overflow(
        &self,
        cluster: &Cluster,
        Overflow(row, shape): Overflow,
        gang: &Gang,
    ) -> PlaceError {
        let view = self.overlay.view(cluster, row);
        let used = |name: &str| {
            let resource = cluster.resource(name);
            view.zip(resource).map_or(0, |(node, resource)| node.used(resource))
        };
        let burst = |(name, amount): &(&str, i64)| used(name).checked_add(*amount).is_none();
        let burst = gang.shape(shape).requests.iter().find(burst);
        PlaceError::State(StateError::Overflow {
            node: view.map_or("", |node| node.name()).into(),
            resource: burst.map_or("scored requests", |(name, _)| name).into(),
        })
    }

    /// Forgets what was placed; the log keeps which rows that were.
    pub(crate) fn clear(&mut self) {
        let changes = &mut self.changes;
        self.overlay.clear(|row| changes.note(row));
        self.ends.clear();
    }

    /// Takes back what was placed since a mark.
    pub(crate) fn rollback(&mut self, cluster: &Cluster, mark: usize) {
        let Some(&end) = self.ends.get(mark) else { return };
        self.ends.truncate(mark);
        let changes = &mut self.changes;
        self.overlay.rollback(cluster, mark, &self.takes, |row| changes.note(row));
        changes.rollback(end);
    }

    /// Places one pod of a shape.
    #[inline]
    pub(crate) fn take(
        &mut self,
        cluster: &Cluster,
        row: Row,
        shape: u32,
        devices: Option<Devices>,
    ) -> bool {
        let takes = &self.takes[shape as usize];
        let fits = self.overlay.take(cluster, row, shape, takes, devices);
        if fits {
            self.ends.push(self.changes.end());
            self.changes.note(row.as_u32());
        }
        fits
    }

    /// Places one member of a gang.
    pub(crate) fn take_member(
        &mut self,
        cluster: &Cluster,
        gang: &Gang,
        member: &Member,
    ) -> Result<(), PlaceError> {
        let shape = gang.shape_of()[member.number as usize];
        if self.take(cluster, member.row, shape, member.devices.clone()) {
            Ok(())
        } else {
            Err(self.overflow(cluster, Overflow(member.row, shape), gang))
        }
    }

    /// Places one pod of a shape on the row found best, with devices if it asks for any. `None`
    /// if the row has none for it, which only happens where no filter looks at devices: the pod
    /// stays unplaced.
    #[inline]
    pub(crate) fn settle(
        &mut self,
        cluster: &Cluster,
        framework: &Framework,
        table: &ScoreTable,
        row: Row,
        shape: u32,
    ) -> Option<Result<Option<Devices>, Overflow>> {
        let takes = &self.takes[shape as usize];
        let devices = if takes.is_chosen_for() {
            let (pod, node) = (&table.prepared.shape, self.overlay.view(cluster, row));
            choose_devices(framework.device_choice(), cluster, pod, node, &takes.needs).ok()?
        } else {
            None
        };
        let fits = self.take(cluster, row, shape, devices.clone());
        Some(if fits { Ok(devices) } else { Err(Overflow(row, shape)) })
    }

    /// Numbers the rows of a domain by their positions.
    pub(crate) fn note_positions(&mut self, cluster: &Cluster, rows: &[Row]) {
        if self.positions.len() < cluster.rows() {
            self.positions.resize(cluster.rows(), 0);
        }
        for (position, &row) in rows.iter().enumerate() {
            self.positions[row] = position as u32 + 1;
        }
    }

    /// Clears the positions of the rows of a domain.
    pub(crate) fn forget_positions(&mut self, rows: &[Row]) {
        for &row in rows {
            self.positions[row] = 0;
        }
    }

    /// The position of a row of a domain.
    pub(crate) fn position(&self, row: Row) -> Option<usize> {
        (self.positions[row] as usize).checked_sub(1)
    }

    /// Closes a row in the ranking of a shape in a domain, until it is judged again. Only without
    /// normalised scores.
    pub(crate) fn close_within(&mut self, shape: u32, row: Row) {
        if let Some(position) = self.position(row) {
            self.rankings[shape as usize].set_plain(position, 0);
        }
    }

    /// A domain whose positions are noted, for one shape.
    pub(crate) fn within<'a>(
        &'a self,
        rows: &'a [Row],
        shape: u32,
        cursor: &'a mut Option<u64>,
    ) -> Within<'a> {
        Within { rows, positions: &self.positions, shape: shape as usize, cursor }
    }

    /// The best of the rows of a domain whose positions are noted, by node-local plugins. They come
    /// from a ranking of its own that is made at the shape's first member, when `cursor` is `None`.
    pub(crate) fn best_within(
        &mut self,
        framework: &Framework,
        cluster: &Cluster,
        table: &ScoreTable,
        rows: &[Row],
        shape: u32,
        cursor: &mut Option<u64>,
    ) -> Option<Row> {
        if self.rankings.len() <= shape as usize {
            self.rankings.resize_with(shape as usize + 1, Ranking::default);
        }
        let ranking = &mut self.rankings[shape as usize];
        let parts = table.prepared.parts(framework);
        let from = cursor.unwrap_or_else(|| {
            table.ranking.subset(ranking, rows.iter().map(|row| row.index()), &parts);
            table.cursor
        });
        let view = View { framework, cluster, overlay: &self.overlay };
        for &row in self.changes.since(from) {
            let row = Row::from(row);
            if let Some(position) = self.positions[row].checked_sub(1).map(|at| at as usize) {
                table.prepared.refresh(view, (row, position), ranking, &parts, &mut self.calls);
            }
        }
        *cursor = Some(self.changes.end());
        ranking.best().map(|position| rows[position])
    }
}

/// Whether it is clear that fewer than `wanted` pods of these shapes fit `rows`: it is where there
/// is no pod, or one shape only that goes nowhere.
pub(crate) fn is_hopeless(
    shapes: &[u32],
    wanted: usize,
    rows: Option<&[Row]>,
    is_closed: impl Fn(u32, &[Row]) -> bool,
) -> bool {
    let (Some(rows), true) = (rows, wanted > 0) else { return false };
    match shapes {
        [] => true,
        [first, others @ ..] => {
            others.iter().all(|shape| shape == first) && is_closed(*first, rows)
        }
    }
}
