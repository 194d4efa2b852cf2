//! The dialect of tenants: the scheduler by whose rules quota is given and taken back.

use alloc::boxed::Box;
use alloc::string::String;
use core::time::Duration;

use super::claim::Usage;
use super::kai::Kai;
use super::koordinator::Koordinator;
use super::tree::QueueId;
use super::volcano::VolcanoRule;
use super::yunikorn::YuniKornSettings;

/// A dialect, with its state beside the books.
#[derive(Debug, Clone)]
pub(super) enum Dialect {
    Kueue,
    /// This crate's own.
    Own(Own),
    Koordinator(Box<Koordinator>),
    Peer(Peer),
    Kai(Kai),
}

impl Dialect {
    pub(super) fn own(&self) -> Option<&Own> {
        match self {
            Dialect::Own(own) => Some(own),
            _ => None,
        }
    }

    pub(super) fn koordinator(&self) -> Option<&Koordinator> {
        match self {
            Dialect::Koordinator(own) => Some(own),
            _ => None,
        }
    }
}

/// Settings of [`Tenants::with`](super::Tenants::with).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "camelCase", default))]
#[non_exhaustive]
pub struct TenantSettings {
    /// How long a claim waits before quota is put aside for it, while it is the oldest. Default 1
    /// hour.
    pub patience: Duration,
}

impl Default for TenantSettings {
    fn default() -> TenantSettings {
        TenantSettings { patience: Duration::from_secs(3_600) }
    }
}

impl TenantSettings {
    /// Sets how long a claim waits before quota is put aside for it.
    #[must_use]
    pub fn patience(mut self, patience: Duration) -> TenantSettings {
        self.patience = patience;
        self
    }
}

/// The state of this crate's own dialect beside the books.
#[derive(Debug, Clone)]
pub(super) struct Own {
    pub(super) settings: TenantSettings,
    pub(super) aside: Option<Aside>,
}

/// Quota put aside.
#[derive(Debug, Clone)]
pub(super) struct Aside {
    pub(super) claim: String,
    pub(super) queue: QueueId,
    pub(super) usage: Usage,
}

impl Own {
    pub(super) fn new(settings: TenantSettings) -> Own {
        Own { settings, aside: None }
    }
}

/// Whose dialect it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Peer {
    Volcano(VolcanoRule),
    YuniKorn(YuniKornSettings),
}
