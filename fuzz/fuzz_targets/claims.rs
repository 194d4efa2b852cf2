//! Gangs with claims of devices against all ways to give them out.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| phalanx_fuzz::streams::claims(input));
