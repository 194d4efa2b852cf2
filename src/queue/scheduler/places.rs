//! Places of units that move: plans for them, and pods that have reached or lost one.

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

use super::Scheduler;
use crate::model::{IslandRule, Pod, PodGroup, TopologyRequest, ZoneShare};
use crate::place::topology::partition::path_of;
use crate::place::topology::tiers::{DomainKey, DomainSense};
use crate::queue::groups::full_name;
use crate::queue::holds::{UnitMove, View};
use crate::queue::removals::Removal;
use crate::queue::terms::ids::GroupId;
use crate::state::plan::PlanDomain;
use crate::state::{Assignment, Cluster, Devices, Plan, Row};

impl Scheduler {
    /// The plan that puts members on nodes, as if they were pending. `None` if they are not all of
    /// the group any more, or a required domain does not hold them together. It is still to be
    /// judged.
    pub(super) fn plan_of_places(
        &self,
        cluster: &Cluster,
        root: GroupId,
        places: &Places<'_>,
    ) -> Option<Plan> {
        let queued = self.groups.get(&root)?;
        let members = queued.members().placed_anew(&places.keys().copied().collect());
        let mut rows: BTreeMap<String, (Row, Option<Devices>)> = BTreeMap::new();
        for (seq, (node, devices, zones)) in places {
            let devices = Devices::new(devices.to_vec(), Vec::new(), zones.to_vec());
            let name = full_name(members.get(seq)?.pod());
            rows.insert(name, (cluster.row_of(node)?, devices));
        }
        let tree = queued.tree_of(&members);
        let strategy = queued.strategy().or(self.world.settings().strategy);
        let sense = DomainSense::of(strategy.unwrap_or_else(|| self.world.framework().strategy()));
        let mut plan =
            Plan::of_places(tree.clone(), cluster, |pod| rows.get(&full_name(pod)).cloned());
        let (mut domains, mut first) = (Vec::new(), 0);
        enter_domains(cluster, sense, (&tree, &plan), &mut first, &mut domains)?;
        plan.domains = domains;
        (plan.len() == places.len()).then_some(plan)
    }

    /// Whether a unit whose pods have left a view has its places there; it is put there.
    pub(super) fn moves_in(&self, own: &UnitMove, view: &mut View) -> bool {
        let mut places: Places<'_> = BTreeMap::new();
        for place in own.places() {
            let Some((_, seq)) = self.groups.member(&full_name(place.pod())) else { return false };
            places.insert(seq, (place.to(), place.devices(), place.zone_shares()));
        }
        let plan = self.plan_of_places(view.cluster(), own.root(), &places);
        plan.is_some_and(|plan| view.takes(self.world.framework(), &plan))
    }

    /// A member that was bound from outside takes the place of one that moves.
    pub(super) fn place_taken(&mut self, id: GroupId, seq: u64) {
        if !self.holds.is_moving(id) {
            return;
        }
        let Some(member) = self.groups.find(id, seq) else { return };
        let node = self.node_of(member.pod().namespace(), &member.pod().name);
        let pod = member.pod().clone();
        let own = self.holds.moves().filter(|own| own.root() == id && !self.is_leaving(own));
        let fits = own.flat_map(|own| own.places().iter().map(move |place| (own, place)));
        let fits = fits.filter(|(_, place)| is_like(place.pod(), &pod));
        let best = fits.min_by_key(|(_, place)| {
            (full_name(place.pod()) != full_name(&pod), Some(place.to()) != node.as_deref())
        });
        let Some((ticket, name)) = best.map(|(own, place)| (own.ticket(), full_name(place.pod())))
        else {
            return;
        };
        self.release_places(|own, place, _| {
            own.ticket() == ticket && full_name(place.pod()) == name
        });
    }

    /// Whether a unit is still to leave its nodes.
    pub(super) fn is_leaving(&self, own: &UnitMove) -> bool {
        self.removals.unit(own.ticket(), own.unit()).is_some()
    }

    /// Whether a unit that is to move has not begun to leave.
    pub(super) fn has_not_begun(&self, own: &UnitMove) -> bool {
        self.removals.unit(own.ticket(), own.unit()).is_some_and(|unit| !unit.has_begun())
    }

    /// The placeholders, but for those of the places that units of a claim have begun to move to,
    /// that stand for room which pods of the same claim still use.
    pub(super) fn claim_placeholders(&self, by: GroupId) -> Vec<&Pod> {
        let claim = self.holds.room(by).filter(|_| self.holds.claims(by));
        let held = claim.into_iter().flat_map(|own| own.placeholders().iter().map(|(pod, _)| pod));
        // A unit that stops starts last: the others find their places beside its own.
        let is_later = |own: &UnitMove| {
            self.holds.stops(own.ticket(), own.unit())
                || self.removals.unit(own.ticket(), own.unit()).is_some_and(Removal::is_later)
        };
        let later = self.holds.moves().filter(|own| own.by() == by && is_later(own));
        held.chain(later.flat_map(UnitMove::placeholders).map(|(pod, _)| pod)).collect()
    }

    /// Frees places whose time is over.
    pub(super) fn places_due(&mut self) {
        let now = self.world.now();
        self.release_places(|_, place, until| !place.is_nominated() && until <= now);
    }
}

/// The nodes that members go to, with devices and amounts of NUMA zones there, by number of arrival.
pub(in crate::queue) type Places<'a> = BTreeMap<u64, (&'a str, &'a [Vec<u32>], &'a [ZoneShare])>;

/// Whether a pod may take the place of another of its leaf: it requests the same.
pub(super) fn is_like(own: &Pod, other: &Pod) -> bool {
    let (mine, theirs) = (own.shape(), other.shape());
    own.group == other.group
        && own.namespace() == other.namespace()
        && (Arc::ptr_eq(mine, theirs)
            || mine.requests == theirs.requests
                && mine.devices == theirs.devices
                && mine.zones == theirs.zones)
}

/// Adds the required domains of a tree to those of a plan; `None` if a node is in none. `first` is
/// the number of the plan's next member.
fn enter_domains(
    cluster: &Cluster,
    sense: DomainSense,
    (group, plan): (&PodGroup, &Plan),
    first: &mut usize,
    domains: &mut Vec<PlanDomain>,
) -> Option<()> {
    let start = *first;
    let planned = |pod: &Pod| plan.assignments().any(|to| full_name(to.pod()) == full_name(pod));
    *first += group.pods.iter().filter(|pod| planned(pod)).count();
    for inner in &group.groups {
        enter_domains(cluster, sense, (inner, plan), first, domains)?;
    }
    let require = group.topology.require.as_deref().filter(|_| *first > start);
    if let Some(key) = require {
        let node = plan.assignments().nth(start).map(Assignment::node)?;
        let key = DomainKey::new(cluster, sense, Some(key), key)?;
        let path = path_of(cluster.node(node)?, &key.keys)?;
        let asked = (group.full_name().into(), Some(&group.topology));
        domains.push(key.record(cluster, asked, &path, (start, *first)));
    }
    Some(())
}

/// Whether the places of members of a group depend on each other in more ways than by one domain.
pub(super) fn is_bound_together(group: &PodGroup) -> bool {
    let TopologyRequest { require, prefer, .. } = &group.topology;
    let known = TopologyRequest {
        require: require.clone(),
        prefer: prefer.clone(),
        island: IslandRule::Any,
        ..TopologyRequest::default()
    };
    group.leader || group.topology != known
}
