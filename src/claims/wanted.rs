//! Claims that need devices, with their expressions made ready.

use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

use super::selector::Compiled;
use crate::model::{ClaimRequest, ClaimSpec, DeviceDemand, RequestChoice};

/// The most devices that a claim may have.
pub(super) const MAX_RESULTS: usize = 32;

/// How many devices may be tried. A search that needs more is given up, as an error: kube-scheduler
/// does so after ten seconds.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Steps(pub(crate) u64);

impl Steps {
    /// Steps for a pod on a node.
    pub(crate) const USUAL: Steps = Steps(1 << 22);
}

/// One alternative of a request.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) claim: usize,
    pub(super) request: usize,
    pub(super) choice: usize,
}

/// A claim whose expressions are ready.
pub(super) struct Wanted {
    pub(super) spec: Arc<ClaimSpec>,
    /// Selectors of each request, of each of its alternatives: of its class, then its own.
    pub(super) selectors: Vec<Vec<Vec<Compiled>>>,
}

impl Wanted {
    pub(super) fn name(&self) -> String {
        self.spec.requests.iter().map(|request| &*request.name).collect::<Vec<_>>().join(",")
    }
}

/// A claim that cannot be judged: kube-scheduler ends the attempt of the pod with an error.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub(super) struct ClaimFault {
    pub(super) reason: String,
}

/// The alternatives of a request: one, if it has none.
pub(super) fn choices(request: &ClaimRequest) -> usize {
    match &request.choice {
        RequestChoice::Exactly(_) => 1,
        RequestChoice::FirstAvailable(alternatives) => alternatives.len(),
    }
}

pub(super) fn demand_of(request: &ClaimRequest, choice: usize) -> (Option<&str>, &DeviceDemand) {
    match &request.choice {
        RequestChoice::Exactly(demand) => (None, demand),
        RequestChoice::FirstAvailable(alternatives) => {
            (Some(&alternatives[choice].name), &alternatives[choice].demand)
        }
    }
}

/// The expressions of a claim, made ready by `compile`, which is given the class of each demand and
/// an expression.
pub(super) fn compiled(
    spec: &Arc<ClaimSpec>,
    mut compile: impl FnMut(&DeviceDemand) -> Vec<Compiled>,
) -> Wanted {
    let selectors = spec.requests.iter().map(|request| {
        let demands = (0..choices(request)).map(|choice| demand_of(request, choice).1);
        demands.map(&mut compile).collect()
    });
    Wanted { selectors: selectors.collect(), spec: Arc::clone(spec) }
}
