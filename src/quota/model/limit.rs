//! Limits by user and group, as the embedder states them.

use alloc::collections::BTreeSet;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use crate::model::Amounts;
use crate::quota::model::error::{LimitProblem, QuotaError};

/// The name that stands for every other user, or for all users of no named group.
pub const ANYONE: &str = "*";

/// A limit on the work of users and groups in a queue and in all below it: `YuniKorn`'s `limits`.
///
/// *Users.* Each user named has the limit to itself. [`ANYONE`] among the users gives it to each user
/// that the queue names nowhere.
///
/// *Groups.* All users of a group share its limit. A claim counts in one group: from its leaf up, the
/// first that a queue names and that the user is in. [`ANYONE`] among the groups of a queue takes the
/// users of none of them, who share that limit.
///
/// A claim keeps to the limit of its user and to that of its group, in every queue on its path. A
/// claim without a [user](crate::quota::Claim::owner) is bound by none. A limit keeps claims out and
/// takes nothing back: nobody yields for it. Amounts are of a resource in all of its flavors; one
/// that no queue has quota of is not counted where the dialect does not count it.
///
/// ```
/// use phalanx::Time;
/// use phalanx::model::{Amounts, Owner};
/// use phalanx::quota::{
///     AssignmentMode, Claim, Flavor, PodSet, Queue, Quota, Tenants, UserLimit,
/// };
///
/// let mut tenants = Tenants::default();
/// tenants.set_flavor(Flavor::new("all"));
/// let limit = UserLimit::users(["*"]).amount("gpu", 4);
/// let queue = Queue::leaf("vision").quota("all", "gpu", Quota::nominal(16)).limit(limit);
/// tenants.set_queue(queue)?;
/// let claim = |name: &str, user: &str| {
///     let requests = Amounts::new().with("gpu", 3);
///     Claim::new(name, "vision").owner(Owner::new(user)).pods(PodSet::new("main", 1, requests))
/// };
/// let first = claim("one", "ada");
/// let decision = tenants.decide(&first)?;
/// tenants.admit(&first, &decision.assignment, Time::ZERO)?;
/// // The queue has room for both; the second claim of one user has to wait.
/// let second = claim("two", "ada");
/// let decision = tenants.decide(&second)?;
/// assert_eq!(decision.assignment.mode, AssignmentMode::NoFit);
/// let over = tenants.over_limit(&second, &decision.assignment.usage).expect("the limit binds");
/// assert_eq!((over.resource.as_deref(), over.limit, over.used), (Some("gpu"), 4, 3));
/// assert_eq!(tenants.decide(&claim("three", "bob"))?.assignment.mode, AssignmentMode::Fit);
/// # Ok::<(), phalanx::quota::QuotaError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "camelCase", default))]
#[non_exhaustive]
pub struct UserLimit {
    /// The users; [`ANYONE`] stands last, after all named ones of the queue.
    pub users: Vec<String>,
    /// The groups; [`ANYONE`] stands last, after all named ones of the queue.
    pub groups: Vec<String>,
    /// The most that may be used; a resource that is absent has no bound.
    pub amounts: Amounts,
    /// How many claims may hold quota at once; `None`: no bound.
    pub claims: Option<u32>,
}

impl UserLimit {
    /// A limit of users, without bounds yet.
    pub fn users<U: Into<String>>(users: impl IntoIterator<Item = U>) -> UserLimit {
        UserLimit { users: users.into_iter().map(Into::into).collect(), ..UserLimit::default() }
    }

    /// A limit of groups, without bounds yet.
    pub fn groups<G: Into<String>>(groups: impl IntoIterator<Item = G>) -> UserLimit {
        UserLimit { groups: groups.into_iter().map(Into::into).collect(), ..UserLimit::default() }
    }

    /// Sets the most that may be used of a resource.
    #[must_use]
    pub fn amount(mut self, resource: &str, most: i64) -> UserLimit {
        self.amounts.set(resource, most);
        self
    }

    /// Sets how many claims may hold quota at once.
    #[must_use]
    pub fn claims(mut self, most: u32) -> UserLimit {
        self.claims = Some(most);
        self
    }
}

/// The user or group that a limit counts for.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "camelCase"))]
#[non_exhaustive]
pub enum Limited {
    /// A user, by name, also where the limit is that of [`ANYONE`].
    User(String),
    /// A group; [`ANYONE`] for the users of none that is named.
    Group(String),
}

impl fmt::Display for Limited {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Limited::User(name) => write!(f, "user {name}"),
            Limited::Group(name) => write!(f, "group {name}"),
        }
    }
}

/// Whether the limits of a queue make sense. O(names · log names).
pub(in crate::quota) fn check(queue: &str, limits: &[UserLimit]) -> Result<(), QuotaError> {
    match limit_problem(limits) {
        Some((number, problem)) => {
            Err(QuotaError::UserLimit { queue: queue.into(), number, problem })
        }
        None => Ok(()),
    }
}

/// The first limit of a queue that makes no sense, by number. O(names · log names).
pub(crate) fn limit_problem(limits: &[UserLimit]) -> Option<(usize, LimitProblem)> {
    let (mut users, mut groups) = (Names::default(), Names::default());
    let mut all = limits.iter().enumerate();
    all.find_map(|(number, limit)| Some((number, problem_of(limit, &mut users, &mut groups)?)))
}

fn problem_of<'l>(
    limit: &'l UserLimit,
    users: &mut Names<'l>,
    groups: &mut Names<'l>,
) -> Option<LimitProblem> {
    if limit.users.is_empty() && limit.groups.is_empty() {
        return Some(LimitProblem::OfNobody);
    }
    if limit.amounts.is_empty() && limit.claims.is_none() {
        return Some(LimitProblem::OfNothing);
    }
    if let Some((resource, _)) = limit.amounts.iter().find(|(_, amount)| *amount < 0) {
        return Some(LimitProblem::Negative(resource.into()));
    }
    let of_users = limit.users.iter().find_map(|name| users.add(name));
    of_users.or_else(|| limit.groups.iter().find_map(|name| groups.add(name)))
}

/// The names of one kind that have stood so far.
#[derive(Default)]
struct Names<'l>(BTreeSet<&'l str>);

impl<'l> Names<'l> {
    fn add(&mut self, name: &'l str) -> Option<LimitProblem> {
        let follows = self.0.contains(ANYONE);
        if !self.0.insert(name) {
            return Some(LimitProblem::Twice(name.into()));
        }
        follows.then(|| LimitProblem::AfterAnyone(name.into()))
    }
}

#[cfg(test)]
mod tests;
