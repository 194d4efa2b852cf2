//! Names of groups and pods: a namespace and a name in one value.

use alloc::boxed::Box;
use alloc::string::String;
use core::borrow::Borrow;
use core::cmp::Ordering;
use core::fmt;
use core::hash::{Hash, Hasher};
use core::ops::Deref;
use core::str::FromStr;

use super::clip::clip;

/// The full name of a group or a pod: `namespace/name`.
///
/// It is made of its parts, or parsed once; it reads as its text wherever a `&str` is asked for.
/// It compares, orders and hashes as its text, so a map by `ObjectName` is looked up by `&str`. Parts
/// with slashes of their own (`a/b` + `c`, `a` + `b/c`) make one text and compare equal; of a text with
/// several slashes, the last ends the namespace.
///
/// ```
/// use phalanx::ObjectName;
///
/// let name: ObjectName = "default/trainer".parse()?;
/// assert_eq!((name.namespace(), name.name()), ("default", "trainer"));
/// assert_eq!(name, ObjectName::new("default", "trainer"));
/// assert_eq!(name, "default/trainer");
/// assert!("trainer".parse::<ObjectName>().is_err());
/// # Ok::<(), phalanx::NameError>(())
/// ```
#[derive(Clone)]
pub struct ObjectName {
    text: Box<str>,
    /// The length of the namespace; a slash follows.
    split: usize,
}

impl ObjectName {
    /// The name of an object in a namespace.
    pub fn new(namespace: &str, name: &str) -> ObjectName {
        let mut text = String::with_capacity(namespace.len() + 1 + name.len());
        text.push_str(namespace);
        text.push('/');
        text.push_str(name);
        ObjectName { text: text.into_boxed_str(), split: namespace.len() }
    }

    /// The name that a full name spells; of a text without a slash, one without a namespace.
    pub(crate) fn of_text(text: &str) -> ObjectName {
        let (namespace, name) = text.rsplit_once('/').unwrap_or(("", text));
        ObjectName::new(namespace, name)
    }

    /// The name that some bytes spell, as [`str::parse`] reads it.
    ///
    /// # Errors
    /// The bytes are not UTF-8, or no full name.
    pub fn from_utf8(bytes: &[u8]) -> Result<ObjectName, NameError> {
        core::str::from_utf8(bytes)
            .map_err(|error| NameError::NotUtf8 { valid_up_to: error.valid_up_to() })?
            .parse()
    }

    /// The namespace.
    pub fn namespace(&self) -> &str {
        &self.text[..self.split]
    }

    /// The name within the namespace.
    pub fn name(&self) -> &str {
        &self.text[self.split + 1..]
    }

    /// The text, `namespace/name`.
    pub fn as_str(&self) -> &str {
        &self.text
    }
}

impl Deref for ObjectName {
    type Target = str;

    fn deref(&self) -> &str {
        &self.text
    }
}

impl Borrow<str> for ObjectName {
    fn borrow(&self) -> &str {
        &self.text
    }
}

impl PartialEq for ObjectName {
    fn eq(&self, other: &ObjectName) -> bool {
        self.text == other.text
    }
}

impl Eq for ObjectName {}

impl PartialOrd for ObjectName {
    fn partial_cmp(&self, other: &ObjectName) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for ObjectName {
    fn cmp(&self, other: &ObjectName) -> Ordering {
        self.text.cmp(&other.text)
    }
}

impl Hash for ObjectName {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.text.hash(state);
    }
}

impl AsRef<str> for ObjectName {
    fn as_ref(&self) -> &str {
        &self.text
    }
}

impl fmt::Display for ObjectName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.text)
    }
}

/// The text, in quotes.
impl fmt::Debug for ObjectName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&*self.text, f)
    }
}

impl PartialEq<str> for ObjectName {
    fn eq(&self, text: &str) -> bool {
        *self.text == *text
    }
}

impl PartialEq<&str> for ObjectName {
    fn eq(&self, text: &&str) -> bool {
        *self.text == **text
    }
}

impl PartialEq<String> for ObjectName {
    fn eq(&self, text: &String) -> bool {
        *self.text == **text
    }
}

impl PartialEq<ObjectName> for str {
    fn eq(&self, name: &ObjectName) -> bool {
        *name == *self
    }
}

impl PartialEq<ObjectName> for &str {
    fn eq(&self, name: &ObjectName) -> bool {
        *name == **self
    }
}

impl PartialEq<ObjectName> for String {
    fn eq(&self, name: &ObjectName) -> bool {
        *name == **self
    }
}

impl From<ObjectName> for String {
    fn from(name: ObjectName) -> String {
        name.text.into_string()
    }
}

impl From<&ObjectName> for String {
    fn from(name: &ObjectName) -> String {
        String::from(&*name.text)
    }
}

impl TryFrom<String> for ObjectName {
    type Error = NameError;

    fn try_from(text: String) -> Result<ObjectName, NameError> {
        let split = text.rfind('/').filter(|split| split + 1 < text.len());
        match split {
            Some(split) => Ok(ObjectName { text: text.into_boxed_str(), split }),
            None => Err(NameError::of(&text)),
        }
    }
}

impl TryFrom<&str> for ObjectName {
    type Error = NameError;

    fn try_from(text: &str) -> Result<ObjectName, NameError> {
        text.parse()
    }
}

impl FromStr for ObjectName {
    type Err = NameError;

    fn from_str(text: &str) -> Result<ObjectName, NameError> {
        match text.rsplit_once('/') {
            Some((namespace, name)) if !name.is_empty() => Ok(ObjectName::new(namespace, name)),
            _ => Err(NameError::of(text)),
        }
    }
}

#[cfg(feature = "serde")]
impl serde::Serialize for ObjectName {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.text)
    }
}

#[cfg(feature = "serde")]
impl<'de> serde::Deserialize<'de> for ObjectName {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<ObjectName, D::Error> {
        String::deserialize(deserializer)?.try_into().map_err(serde::de::Error::custom)
    }
}

/// A text that is not the full name of an object.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NameError {
    /// There is no slash.
    #[error("{0} is not of the form namespace/name")]
    NoNamespace(
        /// The text, in quotes; cut short if it is long.
        String,
    ),
    /// Nothing follows the slash.
    #[error("{0} names nothing after the slash")]
    NoName(
        /// The text, in quotes; cut short if it is long.
        String,
    ),
    /// The bytes are no text.
    #[error("the name is not UTF-8 at byte {valid_up_to}")]
    NotUtf8 {
        /// How many bytes are UTF-8 before the first that is not.
        valid_up_to: usize,
    },
}

impl NameError {
    fn of(text: &str) -> NameError {
        let quoted = alloc::format!("{:?}", clip(text));
        if text.contains('/') { NameError::NoName(quoted) } else { NameError::NoNamespace(quoted) }
    }
}

#[cfg(test)]
mod tests;
