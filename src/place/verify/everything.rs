//! Searching through everything, plainly: every state that can be reached is collected.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec;
use alloc::vec::Vec;

use super::{Ask, Check, Flaw};
use crate::framework::device_choice::choose_for;
use crate::framework::{Context, Evaluation, Preparation, Reach};
use crate::model::resources::PODS;
use crate::model::{Pod, PodGroup, PodShape};
use crate::place::error::PlaceError;
use crate::state::{Devices, Row, Txn};

/// States that a repeated search may collect.
const STATES: usize = 400_000;

/// Equal pods of one group in one domain.
struct Kind<'a> {
    leaf: usize,
    group: &'a PodGroup,
    shape: &'a PodShape,
    pods: Vec<&'a Pod>,
    rows: Vec<Row>,
}

/// Where a pod is, and the devices it has: which ones depends on who came before it.
type Place = (Row, Option<Devices>);

/// A search through everything.
pub(super) struct Everything<'c, 'a> {
    check: &'c Check<'a>,
    states: usize,
}

impl<'c, 'a> Everything<'c, 'a> {
    pub(super) fn new(check: &'c Check<'a>) -> Everything<'c, 'a> {
        Everything { check, states: 0 }
    }

    /// Whether an ask can be placed on some rows.
    pub(super) fn places(&mut self, ask: &Ask<'a>, rows: &[Row]) -> Result<bool, Flaw> {
        self.decide(&mut vec![(ask.clone(), rows.to_vec())], &mut Vec::new(), &ask.name)
    }

    /// Decides what is open: leaves are collected, groups inside are taken or left, each in every
    /// domain.
    fn decide(
        &mut self,
        open: &mut Vec<(Ask<'a>, Vec<Row>)>,
        leaves: &mut Vec<(Ask<'a>, Vec<Row>)>,
        name: &str,
    ) -> Result<bool, Flaw> {
        let Some((ask, rows)) = open.pop() else {
            return self.packs(leaves, name);
        };
        let found = if ask.inside.is_empty() {
            leaves.push((ask.clone(), rows.clone()));
            let found = self.decide(open, leaves, name);
            leaves.pop();
            found?
        } else {
            self.take(&ask, &rows, 0, 0, open, leaves, name)?
        };
        open.push((ask, rows));
        Ok(found)
    }

    #[allow(clippy::too_many_arguments)]
    fn take(
        &mut self,
        ask: &Ask<'a>,
        rows: &[Row],
        next: usize,
        weight: u32,
        open: &mut Vec<(Ask<'a>, Vec<Row>)>,
        leaves: &mut Vec<(Ask<'a>, Vec<Row>)>,
        name: &str,
    ) -> Result<bool, Flaw> {
        let Some(inner) = ask.inside.get(next) else {
            return Ok(weight >= ask.need && self.decide(open, leaves, name)?);
        };
        // A leader goes where the first of those it leads goes.
        let leads = inner.group.leader && !inner.slice;
        let led = ask.inside.iter().find(|other| !other.group.leader).filter(|_| leads);
        let domain_of = |led: &Ask<'a>| {
            open.iter()
                .rev()
                .find(|(other, _)| other.name == led.name)
                .map(|(_, rows)| rows.clone())
        };
        let places = match led.and_then(domain_of) {
            Some(rows) => vec![rows],
            None => {
                self.check.candidates(inner, rows).into_iter().map(|(_, _, rows)| rows).collect()
            }
        };
        for place in places {
            self.spend(name)?;
            open.push((inner.clone(), place));
            let found =
                self.take(ask, rows, next + 1, weight + inner.weight, open, leaves, name)?;
            open.pop();
            if found {
                return Ok(true);
            }
        }
        let idle = if inner.need == 0 { inner.weight } else { 0 };
        self.take(ask, rows, next + 1, weight + idle, open, leaves, name)
    }

    fn spend(&mut self, name: &str) -> Result<(), Flaw> {
        self.states += 1;
        if self.states > STATES { Err(Flaw::TooLarge(name.into())) } else { Ok(()) }
    }

    /// Whether the leaves can be placed together, each in its domain.
    fn packs(&mut self, leaves: &[(Ask<'a>, Vec<Row>)], name: &str) -> Result<bool, Flaw> {
        let mut kinds: Vec<Kind<'a>> = Vec::new();
        for (leaf, (ask, rows)) in leaves.iter().enumerate() {
            for &pod in &ask.pods {
                let like = |kind: &&mut Kind<'a>| kind.leaf == leaf && kind.shape == &**pod.shape();
                match kinds.iter_mut().find(like) {
                    Some(kind) => kind.pods.push(pod),
                    None => kinds.push(Kind {
                        leaf,
                        group: ask.group,
                        shape: pod.shape(),
                        pods: vec![pod],
                        rows: rows.clone(),
                    }),
                }
            }
        }
        let needs: Vec<u32> = leaves.iter().map(|(ask, _)| ask.need).collect();
        if kinds.iter().all(|kind| self.is_plain(kind)) {
            self.by_nodes(&kinds, &needs, name)
        } else {
            self.by_orders(&kinds, &needs, name)
        }
    }

    /// Whether room and constant filters are all there is.
    fn is_plain(&self, kind: &Kind<'a>) -> bool {
        self.check.framework.filters().iter().all(|filter| {
            let declared = filter.declare(kind.shape);
            let cx = Context::new(self.check.cluster, kind.shape);
            declared.reach == Reach::Static
                || declared.room
                || declared.reach == Reach::Node && matches!(filter.prepare(&cx), Preparation::Skip)
        })
    }

    /// All vectors of numbers placed that can be reached, node by node.
    fn by_nodes(&mut self, kinds: &[Kind<'a>], needs: &[u32], name: &str) -> Result<bool, Flaw> {
        let check = self.check;
        let rows: BTreeSet<Row> = kinds.iter().flat_map(|kind| kind.rows.iter().copied()).collect();
        let mut reached: BTreeSet<Vec<u32>> = BTreeSet::from([vec![0; kinds.len()]]);
        for row in rows {
            let takes: Vec<bool> = kinds
                .iter()
                .map(|kind| {
                    kind.rows.contains(&row) && check.count(kind.group, kind.shape, &[row]) > 0
                })
                .collect();
            let mut next = reached.clone();
            let mut fresh: Vec<Vec<u32>> = reached.into_iter().collect();
            // From each state one pod more on this node, while what the node got has room.
            let mut here: Vec<Vec<u32>> = vec![vec![0; kinds.len()]; fresh.len()];
            let mut seen: BTreeSet<(Vec<u32>, Vec<u32>)> = BTreeSet::new();
            while let (Some(state), Some(got)) = (fresh.pop(), here.pop()) {
                for kind in (0..kinds.len()).filter(|&kind| takes[kind]) {
                    let mut got = got.clone();
                    got[kind] += 1;
                    let mut state = state.clone();
                    state[kind] += 1;
                    if state[kind] as usize > kinds[kind].pods.len()
                        || !self.has_room(kinds, &got, row)
                        || !seen.insert((state.clone(), got.clone()))
                    {
                        continue;
                    }
                    self.spend(name)?;
                    next.insert(state.clone());
                    fresh.push(state);
                    here.push(got);
                }
            }
            reached = next;
        }
        Ok(reached.iter().any(|state| met(kinds, needs, |kind| state[kind])))
    }

    fn has_room(&self, kinds: &[Kind<'a>], got: &[u32], row: Row) -> bool {
        let mut taken: BTreeMap<&str, i64> = BTreeMap::new();
        let mut pods = 0;
        for (kind, &count) in kinds.iter().zip(got) {
            if self.check.judges_room(kind.shape) {
                pods += i64::from(count);
                for (name, amount) in kind.shape.requests.iter() {
                    let sum = taken.entry(name).or_default();
                    *sum = sum.saturating_add(amount.saturating_mul(i64::from(count)));
                }
            }
        }
        let fits =
            |(name, amount): (&&str, &i64)| *amount <= 0 || *amount <= self.check.free(row, name);
        pods <= self.check.free(row, PODS).max(0) && taken.iter().all(fits)
    }

    /// All placements in all orders, every filter asked at every step.
    fn by_orders(&mut self, kinds: &[Kind<'a>], needs: &[u32], name: &str) -> Result<bool, Flaw> {
        let mut txn = self.check.cluster.txn();
        let mut places: Vec<Vec<Place>> = vec![Vec::new(); kinds.len()];
        let mut seen = BTreeSet::new();
        self.step(&mut txn, kinds, needs, &mut places, &mut seen, name)
    }

    fn step(
        &mut self,
        txn: &mut Txn,
        kinds: &[Kind<'a>],
        needs: &[u32],
        places: &mut Vec<Vec<Place>>,
        seen: &mut BTreeSet<Vec<Vec<Place>>>,
        name: &str,
    ) -> Result<bool, Flaw> {
        if met(kinds, needs, |kind| places[kind].len() as u32) {
            return Ok(true);
        }
        for (number, kind) in kinds.iter().enumerate() {
            let Some(&pod) = kind.pods.get(places[number].len()) else { continue };
            for &row in &kind.rows {
                self.spend(name)?;
                let Check { framework, now, .. } = *self.check;
                let judged = Evaluation::new(framework, txn, kind.shape, Some(kind.group), now);
                if txn.view(row).is_none_or(|node| judged.filter(node).is_err()) {
                    continue;
                }
                let chosen = choose_for(framework, txn, kind.shape, row);
                let Ok(devices) = chosen else { continue };
                let before = txn.checkpoint();
                txn.place_with(pod, row, devices.clone()).map_err(PlaceError::from)?;
                places[number].push((row, devices));
                let mut state = places.clone();
                for places in &mut state {
                    places.sort_unstable();
                }
                let found =
                    seen.insert(state) && self.step(txn, kinds, needs, places, seen, name)?;
                places[number].pop();
                txn.rollback(before).map_err(PlaceError::from)?;
                if found {
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }
}

/// Whether every leaf has what it needs.
fn met(kinds: &[Kind<'_>], needs: &[u32], placed: impl Fn(usize) -> u32) -> bool {
    needs.iter().enumerate().all(|(leaf, need)| {
        let own = kinds.iter().enumerate().filter(|(_, kind)| kind.leaf == leaf);
        own.map(|(kind, _)| placed(kind)).sum::<u32>() >= *need
    })
}
