//! The reader of manifests: documents in, [`Manifests`] out.

use alloc::borrow::ToOwned;
use alloc::string::ToString;

use serde::Deserializer;
use serde::de::DeserializeSeed;

use super::assemble::assemble;
use super::error::Error;
use super::manifests::Manifests;
use super::mode::Mode;
use super::objects::Objects;
use super::stream::Document;
use super::value::Value;

/// Reads manifests, from as many sources as there are, and makes [`Manifests`] of them.
///
/// Documents are read as a stream. A list of a hundred thousand pods is never in memory as text or
/// as a tree of values; only the fields that scheduling reads are kept.
///
/// After an error the reader takes nothing more, and [`Reader::finish`] answers with that error.
///
/// ```
/// use phalanx::kubernetes::{Mode, Reader};
///
/// let text = r#"{"apiVersion": "v1", "kind": "List", "items": [
///     {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"},
///      "status": {"capacity": {"cpu": "8", "pods": "110"}}},
///     {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"},
///      "spec": {"containers": [{"name": "c", "resources": {"limits": {"cpu": "500m"}}}]}}]}"#;
/// let mut reader = Reader::new(Mode::AsWritten);
/// reader.read("dump.json", &mut serde_json::Deserializer::from_str(text))?;
/// let manifests = reader.finish()?;
/// assert_eq!(manifests.nodes[0].allocatable.of("cpu"), 8_000);
/// assert_eq!(manifests.groups[0].full_name(), "default/a");
/// assert_eq!(manifests.groups[0].pods[0].shape().requests.of("cpu"), 500);
/// # Ok::<(), phalanx::kubernetes::Error>(())
/// ```
#[derive(Debug)]
pub struct Reader {
    objects: Objects,
    failure: Option<Error>,
}

impl Reader {
    /// A reader that has read nothing.
    pub fn new(mode: Mode) -> Reader {
        Reader { objects: Objects::new(mode), failure: None }
    }

    /// Reads one document: an object, a list of objects, or nothing.
    ///
    /// `source` is how errors name where the document is from, such as a file's name. The
    /// deserializer must be of a self-describing format. What stands behind the document is the
    /// caller's to read.
    ///
    /// # Errors
    /// The document is malformed, or an object in it cannot be taken.
    pub fn read<'de, D: Deserializer<'de>>(
        &mut self,
        source: &str,
        deserializer: D,
    ) -> Result<(), Error> {
        self.begin(source)?;
        let mut rejected = None;
        let sink = &mut |value, like: Option<&_>| self.objects.accept(value, like);
        match (Document { sink, rejected: &mut rejected }).deserialize(deserializer) {
            Ok(()) => Ok(()),
            Err(error) => Err(self.fail(match rejected {
                Some(error) => Error::Object { source_name: source.to_owned(), error },
                None => {
                    Error::Syntax { source_name: source.to_owned(), message: error.to_string() }
                }
            })),
        }
    }

    /// Takes a document that is a [`Value`] already, as [`Reader::read`] would.
    ///
    /// For formats whose deserializer does not hand over one document at a time.
    ///
    /// # Errors
    /// An object cannot be taken.
    pub fn take(&mut self, source: &str, document: Value) -> Result<(), Error> {
        self.begin(source)?;
        self.objects
            .accept(document, None)
            .map_err(|error| self.fail(Error::Object { source_name: source.to_owned(), error }))
    }

    /// Puts together what was read.
    ///
    /// # Errors
    /// An earlier error, or objects that do not go together: a group that does not exist, members
    /// that disagree, parents in a circle.
    pub fn finish(mut self) -> Result<Manifests, Error> {
        match self.failure.take() {
            Some(failure) => Err(failure),
            None => assemble(self.objects),
        }
    }

    fn begin(&mut self, source: &str) -> Result<(), Error> {
        if let Some(failure) = &self.failure {
            return Err(failure.clone());
        }
        self.objects.begin(source);
        Ok(())
    }

    fn fail(&mut self, error: Error) -> Error {
        self.failure = Some(error.clone());
        error
    }
}
