//! Runs of identical pods over the whole cluster.

use alloc::vec::Vec;

use super::fast::Memory;
use super::table::Table;
use crate::base::chunks::CHUNK;
use crate::framework::{Ahead, Block, Framework};
use crate::state::{Cluster, Row, Takes};

/// The keys that rows have with more pods of a run on them, worked out as they are asked for.
///
/// A row is judged by itself, unless many rows of its block are to be asked about: then the block is
/// judged whole, side by side, which costs far less a row.
#[derive(Debug, Default)]
pub(super) struct Outlook {
    /// How many pods each row has got.
    pods: Vec<u32>,
    rows: Vec<u32>,
    /// By number of pods, less one.
    steps: Vec<Step>,
    ahead: Ahead,
}

#[derive(Debug, Default)]
struct Step {
    /// By block: empty until it is judged whole.
    keys: Vec<Vec<u64>>,
    /// By block: how often it was asked about before.
    asked: Vec<u8>,
}

/// How often a block is asked about before it is judged whole in any case: from there on that
/// would have been cheaper.
const PATIENCE: u8 = 40;
/// How many rows of a block as good as the best make it worthwhile at once.
const MANY: usize = 40;
/// Pods on one row beyond which rows are judged by themselves.
const STEPS: usize = 64;

impl Outlook {
    fn clear(&mut self, rows: usize) {
        for row in self.rows.drain(..) {
            self.pods[row as usize] = 0;
        }
        self.pods.resize(rows.max(self.pods.len()), 0);
        for step in &mut self.steps {
            step.asked.fill(0);
            step.keys.iter_mut().for_each(Vec::clear);
        }
    }

    /// Counts one more pod on a row, and gives the key it has then.
    #[inline]
    fn next_key(
        &mut self,
        table: &mut Table,
        framework: &Framework,
        cluster: &Cluster,
        takes: &Takes,
        row: Row,
    ) -> u64 {
        self.pods[row] += 1;
        let pods = self.pods[row];
        if pods == 1 {
            self.rows.push(row as u32);
        }
        let (step, block) = (pods as usize - 1, row / CHUNK);
        if let Some(keys) = self.steps.get(step).and_then(|step| step.keys.get(block))
            && let Some(&key) = keys.get(row % CHUNK)
        {
            return key;
        }
        if step < STEPS {
            let blocks = cluster.rows().div_ceil(CHUNK);
            if self.steps.len() <= step {
                self.steps.resize_with(step + 1, Step::default);
            }
            let step = &mut self.steps[step];
            if step.keys.len() < blocks {
                step.keys.resize_with(blocks, Vec::new);
                step.asked.resize(blocks, 0);
            }
            step.asked[block] = step.asked[block].saturating_add(1);
            if step.asked[block] > PATIENCE || step.asked[block] == 1 && peers(table, row) >= MANY {
                let (whole, keys) = (Block::around(cluster, row), &mut step.keys[block]);
                let more = (takes, pods);
                table.look_ahead(framework, cluster, &whole, more, &mut self.ahead, keys);
                return keys[row % CHUNK];
            }
        }
        table.key_ahead(framework, cluster, row, (takes, pods))
    }
}

/// How many rows of the row's block have the same total: they are asked about next.
fn peers(table: &Table, row: Row) -> usize {
    let key = table.board.key(row);
    let block = row / CHUNK * CHUNK;
    let keys = table.board.keys();
    let keys = &keys[block..keys.len().min(block + CHUNK)];
    keys.iter().map(|other| usize::from(other >> 32 == key >> 32)).sum()
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
                let key = outlook.next_key(table, framework, cluster, &self.desk.takes[0], row);
                table.board.set_plain(row, key);
            }
        }
        // The table has the rows as they are with the run; who asks next wants them without.
        self.desk.log.extend(&outlook.rows);
    }
}
