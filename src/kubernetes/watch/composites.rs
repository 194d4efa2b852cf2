//! Composite groups of a store: trees, which the scheduler is shown whole.

use alloc::borrow::ToOwned;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use super::entries::{GroupKey, PodEntry};
use super::store::Store;
use super::trees::{Place, Tree, parent_of};
use super::update::Update;
use crate::kubernetes::groups::GroupObject;
use crate::kubernetes::membership::Family;
use crate::kubernetes::tree::MAX_LEVELS;
use crate::model::PodGroup;

impl Store {
    /// The place of a group among trees.
    pub(super) fn place(&self, key: &GroupKey) -> Place {
        let mut top = key.clone();
        for _ in 0..MAX_LEVELS {
            let Some(object) = self.objects.get(&top) else {
                return if top == *key { Place::Alone } else { Place::Waits };
            };
            match parent_of(object) {
                Some(parent) => top = parent,
                None if top.family == Family::Composite => return Place::In(top),
                None => return Place::Alone,
            }
        }
        Place::Unsound
    }

    /// Shows the scheduler the trees that a composite group is in, or the groups below it were.
    pub(super) fn refresh_composite(&mut self, key: &GroupKey, updates: &mut Vec<Update>) {
        let place = self.place(key);
        if let Place::In(root) = &place {
            self.refresh_tree(root, updates);
        }
        let mut leaves = Vec::new();
        self.trees.leaves_below(key, 1, &mut leaves);
        for leaf in leaves {
            let instance = self.instances.get(&leaf);
            let root = instance.and_then(|instance| instance.root.clone());
            if root.is_none_or(|root| Place::In(root) != place) {
                self.refresh(&leaf, updates);
            }
        }
    }

    /// Shows the scheduler a group of pods in its tree; false if it is in none and was in none.
    pub(super) fn refresh_in_tree(&mut self, key: &GroupKey, updates: &mut Vec<Update>) -> bool {
        let place = self.place(key);
        let was = self.instances.get(key).and_then(|instance| instance.root.clone());
        if let Some(root) = was
            && Place::In(root.clone()) != place
        {
            self.refresh_tree(&root, updates);
        }
        let refusal = match place {
            Place::Alone => return false,
            Place::In(root) => {
                self.refresh_tree(&root, updates);
                return true;
            }
            Place::Waits => self.unserved_reason(Family::Composite),
            Place::Unsound => {
                Some(format!("its tree of groups has a circle, or more than {MAX_LEVELS} levels"))
            }
        };
        self.stand_alone_no_more(key, updates);
        self.set_refusal(key, refusal, updates);
        true
    }

    /// Shows the scheduler a tree as it is now, unless it knows it so.
    pub(super) fn refresh_tree(&mut self, root: &GroupKey, updates: &mut Vec<Update>) {
        let new = self.tree(root);
        let old = self.trees.shown.remove(root);
        let is_gone =
            |leaf: &&GroupKey| new.as_ref().is_none_or(|new| !new.leaves.contains_key(*leaf));
        let gone = old.iter().flat_map(|old| old.leaves.keys()).filter(is_gone);
        let gone: Vec<GroupKey> = gone.cloned().collect();
        for leaf in new.iter().flat_map(|new| new.leaves.keys()) {
            self.stand_alone_no_more(leaf, updates);
        }
        match (&old, &new) {
            (Some(old), None) => {
                updates.push(Update::GroupRemoved { group: old.frame.full_name() });
            }
            (_, Some(new)) if old.as_ref().is_none_or(|old| old.frame != new.frame) => {
                updates.push(Update::Group(new.frame.clone()));
            }
            _ => {}
        }
        for leaf in gone {
            let Some(instance) = self.instances.get_mut(&leaf) else { continue };
            (instance.root, instance.shown, instance.refusal) = (None, None, None);
            self.hide_members(&leaf, updates);
        }
        let Some(new) = new else { return };
        for (leaf, frame) in &new.leaves {
            let Some(instance) = self.instances.get_mut(leaf) else { continue };
            let refusal = new.refusal.clone();
            let is_same = instance.root.as_ref() == Some(root)
                && instance.shown.as_ref() == Some(frame)
                && instance.refusal == refusal
                && instance.preemption == new.preemption;
            instance.preemption = new.preemption;
            instance.root = Some(root.clone());
            instance.shown = Some(frame.clone());
            instance.refusal = refusal;
            if instance.members.is_empty() {
                self.instances.remove(leaf);
            } else if !is_same {
                self.show_members(leaf, updates);
            }
        }
        self.trees.shown.insert(root.clone(), new);
    }

    /// Removes a group that the scheduler knows as a root of its own.
    fn stand_alone_no_more(&mut self, key: &GroupKey, updates: &mut Vec<Update>) {
        let Some(instance) = self.instances.get_mut(key) else { return };
        if instance.root.is_none()
            && let Some(shown) = instance.shown.take()
        {
            instance.refusal = None;
            updates.push(Update::GroupRemoved { group: shown.full_name() });
            self.hide_members(key, updates);
        }
    }

    /// Leaves a group alone that the scheduler does not know, or waits for what describes it.
    fn set_refusal(&mut self, key: &GroupKey, refusal: Option<String>, updates: &mut Vec<Update>) {
        let Some(instance) = self.instances.get_mut(key) else { return };
        if instance.members.is_empty() {
            self.instances.remove(key);
        } else if instance.refusal != refusal {
            instance.refusal = refusal;
            self.show_members(key, updates);
        }
    }

    fn hide_members(&mut self, key: &GroupKey, updates: &mut Vec<Update>) {
        let Some(instance) = self.instances.get(key) else { return };
        for pod in &instance.members {
            self.pods.get_mut(pod).into_iter().for_each(PodEntry::hide);
        }
        if instance.members.is_empty() {
            self.instances.remove(key);
        }
        self.show_members(key, updates);
    }

    fn show_members(&mut self, key: &GroupKey, updates: &mut Vec<Update>) {
        let Some(instance) = self.instances.get(key) else { return };
        for pod in instance.members.iter().cloned().collect::<Vec<_>>() {
            self.show(&pod, updates);
        }
    }

    /// A tree as its objects describe it; `None` if it has no pods for the scheduler, or its root is
    /// none.
    fn tree(&self, root: &GroupKey) -> Option<Tree> {
        if self.place(root) != Place::In(root.clone()) {
            return None;
        }
        let mut parts = Vec::new();
        let mut frame = self.part(root, 1, &mut parts)?;
        let instances: Vec<_> = parts.iter().filter_map(|key| self.instances.get(key)).collect();
        if instances.iter().all(|instance| instance.ours == 0) {
            return None;
        }
        let objects: Vec<_> = parts.iter().filter_map(|key| self.settled(key)).collect();
        let stated = objects.iter().find_map(|object| {
            let class = object.priority_class.as_deref();
            object.priority.or_else(|| self.classes.value(class?))
        });
        let members = instances.iter().filter_map(|instance| instance.priorities.last_key_value());
        let highest = members.map(|(priority, _)| *priority).max();
        let label =
            objects.first().and_then(|object| object.local_queue.as_deref()).or_else(|| {
                let first = instances.iter().find_map(|instance| instance.members.first())?;
                self.pods.get(first)?.local_queue.as_deref()
            });
        let queue = self.queue_of(&root.namespace, label, &frame.queue);
        let mut policies = objects.iter().filter_map(|object| object.preemption);
        let preemption = policies.next();
        let disagree = policies.any(|policy| Some(policy) != preemption);
        let refusal = objects.iter().find(|object| !object.refused.is_empty());
        let refusal = refusal.map(|object| object.refused.join("; "));
        let refusal = refusal.or_else(|| {
            let text = "groups of a tree disagree on preemptionPolicy";
            disagree.then(|| text.to_owned())
        });
        let refusal = refusal.or_else(|| queue.as_ref().err().cloned());
        agree(&mut frame, stated.or(highest).unwrap_or(0), &queue.unwrap_or_default());
        let mut leaves = BTreeMap::new();
        for key in parts.iter().filter(|key| key.family != Family::Composite) {
            let name = key.group_name();
            frame.visit(&mut |part| {
                if part.groups.is_empty() && part.name == name {
                    leaves.insert(key.clone(), part.clone());
                }
            });
        }
        Some(Tree { frame, leaves, refusal, preemption })
    }

    /// An object as it counts where no topologies of other dialects are known.
    fn settled(&self, key: &GroupKey) -> Option<GroupObject> {
        let mut object = self.objects.get(key)?.clone();
        object.settle(&self.topologies);
        Some(object)
    }

    /// A group with those inside; `None` for a composite group that has none.
    fn part(&self, key: &GroupKey, level: usize, parts: &mut Vec<GroupKey>) -> Option<PodGroup> {
        let object = self.settled(key).filter(|_| level <= MAX_LEVELS)?;
        let mut frame = object.frame();
        frame.name = key.group_name();
        parts.push(key.clone());
        if key.family == Family::Composite {
            let children = self.trees.children(key);
            let inner = children.filter_map(|child| self.part(child, level + 1, parts));
            frame.groups = inner.collect();
            if frame.groups.is_empty() {
                return None;
            }
        }
        Some(frame)
    }
}

/// Gives all groups of a tree one priority and one queue.
fn agree(group: &mut PodGroup, priority: i32, queue: &str) {
    group.priority = priority;
    queue.clone_into(&mut group.queue);
    for inner in &mut group.groups {
        agree(inner, priority, queue);
    }
}
