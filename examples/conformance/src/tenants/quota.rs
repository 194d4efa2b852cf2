//! The quota tree: sums, available amounts, shares.

use std::collections::BTreeMap;

use phalanx::quota::{Queue, QueueId, QueueKind, Quota, Removal, ShareValue, Sums, Usage, Weight};
use serde_json::Value;

use super::fields::{AmountTable, Fields, amounts};
use super::world::World;
use super::{Case, Stop, same};

/// A sum of every resource in a flavor of a queue; zeros are left out.
fn sums(world: &World, queue: QueueId, sum: impl Fn(Sums) -> i64) -> AmountTable {
    let tree = world.tenants.tree();
    let named = tree.books(queue).map(|(of, _)| {
        let (flavor, resource) = tree.names(of);
        ((flavor.to_string(), resource.to_string()), sum(tree.sums(queue, of)))
    });
    named.filter(|(_, amount)| *amount != 0).collect()
}

/// Amounts that could be had of everything that a queue's quota states.
fn stated(
    world: &World,
    queue: QueueId,
    had: impl Fn(&World, QueueId, &str, &str) -> i64,
) -> AmountTable {
    let tree = world.tenants.tree();
    let stated = tree.books(queue).filter(|(_, stated)| *stated);
    let named = stated.map(|(of, _)| {
        let (flavor, resource) = tree.names(of);
        let amount = had(world, queue, flavor, resource);
        ((flavor.to_string(), resource.to_string()), amount)
    });
    named.filter(|(_, amount)| *amount != 0).collect()
}

fn available_of(world: &World, queue: QueueId, flavor: &str, resource: &str) -> i64 {
    let tree = world.tenants.tree();
    tree.flavor_resource(flavor, resource).map_or(0, |of| tree.available(queue, of)).max(0)
}

fn potential_of(world: &World, queue: QueueId, flavor: &str, resource: &str) -> i64 {
    let tree = world.tenants.tree();
    tree.flavor_resource(flavor, resource).map_or(0, |of| tree.potential(queue, of))
}

fn list<'a>(value: &'a Value, title: &str) -> Result<&'a [Value], String> {
    value.as_array().map(Vec::as_slice).ok_or_else(|| format!("{title}: is no list"))
}

fn named(world: &World, kind: QueueKind, name: &str) -> Result<QueueId, Stop> {
    let queue = world.tenants.tree().queue(kind, name);
    queue.ok_or_else(|| format!("{name:?}: there is no such queue").into())
}

/// Whether the parents of a cohort end somewhere: Kueue's snapshot leaves out those in a circle.
fn has_root(world: &World, name: &str) -> bool {
    let tree = world.tenants.tree();
    let parent = |name: &str| {
        let queue = tree.queue(QueueKind::Inner, name)?;
        tree.spec(queue)?.parent.clone()
    };
    let mut at = Some(name.to_string());
    for _ in 0..=tree.queues(QueueKind::Inner).count() {
        let Some(name) = at else { return true };
        at = parent(&name);
    }
    false
}

/// Subtree quota and usage at every node.
fn nodes(world: &World, value: &Value) -> Result<(), Stop> {
    let mut fields = Fields::new("nodes", value)?;
    for (group, kind) in [("clusterQueues", QueueKind::Leaf), ("cohorts", QueueKind::Inner)] {
        let entries = fields.entries(group)?;
        let tree = world.tenants.tree();
        let names: Vec<&str> = tree
            .queues(kind)
            .filter_map(|queue| tree.spec(queue).map(|spec| spec.name.as_str()))
            .filter(|name| match kind {
                QueueKind::Inner => has_root(world, name),
                QueueKind::Leaf => world.is_whole(name),
            })
            .collect();
        same(group, &entries.iter().map(|(name, _)| *name).collect::<Vec<_>>(), &names)?;
        for (name, value) in entries {
            node(world, named(world, kind, name)?, name, value)?;
        }
    }
    Ok(fields.end()?)
}

/// Subtree quota and usage at one node.
fn node(world: &World, queue: QueueId, name: &str, value: &Value) -> Result<(), Stop> {
    let mut fields = Fields::new("node", value)?;
    let subtree = world.expected("subtreeQuota", fields.list("subtreeQuota")?)?;
    let usage = world.expected("usage", fields.list("usage")?)?;
    fields.end()?;
    same(format!("{name} subtree"), &subtree, &sums(world, queue, |sums| sums.subtree))?;
    same(format!("{name} usage"), &usage, &sums(world, queue, |sums| sums.drawn))
}

fn each_available(
    world: &World,
    step: &str,
    entries: Vec<(&str, &Value)>,
    had: impl Fn(&World, QueueId, &str, &str) -> i64 + Copy,
) -> Result<(), Stop> {
    for (name, value) in entries {
        let expected = world.expected(step, list(value, step)?)?;
        let queue = world.leaf(name)?;
        same(format!("{name} {step}"), &expected, &stated(world, queue, had))?;
    }
    Ok(())
}

pub(super) fn available(Case { rules, input, expect }: Case<'_, '_>) -> Result<(), Stop> {
    let mut world = World::new(rules, input)?;
    let potential = expect.entries("potentiallyAvailable")?;
    each_available(&world, "available before usage", potential.clone(), available_of)?;
    world.charge(&input.entries("usage")?)?;
    each_available(&world, "available", expect.entries("available")?, available_of)?;
    each_available(&world, "potentially available", potential, potential_of)?;
    nodes(&world, expect.take("nodes")?)
}

pub(super) fn snapshot(Case { rules, input, expect }: Case<'_, '_>) -> Result<(), Stop> {
    let (mut world, admitted) = World::with_holders(rules, input, "admitted")?;
    for name in input.texts("remove")? {
        let holder = world.tenants.find(name).ok_or(format!("remove: {name:?} is not there"))?;
        world.tenants.release(holder)?;
    }
    for name in input.texts("add")? {
        let found: Vec<_> =
            admitted.iter().filter(|workload| workload.claim.name == name).cloned().collect();
        if found.is_empty() {
            return Err(format!("add: {name:?} is not there").into());
        }
        world.admit(&found)?;
    }
    if let Some(value) = expect.maybe("inactive") {
        let mut expected: Vec<&str> =
            list(value, "inactive")?.iter().filter_map(Value::as_str).collect();
        expected.sort_unstable();
        let tree = world.tenants.tree();
        let inactive =
            tree.queues(QueueKind::Leaf).filter(|queue| !world.tenants.is_active(*queue));
        let names: Vec<&str> =
            inactive.filter_map(|queue| tree.spec(queue).map(|spec| spec.name.as_str())).collect();
        same("inactive", &expected, &names)?;
        world.leave_out_inactive();
    }
    nodes(&world, expect.take("nodes")?)
}

pub(super) fn usage(Case { rules, input, expect }: Case<'_, '_>) -> Result<(), Stop> {
    let mut world = World::new(rules, input)?;
    let all = world.workloads(input.list("admitted")?)?;
    let queue = world.leaf(input.text("clusterQueue")?)?;
    for (list_name, count_name, admitted_only) in
        [("admitted", "admittedWorkloads", true), ("reserved", "reservingWorkloads", false)]
    {
        let chosen: Vec<_> = all
            .iter()
            .filter(|workload| workload.admitted || !admitted_only)
            .filter(|workload| world.tenants.find(&workload.claim.name).is_none())
            .cloned()
            .collect();
        world.admit(&chosen)?;
        let count = expect.integer(count_name)?.unwrap_or(0);
        same(count_name, &count, &(world.tenants.holders(queue).count() as i64))?;
        for value in expect.list(list_name)? {
            let mut fields = Fields::new("usage", value)?;
            let (flavor, resource) = (fields.text("flavor")?, fields.text("resource")?);
            let expected = (fields.integer("total")?, fields.integer("borrowed")?);
            fields.end()?;
            let tree = world.tenants.tree();
            let of = tree.flavor_resource(flavor, resource).ok_or("usage: no such flavor")?;
            let sums = tree.sums(queue, of);
            let borrowed = if tree.parent(queue).is_some() { sums.borrowed() } else { 0 };
            let actual = (Some(sums.drawn), Some(borrowed));
            same(format!("{list_name} {flavor} {resource}"), &expected, &actual)?;
        }
    }
    Ok(())
}

pub(super) fn circles(Case { rules, input, expect }: Case<'_, '_>) -> Result<(), Stop> {
    let world = World::new(rules, input)?;
    for (name, value) in expect.entries("hasCycle")? {
        let expected = value.as_bool().ok_or("hasCycle: is no boolean")?;
        let queue = named(&world, QueueKind::Inner, name)?;
        same(name, &expected, &!world.tenants.tree().is_linked(queue))?;
    }
    Ok(())
}

pub(super) fn deletion(Case { rules, input, expect }: Case<'_, '_>) -> Result<(), Stop> {
    // The nodes are read below.
    let mut world = World::new(rules, input)?;
    for (list_name, kind) in
        [("cohortNodes", QueueKind::Inner), ("clusterQueueNodes", QueueKind::Leaf)]
    {
        for value in input.list(list_name)? {
            let mut fields = Fields::new("node", value)?;
            let name = fields.text("name")?;
            let parent = if kind == QueueKind::Inner { "parent" } else { "cohort" };
            let mut queue =
                if kind == QueueKind::Inner { Queue::inner(name) } else { Queue::leaf(name) };
            queue.parent = fields.maybe(parent).and_then(Value::as_str).map(Into::into);
            let nominal = amounts("nominal", fields.list("nominal")?)?;
            fields.end()?;
            for ((flavor, resource), amount) in nominal {
                queue = queue.quota(flavor, resource, Quota::nominal(amount));
            }
            world.tenants.set_queue(queue)?;
        }
    }
    let compare = |world: &World, entries: Vec<(&str, &Value)>| {
        for (name, value) in entries {
            let expected = world.expected("subtreeQuota", list(value, "subtreeQuota")?)?;
            let queue = named(world, QueueKind::Inner, name)?;
            same(name, &expected, &sums(world, queue, |sums| sums.subtree))?;
        }
        Ok::<(), Stop>(())
    };
    compare(&world, expect.entries("subtreeQuotaBefore")?)?;
    let queue = named(&world, QueueKind::Inner, input.text("deleteCohort")?)?;
    let removal = world.tenants.remove_queue(queue)?;
    if removal == Removal::Draining {
        return Err("deleteCohort: it drains".into());
    }
    compare(&world, expect.entries("subtreeQuotaAfter")?)
}

/// A share as Kueue writes it.
fn precise(share: &ShareValue) -> String {
    let weighted = share.weighted();
    if weighted.is_infinite() { "+Inf".into() } else { format!("{weighted}") }
}

pub(super) fn shares(Case { rules, input, expect }: Case<'_, '_>) -> Result<(), Stop> {
    let mut world = World::charged(rules, input)?;
    let extra = world.usage(&amounts("extra", input.list("extra")?)?);
    for value in expect.list("shares")? {
        let mut fields = Fields::new("share", value)?;
        let (name, kind) = (fields.text("name")?, fields.text("kind")?);
        let kind = match kind {
            "ClusterQueue" => QueueKind::Leaf,
            "Cohort" => QueueKind::Inner,
            other => return Err(format!("kind: {other:?} is not known").into()),
        };
        let queue = named(&world, kind, name)?;
        let tree = world.tenants.tree();
        let share = world.tenants.share_with(queue, &extra);
        let of = |what: &str| format!("{name} {what}");
        same(of("share"), &fields.integer("share")?, &Some(share.rounded()))?;
        same(of("preciseShare"), &fields.text("preciseShare")?, &precise(&share).as_str())?;
        same(of("borrowing"), &fields.flag("borrowing")?, &share.borrowing)?;
        let dominant = share.dominant(tree).unwrap_or("");
        same(of("dominantResource"), &fields.text_or_empty("dominantResource")?, &dominant)?;
        let unweighted = fields.take("unweighted")?.as_f64();
        same(of("unweighted"), &unweighted, &Some(share.ratio))?;
        // What Kueue shows as the weight of a root is not its weight.
        if tree.parent(queue).is_some() {
            same(of("weight"), &fields.take("weight")?.as_f64(), &Some(share.weight))?;
        } else {
            fields.pass(&["weight"]);
        }
        fields.end()?;
    }
    Ok(())
}

pub(super) fn borrowing(Case { rules, input, expect }: Case<'_, '_>) -> Result<(), Stop> {
    let mut world = World::charged(rules, input)?;
    let queue = world.leaf(input.text("clusterQueue")?)?;
    let requested: Usage = world.usage(&amounts("requested", input.list("requested")?)?);
    let share = world.tenants.share(queue);
    same("borrowing", &expect.flag("borrowing")?, &share.borrowing)?;
    let tree = world.tenants.tree();
    let on_requested = tree.parent(queue).is_some()
        && requested.iter().any(|(of, _)| tree.sums(queue, *of).borrowed() > 0);
    same("borrowingOnRequested", &expect.flag("borrowingOnRequested")?, &on_requested)
}

pub(super) fn lendable(Case { rules, input, expect }: Case<'_, '_>) -> Result<(), Stop> {
    let world = World::new(rules, input)?;
    let queue = named(&world, QueueKind::Inner, input.text("cohort")?)?;
    let expected = expect.integers("lendable")?;
    let actual: BTreeMap<String, i64> = expected
        .keys()
        .map(|name| (name.clone(), world.tenants.tree().lendable(queue, name)))
        .collect();
    same("lendable", &expected, &actual)
}

pub(super) fn weighted(Case { input, expect, .. }: Case<'_, '_>) -> Result<(), Stop> {
    let number = |value: &Value| value.as_f64().ok_or("is no number");
    let ratio = number(input.take("unweighted")?)?;
    let weight = Weight::from_nanos((number(input.take("weight")?)? * 1e9).round() as u64);
    let share = ShareValue::new(ratio, weight.as_f64());
    same("preciseShare", &expect.text("preciseShare")?, &precise(&share).as_str())
}

pub(super) fn generated(Case { rules, input, expect }: Case<'_, '_>) -> Result<(), Stop> {
    let (world, _) = World::with_holders(rules, input, "admitted")?;
    for (group, kind) in [("clusterQueues", QueueKind::Leaf), ("cohorts", QueueKind::Inner)] {
        for (name, value) in expect.entries(group)? {
            let queue = named(&world, kind, name)?;
            let mut fields = Fields::new("queue", value)?;
            let share = world.tenants.share(queue);
            same(
                format!("{name} share"),
                &fields.text("preciseShare")?,
                &precise(&share).as_str(),
            )?;
            same(format!("{name} borrowing"), &fields.flag("borrowing")?, &share.borrowing)?;
            if kind == QueueKind::Leaf {
                let expected = world.expected("available", fields.list("available")?)?;
                same(format!("{name} available"), &expected, &stated(&world, queue, available_of))?;
                let expected =
                    world.expected("potentiallyAvailable", fields.list("potentiallyAvailable")?)?;
                same(format!("{name} potential"), &expected, &stated(&world, queue, potential_of))?;
            } else {
                let expected = world.expected("subtreeQuota", fields.list("subtreeQuota")?)?;
                let subtree = sums(&world, queue, |sums| sums.subtree);
                same(format!("{name} subtree"), &expected, &subtree)?;
                let expected = world.expected("usage", fields.list("usage")?)?;
                same(format!("{name} usage"), &expected, &sums(&world, queue, |sums| sums.drawn))?;
            }
            fields.end()?;
        }
    }
    for (name, value) in expect.entries("nodes")? {
        node(&world, world.leaf(name)?, name, value)?;
    }
    Ok(())
}
