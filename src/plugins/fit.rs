//! The filter for room: a node passes if its free resources cover the pod's request.

use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

use crate::framework::math::{Sum, floor, signed_float, vectorized, whole};
use crate::framework::{
    Block, Capacity, Context, Declaration, FilterPlugin, FilterPreparation, PreparedFilter, Verdict,
};
use crate::model::{ClaimSource, PodClaim, PodShape};
use crate::state::{Cluster, NodeView, ResourceId};

const NAME: &str = "NodeResourcesFit";

/// Lets a pod on nodes that have room for what it requests, and for one more pod.
///
/// A node has room if it may have one more pod, and if of every resource requested no more is
/// requested than is left. A node without the resource has none of it. Nothing requested always
/// fits, even on a node that is overcommitted. The rejection is
/// [`Unresolvable`](Verdict::Unresolvable) if the node would be too small when empty.
///
/// O(resources requested) a node.
///
/// Source: kube-scheduler, `noderesources/fit.go`.
#[derive(Debug, Clone, Copy, Default)]
pub struct Fit;

/// [`Fit`], blind to some extended resources: those that others look after.
///
/// ```
/// use phalanx::plugins::Fit;
///
/// let filter = Fit.ignoring(["example.com/licence"], ["vendor.example"]);
/// ```
#[derive(Debug, Clone, Default)]
pub struct FitIgnoring {
    resources: Vec<String>,
    groups: Vec<String>,
}

impl Fit {
    /// Ignores extended resources: those listed (`ignoredResources`), and those whose name begins
    /// with one of the groups and a slash (`ignoredResourceGroups`). Resources that are not
    /// extended, such as `cpu` or `hugepages-2Mi`, are judged all the same.
    pub fn ignoring<R: Into<String>, G: Into<String>>(
        self,
        resources: impl IntoIterator<Item = R>,
        groups: impl IntoIterator<Item = G>,
    ) -> FitIgnoring {
        FitIgnoring {
            resources: resources.into_iter().map(Into::into).collect(),
            groups: groups.into_iter().map(Into::into).collect(),
        }
    }
}

/// The pod's requests, resolved; a resource the cluster has never seen has no id. Those that
/// are named after a vendor come first: fewer nodes have them, so they decide sooner.
struct Requests(Vec<(Option<ResourceId>, i64)>);

fn prepare(cx: &Context<'_>, counts: impl Fn(&str) -> bool) -> FilterPreparation {
    let counts = &counts;
    if !cx.pod().claims.is_empty()
        && let Some(beside) = BesideClaims::new(cx, counts)
    {
        return FilterPreparation::ready(beside);
    }
    let requested = |extended: bool| {
        let requests = cx.pod().requests.iter().filter(move |(name, amount)| {
            *amount > 0 && name.contains('/') == extended && counts(name)
        });
        requests.map(|(name, amount)| (cx.cluster().resource(name), amount))
    };
    FilterPreparation::ready(Requests(requested(true).chain(requested(false)).collect()))
}

/// Room for a pod of whose resources a device class may serve some: on nodes that have none of such a
/// resource, its claim is judged elsewhere.
struct BesideClaims {
    requests: Requests,
    served: Vec<(Option<ResourceId>, i64)>,
}

impl BesideClaims {
    /// `None` if no class serves a resource that the pod requests.
    fn new(cx: &Context<'_>, counts: impl Fn(&str) -> bool) -> Option<BesideClaims> {
        let (cluster, claims) = (cx.cluster(), cx.cluster().claims());
        let extended = cx.pod().claims.iter().filter_map(|claim| match &claim.source {
            ClaimSource::Extended(requests) => Some(requests),
            _ => None,
        });
        let names = extended.flatten().map(|request| &*request.resource);
        let names: Vec<&str> = names.filter(|name| claims.serves(name)).collect();
        if names.is_empty() {
            return None;
        }
        let requests = cx.pod().requests.iter();
        let (served, requests): (Vec<_>, Vec<_>) = requests
            .filter(|(name, amount)| *amount > 0 && counts(name))
            .partition(|(name, _)| names.contains(name));
        let resolve = |(name, amount): (&str, i64)| (cluster.resource(name), amount);
        Some(BesideClaims {
            requests: Requests(requests.into_iter().map(resolve).collect()),
            served: served.into_iter().map(resolve).collect(),
        })
    }
}

impl PreparedFilter for BesideClaims {
    fn filter(&self, cx: &Context<'_>, node: NodeView<'_>) -> Verdict {
        let verdict = self.requests.filter(cx, node);
        let mut lacking = false;
        for &(resource, amount) in &self.served {
            let Some(resource) = resource else { continue };
            let allocatable = node.allocatable(resource);
            if allocatable > 0 && amount > allocatable.saturating_sub(node.used(resource)) {
                if amount > allocatable {
                    return Verdict::Unresolvable;
                }
                lacking = true;
            }
        }
        if lacking && verdict.passes() { Verdict::Unschedulable } else { verdict }
    }
}

/// Whether a device class may serve resources of a pod.
fn may_be_served(pod: &PodShape) -> bool {
    let extended = |claim: &PodClaim| matches!(claim.source, ClaimSource::Extended(_));
    pod.claims.iter().any(extended)
}

/// Amounts below this are exact in floats.
const SMALL_BITS: u32 = 51;

/// Amounts up to this add and subtract to a block's without overflow, if those are narrow.
const NARROW: i64 = 1 << 60;

/// [`Capacity::of_block`] where amounts are too large for floats.
fn room_of_large(block: &Block<'_>, requests: &[(Option<ResourceId>, i64)], room: &mut [i64]) {
    for ((room, limit), count) in room.iter_mut().zip(block.pod_limit()).zip(block.pod_count()) {
        *room = (*room).min((limit - count).max(0));
    }
    for &(resource, amount) in requests {
        let Some(resource) = resource else { return room.fill(0) };
        let columns = block.allocatable(resource).iter().zip(block.used(resource));
        for (room, (allocatable, used)) in room.iter_mut().zip(columns) {
            *room = (*room).min((allocatable.saturating_sub(*used) / amount).max(0));
        }
    }
}

/// Whether numbers that have these bits between them are from 0 to what is exact in floats.
fn is_small(bits: i64) -> bool {
    bits as u64 >> SMALL_BITS == 0
}

/// The sum over all rows of what one column has beyond another.
fn total<'a>(cluster: &'a Cluster, columns: impl Fn(&Block<'a>) -> [&'a [i64]; 2]) -> i64 {
    vectorized(
        #[inline(always)]
        || {
            let mut sum = Sum::default();
            for block in Block::all(cluster) {
                let [plus, minus] = columns(&block);
                let rows = plus.iter().zip(minus);
                if block.is_narrow() {
                    rows.for_each(|(plus, minus)| sum.add(plus.wrapping_sub(*minus)));
                } else {
                    rows.for_each(|(plus, minus)| sum.add(plus.saturating_sub(*minus)));
                }
            }
            sum.total()
        },
    )
}

impl FilterPlugin for Fit {
    fn name(&self) -> &'static str {
        NAME
    }

    fn declare(&self, pod: &PodShape) -> Declaration {
        if may_be_served(pod) {
            return Declaration::cluster().reading_time();
        }
        Declaration::usage().judging_room()
    }

    fn prepare(self: Arc<Self>, cx: &Context<'_>) -> FilterPreparation {
        prepare(cx, |_| true)
    }
}

impl Requests {
    /// The loops of [`PreparedFilter::filter_block`].
    #[inline(always)]
    fn filter_rows(&self, block: &Block<'_>, verdicts: &mut [i64]) {
        for ((verdict, limit), count) in
            verdicts.iter_mut().zip(block.pod_limit()).zip(block.pod_count())
        {
            // Counts are never negative.
            *verdict |= limit - count - 1;
        }
        for &(resource, amount) in &self.0 {
            let Some(resource) = resource else { return verdicts.fill(-1) };
            let columns = block.allocatable(resource).iter().zip(block.used(resource));
            let rows = verdicts.iter_mut().zip(columns);
            if block.is_narrow() && amount < NARROW {
                for (verdict, (allocatable, used)) in rows {
                    *verdict |= allocatable - used - amount;
                }
            } else {
                for (verdict, (allocatable, used)) in rows {
                    *verdict |= -i64::from(amount > allocatable.saturating_sub(*used));
                }
            }
        }
    }

    /// The loops of [`Capacity::of_block`].
    #[inline(always)]
    fn room_rows(&self, block: &Block<'_>, room: &mut [i64]) {
        let slots = || block.pod_limit().iter().zip(block.pod_count());
        // The least over the resources of each row, rounded only in the end.
        let mut quotients = [f64::MAX; Block::MOST];
        let quotients = &mut quotients[..room.len()];
        let mut bits = 0;
        for (quotient, (limit, count)) in quotients.iter_mut().zip(slots()) {
            bits |= limit | count;
            *quotient = signed_float(limit - count);
        }
        let mut sound = is_small(bits);
        if !sound {
            // Some have no limit. Counts are never negative.
            for (room, (limit, count)) in room.iter_mut().zip(slots()) {
                *room = (*room).min((limit - count).max(0));
            }
            quotients.fill(f64::MAX);
        }
        for &(resource, amount) in &self.0 {
            let Some(resource) = resource else { return room.fill(0) };
            let (allocatable, used) = (block.allocatable(resource), block.used(resource));
            // A divisor beyond what a float holds exactly is beyond all of these amounts.
            let divisor = amount as f64;
            let mut bits = 0;
            for (quotient, (allocatable, used)) in
                quotients.iter_mut().zip(allocatable.iter().zip(used))
            {
                bits |= allocatable | used;
                let own = signed_float(allocatable.wrapping_sub(*used)) / divisor;
                *quotient = if *quotient < own { *quotient } else { own };
            }
            sound |= is_small(bits);
            if !is_small(bits) {
                return room_of_large(block, &self.0, room);
            }
        }
        if sound {
            for (room, quotient) in room.iter_mut().zip(quotients) {
                let fits = whole(floor(if *quotient > 0.0 { *quotient } else { 0.0 }));
                *room = if *room < fits { *room } else { fits };
            }
        }
    }
}

impl PreparedFilter for Requests {
    fn filter(&self, _: &Context<'_>, node: NodeView<'_>) -> Verdict {
        let mut lacking = node.pod_count() >= node.pod_limit();
        for &(resource, amount) in &self.0 {
            let Some(resource) = resource else { return Verdict::Unresolvable };
            let allocatable = node.allocatable(resource);
            if amount > allocatable.saturating_sub(node.used(resource)) {
                if amount > allocatable {
                    return Verdict::Unresolvable;
                }
                lacking = true;
            }
        }
        Verdict::pass_if(!lacking)
    }

    fn filter_block(&self, _: &Context<'_>, block: &Block<'_>, verdicts: &mut [i64]) {
        vectorized(
            #[inline(always)]
            || self.filter_rows(block, verdicts),
        );
    }

    fn capacity(&self) -> Option<&dyn Capacity> {
        Some(self)
    }
}

impl Capacity for Requests {
    fn of_node(&self, _: &Context<'_>, node: NodeView<'_>) -> i64 {
        let mut room = node.free_pods();
        for &(resource, amount) in &self.0 {
            room = room.min(resource.map_or(0, |resource| node.free(resource) / amount));
        }
        room.max(0)
    }

    fn of_block(&self, _: &Context<'_>, block: &Block<'_>, room: &mut [i64]) {
        vectorized(
            #[inline(always)]
            || self.room_rows(block, room),
        );
    }

    /// How many more pods of the shape fit if free amounts could be taken from several nodes at
    /// once. It takes two columns to add up for each resource, and nothing to divide but sums.
    fn of_all(&self, cx: &Context<'_>, enough: i64) -> i64 {
        let cluster = cx.cluster();
        let mut least = i64::MAX;
        for &(resource, amount) in &self.0 {
            let Some(resource) = resource else { return 0 };
            let free = total(cluster, |block| [block.allocatable(resource), block.used(resource)]);
            // The largest number stands for sums beyond it, too, and bounds nothing.
            if free < i64::MAX {
                least = least.min(free / amount);
            }
            if least < enough {
                return least;
            }
        }
        least.min(total(cluster, |block| [block.pod_limit(), block.pod_count()]))
    }
}

impl FitIgnoring {
    fn ignores(&self, resource: &str) -> bool {
        let Some((group, _)) = resource.split_once('/') else { return false };
        let extended = !resource.contains("kubernetes.io/") && !resource.starts_with("requests.");
        extended
            && (self.resources.iter().any(|name| name == resource)
                || self.groups.iter().any(|name| name == group))
    }
}

impl FilterPlugin for FitIgnoring {
    fn name(&self) -> &'static str {
        NAME
    }

    fn prepare(self: Arc<Self>, cx: &Context<'_>) -> FilterPreparation {
        prepare(cx, |resource| !self.ignores(resource))
    }

    fn declare(&self, pod: &PodShape) -> Declaration {
        if may_be_served(pod) {
            return Declaration::cluster().reading_time();
        }
        let declaration = Declaration::usage();
        // Where something is ignored there can be room that the sums do not show.
        if pod.requests.iter().any(|(name, amount)| amount > 0 && self.ignores(name)) {
            return declaration.monotone();
        }
        declaration.judging_room()
    }
}

#[cfg(test)]
mod tests;
