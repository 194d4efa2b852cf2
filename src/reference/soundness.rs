//! Soundness: a plan keeps every promise to its request.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use super::broken::{Broken, Unsound};
use super::claims;
use super::devices;
use super::domains::{Domains, Records};
use super::members::{Member, Members, Placed};
use super::volumes;
use crate::framework::{Framework, Strategy};
use crate::model::{Pod, PodGroup};
use crate::place::Request;
use crate::state::{Assignment, Cluster, Plan};

/// Whether a plan keeps every promise made to its request, read off the plan, the request and the
/// cluster as it was *before* the plan was committed. The framework tells which strategy answered
/// (unless the request does) and which of its filters are read here.
///
/// The checks:
///
/// - **Pods.** Each is of the request's tree, as it is there, and placed once. None waits behind a
///   scheduling gate or is bound already. Its node exists, and is one of those that the request
///   [stays on](Request::within). The plan is not empty.
/// - **Domains.** All members of a group that has a required level are in one domain of it, at
///   every depth of the tree, running members included. A group may prefer a level up to a
///   [highest](crate::model::TopologyRequest::highest) one and require none. It is then in one
///   domain of the highest, or of a level between the two where keys do not nest. Beside a
///   requirement, a preference and its bounds promise no more than the requirement does.
/// - **Slices** are placed whole or not at all, each in one domain of its level. A **leader** is in
///   the domain that its first sibling that leads no other is confined to.
/// - **Minima** hold of every group with a pod in the plan and of the whole, running members
///   included. They count pods of a leaf, and groups and [pods](PodGroup::min_pods) of a group of
///   groups. Under [`Strategy::Kueue`], which knows no minima, every pending pod is placed instead.
/// - **Room.** Nothing that the plan takes of a node is more than its pods leave: resources, and
///   the number of pods. It is checked of nodes all of whose pods in the plan are judged by a
///   filter that [judges room](crate::framework::Declaration::room).
/// - **Zones** of nodes have what is taken of them, and no pod holds more of them than it asks for. A
///   pod that is aligned as a whole holds of one zone only, where that is the policy of its node.
/// - **Devices** are of the kind, model and islands asked for, as many as asked for, on the node of
///   the pod. Whole ones have one holder, and shares of one fit in it. A group confined to an
///   **island** has its members on one node, and their devices in one island there.
/// - **Volumes**, where the framework has the filters for them. Each claim that is not bound gets
///   one volume that suits it and that the pod's node reaches, or a new one. A new one is made
///   where the claim's class makes them and a pool has room. No volume is given twice, a claim of
///   one pod has one, and no node attaches more than it can.
/// - **Claims**, where the framework has the filter `DynamicResources`. Each claim has devices that
///   are published, reached by the pod's node, selected and tolerated. Each request has as many as it
///   asks for. Constraints, capacities and counters hold, and a whole device has one holder. Pods
///   that share a claim reach its devices, and are 256 at most.
/// - **Taints and cordons**, where the framework has the filters `TaintToleration` and
///   `NodeUnschedulable`. No other filter is asked.
/// - **Recorded** domains and islands: the group is one of the tree, its members are where the
///   record says, and every requirement is recorded.
///
/// A *domain* of a key is, under [`Strategy::Kubernetes`], the nodes with one value of it.
/// [`Strategy::Search`] and [`Strategy::Kueue`] know levels: if the key is a declared level, a
/// domain is the nodes that have one value of it and agree on all levels above. Racks of one name
/// in two zones are two racks. A key that is no level is told by its value alone there too. A node
/// without the key is in no domain of it; a node without `kubernetes.io/hostname` is, to Kueue, its
/// own host.
///
/// Not checked are wishes (`prefer`, `spread`, `balanced`, `ranked`, an island preferred), which
/// never make a plan unsound. Not checked either are groups that start together
/// ([`PodGroup::gang_group`]), which one plan does not show, and slices under Kueue of a group with
/// members that run. A plan that was left as [partial](crate::place::Unplaced::partial) is none to
/// commit, and is not sound.
///
/// O(pods of the tree · levels + pods on the nodes of the plan); with claims, also O(all pods + claimed
/// devices · slices).
///
/// ```
/// use phalanx::reference::is_sound;
/// use phalanx::{Cluster, Framework, Node, Pod, PodGroup, place_gang};
///
/// let mut cluster = Cluster::new();
/// cluster.add_node(Node::new("n1").capacity("cpu", 8).label("rack", "a"))?;
/// let framework = Framework::default();
/// let gang = PodGroup::of("g", 2, Pod::new().request("cpu", 2)).require("rack");
/// let outcome = place_gang(&cluster, &framework, &gang)?;
/// let plan = outcome.plan().unwrap();
/// is_sound(plan, &gang, &cluster, &framework)?;
///
/// let larger = PodGroup::of("g", 3, Pod::new().request("cpu", 2)).require("rack");
/// let unsound = is_sound(plan, &larger, &cluster, &framework).unwrap_err();
/// assert_eq!(unsound.to_string(), "group default/g: 2 of a minimum of 3 members");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// The plan breaks promises: all that were found.
pub fn is_sound<'a>(
    plan: &Plan,
    request: impl Into<Request<'a>>,
    cluster: &Cluster,
    framework: &Framework,
) -> Result<(), Unsound> {
    let request = request.into();
    let root = request.group();
    if let Err(error) = root.check() {
        return Err(Unsound { broken: Vec::from([Broken::Request(error)]) });
    }
    let strategy = request.strategy.unwrap_or_else(|| framework.strategy());
    let mut check = Check {
        cluster,
        strategy,
        domains: Domains::new(cluster, strategy),
        records: Records::of(plan),
        placed: BTreeMap::new(),
        broken: Vec::new(),
    };
    check.assignments(plan, &request);
    check.group(root, false);
    check.broken.extend(check.records.wrong());
    volumes::check(plan, cluster, framework, &mut check.broken);
    claims::check(plan, cluster, framework, &mut check.broken);
    devices::check(framework, check.placed.values().copied(), &mut check.broken);
    if check.broken.is_empty() { Ok(()) } else { Err(Unsound { broken: check.broken }) }
}

struct Check<'a> {
    cluster: &'a Cluster,
    strategy: Strategy,
    domains: Domains<'a>,
    records: Records<'a>,
    placed: BTreeMap<(&'a str, &'a str), Placed<'a>>,
    broken: Vec<Broken>,
}

impl<'a> Check<'a> {
    /// Reads the assignments, each by itself.
    fn assignments<'r: 'a>(&mut self, plan: &'a Plan, request: &'r Request<'_>) {
        let root = request.group();
        if plan.group() != root.full_name() {
            self.broken.push(Broken::OtherGroup(plan.group().into()));
        }
        if plan.is_empty() {
            self.broken.push(Broken::Empty);
        }
        let pods = root.all_pods();
        let by_name: BTreeMap<_, &Pod> =
            pods.into_iter().map(|pod| ((pod.namespace(), &*pod.name), pod)).collect();
        for assignment in plan.assignments() {
            let own = assignment.pod();
            let name = || format!("{}/{}", own.namespace(), own.name);
            let known = by_name.get(&(own.namespace(), &*own.name));
            let Some(&pod) = known.filter(|pod| pod.shape() == own.shape()) else {
                self.broken.push(Broken::UnknownPod(name()));
                continue;
            };
            if !pod.scheduling_gates.is_empty() {
                self.broken.push(Broken::Gated(name()));
            }
            if self.cluster.pod(pod.namespace(), &pod.name).is_some() {
                self.broken.push(Broken::AlreadyBound(name()));
            }
            self.node_of(pod, assignment, request);
        }
    }

    fn node_of<'r: 'a>(
        &mut self,
        pod: &'r Pod,
        assignment: Assignment<'a>,
        request: &'r Request<'_>,
    ) {
        let name = || format!("{}/{}", pod.namespace(), pod.name);
        let Some(node) = self.cluster.node(assignment.node()) else {
            let node = assignment.node().to_string();
            return self.broken.push(Broken::UnknownNode { pod: name(), node });
        };
        if let Some(within) = &request.within
            && node.label(&within.key) != Some(&*within.value)
        {
            let (key, value) = (within.key.clone(), within.value.clone());
            let node = node.name().to_string();
            self.broken.push(Broken::Outside { pod: name(), node, key, value });
        }
        let (devices, zones) = (assignment.devices(), assignment.zone_shares());
        let placed = Placed { pod, node, devices, zones };
        if self.placed.insert((pod.namespace(), &pod.name), placed).is_some() {
            self.broken.push(Broken::Twice(name()));
        }
    }

    /// Checks a group and those inside. `in_island`: whether a group around it has an island.
    fn group<'r: 'a>(&mut self, group: &'r PodGroup, in_island: bool) -> Members<'a> {
        let name = group.full_name();
        let in_island = in_island || self.records.has_island(&name);
        let mut members = Members::default();
        let have = if group.groups.is_empty() {
            self.leaf(group, &name, &mut members);
            members.planned.len() + members.running.len()
        } else {
            let inside: Vec<Members<'a>> =
                group.groups.iter().map(|inner| self.group(inner, in_island)).collect();
            self.leaders(group, &inside);
            let counting = inside.iter().filter(|inner| inner.counts).count();
            for inner in inside {
                members.planned.extend(inner.planned);
                members.running.extend(inner.running);
            }
            counting
        };
        members.counts = self.counts(group, &name, &members, have);
        if !members.planned.is_empty() {
            self.confined(group, &name, &members, in_island);
        }
        self.records.read(&name, &members.planned, &self.domains);
        members
    }

    /// Finds the members of a leaf, and checks its slices.
    fn leaf<'r: 'a>(&mut self, leaf: &'r PodGroup, name: &str, members: &mut Members<'a>) {
        let open: Vec<&'r Pod> =
            leaf.pods.iter().filter(|pod| pod.scheduling_gates.is_empty()).collect();
        members.running = running(self.cluster, leaf, name);
        // Pods behind gates are no members yet, but what is planned is counted where it stands.
        members.planned =
            leaf.pods.iter().filter_map(|pod| self.member(pod.namespace(), &pod.name)).collect();
        if self.strategy.is_kueue() {
            let left_out = open.iter().filter(|pod| {
                self.member(pod.namespace(), &pod.name).is_none()
                    && self.cluster.pod(pod.namespace(), &pod.name).is_none()
            });
            let left_out = left_out.map(|pod| format!("{}/{}", pod.namespace(), pod.name));
            self.broken.extend(left_out.map(Broken::LeftOut).collect::<Vec<_>>());
        }
        if !self.strategy.is_kueue() || members.running.is_empty() {
            self.slices(leaf, name, &open, 0);
        }
    }

    /// Checks slices of some pods, and the slices inside.
    fn slices(&mut self, leaf: &PodGroup, name: &str, pods: &[&'a Pod], depth: usize) {
        let Some(slice) = leaf.topology.slices.get(depth) else { return };
        for (number, chunk) in pods.chunks(slice.size.max(1) as usize).enumerate() {
            let name = format!("{name}[{number}]");
            let planned = chunk.iter().filter_map(|pod| self.member(pod.namespace(), &pod.name));
            let planned: Vec<Member<'a>> = planned.collect();
            self.records.read(&name, &planned, &self.domains);
            if planned.is_empty() {
                continue;
            }
            if planned.len() < chunk.len() {
                let (slice, placed, size) = (name.clone(), planned.len(), chunk.len());
                self.broken.push(Broken::HalfSlice { slice, placed, size });
            }
            self.broken.extend(self.domains.scattered(&name, &slice.level, planned.iter()));
            self.slices(leaf, &name, chunk, depth + 1);
        }
    }

    fn member(&self, namespace: &'a str, name: &'a str) -> Option<Member<'a>> {
        let placed = self.placed.get(&(namespace, name))?;
        Some(Member { name, namespace, node: placed.node, devices: placed.devices })
    }

    /// Whether a group has its minima. That it has not is noted where the plan places some of it.
    fn counts(&mut self, group: &PodGroup, name: &str, members: &Members<'a>, have: usize) -> bool {
        if self.strategy.is_kueue() {
            return !members.planned.is_empty();
        }
        let need = group.policy.minimum();
        let enough = have >= need as usize;
        let noted = !members.planned.is_empty();
        if noted && !enough {
            self.broken.push(Broken::BelowMinimum { group: name.to_string(), have, need });
        }
        let pods = members.planned.len() + members.running.len();
        let least = group.min_pods.filter(|_| !group.groups.is_empty());
        let short = least.filter(|least| pods < *least as usize);
        if let Some(need) = short.filter(|_| noted) {
            let group = name.to_string();
            self.broken.push(Broken::BelowMinPods { group, have: pods, need });
        }
        enough && short.is_none()
    }

    /// Checks what confines a group, and that the plan records it.
    fn confined(&mut self, group: &PodGroup, name: &str, members: &Members<'a>, in_island: bool) {
        let keys = self.domains.required(&group.topology);
        if let Some(key) = keys.first() {
            self.broken.extend(self.domains.unmet(name, &keys, &members.all()));
            if !in_island && !self.records.has(name) {
                let (group, key) = (name.to_string(), key.to_string());
                self.broken.push(Broken::Unrecorded { group, key });
            }
        }
        if devices::requires_island(group) {
            self.broken.extend(devices::scattered(name, members));
            if !in_island {
                let (group, key) = (name.to_string(), String::from("island"));
                self.broken.push(Broken::Unrecorded { group, key });
            }
        }
    }

    /// Checks that leaders are in the domain that the sibling they lead is confined to.
    fn leaders(&mut self, group: &PodGroup, inside: &[Members<'a>]) {
        let Some(led) = group.groups.iter().position(|inner| !inner.leader) else { return };
        let keys = self.domains.required(&group.groups[led].topology);
        let led = &inside[led];
        for (leader, own) in group.groups.iter().zip(inside).filter(|(inner, _)| inner.leader) {
            let none = |members: &Members<'_>| members.all().next().is_none();
            let runs = !(own.running.is_empty() && led.running.is_empty());
            if none(own)
                || none(led)
                || own.planned.is_empty() && led.planned.is_empty()
                || self.strategy.is_kueue() && runs
            {
                continue;
            }
            let together = own.all().chain(led.all());
            self.broken.extend(self.domains.unmet(&leader.full_name(), &keys, &together));
        }
    }
}

/// The members of a leaf that run: pods of its namespace that name it and whose node exists.
fn running<'a>(cluster: &'a Cluster, leaf: &PodGroup, name: &str) -> Vec<Member<'a>> {
    // Full names of two namespaces can be spelt alike.
    let own = cluster.group_pods(name).filter(|pod| pod.namespace() == leaf.namespace);
    let members = own.filter_map(|pod| {
        let node = pod.node()?;
        let devices = pod.device_indexes();
        Some(Member { name: pod.name(), namespace: pod.namespace(), node, devices })
    });
    members.collect()
}
