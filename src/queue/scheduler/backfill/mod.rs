//! Backfill as the scheduler carries it out: [`BackfillLine`](crate::queue::backfill::BackfillLine)
//! decides, the passes here start groups and say why others wait.
//!
//! Files call downwards only, in this order: `pass`, then `easy` and `conservative`, then
//! `attempt`, `waiting` and `promises`.

mod attempt;
mod conservative;
mod easy;
mod pass;
mod promises;
mod waiting;
