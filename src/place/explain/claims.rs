//! Reports about claims: the devices that are lacking, and changes of claims that would do.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;

use crate::base::clip::clip;
use crate::claims::{ClaimVerdict, How, PreparedClaims, Supply};
use crate::framework::Framework;
use crate::model::{
    AttributeRule, ClaimSource, ClaimSpec, DeviceAmount, DeviceDemand, Pod, PodGroup, PodShape,
    RequestChoice, Toleration, TolerationOperator,
};
use crate::state::{Cluster, Devices, Row};

/// A reason why claims of a kind of pod are not served.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ClaimLack {
    /// A claim cannot be allocated anywhere.
    Refused {
        /// The claim, as `namespace/claim`; of one that has no object, the pod and its name there.
        claim: String,
        /// The reason.
        reason: String,
    },
    /// A claim cannot be judged.
    Fault {
        /// The reason.
        reason: String,
        /// On how many nodes.
        nodes: usize,
    },
    /// A claim has devices that some nodes do not reach.
    Elsewhere {
        /// The claim, as above.
        claim: String,
        /// How many nodes.
        nodes: usize,
    },
    /// No node has the devices of one request.
    Devices {
        /// The claim, as above.
        claim: String,
        /// The request, as `request` or `request/alternative`.
        request: String,
        /// How many devices it needs.
        need: u64,
        /// The attributes that they must have one value of.
        one: Vec<String>,
        /// How many the best node has.
        have: u64,
        /// The best node; empty if there is none.
        node: String,
    },
    /// Each request could be served on some node, and no node serves all of them together.
    Together {
        /// The pod.
        pod: String,
    },
    /// One pod would be served, and there are not devices for all of its kind.
    Pods {
        /// The pod.
        pod: String,
        /// How many pods are like it.
        need: usize,
        /// For how many devices were found, each node filled by itself.
        have: usize,
    },
}

impl fmt::Display for ClaimLack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ClaimLack::Refused { claim, reason } => {
                write!(f, "claim {}: {}", clip(claim), clip(reason))
            }
            ClaimLack::Fault { reason, nodes } => {
                write!(f, "claims cannot be judged on {nodes} nodes: {}", clip(reason))
            }
            ClaimLack::Elsewhere { claim, nodes } => {
                write!(f, "claim {}: {nodes} nodes do not reach its devices", clip(claim))
            }
            ClaimLack::Devices { claim, request, need, one, have, node } => {
                let (claim, request) = (clip(claim), clip(request));
                write!(f, "claim {claim} needs {need} devices")?;
                for (at, attribute) in one.iter().enumerate() {
                    let id = attribute.rsplit('/').next().unwrap_or(attribute);
                    let word = if at == 0 { " with one" } else { " and one" };
                    write!(f, "{word} {}", clip(id))?;
                }
                write!(f, " for request {request}; ")?;
                match &**node {
                    "" => f.write_str("no node has any"),
                    node => write!(f, "the best node, {}, has {have}", clip(node)),
                }
            }
            ClaimLack::Together { pod } => {
                write!(f, "no node has devices for all requests of {} together", clip(pod))
            }
            ClaimLack::Pods { pod, need, have } => {
                write!(f, "devices are there for {have} of {need} pods like {}", clip(pod))
            }
        }
    }
}

/// A change of a claim.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Relaxation {
    /// Drop a constraint.
    Unconstrained {
        /// The attribute, by its full name.
        attribute: String,
    },
    /// Ask for fewer devices.
    Fewer {
        /// The request.
        request: String,
        /// The largest number that does.
        to: u64,
        /// The number asked for.
        from: u64,
    },
    /// Drop the selectors of a request, those of its class apart.
    Unselected {
        /// The request.
        request: String,
    },
    /// Tolerate all taints of devices.
    Tolerating {
        /// The request.
        request: String,
    },
}

impl Relaxation {
    /// Whether both ask for fewer devices of one request.
    pub(super) fn is_like(&self, other: &Relaxation) -> bool {
        match (self, other) {
            (Relaxation::Fewer { request, .. }, Relaxation::Fewer { request: other, .. }) => {
                request == other
            }
            _ => false,
        }
    }
}

impl fmt::Display for Relaxation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Relaxation::Unconstrained { attribute } => {
                write!(f, "drop the constraint on {}", clip(attribute))
            }
            Relaxation::Fewer { request, to, from } => {
                write!(f, "ask for {to} devices in place of {from} in request {}", clip(request))
            }
            Relaxation::Unselected { request } => {
                write!(f, "drop the selectors of request {}", clip(request))
            }
            Relaxation::Tolerating { request } => {
                write!(f, "tolerate the taints of devices in request {}", clip(request))
            }
        }
    }
}

/// The full name of a claim of a pod.
pub(super) fn name_of(pod: &Pod, claim: &str) -> String {
    let shape = pod.shape();
    let own = shape.claims.iter().find(|own| own.name == claim);
    match own.map(|own| &own.source) {
        Some(ClaimSource::Named(name) | ClaimSource::Made { claim: name, .. }) => {
            format!("{}/{name}", shape.namespace)
        }
        _ => format!("{}/{claim}", pod.name),
    }
}

/// Why the claims of some pods, all like one, are not served on some rows.
pub(super) fn lacks(
    cluster: &Cluster,
    framework: &Framework,
    (pod, pods): (&Pod, usize),
    rows: &[Row],
) -> Vec<ClaimLack> {
    let shape: &PodShape = pod.shape();
    let is_judged = framework.filters().iter().any(|own| own.name() == "DynamicResources");
    if shape.claims.is_empty() || !is_judged {
        return Vec::new();
    }
    let claims = match PreparedClaims::new(cluster, framework.selectors(), shape) {
        Ok(Some(claims)) => claims,
        Ok(None) => return Vec::new(),
        Err(refusal) => {
            let claim = name_of(pod, &refusal.claim);
            return Vec::from([ClaimLack::Refused { claim, reason: refusal.reason }]);
        }
    };
    let mut survey = Survey::default();
    for node in rows.iter().filter_map(|&row| cluster.view(row)) {
        match claims.on(cluster, node) {
            ClaimVerdict::Offer(_) => survey.served += 1 + more_pods(cluster, &claims, node, pods),
            ClaimVerdict::Elsewhere(claims) => {
                for claim in claims {
                    *survey.elsewhere.entry(claim).or_default() += 1;
                }
            }
            ClaimVerdict::Fault(reason) => *survey.faults.entry(reason).or_default() += 1,
            ClaimVerdict::Lacking => {
                let supplies = claims.supplies(cluster, node).unwrap_or_default();
                for own in supplies {
                    survey.note(own, node.name());
                }
            }
        }
    }
    survey.lacks(pod, pods)
}

/// For how many pods beside one a node has devices.
fn more_pods(
    cluster: &Cluster,
    claims: &PreparedClaims,
    node: crate::state::NodeView<'_>,
    pods: usize,
) -> usize {
    let mut held: Vec<Devices> = Vec::new();
    while held.len() < pods {
        let allocations = held.iter().flat_map(Devices::claims).map(|own| &*own.allocation);
        let more = cluster.claims().with_more(allocations);
        let how = How { more: Some(&more), ..How::default() };
        let mut found = None;
        let accepted = claims.each(cluster, node, how, &mut |offer| {
            found = Some(Devices::of_claims(offer));
            true
        });
        match found.filter(|own| accepted.is_ok() && !own.claims().is_empty()) {
            Some(devices) => held.push(devices),
            None => break,
        }
    }
    held.len().saturating_sub(1)
}

/// The counts of all nodes.
#[derive(Debug, Default)]
struct Survey {
    served: usize,
    elsewhere: BTreeMap<String, usize>,
    faults: BTreeMap<String, usize>,
    /// The best supply of each request, with its node.
    best: BTreeMap<(String, String), (Supply, String)>,
}

impl Survey {
    fn note(&mut self, own: Supply, node: &str) {
        let known = self.best.entry((own.claim.clone(), own.request.clone()));
        let known = known.or_insert_with(|| (Supply { have: 0, ..own.clone() }, String::new()));
        let (have, need) = (own.have, own.need);
        if have > known.0.have || have >= need && known.0.have < known.0.need {
            *known = (own, node.to_string());
        }
    }

    fn lacks(self, pod: &Pod, pods: usize) -> Vec<ClaimLack> {
        let mut lacks = Vec::new();
        if self.served > 0 {
            if self.served < pods {
                let pod = pod.name.clone();
                lacks.push(ClaimLack::Pods { pod, need: pods, have: self.served });
            }
            return lacks;
        }
        for (claim, nodes) in self.elsewhere {
            lacks.push(ClaimLack::Elsewhere { claim: name_of(pod, &claim), nodes });
        }
        for (reason, nodes) in self.faults {
            lacks.push(ClaimLack::Fault { reason, nodes });
        }
        let lacking = !self.best.is_empty();
        let mut short = false;
        for (Supply { claim, request, need, have, one }, node) in self.best.into_values() {
            if have < need || need == 0 {
                short = true;
                let claim = name_of(pod, &claim);
                lacks.push(ClaimLack::Devices { claim, request, need, one, have, node });
            }
        }
        if lacking && !short {
            lacks.push(ClaimLack::Together { pod: pod.name.clone() });
        }
        lacks
    }
}

/// Changes of claims of a group that pods have for themselves alone: the first claim of each kind, a
/// change, how many pods it touches, and the group with it. A larger number of devices comes before a
/// smaller one.
pub(super) fn relaxations(group: &PodGroup) -> Vec<(String, Relaxation, usize, PodGroup)> {
    let mut kinds: Vec<(&Arc<ClaimSpec>, String, usize)> = Vec::new();
    for pod in group.all_pods() {
        for own in &pod.shape().claims {
            let ClaimSource::Own(spec) = &own.source else { continue };
            match kinds.iter_mut().find(|(known, ..)| *known == spec) {
                Some((.., pods)) => *pods += 1,
                None => kinds.push((spec, name_of(pod, &own.name), 1)),
            }
        }
    }
    let mut all = Vec::new();
    for (spec, name, pods) in kinds {
        for (change, relaxed) in changes(spec) {
            let changed = with_spec(group, spec, &Arc::new(relaxed));
            all.push((name.clone(), change, pods, changed));
        }
    }
    all
}

/// The changes of a claim, with the claim that comes of each.
fn changes(spec: &ClaimSpec) -> Vec<(Relaxation, ClaimSpec)> {
    let mut all = Vec::new();
    for (at, constraint) in spec.constraints.iter().enumerate() {
        if let AttributeRule::Match(attribute) | AttributeRule::Distinct(attribute) =
            &constraint.rule
        {
            let mut relaxed = spec.clone();
            relaxed.constraints.remove(at);
            all.push((Relaxation::Unconstrained { attribute: attribute.clone() }, relaxed));
        }
    }
    for (at, request) in spec.requests.iter().enumerate() {
        let RequestChoice::Exactly(demand) = &request.choice else { continue };
        let with = |change: &dyn Fn(&mut DeviceDemand)| {
            let (mut relaxed, mut demand) = (spec.clone(), demand.clone());
            change(&mut demand);
            relaxed.requests[at].choice = RequestChoice::Exactly(demand);
            relaxed
        };
        let name = || request.name.clone();
        if !demand.selectors.is_empty() {
            let relaxed = with(&|demand| demand.selectors.clear());
            all.push((Relaxation::Unselected { request: name() }, relaxed));
        }
        let any = Toleration { operator: TolerationOperator::Exists, ..Toleration::default() };
        if !demand.tolerations.contains(&any) {
            let relaxed = with(&|demand| demand.tolerations.push(any.clone()));
            all.push((Relaxation::Tolerating { request: name() }, relaxed));
        }
        if let DeviceAmount::Count(from) = demand.amount {
            for to in (1..from.min(33)).rev() {
                let relaxed = with(&|demand| demand.amount = DeviceAmount::Count(to));
                all.push((Relaxation::Fewer { request: name(), to, from }, relaxed));
            }
        }
    }
    all
}

/// A group whose pods have another claim in place of one of their own.
fn with_spec(group: &PodGroup, spec: &Arc<ClaimSpec>, relaxed: &Arc<ClaimSpec>) -> PodGroup {
    let mut group = group.clone();
    change_pods(&mut group, spec, relaxed);
    group
}

fn change_pods(group: &mut PodGroup, spec: &Arc<ClaimSpec>, relaxed: &Arc<ClaimSpec>) {
    for inner in &mut group.groups {
        change_pods(inner, spec, relaxed);
    }
    // Pods that share a shape share the changed one.
    let mut last: Option<(Arc<PodShape>, Arc<PodShape>)> = None;
    for pod in &mut group.pods {
        let (known, changed) = match &last {
            Some((known, changed)) if Arc::ptr_eq(known, pod.shape()) => {
                (Arc::clone(known), Arc::clone(changed))
            }
            _ => (Arc::clone(pod.shape()), relaxed_shape(pod.shape(), spec, relaxed)),
        };
        *pod = core::mem::take(pod).with_shape(Arc::clone(&changed));
        last = Some((known, changed));
    }
}

fn relaxed_shape(
    shape: &Arc<PodShape>,
    spec: &Arc<ClaimSpec>,
    relaxed: &Arc<ClaimSpec>,
) -> Arc<PodShape> {
    let is_one = |source: &ClaimSource| matches!(source, ClaimSource::Own(own) if own == spec);
    if !shape.claims.iter().any(|own| is_one(&own.source)) {
        return Arc::clone(shape);
    }
    let mut changed = PodShape::clone(shape);
    for own in changed.claims.iter_mut().filter(|own| is_one(&own.source)) {
        own.source = ClaimSource::Own(Arc::clone(relaxed));
    }
    Arc::new(changed)
}
