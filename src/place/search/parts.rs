//! Parts: groups and slices of groups, as a flat tree.

use alloc::string::String;
use alloc::vec::Vec;

use super::problem::Problem;
use crate::model::PodGroup;
use crate::place::numbers::least_sum;
use crate::place::topology::pinned::{leaders_of, running};
use crate::place::topology::tiers::keys;

/// A group or a slice of one.
#[derive(Debug, Clone)]
pub(crate) struct Part<'a> {
    pub(crate) group: &'a PodGroup,
    /// Number of the slice in its parent; `None` for a group.
    pub(crate) slice: Option<usize>,
    pub(crate) parent: usize,
    /// Keys to be confined by, best first; `None` stands for no confinement.
    pub(crate) keys: Vec<Option<&'a str>>,
    /// The level that a preference named: where it is not met, the fewest of its domains are used.
    pub(crate) wish: Option<&'a str>,
    /// Its members, by number in the model: of a part without children.
    pub(crate) members: Vec<usize>,
    pub(crate) children: Vec<usize>,
    /// Its weight in its parent.
    pub(crate) weight: u32,
    /// How much must be placed: of members, or of the weight of children.
    pub(crate) need: u32,
    /// All there is: members, or the weight of children.
    pub(crate) all: u32,
    /// The least that a placement takes, a dimension each.
    pub(crate) least: Vec<i64>,
    /// The sibling before it, if it asks the same.
    pub(crate) twin: Option<usize>,
}

/// The tree, in an order in which parents come before children, hardest children first.
#[derive(Debug, Clone)]
pub(crate) struct Parts<'a> {
    #[allow(clippy::struct_field_names)]
    pub(crate) parts: Vec<Part<'a>>,
    /// The first of each part's twins, how many there are, and how many come after it.
    twins: Vec<(usize, i64, i64)>,
    /// Classes and how many of each, of a part without children.
    classes: Vec<Vec<(usize, u32)>>,
    /// The same of all parts below, where every one of them is needed.
    required: Vec<Vec<(usize, u32)>>,
    /// Parts that may not be left out.
    forced: Vec<usize>,
}

/// A part that more must be placed of than there is.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TooFew {
    pub(crate) part: usize,
}

impl<'a> Parts<'a> {
    /// The tree of a group; `whole` asks for every member, not just for minima.
    pub(crate) fn new(model: &Problem<'a>, group: &'a PodGroup, whole: bool) -> Parts<'a> {
        let mut parts = Parts {
            parts: Vec::new(),
            twins: Vec::new(),
            classes: Vec::new(),
            required: Vec::new(),
            forced: Vec::new(),
        };
        let mut next = 0;
        parts.add_group(model, group, 0, whole, &mut next);
        // A plan places something, even where enough members run.
        if group.groups.is_empty() {
            parts.parts[0].need = parts.parts[0].need.max(1);
        }
        parts.weigh(model, 0);
        parts.count_classes(model);
        parts.find_twins(model);
        parts
    }

    /// The same tree, with a member of a part that must be placed. It has no twins: a request to
    /// one is not a request to the others.
    pub(crate) fn forcing(&self, part: usize) -> Parts<'a> {
        let mut forced = self.clone();
        forced.parts[part].need = forced.parts[part].need.max(1);
        let mut next = part;
        while next != 0 {
            forced.forced.push(next);
            next = forced.parts[next].parent;
        }
        for (number, twins) in forced.twins.iter_mut().enumerate() {
            *twins = (number, 1, 0);
            forced.parts[number].twin = None;
        }
        forced
    }

    /// Whether a part may not be left out.
    pub(crate) fn is_forced(&self, part: usize) -> bool {
        self.forced.contains(&part)
    }

    /// The first of a part's twins.
    pub(crate) fn head(&self, part: usize) -> usize {
        self.twins[part].0
    }

    /// How many twins a part has, with itself.
    pub(crate) fn twins(&self, part: usize) -> i64 {
        self.twins[self.head(part)].1
    }

    /// How many twins are decided after a part.
    pub(crate) fn twins_after(&self, part: usize) -> i64 {
        self.twins[part].2
    }

    /// The classes of a part's own members, with numbers.
    pub(crate) fn classes(&self, part: usize) -> &[(usize, u32)] {
        &self.classes[part]
    }

    /// The classes of all members of a part and of the parts below, as far as all are needed.
    pub(crate) fn required(&self, part: usize) -> &[(usize, u32)] {
        &self.required[part]
    }

    /// The sibling whose domain a leader shares: the first that is no leader.
    pub(crate) fn led_by(&self, part: usize) -> Option<usize> {
        let own = &self.parts[part];
        if part == 0 || !own.group.leader || own.slice.is_some() {
            return None;
        }
        let siblings = &self.parts[own.parent].children;
        siblings.iter().copied().find(|&other| !self.parts[other].group.leader)
    }

    /// The siblings that lead a part.
    pub(crate) fn leaders(&self, part: usize) -> Vec<&'a PodGroup> {
        let own = &self.parts[part];
        if part == 0 || own.slice.is_some() {
            return Vec::new();
        }
        leaders_of(self.parts[own.parent].group, own.group)
    }

    /// The parts before whose parents they stand, hardest siblings first.
    pub(crate) fn order(&self) -> Vec<usize> {
        let mut order = Vec::with_capacity(self.parts.len());
        self.push_in_order(0, &mut order);
        order
    }

    /// A part that cannot count whatever the cluster looks like.
    pub(crate) fn too_few(&self) -> Option<TooFew> {
        self.short(0).map(|part| TooFew { part })
    }

    fn short(&self, part: usize) -> Option<usize> {
        let own = &self.parts[part];
        if own.need > own.all {
            return Some(part);
        }
        let mut possible = own.all;
        let mut blocked = None;
        for &child in &own.children {
            if let Some(short) = self.short(child) {
                possible -= self.parts[child].weight;
                blocked = blocked.or(Some(short));
            }
        }
        if possible < own.need { blocked } else { None }
    }

    fn add_group(
        &mut self,
        model: &Problem<'a>,
        group: &'a PodGroup,
        parent: usize,
        whole: bool,
        next: &mut usize,
    ) -> usize {
        let place = self.parts.len();
        let minimum = group.policy.minimum();
        let keys = keys(model.cluster, &group.topology).into_vec();
        self.parts.push(Part {
            group,
            slice: None,
            parent,
            wish: group.topology.prefer.as_deref().filter(|prefer| keys.contains(&Some(prefer))),
            keys,
            members: Vec::new(),
            children: Vec::new(),
            weight: 1,
            need: minimum,
            all: 0,
            least: Vec::new(),
            twin: None,
        });
        if group.groups.is_empty() {
            let count = group.pods.iter().filter(|pod| pod.scheduling_gates.is_empty()).count();
            let members: Vec<usize> = (*next..*next + count).collect();
            *next += count;
            let runs = running(model.cluster, group);
            self.parts[place].need =
                minimum.saturating_sub(u32::try_from(runs).unwrap_or(u32::MAX));
            self.parts[place].all = members.len() as u32;
            self.cut(place, members, 0);
        } else {
            for child in &group.groups {
                let child = self.add_group(model, child, place, whole, next);
                self.parts[place].children.push(child);
            }
            self.parts[place].all = group.groups.len() as u32;
        }
        if whole {
            let part = &mut self.parts[place];
            part.need = part.need.max(part.all);
        }
        place
    }

    /// Cuts members into slices, and those into finer ones.
    fn cut(&mut self, place: usize, members: Vec<usize>, depth: usize) {
        let group = self.parts[place].group;
        let Some(slice) = group.topology.slices.get(depth) else {
            self.parts[place].members = members;
            return;
        };
        let size = slice.size.max(1) as usize;
        for (number, chunk) in members.chunks(size).enumerate() {
            let child = self.parts.len();
            self.parts.push(Part {
                group,
                slice: Some(number),
                parent: place,
                keys: alloc::vec![Some(slice.level.as_str())],
                wish: None,
                members: Vec::new(),
                children: Vec::new(),
                weight: chunk.len() as u32,
                need: chunk.len() as u32,
                all: chunk.len() as u32,
                least: Vec::new(),
                twin: None,
            });
            self.parts[place].children.push(child);
            self.cut(child, chunk.to_vec(), depth + 1);
        }
    }

    /// Sets the least each part takes, and orders children hardest first.
    fn weigh(&mut self, model: &Problem<'a>, part: usize) {
        let children = self.parts[part].children.clone();
        for &child in &children {
            self.weigh(model, child);
        }
        let own = &self.parts[part];
        let least = (0..model.width()).map(|dimension| {
            let ask =
                |&member: &usize| (model.classes[model.members[member].class].ask[dimension], 1);
            // Exact where all weights are equal; else each unit of weight counts for its share.
            let share = |&child: &usize| {
                let weight = i64::from(self.parts[child].weight);
                (self.parts[child].least[dimension] / weight.max(1), weight)
            };
            // Members stand in parts without children.
            let units = own.members.iter().map(ask).chain(children.iter().map(share));
            least_sum(units, own.need.into())
        });
        let least = least.collect();
        self.parts[part].least = least;
    }

    fn push_in_order(&self, part: usize, order: &mut Vec<usize>) {
        order.push(part);
        let mut children = self.parts[part].children.clone();
        // Confined children first, then the larger; twins stay in their order.
        let hardness = |&child: &usize| {
            let child = &self.parts[child];
            let open = child.keys.first() == Some(&None);
            (child.group.leader, open, core::cmp::Reverse(child.least.clone()))
        };
        children.sort_by_key(hardness);
        for child in children {
            self.push_in_order(child, order);
        }
    }

    fn count_classes(&mut self, model: &Problem<'a>) {
        self.classes = alloc::vec![Vec::new(); self.parts.len()];
        self.required = alloc::vec![Vec::new(); self.parts.len()];
        for part in (0..self.parts.len()).rev() {
            let own = &self.parts[part];
            let mut classes: Vec<usize> =
                own.members.iter().map(|&member| model.members[member].class).collect();
            classes.sort_unstable();
            let counted = classes.chunk_by(|a, b| a == b).map(|run| (run[0], run.len() as u32));
            self.classes[part] = counted.collect();
            if own.need < own.all {
                continue;
            }
            // Children have higher numbers.
            let below = own.children.iter().flat_map(|&child| &self.required[child]);
            let mut all: Vec<(usize, u32)> = below.chain(&self.classes[part]).copied().collect();
            all.sort_unstable();
            all.dedup_by(|next, kept| {
                let same = next.0 == kept.0;
                if same {
                    kept.1 += next.1;
                }
                same
            });
            self.required[part] = all;
        }
    }

    /// Notes which parts ask the same as the sibling that comes before them.
    fn find_twins(&mut self, model: &Problem<'a>) {
        self.twins = (0..self.parts.len()).map(|part| (part, 1, 0)).collect();
        let order = self.order();
        let mut place = alloc::vec![0; self.parts.len()];
        for (at, &part) in order.iter().enumerate() {
            place[part] = at;
        }
        for part in 0..self.parts.len() {
            let mut children = self.parts[part].children.clone();
            children.sort_unstable_by_key(|&child| place[child]);
            for pair in children.windows(2) {
                let &[before, child] = pair else { continue };
                if self.alike(model, before, child) {
                    self.parts[child].twin = Some(before);
                    let head = self.twins[before].0;
                    self.twins[child].0 = head;
                    self.twins[head].1 += 1;
                }
            }
            let mut after = 0;
            for (at, &child) in children.iter().enumerate().rev() {
                self.twins[child].2 = after;
                let continues = at > 0 && self.parts[child].twin == Some(children[at - 1]);
                after = if continues { after + 1 } else { 0 };
            }
        }
    }

    /// Whether two parts can stand in for each other. Parts that running members
    /// pin cannot.
    fn alike(&self, model: &Problem<'a>, a: usize, b: usize) -> bool {
        let (x, y) = (&self.parts[a], &self.parts[b]);
        if x.keys != y.keys || x.need != y.need || x.all != y.all || x.weight != y.weight {
            return false;
        }
        if x.wish != y.wish
            || x.group.topology != y.group.topology
            || x.group.leader != y.group.leader
        {
            return false;
        }
        let distinct = !core::ptr::eq(x.group, y.group);
        let pinned = |part: usize| {
            let pinning = self.leaders(part).into_iter().chain([self.parts[part].group]);
            pinning.into_iter().any(|group| running(model.cluster, group) > 0)
        };
        if distinct && (pinned(a) || pinned(b)) {
            return false;
        }
        let classes = |part: &Part<'a>| {
            let mut classes: Vec<usize> =
                part.members.iter().map(|&member| model.members[member].class).collect();
            classes.sort_unstable();
            classes
        };
        classes(x) == classes(y)
            && x.children.len() == y.children.len()
            && x.children.iter().zip(&y.children).all(|(&p, &q)| self.alike(model, p, q))
    }

    /// The members of a part and of all parts below, in order.
    pub(crate) fn members_below(&self, part: usize) -> impl Iterator<Item = usize> {
        let mut found = Vec::new();
        let mut open = alloc::vec![part];
        while let Some(next) = open.pop() {
            let own = &self.parts[next];
            found.extend_from_slice(&own.members);
            open.extend(&own.children);
        }
        found.sort_unstable();
        found.into_iter()
    }

    /// The first member among those that are all needed for which something holds.
    pub(crate) fn required_member(
        &self,
        part: usize,
        holds: impl Fn(usize) -> bool + Copy,
    ) -> Option<usize> {
        let own = &self.parts[part];
        if own.need < own.all {
            return None;
        }
        let mut inside = own.children.iter();
        let first = own.members.iter().copied().find(|&member| holds(member));
        first.or_else(|| inside.find_map(|&child| self.required_member(child, holds)))
    }

    /// The level that a part's group requires; slices require no more than their own.
    pub(crate) fn require(&self, part: usize) -> Option<&'a str> {
        let own = &self.parts[part];
        own.group.topology.require.as_deref().filter(|_| own.slice.is_none())
    }

    /// The name of a part: the group's full name, and which slice of it.
    pub(crate) fn name(&self, part: usize) -> String {
        let own = &self.parts[part];
        match own.slice {
            None => own.group.full_name().into(),
            Some(number) => alloc::format!("{}[{number}]", self.name(own.parent)),
        }
    }
}
