//! Claims of a pod shape, made ready to be judged on nodes.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::sync::Arc;
use alloc::vec::Vec;

use super::alike::Alike;
use super::allocator::{Paused, Search};
use super::extended::{Extended, Unserved, ready};
use super::pools::selects;
use super::selector::SelectorEvaluator;
use super::wanted::{Steps, Wanted, choices, demand_of};
use crate::base::clip::clip;
use crate::model::{
    Allocation, ClaimAllocation, ClaimSource, ClaimSpec, DeviceAmount, PodShape, RequestChoice,
};
use crate::state::{ClaimBook, Cluster, MoreUsage, NodeView};

/// The most consumers of a claim. kube-scheduler 1.36 does not look; the API server refuses more.
pub(crate) const CONSUMERS: u32 = 256;

/// The claim that is made for resources which nodes lack, by its name in a pod.
pub(crate) const EXTENDED: &str = "<extended-resources>";

/// Why no node will do for a pod: one of its claims cannot be allocated anywhere.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("claim {:?}: {}", clip(.claim), reason)]
#[non_exhaustive]
pub struct ClaimRefusal {
    /// The name of the claim in the pod.
    pub claim: String,
    /// Why.
    pub reason: String,
}

/// The verdict on the claims of a pod on a node.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ClaimVerdict {
    /// They can have these devices; those that have theirs already are not among them.
    Offer(Vec<ClaimAllocation>),
    /// Devices that claims have already cannot be used from the node: those of these claims of the
    /// pod. All else fits.
    Elsewhere(Vec<String>),
    /// There are not enough devices.
    Lacking,
    /// They cannot be judged; why.
    Fault(String),
}

/// The way of a search for devices.
#[derive(Debug, Clone, Copy)]
pub(crate) struct How<'a> {
    pub(crate) steps: Steps,
    /// Devices that are in use beside those that the cluster knows of.
    pub(crate) more: Option<&'a MoreUsage>,
}

impl Default for How<'_> {
    fn default() -> Self {
        How { steps: Steps::USUAL, more: None }
    }
}

/// Claims of a pod shape, ready to be judged on nodes.
pub struct PreparedClaims {
    /// Claims without devices yet: their names in the pod.
    names: Vec<String>,
    wanted: Vec<Wanted>,
    /// Claims that have theirs.
    allocated: Vec<(String, Arc<Allocation>, Arc<ClaimSpec>)>,
    extended: Option<Extended>,
}

impl core::fmt::Debug for PreparedClaims {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("PreparedClaims").field("waiting", &self.names).finish_non_exhaustive()
    }
}

impl PreparedClaims {
    /// The claims of a pod; `None` if it has none that matter.
    ///
    /// # Errors
    /// No node will do: a claim does not exist, is not the pod's, is being deleted, or a class that
    /// it names does not exist.
    pub fn new(
        cluster: &Cluster,
        evaluator: &dyn SelectorEvaluator,
        pod: &PodShape,
    ) -> Result<Option<PreparedClaims>, ClaimRefusal> {
        let book = cluster.claims();
        let mut all = PreparedClaims {
            names: Vec::new(),
            wanted: Vec::new(),
            allocated: Vec::new(),
            extended: None,
        };
        for own in &pod.claims {
            let refuse = |reason: &str| {
                Err(ClaimRefusal { claim: own.name.clone(), reason: reason.to_string() })
            };
            let spec = match &own.source {
                ClaimSource::Own(spec) => spec,
                ClaimSource::Unmade => return refuse("is yet to be made"),
                ClaimSource::Extended(requests) => {
                    all.extended = Extended::new(book, evaluator, requests);
                    continue;
                }
                ClaimSource::Named(name) | ClaimSource::Made { claim: name, .. } => {
                    let Some(record) = book.claim(&pod.namespace, name) else {
                        return refuse("does not exist");
                    };
                    let Some(claim) = record.claim() else { return refuse("does not exist") };
                    if let ClaimSource::Made { owners, .. } = &own.source
                        && !owners.contains(&claim.owner)
                    {
                        return refuse("was not made for the pod");
                    }
                    if claim.deleting {
                        return refuse("is being deleted");
                    }
                    let is_shared = matches!(own.source, ClaimSource::Named(_));
                    if is_shared && record.holders() >= CONSUMERS {
                        return refuse("has 256 consumers, and may have no more");
                    }
                    if let Some(allocation) = record.allocation() {
                        let known =
                            (own.name.clone(), Arc::clone(allocation), Arc::clone(&claim.spec));
                        all.allocated.push(known);
                        continue;
                    }
                    &claim.spec
                }
            };
            let classes = &book.published().classes;
            if let Some((.., demand)) =
                spec.demands().find(|(.., demand)| !classes.contains_key(&*demand.class))
            {
                return refuse(&format!("device class {:?} does not exist", clip(&demand.class)));
            }
            all.names.push(own.name.clone());
            all.wanted.push(ready(book, evaluator, spec));
        }
        let nothing = all.wanted.is_empty() && all.allocated.is_empty() && all.extended.is_none();
        Ok(if nothing { None } else { Some(all) })
    }

    /// Claims that have no devices yet, by their names in a pod. `None` if a class that they name
    /// does not exist.
    pub(crate) fn of_specs<'s>(
        book: &ClaimBook,
        evaluator: &dyn SelectorEvaluator,
        specs: impl Iterator<Item = (&'s str, &'s Arc<ClaimSpec>)>,
    ) -> Option<PreparedClaims> {
        let (mut names, mut wanted) = (Vec::new(), Vec::new());
        let classes = &book.published().classes;
        for (name, spec) in specs {
            if spec.demands().any(|(.., demand)| !classes.contains_key(&*demand.class)) {
                return None;
            }
            names.push(name.to_string());
            wanted.push(ready(book, evaluator, spec));
        }
        Some(PreparedClaims { names, wanted, allocated: Vec::new(), extended: None })
    }

    /// The verdict on the claims on a node.
    pub fn on(&self, cluster: &Cluster, node: NodeView<'_>) -> ClaimVerdict {
        let mut offer = None;
        let found = self.each(cluster, node, How::default(), &mut |found| {
            offer = Some(found);
            true
        });
        match found {
            Err(fault) => return ClaimVerdict::Fault(fault),
            Ok((false, _)) => return ClaimVerdict::Lacking,
            Ok((true, _)) => {}
        }
        let elsewhere = self.elsewhere(node);
        if elsewhere.is_empty() {
            ClaimVerdict::Offer(offer.unwrap_or_default())
        } else {
            ClaimVerdict::Elsewhere(elsewhere)
        }
    }

    /// The claims whose devices cannot be used from a node.
    pub(crate) fn elsewhere(&self, node: NodeView<'_>) -> Vec<String> {
        let out = self.allocated.iter().filter(|(_, allocation, _)| {
            allocation.nodes.as_ref().is_some_and(|nodes| !selects(nodes, node))
        });
        out.map(|(name, ..)| name.clone()).collect()
    }

    /// The claims that need devices on a node, with their names; `None` if the node lacks a resource
    /// that no class serves.
    pub(super) fn wanted_on(
        &self,
        cluster: &Cluster,
        node: NodeView<'_>,
    ) -> Option<(Vec<&str>, Vec<&Wanted>)> {
        let extended = match &self.extended {
            None => None,
            Some(extended) => match extended.on(cluster, node, !self.wanted.is_empty()) {
                Err(Unserved) => return None,
                Ok(wanted) => wanted,
            },
        };
        let names = self.names.iter().map(|name| &**name).chain(extended.map(|_| EXTENDED));
        Some((names.collect(), self.wanted.iter().chain(extended).collect()))
    }

    /// Calls `accept` with one choice of devices after another until it takes one; whether it did,
    /// and the steps that are left.
    pub(crate) fn each(
        &self,
        cluster: &Cluster,
        node: NodeView<'_>,
        How { steps, more }: How<'_>,
        accept: &mut dyn FnMut(Vec<ClaimAllocation>) -> bool,
    ) -> Result<(bool, Steps), String> {
        let Some((names, wanted)) = self.wanted_on(cluster, node) else {
            return Ok((false, steps));
        };
        if wanted.is_empty() {
            return Ok((accept(Vec::new()), steps));
        }
        let search = Search::new(cluster.claims(), node, wanted, steps, more);
        let mut search = search.map_err(|fault| fault.to_string())?;
        let accepted = search.run(&mut |found| {
            let allocations = names.iter().zip(found).map(|(name, allocation)| ClaimAllocation {
                claim: (*name).to_string(),
                allocation: Arc::new(allocation),
            });
            accept(allocations.collect())
        });
        Ok((accepted.map_err(|fault| fault.to_string())?, search.steps()))
    }

    /// The next choice of devices on a node, of a search that was paused; `None` if there are no more.
    /// The node and all that is in use of its devices must be as they were.
    pub(crate) fn next(
        &self,
        cluster: &Cluster,
        node: NodeView<'_>,
        alike: &Alike,
        paused: &mut Option<Paused>,
    ) -> Result<Option<Vec<ClaimAllocation>>, String> {
        let (Some(last), Some((names, wanted))) = (paused.take(), self.wanted_on(cluster, node))
        else {
            return Ok(None);
        };
        if wanted.is_empty() {
            return Ok(Some(Vec::new()));
        }
        let search = Search::new(cluster.claims(), node, wanted, last.steps(), None);
        let mut search = search.map_err(|fault| fault.to_string())?;
        search.sort(alike);
        search.resume(last).map_err(|fault| fault.to_string())?;
        if !search.next_solution().map_err(|fault| fault.to_string())? {
            return Ok(None);
        }
        let found = search.allocations().into_iter().map(Arc::new);
        let offer = names
            .iter()
            .zip(found)
            .map(|(name, allocation)| ClaimAllocation { claim: (*name).to_string(), allocation });
        let offer = offer.collect();
        *paused = Some(search.pause());
        Ok(Some(offer))
    }

    /// Devices that can stand for each other, for some claims.
    pub(crate) fn alike(book: &ClaimBook, claims: &[&PreparedClaims]) -> Alike {
        Alike::new(book, claims.iter().flat_map(|claims| &claims.wanted))
    }

    /// The least number of devices that are yet to be found.
    pub(crate) fn least_devices(&self) -> u64 {
        let least = |request: &crate::model::ClaimRequest| {
            let amounts = (0..choices(request)).map(|choice| demand_of(request, choice).1.amount);
            let counts = amounts.map(|amount| match amount {
                DeviceAmount::Count(count) => count,
                _ => 1,
            });
            counts.min().unwrap_or(0)
        };
        let requests = self.wanted.iter().flat_map(|wanted| &wanted.spec.requests);
        requests.map(least).fold(0, u64::saturating_add)
    }

    /// Whether some request has alternatives.
    pub fn has_alternatives(&self) -> bool {
        let specs = self.wanted.iter().map(|wanted| &wanted.spec);
        let allocated = self.allocated.iter().map(|(.., spec)| spec);
        specs.chain(allocated).any(|spec| spec.requests.iter().any(is_ranked))
    }

    /// The score of a node by the alternatives that its offer uses: 8 for the first of a request, 7
    /// for the second, and so on.
    ///
    /// Alternatives that claims used before count too, but on nodes where nothing is left to
    /// allocate nothing counts.
    pub fn rank(&self, offer: &[ClaimAllocation]) -> i64 {
        if offer.is_empty() {
            return 0;
        }
        let offered = self.wanted.iter().zip(offer);
        let offered = offered.map(|(wanted, offer)| (&wanted.spec, &offer.allocation));
        let allocated = self.allocated.iter().map(|(_, allocation, spec)| (spec, allocation));
        offered.chain(allocated).map(|(spec, allocation)| rank(spec, allocation)).sum()
    }
}

fn is_ranked(request: &crate::model::ClaimRequest) -> bool {
    matches!(request.choice, RequestChoice::FirstAvailable(_))
}

/// The score of an allocation by the alternatives that it uses; see [`PreparedClaims::rank`].
pub(crate) fn rank(spec: &ClaimSpec, allocation: &Allocation) -> i64 {
    let ranks = spec.requests.iter().map(|request| {
        let RequestChoice::FirstAvailable(alternatives) = &request.choice else { return 0 };
        let used = allocation.devices.iter().find_map(|device| {
            let rest = device.request.strip_prefix(&*request.name)?;
            let used = rest.strip_prefix('/')?;
            alternatives.iter().position(|alternative| alternative.name == used)
        });
        used.map_or(0, |used| 8 - used as i64)
    });
    ranks.sum()
}
