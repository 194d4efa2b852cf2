//! The wait index: which unschedulable groups an event can help.

pub(crate) mod bucket;
pub(crate) mod hints;
pub(crate) mod index;
#[cfg(test)]
mod tests;
