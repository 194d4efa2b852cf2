//! The two ways to read manifests.

/// The writer that manifests are taken to come from: a person, or an API server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum Mode {
    /// A person. What the API server fills in and merges is filled in and merged, and what it
    /// would refuse is an error.
    #[default]
    AsWritten,
    /// An API server. Everything is taken as it is, and means what the scheduler makes of it.
    /// Only what cannot have been stored is an error: a wrong type, a quantity that is none or
    /// does not fit.
    AsStored,
}
