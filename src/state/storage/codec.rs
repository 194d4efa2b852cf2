//! The serialised form of storage: objects by kind and name, and bindings of commits.

use alloc::vec::Vec;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error};

use super::object::StorageObject;
use super::tables::{Assumed, Storage, Table};

#[derive(Serialize, Deserialize)]
struct Data {
    objects: Vec<(StorageObject, u64)>,
    #[serde(default, skip_serializing_if = "Assumed::is_empty")]
    assumed: Assumed,
}

impl Assumed {
    fn is_empty(&self) -> bool {
        *self == Assumed::default()
    }
}

impl Storage {
    /// Whether there is nothing to be told.
    pub(in crate::state) fn is_empty(&self) -> bool {
        self.objects().next().is_none() && self.assumed.is_empty()
    }

    fn objects(&self) -> impl Iterator<Item = (StorageObject, u64)> {
        fn of<T: Clone + Into<StorageObject>>(
            table: &Table<T>,
        ) -> impl Iterator<Item = (StorageObject, u64)> {
            table.0.values().map(|(object, version)| (T::clone(object).into(), *version))
        }
        of(&self.claims)
            .chain(of(&self.volumes))
            .chain(of(&self.classes))
            .chain(of(&self.drivers))
            .chain(of(&self.capacities))
            .chain(of(&self.limits))
            .chain(of(&self.attachments))
    }
}

impl Serialize for Storage {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let assumed = Assumed::clone(&self.assumed);
        Data { objects: self.objects().collect(), assumed }.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Storage {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Storage, D::Error> {
        let data = Data::deserialize(deserializer)?;
        let mut storage = Storage::default();
        for (object, version) in data.objects {
            object.check().map_err(D::Error::custom)?;
            storage.put(object, version);
        }
        storage.assumed = data.assumed.into();
        Ok(storage)
    }
}
