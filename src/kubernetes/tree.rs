//! Trees of groups: parents, roles, and fields that their members must agree on.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec;
use alloc::vec::Vec;

use super::assembly::{Assembly, Located, fault};
use super::field::Note;
use super::groups::Nature;
use super::membership::Family;
use crate::base::clip::clip;
use crate::model::{GroupPolicy, PodGroup, PreemptionPolicy, Problem};

/// The deepest tree of groups, pods not counted.
pub(super) const MAX_LEVELS: usize = 4;

const NO_SUBGROUP: &str =
    "/spec/subGroupPolicy is not in force: a pod of the group is in none of its subgroups";

/// The groups that wait, each with its place in the input.
pub(super) fn build(assembly: &mut Assembly) -> Located<Vec<(u64, PodGroup)>> {
    let parents = assembly.parents()?;
    let mut children: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for (child, parent) in &parents {
        if let Ok(Some(parent)) = parent {
            children.entry(*parent).or_default().push(*child);
        }
    }
    let mut leaves: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for (at, leaf) in assembly.leaves.iter().enumerate() {
        leaves.entry(leaf.object).or_default().push(at);
    }
    let mut trees = Vec::new();
    let mut forest = Forest { assembly, children, leaves };
    for (object, parent) in parents {
        forest.note_empty(object);
        match parent {
            Ok(None) => forest.root(object, None, &mut trees)?,
            Ok(Some(_)) => {}
            Err(reason) => forest.root(object, Some(&reason), &mut trees)?,
        }
    }
    Ok(trees)
}

impl Assembly {
    /// The parent of each group that is in force, or why the group is parked.
    fn parents(&self) -> Located<BTreeMap<usize, Result<Option<usize>, String>>> {
        let mut parents = BTreeMap::new();
        for &at in self.index.values() {
            let object = &self.objects[at];
            let verdict = match self.ancestry(at) {
                Ok(parent) if self.missing.contains(&at) => {
                    debug_assert!(parent.is_none());
                    Err(format!("the group {:?} does not exist", clip(&object.name)))
                }
                Ok(parent) => {
                    self.check_parent(at, parent)?;
                    Ok(parent)
                }
                Err(problem) if self.strict => {
                    let error = object.fail("spec.parentCompositePodGroupName", problem);
                    return Err((object.source, error));
                }
                Err(problem) => Err(format!("its parent group: {problem}")),
            };
            parents.insert(at, verdict);
        }
        Ok(parents)
    }

    fn parent_of(&self, at: usize) -> Option<Result<usize, Problem>> {
        let object = &self.objects[at];
        let parent = object.parent.as_ref()?;
        let identity = (object.family, true, object.namespace.clone(), parent.clone());
        Some(self.index.get(&identity).copied().ok_or_else(|| Problem::Unknown(parent.clone())))
    }

    /// The parent of a group, once all above it are sound.
    fn ancestry(&self, at: usize) -> Result<Option<usize>, Problem> {
        let mut above = vec![at];
        let mut top = at;
        while let Some(parent) = self.parent_of(top) {
            top = parent?;
            if above.contains(&top) {
                return Err(Problem::Invalid("makes the group its own ancestor".to_string()));
            }
            above.push(top);
            if above.len() > MAX_LEVELS {
                let text = format!("makes a tree of more than {MAX_LEVELS} levels");
                return Err(Problem::Invalid(text));
            }
        }
        Ok(above.get(1).copied())
    }

    /// An `all` parent may have only `all` children.
    fn check_parent(&self, at: usize, parent: Option<usize>) -> Located<()> {
        use crate::model::DisruptionMode::{All, Single};
        let object = &self.objects[at];
        if let Some(parent) = parent
            && self.strict
            && self.objects[parent].disruption == All
            && object.disruption == Single
        {
            let text = format!("must be all, as that of {} is", self.objects[parent].label);
            let error = object.fail("spec.disruptionMode", Problem::Invalid(text));
            return Err((object.source, error));
        }
        Ok(())
    }
}

struct Forest<'a> {
    assembly: &'a mut Assembly,
    children: BTreeMap<usize, Vec<usize>>,
    leaves: BTreeMap<usize, Vec<usize>>,
}

impl Forest<'_> {
    /// Adds the trees of a root: one, or one for each replica of a group of 1.35.
    fn root(
        &mut self,
        object: usize,
        parked: Option<&str>,
        trees: &mut Vec<(u64, PodGroup)>,
    ) -> Located<()> {
        let mut objects = Vec::new();
        self.subtree(object, &mut objects);
        let own = self.leaves.get(&object).cloned().unwrap_or_default();
        if self.assembly.objects[object].family == Family::Workload {
            for leaf in own {
                self.tree(object, &[object], &[leaf], parked, trees)?;
            }
            return Ok(());
        }
        let leaves: Vec<usize> = objects
            .iter()
            .flat_map(|o| self.leaves.get(o).into_iter().flatten().copied())
            .collect();
        self.tree(object, &objects, &leaves, parked, trees)
    }

    /// Tells of a group that no pod names.
    fn note_empty(&mut self, at: usize) {
        let object = &self.assembly.objects[at];
        if !matches!(object.nature, Nature::Groups | Nature::BegunJob)
            && !self.leaves.contains_key(&at)
        {
            let text = "no pod is a member of it".to_string();
            self.assembly.notes.push(Note { object: object.label.clone(), text });
        }
    }

    fn subtree(&self, object: usize, into: &mut Vec<usize>) {
        into.push(object);
        for child in self.children.get(&object).into_iter().flatten() {
            self.subtree(*child, into);
        }
    }

    /// Adds one tree, unless nothing in it waits.
    fn tree(
        &mut self,
        root: usize,
        objects: &[usize],
        leaves: &[usize],
        parked: Option<&str>,
        trees: &mut Vec<(u64, PodGroup)>,
    ) -> Located<()> {
        let mut reasons: Vec<String> = parked.map(String::from).into_iter().collect();
        reasons.extend(self.agree(objects, leaves)?);
        let refused = objects.iter().flat_map(|at| self.assembly.objects[*at].refused.iter());
        reasons.extend(refused.cloned());
        self.roles_say(root, leaves, &mut reasons)?;
        let pending = leaves.iter().flat_map(|leaf| &self.assembly.leaves[*leaf].pending);
        let Some(first_pod) = pending.map(|at| self.assembly.pods[*at].order).min() else {
            self.name_bound(root, leaves);
            return Ok(());
        };
        for reason in &reasons {
            let object = self.assembly.objects[root].label.clone();
            self.assembly.notes.push(Note { object, text: reason.clone() });
        }
        let first_object = objects.iter().map(|at| self.assembly.objects[*at].order).min();
        let order = first_object.map_or(first_pod, |first| first.min(first_pod));
        self.name_bound(root, leaves);
        let Some(mut group) = self.group(root, leaves, &reasons) else { return Ok(()) };
        let explicit = objects.iter().find_map(|at| self.assembly.objects[*at].priority);
        let highest = group.all_pods().iter().map(|pod| pod.priority).max();
        set_priority(&mut group, explicit.or(highest).unwrap_or(0));
        if let Some(policy) = objects.iter().find_map(|at| self.assembly.objects[*at].preemption) {
            set_preemption(&mut group, policy);
        }
        group.check().map_err(|error| (self.assembly.objects[root].source, error))?;
        trees.push((order, group));
        Ok(())
    }

    /// The group of an object, with the groups inside; `None` if nothing in it waits.
    fn group(&mut self, at: usize, leaves: &[usize], reasons: &[String]) -> Option<PodGroup> {
        let mut group = self.assembly.objects[at].frame();
        if !self.assembly.objects[at].composite() {
            let own = if self.assembly.objects[at].family == Family::Workload {
                leaves.to_vec()
            } else {
                self.leaves.get(&at).cloned().unwrap_or_default()
            };
            return self.leaf_group(group, &own, reasons);
        }
        let mut satisfied = 0;
        for child in self.children.get(&at).cloned().unwrap_or_default() {
            match self.group(child, leaves, reasons) {
                Some(inner) => group.groups.push(inner),
                None if self.satisfied(child) => satisfied += 1,
                None => {}
            }
        }
        if group.groups.is_empty() {
            return None;
        }
        reduce(&mut group.policy, satisfied);
        Some(group)
    }

    /// A group of pods, or of the roles among them.
    fn leaf_group(
        &mut self,
        mut group: PodGroup,
        leaves: &[usize],
        reasons: &[String],
    ) -> Option<PodGroup> {
        let in_roles = leaves.iter().any(|leaf| self.assembly.leaves[*leaf].role.is_some());
        if !in_roles || !reasons.is_empty() {
            if let Some(leaf) = leaves.first() {
                group.name.clone_from(&self.assembly.leaves[*leaf].name);
            }
            let pending: Vec<usize> =
                leaves.iter().flat_map(|l| self.assembly.leaves[*l].pending.clone()).collect();
            self.fill(&mut group, &pending, reasons);
            return (!group.pods.is_empty()).then_some(group);
        }
        let object = &self.assembly.objects[self.assembly.leaves[*leaves.first()?].object];
        let (minima, later) = (object.roles.clone(), object.later.clone());
        let (leader, topologies) = (object.leader.clone(), object.role_topologies.clone());
        let subgroups = object.subgroups.clone();
        let (required, sum) = match &subgroups {
            Some(own) => (own.least.max(1), 0),
            None => object.required_roles(),
        };
        let wanted = group.policy.minimum();
        group.min_pods = (wanted > sum).then_some(wanted);
        group.policy = GroupPolicy::Gang { min_count: required };
        let mut satisfied = 0;
        for leaf in leaves {
            let leaf = &self.assembly.leaves[*leaf];
            let role = leaf.role.clone().unwrap_or_default();
            let own = subgroups.as_ref().map(|own| own.size);
            let min_count = own.or(minima.get(&role).copied()).unwrap_or(1).max(1);
            let mut inner = PodGroup::gang(format!("{}-{role}", group.name), min_count)
                .in_namespace(&*group.namespace);
            inner.queue.clone_from(&group.queue);
            inner.disruption = group.disruption;
            inner.leader = leader.as_ref() == Some(&role);
            let own = subgroups.as_ref().map(|own| &own.topology);
            if let Some(topology) = own.or(topologies.get(&role)) {
                inner.topology.clone_from(topology);
            }
            let (pending, bound) = (leaf.pending.clone(), leaf.bound.len());
            self.fill(&mut inner, &pending, reasons);
            if !inner.pods.is_empty() {
                group.groups.push(inner);
            } else if bound >= min_count as usize && !later.contains(&role) {
                satisfied += 1;
            }
        }
        reduce(&mut group.policy, satisfied);
        (!group.groups.is_empty()).then_some(group)
    }

    /// Puts pods into a group, by priority and then in the order of the input.
    fn fill(&mut self, group: &mut PodGroup, pending: &[usize], reasons: &[String]) {
        for at in pending {
            let pod = &mut self.assembly.pods[*at].pod;
            pod.group = Some(group.name.clone());
            for reason in reasons {
                if !pod.scheduling_gates.contains(reason) {
                    pod.scheduling_gates.push(reason.clone());
                }
            }
            group.pods.push(pod.clone());
        }
        group.pods.sort_by_key(|pod| core::cmp::Reverse(pod.priority));
    }

    /// Tells running pods the name of their group.
    fn name_bound(&mut self, root: usize, leaves: &[usize]) {
        for leaf in leaves {
            let leaf = &self.assembly.leaves[*leaf];
            let name = match &leaf.role {
                Some(role) => format!("{}-{role}", self.assembly.objects[root].name),
                None => leaf.name.clone(),
            };
            for at in leaf.bound.clone() {
                self.assembly.pods[at].pod.group = Some(name.clone());
            }
        }
    }

    /// Whether what runs of a group is enough.
    fn satisfied(&self, at: usize) -> bool {
        let object = &self.assembly.objects[at];
        let have = if object.composite() {
            let children = self.children.get(&at).into_iter().flatten();
            children.filter(|child| self.satisfied(**child)).count()
        } else {
            let leaves = self.leaves.get(&at).into_iter().flatten();
            leaves.map(|leaf| self.assembly.leaves[*leaf].bound.len()).sum()
        };
        have >= object.policy.minimum() as usize
    }

    /// Refuses role minima that a tree of groups cannot say.
    fn roles_say(&self, root: usize, leaves: &[usize], reasons: &mut Vec<String>) -> Located<()> {
        let object = &self.assembly.objects[root];
        let mut roles = leaves.iter().map(|leaf| &self.assembly.leaves[*leaf].role);
        if object.subgroups.is_some() && roles.any(Option::is_none) {
            reasons.push(NO_SUBGROUP.to_string());
        }
        if !object.has_roles() {
            return Ok(());
        }
        for leaf in leaves.iter().map(|leaf| &self.assembly.leaves[*leaf]) {
            let role = leaf.role.as_deref().unwrap_or("");
            if object.roles.get(role).is_none_or(|min| *min == 0) {
                let text = format!("role {role:?} has no minimum, while others have one");
                if self.assembly.strict {
                    let error = object.fail("spec.minTaskMember", Problem::Invalid(text));
                    return Err((object.source, error));
                }
                reasons.push(text);
            }
        }
        Ok(())
    }

    /// Fields that members must agree on. A disagreement is an error, or parks the group.
    fn agree(&self, objects: &[usize], leaves: &[usize]) -> Located<Option<String>> {
        let assembly = &*self.assembly;
        let Some(object) = objects.first().map(|at| &assembly.objects[*at]) else {
            return Ok(None);
        };
        let members = leaves.iter().flat_map(|leaf| {
            let leaf = &assembly.leaves[*leaf];
            leaf.pending.iter().chain(&leaf.bound)
        });
        let members: Vec<_> = members.map(|at| &assembly.pods[*at]).collect();
        let Some(first) = members.first() else { return Ok(None) };
        let stated = objects.iter().find_map(|at| {
            let object = &assembly.objects[*at];
            Some((object.priority?, &object.label))
        });
        let mut policies = objects.iter().filter_map(|at| {
            let object = &assembly.objects[*at];
            Some((object.preemption?, object))
        });
        let policy = policies.next();
        if let Some((policy, above)) = policy
            && let Some((_, other)) = policies.find(|(own, _)| *own != policy)
        {
            let text = format!("is not that of {}, a group of the same tree", above.label);
            if assembly.strict {
                let error = other.fail("spec.preemptionPolicy", Problem::Invalid(text));
                return Err((other.source, error));
            }
            return Ok(Some("groups of a tree disagree on preemptionPolicy".to_string()));
        }
        for member in &members {
            let (field, problem) = if !object.may_differ()
                && let Some((priority, label)) = stated
                && member.pod.priority != priority
            {
                (
                    "priority",
                    format!("{} is not the {priority} of {}", member.pod.priority, clip(label)),
                )
            } else if !object.may_differ() && member.pod.priority != first.pod.priority {
                let (own, other) = (member.pod.priority, first.pod.priority);
                ("priority", format!("{own} is not the {other} of pod {}", full_name(first)))
            } else if member.scheduler != first.scheduler {
                let text = format!("is not that of pod {}", full_name(first));
                ("schedulerName", format!("{text}, a member of the same group"))
            } else if object.family == Family::Kubernetes
                && policy.is_none()
                && member.preempts != first.preempts
            {
                let text = format!("is not that of pod {}", full_name(first));
                ("preemptionPolicy", format!("{text}, a member of the same group"))
            } else {
                continue;
            };
            let pair = object.nature == Nature::LabelPair && field == "priority";
            if assembly.strict || pair {
                let field = format!("spec.{field}");
                return Err(fault(member, &field, Problem::Invalid(problem)));
            }
            if object.family == Family::Kubernetes {
                return Ok(Some(format!("members disagree on {field}")));
            }
        }
        Ok(None)
    }
}

fn full_name(record: &super::pod::PodRecord) -> String {
    clip(&record.pod.full_name()).to_string()
}

/// Takes what is satisfied already off a minimum, but for the last.
fn reduce(policy: &mut GroupPolicy, satisfied: u32) {
    if let GroupPolicy::Gang { min_count } = policy {
        *min_count = min_count.saturating_sub(satisfied).max(1);
    }
}

/// Gives all members the policy that their group states.
fn set_preemption(group: &mut PodGroup, policy: PreemptionPolicy) {
    for pod in &mut group.pods {
        pod.preemption_policy = policy;
    }
    for inner in &mut group.groups {
        set_preemption(inner, policy);
    }
}

fn set_priority(group: &mut PodGroup, priority: i32) {
    group.priority = priority;
    for inner in &mut group.groups {
        set_priority(inner, priority);
    }
}
