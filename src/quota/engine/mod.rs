//! The engine that dialects share: sums to try things on, flavors, usage, division, and the search for
//! holders that give back.

pub(in crate::quota) mod assign;
pub(in crate::quota) mod climb;
pub(in crate::quota) mod division;
pub(in crate::quota) mod give_back;
pub(in crate::quota) mod head_rules;
pub(in crate::quota) mod partial;
pub(in crate::quota) mod rooted;
pub(in crate::quota) mod sets;
pub(in crate::quota) mod trial;
pub(in crate::quota) mod wanted;
