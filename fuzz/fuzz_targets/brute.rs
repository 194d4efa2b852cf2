//! Placements and certificates against every order and every choice of nodes.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| phalanx_fuzz::streams::brute(input));
