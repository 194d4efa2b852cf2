//! Booked room: what is kept of it, what owners use, and what borrowers have.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::String;
use alloc::vec::Vec;

use super::kept_devices::put_again;
use crate::base::{ObjectName, Time};
use crate::framework::Evaluation;
use crate::model::{Pod, PodGroup};
use crate::queue::groups::full_name;
use crate::queue::terms::RESERVED_NAMESPACE;
use crate::queue::terms::booking::{Booking, BookingChange, BookingOwner};
use crate::queue::terms::ids::GroupId;
use crate::queue::world::World;
use crate::state::Plan;

/// Placeholders with their nodes.
type Standing = Vec<(Pod, String)>;

/// A booking in the ledger.
#[derive(Debug, Clone)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub(in crate::queue) struct Booked {
    pub(super) booking: Booking,
    pub(super) begun: bool,
    /// Whether an owner has used it up.
    pub(super) used: bool,
    /// By placeholder: the pod of the booking that it stands for.
    pods: BTreeMap<String, Pod>,
    /// Room that is not kept now.
    pub(super) out: Vec<Out>,
    /// Groups that may use room of it until the window begins.
    lent: BTreeSet<GroupId>,
    /// Searches for a place in a row that found none, and the time of the next one.
    failures: u32,
    next: Time,
}

/// Room of one pod that is not kept now.
#[derive(Debug, Clone)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub(in crate::queue) struct Out {
    placeholder: Pod,
    node: String,
    /// Full name of the owner's pod that uses it; `None`: somebody else does, or the node is gone.
    by: Option<String>,
}

/// A group, or those that start together, that may use booked room.
#[derive(Debug)]
pub(in crate::queue) struct Borrower<'a> {
    pub(in crate::queue) groups: Vec<(GroupId, &'a ObjectName)>,
    pub(in crate::queue) queue: &'a str,
    /// Its end if it starts now; [`Time::MAX`] if that is not known.
    pub(in crate::queue) end: Time,
    /// Whether all of it may be evicted.
    pub(in crate::queue) is_preemptible: bool,
    /// Whether it replaces members that failing nodes took.
    pub(in crate::queue) repairs: bool,
    /// Its members that wait for a place.
    pub(in crate::queue) pods: Vec<&'a Pod>,
}

impl Borrower<'_> {
    /// Whether it is an owner.
    pub(in crate::queue) fn is(&self, owner: &BookingOwner) -> bool {
        let all = |is: &dyn Fn(&Pod) -> bool| {
            !self.pods.is_empty() && self.pods.iter().all(|pod| is(pod))
        };
        match owner {
            BookingOwner::Group(name) => self.groups.iter().any(|(_, own)| *own == name),
            BookingOwner::Queue(queue) => self.queue == queue,
            BookingOwner::Repairs { queue } => {
                self.repairs && queue.as_ref().is_none_or(|own| self.queue == own)
            }
            BookingOwner::Pod(name) => all(&|pod| pod.full_name() == *name),
            BookingOwner::Pods { namespace, selector } => all(&|pod| {
                namespace.as_ref().is_none_or(|own| pod.namespace() == own)
                    && selector.matches(&pod.shape().labels)
            }),
        }
    }
}

/// A step of a booking that the driver follows.
#[derive(Debug)]
pub(in crate::queue) struct BookingStep {
    pub(in crate::queue) name: String,
    pub(in crate::queue) change: Option<BookingChange>,
    /// Nodes on which something else is kept now.
    pub(in crate::queue) nodes: Vec<String>,
    /// Owners that may find room now.
    pub(in crate::queue) owners: Vec<BookingOwner>,
    /// Groups that are to leave the nodes after them, so that the window can begin. The second list,
    /// borrowers of any booking, counts if nobody of the first is there.
    pub(in crate::queue) lent: [Vec<GroupId>; 2],
    pub(in crate::queue) lent_nodes: BTreeSet<String>,
}

impl BookingStep {
    pub(super) fn new(name: &str, change: Option<BookingChange>) -> BookingStep {
        let (nodes, owners, lent) = (Vec::new(), Vec::new(), [Vec::new(), Vec::new()]);
        let lent_nodes = BTreeSet::new();
        BookingStep { name: name.into(), change, nodes, owners, lent, lent_nodes }
    }
}

impl Booked {
    /// A booking before its room has a place. The room is no group of the cluster.
    pub(super) fn new(mut booking: Booking) -> Booked {
        set_apart(&mut booking.room);
        let (pods, out, lent) = (BTreeMap::new(), Vec::new(), BTreeSet::new());
        let (begun, used, failures, next) = (false, false, 0, Time::ZERO);
        Booked { booking, begun, used, pods, out, lent, failures, next }
    }

    /// Number of pods whose room an owner uses.
    pub(super) fn taken(&self) -> usize {
        self.out.iter().filter(|own| own.by.is_some()).count()
    }

    fn owns(&self, who: &Borrower<'_>) -> bool {
        self.booking.owners.iter().any(|owner| who.is(owner))
    }

    /// Whether a group may use the room now.
    pub(super) fn lets(&self, who: &Borrower<'_>) -> bool {
        if self.begun {
            return self.owns(who);
        }
        who.end <= self.booking.from || self.booking.lends && who.is_preemptible
    }

    /// Puts room back of which placeholders were taken out, but for the room that a plan uses.
    pub(super) fn close(
        &mut self,
        world: &mut World,
        standing: Standing,
        (who, plan): (&Borrower<'_>, &Plan),
        counted: &mut BTreeSet<String>,
    ) -> Standing {
        let mut left: Vec<Option<(Pod, String)>> = standing.into_iter().map(Some).collect();
        if self.owns(who) {
            for to in plan.assignments() {
                let pod = full_name(to.pod());
                let on_node = |own: &&mut Option<(Pod, String)>| {
                    own.as_ref().is_some_and(|(_, node)| node == to.node())
                };
                if counted.contains(&pod) {
                    continue;
                }
                if let Some((placeholder, node)) =
                    left.iter_mut().find(on_node).and_then(Option::take)
                {
                    counted.insert(pod.clone());
                    self.out.push(Out { placeholder, node, by: Some(pod) });
                    self.used |= self.booking.once && self.begun;
                }
            }
        }
        let mut kept = Vec::new();
        let before = self.out.len();
        for (mut placeholder, node) in left.into_iter().flatten() {
            if self.add(world, &mut placeholder, &node) {
                kept.push((placeholder, node));
            } else {
                self.out.push(Out { placeholder, node, by: None });
            }
        }
        if self.out.len() > before && !self.begun {
            self.lent.extend(who.groups.iter().map(|(id, _)| *id));
        }
        kept
    }

    /// Adds a placeholder again if its pod would fit. Returns whether it did.
    fn add(&self, world: &mut World, placeholder: &mut Pod, node: &str) -> bool {
        let Some(pod) = self.pods.get(&placeholder.name) else { return false };
        let suits = world.cluster().node(node).is_some_and(|node| {
            let shape = pod.shape();
            let now = world.now();
            Evaluation::new(world.framework(), world.cluster(), shape, None, now)
                .filter(node)
                .is_ok()
        });
        suits && put_again(world, placeholder, pod.shape())
    }

    /// Begins the window. Returns whether it did so now.
    pub(super) fn begin(&mut self, now: Time) -> bool {
        let begins = !self.begun && self.booking.from <= now;
        self.begun |= begins;
        self.used |= begins && self.booking.once && self.taken() > 0;
        begins
    }

    /// Follows the cluster: placeholders that are gone are room that is not kept.
    pub(super) fn drop_gone(&mut self, world: &mut World, standing: &mut Standing) {
        let is_there = |world: &World, pod: &Pod, node: &str| {
            let own = world.cluster().pod(pod.namespace(), &pod.name);
            own.and_then(crate::state::PodView::node).is_some_and(|at| at.name() == node)
        };
        for (placeholder, node) in core::mem::take(standing) {
            if is_there(world, &placeholder, &node) {
                standing.push((placeholder, node));
            } else {
                let _ = world.remove_pod(placeholder.namespace(), &placeholder.name);
                self.out.push(Out { placeholder, node, by: None });
            }
        }
    }

    /// Keeps room again that owners gave up, or else room that is with others, where it is free.
    /// Returns its nodes.
    pub(super) fn keep_again(
        &mut self,
        world: &mut World,
        standing: &mut Standing,
        of_owners: bool,
    ) -> Vec<String> {
        let mut nodes = Vec::new();
        for mut own in core::mem::take(&mut self.out) {
            let split = own.by.as_deref().and_then(|name| name.split_once('/'));
            let is_used =
                split.is_some_and(|(space, name)| world.cluster().pod(space, name).is_some());
            if is_used || own.by.is_some() != of_owners {
                self.out.push(own);
            } else if self.add(world, &mut own.placeholder, &own.node) {
                nodes.push(own.node.clone());
                standing.push((own.placeholder, own.node));
            } else {
                own.by = None;
                self.out.push(own);
            }
        }
        nodes
    }

    /// The place of the whole room, if it is to be searched and there is one. No room is kept, and no
    /// owner uses any.
    pub(super) fn search(&mut self, world: &mut World) -> Option<Plan> {
        let now = world.now();
        if now < self.next {
            return None;
        }
        let request = world.request(&self.booking.room, None, now);
        let found = world.place(request);
        if let Ok(crate::place::Outcome::Placed(plan)) = found
            && !plan.is_empty()
        {
            self.failures = 0;
            self.out.clear();
            return Some(plan);
        }
        self.failures = self.failures.saturating_add(1);
        self.next = now.after(world.settings().backoff.after(self.failures));
        None
    }

    /// The time of the next search for a place, if the last one found none.
    pub(super) fn next_search(&self) -> Option<Time> {
        (self.failures > 0).then_some(self.next)
    }

    /// The room has a place: placeholders stand for its pods, in their order.
    pub(super) fn placed(&mut self, placeholders: &Standing, plan: &Plan) {
        self.pods.clear();
        for (at, to) in plan.assignments().enumerate() {
            let stands = placeholders.iter().find(|(own, _)| {
                own.name.rsplit_once('-').is_some_and(|(_, own)| own.parse() == Ok(at))
            });
            if let Some((placeholder, _)) = stands {
                self.pods.insert(placeholder.name.clone(), to.pod().clone());
            }
        }
    }

    /// Groups that have borrowed room since all of it was kept for the last time.
    pub(super) fn borrowers(&self) -> &BTreeSet<GroupId> {
        &self.lent
    }

    /// Nobody has room of it any more, nor of any other booking.
    pub(super) fn forget_borrowers(&mut self) {
        self.lent.clear();
    }

    /// Nodes with room that is neither kept nor with an owner.
    pub(super) fn nodes_of_missing(&self) -> BTreeSet<String> {
        let missing = self.out.iter().filter(|own| own.by.is_none());
        missing.map(|own| own.node.clone()).collect()
    }
}

/// Puts a room into the namespace of placeholders, so that it is no group of the cluster.
fn set_apart(group: &mut PodGroup) {
    group.namespace = RESERVED_NAMESPACE.into();
    group.gang_group.clear();
    for pod in &mut group.pods {
        pod.shape_mut().namespace = RESERVED_NAMESPACE.into();
        pod.node = None;
    }
    group.groups.iter_mut().for_each(set_apart);
}
