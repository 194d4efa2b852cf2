//! Saves of a scheduler that are altered: refused, or a state that holds.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| phalanx_fuzz::streams::saves(input));
