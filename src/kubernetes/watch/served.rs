//! Versions of `scheduling.k8s.io`: which of them a server serves a resource in.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use serde::Deserialize;

use super::event::Kind;

/// The API group.
const GROUP: &str = "scheduling.k8s.io";

/// A version of `scheduling.k8s.io`, in the order in which it is preferred.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Version {
    /// `v1`: priority classes in every release; groups are planned for 1.38.
    V1,
    /// `v1beta1`: 1.37.
    V1Beta1,
    /// `v1alpha3`: 1.37, with composite groups.
    V1Alpha3,
    /// `v1alpha2`: 1.36 alone.
    V1Alpha2,
    /// `v1alpha1`: 1.35 alone, where a `Workload` holds the groups.
    V1Alpha1,
}

impl Version {
    /// All versions, the preferred first.
    pub const ALL: [Version; 5] =
        [Version::V1, Version::V1Beta1, Version::V1Alpha3, Version::V1Alpha2, Version::V1Alpha1];

    /// The version in paths and in `apiVersion`.
    pub fn name(self) -> &'static str {
        match self {
            Version::V1 => "v1",
            Version::V1Beta1 => "v1beta1",
            Version::V1Alpha3 => "v1alpha3",
            Version::V1Alpha2 => "v1alpha2",
            Version::V1Alpha1 => "v1alpha1",
        }
    }

    /// The version of a name; `None` for others.
    pub fn named(name: &str) -> Option<Version> {
        Version::ALL.into_iter().find(|version| version.name() == name)
    }

    /// The condition of a `PodGroup` by which it is scheduled; `None` where it has no status.
    ///
    /// Since `v1alpha3` it never turns false again once it is true.
    pub fn scheduled_condition(self) -> Option<&'static str> {
        match self {
            Version::V1 | Version::V1Beta1 | Version::V1Alpha3 => {
                Some("PodGroupInitiallyScheduled")
            }
            Version::V1Alpha2 => Some("PodGroupScheduled"),
            Version::V1Alpha1 => None,
        }
    }
}

/// A resource of `scheduling.k8s.io` whose version depends on the release.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum SchedulingResource {
    /// `podgroups`.
    PodGroups,
    /// `compositepodgroups`.
    CompositePodGroups,
    /// `workloads`.
    Workloads,
}

impl SchedulingResource {
    /// All resources.
    pub const ALL: [SchedulingResource; 3] = [
        SchedulingResource::PodGroups,
        SchedulingResource::CompositePodGroups,
        SchedulingResource::Workloads,
    ];

    /// The resource in paths and in discovery.
    pub fn name(self) -> &'static str {
        match self {
            SchedulingResource::PodGroups => "podgroups",
            SchedulingResource::CompositePodGroups => "compositepodgroups",
            SchedulingResource::Workloads => "workloads",
        }
    }

    /// The resource of a kind; `None` for kinds whose version does not depend on the release.
    pub fn of(kind: Kind) -> Option<SchedulingResource> {
        match kind {
            Kind::PodGroup => Some(SchedulingResource::PodGroups),
            Kind::CompositePodGroup => Some(SchedulingResource::CompositePodGroups),
            Kind::Workload => Some(SchedulingResource::Workloads),
            _ => None,
        }
    }
}

/// The answer of `GET /apis/<group>/<version>`: an `APIResourceList`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ResourceList {
    group_version: String,
    resources: Vec<Resource>,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
struct Resource {
    name: String,
}

/// The version to watch of each resource of `scheduling.k8s.io` that a server serves.
///
/// It is chosen by resource: the first of [`Version::ALL`] whose list contains it. A version alone
/// proves nothing, because `v1` is always there with priority classes, and a feature gate takes a
/// resource out of the list of its version. A resource may be served in two versions; its objects
/// are the same in both, and one watch shows them all.
///
/// Ask again when a watch ends with 404 or 410, after a lost connection, and every few minutes: the
/// servers of a cluster are upgraded one after another. Keep the objects of the old version until
/// those of the new one are listed.
///
/// ```
/// use phalanx::kubernetes::watch::{ResourceList, SchedulingResource, Served, Version};
///
/// let lists = [
///     r#"{"groupVersion": "scheduling.k8s.io/v1", "resources": [{"name": "priorityclasses"}]}"#,
///     r#"{"groupVersion": "scheduling.k8s.io/v1alpha3", "resources": [{"name": "podgroups"},
///         {"name": "compositepodgroups"}, {"name": "compositepodgroups/status"}]}"#,
///     r#"{"groupVersion": "scheduling.k8s.io/v1beta1", "resources": [{"name": "podgroups"}]}"#,
/// ];
/// let lists: Vec<ResourceList> = lists.map(|list| serde_json::from_str(list).unwrap()).into();
/// let served = Served::new(&lists);
/// assert_eq!(served.version(SchedulingResource::PodGroups), Some(Version::V1Beta1));
/// assert_eq!(served.version(SchedulingResource::CompositePodGroups), Some(Version::V1Alpha3));
/// assert_eq!(served.version(SchedulingResource::Workloads), None);
/// let path = served.path(SchedulingResource::PodGroups);
/// assert_eq!(path.as_deref(), Some("/apis/scheduling.k8s.io/v1beta1/podgroups"));
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Served {
    versions: BTreeMap<SchedulingResource, Version>,
}

impl Served {
    /// The choice by the lists of a server; those of other groups are passed over. O(resources).
    pub fn new(lists: &[ResourceList]) -> Served {
        let mut versions = BTreeMap::new();
        for list in lists {
            let Some((GROUP, version)) = list.group_version.split_once('/') else { continue };
            let Some(version) = Version::named(version) else { continue };
            let lists = |resource: &SchedulingResource| {
                list.resources.iter().any(|own| own.name == resource.name())
            };
            for resource in SchedulingResource::ALL.into_iter().filter(lists) {
                let chosen = versions.entry(resource).or_insert(version);
                *chosen = version.min(*chosen);
            }
        }
        Served { versions }
    }

    /// The version to watch of a resource; `None` if it is not served.
    pub fn version(&self, resource: SchedulingResource) -> Option<Version> {
        self.versions.get(&resource).copied()
    }

    /// The path of a resource in all namespaces; `None` if it is not served.
    pub fn path(&self, resource: SchedulingResource) -> Option<String> {
        let version = self.version(resource)?.name();
        Some(format!("/apis/{GROUP}/{version}/{}", resource.name()))
    }
}
