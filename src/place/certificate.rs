//! Certificates: proofs that a group cannot be placed, as data.

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use super::error::PlaceError;
use crate::base::clip::clip;

/// Proof that a group cannot be placed: the domains it might go to, and what each lacks.
///
/// [`Certificate::verify`] checks it without the planner.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "camelCase"))]
#[non_exhaustive]
pub struct Certificate {
    /// The refusal of the whole group.
    pub refusal: Refusal,
}

/// A group, or a slice of one, and why it can go nowhere.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "camelCase"))]
#[non_exhaustive]
pub struct Refusal {
    /// The full name of the group; a slice has its number after it: `default/trainer[3]`.
    pub group: String,
    /// Every domain it may go to, and what that lacks. Empty if there is no such domain, or if the
    /// group cannot count anywhere.
    pub candidates: Vec<CandidateLack>,
    /// More must be placed than the group has, whatever the cluster: the members it has, and the
    /// members it needs.
    pub too_few: Option<(u32, u32)>,
}

/// A domain and what it lacks.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "camelCase"))]
#[non_exhaustive]
pub struct CandidateLack {
    /// The node label key; `None` where the group is not confined.
    pub key: Option<String>,
    /// The values of the level and of those above it, coarsest first; `None` where nodes lack the
    /// label of a level above.
    pub path: Vec<Option<String>>,
    /// Its lack.
    pub lack: Lack,
}

/// The lack of a domain for a group.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "camelCase", rename_all_fields = "camelCase"))]
#[non_exhaustive]
pub enum Lack {
    /// Not enough of a resource is free in all of its nodes together.
    Room {
        /// The resource; `pods` for the number of pods.
        resource: String,
        /// The least the group takes.
        need: i64,
        /// The amount free.
        free: i64,
    },
    /// Not enough pods like one of the group's fit, each node by itself.
    Count {
        /// A pod of the group, by name; the others like it are meant too.
        pod: String,
        /// How many are needed.
        need: u32,
        /// How many fit if nothing else is placed.
        fits: u32,
    },
    /// Not enough members fit, each kind counted by itself.
    Members {
        /// How many are needed.
        need: u32,
        /// At most so many fit.
        fits: u32,
    },
    /// Not enough large pods fit, each node by itself, whichever of them it gets. Pods that take
    /// `each` or more of a resource are counted as if each took the least that any of them takes.
    Shares {
        /// The resource.
        resource: String,
        /// The least amount of a large pod.
        each: i64,
        /// How many such pods are needed.
        need: u32,
        /// At most so many fit.
        fits: u32,
    },
    /// Not enough devices for claims: requests that only the devices of one of them can serve need
    /// more than there are. Devices are counted in groups of `each` on one node: a request for 8
    /// needs two groups of 4.
    Devices {
        /// A pod of the group, by name.
        pod: String,
        /// Its claim, by the name in the pod.
        claim: String,
        /// The request whose devices are counted.
        request: String,
        /// The attribute that the devices of a group share, and those of the requests counted.
        same: Option<String>,
        /// The size of a group.
        each: u64,
        /// How many groups are needed.
        need: u64,
        /// How many there are, whoever gets them.
        fits: u64,
    },
    /// Not enough pods like some can have the devices of their claims, each node by itself. A node
    /// serves pods together as far as devices, counters, capacities and room go. Pods that share a
    /// claim go to one node.
    Claims {
        /// A pod of each kind that is counted, by name.
        pods: Vec<String>,
        /// How many are needed.
        need: u32,
        /// How many nodes can serve if nothing else is placed.
        fits: u32,
    },
    /// Too many of the groups inside can go nowhere in it.
    Groups {
        /// How much must be placed: groups, or members in slices.
        need: u32,
        /// At most so much can be.
        fits: u32,
        /// Groups and slices that cannot be placed in it.
        blocked: Vec<Refusal>,
    },
    /// Everything was tried. That is the searcher's word: only a search of one's own can check it.
    Searched,
}

/// The basis of a sound certificate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Proof {
    /// Counts and sums alone, all of which were checked.
    Counted,
    /// Also searches, which are labelled [`Lack::Searched`] and were not repeated. That the domains
    /// searched are all there are was checked.
    Searched,
}

/// Errors of a certificate.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Flaw {
    /// It is about another group.
    #[error("group {} is not the one asked for", clip(.0))]
    Group(String),
    /// The domains listed are not those that the group may go to.
    #[error("group {}: the domains listed are not its candidates", clip(.0))]
    Candidates(String),
    /// A domain does not lack what is claimed.
    #[error("group {}: {} does not lack what is claimed", clip(.group), clip(.domain))]
    Claim {
        /// The group.
        group: String,
        /// The domain.
        domain: String,
    },
    /// The request makes no sense.
    #[error(transparent)]
    Request(#[from] PlaceError),
}

impl fmt::Display for Certificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.refusal.write(f, 0)
    }
}

impl Refusal {
    fn write(&self, f: &mut fmt::Formatter<'_>, depth: usize) -> fmt::Result {
        let indent = 2 * depth;
        if let Some((have, need)) = self.too_few {
            return write!(f, "{:indent$}{}: {need} needed, there are {have}", "", self.group);
        }
        if self.candidates.is_empty() {
            return write!(f, "{:indent$}{}: there is no domain for it", "", self.group);
        }
        write!(f, "{:indent$}{} fits nowhere", "", self.group)?;
        for candidate in &self.candidates {
            write!(f, "\n{:indent$}  {}: {}", "", candidate.name(), candidate.lack)?;
            if let Lack::Groups { blocked, .. } = &candidate.lack {
                for refusal in blocked {
                    writeln!(f)?;
                    refusal.write(f, depth + 2)?;
                }
            }
        }
        Ok(())
    }
}

impl CandidateLack {
    /// The domain for people: `rack=r1`, or `all nodes`.
    pub fn name(&self) -> String {
        match (&self.key, self.path.last()) {
            (Some(key), Some(value)) => {
                alloc::format!("{key}={}", value.as_deref().unwrap_or("-"))
            }
            _ => String::from("all nodes"),
        }
    }
}

impl fmt::Display for Lack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Lack::Room { resource, need, free } => {
                write!(f, "needs {need} of {resource}, {free} are free")
            }
            Lack::Count { pod, need, fits } => {
                write!(f, "{need} pods like {pod} are needed, {fits} fit")
            }
            Lack::Shares { resource, each, need, fits } => {
                write!(
                    f,
                    "{need} pods that take {each} or more of {resource} are needed, {fits} fit"
                )
            }
            Lack::Devices { pod, claim, request, same, each, need, fits } => {
                write!(f, "{need}")?;
                match each {
                    1 => f.write_str(" devices")?,
                    each => write!(f, " groups of {each} devices")?,
                }
                if let Some(same) = same {
                    write!(f, " of one {same}")?;
                }
                write!(f, " like request {request} of claim {pod}/{claim} are needed, {fits} fit")
            }
            Lack::Claims { pods, need, fits } => {
                let (shown, more) = pods.split_at(pods.len().min(3));
                write!(f, "{need} pods like {}", shown.join(", "))?;
                if !more.is_empty() {
                    write!(f, " and {} others", more.len())?;
                }
                write!(f, " are needed with their claims, {fits} fit")
            }
            Lack::Members { need, fits } => write!(f, "{need} members are needed, {fits} fit"),
            Lack::Groups { need, fits, blocked } => {
                write!(f, "{need} must be placed inside, {fits} can; blocked: {}", blocked.len())
            }
            Lack::Searched => f.write_str("every way was tried"),
        }
    }
}
