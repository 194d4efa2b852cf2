//! Objects of claims: any of the kinds, and how each is named.

use alloc::string::String;

use crate::base::ObjectName;
use crate::model::{DeviceClass, ModelError, Problem, ResourceClaim, ResourceSlice};

/// An object that says which devices there are, or who has them.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "camelCase"))]
#[non_exhaustive]
pub enum ClaimObject {
    /// A class of devices.
    Class(DeviceClass),
    /// A part of a pool of devices.
    Slice(ResourceSlice),
    /// A claim.
    Claim(ResourceClaim),
}

/// A kind of [`ClaimObject`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "camelCase"))]
#[non_exhaustive]
pub enum ClaimKind {
    /// [`DeviceClass`].
    Class,
    /// [`ResourceSlice`].
    Slice,
    /// [`ResourceClaim`].
    Claim,
}

/// The kind and the name of a [`ClaimObject`]; claims are named `namespace/name`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct ClaimKey {
    /// The kind.
    pub kind: ClaimKind,
    /// The name.
    pub name: String,
}

impl ClaimKey {
    /// The key of an object by its name, with the namespace of one that is in a namespace.
    pub fn new(kind: ClaimKind, name: impl Into<String>) -> ClaimKey {
        ClaimKey { kind, name: name.into() }
    }

    /// The key of a claim.
    pub fn claim(namespace: &str, name: &str) -> ClaimKey {
        ClaimKey::new(ClaimKind::Claim, ObjectName::new(namespace, name))
    }
}

impl ClaimObject {
    /// Its kind and name.
    pub fn key(&self) -> ClaimKey {
        match self {
            ClaimObject::Class(class) => ClaimKey::new(ClaimKind::Class, &*class.name),
            ClaimObject::Slice(slice) => ClaimKey::new(ClaimKind::Slice, &*slice.name),
            ClaimObject::Claim(claim) => ClaimKey::claim(&claim.namespace, &claim.name),
        }
    }

    /// Whether a cluster can take the object.
    ///
    /// # Errors
    /// It has no name.
    pub fn check(&self) -> Result<(), ModelError> {
        let ClaimKey { kind, name } = self.key();
        if name.rsplit('/').next().unwrap_or_default().is_empty() {
            let object = alloc::format!("{} {name}", kind.word());
            return Err(ModelError::new(object, "name", Problem::Required));
        }
        Ok(())
    }
}

impl ClaimKind {
    #[cfg(feature = "serde")]
    const ALL: [ClaimKind; 3] = [ClaimKind::Class, ClaimKind::Slice, ClaimKind::Claim];

    /// The kind that a word names.
    #[cfg(feature = "serde")]
    pub(in crate::state) fn of_word(word: &str) -> Option<ClaimKind> {
        ClaimKind::ALL.into_iter().find(|kind| kind.word() == word)
    }

    /// The word that errors name it by.
    pub(crate) fn word(self) -> &'static str {
        match self {
            ClaimKind::Class => "device class",
            ClaimKind::Slice => "resource slice",
            ClaimKind::Claim => "resource claim",
        }
    }
}

macro_rules! from_object {
    ($($variant:ident $model:ident)*) => {
        $(impl From<$model> for ClaimObject {
            fn from(object: $model) -> ClaimObject {
                ClaimObject::$variant(object)
            }
        })*
    };
}

from_object! {
    Class DeviceClass
    Slice ResourceSlice
    Claim ResourceClaim
}
