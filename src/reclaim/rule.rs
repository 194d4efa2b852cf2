//! Quota as a rule over sets of units.

use alloc::collections::BTreeSet;
use alloc::string::String;
use alloc::vec::Vec;

use crate::base::ObjectName;
use crate::preempt::{Candidate, Policy, Preemption, Preemptor, Victim, Yielding};
use crate::quota::{HolderId, Yields};

/// The holders that may yield for a claim, by number.
#[derive(Debug)]
pub(crate) struct Quota<'t> {
    yields: Yields<'t>,
    /// Holders in the order of ids: their places are their numbers.
    holders: Vec<HolderId>,
    lacks: Vec<i64>,
    /// By holder and lack.
    gives: Vec<i64>,
}

impl<'t> Quota<'t> {
    pub(crate) fn new(yields: Yields<'t>) -> Quota<'t> {
        let holders = yields.candidates();
        let lacks: Vec<i64> = yields.lacks().iter().map(|(_, amount)| *amount).collect();
        let gives = holders.iter().flat_map(|holder| yields.gives(*holder)).collect();
        Quota { yields, holders, lacks, gives }
    }

    /// The names of the claims in the claim's own queue that may yield.
    pub(crate) fn own_names(&self) -> BTreeSet<String> {
        self.yields.own_names().map(String::from).collect()
    }

    /// The holders of victims.
    pub(super) fn holders_of(&self, answer: &Preemption) -> Vec<HolderId> {
        let victims = answer.preempt().map_or(&[][..], |preempt| &preempt.victims);
        let of = |victim: &Victim| {
            let pod = victim.pods.first()?;
            let by_group = victim.group.as_ref().and_then(|group| self.yields.find(group));
            by_group.or_else(|| self.yields.find(&alloc::format!("{}/{}", pod.namespace, pod.name)))
        };
        let mut holders: Vec<HolderId> = victims.iter().filter_map(of).collect();
        holders.sort_unstable();
        holders.dedup();
        holders
    }

    fn ids(&self, holders: &[u32]) -> Vec<HolderId> {
        holders.iter().filter_map(|&at| self.holders.get(at as usize).copied()).collect()
    }
}

impl Yielding for Quota<'_> {
    fn holder_of(&self, unit: &Candidate<'_>) -> Option<u32> {
        let holder = find_by_name(unit, |name| self.yields.find(name))?;
        self.holders.binary_search(&holder).ok().and_then(|at| u32::try_from(at).ok())
    }

    /// Every numbered holder may yield alone.
    fn may_begin(&self, holders: &[u32]) -> bool {
        holders.len() == 1 || self.yields.may_begin(&self.ids(holders))
    }

    fn may_yield(&self, holders: &[u32]) -> bool {
        self.yields.may_yield(&self.ids(holders))
    }

    fn suffices(&self, holders: &[u32]) -> bool {
        self.yields.suffices(&self.ids(holders))
    }

    fn lacks(&self) -> &[i64] {
        &self.lacks
    }

    fn gives(&self, holder: u32, lack: usize) -> i64 {
        self.gives.get(holder as usize * self.lacks.len() + lack).copied().unwrap_or(0)
    }

    fn matters_without_room(&self, holder: u32) -> bool {
        self.holders.get(holder as usize).is_some_and(|own| self.yields.matters_without_room(*own))
    }

    fn yields_whole(&self, holder: u32) -> bool {
        self.holders.get(holder as usize).is_some_and(|own| !self.yields.is_of_own_queue(*own))
    }
}

/// Looks for something under the names that the claim of a unit may have: that of its group, then
/// that of its pod.
fn find_by_name<T>(unit: &Candidate<'_>, find: impl Fn(&str) -> Option<T>) -> Option<T> {
    let by_group = unit.group.and_then(|group| find(&group.full_name()));
    by_group.or_else(|| {
        let pod = unit.pod()?;
        find(&ObjectName::new(pod.namespace(), pod.name()))
    })
}

/// The policy of a request for units of the claim's own queue; other queues are the dialect's to judge.
#[derive(Debug)]
pub(crate) struct Entitled<'p> {
    pub(crate) own: &'p dyn Policy,
    /// Claims of the own queue.
    pub(crate) names: BTreeSet<String>,
}

impl Policy for Entitled<'_> {
    fn allows(&self, preemptor: &Preemptor<'_>, unit: &Candidate<'_>) -> bool {
        let own = |name: &str| self.names.contains(name).then_some(());
        let is_own = !self.names.is_empty() && find_by_name(unit, own).is_some();
        !is_own || self.own.allows(preemptor, unit)
    }

    fn work_lost(&self, preemptor: &Preemptor<'_>, unit: &Candidate<'_>, run: u64) -> u64 {
        self.own.work_lost(preemptor, unit, run)
    }
}
