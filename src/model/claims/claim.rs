//! Claims on devices: requests, alternatives and constraints.

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

use super::allocation::Allocation;
use crate::base::Quantity;
use crate::model::taint::Toleration;

/// A claim: an object of its own, which pods name.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "camelCase", default))]
#[non_exhaustive]
pub struct ResourceClaim {
    /// The namespace.
    pub namespace: String,
    /// The name.
    pub name: String,
    /// The identity of the object that controls it: the pod or group that it was made for.
    pub owner: String,
    /// The requests and constraints.
    pub spec: Arc<ClaimSpec>,
    /// Whether it is being deleted.
    pub deleting: bool,
    /// The devices it has.
    pub allocation: Option<Arc<Allocation>>,
    /// The identities of those that it is reserved for.
    pub reserved_for: Vec<String>,
}

/// Devices by request, and constraints on all of them together.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(default))]
#[non_exhaustive]
pub struct ClaimSpec {
    /// Requests, in the order in which they are served.
    pub requests: Vec<ClaimRequest>,
    /// Constraints on the devices together.
    pub constraints: Vec<ClaimConstraint>,
}

/// One request of a claim.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct ClaimRequest {
    /// The name; unique in the claim.
    pub name: String,
    /// The demand, or alternatives to it.
    pub choice: RequestChoice,
}

/// The demand of a request, or alternatives to it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "camelCase"))]
#[non_exhaustive]
pub enum RequestChoice {
    /// Just this.
    Exactly(DeviceDemand),
    /// The first of these that can be had.
    FirstAvailable(Vec<SubRequest>),
}

/// One alternative of a request.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct SubRequest {
    /// The name; unique in the request.
    pub name: String,
    /// Demand of the alternative.
    pub demand: DeviceDemand,
}

/// Devices of a class.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(default))]
#[non_exhaustive]
pub struct DeviceDemand {
    /// The name of the class.
    pub class: String,
    /// Expressions that must all hold of a device, beside those of the class.
    pub selectors: Vec<String>,
    /// How many devices.
    pub amount: DeviceAmount,
    /// Whether devices in use will do, as for those who maintain them.
    pub admin: bool,
    /// Taints consented to.
    pub tolerations: Vec<Toleration>,
    /// Amounts taken of each device, by capacity; all of a capacity that is not named.
    pub capacity: BTreeMap<String, Quantity>,
}

/// How many devices.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "camelCase"))]
#[non_exhaustive]
pub enum DeviceAmount {
    /// So many.
    Count(u64),
    /// All that match.
    All,
    /// An amount that is not understood. Such a claim is an error wherever it is tried.
    Unknown,
}

impl Default for DeviceAmount {
    fn default() -> DeviceAmount {
        DeviceAmount::Count(1)
    }
}

/// A constraint on several devices together.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct ClaimConstraint {
    /// The requests meant, as `request` or `request/alternative`; all if there are none.
    #[cfg_attr(feature = "serde", serde(default))]
    pub requests: Vec<String>,
    /// The rule for their devices.
    pub rule: AttributeRule,
}

/// A rule on one attribute of several devices. Devices without the attribute are out.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "camelCase"))]
#[non_exhaustive]
pub enum AttributeRule {
    /// All have one value. The name is full: `domain/id`.
    Match(String),
    /// No two have one value. As kube-scheduler 1.36 does, one value is remembered a request: that
    /// of its last device.
    Distinct(String),
    /// A rule that is not understood. Such a claim is an error wherever it is tried.
    Unknown,
}

/// A claim of a pod.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct PodClaim {
    /// The name; unique in the pod.
    pub name: String,
    /// Where it comes from.
    pub source: ClaimSource,
}

/// Where a claim of a pod comes from.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "camelCase"))]
#[non_exhaustive]
pub enum ClaimSource {
    /// The claim of this name in the pod's namespace, which other pods may name too.
    Named(String),
    /// The claim of this name, if it was made for one of these owners.
    Made {
        /// The name of the claim.
        claim: String,
        /// The identities of the pod, and of the group that it is of.
        owners: Vec<String>,
    },
    /// A claim that is yet to be made. The pod waits for it.
    Unmade,
    /// A claim like this, for the pod alone. It comes and goes with the pod.
    Own(Arc<ClaimSpec>),
    /// A claim for resources that nodes lack and classes serve, with its requests in order.
    Extended(Vec<ExtendedRequest>),
}

/// A request for a resource that a class of devices may serve.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct ExtendedRequest {
    /// The resource.
    pub resource: String,
    /// The name; unique in the claim.
    pub name: String,
    /// How many devices.
    pub count: u64,
}

impl ClaimSpec {
    /// A claim without requests.
    pub fn new() -> ClaimSpec {
        ClaimSpec::default()
    }

    /// Adds a request.
    #[must_use]
    pub fn request(mut self, name: impl Into<String>, demand: DeviceDemand) -> ClaimSpec {
        let choice = RequestChoice::Exactly(demand);
        self.requests.push(ClaimRequest { name: name.into(), choice });
        self
    }

    /// Adds a request for the first of several alternatives that can be had.
    #[must_use]
    pub fn first_of<S: Into<String>>(
        mut self,
        name: impl Into<String>,
        alternatives: impl IntoIterator<Item = (S, DeviceDemand)>,
    ) -> ClaimSpec {
        let alternative = |(name, demand): (S, _)| SubRequest { name: name.into(), demand };
        let alternatives = alternatives.into_iter().map(alternative).collect();
        let choice = RequestChoice::FirstAvailable(alternatives);
        self.requests.push(ClaimRequest { name: name.into(), choice });
        self
    }

    /// Asks that all devices have one value of an attribute, by its full name `domain/id`.
    #[must_use]
    pub fn same(mut self, attribute: impl Into<String>) -> ClaimSpec {
        let rule = AttributeRule::Match(attribute.into());
        self.constraints.push(ClaimConstraint { requests: Vec::new(), rule });
        self
    }

    /// Asks that no two devices have one value of an attribute, by its full name `domain/id`.
    #[must_use]
    pub fn distinct(mut self, attribute: impl Into<String>) -> ClaimSpec {
        let rule = AttributeRule::Distinct(attribute.into());
        self.constraints.push(ClaimConstraint { requests: Vec::new(), rule });
        self
    }

    /// Demands of the requests and of their alternatives, with their names.
    pub fn demands(&self) -> impl Iterator<Item = (&str, Option<&str>, &DeviceDemand)> {
        self.requests.iter().flat_map(|request| {
            let (one, many) = match &request.choice {
                RequestChoice::Exactly(demand) => (Some((None, demand)), &[][..]),
                RequestChoice::FirstAvailable(many) => (None, &many[..]),
            };
            let many = many.iter().map(|sub| (Some(&*sub.name), &sub.demand));
            one.into_iter().chain(many).map(|(sub, demand)| (&*request.name, sub, demand))
        })
    }
}

impl DeviceDemand {
    /// So many devices of a class.
    pub fn of(class: impl Into<String>, count: u64) -> DeviceDemand {
        let amount = DeviceAmount::Count(count);
        DeviceDemand { class: class.into(), amount, ..DeviceDemand::default() }
    }

    /// All devices of a class.
    pub fn all(class: impl Into<String>) -> DeviceDemand {
        let amount = DeviceAmount::All;
        DeviceDemand { class: class.into(), amount, ..DeviceDemand::default() }
    }

    /// Confines it to devices that an expression holds of, too.
    #[must_use]
    pub fn selector(mut self, expression: impl Into<String>) -> DeviceDemand {
        self.selectors.push(expression.into());
        self
    }

    /// Asks for a part of a capacity of each device.
    #[must_use]
    pub fn taking(mut self, capacity: impl Into<String>, amount: impl Into<Quantity>) -> Self {
        self.capacity.insert(capacity.into(), amount.into());
        self
    }
}

impl ResourceClaim {
    /// A claim in namespace `default` that has no devices yet.
    pub fn new(name: impl Into<String>, spec: ClaimSpec) -> ResourceClaim {
        ResourceClaim {
            namespace: "default".into(),
            name: name.into(),
            spec: Arc::new(spec),
            ..ResourceClaim::default()
        }
    }

    /// Sets the namespace.
    #[must_use]
    pub fn in_namespace(mut self, namespace: impl Into<String>) -> ResourceClaim {
        self.namespace = namespace.into();
        self
    }
}
