//! The choice among Volcano's queue plugins.

/// Volcano's plugin that decides about queues.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "camelCase"))]
#[non_exhaustive]
pub enum VolcanoRule {
    /// `proportion`: what queues deserve is divided by weight among those that ask.
    Proportion,
    /// `capacity`: what queues deserve is stated.
    Capacity,
    /// `drf`: nothing is deserved; the smallest dominant share goes first.
    Drf,
}
