//! Settings of Kueue's dialect.

use alloc::vec::Vec;

use crate::quota::engine::head_rules::HeadRules;

/// When a fair share allows a victim.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub enum FairStrategy {
    /// The preemptor's side has no more than the victim's will have without the victim.
    LessThanOrEqualToFinalShare,
    /// The preemptor's side has less than the victim's has with the victim.
    LessThanInitialShare,
}

/// Settings of [`Tenants::kueue`](crate::quota::Tenants::kueue).
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "camelCase", default))]
#[non_exhaustive]
pub struct KueueSettings {
    /// The strategies of fair sharing, in order; `None`: no fair sharing.
    pub fair_sharing: Option<Vec<FairStrategy>>,
    /// Whether claims are admitted with fewer pods than all.
    pub partial_admission: bool,
    /// The order of heads; `fair` is set by `fair_sharing`.
    pub heads: HeadRules,
}

impl Default for KueueSettings {
    fn default() -> KueueSettings {
        KueueSettings { fair_sharing: None, partial_admission: true, heads: HeadRules::default() }
    }
}

impl KueueSettings {
    /// Fair sharing, with both strategies.
    #[must_use]
    pub fn fair(self) -> KueueSettings {
        let both = [FairStrategy::LessThanOrEqualToFinalShare, FairStrategy::LessThanInitialShare];
        self.fair_with(both)
    }

    /// Fair sharing, with strategies in order; none means both.
    #[must_use]
    pub fn fair_with(
        mut self,
        strategies: impl IntoIterator<Item = FairStrategy>,
    ) -> KueueSettings {
        let strategies: Vec<FairStrategy> = strategies.into_iter().collect();
        if strategies.is_empty() {
            return self.fair();
        }
        self.fair_sharing = Some(strategies);
        self.heads.fair = true;
        self
    }

    /// Sets whether claims are admitted with fewer pods than all.
    #[must_use]
    pub fn partial_admission(mut self, partial: bool) -> KueueSettings {
        self.partial_admission = partial;
        self
    }

    /// Sets the order of heads.
    #[must_use]
    pub fn heads(mut self, rules: HeadRules) -> KueueSettings {
        self.heads = HeadRules { fair: self.fair_sharing.is_some(), ..rules };
        self
    }
}
