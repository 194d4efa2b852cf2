//! Rules: functions from sources and a table to complaints, each of which says what to do.

pub mod boxes;
pub mod ceilings;
pub mod imports;
pub mod links;
pub mod names;
pub mod owners;
pub mod plugins;
pub mod size;
pub mod walks;
pub mod words;
