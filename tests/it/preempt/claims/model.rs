//! The definitions, written anew: which sets of pods go together, what they cost, and whether the gang
//! fits without them.

use phalanx::preempt::Cost;

use super::world::{Leaf, NOW, Rule, World};

/// A set of pods, by their places in the world.
pub(super) type Set = u32;

/// A world with what follows from it.
pub(super) struct Model<'w> {
    world: &'w World,
    /// Pods that do not terminate.
    live: Set,
    /// By group: its pods and those of groups inside, as far as they do not terminate.
    below: Vec<Set>,
    /// Sets that go as one.
    pub(super) atoms: Vec<Set>,
}

impl<'w> Model<'w> {
    pub(super) fn new(world: &'w World) -> Model<'w> {
        let pods = || world.pods.iter().enumerate();
        let live: Set = pods().filter(|(_, pod)| !pod.deleting).map(|(at, _)| 1 << at).sum();
        let is_below = |group: usize, pod: usize| {
            let mut own = world.pods[pod].group;
            while let Some(number) = own.filter(|number| *number != group) {
                own = world.groups[number].parent;
            }
            own.is_some()
        };
        let below = (0..world.groups.len()).map(|group| {
            let own = (0..world.pods.len()).filter(|&pod| is_below(group, pod));
            own.map(|pod| 1 << pod).sum::<Set>() & live
        });
        let mut model = Model { world, live, below: below.collect(), atoms: Vec::new() };
        for pod in members(live) {
            let atom = model.whole(pod).map_or(1 << pod, |group| model.below[group]);
            if !model.atoms.contains(&atom) {
                model.atoms.push(atom);
            }
        }
        model
    }

    /// Pods that terminate.
    pub(super) fn going(&self) -> Set {
        members((1 << self.world.pods.len()) - 1)
            .filter(|at| self.live & 1 << at == 0)
            .map(|at| 1 << at)
            .sum()
    }

    /// The outermost group that goes whole with a pod.
    fn whole(&self, pod: usize) -> Option<usize> {
        let mut found = None;
        let mut group = self.world.pods[pod].group;
        while let Some(number) = group {
            if self.world.groups[number].all {
                found = Some(number);
            }
            group = self.world.groups[number].parent;
        }
        found
    }

    fn first(&self, atom: Set) -> usize {
        let name = |pod: &usize| &self.world.pods[*pod].name;
        members(atom).min_by_key(name).unwrap()
    }

    /// Whether a group is left with its minimum.
    fn stays(&self, group: usize, gone: Set) -> bool {
        let own = &self.world.groups[group];
        let left = self.below[group] & !gone;
        if own.all {
            return left != 0;
        }
        let inside = || {
            (0..self.world.groups.len())
                .filter(|&inner| self.world.groups[inner].parent == Some(group))
        };
        let direct = members(left).filter(|&pod| self.world.pods[pod].group == Some(group)).count();
        let groups = inside().filter(|&inner| self.stays(inner, gone)).count();
        let least = own.min_pods.filter(|_| inside().next().is_some()).unwrap_or(0);
        direct + groups >= own.minimum as usize && left.count_ones() >= least
    }

    /// Whether no group is left below its minimum, nor in part if it goes whole.
    pub(super) fn is_sound(&self, gone: Set) -> bool {
        (0..self.world.groups.len()).all(|group| {
            let own = self.below[group];
            let lost = own & gone;
            lost == 0 || lost == own || !self.world.groups[group].all && self.stays(group, gone)
        })
    }

    fn priority(&self, atom: Set) -> i32 {
        let pod = self.first(atom);
        self.whole(pod)
            .map_or(self.world.pods[pod].priority, |group| self.world.groups[group].priority)
    }

    /// Whether an atom alone may be taken.
    pub(super) fn is_free(&self, atom: Set) -> bool {
        let world = self.world;
        let pod = self.first(atom);
        if world.pods[pod].own {
            return false;
        }
        let header = self.whole(pod).or(world.pods[pod].group).map(|group| &world.groups[group]);
        if let Some(group) = header {
            let start = |pod: usize| world.pods[pod].start.unwrap_or(NOW);
            let latest = members(atom).map(start).max().unwrap();
            if group.non_preemptible || group.min_run_time.is_some_and(|run| NOW < latest + run) {
                return false;
            }
        }
        let lower = self.priority(atom) < world.priority;
        let same = header.is_some_and(|group| group.queue == world.queue);
        match world.rule {
            Rule::Lower => lower,
            Rule::Same => same,
            Rule::Other => !same,
            Rule::LowerAndSame => lower && same,
            Rule::LowerAndOther => lower && !same,
            Rule::Ours => self.priority(atom) <= world.priority,
        }
    }

    /// The cost of a sound set.
    pub(super) fn cost(&self, gone: Set) -> Cost {
        let world = self.world;
        let atoms = || self.atoms.iter().filter(|atom| **atom & gone != 0);
        let broken = world.budgets.iter().map(|(app, allowed, counted)| {
            let of = |pod: &usize| {
                world.pods[*pod].app == *app && !counted.contains(&world.pods[*pod].name)
            };
            (members(gone).filter(of).count() as i64 - allowed).max(0) as u64
        });
        let alone: Set =
            members(self.live).filter(|&pod| self.whole(pod).is_none()).map(|pod| 1 << pod).sum();
        let mut units = 0;
        for (number, group) in world.groups.iter().enumerate() {
            let own: Set = members(alone)
                .filter(|&pod| world.pods[pod].group == Some(number))
                .map(|pod| 1 << pod)
                .sum();
            let most = (own.count_ones() + 1).saturating_sub(group.minimum).max(1);
            units += (own & gone).count_ones().min(most);
        }
        let whole = atoms().filter(|atom| self.whole(self.first(**atom)).is_some()).count();
        let plain = members(gone).filter(|&pod| world.pods[pod].group.is_none()).count();
        let run = |pod: usize| (NOW - world.pods[pod].start.unwrap_or(NOW)) * 1_000;
        let mut cost = Cost::NOTHING;
        cost.budgets_broken = broken.sum();
        cost.highest_priority = atoms().map(|atom| self.priority(*atom)).max();
        cost.work_lost = match world.rule {
            Rule::Ours => 7 * u64::from(gone.count_ones()),
            _ => members(gone).map(run).sum(),
        };
        cost.units = u64::from(units) + (whole + plain) as u64;
        cost.pods = u64::from(gone.count_ones());
        cost
    }

    /// All sound sets of atoms that may be taken, the empty one among them, cheapest first.
    pub(super) fn sets(&self) -> Vec<(Cost, Set)> {
        let free: Vec<Set> =
            self.atoms.iter().copied().filter(|atom| self.is_free(*atom)).collect();
        let of = |chosen: u32| members(chosen).map(|at| free[at]).sum::<Set>();
        let sets = (0..1_u32 << free.len()).map(of).filter(|set| self.is_sound(*set));
        let mut sets: Vec<(Cost, Set)> = sets.map(|set| (self.cost(set), set)).collect();
        sets.sort_unstable();
        sets
    }

    /// Whether the gang, of which no member runs, fits without some pods.
    pub(super) fn fits(&self, gone: Set) -> bool {
        let mut floor = Floor::new(self.world, gone);
        let racks = 0..3;
        let whole: Vec<Option<u64>> =
            if self.world.in_rack { racks.map(Some).collect() } else { vec![None] };
        whole.into_iter().any(|rack| floor.leaves(0, self.world.leaves_needed, rack))
    }
}

/// The nodes while members are placed.
struct Floor<'w> {
    world: &'w World,
    free: Vec<[i64; 3]>,
    room: Vec<i64>,
    port: Vec<bool>,
    /// By rack: whether pods of apps 1 and 2 are there.
    apps: [[bool; 3]; 3],
}

impl<'w> Floor<'w> {
    fn new(world: &'w World, gone: Set) -> Floor<'w> {
        let mut floor = Floor {
            world,
            free: world.machines.iter().map(|machine| machine.amounts).collect(),
            room: world.machines.iter().map(|machine| machine.pods.unwrap_or(1 << 20)).collect(),
            port: vec![false; world.machines.len()],
            apps: [[false; 3]; 3],
        };
        for (_, pod) in world.pods.iter().enumerate().filter(|(at, _)| gone & 1 << at == 0) {
            (0..3).for_each(|at| floor.free[pod.node][at] -= pod.amounts[at]);
            floor.room[pod.node] -= 1;
            floor.port[pod.node] |= pod.port;
            floor.apps[world.machines[pod.node].rack as usize][pod.app as usize] = true;
        }
        floor
    }

    /// Whether so many of the leaves from one on have a place.
    fn leaves(&mut self, from: usize, needed: usize, rack: Option<u64>) -> bool {
        if needed == 0 {
            return true;
        }
        let Some(leaf) = self.world.leaves.get(from) else { return false };
        let inside: Vec<Option<u64>> = match rack {
            None if leaf.in_rack => (0..3).map(Some).collect(),
            rack => vec![rack],
        };
        inside
            .into_iter()
            .any(|inside| self.members((from, needed, rack), leaf, (0, leaf.minimum), inside))
            || self.leaves(from + 1, needed, rack)
    }

    /// Whether so many of the members from one on, and the leaves behind, have a place.
    fn members(
        &mut self,
        outer: (usize, usize, Option<u64>),
        leaf: &Leaf,
        (at, needed): (usize, usize),
        rack: Option<u64>,
    ) -> bool {
        if needed == 0 {
            let (from, leaves, whole) = outer;
            return self.leaves(from + 1, leaves - 1, whole);
        }
        if leaf.members.len() - at < needed {
            return false;
        }
        for node in 0..self.free.len() {
            if self.takes(leaf.members[at], node, rack) {
                self.put(leaf.members[at], node, 1);
                let fits = self.members(outer, leaf, (at + 1, needed - 1), rack);
                self.put(leaf.members[at], node, -1);
                if fits {
                    return true;
                }
            }
        }
        self.members(outer, leaf, (at + 1, needed), rack)
    }

    fn takes(&self, shape: usize, node: usize, rack: Option<u64>) -> bool {
        let (shape, machine) = (&self.world.shapes[shape], &self.world.machines[node]);
        let apps = self.apps[machine.rack as usize];
        rack.is_none_or(|rack| rack == machine.rack)
            && self.room[node] > 0
            && (0..3).all(|at| shape.amounts[at] <= self.free[node][at].max(0))
            && !(shape.port && self.port[node])
            && shape.host.is_none_or(|host| host == node)
            && !(shape.apart && apps[2])
            && !(shape.beside && !apps[1])
    }

    fn put(&mut self, shape: usize, node: usize, sign: i64) {
        let shape = &self.world.shapes[shape];
        (0..3).for_each(|at| self.free[node][at] -= sign * shape.amounts[at]);
        self.room[node] -= sign;
        if shape.port {
            self.port[node] = sign > 0;
        }
    }
}

/// The places in a set, ascending.
pub(super) fn members(set: Set) -> impl Iterator<Item = usize> {
    (0..Set::BITS as usize).filter(move |at| set & 1 << at != 0)
}
