//! Bounds: parts that sums and counts rule out of a domain.

use alloc::rc::Rc;
use alloc::vec::Vec;

use super::solver::{Choice, Solver};
use crate::place::numbers::times;

/// Pods of which each takes `each` or more in a dimension: `need` must fit, `fits` do.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Crowd {
    pub(crate) dimension: usize,
    pub(crate) each: i64,
    pub(crate) need: u32,
    pub(crate) fits: u32,
}

impl Solver<'_, '_> {
    /// Whether sums and counts allow a part in a domain. "No" is certain.
    pub(crate) fn possible(&mut self, part: usize, domain: usize) -> bool {
        let own = &self.parts.parts[part];
        let sums = &self.domains[domain].sums;
        own.least.iter().zip(sums).all(|(least, sum)| least <= sum)
            && self.capacity(part, domain) >= i64::from(own.need)
    }

    /// Large pods that cannot all be there, each node by itself, whichever of them it gets: of some
    /// resource each takes so much or more. "No" is certain. Only members that differ are bounded
    /// so; equal ones are counted. O(nodes · kinds · resources).
    pub(crate) fn crowd(&mut self, part: usize, domain: usize) -> Option<Crowd> {
        let parts = self.parts;
        let (own, kinds) = (&parts.parts[part], parts.classes(part));
        if kinds.len() < 2 {
            return None;
        }
        let spare = own.all - own.need.min(own.all);
        let model = &*self.model;
        let ask = |class: usize| &model.classes[class].ask;
        for dimension in 1..model.width() {
            let mut sizes: Vec<i64> = kinds.iter().map(|kind| ask(kind.0)[dimension]).collect();
            sizes.sort_unstable();
            sizes.dedup();
            for each in sizes.into_iter().rev().filter(|each| *each > 0) {
                let large = || kinds.iter().filter(|kind| ask(kind.0)[dimension] >= each);
                let need = large().map(|kind| kind.1).sum::<u32>().saturating_sub(spare);
                let least: Vec<i64> = (0..model.width())
                    .map(|other| large().map(|kind| ask(kind.0)[other]).min().unwrap_or(0))
                    .collect();
                let mut fits = 0;
                for &node in &*self.domains[domain].nodes {
                    fits += u64::from(times(model.free(node), &least));
                    if fits >= u64::from(need) {
                        break;
                    }
                }
                if fits < u64::from(need) {
                    return Some(Crowd { dimension, each, need, fits: fits as u32 });
                }
            }
        }
        None
    }

    /// At most so much of a part fits in a domain: of members, or of the weight of children.
    pub(crate) fn capacity(&mut self, part: usize, domain: usize) -> i64 {
        let parts = self.parts;
        let own = &parts.parts[part];
        if own.children.is_empty() {
            let classes = parts.classes(part);
            return classes
                .iter()
                .map(|&(class, count)| self.count(class, domain).min(i64::from(count)))
                .sum();
        }
        let mut capacity = 0;
        for &child in own.children.iter().filter(|&&child| parts.head(child) == child) {
            let twins = parts.twins(child);
            let copies = if parts.parts[child].need == 0 {
                twins
            } else {
                self.copies_within(child, domain, twins)
            };
            capacity += copies * i64::from(parts.parts[child].weight);
        }
        capacity
    }

    /// At most so many copies of a part fit in the domains it may have within another.
    fn copies_within(&mut self, part: usize, within: usize, enough: i64) -> i64 {
        let mut copies = 0;
        for key in &self.parts.parts[part].keys {
            for domain in self.tier(part, within, *key) {
                copies += self.copies(part, domain, enough);
                if copies >= enough {
                    return enough;
                }
            }
        }
        copies
    }

    /// At most so many copies of a part fit in a domain.
    fn copies(&mut self, part: usize, domain: usize, enough: i64) -> i64 {
        if !self.possible(part, domain) {
            return 0;
        }
        let parts = self.parts;
        let own = &parts.parts[part];
        let sums = self.domains[domain].sums.iter().zip(&own.least);
        let mut copies = enough;
        for (sum, least) in sums.filter(|(_, least)| **least > 0) {
            copies = copies.min(sum / least);
        }
        for &(class, count) in parts.required(part) {
            copies = copies.min(self.count(class, domain) / i64::from(count.max(1)));
        }
        if own.need == own.all
            && let [first, ..] = own.children[..]
            && parts.twins(first) == own.children.len() as i64
        {
            let each = own.children.len() as i64;
            let wanted = copies.saturating_mul(each);
            copies = copies.min(self.copies_within(first, domain, wanted) / each);
        }
        copies
    }

    /// Whether the candidates from a place on can hold as many of the twins as must still go
    /// somewhere. "No" is certain.
    pub(crate) fn twins_fit(
        &mut self,
        part: usize,
        candidates: &Rc<[usize]>,
        place: usize,
    ) -> bool {
        let parts = self.parts;
        let own = &parts.parts[part];
        let after = parts.twins_after(part);
        if after == 0 && own.twin.is_none() || own.need == 0 {
            return true;
        }
        let spare = i64::from(self.slack[own.parent] / own.weight.max(1));
        let wanted = after + 1 - spare;
        let mut here = 0;
        let mut twin = own.twin;
        while let Some(other) = twin {
            match self.choices[other] {
                Choice::In { place: chosen, .. } if chosen == place => here += 1,
                _ => break,
            }
            twin = parts.parts[other].twin;
        }
        let mut copies = -here;
        for &domain in &candidates[place..] {
            if copies >= wanted {
                break;
            }
            copies += self.copies(part, domain, wanted + here);
        }
        copies >= wanted
    }
}
