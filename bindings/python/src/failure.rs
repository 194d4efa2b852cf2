//! Errors, and exceptions in callbacks.

use std::fmt::Display;
use std::sync::{Arc, Mutex, PoisonError};

use pyo3::create_exception;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

create_exception!(
    phalanx,
    PhalanxError,
    PyValueError,
    "An input that the core refuses; its text names the offending thing."
);

/// An error of the core as an exception.
pub(crate) fn refused(error: impl Display) -> PyErr {
    PhalanxError::new_err(error.to_string())
}

/// The first exception of a callback, until the call that led to it ends.
#[derive(Debug, Clone, Default)]
pub(crate) struct Raised(Arc<Mutex<Option<PyErr>>>);

impl Raised {
    /// The value of a callback, or `instead` after an exception. After the first one no callback is
    /// called.
    pub(crate) fn ask<T>(&self, instead: T, call: impl FnOnce(Python<'_>) -> PyResult<T>) -> T {
        if self.0.lock().unwrap_or_else(PoisonError::into_inner).is_some() {
            return instead;
        }
        Python::attach(call).unwrap_or_else(|error| {
            *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
            instead
        })
    }

    /// Hands on what was raised since the last call.
    pub(crate) fn check(&self) -> PyResult<()> {
        match self.0.lock().unwrap_or_else(PoisonError::into_inner).take() {
            Some(error) => Err(error),
            None => Ok(()),
        }
    }
}
