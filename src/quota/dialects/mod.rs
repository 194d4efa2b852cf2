//! The dialects, each in a folder of its own, and their settings.

pub mod kai;
pub(super) mod koordinator;
pub(super) mod kueue;
pub(super) mod own;
pub mod volcano;
pub mod yunikorn;

use alloc::boxed::Box;

use self::kai::KaiSettings;
use self::kai::tables::Kai;
use self::koordinator::KoordinatorSettings;
use self::koordinator::dialect::Koordinator;
use self::kueue::Kueue;
use self::kueue::settings::KueueSettings;
use self::own::{Own, TenantSettings};
use self::volcano::VolcanoRule;
use self::volcano::dialect::Volcano;
use self::yunikorn::YuniKornSettings;
use self::yunikorn::dialect::YuniKorn;
use super::dialect::Dialect;

/// A dialect by its settings.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "camelCase"))]
pub(super) enum DialectSettings {
    Default(TenantSettings),
    Kueue(KueueSettings),
    Koordinator(KoordinatorSettings),
    Volcano(VolcanoRule),
    YuniKorn(YuniKornSettings),
    Kai(KaiSettings),
}

impl DialectSettings {
    /// The dialect, new.
    pub(super) fn dialect(&self) -> Box<dyn Dialect> {
        match self.clone() {
            DialectSettings::Default(settings) => Box::new(Own::new(settings)),
            DialectSettings::Kueue(settings) => Box::new(Kueue::new(settings)),
            DialectSettings::Koordinator(settings) => Box::new(Koordinator::new(settings)),
            DialectSettings::Volcano(rule) => Box::new(Volcano::new(rule)),
            DialectSettings::YuniKorn(settings) => Box::new(YuniKorn::new(settings)),
            DialectSettings::Kai(settings) => Box::new(Kai::new(settings)),
        }
    }
}
