//! Checking certificates.

/// x
#[derive(Debug)]
pub struct Flaw;
