//! Quotas that a tree refuses: Koordinator's validation.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::String;
use alloc::vec::Vec;

use super::stated::{ElasticQuota, ROOT_QUOTA, SYSTEM_QUOTA};
use crate::model::Amounts;

/// Why a quota is refused. The tree is as it was.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ElasticQuotaError {
    /// The quota is built in.
    #[error("quota {0:?}: is built in")]
    BuiltIn(String),
    /// An amount is negative.
    #[error("quota {quota:?}: {field} of {resource} is negative")]
    Negative {
        /// The quota.
        quota: String,
        /// The field of the amount.
        field: &'static str,
        /// The resource.
        resource: String,
    },
    /// The minimum is above the maximum, or of a resource that has none.
    #[error("quota {quota:?}: the minimum of {resource} is above the maximum")]
    MinAboveMax {
        /// The quota.
        quota: String,
        /// The resource.
        resource: String,
    },
    /// The maximum of a resource that is checked strictly is below what is used.
    #[error("quota {quota:?}: the maximum of {resource} is below what is used")]
    MaxBelowUsed {
        /// The quota.
        quota: String,
        /// The resource.
        resource: String,
    },
    /// The parent is not known.
    #[error("quota {quota:?}: parent {parent:?} is not known")]
    UnknownParent {
        /// The quota.
        quota: String,
        /// The parent.
        parent: String,
    },
    /// The parent takes no quotas.
    #[error("quota {quota:?}: {parent:?} is no parent")]
    NotAParent {
        /// The quota.
        quota: String,
        /// The parent.
        parent: String,
    },
    /// Quotas stand in one that is to take none any longer.
    #[error("quota {0:?}: has quotas in it, and must stay a parent")]
    HasChildren(String),
    /// A quota that stands in another is not known.
    #[error("quota {quota:?}: {child:?} stands in it, and is not known")]
    UnknownChild {
        /// The quota.
        quota: String,
        /// The child in it.
        child: String,
    },
    /// The tree of a quota changed, or is not that of its parent or of a quota in it.
    #[error("quota {quota:?}: its tree is not that of {other:?}")]
    OtherTree {
        /// The quota.
        quota: String,
        /// The other quota; the same where the tree changed.
        other: String,
    },
    /// The resources of a quota and its parent do not go together.
    #[error("quota {child:?}: its resources do not go with those of {parent:?}")]
    Resources {
        /// The quota.
        child: String,
        /// Its parent.
        parent: String,
    },
    /// The minima in a quota come to more than its own.
    #[error("quota {0:?}: the minima in it come to more than its own")]
    MinSum(String),
    /// No quota above can guarantee a minimum.
    #[error("quota {0:?}: no quota above guarantees its minimum")]
    NotGuaranteed(String),
}

/// The quotas of all trees, as they were stated, and the checks of one that is stated anew.
///
/// ```
/// use phalanx::model::Amounts;
/// use phalanx::quota::{ElasticQuota, ElasticQuotaError, QuotaTopology};
///
/// let cpu = |amount: i64| Amounts::from([("cpu", amount)]);
/// let mut topology = QuotaTopology::default();
/// let mut labs = ElasticQuota::new("labs");
/// (labs.is_parent, labs.min, labs.max) = (true, cpu(8), cpu(16));
/// topology.put(labs)?;
/// let mut vision = ElasticQuota::new("vision");
/// (vision.parent, vision.min, vision.max) = ("labs".into(), cpu(10), cpu(16));
/// assert_eq!(topology.put(vision), Err(ElasticQuotaError::MinSum("labs".into())));
/// # Ok::<(), ElasticQuotaError>(())
/// ```
///
/// Source: Koordinator, `webhook/elasticquota/quota_topology_check.go`.
#[derive(Debug, Clone, Default)]
pub struct QuotaTopology {
    quotas: BTreeMap<String, ElasticQuota>,
    children: BTreeMap<String, BTreeSet<String>>,
    /// Whether the resources of a quota may be some of its parent's, not all
    /// (`ElasticQuotaEnableUpdateResourceKey`).
    pub subset_of_resources: bool,
    /// Whether minima have to be guaranteed by a quota above (`ElasticQuotaGuaranteeUsage`).
    pub guarantee: bool,
}

/// Whether one amount of each resource is within another; what is not listed is 0.
fn within(amounts: &Amounts, bound: &Amounts) -> bool {
    let named = amounts.iter().chain(bound.iter()).map(|(resource, _)| resource);
    named.into_iter().all(|resource| amounts.of(resource) <= bound.of(resource))
}

/// The larger amount of each resource.
fn larger(a: &Amounts, b: &Amounts) -> Amounts {
    let mut larger = a.clone();
    for (resource, amount) in b.iter() {
        let own = if a.lists(resource) { a.of(resource).max(amount) } else { amount };
        larger.set(resource, own);
    }
    larger
}

fn sum(a: &Amounts, b: &Amounts) -> Amounts {
    let mut sum = a.clone();
    for (resource, amount) in b.iter() {
        sum.set(resource, sum.of(resource).saturating_add(amount));
    }
    sum
}

/// Whether all resources of one list are in another.
fn includes(all: &Amounts, some: &Amounts) -> bool {
    some.iter().all(|(resource, _)| all.lists(resource))
}

impl QuotaTopology {
    /// Checks a quota by all rules, and takes it in.
    ///
    /// # Errors
    /// A rule is broken.
    pub fn put(&mut self, quota: ElasticQuota) -> Result<(), ElasticQuotaError> {
        if [ROOT_QUOTA, SYSTEM_QUOTA].contains(&quota.name.as_str()) {
            return Err(ElasticQuotaError::BuiltIn(quota.name));
        }
        check_amounts(&quota, &Amounts::new(), &[])?;
        self.check(&quota)?;
        self.insert(quota);
        Ok(())
    }

    /// Takes a quota in as it is.
    pub fn insert(&mut self, quota: ElasticQuota) {
        self.remove(&quota.name);
        self.children.entry(quota.parent.clone()).or_default().insert(quota.name.clone());
        self.quotas.insert(quota.name.clone(), quota);
    }

    /// Takes a quota out.
    pub fn remove(&mut self, name: &str) -> Option<ElasticQuota> {
        let quota = self.quotas.remove(name)?;
        if let Some(siblings) = self.children.get_mut(&quota.parent) {
            siblings.remove(name);
        }
        Some(quota)
    }

    /// Notes that a quota stands in another, though it is not known yet: until it is, the other may
    /// not be stated anew.
    pub fn expect(&mut self, parent: &str, child: &str) {
        self.children.entry(parent.into()).or_default().insert(child.into());
    }

    /// A quota.
    pub fn quota(&self, name: &str) -> Option<&ElasticQuota> {
        self.quotas.get(name)
    }

    /// Checks where a quota would stand: parent, tree, resources, minima.
    ///
    /// # Errors
    /// A rule is broken.
    pub fn check(&self, quota: &ElasticQuota) -> Result<(), ElasticQuotaError> {
        let old = self.quotas.get(&quota.name);
        let has_children = self.children.get(&quota.name).is_some_and(|all| !all.is_empty());
        if old.is_some_and(|old| old.is_parent) && !quota.is_parent && has_children {
            return Err(ElasticQuotaError::HasChildren(quota.name.clone()));
        }
        self.check_tree_id(old, quota)?;
        if quota.parent == ROOT_QUOTA && !quota.is_parent {
            return Ok(());
        }
        self.check_parent(quota)?;
        self.check_resources(quota)?;
        self.check_min_sum(quota)?;
        if self.guarantee { self.check_guaranteed(quota) } else { Ok(()) }
    }

    /// Checks that the parent is there, and takes quotas.
    ///
    /// # Errors
    /// It is not, or does not.
    pub fn check_parent(&self, quota: &ElasticQuota) -> Result<(), ElasticQuotaError> {
        if quota.parent == ROOT_QUOTA {
            return Ok(());
        }
        let parent = self.parent_of(quota)?;
        if parent.is_parent {
            return Ok(());
        }
        let (quota, parent) = (quota.name.clone(), parent.name.clone());
        Err(ElasticQuotaError::NotAParent { quota, parent })
    }

    /// Checks that a quota is of its parent's tree, as are those in it, and stays in its own.
    ///
    /// # Errors
    /// A tree is another.
    pub fn check_tree_id(
        &self,
        old: Option<&ElasticQuota>,
        quota: &ElasticQuota,
    ) -> Result<(), ElasticQuotaError> {
        let parent = self.quotas.get(&quota.parent).filter(|_| quota.parent != ROOT_QUOTA);
        let children = self.children.get(&quota.name).into_iter().flatten();
        let children = children.filter_map(|child| self.quotas.get(child));
        for other in old.into_iter().chain(parent).chain(children) {
            if other.tree_id != quota.tree_id {
                return Err(ElasticQuotaError::OtherTree {
                    quota: quota.name.clone(),
                    other: other.name.clone(),
                });
            }
        }
        Ok(())
    }

    /// Checks that the resources of a quota go with those of its parent and of the quotas in it.
    /// They are the same in the maxima, or some of them, see
    /// [`QuotaTopology::subset_of_resources`]. They are some of them in the minima.
    ///
    /// # Errors
    /// They do not.
    pub fn check_resources(&self, quota: &ElasticQuota) -> Result<(), ElasticQuotaError> {
        if quota.name == ROOT_QUOTA {
            return Ok(());
        }
        let check = |parent: &ElasticQuota, child: &ElasticQuota| {
            let both = includes(&child.max, &parent.max) || self.subset_of_resources;
            if both && includes(&parent.max, &child.max) && includes(&parent.min, &child.min) {
                return Ok(());
            }
            let (child, parent) = (child.name.clone(), parent.name.clone());
            Err(ElasticQuotaError::Resources { child, parent })
        };
        if quota.parent != ROOT_QUOTA {
            check(self.parent_of(quota)?, quota)?;
        }
        for child in self.children_of(&quota.name, "")? {
            check(quota, child)?;
        }
        Ok(())
    }

    /// Checks that minima add up: those in the parent to its own at most, those in the quota to its
    /// own. Neither if the quota is forced, nor if it is the top of a tree.
    ///
    /// # Errors
    /// They do not.
    pub fn check_min_sum(&self, quota: &ElasticQuota) -> Result<(), ElasticQuotaError> {
        if quota.force_update || quota.is_tree_root {
            return Ok(());
        }
        let total = |all: Vec<&ElasticQuota>| {
            all.into_iter().fold(Amounts::new(), |total, quota| sum(&total, &quota.min))
        };
        if quota.parent != ROOT_QUOTA {
            let others = total(self.children_of(&quota.parent, &quota.name)?);
            if !within(&sum(&others, &quota.min), &self.parent_of(quota)?.min) {
                return Err(ElasticQuotaError::MinSum(quota.parent.clone()));
            }
        }
        if !within(&total(self.children_of(&quota.name, "")?), &quota.min) {
            return Err(ElasticQuotaError::MinSum(quota.name.clone()));
        }
        Ok(())
    }

    /// Checks that a minimum is guaranteed: from the parent up, a quota is looked for whose own
    /// guarantee covers what would be guaranteed in it.
    ///
    /// # Errors
    /// There is none, or one on the way is not known.
    pub fn check_guaranteed(&self, quota: &ElasticQuota) -> Result<(), ElasticQuotaError> {
        let exempt = quota.force_update || quota.tree_id.is_empty() || quota.is_tree_root;
        if exempt || within(&quota.min, &quota.guaranteed) {
            return Ok(());
        }
        let mut wanted = larger(&quota.min, &quota.guaranteed);
        let mut at = quota;
        // A circle of parents ends where all have been.
        for _ in 0..=self.quotas.len() {
            if at.parent == ROOT_QUOTA {
                break;
            }
            let parent = self.parent_of(at)?;
            for sibling in self.children_of(&parent.name, &at.name)? {
                wanted = sum(&wanted, &sibling.guaranteed);
            }
            wanted = larger(&parent.min, &wanted);
            if within(&wanted, &parent.guaranteed) {
                return Ok(());
            }
            at = parent;
        }
        Err(ElasticQuotaError::NotGuaranteed(quota.name.clone()))
    }

    /// Fills in what a quota leaves out: the root as parent, the parent's tree, and weights, which are
    /// the maximum; weights of resources without a maximum are dropped.
    ///
    /// # Errors
    /// The parent is not known, and the tree has to be its.
    pub fn fill(&self, quota: &mut ElasticQuota) -> Result<(), ElasticQuotaError> {
        if quota.name == ROOT_QUOTA {
            return Ok(());
        }
        if quota.parent.is_empty() {
            quota.parent = ROOT_QUOTA.into();
        }
        if quota.tree_id.is_empty() && quota.parent != ROOT_QUOTA {
            quota.tree_id = self.parent_of(quota)?.tree_id.clone();
        }
        let mut weights = Amounts::new();
        for (resource, max) in quota.max.iter() {
            let stated = quota.shared_weight.lists(resource);
            weights.set(resource, if stated { quota.shared_weight.of(resource) } else { max });
        }
        quota.shared_weight = weights;
        Ok(())
    }

    fn parent_of(&self, quota: &ElasticQuota) -> Result<&ElasticQuota, ElasticQuotaError> {
        self.quotas.get(&quota.parent).ok_or_else(|| ElasticQuotaError::UnknownParent {
            quota: quota.name.clone(),
            parent: quota.parent.clone(),
        })
    }

    /// The quotas right below one, but for one of them.
    fn children_of(
        &self,
        name: &str,
        except: &str,
    ) -> Result<Vec<&ElasticQuota>, ElasticQuotaError> {
        let children = self.children.get(name).into_iter().flatten();
        let known = children.filter(|child| *child != except).map(|child| {
            self.quotas.get(child).ok_or_else(|| ElasticQuotaError::UnknownChild {
                quota: name.into(),
                child: child.clone(),
            })
        });
        known.collect()
    }
}

/// Checks the amounts of a quota by themselves: none is negative, minima are within maxima, and the
/// maxima of `strict` resources are not below what is used.
///
/// # Errors
/// A rule is broken.
pub fn check_amounts(
    quota: &ElasticQuota,
    used: &Amounts,
    strict: &[String],
) -> Result<(), ElasticQuotaError> {
    let fields =
        [("max", &quota.max), ("min", &quota.min), ("shared weight", &quota.shared_weight)];
    for (field, amounts) in fields {
        if let Some((resource, _)) = amounts.iter().find(|(_, amount)| *amount < 0) {
            let (quota, resource) = (quota.name.clone(), resource.into());
            return Err(ElasticQuotaError::Negative { quota, field, resource });
        }
    }
    let above =
        |(resource, min): &(&str, i64)| !quota.max.lists(resource) || *min > quota.max.of(resource);
    if let Some((resource, _)) = quota.min.iter().find(above) {
        let (quota, resource) = (quota.name.clone(), resource.into());
        return Err(ElasticQuotaError::MinAboveMax { quota, resource });
    }
    let above = |resource: &&String| {
        used.lists(resource)
            && (!quota.max.lists(resource) || used.of(resource) > quota.max.of(resource))
    };
    match strict.iter().find(above) {
        Some(resource) => Err(ElasticQuotaError::MaxBelowUsed {
            quota: quota.name.clone(),
            resource: resource.clone(),
        }),
        None => Ok(()),
    }
}
