//! Resources of nodes that device classes serve, with the expressions of the class made ready.

use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

use super::selector::{Compiled, SelectorEvaluator};
use super::wanted::{Wanted, compiled};
use crate::model::{ClaimSpec, DeviceDemand, ExtendedRequest};
use crate::state::{ClaimBook, Cluster, NodeView};

/// Resources that nodes may lack and classes serve.
pub(super) struct Extended {
    /// By name, and whether a class serves them.
    resources: Vec<(String, bool)>,
    /// The claim for each set of those that are served, which a node may lack.
    wanted: Vec<Wanted>,
}

pub(super) fn ready(
    book: &ClaimBook,
    evaluator: &dyn SelectorEvaluator,
    spec: &Arc<ClaimSpec>,
) -> Wanted {
    compiled(spec, |demand: &DeviceDemand| {
        let class = book.published().classes.get(&*demand.class);
        let class = class.iter().flat_map(|class| &class.selectors);
        let all = class.chain(&demand.selectors);
        all.map(|expression| Compiled::new(evaluator, expression)).collect()
    })
}

/// A resource that neither the node nor a class serves.
pub(super) struct Unserved;

impl Extended {
    /// `None` if no class serves any of the resources.
    pub(super) fn new(
        book: &ClaimBook,
        evaluator: &dyn SelectorEvaluator,
        requests: &[ExtendedRequest],
    ) -> Option<Extended> {
        let published = book.published();
        let mut names: Vec<&str> = requests.iter().map(|request| &*request.resource).collect();
        names.sort_unstable();
        names.dedup();
        let served = |name: &&str| published.class_for(name).is_some();
        // A pod of more is served for the first of them.
        let all: Vec<&str> = names.iter().copied().filter(served).take(MOST_SERVED).collect();
        if all.is_empty() {
            return None;
        }
        let wanted = (0_u32..1 << all.len()).map(|set| {
            let mut spec = ClaimSpec::new();
            for request in requests {
                let bit = all.iter().position(|name| *name == request.resource);
                let lacks = bit.is_some_and(|bit| set >> bit & 1 == 1);
                if let (true, Some(class)) = (lacks, published.class_for(&request.resource)) {
                    spec =
                        spec.request(&*request.name, DeviceDemand::of(&*class.name, request.count));
                }
            }
            ready(book, evaluator, &Arc::new(spec))
        });
        let wanted = wanted.collect();
        let resources = names.iter().map(|name| (String::from(*name), all.contains(name)));
        Some(Extended { resources: resources.collect(), wanted })
    }

    /// The claim for what a node lacks. It asks for nothing on a node that lacks nothing, and is left
    /// out there unless the pod has `others`.
    pub(super) fn on(
        &self,
        cluster: &Cluster,
        node: NodeView<'_>,
        others: bool,
    ) -> Result<Option<&Wanted>, Unserved> {
        let (mut set, mut bit) = (0_usize, 0);
        for (resource, served) in &self.resources {
            let resource = cluster.resource(resource);
            let lacks = resource.is_none_or(|resource| node.allocatable(resource) <= 0);
            match (served, lacks) {
                (false, true) => return Err(Unserved),
                (false, false) => continue,
                (true, lacks) => set |= usize::from(lacks) << bit,
            }
            bit += 1;
        }
        Ok(if set == 0 && !others { None } else { self.wanted.get(set) })
    }
}

/// The most resources of a pod that classes serve.
const MOST_SERVED: usize = 8;
