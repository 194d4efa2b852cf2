//! Rows by unit: within a unit, coarse stages say the same of every row.

use alloc::vec::Vec;
use core::ops::Range;

/// No place, no unit.
pub(super) const NONE: u32 = u32::MAX;

/// Rows unit by unit, each at a place.
#[derive(Debug, Clone, Default)]
pub(crate) struct Units {
    /// By position, the place of a row; [`NONE`] for a row that is not in use.
    pub(super) places: Vec<u32>,
    /// By place.
    pub(super) rows: Vec<u32>,
    pub(super) unit_of: Vec<u32>,
    /// The first place of each unit, and the end.
    pub(super) starts: Vec<u32>,
}

impl Units {
    /// Starts over with rows by position, each with its unit; that is [`NONE`] for a row that is not
    /// in use.
    pub(super) fn fill(&mut self, rows: impl Iterator<Item = (u32, u32)> + Clone, units: usize) {
        self.starts.clear();
        self.starts.resize(units + 1, 0);
        for (_, unit) in rows.clone().filter(|(_, unit)| *unit != NONE) {
            self.starts[unit as usize + 1] += 1;
        }
        for unit in 0..units {
            self.starts[unit + 1] += self.starts[unit];
        }
        let count = self.starts[units] as usize;
        let mut next = self.starts.clone();
        self.rows.resize(count, 0);
        self.unit_of.resize(count, 0);
        self.places.clear();
        self.places.extend(rows.map(|(row, unit)| {
            let Some(place) = next.get_mut(unit as usize) else { return NONE };
            self.rows[*place as usize] = row;
            self.unit_of[*place as usize] = unit;
            *place += 1;
            *place - 1
        }));
    }

    /// Moves a row, whose position is its number, to another of so many units, rows of a unit in order.
    /// [`NONE`] is for a row that is not in use. O(rows), but less than a tenth of
    /// [`Units::fill`].
    pub(super) fn set(&mut self, row: u32, unit: u32, units: usize) {
        let position = row as usize;
        self.places.resize(self.places.len().max(position + 1), NONE);
        let end = self.starts.last().copied().unwrap_or(0);
        self.starts.resize(self.starts.len().max(units + 1), end);
        let at = core::mem::replace(&mut self.places[position], NONE);
        if at != NONE {
            let at = at as usize;
            self.rows.remove(at);
            let old = self.unit_of.remove(at) as usize;
            self.starts[old + 1..].iter_mut().for_each(|start| *start -= 1);
            self.rows[at..].iter().for_each(|&row| self.places[row as usize] -= 1);
        }
        if unit != NONE {
            let places = self.places(unit as usize);
            let at = places.start + self.rows[places].partition_point(|other| *other < row);
            self.rows.insert(at, row);
            self.unit_of.insert(at, unit);
            self.starts[unit as usize + 1..].iter_mut().for_each(|start| *start += 1);
            self.rows[at + 1..].iter().for_each(|&row| self.places[row as usize] += 1);
            self.places[position] = at as u32;
        }
    }

    /// How many units there are; some may be empty.
    #[inline]
    pub(super) fn len(&self) -> usize {
        self.starts.len().saturating_sub(1)
    }

    /// How many units have rows.
    pub(super) fn used(&self) -> usize {
        self.starts.windows(2).filter(|ends| ends[0] < ends[1]).count()
    }

    /// The places of a unit.
    #[inline]
    pub(super) fn places(&self, unit: usize) -> Range<usize> {
        self.starts[unit] as usize..self.starts[unit + 1] as usize
    }
}
