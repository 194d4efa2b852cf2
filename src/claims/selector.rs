//! Selectors: expressions over devices, and their evaluators.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::sync::Arc;

use crate::base::clip::clip;
use crate::model::SliceDevice;

/// Facts of a device that an expression may read.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct DeviceFacts<'a> {
    /// The driver.
    pub driver: &'a str,
    /// The device.
    pub device: &'a SliceDevice,
}

impl<'a> DeviceFacts<'a> {
    /// A device of a driver.
    pub fn new(driver: &'a str, device: &'a SliceDevice) -> DeviceFacts<'a> {
        DeviceFacts { driver, device }
    }
}

/// An expression that cannot be evaluated: it does not compile, or fails for a device.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("selector {:?}: {}", clip(.expression), clip(.reason))]
#[non_exhaustive]
pub struct SelectorFault {
    /// The expression.
    pub expression: String,
    /// Why.
    pub reason: String,
}

/// Says what expressions hold of devices. Pure: the same expression and device, the same answer.
///
/// ```
/// use phalanx::claims::{DeviceFacts, SelectorEvaluator, SelectorProgram};
///
/// /// Expressions are names of drivers.
/// struct ByDriver;
///
/// struct Driver(String);
///
/// impl SelectorEvaluator for ByDriver {
///     fn compile(&self, expression: &str) -> Result<Box<dyn SelectorProgram>, String> {
///         Ok(Box::new(Driver(expression.into())))
///     }
/// }
///
/// impl SelectorProgram for Driver {
///     fn matches(&self, facts: DeviceFacts<'_>) -> Result<bool, String> {
///         Ok(facts.driver == self.0)
///     }
/// }
/// ```
pub trait SelectorEvaluator: Send + Sync {
    /// An expression made ready.
    ///
    /// # Errors
    /// It is none. The reason is told where the first device is judged by it.
    fn compile(&self, expression: &str) -> Result<Box<dyn SelectorProgram>, String>;
}

/// An expression that is ready to judge devices.
pub trait SelectorProgram: Send + Sync {
    /// Whether it holds of a device.
    ///
    /// # Errors
    /// It fails for the device.
    fn matches(&self, facts: DeviceFacts<'_>) -> Result<bool, String>;
}

impl<E: SelectorEvaluator + ?Sized> SelectorEvaluator for Arc<E> {
    fn compile(&self, expression: &str) -> Result<Box<dyn SelectorProgram>, String> {
        (**self).compile(expression)
    }
}

/// Understands no expression, so that only claims and classes without any are served.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoSelectors;

impl SelectorEvaluator for NoSelectors {
    fn compile(&self, _: &str) -> Result<Box<dyn SelectorProgram>, String> {
        Err("the framework has no evaluator of selectors".into())
    }
}

/// An expression, ready or not.
pub(super) struct Compiled {
    expression: String,
    program: Result<Box<dyn SelectorProgram>, String>,
}

impl Compiled {
    pub(super) fn new(evaluator: &dyn SelectorEvaluator, expression: &str) -> Compiled {
        Compiled { expression: expression.into(), program: evaluator.compile(expression) }
    }

    pub(super) fn matches(&self, facts: DeviceFacts<'_>) -> Result<bool, SelectorFault> {
        let matched = match &self.program {
            Ok(program) => program.matches(facts),
            Err(reason) => Err(reason.clone()),
        };
        matched.map_err(|reason| SelectorFault { expression: self.expression.clone(), reason })
    }
}
