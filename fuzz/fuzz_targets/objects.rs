//! Manifests by their structure, read as files and heard as watch lines.
#![no_main]

use libfuzzer_sys::fuzz_target;
use phalanx_fuzz::objects;

fuzz_target!(|case: objects::Case| objects::run(&case));
