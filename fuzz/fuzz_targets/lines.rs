//! Lines of watches that are altered: a list puts everything right.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| phalanx_fuzz::streams::lines(input));
