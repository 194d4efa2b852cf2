//! Domains for every part, by backtracking over domains and packing the members of each.
//!
//! `solver` is the state; `split` makes domains, `bounds` rules them out by sums and counts, `fill`
//! packs members into them.

pub(crate) mod bounds;
mod domain;
mod fill;
mod solver;
mod split;

use alloc::collections::BTreeMap;
use alloc::rc::Rc;
use alloc::vec;
use alloc::vec::Vec;

use self::solver::Taken;
pub(crate) use self::solver::{Choice, NOWHERE, Solver};
use super::parts::Parts;
use super::problem::Problem;
use crate::base::hash::FixedMap;
use crate::place::error::PlaceError;
use crate::place::topology::pinned::{Home, home, running};
use crate::place::topology::tiers::{DomainKey, DomainSense};
use crate::state::LabelValue;

/// The result of a run of the solver.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Solved {
    Found,
    Never,
    Unknown,
}

/// Evaluates what a solver has found.
pub(crate) type Accept<'f, 'm, 'a> =
    dyn FnMut(&mut Solver<'m, 'a>, &mut u64) -> Result<Option<bool>, PlaceError> + 'f;

/// A part being decided, and the choices not yet made.
struct Frame {
    candidates: Rc<[usize]>,
    next: usize,
    taken: Choosing,
    /// The parent is left out, so this is.
    inherits: bool,
    /// Members and their nodes before the choice, to restore when it is taken back.
    undo: Vec<(usize, u32)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Choosing {
    Nothing,
    Domain,
    Out { charged: bool },
}

impl<'m, 'a> Solver<'m, 'a> {
    pub(crate) fn new(
        model: &'m mut Problem<'a>,
        parts: &'m Parts<'a>,
    ) -> Result<Solver<'m, 'a>, PlaceError> {
        let members = model.members.len();
        let mut solver = Solver {
            order: parts.order(),
            keys: Vec::new(),
            domains: Vec::new(),
            splits: FixedMap::default(),
            candidates: FixedMap::default(),
            homes: BTreeMap::new(),
            choices: vec![Choice::Open; parts.parts.len()],
            slack: parts.parts.iter().map(|part| part.all.saturating_sub(part.need)).collect(),
            places: vec![NOWHERE; members],
            taken: Taken::new(model.full_width()),
            dimensions: Vec::new(),
            never: FixedMap::default(),
            complete: true,
            best: (0, vec![NOWHERE; members]),
            model,
            parts,
        };
        solver.add_whole();
        let (least, sums) = (&parts.parts[0].least, &solver.domains[0].sums);
        let mut dimensions: Vec<usize> = (0..solver.model.width()).collect();
        // needed / free, without fractions; the number of pods last among equals.
        dimensions.sort_by(|&a, &b| {
            let cross = |x: usize, y: usize| i128::from(least[x]) * i128::from(sums[y].max(1));
            cross(b, a).cmp(&cross(a, b)).then(b.cmp(&a))
        });
        solver.dimensions = dimensions;
        solver.find_homes()?;
        Ok(solver)
    }

    pub(crate) fn key_place(&mut self, key: &'a str) -> usize {
        let known = self.keys.iter().position(|known| *known == key);
        known.unwrap_or_else(|| {
            self.keys.push(key);
            self.keys.len() - 1
        })
    }

    fn find_homes(&mut self) -> Result<(), PlaceError> {
        let cluster = self.model.cluster;
        for place in 0..self.parts.parts.len() {
            let part = &self.parts.parts[place];
            let leaders = self.parts.leaders(place);
            let mut pinning = leaders.iter().copied().chain([part.group]);
            if part.slice.is_some() || pinning.all(|group| running(cluster, group) == 0) {
                continue;
            }
            for key in part.keys.iter().flatten() {
                let domain_key = self.domain_key(place, key);
                let home = home(cluster, (part.group, &leaders), key, domain_key.as_ref())?;
                let key = self.key_place(key);
                self.homes.insert((place, key), home);
            }
        }
        Ok(())
    }

    /// A key that a part is confined by.
    pub(crate) fn domain_key(&self, part: usize, key: &str) -> Option<DomainKey> {
        let require = self.parts.require(part);
        DomainKey::new(self.model.cluster, DomainSense::Path, require, key)
    }

    /// Searches for domains and nodes, with at most `quota` steps a packing. Each solution is
    /// evaluated by `accept`, which returns whether to stop there; `None` if its steps ran out.
    pub(crate) fn run(
        &mut self,
        steps: &mut u64,
        quota: u64,
        accept: &mut Accept<'_, 'm, 'a>,
    ) -> Result<Solved, PlaceError> {
        self.reset();
        self.complete = true;
        let mut frames: Vec<Frame> = Vec::with_capacity(self.order.len());
        loop {
            if frames.len() == self.order.len() {
                self.note_best();
                match accept(self, steps)? {
                    Some(true) => return Ok(Solved::Found),
                    Some(false) => {}
                    None => self.complete = false,
                }
            } else {
                let frame = self.open(frames.len());
                frames.push(frame);
            }
            // Go on from the deepest part that has another choice.
            loop {
                let at = frames.len().saturating_sub(1);
                let Some(frame) = frames.last_mut() else {
                    return Ok(if self.complete { Solved::Never } else { Solved::Unknown });
                };
                if *steps == 0 {
                    return Ok(Solved::Unknown);
                }
                *steps -= 1;
                self.note_best();
                if self.advance(at, frame, steps, quota) {
                    break;
                }
                frames.pop();
            }
        }
    }

    fn reset(&mut self) {
        self.choices.fill(Choice::Open);
        self.places.fill(NOWHERE);
        self.taken.clear();
        for (slack, part) in self.slack.iter_mut().zip(&self.parts.parts) {
            *slack = part.all.saturating_sub(part.need);
        }
    }

    fn note_best(&mut self) {
        let placed = self.places.iter().filter(|place| **place != NOWHERE).count();
        if placed > self.best.0 {
            self.best = (placed, self.places.clone());
        }
    }

    /// A frame for the part at a place of the order.
    fn open(&mut self, at: usize) -> Frame {
        let part = self.order[at];
        let own = &self.parts.parts[part];
        let none: Rc<[usize]> = Rc::new([]);
        let within = match self.choices[own.parent] {
            _ if part == 0 => Some(0),
            Choice::In { domain, .. } => Some(domain),
            Choice::Open | Choice::Out => None,
        };
        let (candidates, next) = match within {
            None => (none, 0),
            Some(within) => {
                let candidates = self.candidates(part, within);
                // Twins are chosen for in order, so that no pair of choices is tried twice.
                let next = match own.twin.map(|twin| self.choices[twin]) {
                    Some(Choice::In { place, .. }) => place,
                    Some(Choice::Out) => candidates.len(),
                    _ => 0,
                };
                (candidates, next)
            }
        };
        let inherits = within.is_none();
        Frame { candidates, next, taken: Choosing::Nothing, inherits, undo: Vec::new() }
    }

    /// Takes back the frame's choice, and makes its next one. Returns whether there was one.
    fn advance(&mut self, at: usize, frame: &mut Frame, steps: &mut u64, quota: u64) -> bool {
        let part = self.order[at];
        let own = &self.parts.parts[part];
        let taken = core::mem::replace(&mut frame.taken, Choosing::Nothing);
        self.choices[part] = Choice::Open;
        match taken {
            Choosing::Nothing => {}
            Choosing::Domain => self.put_back(&mut frame.undo),
            Choosing::Out { charged } => {
                if charged {
                    self.slack[own.parent] += own.weight;
                }
                return false;
            }
        }
        while let Some(&domain) = frame.candidates.get(frame.next) {
            let place = frame.next;
            frame.next += 1;
            if *steps == 0 {
                self.complete = false;
                return false;
            }
            *steps -= 1;
            if !self.twins_fit(part, &frame.candidates, place) {
                continue;
            }
            self.choices[part] = Choice::In { domain, place };
            let fits = if own.members.is_empty() || own.need == 0 {
                Some(true)
            } else {
                self.pack(part, domain, &mut frame.undo, steps, quota)
            };
            match fits {
                Some(true) => {
                    frame.taken = Choosing::Domain;
                    return true;
                }
                Some(false) => {}
                None => self.complete = false,
            }
            self.choices[part] = Choice::Open;
        }
        // It may be left out if its parent is, if nothing is asked of it any more, or if enough
        // others are left.
        if self.parts.is_forced(part) {
            return false;
        }
        let charged = !frame.inherits && own.need > 0;
        if charged {
            if part == 0 || self.slack[own.parent] < own.weight {
                return false;
            }
            self.slack[own.parent] -= own.weight;
        }
        self.choices[part] = Choice::Out;
        frame.taken = Choosing::Out { charged };
        true
    }

    /// The domains a part may go to within another, best first; those that cannot hold it are
    /// left out.
    fn candidates(&mut self, part: usize, within: usize) -> Rc<[usize]> {
        let own = &self.parts.parts[part];
        // A leader stays in the domain of the sibling it leads, and keeps what it requires itself.
        let within = match self.parts.led_by(part).map(|led| (led, self.choices[led])) {
            Some((_, Choice::In { domain, .. })) => domain,
            Some((led, _)) if let Some(home) = self.led_home(led, within) => home,
            Some(_) => return Rc::new([]),
            None => within,
        };
        let head = self.parts.head(part);
        if let Some(known) = self.candidates.get(&(head, within)) {
            return Rc::clone(known);
        }
        let mut found = Vec::new();
        for key in &own.keys {
            let mut tier = self.tier(part, within, *key);
            tier.retain(|&domain| {
                self.possible(part, domain) && self.crowd(part, domain).is_none()
            });
            // The best score first, then the least room; they are in order of name.
            let scores = self.domain_scores(part, &tier);
            let mut ordered: Vec<(i64, usize)> = scores.into_iter().zip(tier).collect();
            ordered.sort_by(|a, b| {
                let room = |domain: usize| self.dimensions.iter().map(move |&d| (domain, d));
                let sums = |(domain, d): (usize, usize)| self.domains[domain].sums[d];
                b.0.cmp(&a.0).then_with(|| room(a.1).map(sums).cmp(room(b.1).map(sums)))
            });
            found.extend(ordered.into_iter().map(|(_, domain)| domain));
        }
        let found: Rc<[usize]> = found.into();
        self.candidates.insert((head, within), Rc::clone(&found));
        found
    }

    /// The domain that running members leave open to an omitted part, which its leaders share. It
    /// is the domain of its loosest key, or the whole where it has none or none runs.
    fn led_home(&mut self, led: usize, within: usize) -> Option<usize> {
        let parts = self.parts;
        let loosest = parts.parts[led].keys.last().copied().flatten();
        let is_pinned = loosest.is_some_and(|key| {
            let key = self.key_place(key);
            self.homes.get(&(led, key)).is_some_and(|home| *home != Home::Nowhere)
        });
        if !is_pinned {
            return Some(within);
        }
        self.tier(led, within, loosest).first().copied()
    }

    /// The key and the path of the domain that a part is confined to; where it is left out, of that
    /// which its running members leave open to its leaders.
    pub(crate) fn domain_of(&self, part: usize) -> Option<(&'a str, &[Option<LabelValue>])> {
        if let Choice::In { domain, .. } = self.choices[part] {
            let domain = &self.domains[domain];
            return Some((self.keys[domain.key?], &domain.path));
        }
        let own = &self.parts.parts[part];
        let loosest = own.keys.last().copied()??;
        if running(self.model.cluster, own.group) == 0 {
            return None;
        }
        let key = self.keys.iter().position(|key| *key == loosest)?;
        match self.homes.get(&(part, key)) {
            Some(Home::In(path)) => Some((loosest, path)),
            _ => None,
        }
    }

    /// The domains of one key within another domain that running members leave open.
    pub(crate) fn tier(&mut self, part: usize, within: usize, key: Option<&'a str>) -> Vec<usize> {
        let Some(key) = key else { return vec![within] };
        let Some(domain_key) = self.domain_key(part, key) else { return Vec::new() };
        let key = self.key_place(key);
        let mut tier = self.split(within, key).to_vec();
        let home = self.homes.get(&(part, key));
        tier.retain(|&domain| {
            let path = &self.domains[domain].path;
            domain_key.admits(path) && home.is_none_or(|home| home.allows(path))
        });
        tier
    }
}
