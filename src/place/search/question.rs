//! Questions: what a member with claims asks for, whatever its claims are called.

use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec::Vec;

use crate::model::{ClaimSource, ClaimSpec, Pod, PodShape};
use crate::state::Cluster;

/// The request of a member, whatever its claims are called.
#[derive(PartialEq, Eq)]
pub(super) struct Question {
    shape: PodShape,
    claims: Vec<Asked>,
}

#[derive(PartialEq, Eq)]
enum Asked {
    /// For itself alone.
    Own(Arc<ClaimSpec>),
    /// A claim that others name too, or that has its devices.
    Shared(ClaimSource),
}

impl Question {
    pub(super) fn of(
        cluster: &Cluster,
        shape: &PodShape,
        named: &BTreeMap<&str, usize>,
    ) -> Question {
        let own = |source: &ClaimSource| match source {
            ClaimSource::Own(spec) => Asked::Own(Arc::clone(spec)),
            ClaimSource::Named(name) | ClaimSource::Made { claim: name, .. } => {
                let record = cluster.claims().claim(&shape.namespace, name);
                let alone = named.get(&**name) == Some(&1);
                match record.and_then(|record| record.claim()) {
                    Some(claim)
                        if alone && record.is_some_and(|own| own.allocation().is_none()) =>
                    {
                        Asked::Own(Arc::clone(&claim.spec))
                    }
                    _ => Asked::Shared(source.clone()),
                }
            }
            source => Asked::Shared(source.clone()),
        };
        let claims = shape.claims.iter().map(|claim| own(&claim.source)).collect();
        let mut shape = shape.clone();
        shape.claims.clear();
        Question { shape, claims }
    }
}

/// How many members name each claim.
pub(super) fn names<'a>(pods: impl Iterator<Item = &'a Pod>) -> BTreeMap<&'a str, usize> {
    let mut names = BTreeMap::new();
    for own in pods.flat_map(|pod| &pod.shape().claims) {
        if let ClaimSource::Named(name) | ClaimSource::Made { claim: name, .. } = &own.source {
            *names.entry(&**name).or_default() += 1;
        }
    }
    names
}
