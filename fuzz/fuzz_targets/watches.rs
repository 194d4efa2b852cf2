//! Watches that are late, repeat themselves and break, against the truth.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| phalanx_fuzz::streams::watches(input));
