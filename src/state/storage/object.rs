//! Objects of storage: any of the kinds, and how each is named.

use alloc::string::String;

use crate::base::ObjectName;
use crate::model::{
    AttachLimits, ModelError, Problem, StorageCapacity, StorageClass, StorageDriver, Volume,
    VolumeAttachment, VolumeClaim,
};

/// An object that says where volumes are and where they can be made.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "camelCase"))]
#[non_exhaustive]
pub enum StorageObject {
    /// A claim.
    Claim(VolumeClaim),
    /// A volume.
    Volume(Volume),
    /// A storage class.
    Class(StorageClass),
    /// A driver.
    Driver(StorageDriver),
    /// Free capacity of a pool.
    Capacity(StorageCapacity),
    /// How many volumes a node can attach.
    Limits(AttachLimits),
    /// A volume attached to a node.
    Attachment(VolumeAttachment),
}

/// A kind of storage object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "camelCase"))]
#[non_exhaustive]
pub enum StorageKind {
    /// [`VolumeClaim`].
    Claim,
    /// [`Volume`].
    Volume,
    /// [`StorageClass`].
    Class,
    /// [`StorageDriver`].
    Driver,
    /// [`StorageCapacity`].
    Capacity,
    /// [`AttachLimits`].
    Limits,
    /// [`VolumeAttachment`].
    Attachment,
}

/// The kind and the name of a storage object; claims and capacities are named `namespace/name`, attach
/// limits by their node.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct StorageKey {
    /// The kind.
    pub kind: StorageKind,
    /// The name.
    pub name: String,
}

impl StorageKey {
    /// The key of an object that is named within all of the cluster.
    pub fn new(kind: StorageKind, name: impl Into<String>) -> StorageKey {
        StorageKey { kind, name: name.into() }
    }

    /// The key of a claim.
    pub fn claim(namespace: &str, name: &str) -> StorageKey {
        StorageKey::new(StorageKind::Claim, ObjectName::new(namespace, name))
    }
}

impl StorageObject {
    /// Its kind and name.
    pub fn key(&self) -> StorageKey {
        match self {
            StorageObject::Claim(claim) => StorageKey::new(StorageKind::Claim, claim.full_name()),
            StorageObject::Volume(volume) => StorageKey::new(StorageKind::Volume, &*volume.name),
            StorageObject::Class(class) => StorageKey::new(StorageKind::Class, &*class.name),
            StorageObject::Driver(driver) => StorageKey::new(StorageKind::Driver, &*driver.name),
            StorageObject::Capacity(pool) => {
                StorageKey::new(StorageKind::Capacity, pool.full_name())
            }
            StorageObject::Limits(limits) => StorageKey::new(StorageKind::Limits, &*limits.node),
            StorageObject::Attachment(attachment) => {
                StorageKey::new(StorageKind::Attachment, &*attachment.name)
            }
        }
    }

    /// Whether a cluster can take the object.
    ///
    /// # Errors
    /// It has no name, or an amount is negative.
    pub fn check(&self) -> Result<(), ModelError> {
        let StorageKey { kind, name } = self.key();
        let own = name.rsplit('/').next().unwrap_or_default();
        let object = || alloc::format!("{} {name}", kind.word());
        if own.is_empty() {
            return Err(ModelError::new(object(), "name", Problem::Required));
        }
        let amounts = match self {
            StorageObject::Claim(claim) => [("request", claim.request), ("", None)],
            StorageObject::Volume(volume) => [("capacity", Some(volume.capacity)), ("", None)],
            StorageObject::Capacity(pool) => {
                [("capacity", pool.capacity), ("largest_volume", pool.largest_volume)]
            }
            _ => return Ok(()),
        };
        let negative = amounts.into_iter().find(|(_, amount)| amount.is_some_and(|a| a < 0));
        match negative {
            Some((field, _)) => Err(ModelError::new(object(), field, Problem::Negative)),
            None => Ok(()),
        }
    }
}

impl StorageKind {
    #[cfg(feature = "serde")]
    const ALL: [StorageKind; 7] = [
        StorageKind::Claim,
        StorageKind::Volume,
        StorageKind::Class,
        StorageKind::Driver,
        StorageKind::Capacity,
        StorageKind::Limits,
        StorageKind::Attachment,
    ];

    /// The kind that a word names.
    #[cfg(feature = "serde")]
    pub(in crate::state) fn of_word(word: &str) -> Option<StorageKind> {
        StorageKind::ALL.into_iter().find(|kind| kind.word() == word)
    }

    /// The word that errors name it by.
    pub(crate) fn word(self) -> &'static str {
        match self {
            StorageKind::Claim => "volume claim",
            StorageKind::Volume => "volume",
            StorageKind::Class => "storage class",
            StorageKind::Driver => "storage driver",
            StorageKind::Capacity => "storage capacity",
            StorageKind::Limits => "attach limits of node",
            StorageKind::Attachment => "volume attachment",
        }
    }
}

macro_rules! from_object {
    ($($variant:ident $model:ident)*) => {
        $(impl From<$model> for StorageObject {
            fn from(object: $model) -> StorageObject {
                StorageObject::$variant(object)
            }
        })*
    };
}

from_object! {
    Claim VolumeClaim
    Volume Volume
    Class StorageClass
    Driver StorageDriver
    Capacity StorageCapacity
    Limits AttachLimits
    Attachment VolumeAttachment
}
