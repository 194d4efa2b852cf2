//! Ids: numbers of nodes, pods, resources, labels and shapes of one cluster.

/// No row, no slot.
pub(crate) const NONE: u32 = u32::MAX;

macro_rules! id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub(crate) u32);

        impl $name {
            /// The number itself. It has no meaning outside its cluster.
            #[inline]
            pub const fn index(self) -> usize {
                self.0 as usize
            }
        }
    };
}

id! {
    /// A resource by name, in one cluster and its clones.
    ResourceId
}
id! {
    /// A label key, in one cluster and its clones.
    LabelKey
}
id! {
    /// A label value, in one cluster and its clones.
    LabelValue
}
id! {
    /// A pod shape, in one cluster.
    ShapeId
}
id! {
    /// A pod that is bound, in one cluster.
    PodId
}

/// A node of one cluster. It stays the same while the node exists, and is not used again for
/// another node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId {
    pub(crate) row: u32,
    /// Number of the row's use.
    pub(crate) use_count: u32,
}
