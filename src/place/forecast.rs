//! What a run has found out about rows with more pods on them, for the time when they have them.

use alloc::vec::Vec;

use crate::state::{Cluster, Row, Takes};

/// Rows beyond which a run is not kept.
const MOST: usize = 4_096;

/// Keys of rows with some pods more than they had, known from judging ahead.
///
/// Whoever asked for a run mostly binds it. Then the rows are as foreseen, which is found out by
/// comparing sums, and need not be judged again. The keys must depend on nothing but sums.
#[derive(Debug, Default)]
pub(super) struct Forecast {
    /// In ascending order.
    rows: Vec<u32>,
    /// All sums of each row as it was.
    sums: Vec<i64>,
    /// The same of what a pod takes.
    takes: Vec<i64>,
    /// The keys of the rows with one pod more.
    keys: Vec<u64>,
    /// A buffer: rows that were asked about, their places, and their sums as they are.
    asked: (Vec<u32>, Vec<u32>, Vec<i64>),
    /// With more than one: row and pods, and the key. In order.
    beyond: Vec<(u64, u64)>,
    /// The most pods more of which something is known.
    most: usize,
}

impl Forecast {
    pub(super) fn clear(&mut self) {
        self.rows.clear();
        self.sums.clear();
        self.takes.clear();
        self.keys.clear();
        self.beyond.clear();
        self.most = 1;
    }

    /// Notes the keys of rows with one pod more.
    pub(super) fn begin(
        &mut self,
        cluster: &Cluster,
        takes: &Takes,
        rows: impl ExactSizeIterator<Item = Row> + Clone,
        keys: &[u64],
    ) {
        self.clear();
        if rows.len() > MOST || !rows.clone().is_sorted() {
            return;
        }
        self.takes.extend([1, takes.scored[0], takes.scored[1]]);
        self.takes.resize(cluster.columns.sums_of_a_row(), 0);
        for &(resource, amount) in &takes.requests {
            self.takes[3 + resource.index()] = amount;
        }
        self.rows.extend(rows.map(|row| row as u32));
        cluster.columns.read_sums(&self.rows, &mut self.sums);
        self.keys.extend_from_slice(keys);
    }

    /// Notes the key of a row with more than one pod more.
    pub(super) fn add(&mut self, row: u32, pods: usize, key: u64) {
        if !self.rows.is_empty() {
            self.beyond.push((place(row, pods as u64), key));
            self.most = self.most.max(pods);
        }
    }

    /// Everything has been noted.
    pub(super) fn end(&mut self) {
        self.beyond.sort_unstable();
    }

    /// Takes the rows out, in ascending order, whose keys are known as they are now, and gives
    /// their keys.
    pub(super) fn settle(
        &mut self,
        cluster: &Cluster,
        rows: &mut Vec<u32>,
        known: &mut Vec<(Row, u64)>,
    ) {
        known.clear();
        let width = self.takes.len();
        if self.rows.is_empty() || width != cluster.columns.sums_of_a_row() {
            return;
        }
        let (asked, places, sums) = &mut self.asked;
        asked.clear();
        places.clear();
        sums.clear();
        let mut at = 0;
        for &row in &*rows {
            while self.rows.get(at).is_some_and(|own| *own < row) {
                at += 1;
            }
            // What is left of devices is no sum.
            if self.rows.get(at) == Some(&row)
                && cluster.columns.device_state.get(row as Row).is_none()
            {
                asked.push(row);
                places.push(at as u32);
            }
        }
        cluster.columns.read_sums(asked, sums);
        for ((&row, &at), now) in asked.iter().zip(&*places).zip(sums.chunks_exact(width)) {
            let at = at as usize;
            let before = &self.sums[at * width..][..width];
            let pods = now[0] - before[0];
            // Fewer pods than a run has, so nothing overflows.
            if !(1..=self.most as i64).contains(&pods) {
                continue;
            }
            let others = now.iter().zip(before).zip(&self.takes);
            if others.fold(0, |apart, ((now, sum), each)| apart | (now - sum - pods * each)) != 0 {
                continue;
            }
            let key = if pods == 1 {
                self.keys.get(at)
            } else {
                let place = place(row, pods as u64);
                let found = self.beyond.binary_search_by_key(&place, |(place, _)| *place);
                found.ok().map(|found| &self.beyond[found].1)
            };
            known.extend(key.map(|key| (row as Row, *key)));
        }
        let mut settled = known.iter().map(|(row, _)| *row as u32).peekable();
        rows.retain(|row| settled.next_if_eq(row).is_none());
    }
}

fn place(row: u32, pods: u64) -> u64 {
    u64::from(row) << 32 | pods
}
