//! Resource claims, as a filter and a score.

use alloc::sync::Arc;

use crate::claims::{ClaimVerdict, PreparedClaims, SelectorEvaluator};
use crate::framework::{
    Context, Declaration, FilterPlugin, FilterPreparation, FrameworkBuilder, Normalization,
    PreparedFilter, PreparedScore, ScorePlugin, ScorePreparation, Verdict,
};
use crate::model::PodShape;
use crate::state::NodeView;

/// Lets a pod on nodes where its claims can have their devices, all of them at once, and prefers
/// nodes where requests get the first of their alternatives.
///
/// A pod is refused outright if a claim does not exist, is not its own, is being deleted, or names a
/// class that does not exist. All rejections are [`Unresolvable`](Verdict::Unresolvable). A claim
/// that cannot be judged on a node keeps the pod off it; kube-scheduler ends the whole attempt with
/// an error there.
///
/// Pods without claims are not looked at. For others the filter costs a search over the devices that
/// the node reaches, and it is called again after every placement.
///
/// ```
/// use phalanx::claims::NoSelectors;
/// use phalanx::model::{ClaimSpec, DeviceClass, DeviceDemand, ResourceSlice, SliceDevice};
/// use phalanx::plugins::DynamicResources;
/// use phalanx::{Cluster, Framework, Node, Pod, PodGroup, place_gang};
///
/// let mut cluster = Cluster::new();
/// cluster.set_device_class(DeviceClass::new("gpu"));
/// for name in ["n1", "n2"] {
///     cluster.add_node(Node::new(name).capacity("cpu", 8))?;
///     let gpus = (0..2).map(|at| SliceDevice::new(format!("gpu-{at}")));
///     let slice = ResourceSlice::on(name, "gpu.example.com");
///     cluster.set_resource_slice(gpus.fold(slice, ResourceSlice::device));
/// }
/// let framework = DynamicResources::add_to(Framework::default().to_builder(), NoSelectors).build()?;
/// let pod = || Pod::new().own_claim("gpus", ClaimSpec::new().request("all", DeviceDemand::of("gpu", 2)));
///
/// let outcome = place_gang(&cluster, &framework, &PodGroup::of("g", 2, pod()))?;
/// cluster.commit(&framework, outcome.plan().unwrap())?;
/// let third = PodGroup::of("h", 1, pod());
/// assert!(!place_gang(&cluster, &framework, &third)?.is_placed());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// Source: kube-scheduler, `dynamicresources/dynamicresources.go`.
#[derive(Clone)]
pub struct DynamicResources {
    evaluator: Arc<dyn SelectorEvaluator>,
}

impl core::fmt::Debug for DynamicResources {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("DynamicResources").finish_non_exhaustive()
    }
}

impl DynamicResources {
    /// With an evaluator of selectors.
    pub fn new(evaluator: impl SelectorEvaluator + 'static) -> DynamicResources {
        DynamicResources { evaluator: Arc::new(evaluator) }
    }

    /// Adds the filter, the score with kube-scheduler's weight of 2, and the evaluator to a
    /// framework.
    pub fn add_to(
        builder: FrameworkBuilder,
        evaluator: impl SelectorEvaluator + 'static,
    ) -> FrameworkBuilder {
        let own = DynamicResources::new(evaluator);
        builder.filter(own.clone()).score(2, own.clone()).selectors(own.evaluator)
    }

    /// The evaluator.
    pub(super) fn evaluator(&self) -> Arc<dyn SelectorEvaluator> {
        Arc::clone(&self.evaluator)
    }

    fn declared(pod: &PodShape) -> Declaration {
        if pod.claims.is_empty() {
            return Declaration::constant();
        }
        // Answers change with the claims of the cluster, so that none is kept from one request to
        // the next.
        Declaration::cluster().reading_time().reading_claims()
    }
}

struct Claims(PreparedClaims);

struct Rank(PreparedClaims);

impl FilterPlugin for DynamicResources {
    fn name(&self) -> &'static str {
        "DynamicResources"
    }

    fn skips_plain_pods(&self) -> bool {
        true
    }

    fn declare(&self, pod: &PodShape) -> Declaration {
        DynamicResources::declared(pod)
    }

    fn prepare(self: Arc<Self>, cx: &Context<'_>) -> FilterPreparation {
        if cx.pod().claims.is_empty() {
            return FilterPreparation::Skip;
        }
        match PreparedClaims::new(cx.cluster(), &*self.evaluator, cx.pod()) {
            Err(_) => FilterPreparation::Reject(Verdict::Unresolvable),
            Ok(None) => FilterPreparation::Skip,
            Ok(Some(claims)) => FilterPreparation::ready(Claims(claims)),
        }
    }
}

impl PreparedFilter for Claims {
    fn filter(&self, cx: &Context<'_>, node: NodeView<'_>) -> Verdict {
        let offer = self.0.on(cx.cluster(), node);
        Verdict::pass_or_unresolvable(matches!(offer, ClaimVerdict::Offer(_)))
    }
}

impl ScorePlugin for DynamicResources {
    fn name(&self) -> &'static str {
        "DynamicResources"
    }

    fn skips_plain_pods(&self) -> bool {
        true
    }

    fn declare(&self, pod: &PodShape) -> Declaration {
        DynamicResources::declared(pod)
    }

    fn prepare(self: Arc<Self>, cx: &Context<'_>) -> ScorePreparation {
        if cx.pod().claims.is_empty() {
            return ScorePreparation::Skip;
        }
        match PreparedClaims::new(cx.cluster(), &*self.evaluator, cx.pod()) {
            Ok(Some(claims)) if claims.has_alternatives() => ScorePreparation::ready(Rank(claims)),
            _ => ScorePreparation::Skip,
        }
    }

    fn normalization(&self) -> Normalization {
        Normalization::Max
    }
}

impl PreparedScore for Rank {
    fn score(&self, cx: &Context<'_>, node: NodeView<'_>) -> i64 {
        match self.0.on(cx.cluster(), node) {
            ClaimVerdict::Offer(offer) => self.0.rank(&offer),
            _ => 0,
        }
    }
}
