//! Settings of Koordinator's dialect.

/// Settings of [`Tenants::koordinator_with`](crate::quota::Tenants::koordinator_with): those of the plugin `ElasticQuota`.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "camelCase", default))]
#[non_exhaustive]
pub struct KoordinatorSettings {
    /// Whether a quota may use its runtime; otherwise its maximum. Default: yes.
    pub runtime: bool,
    /// Whether the quotas above are asked too. Default: no.
    pub check_parents: bool,
    /// Whether minima are scaled down where they exceed what there is. Default: no.
    pub scale_min: bool,
}

impl Default for KoordinatorSettings {
    fn default() -> KoordinatorSettings {
        KoordinatorSettings { runtime: true, check_parents: false, scale_min: false }
    }
}

impl KoordinatorSettings {
    /// Sets whether a quota may use its runtime, or else its maximum.
    #[must_use]
    pub fn runtime(mut self, runtime: bool) -> KoordinatorSettings {
        self.runtime = runtime;
        self
    }

    /// Sets whether the quotas above are asked too.
    #[must_use]
    pub fn check_parents(mut self, check: bool) -> KoordinatorSettings {
        self.check_parents = check;
        self
    }

    /// Sets whether minima are scaled down where they exceed what there is.
    #[must_use]
    pub fn scale_min(mut self, scale: bool) -> KoordinatorSettings {
        self.scale_min = scale;
        self
    }
}

#[cfg(test)]
mod tests;
