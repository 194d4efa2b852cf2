//! Bundles: claims of several pods that one node is to serve together.

use alloc::sync::Arc;
use alloc::vec::Vec;

use crate::claims::alike::Alike;
use crate::claims::allocator::Search;
use crate::claims::extended::ready;
use crate::claims::pools::is_invalid;
use crate::claims::selector::SelectorEvaluator;
use crate::claims::wanted::{Steps, Wanted};
use crate::model::{AttributeRule, ClaimSpec, DeviceAmount, ResourceSlice};
use crate::state::{ClaimBook, Cluster, NodeView};

/// How many devices are tried to find out whether a node serves a bundle.
const STEPS: Steps = Steps(1 << 13);
/// The most claims of a bundle.
const MOST: usize = 64;

/// Different claims without devices, ready to be bundled.
pub(crate) struct Bundles {
    wanted: Vec<Wanted>,
    alike: Alike,
}

impl Bundles {
    /// `None` if more than counting decides about the claims: requests for all devices or for those of
    /// others, distinct attributes, pools in change, devices that several nodes reach.
    ///
    /// O(devices × different demands).
    pub(crate) fn new(
        cluster: &Cluster,
        evaluator: &dyn SelectorEvaluator,
        specs: &[&Arc<ClaimSpec>],
    ) -> Option<Bundles> {
        let book = cluster.claims();
        if !specs.iter().all(|spec| is_counted(spec)) || !is_settled(book) {
            return None;
        }
        let wanted: Vec<Wanted> = specs.iter().map(|spec| ready(book, evaluator, spec)).collect();
        let alike = Alike::new(book, wanted.iter());
        Some(Bundles { wanted, alike })
    }

    /// Whether a node has the devices for a bundle, given as places of its claims. `None` if that
    /// takes too long to find out, or an expression fails. `left` is lowered by the devices tried.
    pub(crate) fn serves(
        &self,
        cluster: &Cluster,
        node: NodeView<'_>,
        bundle: &[usize],
        left: &mut u64,
    ) -> Option<bool> {
        if bundle.is_empty() {
            return Some(true);
        }
        if bundle.len() > MOST {
            return None;
        }
        let wanted = bundle.iter().map(|place| &self.wanted[*place]).collect();
        let steps = Steps(STEPS.0.min(*left));
        let mut search = Search::new(cluster.claims(), node, wanted, steps, None).ok()?;
        search.sort(&self.alike);
        let found = search.next_solution().ok();
        *left -= steps.0 - search.steps().0;
        found
    }
}

/// Whether each request is for some of the devices that nobody else has, and constraints want one
/// value of an attribute at most.
fn is_counted(spec: &ClaimSpec) -> bool {
    spec.demands().all(|(.., own)| matches!(own.amount, DeviceAmount::Count(_)) && !own.admin)
        && spec.constraints.iter().all(|own| matches!(own.rule, AttributeRule::Match(_)))
}

/// Whether all pools are published in full, and each device and counter concerns one node alone.
fn is_settled(book: &ClaimBook) -> bool {
    let published = book.published();
    let settled = |slices: &[Arc<ResourceSlice>]| {
        let all: Vec<&ResourceSlice> = slices.iter().map(|slice| &**slice).collect();
        let first = all.first().map(|slice| (slice.generation, slice.slice_count));
        let is_newest = all.iter().all(|own| Some((own.generation, own.slice_count)) == first);
        is_newest && first.map(|own| own.1) == Some(all.len() as i64) && !is_invalid(&all)
    };
    published.is_local() && published.by_pool.values().all(|slices| settled(slices))
}
