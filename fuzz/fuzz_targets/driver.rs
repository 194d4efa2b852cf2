//! The scheduler with everything on against a model of the world outside.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| phalanx_fuzz::streams::driver(input));
