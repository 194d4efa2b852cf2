//! Parts that the example programs share: arguments, dates, files, random numbers, and text and
//! charts that are pleasant to look at.

#![allow(dead_code, reason = "each program uses its own part")]

pub(crate) mod chart;
pub(crate) mod cli;
pub(crate) mod date;
pub(crate) mod dice;
pub(crate) mod files;
pub(crate) mod text;
