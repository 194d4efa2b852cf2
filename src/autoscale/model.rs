//! The linear program of some groups: counts that every set of blocks must cover.
//!
//! - **by shape**: a number of pods of one shape; counts tell how many fit each node;
//! - **by amount**: of shapes that can go to the same variants, what they take of a dimension;
//! - **by share**: a number of pods that take so much of a dimension or more; a node takes whole
//!   ones only;
//! - **by domain**: amounts of groups that must each be within one domain; nodes outside of all
//!   domains give nothing to them. There are four such bounds. One adds up the amounts. One counts
//!   the groups that take so much or more, of which a domain takes whole ones only. One tells by
//!   weights which groups go together into a domain. The last says that each group needs one domain
//!   that is large enough.

use alloc::vec;
use alloc::vec::Vec;

use super::linear::{Cover, Program};
use super::needs::{Confined, Needs, Profile, Shape};
use super::template::{HOSTNAME, Variant};
use super::weights::Weights;
use crate::place::topology::partition::{names, partition_all};
use crate::place::topology::tiers::{Keys, path_keys};
use crate::state::{Cluster, NodeView};

/// Thresholds of a dimension up to which shares are counted.
const MOST_SHARES: usize = 8;
/// Sizes of domains up to which groups are weighed by them.
const MOST_WHOLES: usize = 4;
/// Needs of one kind of variants up to which they are kept: those that cost most alone.
const MOST_COVERS: usize = 10;

/// The relation of a variant's blocks to the domains of a label.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Role {
    /// Its nodes are in none of them.
    Outside,
    /// Each block is one of its own.
    Block,
    /// Each node is one of its own.
    Node,
    /// They share a domain with others.
    Shared,
}

/// A set of shapes, by number.
type Shapes = Vec<bool>;

/// The linear program of some groups on a cluster.
pub(super) struct Model<'a> {
    cluster: &'a Cluster,
    needs: &'a Needs,
    profiles: &'a [&'a Profile],
    variants: &'a [Variant],
    /// Whether a domain is told by the value of its label alone.
    by_value: bool,
    /// The most blocks of each variant.
    most: &'a [u32],
    /// The nodes that some pod fits.
    nodes: Vec<NodeView<'a>>,
    /// By node and dimension: what is free.
    free: Vec<i64>,
    covers: Vec<Cover>,
}

impl<'a> Model<'a> {
    /// Needs of the groups beside free amounts; there are at most so many blocks of each variant.
    pub(super) fn covers(
        cluster: &'a Cluster,
        (needs, variants): (&'a Needs, &'a [Variant]),
        (profiles, by_value): (&'a [&'a Profile], bool),
        (costs, most): (&[i128], &'a [u32]),
    ) -> Vec<Cover> {
        let mut asked = vec![false; needs.shapes.len()];
        for (shape, _) in profiles.iter().flat_map(|p| &p.leaves).flat_map(|leaf| &leaf.counts) {
            asked[*shape] = true;
        }
        // Members that may stay out take room of a domain when others of it do.
        let mut placed = asked.clone();
        for shape in profiles.iter().flat_map(|p| &p.confined).flat_map(|own| &own.shapes) {
            placed[*shape] = true;
        }
        let shapes: Vec<&Shape> =
            needs.shapes.iter().zip(&placed).filter(|(_, is)| **is).map(|(own, _)| own).collect();
        let usable = |node: &NodeView<'_>| {
            let row = node.row().index();
            shapes.iter().any(|shape| shape.fits.get(row).is_some_and(|fits| *fits > 0))
        };
        let nodes: Vec<NodeView<'a>> = cluster.nodes().filter(usable).collect();
        let free = |node: &NodeView<'a>| {
            let node = *node;
            needs.dimensions.iter().map(move |dimension| dimension.free(cluster, node))
        };
        let free = nodes.iter().flat_map(free).collect();
        let covers = Vec::new();
        let mut model =
            Model { cluster, needs, profiles, variants, by_value, most, nodes, free, covers };
        for set in model.sets(&asked) {
            model.add_set(&set);
        }
        for shape in (0..asked.len()).filter(|shape| asked[*shape]) {
            model.add_shape(shape);
        }
        model.add_domains();
        strongest(model.covers, costs)
    }

    /// Whether a pod of some shapes fits each node.
    fn usable_by(&self, shapes: &Shapes) -> Vec<bool> {
        let mut usable = vec![false; self.nodes.len()];
        for (shape, _) in self.needs.shapes.iter().zip(shapes).filter(|(_, is)| **is) {
            for (usable, node) in usable.iter_mut().zip(&self.nodes) {
                *usable |= shape.fits.get(node.row().index()).is_some_and(|fits| *fits > 0);
            }
        }
        usable
    }

    /// Sets of shapes: all, and those that no variant takes but some, for each of the shapes.
    fn sets(&self, asked: &Shapes) -> Vec<Shapes> {
        let shapes = &self.needs.shapes;
        let takes = |shape: usize, variant: usize| shapes[shape].each[variant] > 0;
        let mut sets = vec![asked.clone()];
        for own in (0..asked.len()).filter(|own| asked[*own]) {
            let within = |other: usize| {
                asked[other] && (0..self.variants.len()).all(|v| !takes(other, v) || takes(own, v))
            };
            let set: Shapes = (0..asked.len()).map(within).collect();
            if !sets.contains(&set) {
                sets.push(set);
            }
        }
        sets
    }

    fn cover(&mut self, need: i64, each: Vec<i64>) {
        if need > 0 {
            let cover = Cover { need, each }.scaled();
            if !self.covers.contains(&cover) {
                self.covers.push(cover);
            }
        }
    }

    fn add_shape(&mut self, shape: usize) {
        let own = &self.needs.shapes[shape];
        let count: i64 = self.profiles.iter().map(|p| p.count(&|other| other == shape)).sum();
        let fit = |node: &NodeView<'_>| own.fits.get(node.row().index()).copied().unwrap_or(0);
        let there = self.nodes.iter().fold(0_i64, |sum, node| sum.saturating_add(fit(node)));
        let each = own.each.iter().zip(self.variants);
        let each = each.map(|(each, variant)| each.saturating_mul(i64::from(variant.nodes)));
        let each = each.collect();
        self.cover(count.saturating_sub(there), each);
    }

    /// Counts amounts and shares of a set of shapes.
    fn add_set(&mut self, set: &Shapes) {
        let width = self.needs.dimensions.len();
        let usable = self.usable_by(set);
        let takes: Vec<bool> = (0..self.variants.len())
            .map(|v| (0..set.len()).any(|s| set[s] && self.needs.shapes[s].each[v] > 0))
            .collect();
        for dimension in 0..width {
            let mut thresholds: Vec<i64> = (0..set.len())
                .filter(|shape| set[*shape])
                .map(|shape| self.needs.shapes[shape].ask[dimension])
                .filter(|ask| *ask > 0)
                .collect();
            if thresholds.is_empty() {
                continue;
            }
            thresholds.sort_unstable();
            thresholds.dedup();
            let free = |node: usize| self.free[node * width + dimension];
            let open = || (0..self.nodes.len()).filter(|node| usable[*node]).map(free);
            let room = |variant: usize| {
                if takes[variant] { self.needs.nodes[variant][dimension] } else { 0 }
            };
            let blocks = |of: &dyn Fn(i64) -> i64| -> Vec<i64> {
                let each = |(v, variant): (usize, &Variant)| {
                    of(room(v)).saturating_mul(i64::from(variant.nodes))
                };
                self.variants.iter().enumerate().map(each).collect()
            };
            let amount = |profile: &&Profile| {
                profile.amount(&self.needs.shapes, dimension, &|shape| set[shape])
            };
            let need = self.profiles.iter().map(amount).fold(0, i64::saturating_add);
            let there = open().fold(0, i64::saturating_add);
            let mut found = vec![(need.saturating_sub(there), blocks(&|room| room))];
            for &least in thresholds.iter().rev().take(MOST_SHARES) {
                let is_one = |s: usize| set[s] && self.needs.shapes[s].ask[dimension] >= least;
                let count: i64 = self.profiles.iter().map(|p| p.count(&is_one)).sum();
                let there = open().fold(0_i64, |sum, free| sum.saturating_add(free / least));
                found.push((count.saturating_sub(there), blocks(&|room| room / least)));
            }
            for (need, each) in found {
                self.cover(need, each);
            }
        }
    }

    /// The role of each variant for the domains of a label.
    fn roles(&self, path: &[&str]) -> Vec<Role> {
        let role = |variant: &Variant| {
            let Some(own) = path.last() else { return Role::Shared };
            if !variant.owns(own) && !variant.node.labels.contains_key(*own) {
                Role::Outside
            } else if path.contains(&HOSTNAME) && variant.is_named() {
                Role::Node
            } else if path.iter().any(|label| variant.owns(label)) {
                Role::Block
            } else {
                Role::Shared
            }
        };
        self.variants.iter().map(role).collect()
    }

    /// Counts groups that must each be within one domain.
    fn add_domains(&mut self) {
        let all = self.profiles.iter().flat_map(|profile| &profile.confined);
        let mut all: Vec<&Confined> = all.collect();
        all.sort_by(|a, b| (&a.key, &a.least).cmp(&(&b.key, &b.least)));
        for confined in all.chunk_by(|a, b| a.key == b.key) {
            let Some(key) = self.cluster.label_key(&confined[0].key) else { continue };
            let keys =
                if self.by_value { Keys::from_slice(&[key]) } else { path_keys(self.cluster, key) };
            let path: Vec<&str> = keys.iter().map(|k| self.cluster.label_key_text(*k)).collect();
            let roles = self.roles(&path);
            let takes = |confined: &Confined| -> Vec<bool> {
                let shapes = &self.needs.shapes;
                let any = |v| confined.shapes.iter().any(|shape| shapes[*shape].each[v] > 0);
                (0..self.variants.len()).map(any).collect()
            };
            let masks: Vec<Vec<bool>> = confined.iter().map(|own| takes(own)).collect();
            let mut kinds = masks.clone();
            kinds.sort_unstable();
            kinds.dedup();
            // Groups that can go to no other variants than some.
            for kind in kinds {
                let within = |mask: &Vec<bool>| mask.iter().zip(&kind).all(|(own, of)| *of || !own);
                let own = confined.iter().zip(&masks).filter(|(_, mask)| within(mask));
                let own: Vec<&Confined> = own.map(|(own, _)| *own).collect();
                let roles = roles.iter().zip(&kind);
                let roles: Vec<Role> =
                    roles.map(|(role, is)| if *is { *role } else { Role::Outside }).collect();
                let mut shapes = vec![false; self.needs.shapes.len()];
                for shape in own.iter().flat_map(|own| &own.shapes) {
                    shapes[*shape] = true;
                }
                let (domains, shared) = self.domains(&keys, &path, (&roles, &shapes));
                self.add_hosts(&own, &roles, (&domains, &shared));
                for dimension in 0..self.needs.dimensions.len() {
                    self.add_within(&own, &roles, &domains, dimension);
                    self.add_whole(&own, &roles, &domains, dimension);
                    self.add_weighted(&own, &roles, &domains, dimension);
                }
            }
        }
    }

    /// By dimension, what is free for pods of some shapes in each domain that is there; and in each
    /// that variants share, with all that may be added to it.
    fn domains(
        &self,
        keys: &Keys,
        path: &[&str],
        (roles, shapes): (&[Role], &Shapes),
    ) -> (Vec<Vec<i64>>, Vec<Vec<i64>>) {
        let width = self.needs.dimensions.len();
        let usable = self.usable_by(shapes);
        let mut place = vec![usize::MAX; self.cluster.rows()];
        for (at, node) in self.nodes.iter().enumerate().filter(|(at, _)| usable[*at]) {
            place[node.row().index()] = at;
        }
        let mut shared: Vec<(Vec<Option<&str>>, Vec<i64>)> = Vec::new();
        for (variant, own) in self.variants.iter().enumerate() {
            if roles[variant] != Role::Shared {
                continue;
            }
            let values: Vec<Option<&str>> =
                path.iter().map(|label| own.node.labels.get(*label).map(|v| &**v)).collect();
            let at = shared.iter().position(|(known, _)| *known == values);
            let at = at.unwrap_or_else(|| {
                shared.push((values, vec![0; width]));
                shared.len() - 1
            });
            for (dimension, sum) in shared[at].1.iter_mut().enumerate() {
                let block = self.domain_of(variant, Role::Shared, dimension);
                let all = block.saturating_mul(i64::from(self.most[variant]));
                *sum = sum.saturating_add(all);
            }
        }
        let parts = partition_all(self.cluster, keys);
        let mut domains: Vec<Vec<i64>> = Vec::with_capacity(parts.len());
        for part in parts.iter() {
            let Some(rows) = part.rows(None) else { continue };
            let mut sums = vec![0_i64; width];
            for at in rows.iter().map(|row| place[row.index()]).filter(|at| *at != usize::MAX) {
                let free = &self.free[at * width..(at + 1) * width];
                for (sum, free) in sums.iter_mut().zip(free) {
                    *sum = sum.saturating_add(*free);
                }
            }
            if !shared.is_empty() {
                let values: Vec<_> = names(self.cluster, &part.path).collect();
                if let Some((_, all)) = shared.iter_mut().find(|(known, _)| *known == values) {
                    for (all, sum) in all.iter_mut().zip(&sums) {
                        *all = all.saturating_add(*sum);
                    }
                }
            }
            domains.push(sums);
        }
        (domains, shared.into_iter().map(|(_, sums)| sums).collect())
    }

    /// Amount of a domain that is one block or node of a variant.
    fn domain_of(&self, variant: usize, role: Role, dimension: usize) -> i64 {
        let node = self.needs.nodes[variant][dimension];
        match role {
            Role::Outside => 0,
            Role::Node => node,
            Role::Block | Role::Shared => {
                node.saturating_mul(i64::from(self.variants[variant].nodes))
            }
        }
    }

    /// Each group needs a domain that is large enough.
    fn add_hosts(
        &mut self,
        confined: &[&Confined],
        roles: &[Role],
        (domains, shared): (&[Vec<i64>], &[Vec<i64>]),
    ) {
        let suffices = |has: &dyn Fn(usize) -> i64, least: &[i64]| {
            least.iter().enumerate().all(|(dimension, least)| has(dimension) >= *least)
        };
        let mut last: Option<&Vec<i64>> = None;
        for confined in confined {
            if last.replace(&confined.least) == Some(&confined.least)
                || domains.iter().chain(shared).any(|s| suffices(&|at| s[at], &confined.least))
            {
                continue;
            }
            let hosts = |(variant, role): (usize, &Role)| {
                let has = |dimension| self.domain_of(variant, *role, dimension);
                let is_own = matches!(role, Role::Block | Role::Node);
                i64::from(is_own && suffices(&has, &confined.least))
            };
            let each = roles.iter().enumerate().map(hosts).collect();
            self.cover(1, each);
        }
    }

    /// Groups that must each be within a domain get nothing from nodes outside of all domains.
    fn add_within(
        &mut self,
        confined: &[&Confined],
        roles: &[Role],
        domains: &[Vec<i64>],
        dimension: usize,
    ) {
        let need = confined.iter().fold(0_i64, |sum, own| sum.saturating_add(own.least[dimension]));
        let need = domains.iter().fold(need, |need, sums| need.saturating_sub(sums[dimension]));
        let each = |(variant, role): (usize, &Role)| match role {
            Role::Outside => 0,
            _ => self.domain_of(variant, Role::Block, dimension),
        };
        let each = roles.iter().enumerate().map(each).collect();
        self.cover(need, each);
    }

    /// A domain takes only whole groups of those that take so much or more.
    fn add_whole(
        &mut self,
        confined: &[&Confined],
        roles: &[Role],
        domains: &[Vec<i64>],
        dimension: usize,
    ) {
        let mut thresholds: Vec<i64> = confined.iter().map(|c| c.least[dimension]).collect();
        thresholds.retain(|least| *least > 0);
        thresholds.sort_unstable();
        thresholds.dedup();
        let shared = roles.contains(&Role::Shared);
        for &least in thresholds.iter().rev().take(MOST_SHARES) {
            let count = confined.iter().filter(|c| c.least[dimension] >= least).count() as i64;
            // In units of the dimension, whole groups of them; domains that may grow count in parts.
            let whole = |amount: i64| amount / least * least;
            let there = domains.iter().map(|sums| sums[dimension]);
            let there = there.map(|sum| if shared { sum } else { whole(sum) });
            let need = count.saturating_mul(least);
            let need = there.fold(need, i64::saturating_sub);
            let each = |(variant, role): (usize, &Role)| {
                let one = self.domain_of(variant, *role, dimension);
                match role {
                    Role::Outside => 0,
                    Role::Shared => one,
                    Role::Block => whole(one),
                    Role::Node => {
                        whole(one).saturating_mul(i64::from(self.variants[variant].nodes))
                    }
                }
            };
            let each = roles.iter().enumerate().map(each).collect();
            self.cover(need, each);
        }
    }

    /// A domain holds only some groups of several sizes together: each weighs so much, and a
    /// domain holds so much weight at most.
    fn add_weighted(
        &mut self,
        confined: &[&Confined],
        roles: &[Role],
        domains: &[Vec<i64>],
        dimension: usize,
    ) {
        let mut sizes: Vec<i64> = confined.iter().map(|c| c.least[dimension]).collect();
        sizes.retain(|size| *size > 0);
        sizes.sort_unstable();
        if sizes.first() == sizes.last() {
            return;
        }
        let own = |(variant, role): (usize, &Role)| {
            let one = self.domain_of(variant, *role, dimension);
            (one > 0 && *role != Role::Shared).then_some(one)
        };
        let mut wholes: Vec<i64> = roles.iter().enumerate().filter_map(own).collect();
        wholes.sort_unstable();
        wholes.dedup();
        let shared = roles.contains(&Role::Shared);
        for &whole in wholes.iter().rev().take(MOST_WHOLES) {
            let least = |size: &i64| if *size <= whole / 2 { *size } else { whole - size + 1 };
            let mut leasts: Vec<i64> = sizes.iter().map(least).collect();
            leasts.retain(|least| (1..=whole / 2).contains(least));
            leasts.sort_unstable();
            leasts.dedup();
            for &least in leasts.iter().rev().take(MOST_SHARES) {
                let weights = Weights::new(&sizes, whole, least);
                let mut known: Vec<(i64, i64)> = Vec::new();
                let mut most = |room: i64| {
                    if shared {
                        return weights.in_parts(room);
                    }
                    if let Some((_, most)) = known.iter().find(|(known, _)| *known == room) {
                        return *most;
                    }
                    let most = weights.most(room);
                    known.push((room, most));
                    most
                };
                let there = domains.iter().map(|sums| most(sums[dimension]));
                let need = there.fold(weights.total(), i64::saturating_sub);
                if need <= 0 {
                    continue;
                }
                let each = |(variant, role): (usize, &Role)| {
                    let one = self.domain_of(variant, *role, dimension);
                    match role {
                        Role::Outside => 0,
                        Role::Shared => weights.in_parts(one),
                        Role::Block => most(one),
                        Role::Node => {
                            most(one).saturating_mul(i64::from(self.variants[variant].nodes))
                        }
                    }
                };
                let each = roles.iter().enumerate().map(each).collect();
                self.cover(need, each);
            }
        }
    }
}

/// The needs that cost most alone, some of each kind: those that the same variants cover.
fn strongest(covers: Vec<Cover>, costs: &[i128]) -> Vec<Cover> {
    let alone = |cover: &Cover| {
        let each = cover.each.iter().zip(costs).filter(|(each, _)| **each > 0);
        let cost = each.map(|(each, cost)| cost.saturating_mul(1 << 20) / i128::from(*each)).min();
        cost.map_or(i128::MAX, |cost| cost.saturating_mul(i128::from(cover.need)))
    };
    let mut ranked: Vec<(Vec<bool>, i128, usize)> = covers
        .iter()
        .enumerate()
        .map(|(at, cover)| (cover.each.iter().map(|each| *each > 0).collect(), alone(cover), at))
        .collect();
    ranked.sort_by(|a, b| (&a.0, b.1, a.2).cmp(&(&b.0, a.1, b.2)));
    let mut kept: Vec<usize> = ranked
        .chunk_by(|a, b| a.0 == b.0)
        .flat_map(|kind| kind.iter().take(MOST_COVERS).map(|(.., at)| *at))
        .collect();
    kept.sort_unstable();
    let mut covers: Vec<Option<Cover>> = covers.into_iter().map(Some).collect();
    kept.into_iter().filter_map(|at| covers[at].take()).collect()
}

/// Costs of sets, and the greatest numbers of blocks.
pub(super) fn program(
    variants: &[Variant],
    limits: &[Option<u32>],
    (max_nodes, covers): (u32, Vec<Cover>),
    costs: Vec<i128>,
) -> Program {
    let mut bounds = vec![(
        variants.iter().map(|variant| i64::from(variant.nodes)).collect(),
        i64::from(max_nodes),
    )];
    for (template, limit) in limits.iter().enumerate() {
        let own: Vec<i64> =
            variants.iter().map(|variant| i64::from(variant.template == template)).collect();
        if let Some(limit) = limit
            && own.iter().sum::<i64>() > 1
        {
            bounds.push((own, i64::from(*limit)));
        }
    }
    Program { costs, covers, limits: bounds }
}

/// Cost of a block of each variant: its price before all, then its nodes.
pub(super) fn costs(variants: &[Variant], max_nodes: u32) -> Vec<i128> {
    let unit = unit(max_nodes);
    let cost = |variant: &Variant| i128::from(variant.price) * unit + i128::from(variant.nodes);
    variants.iter().map(cost).collect()
}

/// Cost of a price of 1.
pub(super) fn unit(max_nodes: u32) -> i128 {
    i128::from(max_nodes) + 1
}
