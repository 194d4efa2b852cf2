//! Runs of identical pods over the whole cluster.

use alloc::vec::Vec;
use core::ops::Range;

use super::fast::Memory;
use super::table::Table;
use crate::base::chunks::CHUNK;
use crate::framework::{Ahead, Block, Framework};
use crate::state::{Cluster, Row, Takes};

/// The keys that rows have with more pods of a run on them, worked out as they are asked for.
///
/// A row is judged by itself, unless many rows of its block are to be asked about: then those are
/// judged side by side, which costs far less a row.
#[derive(Debug, Default)]
pub(super) struct Outlook {
    /// How many pods each row has got.
    pods: Vec<u32>,
    rows: Vec<u32>,
    /// By number of pods, less one; then by block.
    views: Vec<Vec<View>>,
    /// The views that are not as new.
    seen: Vec<(u32, u32)>,
    ahead: Ahead,
}

/// The keys of rows of a block with so many pods more.
#[derive(Debug, Default)]
struct View {
    /// The place of the first row in its block.
    first: usize,
    keys: Vec<u64>,
    /// How often rows were judged by themselves.
    alone: u8,
}

/// How often rows of a block are judged by themselves before all are, side by side: from there on
/// that would have been cheaper.
const PATIENCE: u8 = 40;
/// How many rows of a block as good as the best make it worthwhile at once, and at most how many
/// rows there may be for each.
const MANY: usize = 8;
const SPREAD: usize = 3;
/// Pods on one row beyond which rows are judged by themselves.
const STEPS: usize = 16;

impl Outlook {
    fn clear(&mut self, rows: usize) {
        for row in self.rows.drain(..) {
            self.pods[row as usize] = 0;
        }
        for (step, block) in self.seen.drain(..) {
            let view = &mut self.views[step as usize][block as usize];
            view.keys.clear();
            view.alone = 0;
        }
        self.pods.resize(rows.max(self.pods.len()), 0);
    }

    /// Counts one more pod on a row, and gives the key it has then. So many pods are `left` to be
    /// placed.
    #[inline]
    fn next_key(
        &mut self,
        (table, takes): (&mut Table, &Takes),
        (framework, cluster): (&Framework, &Cluster),
        row: Row,
        left: usize,
    ) -> u64 {
        self.pods[row] += 1;
        let pods = self.pods[row];
        if pods == 1 {
            self.rows.push(row as u32);
        }
        let (step, block, at) = (pods as usize - 1, row / CHUNK, row % CHUNK);
        if let Some(view) = self.views.get(step).and_then(|views| views.get(block))
            && let Some(&key) = view.keys.get(at.wrapping_sub(view.first))
        {
            return key;
        }
        if step >= STEPS {
            return table.key_ahead(framework, cluster, row, (takes, pods));
        }
        let view = self.view(cluster, step, block);
        let rows = if view.alone >= PATIENCE {
            Some(0..CHUNK)
        } else if view.alone == 0 {
            peers(table, row, left)
        } else {
            None
        };
        let Some(rows) = rows else {
            view.alone += 1;
            return table.key_ahead(framework, cluster, row, (takes, pods));
        };
        let (first, end) = (block * CHUNK, cluster.rows());
        let span = Block::of(cluster, first + rows.start..end.min(first + rows.end));
        let view = &mut self.views[step][block];
        (view.first, view.alone) = (rows.start, 0);
        view.keys.clear();
        let more = (takes, pods);
        table.look_ahead(framework, cluster, &span, more, &mut self.ahead, &mut view.keys);
        view.keys.get(at - view.first).copied().unwrap_or(0)
    }

    fn view(&mut self, cluster: &Cluster, step: usize, block: usize) -> &mut View {
        let blocks = cluster.rows().div_ceil(CHUNK);
        if self.views.len() <= step {
            self.views.resize_with(step + 1, Vec::new);
        }
        let views = &mut self.views[step];
        if views.len() < blocks {
            views.resize_with(blocks, View::default);
        }
        let view = &mut views[block];
        if view.alone == 0 && view.keys.is_empty() {
            self.seen.push((step as u32, block as u32));
        }
        view
    }
}

/// Where in a row's block the rows are that have the same total, which are asked about next, as far
/// as there are pods left for them; `None` if they are few, or far between.
fn peers(table: &Table, row: Row, left: usize) -> Option<Range<usize>> {
    let (total, at) = (table.board.key(row) >> 32, row % CHUNK);
    let keys = table.board.keys();
    let keys = &keys[row - at..keys.len().min(row - at + CHUNK)];
    let mut rows = at..at + 1;
    let mut found = 1;
    for (place, key) in keys.iter().enumerate() {
        if key >> 32 == total && place != at {
            if found > left {
                break;
            }
            found += 1;
            rows = rows.start.min(place)..rows.end.max(place + 1);
        }
    }
    (found >= MANY && rows.len() <= SPREAD * found).then_some(rows)
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

    /// Places pods of the only shape one after another, each on the best row of all, and tells
    /// of each row. Nothing must have been placed before, and nothing is placed after: the overlay
    /// does not learn of it.
    pub(super) fn run(
        &mut self,
        cluster: &Cluster,
        framework: &Framework,
        table: usize,
        pods: usize,
        mut tell: impl FnMut(usize, Row),
    ) {
        let outlook = &mut self.outlook;
        outlook.clear(cluster.rows());
        let table = &mut self.tables[table];
        for pod in 0..pods {
            let Some(row) = table.board.best() else { break };
            tell(pod, row);
            if pod + 1 < pods {
                let (site, takes) = ((framework, cluster), &self.desk.takes[0]);
                let key = outlook.next_key((table, takes), site, row, pods - pod - 1);
                table.board.set_plain(row, key);
            }
        }
        // The table has the rows as they are with the run; who asks next wants them without.
        self.desk.log.extend(&outlook.rows);
    }
}
