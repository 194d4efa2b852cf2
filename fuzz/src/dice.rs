//! The dice of the streams in `tests/it`, with the numbers of an input.

use std::cell::RefCell;

thread_local! {
    /// The input, and how many of its bytes are taken.
    static INPUT: RefCell<(Vec<u8>, usize)> = const { RefCell::new((Vec::new(), 0)) };
}

/// From here on, all dice take their numbers from these bytes, one after the other.
pub(crate) fn play(input: &[u8]) {
    INPUT.with_borrow_mut(|(bytes, taken)| {
        bytes.clear();
        bytes.extend_from_slice(input);
        *taken = 0;
    });
}

fn next() -> Option<u8> {
    INPUT.with_borrow_mut(|(bytes, taken)| {
        let byte = bytes.get(*taken).copied();
        *taken += 1;
        byte
    })
}

/// Numbers of the input; once it is used up, numbers from a seed, so that no stream goes in circles.
///
/// A small number takes one byte, so that a change of a byte changes one choice.
#[derive(Debug, Clone)]
pub(crate) struct Dice(pub(crate) u64);

impl Dice {
    /// A number of 64 bits.
    pub(crate) fn bits(&mut self) -> u64 {
        self.number(8)
    }

    /// A number from 0 to below `sides`.
    pub(crate) fn roll(&mut self, sides: u64) -> u64 {
        let bytes = match sides {
            0..=0x100 => 1,
            0x101..=0x1_0000 => 2,
            _ => 8,
        };
        self.number(bytes) % sides
    }

    pub(crate) fn one_in(&mut self, sides: u64) -> bool {
        self.roll(sides) == 0
    }

    pub(crate) fn chance(&mut self, percent: u64) -> bool {
        self.roll(100) < percent
    }

    pub(crate) fn of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.roll(all.len() as u64) as usize]
    }

    fn number(&mut self, bytes: usize) -> u64 {
        let mut number = 0;
        for _ in 0..bytes {
            let Some(byte) = next() else { return self.after() };
            number = number << 8 | u64::from(byte);
        }
        number
    }

    /// The next number once the input is used up (`SplitMix64`).
    fn after(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        bits ^ (bits >> 31)
    }
}
