//! Minimum check: pending evictions must leave each group at its minimum, or evict all of it.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::String;
use alloc::vec::Vec;

use super::ledger::Number;
use super::removal::{Removal, named, pod_name};
use super::{Among, Removals};
use crate::base::Time;
use crate::model::PodGroup;
use crate::preempt::{EvictedPod, Victim};
use crate::queue::groups::Groups;
use crate::queue::terms::ids::{GroupId, Ticket};
use crate::state::{Cluster, PodView};

impl Removals {
    /// The full name of the root group that a victim is of, this scheduler's or another's.
    pub(in crate::queue) fn root_of(&self, groups: &Groups, victim: &Victim) -> Option<String> {
        let own = victim.pods.first().and_then(|pod| groups.member(&pod_name(pod)));
        if let Some(queued) = own.and_then(|(id, _)| groups.get(&id)) {
            return Some(queued.name().clone().into());
        }
        self.work.root_of(victim.group.as_ref()?.as_str()).map(String::from)
    }

    /// Full names of the pods of a root group that are to go, without those that are to be asked for
    /// again later if `now`.
    pub(in crate::queue) fn going_of(&self, root: &str, now: bool) -> BTreeSet<String> {
        let own = self.entries.of_root(root).filter(|own| !now || own.goes_now());
        own.flat_map(Removal::names).chain(self.coming(root)).collect()
    }

    fn coming(&self, root: &str) -> impl Iterator<Item = String> {
        self.coming.get(root).into_iter().flatten().cloned()
    }

    /// Whether some of a group would run without these pods, yet less than its minimum.
    pub(in crate::queue) fn is_left_in_part(
        &self,
        (cluster, groups): (&Cluster, &Groups),
        root: &str,
        going: &BTreeSet<String>,
    ) -> bool {
        if let Some(queued) = groups.named(root).and_then(|(id, _)| groups.get(&id)) {
            let members = going.iter().filter_map(|name| groups.member(name));
            let members = members.map(|(_, seq)| seq).collect();
            return !queued.is_left_without(&members) && !queued.keeps_minima(&members);
        }
        let Some(root) = self.work.running().get(root) else { return false };
        let is_going = |pod: &PodView<'_>| going.contains(&named(pod.namespace(), pod.name()));
        // A pod that was to go and could not counts as terminating, and runs.
        let runs = |pod: &PodView<'_>| pod.node().is_some() && (!pod.deleting() || is_going(pod));
        let stays = |pod: &PodView<'_>| runs(pod) && !is_going(pod);
        let count = |group: &PodGroup, is: &dyn Fn(&PodView<'_>) -> bool| {
            cluster.pods_of(group).filter(|pod| is(pod)).count()
        };
        let mut left = 0;
        root.visit(&mut |group| left += count(group, &stays));
        left > 0
            && has_minimum(root, &|group| count(group, &runs)).0
            && !has_minimum(root, &|group| count(group, &stays)).0
    }

    /// The groups that would be left with too little if these victims went beside all that go
    /// already, or beside those of them that are not put off. Evictions that groups that give way
    /// cancel are not counted. The victims count as going until [`Removals::drop_put_off`].
    pub(in crate::queue) fn left_in_part(
        &mut self,
        (cluster, groups): (&Cluster, &Groups),
        victims: &[Victim],
        giving: &BTreeSet<GroupId>,
    ) -> BTreeSet<String> {
        let mut roots: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for victim in victims {
            let Some(root) = self.root_of(groups, victim) else { continue };
            roots.entry(root).or_default().extend(victim.pods.iter().map(pod_name));
        }
        self.coming.clone_from(&roots);
        let goes_on = |own: &&Removal| own.has_begun() || !giving.contains(&own.by);
        let is_in_part = |(root, mut going): (String, BTreeSet<String>)| {
            let others = self.entries.of_root(&root).filter(goes_on);
            let (now, later): (Vec<&Removal>, Vec<_>) = others.partition(|own| own.goes_now());
            let mut is = false;
            for others in [now, later] {
                going.extend(others.into_iter().flat_map(Removal::names));
                is |= self.is_left_in_part((cluster, groups), &root, &going);
            }
            is.then_some(root)
        };
        roots.into_iter().filter_map(is_in_part).collect()
    }

    /// Takes out units of a decision that are due to be asked for again, if too little would be
    /// left of their groups by then. That is so if more of a group runs than when the unit was
    /// named. Pods that terminate stay in.
    pub(in crate::queue) fn take_due_parts(
        &mut self,
        (cluster, groups): (&Cluster, &Groups),
        ticket: Ticket,
        now: Time,
    ) -> Vec<Removal> {
        let mut due: BTreeMap<String, Vec<Number>> = BTreeMap::new();
        for number in self.entries.numbers_due(ticket, now) {
            let own = self.entries.get(number).filter(|own| own.is_due(now));
            if let Some(root) = own.and_then(|own| own.root_name.clone()) {
                due.entry(root).or_default().push(number);
            }
        }
        let mut back = BTreeSet::new();
        for (root, mut numbers) in due {
            // A removal of this scheduler's group that has begun goes on, unless others have come back and
            // make its minimum with those that do not terminate; others' owners make members anew.
            let gone = self.entries.of_root(&root).flat_map(Removal::pods);
            let gone = gone.filter(|pod| self.terminates(cluster, pod));
            let gone = gone.filter_map(|pod| Some(groups.member(&pod_name(pod))?.1)).collect();
            let own = groups.named(&root).and_then(|(id, _)| groups.get(&id));
            let is_back = own.is_some_and(|own| own.keeps_minima(&gone));
            let may_stay = |own: &Removal| is_back || !own.has_begun() || own.root.is_none();
            numbers.retain(|number| self.entries.get(*number).is_some_and(may_stay));
            let units = numbers.iter().filter_map(|number| self.entries.get(*number));
            let mut names: BTreeSet<String> = units.flat_map(Removal::names).collect();
            names.extend(self.going_of(&root, true));
            if self.is_left_in_part((cluster, groups), &root, &names) {
                back.extend(numbers);
            }
        }
        let mut parts = Vec::new();
        for number in back {
            let Some(own) = self.entries.get(number).cloned() else { continue };
            let mut part = own.clone();
            // A unit that moves runs again, all of it.
            if !own.is_victim() && own.pods().any(|pod| self.terminates(cluster, pod)) {
                continue;
            }
            for (at, pod) in own.placed() {
                if self.terminates(cluster, pod) {
                    part.drop_pod(at);
                } else {
                    self.entries.drop_pod(number, at);
                }
            }
            parts.extend(Some(part).filter(|part| !part.has_gone()));
        }
        self.drop_done(ticket);
        parts
    }

    /// Takes out units of a decision that are due to be asked for again and would break a budget.
    /// Others are searched, and these are among them if there is no other way.
    pub(in crate::queue) fn take_due_beyond_budgets(
        &mut self,
        cluster: &Cluster,
        ticket: Ticket,
        now: Time,
    ) -> Vec<Removal> {
        let is_due = |own: &Removal| !own.has_begun() && own.is_due(now);
        let due = self.entries.over(ticket, now).filter(|own| is_due(own));
        let due: Vec<EvictedPod> = due.flat_map(Removal::pods).cloned().collect();
        if !self.work.breaks(cluster, &due) {
            return Vec::new();
        }
        for pod in &due {
            self.refused.remove(&pod_name(pod));
        }
        self.take(Among::Due(ticket, now), is_due)
            .into_iter()
            .flat_map(|(_, units)| units)
            .collect()
    }

    /// Whether too little would be left of another scheduler's group if those of its pods stayed that
    /// have begun to go and could not.
    fn may_part(&self, known: (&Cluster, &Groups), root: &str) -> bool {
        let asked = self.entries.of_root(root);
        let asked = asked.filter(|own| own.root.is_none() && own.retry_at().is_none());
        let mut going: BTreeSet<String> = asked.flat_map(Removal::names).collect();
        let is_asked = !going.is_empty();
        going.extend(self.coming(root));
        is_asked && self.is_left_in_part(known, root, &going)
    }

    /// Takes evictions out that would leave their group below its minimum because other evictions of
    /// it failed or were delayed.
    pub(in crate::queue) fn take_parts(
        &mut self,
        known: (&Cluster, &Groups),
        root: &str,
    ) -> Vec<(Ticket, Vec<Removal>)> {
        let going = self.going_of(root, true);
        if going.is_empty()
            || !self.is_left_in_part(known, root, &going) && !self.may_part(known, root)
        {
            return Vec::new();
        }
        self.take(Among::Root(root), |own| !own.has_begun() && own.retry_at().is_none())
    }
}

/// Whether a tree has its minimum, given what each leaf has; and how many pods that are.
fn has_minimum(group: &PodGroup, count: &impl Fn(&PodGroup) -> usize) -> (bool, usize) {
    let least = group.policy.minimum() as usize;
    if group.groups.is_empty() {
        let have = count(group);
        return (have >= least, have);
    }
    let inner = group.groups.iter().map(|inner| has_minimum(inner, count));
    let (have, pods) = inner.fold((0, 0), |(have, pods), (is_enough, more)| {
        (have + usize::from(is_enough), pods + more)
    });
    (have >= least && pods >= group.min_pods.unwrap_or(0) as usize, pods)
}
