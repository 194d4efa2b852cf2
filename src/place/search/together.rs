//! Pods with claims, counted together: the most that all nodes serve, each node by itself.
//!
//! Pods that share a claim are one unit, since the devices of a claim are on one node. Units that ask
//! for the same are a kind. For each node, the combinations of units are found that have room and
//! devices there; then the most units over all nodes.

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;
use core::cell::OnceCell;

use super::problem::Problem;
use crate::claims::Bundles;
use crate::model::{ClaimSource, ClaimSpec, Pod};
use crate::place::request::Task;
use crate::place::search::question::{Question, names};
use crate::place::sequential::workspace::Workspace;
use crate::state::Row;

/// The most combinations of placed units that are told apart.
const STATES: usize = 1 << 12;
/// For all domains of a group: how often nodes are asked for devices, how many devices are tried, and
/// how many combinations are put together.
const ASKED: u64 = 1 << 13;
const TRIED: u64 = 1 << 20;
const SUMS: u64 = 1 << 22;

/// Knowledge that counts in several domains share, and what is left of their work.
pub(super) struct Effort {
    /// Made by the first count; `None` if the claims cannot be counted.
    bundles: OnceCell<Option<Bundles>>,
    asked: u64,
    tried: u64,
    sums: u64,
}

impl Default for Effort {
    fn default() -> Effort {
        Effort { bundles: OnceCell::new(), asked: ASKED, tried: TRIED, sums: SUMS }
    }
}

/// Pods of which fewer can be placed than must be.
pub(super) struct Shortage {
    /// One pod of each kind.
    pub(super) pods: Vec<String>,
    pub(super) need: u32,
    pub(super) fits: u32,
}

/// Units that ask for the same.
struct Kind {
    /// A pod of the first.
    pod: String,
    units: usize,
    /// Pods of one unit, and the amounts that they take.
    pods: u32,
    ask: Vec<i64>,
    classes: Vec<usize>,
    /// The places of its claims.
    specs: Vec<usize>,
}

/// The first shortage of pods of some kinds: of one kind, or of all.
pub(super) fn shortage(
    task: Task<'_>,
    workspace: &mut Workspace,
    rows: &[Row],
    effort: &mut Effort,
) -> Option<Shortage> {
    if effort.asked == 0 || effort.tried == 0 || matches!(effort.bundles.get(), Some(None)) {
        return None;
    }
    let (Task { cluster, framework, gang, request }, rooms) =
        (task, &mut workspace.caches.capacity);
    let model = Problem::new(cluster, framework, gang, request.now, Some(rows.to_vec()), rooms);
    let (kinds, specs) = kinds_of(&model)?;
    let Effort { bundles, asked, tried, sums } = effort;
    // Members are the same in all domains, and so are their claims.
    let bundles = bundles.get_or_init(|| {
        let specs: Vec<&Arc<ClaimSpec>> = specs.iter().collect();
        Bundles::new(cluster, framework.selectors(), &specs)
    });
    let bundles = bundles.as_ref()?;
    let mut count = Count { model: &model, bundles, asked, tried, sums };
    let all: Vec<&Kind> = kinds.iter().collect();
    let alone = all.iter().map(core::slice::from_ref).filter(|kind| !kind[0].specs.is_empty());
    let together = Some(&all[..]).filter(|all| all.len() > 1);
    for kinds in alone.chain(together) {
        let need = kinds.iter().map(|kind| kind.pods * kind.units as u32).sum();
        if let Some(fits) = count.most(kinds).filter(|fits| *fits < need) {
            let pods = kinds.iter().map(|kind| kind.pod.clone()).collect();
            return Some(Shortage { pods, need, fits });
        }
    }
    None
}

/// All kinds, and the different claims that they name by place.
fn kinds_of(model: &Problem<'_>) -> Option<(Vec<Kind>, Vec<Arc<ClaimSpec>>)> {
    let book = model.cluster.claims();
    let shared = names(model.members.iter().map(|member| member.pod));
    let mut specs: Vec<Arc<ClaimSpec>> = Vec::new();
    let mut place_of = |spec: &Arc<ClaimSpec>| {
        let known = specs.iter().position(|own| own == spec);
        known.unwrap_or_else(|| {
            specs.push(Arc::clone(spec));
            specs.len() - 1
        })
    };
    // The unit of each member, by the first member of it.
    let mut unit_of: Vec<usize> = (0..model.members.len()).collect();
    let mut first_with: BTreeMap<(&str, &str), usize> = BTreeMap::new();
    let mut claims: Vec<Vec<usize>> = vec![Vec::new(); model.members.len()];
    for (at, member) in model.members.iter().enumerate() {
        let shape = member.pod.shape();
        for own in &shape.claims {
            match &own.source {
                ClaimSource::Own(spec) => claims[at].push(place_of(spec)),
                ClaimSource::Unmade | ClaimSource::Extended(_) => return None,
                ClaimSource::Named(name) | ClaimSource::Made { claim: name, .. } => {
                    let record = book.claim(&shape.namespace, name)?;
                    let claim = record.claim()?;
                    if record.allocation().is_some() {
                        continue;
                    }
                    let first = *first_with.entry((&shape.namespace, name)).or_insert_with(|| {
                        claims[at].push(place_of(&claim.spec));
                        at
                    });
                    let (from, to) = (unit_of[at], unit_of[first]);
                    unit_of.iter_mut().filter(|unit| **unit == from).for_each(|unit| *unit = to);
                }
            }
        }
    }
    let mut units: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for (member, unit) in unit_of.iter().enumerate() {
        units.entry(*unit).or_default().push(member);
    }
    let mut kinds: Vec<(Option<Question>, Kind)> = Vec::new();
    for members in units.into_values() {
        let pod: &Pod = model.members[members[0]].pod;
        let question =
            (members.len() == 1).then(|| Question::of(model.cluster, pod.shape(), &shared));
        let like = |own: &&mut (Option<Question>, Kind)| question.is_some() && own.0 == question;
        if let Some((_, kind)) = kinds.iter_mut().find(like) {
            kind.units += 1;
            continue;
        }
        let mut ask = vec![0_i64; model.width()];
        for member in &members {
            let class = &model.classes[model.members[*member].class];
            for (sum, ask) in ask.iter_mut().zip(&class.ask) {
                *sum = sum.saturating_add(*ask);
            }
        }
        let kind = Kind {
            pod: pod.name.clone(),
            units: 1,
            pods: members.len() as u32,
            ask,
            classes: members.iter().map(|member| model.members[*member].class).collect(),
            specs: members.iter().flat_map(|member| claims[*member].iter().copied()).collect(),
        };
        kinds.push((question, kind));
    }
    Some((kinds.into_iter().map(|(_, kind)| kind).collect(), specs))
}

/// A count of units on nodes, with what is left of its work.
struct Count<'m, 'a> {
    model: &'m Problem<'a>,
    bundles: &'m Bundles,
    asked: &'m mut u64,
    tried: &'m mut u64,
    sums: &'m mut u64,
}

impl Count<'_, '_> {
    /// The most pods of some kinds that all nodes serve. `None` if all can be served, or that takes
    /// too long to find out.
    fn most(&mut self, kinds: &[&Kind]) -> Option<u32> {
        let mut states = 1_usize;
        let mut strides = Vec::with_capacity(kinds.len());
        for kind in kinds {
            strides.push(states);
            states = states.checked_mul(kind.units + 1).filter(|states| *states <= STATES)?;
        }
        let of = |state: usize, kind: usize| state / strides[kind] % (kinds[kind].units + 1);
        let mut reached = vec![false; states];
        reached[0] = true;
        for node in 0..self.model.rows.len() as u32 {
            let served = self.served(kinds, node)?;
            *self.sums = self.sums.checked_sub((served.len() * states) as u64)?;
            for state in (0..states).rev() {
                if !reached[state] {
                    continue;
                }
                for units in &served {
                    let fits = units.iter().enumerate();
                    let mut fits = fits.map(|(at, own)| (at, of(state, at) + own));
                    if fits.all(|(at, sum)| sum <= kinds[at].units) {
                        let more: usize = units.iter().zip(&strides).map(|(a, b)| a * b).sum();
                        reached[state + more] = true;
                    }
                }
            }
            if reached[states - 1] {
                return None;
            }
        }
        let pods = |state: usize| {
            let all = kinds.iter().enumerate();
            all.map(|(at, kind)| of(state, at) as u32 * kind.pods).sum::<u32>()
        };
        (0..states).filter(|state| reached[*state]).map(pods).max()
    }

    /// The combinations of units that a node serves, that of none left out.
    fn served(&mut self, kinds: &[&Kind], node: u32) -> Option<Vec<Vec<usize>>> {
        let model = self.model;
        let Some(view) = model.cluster.view(model.rows[node as usize]) else {
            return Some(Vec::new());
        };
        let free: Vec<i64> = model.free(node).collect();
        let welcome = |kind: &&Kind| kind.classes.iter().all(|class| model.fits(*class, node) > 0);
        let welcome: Vec<bool> = kinds.iter().map(welcome).collect();
        let mut all: Vec<Vec<usize>> = Vec::new();
        let mut open = vec![(vec![0; kinds.len()], 0)];
        while let Some((units, from)) = open.pop() {
            for at in from..kinds.len() {
                if !welcome[at] || units[at] == kinds[at].units {
                    continue;
                }
                let mut more = units.clone();
                more[at] += 1;
                let mut taken = vec![0_i64; model.width()];
                let mut bundle = Vec::new();
                for (kind, count) in kinds.iter().zip(&more) {
                    for (taken, ask) in taken.iter_mut().zip(&kind.ask) {
                        *taken = taken.saturating_add(ask.saturating_mul(*count as i64));
                    }
                    bundle.extend((0..*count).flat_map(|_| kind.specs.iter().copied()));
                }
                let is_over = |(taken, free): (&i64, &i64)| *taken > 0 && taken > free;
                if taken.iter().zip(&free).any(is_over) {
                    continue;
                }
                *self.asked = self.asked.checked_sub(1)?;
                if self.bundles.serves(model.cluster, view, &bundle, self.tried)? {
                    all.push(more.clone());
                    open.push((more, at));
                }
            }
        }
        Some(all)
    }
}
