//! Members above the minima of their gangs, as a rule over sets of units.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::String;
use alloc::vec::Vec;

use super::removal::named;
use crate::preempt::{Candidate, Yielding};
use crate::quota::{HolderId, Usage, Yields};

/// A gang of which members may go one by one.
#[derive(Debug)]
pub(in crate::queue) struct SurplusGang {
    /// Full name of the root.
    pub(in crate::queue) name: String,
    /// Number of members that may go.
    pub(in crate::queue) surplus: u64,
    /// Full names of members that may, with the quota that each is charged with.
    pub(in crate::queue) pods: Vec<(String, Usage)>,
}

/// The rule: no gang falls below its minimum, and with tenants each may yield for the claim. Every
/// member is a holder of its own.
#[derive(Debug)]
pub(in crate::queue) struct Surplus<'t> {
    yields: Option<Yields<'t>>,
    /// Numbers of members by full name.
    numbers: BTreeMap<String, u32>,
    /// By member, the place of its gang.
    gang_of: Vec<usize>,
    /// By gang: number of members that may go, and its holder of quota.
    gangs: Vec<(u64, Option<HolderId>)>,
    lacks: Vec<i64>,
    /// By member and lack.
    gives: Vec<i64>,
}

impl<'t> Surplus<'t> {
    /// The rule over gangs; with quota, over those that may yield.
    pub(in crate::queue) fn new(gangs: &[SurplusGang], yields: Option<Yields<'t>>) -> Surplus<'t> {
        let candidates = yields.as_ref().map(Yields::candidates);
        let lacks = yields.as_ref().map(|own| own.lacks().clone()).unwrap_or_default();
        let mut rule = Surplus {
            yields: None,
            numbers: BTreeMap::new(),
            gang_of: Vec::new(),
            gangs: Vec::new(),
            lacks: lacks.iter().map(|(_, amount)| *amount).collect(),
            gives: Vec::new(),
        };
        for gang in gangs {
            let holder = yields.as_ref().and_then(|own| own.find(&gang.name));
            let may = |holders: &Vec<HolderId>| {
                holder.is_some_and(|own| holders.binary_search(&own).is_ok())
            };
            if !candidates.as_ref().is_none_or(may) {
                continue;
            }
            for (pod, charged) in &gang.pods {
                let number = u32::try_from(rule.gang_of.len()).unwrap_or(u32::MAX);
                rule.numbers.insert(pod.clone(), number);
                rule.gang_of.push(rule.gangs.len());
                rule.gives.extend(lacks.iter().map(|(of, _)| {
                    charged.iter().find(|(own, _)| own == of).map_or(0, |(_, amount)| *amount)
                }));
            }
            rule.gangs.push((gang.surplus, holder));
        }
        rule.yields = yields;
        rule
    }

    /// The names of claims in the claim's own queue that may yield.
    pub(in crate::queue) fn own_names(&self) -> BTreeSet<String> {
        self.yields.iter().flat_map(Yields::own_names).map(String::from).collect()
    }

    /// Whether no gang loses more than it may.
    fn keeps_minima(&self, members: &[u32]) -> bool {
        let mut taken = alloc::vec![0_u64; self.gangs.len()];
        for member in members {
            let Some(&gang) = self.gang_of.get(*member as usize) else { return false };
            let (Some(count), Some((surplus, _))) = (taken.get_mut(gang), self.gangs.get(gang))
            else {
                return false;
            };
            *count += 1;
            if *count > *surplus {
                return false;
            }
        }
        true
    }

    /// The holders of quota that the gangs of members are.
    fn holders(&self, members: &[u32]) -> Vec<HolderId> {
        let gang = |member: &u32| self.gangs.get(*self.gang_of.get(*member as usize)?)?.1;
        let mut holders: Vec<HolderId> = members.iter().filter_map(gang).collect();
        holders.sort_unstable();
        holders.dedup();
        holders
    }
}

impl Yielding for Surplus<'_> {
    fn holder_of(&self, unit: &Candidate<'_>) -> Option<u32> {
        let pod = unit.pod().filter(|_| unit.pods == 1)?;
        self.numbers.get(&named(pod.namespace(), pod.name())).copied()
    }

    fn may_begin(&self, members: &[u32]) -> bool {
        self.keeps_minima(members)
            && self.yields.as_ref().is_none_or(|own| own.may_begin(&self.holders(members)))
    }

    /// A gang that may go whole may give a part: its queue is then left more than the rules ask for.
    fn may_yield(&self, members: &[u32]) -> bool {
        self.keeps_minima(members)
            && self.yields.as_ref().is_none_or(|own| own.may_yield(&self.holders(members)))
    }

    /// The sums of amounts alone: the driver asks the books about the set that is found.
    fn suffices(&self, members: &[u32]) -> bool {
        let freed = |lack: usize| {
            let each = members.iter().map(|member| self.gives(*member, lack));
            each.fold(0_i64, i64::saturating_add)
        };
        self.lacks.iter().enumerate().all(|(at, amount)| freed(at) >= *amount)
    }

    fn lacks(&self) -> &[i64] {
        &self.lacks
    }

    fn gives(&self, member: u32, lack: usize) -> i64 {
        self.gives.get(member as usize * self.lacks.len() + lack).copied().unwrap_or(0)
    }

    fn matters_without_room(&self, member: u32) -> bool {
        (0..self.lacks.len()).any(|lack| self.gives(member, lack) > 0)
    }

    fn yields_whole(&self, _: u32) -> bool {
        false
    }
}
