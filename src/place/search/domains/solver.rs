//! State of the search for domains.

use alloc::collections::BTreeMap;
use alloc::rc::Rc;
use alloc::vec::Vec;

use super::domain::Domain;
use crate::base::hash::FixedMap;
use crate::place::search::parts::Parts;
use crate::place::search::problem::Problem;
use crate::place::topology::pinned::Home;

/// No node.
pub(crate) const NOWHERE: u32 = u32::MAX;

/// The decision for a part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Choice {
    Open,
    /// A domain, and its place among the candidates.
    In {
        domain: usize,
        place: usize,
    },
    /// Left out.
    Out,
}

/// State of a search for domains: what is known of the instance, and what was decided so far.
pub(crate) struct Solver<'m, 'a> {
    pub(crate) model: &'m mut Problem<'a>,
    pub(crate) parts: &'m Parts<'a>,
    pub(crate) order: Vec<usize>,
    pub(crate) keys: Vec<&'a str>,
    pub(crate) domains: Vec<Domain>,
    pub(crate) splits: FixedMap<(usize, usize), Rc<[usize]>>,
    pub(crate) candidates: FixedMap<(usize, usize), Rc<[usize]>>,
    /// For each part and key: the domain of its running members.
    pub(crate) homes: BTreeMap<(usize, usize), Home>,
    pub(crate) choices: Vec<Choice>,
    /// How much may still be left out, a part each.
    pub(crate) slack: Vec<u32>,
    /// The node of each member.
    pub(crate) places: Vec<u32>,
    pub(crate) taken: Taken,
    /// Dimensions, scarcest first.
    pub(crate) dimensions: Vec<usize>,
    pub(crate) never: FixedMap<Vec<i64>, ()>,
    pub(crate) complete: bool,
    /// The most members placed at once, with their nodes.
    pub(crate) best: (usize, Vec<u32>),
}

/// The amounts taken by the members placed, by node.
#[derive(Debug, Default)]
pub(crate) struct Taken {
    width: usize,
    places: FixedMap<u32, usize>,
    amounts: Vec<i64>,
}

impl Taken {
    pub(crate) fn new(width: usize) -> Taken {
        Taken { width, ..Taken::default() }
    }

    pub(crate) fn clear(&mut self) {
        self.places.clear();
        self.amounts.clear();
    }

    pub(crate) fn add(&mut self, node: u32, ask: &[i64], sign: i64) {
        let next = self.amounts.len();
        let place = *self.places.entry(node).or_insert(next);
        if place == next {
            self.amounts.resize(next + self.width, 0);
        }
        for (taken, ask) in self.amounts[place..place + self.width].iter_mut().zip(ask) {
            *taken = taken.saturating_add(sign * ask);
        }
    }

    pub(crate) fn on(&self, node: u32) -> Option<&[i64]> {
        let place = *self.places.get(&node)?;
        Some(&self.amounts[place..place + self.width])
    }
}
