//! Units of eviction: pods that go together.
//!
//! | what runs | its units |
//! |---|---|
//! | a pod whose group is not known | the pod |
//! | a group with [`DisruptionMode::All`] | all of its pods, those of groups inside too |
//! | a group of pods with [`DisruptionMode::Single`] | each pod, as long as the minimum is left; else the rest too |
//! | a group of groups with it | what each group inside gives, as long as the minimum of them counts; else all |
//!
//! The first two are *atoms* here: they go as one whatever else goes. The minima are *guards* over
//! atoms: what goes beyond one takes all below it along.

use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;
use core::ops::Range;

use super::cost::Cost;
use super::running::{RunningWork, Tree};
use crate::base::Time;
use crate::model::{DisruptionMode, PodGroup};
use crate::state::{Cluster, GroupSums, PodId, PodView};

/// No group, no guard, no unit.
pub(crate) const NONE: u32 = u32::MAX;

/// Pods that always go together.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Atom {
    /// The group that goes whole, or that the pod is of; [`NONE`] if that is not known.
    pub(crate) group: u32,
    /// Whether it is a group that goes whole.
    pub(crate) whole: bool,
    pub(crate) priority: i32,
    /// Whether its group is not to be preempted, or not before it has run for a minimum.
    pub(super) protected: bool,
    /// The guard right above it.
    pub(crate) guard: u32,
    /// Where its pods begin, or the cluster's numbers of its groups.
    first: u32,
    /// How many of those there are.
    count: u32,
    /// How many pods it has.
    size: u32,
    /// Sum of the starts that are known, in milliseconds, how many they are, and a time that none
    /// is after. That time is the last start where the group has a minimum run time.
    pub(super) starts: u64,
    pub(super) started: u32,
    pub(super) latest: Time,
}

/// A group that goes whole when it falls below its minimum.
#[derive(Debug, Clone, Copy)]
struct Guard {
    group: u32,
    parent: u32,
    minimum: u32,
    /// The least number of pods of a group of groups.
    min_pods: u32,
    /// Its atoms, and the guards below it, by number.
    atoms: (u32, u32),
    guards: (u32, u32),
}

/// Everything that runs, cut into units of eviction.
#[derive(Debug, Clone, Default)]
pub(crate) struct Units {
    pub(crate) atoms: Vec<Atom>,
    /// The pods of all atoms that are pods.
    pods: Vec<u32>,
    /// The cluster's numbers of the groups of all atoms that go whole, those of one together.
    members: Vec<u32>,
    /// By the cluster's number of a group, the atom that it is of.
    of_group: Vec<u32>,
    guards: Vec<Guard>,
    groups: Vec<Arc<PodGroup>>,
    /// Whether some group has others inside.
    nested: bool,
    /// Atoms by priority.
    pub(crate) classes: BTreeMap<i32, Vec<u32>>,
    /// The atom of each pod, by slot.
    atom_of: Vec<u32>,
    /// Pods that terminate: they go without being taken.
    pub(crate) going: Vec<PodId>,
    /// Disruptions that each budget still allows.
    pub(crate) allowed: Vec<u64>,
    /// Charges by atom: where those of each begin, and budget and count of each charge.
    charges_at: Vec<u32>,
    charges: Vec<(u32, u32)>,
}

impl Units {
    /// Cuts what runs into units. O(groups) where all pods are of groups that go whole and none
    /// terminates; O(pods · log pods) else; and O(pods · budgets) where there are budgets.
    pub(crate) fn new(cluster: &Cluster, running: &RunningWork) -> Units {
        let (groups, bound) = cluster.pods.group_count();
        let mut units = Units { of_group: vec![NONE; bound], ..Units::default() };
        for tree in running.trees() {
            units.add_tree(cluster, tree, NONE);
        }
        let tally = &cluster.pods.tally;
        let covered = units.members.len() == groups && tally.ungrouped == 0;
        if !covered || tally.deleting > 0 {
            units.add_others(cluster);
        }
        units.charge(cluster, running);
        for (number, atom) in units.atoms.iter().enumerate() {
            units.classes.entry(atom.priority).or_default().push(number as u32);
        }
        units
    }

    /// Adds the pods that terminate, and those of no group that is known.
    fn add_others(&mut self, cluster: &Cluster) {
        let mut others: Vec<PodView<'_>> = Vec::new();
        for pod in cluster.pods().filter(|pod| pod.node().is_some()) {
            if pod.deleting() {
                self.going.push(pod.id());
            } else if self.atom_of(pod).is_none() {
                others.push(pod);
            }
        }
        others.sort_unstable_by_key(PodView::names);
        for pod in others {
            self.add_pod(pod, NONE, NONE);
        }
    }

    fn add_tree(&mut self, cluster: &Cluster, tree: &Tree, parent: u32) {
        let group = &*tree.group;
        let number = self.groups.len() as u32;
        self.groups.push(Arc::clone(&tree.group));
        self.nested |= !tree.inside.is_empty();
        let protected = is_protected(group);
        if group.disruption == DisruptionMode::All {
            self.atoms.push(Atom {
                whole: true,
                priority: group.priority,
                protected,
                first: self.members.len() as u32,
                size: 0,
                ..atom(number, parent)
            });
            self.add_below(cluster, tree);
            if self.atoms.last().is_some_and(|atom| atom.size == 0) {
                self.atoms.pop();
            }
            return;
        }
        let (guard, first) = (self.guards.len() as u32, self.atoms.len() as u32);
        self.guards.push(Guard {
            group: number,
            parent,
            minimum: group.policy.minimum(),
            min_pods: group.min_pods.filter(|_| !tree.inside.is_empty()).unwrap_or(0),
            atoms: (first, first),
            guards: (guard + 1, guard + 1),
        });
        for inner in &tree.inside {
            self.add_tree(cluster, inner, guard);
        }
        let is_free = |pod: &PodView<'_>| {
            pod.node().is_some() && !pod.deleting() && self.atom_of(*pod).is_none()
        };
        let mut pods: Vec<PodView<'_>> = cluster.pods_of(group).filter(is_free).collect();
        pods.sort_by(|a, b| a.name().cmp(b.name()));
        for pod in pods {
            self.add_pod(pod, number, guard);
        }
        let ends = (self.atoms.len() as u32, self.guards.len() as u32);
        let own = &mut self.guards[guard as usize];
        (own.atoms.1, own.guards.1) = ends;
    }

    /// Adds the pods of a group and of those inside to the last atom.
    fn add_below(&mut self, cluster: &Cluster, tree: &Tree) {
        let known = cluster.pods.find_group(&tree.group.namespace, &tree.group.name);
        if let Some(known) = known
            && self.of_group.get(known as usize) == Some(&NONE)
        {
            self.of_group[known as usize] = self.atoms.len() as u32 - 1;
            self.members.push(known);
            let mut sums = cluster.pods.sums_of(known);
            // What was evicted or has lost its node is still of its group.
            if cluster.pods.tally.unplaced > 0 || tree.group.min_run_time.is_some() {
                sums = sums_of(live_pods(cluster, known));
            }
            if let Some(own) = self.atoms.last_mut() {
                own.count += 1;
                own.size += sums.pods;
                own.started += sums.started;
                own.starts = own.starts.wrapping_add(sums.starts);
                own.latest = own.latest.max(sums.latest);
            }
        }
        for inner in &tree.inside {
            self.add_below(cluster, inner);
        }
    }

    fn add_pod(&mut self, pod: PodView<'_>, group: u32, guard: u32) {
        if self.atom_of.is_empty() {
            self.atom_of = vec![NONE; pod.cluster.slots()];
        }
        let start = pod.start();
        self.atom_of[pod.slot as usize] = self.atoms.len() as u32;
        self.atoms.push(Atom {
            priority: pod.priority(),
            protected: self.groups.get(group as usize).is_some_and(|group| is_protected(group)),
            first: self.pods.len() as u32,
            count: 1,
            size: 1,
            starts: start.map_or(0, Time::as_millis),
            started: u32::from(start.is_some()),
            latest: start.unwrap_or(Time::ZERO),
            ..atom(group, guard)
        });
        self.pods.push(pod.slot);
    }

    /// Finds what each atom takes of each budget.
    fn charge(&mut self, cluster: &Cluster, running: &RunningWork) {
        self.allowed = running.budgets().map(|b| b.disruptions_allowed.max(0) as u64).collect();
        if self.allowed.is_empty() {
            return;
        }
        let budgets: Vec<_> = running.budgets().collect();
        // Which budgets cover pods of a shape.
        let mut of_shape: Vec<Option<Vec<u32>>> = Vec::new();
        let mut charges: Vec<(u32, u32)> = Vec::new();
        for atom in 0..self.atoms.len() {
            let begin = charges.len();
            self.charges_at.push(begin as u32);
            for pod in self.pods_of(cluster, atom) {
                let shape = pod.shape_id().0 as usize;
                if of_shape.len() <= shape {
                    of_shape.resize(shape + 1, None);
                }
                let covering = of_shape[shape].get_or_insert_with(|| {
                    let all = budgets.iter().enumerate();
                    all.filter(|(_, budget)| budget.covers(pod)).map(|(n, _)| n as u32).collect()
                });
                for &number in &*covering {
                    if budgets[number as usize].disrupted_pods.contains(pod.name()) {
                        continue;
                    }
                    match charges[begin..].iter_mut().find(|(budget, _)| *budget == number) {
                        Some((_, count)) => *count += 1,
                        None => charges.push((number, 1)),
                    }
                }
            }
        }
        self.charges_at.push(charges.len() as u32);
        self.charges = charges;
    }

    /// The pods of an atom.
    pub(crate) fn pods_of<'a>(
        &'a self,
        cluster: &'a Cluster,
        atom: usize,
    ) -> impl Iterator<Item = PodView<'a>> {
        let Atom { first, count, whole, .. } = self.atoms[atom];
        let range = first as usize..(first + count) as usize;
        let (groups, pods): (&[u32], &[u32]) =
            if whole { (&self.members[range], &[]) } else { (&[], &self.pods[range]) };
        let pods = pods.iter().filter_map(|&slot| cluster.pod_view(slot));
        pods.chain(groups.iter().flat_map(|&group| live_pods(cluster, group)))
    }

    /// How many pods an atom has.
    pub(crate) fn size(&self, atom: usize) -> u32 {
        self.atoms[atom].size
    }

    /// The atom of a pod; `None` for one that terminates or is not known.
    #[inline]
    pub(crate) fn atom_of(&self, pod: PodView<'_>) -> Option<usize> {
        if pod.deleting() {
            return None;
        }
        let group = pod.record.group;
        let whole = self.of_group.get(group as usize).copied().unwrap_or(NONE);
        let own = || self.atom_of.get(pod.slot as usize).copied().unwrap_or(NONE);
        let atom = if whole == NONE { own() } else { whole };
        (atom != NONE).then_some(atom as usize)
    }

    /// The charges of an atom: budgets by number, and how often.
    pub(crate) fn charges(&self, atom: usize) -> &[(u32, u32)] {
        let Some(at) = self.charges_at.get(atom..atom + 2) else { return &[] };
        &self.charges[at[0] as usize..at[1] as usize]
    }

    /// The group that an atom is, or belongs to.
    pub(crate) fn group_of(&self, atom: usize) -> Option<&PodGroup> {
        self.groups.get(self.atoms[atom].group as usize).map(|group| &**group)
    }

    /// The atoms that go if these go: those, and what minima take along. `taken` is a buffer in
    /// which none is marked, before and after.
    pub(crate) fn closure(&self, atoms: &[u32], taken: &mut [bool]) -> Vec<u32> {
        let mut all = atoms.to_vec();
        for &atom in atoms {
            taken[atom as usize] = true;
        }
        for &atom in atoms {
            let mut guard = self.atoms[atom as usize].guard;
            while let Some(&Guard { parent, atoms: (first, end), .. }) =
                self.guards.get(guard as usize)
            {
                if !self.holds(guard as usize, taken) {
                    for below in first..end {
                        if !core::mem::replace(&mut taken[below as usize], true) {
                            all.push(below);
                        }
                    }
                }
                guard = parent;
            }
        }
        for &atom in &all {
            taken[atom as usize] = false;
        }
        all.sort_unstable();
        all.dedup();
        all
    }

    /// The atoms that some set of free atoms contains: those that are free with all that minima take
    /// along. O(atoms), and O(members²) for a group of which some members are free and others are not.
    pub(crate) fn in_sets(&self, is_free: impl Fn(u32) -> bool) -> Vec<u32> {
        let mut taken = vec![false; self.atoms.len()];
        // The last family, and whether all of it is free.
        let mut last = (0..0, true);
        let mut all = Vec::new();
        for atom in (0..self.atoms.len() as u32).filter(|&atom| is_free(atom)) {
            if !last.0.contains(&atom) {
                let family = self.family(atom as usize);
                last = (family.clone(), family.clone().all(&is_free));
            }
            if last.1 || self.closure(&[atom], &mut taken).into_iter().all(&is_free) {
                all.push(atom);
            }
        }
        all
    }

    /// The guards above an atom that have fallen, lowest first.
    fn fallen(&self, atom: u32, taken: &[bool]) -> impl Iterator<Item = Guard> {
        let known = |number: u32| Some((number, *self.guards.get(number as usize)?));
        core::iter::successors(known(self.atoms[atom as usize].guard), move |own| {
            known(own.1.parent)
        })
        .filter(|own| !self.holds(own.0 as usize, taken))
        .map(|own| own.1)
    }

    /// The atoms that have to come back with one for its minimum to hold. They are the marked atoms
    /// of the lowest guard above it that has fallen, and itself.
    pub(crate) fn fallen_with(&self, atom: u32, taken: &[bool]) -> Vec<u32> {
        let marked = |other: &u32| *other == atom || taken[*other as usize];
        let lowest = self.fallen(atom, taken).next();
        lowest.map_or(vec![atom], |own| (own.atoms.0..own.atoms.1).filter(marked).collect())
    }

    /// The marked atoms that move with a marked one, and the group that they move as. It is the
    /// topmost above it that has fallen, if one has.
    pub(crate) fn moves_with(&self, atom: u32, taken: &[bool]) -> (Vec<u32>, Option<&PodGroup>) {
        let Some(top) = self.fallen(atom, taken).last() else { return (vec![atom], None) };
        let marked = (top.atoms.0..top.atoms.1).filter(|&other| taken[other as usize]);
        (marked.collect(), self.groups.get(top.group as usize).map(|group| &**group))
    }

    /// Whether a guard keeps its minimum without some atoms.
    fn holds(&self, guard: usize, taken: &[bool]) -> bool {
        let Guard { minimum, min_pods, atoms: (first, end), guards, .. } = self.guards[guard];
        let mut count = 0;
        let mut pods = 0;
        for atom in first..end {
            pods += if taken[atom as usize] { 0 } else { self.size(atom as usize) };
            let is_own = self.atoms[atom as usize].guard == guard as u32;
            count += u32::from(is_own && !taken[atom as usize]);
        }
        for below in guards.0..guards.1 {
            let is_own = self.guards[below as usize].parent == guard as u32;
            count += u32::from(is_own && self.holds(below as usize, taken));
        }
        count >= minimum && pods >= min_pods
    }

    /// Disruptions that atoms take of each budget.
    pub(crate) fn charged(&self, atoms: &[u32]) -> Vec<u64> {
        let mut charged = vec![0; self.allowed.len()];
        for &(budget, count) in atoms.iter().flat_map(|&atom| self.charges(atom as usize)) {
            charged[budget as usize] += u64::from(count);
        }
        charged
    }

    /// The disruptions beyond what the budgets allow, of those charged to each.
    pub(crate) fn broken(&self, charged: &[u64]) -> u64 {
        let beyond = charged.iter().zip(&self.allowed);
        beyond.map(|(count, allowed)| count.saturating_sub(*allowed)).sum()
    }

    /// The budgets that an atom takes of, and of which more is charged than they allow.
    pub(crate) fn broken_by<'a>(
        &'a self,
        atom: usize,
        charged: &'a [u64],
    ) -> impl Iterator<Item = usize> + 'a {
        let budgets = self.charges(atom).iter().map(|(budget, _)| *budget as usize);
        budgets.filter(|&budget| charged[budget] > self.allowed[budget])
    }

    /// The cost of a set of atoms, closed, in ascending order, with the work lost with each.
    pub(crate) fn cost(&self, atoms: &[u32], work: impl Fn(u32) -> u64) -> Cost {
        let mut cost = Cost::NOTHING;
        for &atom in atoms {
            let priority = self.atoms[atom as usize].priority;
            cost.highest_priority = cost.highest_priority.max(Some(priority));
            cost.work_lost = cost.work_lost.saturating_add(work(atom));
            cost.pods += u64::from(self.size(atom as usize));
        }
        cost.budgets_broken = self.broken(&self.charged(atoms));
        cost.units = self.count_units(atoms);
        cost
    }

    /// How many units a set of atoms is, in ascending order. Members above the minimum of their
    /// group are one each; the rest of it is one.
    fn count_units(&self, atoms: &[u32]) -> u64 {
        let mut units = 0;
        let mut at = 0;
        while let Some(&atom) = atoms.get(at) {
            let mut most = 1;
            let mut taken = 1;
            if let Some(guard) = self.guards.get(self.atoms[atom as usize].guard as usize)
                && !self.atoms[atom as usize].whole
            {
                let is_own = |other: u32| {
                    let other = &self.atoms[other as usize];
                    other.group == self.atoms[atom as usize].group
                };
                taken = atoms[at..].iter().take_while(|&&other| is_own(other)).count();
                let all = (atom..guard.atoms.1).filter(|&other| is_own(other)).count()
                    + (guard.atoms.0..atom).filter(|&other| is_own(other)).count();
                most = (all + 1).saturating_sub(guard.minimum as usize).max(1);
            }
            units += taken.min(most) as u64;
            at += taken;
        }
        units
    }

    /// Whether an atom may be of members of a group, or of one inside, that run.
    pub(crate) fn may_run(&self, cluster: &Cluster, group: &PodGroup) -> bool {
        // A group that goes whole with others inside need have no pod that names it.
        let named = |own: &PodGroup| cluster.pods.find_group(&own.namespace, &own.name).is_some();
        self.nested || group.any(&named)
    }

    /// The atoms below the topmost guard above an atom, itself among them: what minima may take along
    /// with it, or it with them.
    pub(crate) fn family(&self, atom: usize) -> Range<u32> {
        let mut family = atom as u32..atom as u32 + 1;
        let mut guard = self.atoms[atom].guard;
        while let Some(&Guard { parent, atoms: (first, end), .. }) = self.guards.get(guard as usize)
        {
            family = first..end;
            guard = parent;
        }
        family
    }

    /// Whether each of some atoms is a unit, however many of them go: no two are of one group, and no
    /// group is inside another.
    pub(super) fn are_apart(&self, atoms: impl Iterator<Item = u32>) -> bool {
        let mut groups: Vec<u32> = atoms.map(|atom| self.atoms[atom as usize].group).collect();
        groups.retain(|group| *group != NONE);
        groups.sort_unstable();
        !self.nested && groups.windows(2).all(|pair| pair[0] != pair[1])
    }

    /// The guard right above an atom and those above that.
    pub(crate) fn has_guard(&self, atom: usize) -> bool {
        self.atoms[atom].guard != NONE
    }
}

fn atom(group: u32, guard: u32) -> Atom {
    Atom {
        group,
        whole: false,
        priority: 0,
        protected: false,
        guard,
        first: 0,
        count: 0,
        size: 0,
        starts: 0,
        started: 0,
        latest: Time::ZERO,
    }
}

fn is_protected(group: &PodGroup) -> bool {
    group.non_preemptible || group.min_run_time.is_some()
}

/// The pods of a group that are on nodes and do not terminate.
fn live_pods(cluster: &Cluster, group: u32) -> impl Iterator<Item = PodView<'_>> {
    let pods = cluster.pods.members_of(Some(group)).filter_map(|slot| cluster.pod_view(slot));
    pods.filter(|pod| pod.node().is_some() && !pod.deleting())
}

fn sums_of<'a>(pods: impl Iterator<Item = PodView<'a>>) -> GroupSums {
    pods.fold(GroupSums::default(), |mut sums, pod| {
        sums.pods += 1;
        if let Some(start) = pod.start() {
            sums.started += 1;
            sums.starts = sums.starts.wrapping_add(start.as_millis());
            sums.latest = sums.latest.max(start);
        }
        sums
    })
}
