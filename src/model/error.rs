//! Errors of input types: nodes, pods and groups that are not well formed.

use alloc::string::String;

use crate::base::QuantityError;
use crate::base::clip::{clip, clip_text};

/// A model object that cannot be taken: which one, which field, what is wrong.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}: {}: {problem}", clip(.object), clip(.field))]
#[non_exhaustive]
pub struct ModelError {
    /// The object, as kind and name: `node n1`, `pod default/worker-3`.
    pub object: String,
    /// The path of the field inside the object: `capacity.cpu`.
    pub field: String,
    /// The fault.
    pub problem: Problem,
}

/// A fault of a field.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Problem {
    /// A quantity does not parse.
    #[error(transparent)]
    Quantity(#[from] QuantityError),
    /// An amount is below zero.
    #[error("must not be negative")]
    Negative,
    /// An amount, or a sum of amounts, does not fit 64 bits.
    #[error("does not fit 64 bits")]
    Overflow,
    /// Something needed is missing or empty.
    #[error("is required")]
    Required,
    /// A name that must be unique occurs twice.
    #[error("{:?} occurs twice", clip(.0))]
    Duplicate(String),
    /// A number is outside its range.
    #[error("{value} is not between {min} and {max}")]
    OutOfRange {
        /// The number given.
        value: i64,
        /// The smallest allowed.
        min: i64,
        /// The largest allowed.
        max: i64,
    },
    /// A value is not one of those allowed, or breaks a rule that the text states.
    #[error("{}", clip_text(.0))]
    Invalid(String),
    /// Something refers to an object that does not exist.
    #[error("{:?} does not exist", clip(.0))]
    Unknown(String),
    /// A pod is listed in a group and is of another, by the group that it names or its namespace:
    /// once bound it would count there.
    #[error("is of group {}, and is listed in group {}", clip(.named), clip(.listed))]
    OtherGroup {
        /// The group that the pod is of, as `namespace/name`.
        named: String,
        /// The group that lists it, as `namespace/name`.
        listed: String,
    },
}

impl ModelError {
    /// An error about a field of an object.
    pub fn new(
        object: impl Into<String>,
        field: impl Into<String>,
        problem: impl Into<Problem>,
    ) -> ModelError {
        ModelError { object: object.into(), field: field.into(), problem: problem.into() }
    }
}

/// The first thing wrong that a builder met, kept until the object is used.
///
/// Builders chain; a malformed quantity surfaces as an error where the object is handed over.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Defect(Option<alloc::boxed::Box<(String, Problem)>>);

impl Defect {
    pub(crate) fn note(&mut self, field: impl Into<String>, problem: impl Into<Problem>) {
        if self.0.is_none() {
            self.0 = Some(alloc::boxed::Box::new((field.into(), problem.into())));
        }
    }

    pub(crate) fn check(&self, object: impl FnOnce() -> String) -> Result<(), ModelError> {
        match &self.0 {
            None => Ok(()),
            Some(defect) => Err(ModelError {
                object: object(),
                field: defect.0.clone(),
                problem: defect.1.clone(),
            }),
        }
    }
}
