//! The Common Expression Language, as far as selectors of devices use it.
//!
//! A reader, a checker of names and kinds, and an evaluator with a limit on its cost; the functions
//! are those of Kubernetes' environment. No macros of one's own, no messages.
//!
//! Source: cel-spec (`doc/langdef.md`); Kubernetes 1.36, `dynamic-resource-allocation/cel` and
//! `apiserver/pkg/cel/library`.

mod check;
mod eval;
mod functions;
mod members;
mod net;
mod outcome;
mod parse;
mod semver;
mod times;
mod value;

use alloc::boxed::Box;
use alloc::string::String;

use self::eval::Evaluator;
use self::parse::Expr;
use super::selector::{DeviceFacts, SelectorEvaluator, SelectorProgram};

/// Evaluates selectors that are written in the Common Expression Language, as Kubernetes does.
///
/// A device is the variable `device`, with `driver`, `attributes` and `capacity` by domain, and
/// `allowMultipleAllocations`. An evaluation that costs more than Kubernetes allows is a fault; costs
/// are counted by the step, not exactly as Kubernetes does.
///
/// ```
/// use phalanx::claims::{Cel, DeviceFacts, SelectorEvaluator};
/// use phalanx::model::SliceDevice;
///
/// let device = SliceDevice::new("gpu-0").attribute("model", "h100");
/// let facts = DeviceFacts::new("gpu.example.com", &device);
/// let judge = |text: &str| Cel.compile(text).and_then(|program| program.matches(facts));
/// assert_eq!(judge(r#"device.attributes["gpu.example.com"].model in ["a100", "h100"]"#), Ok(true));
/// assert!(judge(r#"device.attributes["gpu.example.com"].colour == "red""#).is_err());
/// ```
#[derive(Debug, Clone, Copy, Default)]
pub struct Cel;

struct Program(Expr);

impl SelectorEvaluator for Cel {
    fn compile(&self, expression: &str) -> Result<Box<dyn SelectorProgram>, String> {
        let expr = parse::parse(expression)?;
        check::check(&expr)?;
        Ok(Box::new(Program(expr)))
    }
}

impl SelectorProgram for Program {
    fn matches(&self, facts: DeviceFacts<'_>) -> Result<bool, String> {
        Evaluator::new(facts).judge(&self.0)
    }
}
