//! The assembly of pods and groups into manifests, once everything is read.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::cmp::Reverse;

use super::assembly::{Assembly, Identity, Leaf, Located, expand, fault};
use super::claimed;
use super::devices::Ask;
use super::error::Error;
use super::field::Note;
use super::groups::{GroupObject, QUEUE_NAME};
use super::koordinator;
use super::manifests::Manifests;
use super::membership::{InlineGang, Membership};
use super::mode::Mode;
use super::objects::Objects;
use super::topologies::Topologies;
use super::tree;
use crate::base::hash::FixedMap;
use crate::model::{PodGroup, PodShape, Problem, ZonePart};

/// Manifests of all objects that were read.
pub(super) fn assemble(objects: Objects) -> Result<Manifests, Error> {
    let sources = objects.sources.clone();
    run(objects).map_err(|(source, error)| Error::Object {
        source_name: sources.get(source as usize).cloned().unwrap_or_default(),
        error,
    })
}

fn run(mut objects: Objects) -> Located<Manifests> {
    let strict = objects.mode == Mode::AsWritten;
    let workloads = expand(&mut objects)?;
    resolve_priorities(&mut objects, strict)?;
    objects.owners.apply(&mut objects.pods);
    withhold(&mut objects);
    objects.topologies.settle(&mut objects.nodes);
    objects.groups.iter_mut().for_each(|group| group.settle(&objects.topologies));
    let levels = objects.topologies.cluster_levels().to_vec();
    claimed::settle(&mut objects.pods, &objects.groups, &mut objects.claims, &mut objects.storage);
    let pods = objects.pods.iter();
    objects.cards.share(pods.map(|record| (&record.pod, &*record.asks)));
    objects.cards.settle(&mut objects.nodes);
    ask_for_cards(&mut objects);
    align(&mut objects);
    let mut assembly = Assembly {
        strict,
        pods: objects.pods,
        objects: objects.groups,
        index: BTreeMap::new(),
        leaves: Vec::new(),
        notes: objects.notes,
        missing: BTreeSet::new(),
    };
    for (at, object) in assembly.objects.iter().enumerate() {
        assembly.index.insert(identity(object), at);
    }
    let lone = assembly.sort_pods()?;
    assembly.check_gang_groups()?;
    let trees = tree::build(&mut assembly)?;
    let mut manifests = assembly.manifests(lone, trees, &objects.topologies);
    manifests.workloads = workloads;
    manifests.levels = levels;
    manifests.devices = objects.cards.into_nodes();
    manifests.nodes = objects.nodes;
    manifests.storage = objects.storage.objects.into_values().collect();
    for fault in objects.claims.faults() {
        let (object, text) = fault.split_once(": ").unwrap_or(("", fault));
        manifests.notes.push(Note { object: object.into(), text: text.into() });
    }
    manifests.claims = objects.claims.into_objects();
    manifests.namespaces = objects.namespaces;
    manifests.ignored = objects.ignored;
    Ok(manifests)
}

fn identity(object: &GroupObject) -> Identity {
    (object.family, object.composite(), object.namespace.clone(), object.name.clone())
}

/// Makes device requests of what pods ask of single cards, once for each shape, and gives those that
/// run the cards that they hold. A node takes no more pods if cards are held there that are not known.
fn ask_for_cards(objects: &mut Objects) {
    let mut done: FixedMap<usize, Result<Arc<PodShape>, String>> = FixedMap::default();
    // Shapes that were replaced stay alive until the end, so that no address is used twice.
    let mut replaced = Vec::new();
    let mut closed = BTreeSet::new();
    for record in objects.pods.iter_mut().filter(|record| !record.asks.is_empty()) {
        if objects.cards.is_reservation(&record.pod) {
            continue;
        }
        let shape = record.pod.shape().clone();
        let address = Arc::as_ptr(&shape) as usize;
        let cards = &objects.cards;
        let make = || cards.shape(&shape, &record.asks).map(Arc::new);
        let new = if record.asks.iter().any(Ask::is_annotated) {
            make()
        } else {
            done.entry(address).or_insert_with(make).clone()
        };
        replaced.push(shape);
        match new {
            Ok(shape) => record.pod = core::mem::take(&mut record.pod).with_shape(shape),
            Err(reason) => record.pod.scheduling_gates.push(reason),
        }
        let Some(node) = &record.pod.node else { continue };
        if !record.pod.shape().devices.is_empty() {
            match cards.indexes(&record.pod, record.held.as_deref()) {
                Some(indexes) => record.pod.device_indexes = indexes,
                None => {
                    closed.insert(node.clone());
                }
            }
        }
    }
    for node in objects.nodes.iter_mut().filter(|node| closed.contains(&node.name)) {
        node.unschedulable = true;
        let text = String::from("takes no pods: which cards its pods hold is not known");
        objects.notes.push(Note { object: format!("node {}", node.name), text });
    }
}

/// Adds what nodes with NUMA zones align to the shapes of pods, once for each shape and list of
/// containers. Pods that run have it for the case that they move.
fn align(objects: &mut Objects) {
    let mut done: BTreeMap<(usize, Vec<ZonePart>), Option<Arc<PodShape>>> = BTreeMap::new();
    let mut replaced = Vec::new();
    for record in &mut objects.pods {
        if record.parts.is_empty() {
            continue;
        }
        let shape = record.pod.shape().clone();
        let key = (Arc::as_ptr(&shape) as usize, core::mem::take(&mut record.parts));
        let cards = &objects.cards;
        let aligned = if let Some(aligned) = done.get(&key) {
            aligned.clone()
        } else {
            let aligned = cards.aligned(&shape, &key.1).map(Arc::new);
            done.insert(key, aligned.clone());
            aligned
        };
        replaced.push(shape);
        if let Some(shape) = aligned {
            record.pod = core::mem::take(&mut record.pod).with_shape(shape);
        }
    }
}

/// Leaves alone what other objects say something of that is not in force.
fn withhold(objects: &mut Objects) {
    if objects.withheld.is_empty() {
        return;
    }
    for group in &mut objects.groups {
        let local = group.local_queue.as_deref();
        let reasons = objects.withheld.of_queue(&group.namespace, &group.queue, local);
        group.refused.extend(reasons.cloned());
    }
    for record in objects.pods.iter_mut().filter(|record| record.pod.node.is_none()) {
        let shape = record.pod.shape().clone();
        let label = |name: &str| shape.labels.get(name).map(String::as_str);
        let queue = label("kai.scheduler/queue").unwrap_or("");
        let reasons = objects.withheld.of_pod(&shape.namespace, queue, label(QUEUE_NAME));
        record.pod.scheduling_gates.extend(reasons.cloned());
    }
}

fn resolve_priorities(objects: &mut Objects, strict: bool) -> Located<()> {
    for record in &mut objects.pods {
        record.pod.priority = if strict {
            let running = record.pod.node.is_some();
            objects
                .classes
                .resolve(record.priority, record.priority_class.as_deref(), running)
                .map_err(|(field, problem)| fault(record, &format!("spec.{field}"), problem))?
        } else {
            record.priority.unwrap_or(0)
        };
        if let Some(limits) = record.limits.take() {
            record.pod = core::mem::take(&mut record.pod).in_band(&limits);
        }
    }
    for group in &mut objects.groups {
        if group.priority.is_none() && group.priority_class.is_none() {
            continue;
        }
        let class = group.priority_class.as_deref();
        group.priority = if strict {
            let resolved = objects.classes.resolve(group.priority, class, false);
            Some(resolved.map_err(|(field, problem)| {
                let is_class = field == "priorityClassName";
                let field = if is_class { group.class_field } else { "spec.priority" };
                (group.source, group.fail(field, problem))
            })?)
        } else {
            group.priority.or_else(|| objects.classes.value(class?))
        };
    }
    Ok(())
}

impl Assembly {
    /// Refuses gang groups of gangs that do not exist.
    fn check_gang_groups(&self) -> Located<()> {
        for object in self.objects.iter().filter(|_| self.strict) {
            for name in &object.gang_group {
                let (namespace, own) = (name.namespace().into(), name.name().into());
                let identity = (object.family, false, namespace, own);
                if !self.index.contains_key(&identity) {
                    let field = "metadata.annotations[gang.scheduling.koordinator.sh/groups]";
                    let error = object.fail(field, Problem::Unknown(String::from(name.as_str())));
                    return Err((object.source, error));
                }
            }
        }
        Ok(())
    }

    /// Sorts pods into leaves; answers with those that wait and are in no group.
    fn sort_pods(&mut self) -> Located<Vec<usize>> {
        let mut lone = Vec::new();
        let mut leaf_index: BTreeMap<(usize, String, Option<String>), usize> = BTreeMap::new();
        // The pod that first described a gang, by the gang's object.
        let mut described: BTreeMap<usize, usize> = BTreeMap::new();
        for at in 0..self.pods.len() {
            let bound = self.pods[at].pod.node.is_some();
            let Some(membership) = self.pods[at].membership.take() else {
                if !bound {
                    lone.push(at);
                }
                continue;
            };
            let Some(object) = self.object_of(at, &membership, bound, &mut described)? else {
                self.pods[at].pod.group = Some(membership.group);
                continue;
            };
            let role = match &self.objects[object].subgroups {
                Some(own) => own.of(&self.pods[at].pod.shape().labels),
                None => membership.role.clone().filter(|_| self.objects[object].has_roles()),
            };
            let leaf = *leaf_index
                .entry((object, membership.group.clone(), role.clone()))
                .or_insert_with(|| {
                    let name = membership.group;
                    self.leaves.push(Leaf {
                        object,
                        name,
                        role,
                        pending: Vec::new(),
                        bound: Vec::new(),
                    });
                    self.leaves.len() - 1
                });
            let asked = &self.objects[object];
            if let (true, Some(wish)) =
                (asked.wish.is_none() && asked.role_wishes.is_empty(), &self.pods[at].wish)
            {
                let reason = wish.fault("its group does not ask it");
                self.pods[at].pod.scheduling_gates.push(reason);
            }
            let leaf = &mut self.leaves[leaf];
            if bound { leaf.bound.push(at) } else { leaf.pending.push(at) }
        }
        Ok(lone)
    }

    /// The object of the group that a pod names. `None` for a running pod whose group is gone.
    fn object_of(
        &mut self,
        at: usize,
        membership: &Membership,
        bound: bool,
        described: &mut BTreeMap<usize, usize>,
    ) -> Located<Option<usize>> {
        let record = &self.pods[at];
        let namespace = String::from(record.pod.namespace());
        let identity = (membership.family, false, namespace, membership.object.clone());
        let known = self.index.get(&identity).copied();
        if let (Some(inline), None) = (&membership.inline, known) {
            let object = self.describe(at, &identity, inline);
            described.insert(object, at);
            return Ok(Some(object));
        }
        if let (Some(object), Some(inline)) = (known, &membership.inline)
            && self.strict
            && let Some(first) = described.get(&object)
            && self.objects[object].differs_from(inline)
        {
            let first = &self.pods[*first].pod;
            let text = format!(
                "describes the gang otherwise than pod {}/{} does",
                first.namespace(),
                first.name
            );
            return Err(fault(record, membership.field, Problem::Invalid(text)));
        }
        match known {
            Some(object) => Ok(Some(object)),
            None if bound => Ok(None),
            None if self.strict => {
                let problem = Problem::Unknown(membership.object.clone());
                Err(fault(record, membership.field, problem))
            }
            None => {
                let label = format!("pod group {}/{}", identity.2, identity.3);
                let (family, _, namespace, name) = identity.clone();
                let mut object = GroupObject::new(family, namespace, name, label);
                (object.source, object.order) = (record.source, record.order);
                self.missing.insert(self.objects.len());
                self.index.insert(identity, self.objects.len());
                self.objects.push(object);
                Ok(Some(self.objects.len() - 1))
            }
        }
    }

    /// Makes the object of a gang that its pods describe.
    fn describe(&mut self, at: usize, identity: &Identity, inline: &InlineGang) -> usize {
        let record = &self.pods[at];
        let (family, _, namespace, name) = identity.clone();
        let label = format!("gang {namespace}/{name}");
        let mut object = GroupObject::new(family, namespace, name, label);
        (object.source, object.order) = (record.source, record.order);
        object.describe(inline);
        self.index.insert(identity.clone(), self.objects.len());
        self.objects.push(object);
        self.objects.len() - 1
    }

    fn manifests(
        self,
        lone: Vec<usize>,
        trees: Vec<(u64, PodGroup)>,
        topologies: &Topologies,
    ) -> Manifests {
        let mut groups = trees;
        for at in lone {
            let record = &self.pods[at];
            let mut group = PodGroup::basic(record.pod.name.clone())
                .in_namespace(record.pod.namespace())
                .priority(record.pod.priority)
                .pod(record.pod.clone());
            match record.wish.as_deref().map(|wish| topologies.request(wish)) {
                Some(Ok(request)) => group.topology = request,
                Some(Err(reason)) => group.pods[0].scheduling_gates.push(reason),
                None => {}
            }
            groups.push((record.order, group));
        }
        for (_, group) in &mut groups {
            koordinator::take_quota(group);
        }
        groups.sort_by_key(|(order, group)| (Reverse(group.priority), *order));
        let bound = self.pods.into_iter().map(|record| record.pod);
        Manifests {
            bound: bound.filter(|pod| pod.node.is_some()).collect(),
            groups: groups.into_iter().map(|(_, group)| group).collect(),
            notes: self.notes,
            ..Manifests::default()
        }
    }
}
