//! State that a planner keeps between requests: its caches, and buffers for their capacity.

use alloc::vec::Vec;

use super::run::Run;
use crate::place::cache::Caches;
use crate::place::layout::Member;

/// The caches and buffers of a planner, and how it uses them.
#[derive(Debug)]
pub(crate) struct Workspace {
    pub(crate) caches: Caches,
    /// Buffers of runs of identical pods.
    pub(crate) run: Run,
    /// An empty list of members, kept for its capacity.
    pub(crate) spare: Vec<Member>,
    /// Whether candidate domains are left out that counting shows to be too small.
    pub(crate) prune: bool,
    /// The number of threads that coarse work may use.
    pub(crate) threads: usize,
}

impl Default for Workspace {
    fn default() -> Workspace {
        let (caches, run, spare) = Default::default();
        Workspace { caches, run, spare, prune: true, threads: 1 }
    }
}
