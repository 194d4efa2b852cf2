//! A fixed hasher: the same bits on every machine and in every run.
//!
//! Hash maps of this crate are looked up, never iterated, so the hash decides speed alone. It is
//! fixed all the same, so that a run can be repeated instruction for instruction.

use core::hash::{BuildHasherDefault, Hasher};

/// Multiply-rotate hashing of words; not resistant to chosen keys.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct FixedHasher(u64);

const MULTIPLIER: u64 = 0x9E37_79B9_7F4A_7C15;

impl FixedHasher {
    #[inline]
    fn mix(&mut self, word: u64) {
        self.0 = (self.0.rotate_left(26) ^ word).wrapping_mul(MULTIPLIER);
    }
}

impl Hasher for FixedHasher {
    #[inline]
    fn write(&mut self, bytes: &[u8]) {
        let (words, rest) = bytes.as_chunks();
        for word in words {
            self.mix(u64::from_le_bytes(*word));
        }
        if rest.is_empty() {
            return;
        }
        // The last bytes once more, overlapping, rather than a copy of odd length.
        let tail = if let Some(word) = bytes.last_chunk() {
            u64::from_le_bytes(*word)
        } else if let (Some(first), Some(last)) = (bytes.first_chunk(), bytes.last_chunk()) {
            u64::from(u32::from_le_bytes(*first)) << 32 | u64::from(u32::from_le_bytes(*last))
        } else {
            rest.iter().fold(0, |tail, &byte| tail << 8 | u64::from(byte))
        };
        self.mix(tail ^ (bytes.len() as u64) << 56);
    }

    #[inline]
    fn write_u8(&mut self, value: u8) {
        self.mix(u64::from(value));
    }

    #[inline]
    fn write_u32(&mut self, value: u32) {
        self.mix(u64::from(value));
    }

    #[inline]
    fn write_u64(&mut self, value: u64) {
        self.mix(value);
    }

    #[inline]
    fn write_usize(&mut self, value: usize) {
        self.mix(value as u64);
    }

    #[inline]
    fn finish(&self) -> u64 {
        let mut bits = self.0;
        bits ^= bits >> 32;
        bits = bits.wrapping_mul(MULTIPLIER);
        bits ^ (bits >> 29)
    }
}

/// Builds [`FixedHasher`]s.
pub(crate) type FixedState = BuildHasherDefault<FixedHasher>;

/// A hash map with a fixed hash. Look up, never iterate.
pub(crate) type FixedMap<K, V> = hashbrown::HashMap<K, V, FixedState>;

/// The hash of one value.
#[inline]
pub(crate) fn hash_of<T: core::hash::Hash + ?Sized>(value: &T) -> u64 {
    let mut hasher = FixedHasher::default();
    value.hash(&mut hasher);
    hasher.finish()
}
