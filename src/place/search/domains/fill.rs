//! Packings of members into the domains chosen.

use alloc::vec;
use alloc::vec::Vec;

use super::solver::{Choice, NOWHERE, Solver};
use crate::place::search::packing::{Demand, Packed, Packing};

impl Solver<'_, '_> {
    /// Packs the members of a part into a domain, together with those that share nodes with it.
    /// `None` if the steps ran out.
    pub(crate) fn pack(
        &mut self,
        part: usize,
        domain: usize,
        undo: &mut Vec<(usize, u32)>,
        steps: &mut u64,
        quota: u64,
    ) -> Option<bool> {
        let neighbours = self.neighbours(part, domain);
        if neighbours.len() > 1 {
            let (packing, members, nodes) = self.packing(&[part]);
            if let Some(Packed::Fits(found)) = packing.easily() {
                self.put(&found, members, &nodes, undo);
                return Some(true);
            }
            for &other in &neighbours {
                for &member in &self.parts.parts[other].members {
                    undo.push((member, self.places[member]));
                }
            }
            for &(member, _) in undo.iter() {
                self.set_place(member, NOWHERE);
            }
        }
        let (packing, members, nodes) = self.packing(&neighbours);
        let packed = packing.easily().unwrap_or_else(|| {
            let signature = packing.signature();
            if self.never.contains_key(&signature) {
                return Packed::Never;
            }
            let mut own_steps = quota.min(*steps);
            let before = own_steps;
            let packed = packing.complete(&mut own_steps);
            *steps -= before - own_steps;
            if packed == Packed::Never {
                self.never.insert(signature, ());
            }
            packed
        });
        match packed {
            Packed::Fits(found) => {
                self.put(&found, members, &nodes, undo);
                Some(true)
            }
            Packed::Never => {
                self.put_back(undo);
                Some(false)
            }
            Packed::Unknown => {
                self.put_back(undo);
                None
            }
        }
    }

    /// The parts with members that share nodes with a part in a domain, directly or through
    /// others, itself among them.
    fn neighbours(&self, part: usize, domain: usize) -> Vec<usize> {
        let mut found = vec![(part, domain)];
        let mut next = 0;
        while let Some(&(_, domain)) = found.get(next) {
            next += 1;
            for &other in &self.order {
                let own = &self.parts.parts[other];
                let Choice::In { domain: theirs, .. } = self.choices[other] else { continue };
                if own.members.is_empty()
                    || own.need == 0
                    || found.iter().any(|(known, _)| *known == other)
                {
                    continue;
                }
                if theirs == domain || self.overlap(theirs, domain) {
                    found.push((other, theirs));
                }
            }
        }
        found.into_iter().map(|(part, _)| part).collect()
    }

    /// The packing of some parts on what is left free in their domains; the members of each
    /// demand, and the node of each bin.
    fn packing(&mut self, parts: &[usize]) -> (Packing, Vec<Vec<usize>>, Vec<u32>) {
        let mut packing = Packing { width: self.model.full_width(), ..Packing::default() };
        // Parts of which all is needed share one quota that leaves none out.
        packing.slack.push(0);
        let mut members: Vec<Vec<usize>> = Vec::new();
        let mut homes: Vec<(usize, usize)> = Vec::new();
        for &part in parts {
            let own = &self.parts.parts[part];
            let Choice::In { domain, .. } = self.choices[part] else { continue };
            let quota = if own.need >= own.all {
                0
            } else {
                packing.slack.push(own.all - own.need);
                packing.slack.len() - 1
            };
            for &member in &own.members {
                let class = self.model.members[member].class;
                let known = (0..homes.len()).rev().find(|&demand| {
                    homes[demand] == (class, domain) && packing.demands[demand].quota == quota
                });
                let demand = known.unwrap_or_else(|| {
                    let ask = self.model.classes[class].ask.clone();
                    packing.demands.push(Demand { ask, count: 0, quota });
                    members.push(Vec::new());
                    homes.push((class, domain));
                    homes.len() - 1
                });
                packing.demands[demand].count += 1;
                members[demand].push(member);
            }
        }
        let mut doms: Vec<usize> = homes.iter().map(|(_, domain)| *domain).collect();
        doms.sort_unstable();
        doms.dedup();
        let nodes: Vec<u32> = if let [only] = doms[..] {
            self.domains[only].nodes.to_vec()
        } else {
            let all = doms.iter().flat_map(|&domain| self.domains[domain].nodes.iter().copied());
            let mut nodes: Vec<u32> = all.collect();
            nodes.sort_unstable();
            nodes.dedup();
            nodes
        };
        let mut bins = Vec::with_capacity(nodes.len());
        for node in nodes {
            let first = packing.allow.len();
            let mut any = false;
            for &(class, domain) in &homes {
                let allowed = (doms.len() == 1 || self.contains(domain, node))
                    && self.model.fits(class, node) > 0;
                any |= allowed;
                packing.allow.push(allowed);
            }
            if !any {
                packing.allow.truncate(first);
                continue;
            }
            packing.free.extend(self.model.full_free(node));
            if let Some(taken) = self.taken.on(node) {
                let first = packing.free.len() - taken.len();
                for (free, taken) in packing.free[first..].iter_mut().zip(taken) {
                    *free = free.saturating_sub(*taken);
                }
            }
            bins.push(node);
        }
        (packing, members, bins)
    }

    /// Sets the nodes of members as packed.
    fn put(
        &mut self,
        found: &[(usize, usize, u32)],
        mut members: Vec<Vec<usize>>,
        nodes: &[u32],
        undo: &mut Vec<(usize, u32)>,
    ) {
        for list in &mut members {
            list.reverse();
        }
        let fresh = undo.is_empty();
        for &(demand, bin, count) in found {
            for _ in 0..count {
                if let Some(member) = members[demand].pop() {
                    if fresh {
                        undo.push((member, NOWHERE));
                    }
                    self.set_place(member, nodes[bin]);
                }
            }
        }
    }

    /// Restores the nodes of members, and empties the list.
    pub(crate) fn put_back(&mut self, undo: &mut Vec<(usize, u32)>) {
        for (member, _) in undo.iter() {
            self.set_place(*member, NOWHERE);
        }
        for (member, place) in undo.drain(..) {
            self.set_place(member, place);
        }
    }

    fn set_place(&mut self, member: usize, node: u32) {
        let class = self.model.members[member].class;
        let ask = &self.model.classes[class].ask;
        let old = core::mem::replace(&mut self.places[member], node);
        for (node, sign) in [(old, -1), (node, 1)] {
            if node != NOWHERE {
                self.taken.add(node, ask, sign);
            }
        }
    }
}
