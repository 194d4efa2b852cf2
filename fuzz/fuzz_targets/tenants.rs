//! Tenants against sums made anew, their promises, and all sets that may yield.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| phalanx_fuzz::streams::tenants(input));
