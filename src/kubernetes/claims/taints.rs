//! `DeviceTaintRule`: taints of devices that their drivers have not put there.

use alloc::string::String;
use alloc::vec::Vec;

use crate::kubernetes::field::{Fault, Field};
use crate::model::{Effect, ResourceSlice, Taint};

/// A rule that taints devices. An attribute that is not stated means all devices.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::kubernetes) struct TaintRule {
    driver: Option<String>,
    pool: Option<String>,
    device: Option<String>,
    /// `None` of a rule of which a field is not in force.
    taint: Option<Taint>,
}

impl TaintRule {
    /// Reads a rule; `is_whole` says whether all of its fields are in force.
    pub(in crate::kubernetes) fn read(root: &Field<'_>, is_whole: bool) -> Fault<TaintRule> {
        let spec = root.need("spec")?;
        let mut rule = TaintRule { driver: None, pool: None, device: None, taint: None };
        if let Some(selector) = spec.get("deviceSelector")? {
            rule.driver = selector.name_of("driver")?;
            rule.pool = selector.name_of("pool")?;
            rule.device = selector.name_of("device")?;
        }
        let taint = taint(&spec.need("taint")?)?;
        rule.taint = is_whole.then_some(taint);
        Ok(rule)
    }

    fn is_of_pool(&self, slice: &ResourceSlice) -> bool {
        let driver = self.driver.as_ref().is_none_or(|driver| *driver == slice.driver);
        driver && self.pool.as_ref().is_none_or(|pool| *pool == slice.pool)
    }
}

/// A taint of a device. Its effect may be `None`, which keeps nobody away.
pub(super) fn taint(field: &Field<'_>) -> Fault<Taint> {
    let (key, value) = (field.text_of("key")?, field.text_of("value")?);
    Ok(Taint { key, value, effect: Effect::from(field.text_of("effect")?) })
}

/// A slice with the taints of rules. `None` if a rule that cannot be followed would keep devices of
/// it away: then none of its devices is given out.
pub(in crate::kubernetes) fn tainted<'r>(
    slice: &ResourceSlice,
    rules: impl IntoIterator<Item = &'r TaintRule>,
) -> Option<ResourceSlice> {
    let mut slice = slice.clone();
    let rules: Vec<&TaintRule> = rules.into_iter().filter(|rule| rule.is_of_pool(&slice)).collect();
    for rule in rules {
        let taint = rule.taint.as_ref()?;
        for device in &mut slice.devices {
            if rule.device.as_ref().is_none_or(|name| *name == device.name) {
                device.taints.push(taint.clone());
            }
        }
    }
    Some(slice)
}
