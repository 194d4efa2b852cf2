//! Planners against their definition, over all frameworks, with events between.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| phalanx_fuzz::streams::definition(input));
