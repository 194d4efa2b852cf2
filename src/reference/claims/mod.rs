//! Claims of a plan: whether each gets devices that it may have, and none is given twice.
//!
//! Written from the rules, without the code that chooses devices. The selectors alone are judged by
//! the framework's own evaluator.

mod amounts;
mod holders;
mod published;
mod served;

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

use self::holders::Holders;
use self::published::is_among;
use self::served::serves;
use super::broken::Broken;
use crate::framework::Framework;
use crate::model::{
    Allocation, ClaimSource, ClaimSpec, DeviceDemand, ExtendedRequest, PodClaim, PodShape,
};
use crate::state::{Assignment, ClaimRecord, Cluster, NodeView, Plan};

/// The most consumers of a claim.
const CONSUMERS: usize = 256;

/// Every class serves the resource of this prefix and its own name.
const OF_CLASS: &str = "deviceclass.resource.kubernetes.io/";

/// Checks the claims of every pod of a plan, if the framework has the filter for them.
pub(super) fn check(
    plan: &Plan,
    cluster: &Cluster,
    framework: &Framework,
    broken: &mut Vec<Broken>,
) {
    let is_judged = framework.filters().iter().any(|own| own.name() == "DynamicResources");
    let has_claims = |own: Assignment<'_>| !own.pod().shape().claims.is_empty();
    if !is_judged || !plan.assignments().any(has_claims) {
        return;
    }
    let mut check = Check { cluster, framework, given: BTreeMap::new(), users: BTreeMap::new() };
    let mut holders = Holders::of(cluster);
    for assignment in plan.assignments() {
        let Some(node) = cluster.node(assignment.node()) else { continue };
        for own in &assignment.pod().shape().claims {
            if let Err(problem) = check.claim(assignment, own, node, &mut holders) {
                let (pod, claim) = (assignment.pod().full_name().into(), own.name.clone());
                broken.push(Broken::Claim { pod, claim, problem });
            }
        }
        for held in assignment.allocations() {
            let names = |own: &PodClaim| own.name == held.claim;
            if !assignment.pod().shape().claims.iter().any(names) {
                let (pod, claim) = (assignment.pod().full_name().into(), held.claim.clone());
                let problem = String::from("the pod has no such claim");
                broken.push(Broken::Claim { pod, claim, problem });
            }
        }
    }
    broken.extend(holders.overtaken(cluster));
}

struct Check<'a> {
    cluster: &'a Cluster,
    framework: &'a Framework,
    /// The devices that the plan gives claims that have a name.
    given: BTreeMap<(&'a str, &'a str), &'a Arc<Allocation>>,
    /// How many pods of the plan use each.
    users: BTreeMap<(&'a str, &'a str), usize>,
}

impl<'a> Check<'a> {
    fn claim(
        &mut self,
        assignment: Assignment<'a>,
        own: &'a PodClaim,
        node: NodeView<'a>,
        holders: &mut Holders<'a>,
    ) -> Result<(), String> {
        let shape: &'a PodShape = assignment.pod().shape();
        let mut held = assignment.allocations().iter().filter(|held| held.claim == own.name);
        let (held, again) = (held.next().map(|held| &held.allocation), held.next());
        if again.is_some() {
            return Err("gets devices twice".into());
        }
        match &own.source {
            ClaimSource::Unmade => Err("is yet to be made".into()),
            ClaimSource::Own(spec) => {
                let held = held.ok_or("gets no devices")?;
                self.fits(spec, held, node, holders)
            }
            ClaimSource::Extended(requests) => {
                let spec = self.extended(requests, node)?;
                match held {
                    None if spec.requests.is_empty() => Ok(()),
                    None => Err("gets no devices".into()),
                    Some(held) => self.fits(&spec, held, node, holders),
                }
            }
            ClaimSource::Named(name) => self.named((shape, name, &[]), held, node, holders),
            ClaimSource::Made { claim, owners } => {
                self.named((shape, claim, owners), held, node, holders)
            }
        }
    }

    /// Checks a claim with a name, which others may use too.
    fn named(
        &mut self,
        (shape, name, owners): (&'a PodShape, &'a str, &[String]),
        held: Option<&'a Arc<Allocation>>,
        node: NodeView<'a>,
        holders: &mut Holders<'a>,
    ) -> Result<(), String> {
        let key = (&*shape.namespace, name);
        let record: Option<&ClaimRecord> = self.cluster.claims().claim(key.0, key.1);
        let record = record.ok_or("does not exist")?;
        let claim = record.claim().ok_or("does not exist")?;
        if !owners.is_empty() && !owners.contains(&claim.owner) {
            return Err("was not made for the pod".into());
        }
        if claim.deleting {
            return Err("is being deleted".into());
        }
        let users = self.users.entry(key).or_default();
        *users += 1;
        let all = *users + record.holders() as usize;
        if owners.is_empty() && all > CONSUMERS {
            return Err(format!("has {all} consumers, and may have {CONSUMERS}"));
        }
        let known = record.allocation().or_else(|| self.given.get(&key).copied());
        let devices = match (known, held) {
            (Some(known), Some(held)) if known != held => {
                return Err("gets other devices than it has".into());
            }
            (Some(known), _) => known,
            (None, None) => return Err("gets no devices".into()),
            (None, Some(held)) => {
                self.given.insert(key, held);
                return self.fits(&claim.spec, held, node, holders);
            }
        };
        match &devices.nodes {
            Some(nodes) if !is_among(nodes, node) => {
                Err(format!("has devices that node {} does not reach", node.name()))
            }
            _ => Ok(()),
        }
    }

    fn fits(
        &self,
        spec: &ClaimSpec,
        held: &'a Arc<Allocation>,
        node: NodeView<'a>,
        holders: &mut Holders<'a>,
    ) -> Result<(), String> {
        holders.add(held);
        serves(self.cluster, self.framework, spec, held, node)
    }

    /// The claim for those resources of a pod that a node lacks.
    fn extended(
        &self,
        requests: &[ExtendedRequest],
        node: NodeView<'_>,
    ) -> Result<ClaimSpec, String> {
        let mut spec = ClaimSpec::new();
        let mut classes: Vec<_> = self.cluster.claims().classes().collect();
        classes.sort_by(|a, b| b.created.cmp(&a.created).then_with(|| a.name.cmp(&b.name)));
        let class_of = |resource: &str| {
            let mut named = classes.iter();
            let named = named.find(|own| own.extended_resource.as_deref() == Some(resource));
            named.or_else(|| {
                let name = resource.strip_prefix(OF_CLASS)?;
                classes.iter().find(|own| own.name == name)
            })
        };
        let served = requests.iter().any(|request| class_of(&request.resource).is_some());
        for request in requests {
            let resource = self.cluster.resource(&request.resource);
            if !served || resource.is_some_and(|resource| node.allocatable(resource) > 0) {
                continue;
            }
            let class = class_of(&request.resource);
            let class = class.ok_or_else(|| format!("nobody serves {}", request.resource))?;
            let demand = DeviceDemand::of(String::from(&*class.name), request.count);
            spec = spec.request(request.name.clone(), demand);
        }
        Ok(spec)
    }
}
