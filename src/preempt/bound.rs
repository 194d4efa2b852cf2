//! The least work that must still be lost, if units could be taken in parts.
//!
//! Work is counted in one of two ways, both of which no set of whole units undercuts:
//!
//! - **by amount**: what lacks of an amount in sum, from the units that give most of it for their
//!   work;
//! - **by member**: each unit's work is shared out over the nodes that it could help on, in
//!   proportion to what it gives there. The next member on a node costs what the cheapest shares on
//!   that node cost that make room for it, and so many members must come.

use alloc::vec::Vec;

use super::arena::{Arena, Counts};
use super::need::Need;

/// Pairs of an atom and a node up to which shares are looked at.
const MOST_PAIRS: usize = 4_096;

/// The work of atoms, shared out over nodes.
#[derive(Debug)]
pub(super) struct Shares {
    kind: usize,
    dimension: usize,
    ask: i64,
    /// Shares in order: the largest part for its work first.
    parts: Vec<Share>,
    /// The nodes on which members may find room.
    places: Vec<usize>,
    /// By node.
    rooms: Vec<Room>,
    members: Vec<u64>,
}

/// The useful part of what an atom frees on a node.
#[derive(Debug, Clone, Copy)]
struct Share {
    atom: u32,
    place: u32,
    amount: i64,
    /// The atom's work, and its useful amount on all nodes.
    work: u64,
    total: i64,
}

/// A node on which members are made room for, one after another.
#[derive(Debug, Clone, Copy, Default)]
struct Room {
    /// Members that there may still be room for.
    left: i64,
    /// The amount lacking for the next one.
    lacking: i64,
    /// Work lost for it so far.
    work: u64,
}

impl Shares {
    /// The shares of some atoms, by their places in the arena with their work; `most` is without
    /// all of them. `None` where no kind of member is known to be needed, or there are too many.
    pub(super) fn new(
        need: &Need<'_>,
        arena: &Arena<'_>,
        (now, most): (&Counts, &Counts),
        atoms: impl Iterator<Item = (usize, u64)>,
    ) -> Option<Shares> {
        let kind = now.most_lacking(need)?;
        if arena.pairs() > MOST_PAIRS || now.lacking(need, kind) == 0 {
            return None;
        }
        let ground = arena.ground;
        let nodes = 0..ground.rows.len();
        // The dimension that makes room for the fewest.
        let ask = &need.kinds[kind].ask;
        let members = |dimension: usize| -> i64 {
            let free = |place: usize| now.free(ground, place)[dimension].max(0) / ask[dimension];
            let open = nodes.clone().filter(|&place| most.fits(ground, kind, place) > 0);
            let here: i64 = open.map(|place| free(place).min(need.kinds[kind].count)).sum();
            here + ground.members_elsewhere(kind, dimension)
        };
        let dimensions = (0..need.width()).filter(|&dimension| ask[dimension] > 0);
        let dimension = dimensions.min_by_key(|&dimension| (members(dimension), dimension))?;
        let ask = ask[dimension];
        // No more than this is of use on a node.
        let useful = |place: usize| {
            let fits = most.fits(ground, kind, place);
            if fits <= now.fits(ground, kind, place) {
                return 0;
            }
            let room = fits.saturating_mul(ask);
            room.saturating_sub(now.free(ground, place)[dimension]).max(0)
        };
        let caps: Vec<i64> = nodes.clone().map(useful).collect();
        let mut shares: Vec<Share> = Vec::with_capacity(arena.pairs());
        for (at, work) in atoms {
            let begin = shares.len();
            let mut total = 0_i64;
            for (place, gains) in arena.gains(at) {
                let amount = gains[dimension].min(caps[place]);
                if amount > 0 {
                    total = total.saturating_add(amount);
                    let (atom, place) = (arena.atoms[at], place as u32);
                    shares.push(Share { atom, place, amount, work, total: 0 });
                }
            }
            for share in &mut shares[begin..] {
                share.total = total;
            }
        }
        let rate = |share: &Share| (u128::from(share.work) << 32) / share.total.max(1) as u128;
        shares.sort_by_cached_key(|share| (rate(share), share.atom, share.place));
        // A node that lacks another resource alone has no share, and may hold a member all the same.
        let opens =
            |place: &usize| most.fits(ground, kind, *place) > now.fits(ground, kind, *place);
        let places: Vec<usize> = nodes.filter(opens).collect();
        let rooms = alloc::vec![Room::default(); ground.rows.len()];
        let members = Vec::new();
        Some(Shares { kind, dimension, ask, parts: shares, places, rooms, members })
    }

    /// The least work that is lost for the members that lack, with the atoms that are open; `None`
    /// if those do not suffice.
    pub(super) fn least(
        &mut self,
        need: &Need<'_>,
        arena: &Arena<'_>,
        (now, most): (&Counts, &Counts),
        open: impl Fn(u32) -> bool,
    ) -> Option<u64> {
        let lacking = now.lacking(need, self.kind);
        if lacking == 0 {
            return Some(0);
        }
        let (ground, kind, ask) = (arena.ground, self.kind, self.ask);
        self.members.clear();
        for &place in &self.places {
            let fits = now.fits(ground, kind, place);
            // No more of them are needed of one node than lack in all.
            let mut left = (most.fits(ground, kind, place) - fits).min(lacking);
            let free = now.free(ground, place)[self.dimension];
            let mut short = (fits + 1).saturating_mul(ask).saturating_sub(free);
            while left > 0 && short <= 0 {
                self.members.push(0);
                left -= 1;
                short += ask;
            }
            self.rooms[place] = Room { left, lacking: short, work: 0 };
        }
        for share in &self.parts {
            let room = &mut self.rooms[share.place as usize];
            if room.left <= 0 || !open(share.atom) {
                continue;
            }
            let mut amount = share.amount;
            while amount > 0 && room.left > 0 {
                let part = amount.min(room.lacking);
                let work = u128::from(share.work) * part as u128 / share.total.max(1) as u128;
                room.work = room.work.saturating_add(work as u64);
                room.lacking -= part;
                amount -= part;
                if room.lacking == 0 {
                    self.members.push(room.work);
                    *room = Room { left: room.left - 1, lacking: ask, work: 0 };
                }
            }
        }
        let lacking = usize::try_from(lacking).ok()?;
        if self.members.len() < lacking {
            return None;
        }
        self.members.select_nth_unstable(lacking - 1);
        Some(self.members[..lacking].iter().fold(0, |sum, work| sum.saturating_add(*work)))
    }
}
