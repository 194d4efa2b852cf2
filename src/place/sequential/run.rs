//! Runs of identical pods: the best rows for all of them at once, by a merge of keys.
//!
//! Placed one after another, each pod takes the row with the best key, and the row has another key
//! then. That is a merge: each row has a sequence of keys, one for every pod more on it, of which
//! only the front can be taken. A key behind a lower one waits for it, so it is worth the least of
//! those before it and itself. In order of worth, all rows together, the keys are the run.
//!
//! So it is enough to know the keys that are worth most, as many as there are pods, and to sort
//! them. The rows with the best keys are found first. Then they are all evaluated with one pod
//! more, side by side, and again those that are still among the best, until no such row is left.

use alloc::vec::Vec;

use crate::base::chunks::CHUNK;
use crate::framework::{Framework, Gathered};
use crate::place::scoring::table::{FEW, ScoreTable};
use crate::place::scoring::top_k::{Slot, TopK};
use crate::state::{Cluster, Row, Takes};

/// Keys of rows evaluated at once, for the buffers' sake.
const AT_ONCE: usize = CHUNK;
/// Pods more on a row that are looked ahead to at once, where rows are few and pods many.
const STEPS: usize = 16;

/// Buffers of a run, used again and again.
#[derive(Debug, Default)]
pub(crate) struct Run {
    /// The best so far; as many as there are pods, and some that may not be.
    offers: Vec<Slot>,
    /// The last offer of each row that may have more.
    open: Vec<Slot>,
    still_open: Vec<Slot>,
    ahead: Ahead,
    ranks: TopK,
    spare: Vec<u64>,
}

/// The pods of a run, on a cluster with nothing placed beside it.
#[derive(Clone, Copy)]
pub(crate) struct Takers<'a> {
    pub(crate) framework: &'a Framework,
    pub(crate) cluster: &'a Cluster,
    /// The resources that each pod takes.
    pub(crate) takes: &'a Takes,
}

/// Keys that rows have with more pods on them.
#[derive(Debug, Default)]
struct Ahead {
    rows: Gathered,
    keys: Vec<u64>,
}

impl Ahead {
    /// Evaluates rows with `pods` more pods on each, and with one more than that, so many `steps`.
    fn look(
        &mut self,
        table: &mut ScoreTable,
        Takers { framework, cluster, takes }: Takers<'_>,
        rows: &[Slot],
        (pods, steps): (usize, usize),
    ) {
        self.keys.clear();
        let counts = pods as u32..(pods + steps) as u32;
        if rows.len() * steps <= FEW {
            for offer in rows {
                for pods in counts.clone() {
                    let row = Row::from(offer.row);
                    self.keys.push(table.key_ahead(framework, cluster, row, takes, pods));
                }
            }
            return;
        }
        if steps == 1 && self.rows.are(rows.iter().map(|offer| offer.row)) {
            self.rows.advance(pods as u32);
            table.add_keys(framework, cluster, &self.rows, None, &mut self.keys);
            return;
        }
        for rows in rows.chunks(AT_ONCE / steps) {
            let rows = rows.iter().map(|offer| offer.row);
            self.rows.ahead(cluster, takes, rows, counts.clone());
            table.add_keys(framework, cluster, &self.rows, None, &mut self.keys);
        }
    }
}

impl Run {
    /// The rows of so many pods, placed one after another, each on the best of `rows` (`None`: of
    /// all). Fewer if no row is left that takes one. The table is up to date.
    ///
    /// O(pods · log pods) and, for every pod, one row evaluated or two. Where rows become no worse
    /// with more pods, one more row is evaluated for each doubling of the pods that go to one row.
    /// Beside that O(pods · log n) for the best of all rows, or O(rows).
    pub(crate) fn rows(
        &mut self,
        table: &mut ScoreTable,
        takers: Takers<'_>,
        rows: Option<&[Row]>,
        pods: usize,
    ) -> impl Iterator<Item = Row> + '_ {
        self.offers.clear();
        // There are mostly fewer than twice as many.
        self.offers.reserve(2 * pods.min(table.ranking.feasible()));
        let order = table.prepared.ranks.order();
        match rows {
            None => table.ranking.top(pods, &mut self.spare, order, |worth, row| {
                self.offers.push(Slot { worth, row: row as u32 });
            }),
            Some(rows) => self.offers.extend(rows.iter().filter_map(|&row| {
                let worth = table.ranking.key(row.index());
                (worth != 0).then_some(Slot { worth, row: row.as_u32() })
            })),
        }
        // A bar for offers: there are enough better ones above it.
        let mut floor = self.cut(pods);
        self.open.clear();
        self.open.reserve(self.offers.len());
        self.open.extend(self.offers.iter().filter(|offer| offer.worth > floor));
        self.ahead.rows.forget();
        let (mut taken, mut steps) = (1, 1);
        while taken < pods && !self.open.is_empty() {
            let few = AT_ONCE / 4 / self.open.len();
            let now = steps.min(few).clamp(1, pods - taken);
            self.ahead.look(table, takers, &self.open, (taken, now));
            self.keep_open(floor, now);
            core::mem::swap(&mut self.open, &mut self.still_open);
            (taken, steps) = (taken + now, STEPS.min(2 * steps));
            // Finding a higher floor costs less than to evaluate rows that are below it.
            let worth_it = 8 * self.open.len() > self.offers.len();
            if self.offers.len() >= 2 * pods || worth_it {
                floor = self.cut(pods);
                self.open.retain(|offer| offer.worth > floor);
            }
        }
        self.ranks.sort(&mut self.offers, pods);
        self.offers.iter().map(|offer| Row::from(offer.row))
    }

    /// Takes the offers of open rows that are worth more than the floor, of `steps` looked ahead to;
    /// rows of which all are taken stay open.
    fn keep_open(&mut self, floor: u64, steps: usize) {
        let rows = self.open.len();
        self.still_open.resize(rows, Slot::default());
        let mut kept = 0;
        if steps == 1 {
            // The winners cannot be foreseen, so there is no branch.
            for (offer, &key) in self.open.iter().zip(&self.ahead.keys) {
                let worth = offer.worth.min(key);
                self.still_open[kept] = Slot { worth, row: offer.row };
                kept += usize::from(worth > floor);
            }
            self.offers.extend_from_slice(&self.still_open[..kept]);
        } else {
            for (offer, keys) in self.open.iter().zip(self.ahead.keys.chunks(steps)) {
                let mut offer = *offer;
                let taken = keys.iter().take_while(|key| {
                    offer.worth = offer.worth.min(**key);
                    let takes = offer.worth > floor;
                    if takes {
                        self.offers.push(offer);
                    }
                    takes
                });
                if taken.count() == steps {
                    self.still_open[kept] = offer;
                    kept += 1;
                }
            }
        }
        self.still_open.truncate(kept);
    }

    /// Leaves out offers that cannot be among so many, and gives what the least of these is worth;
    /// 0 if there are not so many.
    fn cut(&mut self, pods: usize) -> u64 {
        if self.offers.len() < pods {
            return 0;
        }
        if self.offers.len() == pods {
            return self.offers.iter().map(|offer| offer.worth).min().unwrap_or(0);
        }
        let floor = self.ranks.least_of(&self.offers, pods);
        self.offers.retain(|offer| offer.worth >= floor);
        floor
    }
}
