//! Certificates that are made up or altered, against all ways to place a small group.
#![no_main]

use libfuzzer_sys::fuzz_target;
use phalanx_fuzz::certificates;

fuzz_target!(|case: certificates::Case| certificates::run(&case));
