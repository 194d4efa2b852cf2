//! Runs of identical pods: the best rows for all of them at once.
//!
//! Placed one after another, each pod takes the row with the best key, and the row has another key
//! then. That is a merge: each row has a sequence of keys, one for every pod more on it, of which
//! only the front can be taken. A key behind a lower one waits for it, so it is worth the least of
//! those before it and itself. In order of worth, all rows together, the keys are the run.
//!
//! So it is enough to know the keys that are worth most, as many as there are pods, and to sort
//! them. The rows with the best keys are found first; then they are all judged with one pod more,
//! side by side, then those of them that are still among the best, until no row is left to ask.

use alloc::vec::Vec;

use super::fast::Memory;
use super::table::Table;
use crate::base::chunks::CHUNK;
use crate::framework::{Framework, Gathered};
use crate::state::{Cluster, Row, Takes};

/// Keys of rows judged at once, for the buffers' sake.
const AT_ONCE: usize = CHUNK;
/// Rows up to which each is judged by itself: that costs less than to lay them side by side.
const FEW: usize = 2;
/// Pods more on a row that are looked ahead to at once, where rows are few and pods many.
const STEPS: usize = 16;

/// Buffers of a run, used again and again.
#[derive(Debug, Default)]
pub(super) struct Run {
    /// The best so far; as many as there are pods, and some that may not be.
    offers: Vec<Offer>,
    /// The last offer of each row that may have more.
    open: Vec<Offer>,
    still_open: Vec<Offer>,
    ahead: Ahead,
    spare: Vec<u64>,
    /// Where the offers with each total end.
    ends: Vec<usize>,
}

/// A row for one more pod, and what it is worth.
#[derive(Debug, Clone, Copy)]
struct Offer {
    worth: u64,
    row: u32,
}

/// Keys that rows have with more pods on them.
#[derive(Debug, Default)]
struct Ahead {
    rows: Gathered,
    /// Whether the rows were gathered by this run, each with as many pods as the others.
    even: bool,
    keys: Vec<u64>,
}

impl Ahead {
    /// Judges rows with `pods` more pods on each, and with one more than that, so many `steps`.
    fn look(
        &mut self,
        table: &mut Table,
        (framework, cluster, takes): (&Framework, &Cluster, &Takes),
        rows: &[Offer],
        (pods, steps): (usize, usize),
    ) {
        self.keys.clear();
        let counts = pods as u32..(pods + steps) as u32;
        if rows.len() * steps <= FEW {
            for offer in rows {
                for pods in counts.clone() {
                    let (row, more) = (offer.row as Row, (takes, pods));
                    self.keys.push(table.key_ahead(framework, cluster, row, more));
                }
            }
            return;
        }
        if self.even && steps == 1 && self.rows.are(rows.iter().map(|offer| offer.row)) {
            self.rows.advance(pods as u32);
            table.add_keys(framework, cluster, &self.rows, &mut self.keys);
            return;
        }
        self.even = steps == 1;
        for rows in rows.chunks(AT_ONCE / steps) {
            let rows = rows.iter().map(|offer| offer.row);
            self.rows.ahead(cluster, takes, rows, counts.clone());
            table.add_keys(framework, cluster, &self.rows, &mut self.keys);
        }
    }
}

impl Run {
    /// Works out so many offers, best first.
    fn take(
        &mut self,
        table: &mut Table,
        site: (&Framework, &Cluster, &Takes),
        rows: Option<&[Row]>,
        pods: usize,
    ) {
        self.offers.clear();
        match rows {
            None => table.board.top(pods, &mut self.spare, |worth, row| {
                self.offers.push(Offer { worth, row: row as u32 });
            }),
            Some(rows) => self.offers.extend(rows.iter().filter_map(|&row| {
                let worth = table.board.key(row);
                (worth != 0).then_some(Offer { worth, row: row as u32 })
            })),
        }
        // What an offer must be worth more than, if there are enough without it.
        let mut floor = self.cut(pods);
        self.open.clear();
        self.open.extend(self.offers.iter().filter(|offer| offer.worth > floor));
        table.forecast.clear();
        self.ahead.even = false;
        let (mut taken, mut steps) = (1, 1);
        while taken < pods && !self.open.is_empty() {
            let few = AT_ONCE / 4 / self.open.len();
            let now = steps.min(few).clamp(1, pods - taken);
            self.ahead.look(table, site, &self.open, (taken, now));
            if taken == 1 && now == 1 {
                let rows = self.open.iter().map(|offer| offer.row as Row);
                table.forecast.begin(site.1, site.2, rows, &self.ahead.keys);
            } else {
                for (offer, keys) in self.open.iter().zip(self.ahead.keys.chunks(now)) {
                    for (pods, &key) in (taken..).zip(keys) {
                        table.forecast.add(offer.row, pods, key);
                    }
                }
            }
            self.still_open.clear();
            for (offer, keys) in self.open.iter().zip(self.ahead.keys.chunks(now)) {
                let mut worth = offer.worth;
                let more = keys.iter().map_while(|&key| {
                    worth = worth.min(key);
                    (worth > floor).then_some(Offer { worth, ..*offer })
                });
                let before = self.offers.len();
                self.offers.extend(more);
                if self.offers.len() == before + now {
                    self.still_open.extend(self.offers.last());
                }
            }
            core::mem::swap(&mut self.open, &mut self.still_open);
            (taken, steps) = (taken + now, STEPS.min(2 * steps));
            // Finding a higher floor costs less than to judge rows that are below it.
            let worth_it = 8 * self.open.len() > self.offers.len();
            if self.offers.len() >= 2 * pods || worth_it {
                floor = self.cut(pods);
                self.open.retain(|offer| offer.worth > floor);
            }
        }
        table.forecast.end();
        self.cut(pods);
        self.sort();
        // Offers that are worth the same are of one row.
        self.offers.truncate(pods);
    }

    /// Sorts the offers, best first: by their totals, of which there are few, in one pass, then
    /// those with the same total, which mostly are in order as they are.
    fn sort(&mut self) {
        const TOTALS: usize = 1_024;
        let total = |offer: &Offer| (offer.worth >> 32) as usize;
        let best_first = |a: &Offer, b: &Offer| b.worth.cmp(&a.worth);
        let high = self.offers.iter().map(total).max().unwrap_or(0);
        let low = self.offers.iter().map(total).min().unwrap_or(0);
        if high == low || high - low >= TOTALS {
            self.offers.sort_by(best_first);
            return;
        }
        self.ends.clear();
        self.ends.resize(high - low + 1, 0);
        for offer in &self.offers {
            self.ends[high - total(offer)] += 1;
        }
        let mut end = 0;
        for place in &mut self.ends {
            (*place, end) = (end, end + *place);
        }
        self.still_open.clear();
        self.still_open.resize(self.offers.len(), Offer { worth: 0, row: 0 });
        for offer in &self.offers {
            let place = &mut self.ends[high - total(offer)];
            self.still_open[*place] = *offer;
            *place += 1;
        }
        core::mem::swap(&mut self.offers, &mut self.still_open);
        let mut first = 0;
        for &end in &self.ends {
            self.offers[first..end].sort_by(best_first);
            first = end;
        }
    }

    /// Leaves out offers that cannot be among so many, and gives what the least of these is worth;
    /// 0 if there are not so many.
    fn cut(&mut self, pods: usize) -> u64 {
        if self.offers.len() < pods {
            return 0;
        }
        let worths = self.offers.iter().map(|offer| offer.worth);
        if self.offers.len() == pods {
            return worths.min().unwrap_or(0);
        }
        self.spare.clear();
        self.spare.extend(worths);
        let (_, floor, _) = self.spare.select_nth_unstable_by(pods - 1, |a, b| b.cmp(a));
        let floor = *floor;
        self.offers.retain(|offer| offer.worth >= floor);
        floor
    }
}

impl Memory {
    /// Whether pods of the only shape can be placed by [`Memory::run`].
    pub(super) fn can_run(&self, cluster: &Cluster, table: usize, pods: usize) -> bool {
        let table = &self.tables[table];
        let [takes] = &self.desk.takes[..] else { return false };
        self.desk.overlay.mark() == 0
            && !self.far
            && table.judges.is_plain()
            && !table.judges.reads_pods
            && takes.needs.is_empty()
            && self.desk.cannot_overflow(cluster, pods)
    }

    /// Places pods of the only shape one after another, each on the best of `rows` (`None`: of
    /// all), and tells of each row. Nothing must have been placed before, and nothing is placed
    /// after: the overlay does not learn of it.
    ///
    /// O(pods · log pods) and, for every pod, one row judged; beside that O(pods · log n) for the
    /// best of all rows, or O(rows).
    pub(super) fn run(
        &mut self,
        cluster: &Cluster,
        framework: &Framework,
        table: usize,
        rows: Option<&[Row]>,
        pods: usize,
        mut tell: impl FnMut(usize, Row),
    ) {
        if pods == 0 {
            return;
        }
        self.flush(cluster, framework, table);
        let table = &mut self.tables[table];
        if let (1, None) = (pods, rows) {
            if let Some(row) = table.board.best() {
                tell(0, row);
            }
            return;
        }
        self.run.take(table, (framework, cluster, &self.desk.takes[0]), rows, pods);
        for (pod, offer) in self.run.offers.iter().enumerate() {
            tell(pod, offer.row as Row);
        }
    }
}
