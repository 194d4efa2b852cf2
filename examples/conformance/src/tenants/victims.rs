//! Victims, and the order in which they are looked for.

use std::collections::{BTreeMap, BTreeSet};

use phalanx::model::Amounts;
use phalanx::quota::{
    AssignmentMode, FlavorChoice, PodSetAssignment, Queue, Quota, QuotaAssignment, QuotaVictim,
    Usage, VictimReason, is_candidate,
};
use serde_json::Value;

use super::fields::Fields;
use super::world::{self, World};
use super::{Case, Stop, same};

/// Victims that an answer names, with the reason for each. `what` is what the answer calls them.
pub(super) fn named(
    what: &'static str,
    answer: &[Value],
) -> Result<BTreeSet<(String, VictimReason)>, Stop> {
    let mut named = BTreeSet::new();
    for value in answer {
        let mut fields = Fields::new(what, value)?;
        let reason = world::victim_reason(fields.text("reason")?)?;
        named.insert((fields.text("workload")?.to_string(), reason));
        fields.end()?;
    }
    Ok(named)
}

/// Compares victims as a set of names and reasons.
pub(super) fn compare(
    world: &World,
    expected: &[Value],
    victims: &[QuotaVictim],
) -> Result<(), Stop> {
    let named = named("target", expected)?;
    let actual = victims.iter().map(|victim| {
        let name = world.tenants.holder(victim.holder).map_or("", |holder| &holder.name);
        (name.to_string(), victim.reason)
    });
    same("targets", &named, &actual.collect())
}

/// Victims for an assignment that is given.
pub(super) fn targets(Case { rules, input, expect }: Case<'_, '_>) -> Result<(), Stop> {
    let (mut world, _) = World::with_holders(rules, input, "admitted")?;
    let claim = world.claim(input, "incoming")?;
    let mut assignment = QuotaAssignment::new(Usage::new(), AssignmentMode::Preempt, 0);
    let mut sums: BTreeMap<_, i64> = BTreeMap::new();
    for (at, value) in input.list("assignment")?.iter().enumerate() {
        let mut fields = Fields::new("assignment", value)?;
        let set = claim.pod_sets.get(at).ok_or("assignment: too many podsets")?;
        if fields.text("name")? != set.name {
            return Err("assignment: another podset".into());
        }
        let count = fields.integer("count")?.unwrap_or(i64::from(set.count));
        let count = u32::try_from(count).map_err(|error| error.to_string())?;
        let mut own = PodSetAssignment::new(at, count);
        let requests: Amounts = set.requests.clone();
        for (resource, value) in fields.entries("flavors")? {
            let mut choice = Fields::new("flavor", value)?;
            let of = world.tenants.intern(choice.text("flavor")?, resource);
            let mode = world::mode(choice.text("mode")?)?;
            choice.end()?;
            own.flavors.push(FlavorChoice::new(of, mode));
            own.requests.push(requests.of(resource));
            *sums.entry(of).or_default() += requests.of(resource);
        }
        fields.end()?;
        assignment.pod_sets.push(own);
    }
    assignment.usage = sums.into_iter().collect();
    let victims = world.searches().victims(&claim, &assignment)?;
    compare(&world, expect.list("targets")?, &victims)
}

/// The order of candidates.
pub(super) fn order(Case { rules, input, expect }: Case<'_, '_>) -> Result<(), Stop> {
    input.pass(&["admissionFairSharing"]);
    let own = input.text("clusterQueue")?;
    let mut world = World::new(rules, input)?;
    let candidates = input.list("candidates")?;
    let read = |value| world::workload_with(value, &world.rules, &["localQueueUsage"]);
    let mut workloads = candidates.iter().map(read).collect::<Result<Vec<_>, _>>()?;
    for workload in &mut workloads {
        // A candidate without a queue is one of the queue that asks.
        workload.queue_held.get_or_insert_with(|| own.to_string());
    }
    let mut names = BTreeSet::from([own.to_string()]);
    names.extend(workloads.iter().filter_map(|workload| workload.queue_held.clone()));
    for name in &names {
        // Everyone else has more than its own, so that all are candidates.
        let quota = Queue::leaf(name).parent("all").quota("f", "r", Quota::nominal(0));
        world.tenants.set_queue(quota)?;
    }
    world.admit(&workloads)?;
    let queue = world.leaf(own)?;
    let order = world.searches().candidate_order(queue)?;
    let names: Vec<&str> = order
        .iter()
        .filter_map(|holder| world.tenants.holder(*holder))
        .map(|holder| holder.name.trim_start_matches('/'))
        .collect();
    same("order", &expect.texts("order")?, &names)
}

/// The order of queues with fair sharing.
pub(super) fn queues(Case { rules, input, expect }: Case<'_, '_>) -> Result<(), Stop> {
    let mut rules = rules;
    rules.settings = rules.settings.fair();
    let (mut world, _) = World::with_holders(rules, input, "admitted")?;
    let mut drops = Vec::new();
    for action in input.texts("actions")? {
        drops.push(match action {
            "drop" => true,
            "pop" => false,
            other => return Err(format!("actions: {other:?} is not known").into()),
        });
    }
    let leaves = input.texts("candidateClusterQueues")?;
    let leaves = leaves.iter().map(|name| world.leaf(name)).collect::<Result<Vec<_>, _>>()?;
    let preemptor = world.leaf(input.text("preemptorClusterQueue")?)?;
    let order = world.searches().target_order(preemptor, &leaves, &drops)?;
    let tree = world.tenants.tree();
    let names: Vec<&str> =
        order.iter().filter_map(|queue| tree.spec(*queue)).map(|spec| spec.name.as_str()).collect();
    same("order", &expect.texts("order")?, &names)
}

pub(super) fn policy(Case { rules, input, expect }: Case<'_, '_>) -> Result<(), Stop> {
    let policy = world::policy(input.text("policy")?)?;
    let preemptor = world::workload(input.take("preemptor")?, &rules)?.claim;
    let candidate = world::workload(input.take("candidate")?, &rules)?.claim;
    let of = |claim: &phalanx::quota::Claim| (claim.priority, claim.created);
    let satisfies = is_candidate(policy, of(&preemptor), of(&candidate));
    same("satisfies", &expect.flag("satisfies")?, &satisfies)
}
