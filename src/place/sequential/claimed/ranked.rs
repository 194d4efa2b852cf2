//! Rows ranked with what they offer, where a score depends on it or on which rows are feasible.

use alloc::vec::Vec;

use super::lanes::{Lane, Shared};
use crate::framework::{Framework, ScorePlugin};
use crate::place::cache::offers::{Guests, Offers};
use crate::place::scoring::ranking::{Normalized, Ranking, RawScores};
use crate::place::scoring::scratch::Scratch;
use crate::place::scoring::table::ScoreTable;
use crate::state::{Cluster, Row};

/// The rows of a lane in order, all of them asked for devices.
#[derive(Debug, Default)]
pub(super) struct Ranked {
    ranking: Ranking,
    is_made: bool,
    /// The end of the log of changed rows that the ranking accounts for.
    pub(super) cursor: u64,
}

/// A lane with all that its rows are judged by.
pub(super) struct Asking<'x> {
    pub(super) cluster: &'x Cluster,
    pub(super) framework: &'x Framework,
    pub(super) table: &'x ScoreTable,
    pub(super) scratch: &'x Scratch,
    pub(super) lane: &'x Lane<'x>,
    pub(super) shared: &'x [Shared<'x>],
    /// The score that reads offers, with its weight.
    pub(super) score: Option<(i64, &'x dyn ScorePlugin)>,
}

impl Asking<'_> {
    /// The normalised scores: those of the table, then that of offers.
    fn parts(&self) -> Vec<Normalized<'_>> {
        let mut parts = self.table.prepared.parts(self.framework);
        parts.extend(self.score.map(|(weight, score)| Normalized { weight, score }));
        parts
    }

    /// The raw scores of a row; `None` if the pod cannot go there.
    fn judge(
        &self,
        row: Row,
        (offers, guests): (&mut Offers, &Guests),
        calls: &mut u64,
    ) -> Option<RawScores> {
        let (cluster, prepared) = (self.cluster, &self.table.prepared);
        let node = self.scratch.overlay.view(cluster, row)?;
        let mut judged = prepared.judge(self.framework, cluster, node, calls)?;
        let devices = self.lane.devices(cluster, self.shared, row, (offers, guests))?;
        if self.score.is_some() {
            judged.raws.push(self.lane.rank(self.shared, devices.as_ref()));
        }
        Some(judged)
    }
}

impl Ranked {
    /// Makes the ranking anew when it is asked next.
    pub(super) fn forget(&mut self) {
        self.is_made = false;
    }

    /// The best of some rows, whose positions are noted; of all for `None`.
    ///
    /// O(rows × search for devices) at first, then O(rows changed × search for devices).
    pub(super) fn best(
        &mut self,
        asking: &Asking<'_>,
        rows: Option<&[Row]>,
        (offers, guests): (&mut Offers, &Guests),
        calls: &mut u64,
    ) -> Option<Row> {
        let parts = asking.parts();
        let tie = |row: Row| asking.table.prepared.ranks.of(asking.cluster, row);
        if self.is_made {
            for &row in asking.scratch.changes.since(self.cursor) {
                let row = Row::from(row);
                let place = match rows {
                    None => Some(row.index()),
                    Some(_) => asking.scratch.position(row),
                };
                let Some(place) = place else { continue };
                let judged = asking.judge(row, (&mut *offers, guests), calls);
                self.ranking.set(place, tie(row), judged.as_ref(), &parts);
            }
        } else {
            let all: Vec<Row> = match rows {
                None => Row::all(asking.cluster.rows()).collect(),
                Some(rows) => rows.to_vec(),
            };
            let mut judge = |row: &Row| asking.judge(*row, (&mut *offers, guests), calls);
            let judged: Vec<Option<RawScores>> = all.iter().map(&mut judge).collect();
            self.ranking.rebuild_normalized(
                &parts,
                |ranks, plain, raws| {
                    for (row, judged) in all.iter().zip(&judged) {
                        ranks.push(tie(*row));
                        plain.push(judged.as_ref().map_or(0, |own| own.plain));
                        for (at, column) in raws.iter_mut().enumerate() {
                            column.push(judged.as_ref().map_or(0, |own| own.raws[at]));
                        }
                    }
                },
                |place| judged[place].is_some(),
            );
            self.is_made = true;
        }
        let place = self.ranking.best()?;
        Some(rows.map_or(Row::new(place), |rows| rows[place]))
    }
}
