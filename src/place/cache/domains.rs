//! Domains of all nodes, with what is known of them between requests: how many pods of a shape each
//! takes, and what scores said of it.

use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;

use crate::base::hash::FixedMap;
use crate::place::scoring::changes::ChangeLog;
use crate::place::topology::partition::{Candidate, path_of};
use crate::place::topology::tiers::{Keys, Path};
use crate::state::{Cluster, Row};

/// Counts kept at most for the domains of one list of keys, and at most so many in all.
const KEPT: usize = 16;
const COUNTS: usize = 1_000_000;

/// The domains that some keys make of all nodes.
#[derive(Debug)]
pub(crate) struct Domains {
    pub(crate) keys: Keys,
    /// In order of name.
    pub(crate) candidates: Arc<[Candidate]>,
    /// The place of each by its path; empty before its first use.
    places: FixedMap<Path, u32>,
    known: Vec<Counts>,
}

/// A raw score by domain; `None` where it is to be asked for.
pub(crate) type Raws = Vec<Option<i64>>;

/// Counts of the domains for so many pods of a shape.
#[derive(Debug)]
struct Counts {
    /// The number of the table that told them, and how many pods were to be placed.
    of: (u64, usize),
    /// The end of the changed rows that they account for.
    cursor: u64,
    last_use: u64,
    pods: Vec<usize>,
    /// How many members ran when scores were asked.
    running: usize,
    /// By plugin.
    raws: Vec<Raws>,
}

impl Domains {
    pub(crate) fn new(keys: Keys, candidates: Arc<[Candidate]>) -> Domains {
        Domains { keys, candidates, places: FixedMap::default(), known: Vec::new() }
    }

    /// Whether these are the candidates, and not others that are equal.
    pub(crate) fn are(&self, candidates: &[Candidate]) -> bool {
        core::ptr::eq(self.candidates.as_ptr(), candidates.as_ptr())
    }

    /// The counts of all domains for so many pods of a table's shape. `count` is asked for domains
    /// with rows that changed since; its second argument is how many those are. Rows in the log up
    /// to its end must outlive the decision.
    pub(crate) fn counts(
        &mut self,
        cluster: &Cluster,
        changes: &ChangeLog,
        (of, request): ((u64, usize), u64),
        mut count: impl FnMut(&Candidate, usize) -> usize,
    ) -> Vec<usize> {
        let candidates = Arc::clone(&self.candidates);
        let at = self.known.iter().position(|known| known.of == of);
        let stale = at.and_then(|at| self.stale(cluster, changes, self.known[at].cursor));
        let at = at.unwrap_or_else(|| self.make_room(of));
        let known = &mut self.known[at];
        (known.cursor, known.last_use) = (changes.end(), request);
        if let Some(stale) = stale {
            for &place in &stale {
                let place = place as usize;
                known.pods[place] = count(&candidates[place], stale.len());
                known.raws.iter_mut().for_each(|raws| raws[place] = None);
            }
        } else {
            known.raws.clear();
            let all = candidates.len();
            known.pods.clear();
            known.pods.extend(candidates.iter().map(|candidate| count(candidate, all)));
        }
        known.pods.clone()
    }

    /// Raw scores by plugin, as of the counts that were told last for so many pods of a table's
    /// shape; `None` where a domain changed since, or more members ran.
    pub(crate) fn raws(
        &mut self,
        of: (u64, usize),
        running: usize,
        plugins: usize,
    ) -> Option<&mut Vec<Raws>> {
        let domains = self.candidates.len();
        let known = self.known.iter_mut().find(|known| known.of == of)?;
        if known.running != running || known.raws.len() != plugins {
            known.running = running;
            known.raws = vec![vec![None; domains]; plugins];
        }
        Some(&mut known.raws)
    }

    /// Domains with rows that changed since a place in the log; `None` if they are not known, or
    /// many.
    fn stale(&mut self, cluster: &Cluster, changes: &ChangeLog, since: u64) -> Option<Vec<u32>> {
        if !changes.reaches(since) {
            return None;
        }
        let changed = changes.since(since);
        if changed.len() > self.candidates.len() / 2 {
            return None;
        }
        if self.places.is_empty() {
            let path = |candidate: &Candidate| Path::from_slice(&candidate.path);
            self.places.extend(self.candidates.iter().map(path).zip(0..));
        }
        let place = |&row: &u32| {
            let path = path_of(cluster.view(Row::from(row))?, &self.keys)?;
            self.places.get(&path).copied()
        };
        let mut stale: Vec<u32> = changed.iter().filter_map(place).collect();
        stale.sort_unstable();
        stale.dedup();
        Some(stale)
    }

    /// The place of new counts, or of those that were not used for longest.
    fn make_room(&mut self, of: (u64, usize)) -> usize {
        let most = (COUNTS / self.candidates.len().max(1)).clamp(1, KEPT);
        let empty =
            Counts { of, cursor: 0, last_use: 0, pods: Vec::new(), running: 0, raws: Vec::new() };
        if self.known.len() < most {
            self.known.push(empty);
            return self.known.len() - 1;
        }
        let at = (0..most).min_by_key(|&at| self.known[at].last_use).unwrap_or(0);
        self.known[at] = empty;
        at
    }
}
