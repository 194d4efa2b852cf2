//! Pods that came and went, for those who keep what they prepared.

use alloc::collections::VecDeque;
use alloc::sync::Arc;
use alloc::vec::Vec;

use super::pod_census::PodCensus;
use crate::model::PodShape;
use crate::state::Cluster;

/// Events remembered at least; who is further behind prepares anew.
const REMEMBERED: usize = 4_096;

/// A pod of a shape came to a row, or left it.
#[derive(Debug, Clone)]
pub(crate) struct PodEvent {
    pub(crate) row: u32,
    pub(crate) shape: Arc<PodShape>,
    pub(crate) deleting: bool,
    pub(crate) came: bool,
}

/// What has happened on the cluster and in the decision under way.
///
/// Nothing is recorded until somebody listens.
#[derive(Debug, Default)]
pub(crate) struct PodEvents {
    list: VecDeque<PodEvent>,
    start: u64,
    history: u64,
    listened: bool,
    /// Pods placed by the decision under way, in order.
    flight: Vec<(u32, Arc<PodShape>)>,
    /// The pods of each row, to tell who came and went. Made only once a planner is asked again:
    /// many are asked once.
    roll: Option<PodCensus>,
    requests: u64,
}

impl PodEvents {
    pub(crate) fn start(&self) -> u64 {
        self.start
    }

    pub(crate) fn end(&self) -> u64 {
        self.start + self.list.len() as u64
    }

    /// Which history it is: what was prepared in another cannot be brought up to date.
    pub(crate) fn history(&self) -> u64 {
        self.history
    }

    pub(crate) fn since(&self, cursor: u64) -> impl Iterator<Item = &PodEvent> {
        self.list.range((cursor - self.start) as usize..)
    }

    /// Somebody keeps something from now on. Nothing may be in flight.
    pub(crate) fn listen(&mut self, cluster: &Cluster) {
        self.listened = true;
        if self.roll.is_none() && self.requests > 0 {
            self.roll = Some(PodCensus::new(cluster));
        }
    }

    /// Begins a request: what the last one placed is taken back.
    pub(crate) fn begin(&mut self) {
        self.requests += u64::from(self.listened);
        self.rollback(0);
        let spare = self.list.len().saturating_sub(REMEMBERED);
        if spare > 0 {
            self.list.drain(..spare);
            self.start += spare as u64;
        }
    }

    /// Takes in that the pods of a row of the cluster have changed.
    pub(crate) fn changed(&mut self, cluster: &Cluster, row: u32) {
        if !self.listened {
            return;
        }
        let list = &mut self.list;
        let tell = |shape: &Arc<PodShape>, deleting, came| {
            list.push_back(PodEvent { row, shape: Arc::clone(shape), deleting, came });
        };
        let known = self.roll.as_mut().is_some_and(|roll| roll.update(cluster, row, tell));
        if !known {
            self.forget();
        }
    }

    /// Begins another history.
    pub(crate) fn forget(&mut self) {
        self.start = self.end();
        self.list.clear();
        self.flight.clear();
        self.history += 1;
        self.roll = None;
    }

    /// A pod was placed.
    #[inline]
    pub(crate) fn placed(&mut self, row: u32, shape: &Arc<PodShape>) {
        if self.listened {
            self.flight.push((row, Arc::clone(shape)));
            self.list.push_back(PodEvent {
                row,
                shape: Arc::clone(shape),
                deleting: false,
                came: true,
            });
        }
    }

    /// What was placed since a mark is taken back.
    pub(crate) fn rollback(&mut self, mark: usize) {
        while self.flight.len() > mark
            && let Some((row, shape)) = self.flight.pop()
        {
            self.list.push_back(PodEvent { row, shape, deleting: false, came: false });
        }
    }
}
