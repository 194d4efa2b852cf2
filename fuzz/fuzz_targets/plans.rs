//! Plans that are altered: refused, or nothing breaks by them.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| phalanx_fuzz::streams::plans(input));
