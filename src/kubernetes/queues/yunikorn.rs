//! YuniKorn's `queues.yaml`.

use alloc::borrow::ToOwned;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use super::super::field::Note;
use super::super::field::{Fault, Field};
use super::super::value::Value;
use super::unread::unread;
use super::volcano::FLAVOR;
use crate::model::Problem;
use crate::quota::yunikorn::{
    QueueRules, Resource, YuniKornPreemptionPolicy, YuniKornSettings, resources,
};
use crate::quota::{ANYONE, Queue, Quota, UserLimit, limit_problem};

/// The queues of all partitions, named by their paths, and what their properties say.
pub(super) fn partitions(
    root: &Field<'_>,
    settings: &mut YuniKornSettings,
    notes: &mut Vec<Note>,
) -> Fault<Vec<Queue>> {
    unread(root, &["partitions"], notes);
    let mut reader = Reader { settings, notes, queues: Vec::new() };
    root.each("partitions", |partition| {
        unread(&partition, &["name", "queues", "nodesortpolicy", "limits"], reader.notes);
        let first = reader.queues.len();
        partition.each("queues", |queue| {
            if queue.need("name")?.text()?.eq_ignore_ascii_case("root") {
                return reader.queue(&queue, None);
            }
            // A missing root is put above all.
            reader.queue(&queue, Some("root"))
        })?;
        // Limits of a partition are the root's.
        let limits = reader.limits(&partition)?;
        if !limits.is_empty() {
            let roots = reader.queues.get_mut(first..).unwrap_or_default();
            match roots.iter_mut().find(|own| own.parent.is_none()) {
                Some(root) if root.limits.is_empty() => root.limits = limits,
                Some(_) => {
                    let both = Problem::Invalid(String::from("stand at the root, too"));
                    return Err(partition.fail_at("limits", both));
                }
                None => {
                    let mut root = Queue::inner("root");
                    root.limits = limits;
                    reader.queues.push(root);
                }
            }
        }
        Ok(())
    })?;
    Ok(reader.queues)
}

struct Reader<'a> {
    settings: &'a mut YuniKornSettings,
    notes: &'a mut Vec<Note>,
    queues: Vec<Queue>,
}

impl Reader<'_> {
    fn queue(&mut self, field: &Field<'_>, parent: Option<&str>) -> Fault<()> {
        const READ: [&str; 8] = [
            "name",
            "parent",
            "queues",
            "resources",
            "properties",
            "adminacl",
            "submitacl",
            "limits",
        ];
        unread(field, &READ, self.notes);
        let named = field.need("name")?;
        let name = named.text()?.to_lowercase();
        if name.is_empty() || name.contains('.') {
            return Err(named.invalid("is no name of a queue"));
        }
        let path = parent.map_or_else(|| name.clone(), |parent| format!("{parent}.{name}"));
        if self.queues.iter().any(|own| own.name == path) {
            return Err(named.invalid("stands twice"));
        }
        let inner = parent.is_none() || field.get("queues")?.is_some() || field.flag("parent")?;
        let mut queue =
            if inner { Queue::inner(path.as_str()) } else { Queue::leaf(path.as_str()) };
        queue.parent = parent.map(Into::into);
        if let Some(stated) = field.get("resources")? {
            if parent.is_none() && field.strict() {
                return Err(stated.invalid("the root has what the nodes have"));
            }
            unread(&stated, &["guaranteed", "max"], self.notes);
            let (guaranteed, most) = (amounts(&stated, "guaranteed")?, amounts(&stated, "max")?);
            let names = guaranteed.keys().chain(most.keys());
            let names: BTreeSet<&String> = names.collect();
            for name in names {
                let limit = most.get(name).copied();
                let nominal = guaranteed.get(name).copied().unwrap_or(0);
                if field.strict() && limit.is_some_and(|limit| nominal > limit) {
                    let rule = format!("{name}: is more than the maximum");
                    return Err(stated.fail_at("guaranteed", Problem::Invalid(rule)));
                }
                // A `vcore` is what others call `cpu`.
                let resource = if name == "vcore" { "cpu" } else { name };
                let quota = Quota { limit, ..Quota::nominal(nominal) };
                queue = queue.quota(FLAVOR, resource, quota);
            }
        }
        self.properties(field, &path)?;
        queue.limits = self.limits(field)?;
        self.queues.push(queue);
        field.each("queues", |child| self.queue(&child, Some(&path)))?;
        Ok(())
    }

    /// Limits by user and group of a queue or a partition. An empty name is none; a limit of no
    /// applications is none of them, and one of no amounts none of those.
    fn limits(&mut self, field: &Field<'_>) -> Fault<Vec<UserLimit>> {
        let mut all = Vec::new();
        field.each("limits", |stated| {
            let read = ["limit", "users", "groups", "maxresources", "maxapplications"];
            unread(&stated, &read, self.notes);
            let names = |name| -> Fault<Vec<String>> {
                Ok(stated.texts(name)?.into_iter().filter(|own| !own.is_empty()).collect())
            };
            let mut limit = UserLimit::users(names("users")?);
            limit.groups = names("groups")?;
            for (name, most) in amounts(&stated, "maxresources")? {
                limit.amounts.set(if name == "vcore" { "cpu" } else { &name }, most);
            }
            if let Some(most) = stated.get("maxapplications")? {
                let most = u32::try_from(most.within(0, i64::from(u32::MAX))?).unwrap_or(u32::MAX);
                limit.claims = Some(most).filter(|most| *most > 0);
            }
            if field.strict() && limit.amounts.iter().any(|(_, most)| most <= 0) {
                let rule = Problem::Invalid(String::from("are not all above zero"));
                return Err(stated.fail_at("maxresources", rule));
            }
            all.push(limit);
            Ok(())
        })?;
        let lone = |limit: &UserLimit| limit.groups.iter().all(|name| name == ANYONE);
        if field.strict()
            && all.iter().all(lone)
            && all.iter().any(|limit| !limit.groups.is_empty())
        {
            let rule = format!("name the group {ANYONE:?} and no other");
            return Err(field.fail_at("limits", Problem::Invalid(rule)));
        }
        if let Some((number, problem)) = limit_problem(&all) {
            let rule = Problem::Invalid(format!("limit {number} {problem}"));
            return Err(field.fail_at("limits", rule));
        }
        Ok(all)
    }

    /// Properties of a queue; a value that makes no sense counts as none.
    fn properties(&mut self, field: &Field<'_>, path: &str) -> Fault<()> {
        let mut rules = QueueRules::default();
        let mut stated: Vec<(String, String)> = Vec::new();
        field.entries("properties", |name, value| {
            let text = match value.value {
                Value::Integer(number) => number.to_string(),
                Value::Bool(truth) => truth.to_string(),
                _ => value.text()?.to_owned(),
            };
            stated.push((name.into(), text));
            Ok(())
        })?;
        for (name, value) in stated {
            match (name.as_str(), value.as_str()) {
                ("priority.offset", value) => {
                    rules.priority.offset = value.parse().unwrap_or_default();
                }
                ("priority.policy", value) => rules.priority.fence = value == "fence",
                ("preemption.policy", "fence") => {
                    rules.preemption = YuniKornPreemptionPolicy::Fence;
                }
                ("preemption.policy", "disabled") => {
                    rules.preemption = YuniKornPreemptionPolicy::Disabled;
                }
                // Leaves are sorted by priority and age here, their parents by share.
                ("preemption.policy", _)
                | ("application.sort.policy", "fifo" | "stateaware")
                | ("application.sort.priority", "enabled") => {}
                (name, _) => {
                    let text = format!("{}.properties[{name}] is not understood", field.path());
                    self.notes.push(Note::new(field, &text));
                }
            }
        }
        if rules != QueueRules::default() {
            self.settings.rules.insert(path.into(), rules);
        }
        Ok(())
    }
}

fn amounts(of: &Field<'_>, name: &str) -> Fault<Resource> {
    let mut stated = BTreeMap::new();
    of.entries(name, |resource, field| {
        let quantity = match field.value {
            Value::Integer(number) => number.to_string(),
            _ => field.text()?.to_owned(),
        };
        stated.insert(resource.to_owned(), quantity);
        Ok(())
    })?;
    resources::from_configuration(&stated)
        .map_err(|kind| of.fail_at(name, Problem::Invalid(format!("{kind}: is no amount"))))
}
