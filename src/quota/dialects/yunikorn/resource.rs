//! Amounts of a queue or an application, by resource.

use alloc::collections::BTreeMap;
use alloc::string::String;

/// Amounts by type.
pub type Resource = BTreeMap<String, i64>;
