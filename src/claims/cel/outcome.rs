//! The result of an evaluation, and its cost.

use alloc::format;
use alloc::string::String;

use super::value::Value;

/// The most that an evaluation may cost.
const MOST: u64 = 1_000_000;

/// Why there is no value.
#[derive(Debug, Clone)]
pub(super) enum Fail {
    /// An error that the operators `&&` and `||` may pass over.
    Error(String),
    /// It costs too much.
    Cost,
}

impl From<String> for Fail {
    fn from(text: String) -> Fail {
        Fail::Error(text)
    }
}

impl From<&str> for Fail {
    fn from(text: &str) -> Fail {
        Fail::Error(text.into())
    }
}

pub(super) type Evaluated = Result<Value, Fail>;

pub(super) fn no_overload(what: &str, value: &Value) -> Fail {
    format!("{what} takes no {:?}", value.kind()).into()
}

/// Cost of an evaluation so far, in steps.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Cost(u64);

impl Cost {
    /// Adds some, if it is allowed.
    pub(super) fn spend(&mut self, steps: usize) -> Result<(), Fail> {
        self.0 = self.0.saturating_add(steps as u64);
        if self.0 > MOST { Err(Fail::Cost) } else { Ok(()) }
    }
}
