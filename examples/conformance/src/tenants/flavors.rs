//! Flavors assigned to a claim.

use std::collections::BTreeMap;

use phalanx::quota::{AssignmentMode, Claim, Outlook, QuotaAssignment, reduced_counts};
use serde_json::Value;

use super::fields::Fields;
use super::world::{World, fungibility, mode};
use super::{Case, Stop, same, table, victims};

fn outlook(name: &str) -> Result<Outlook, String> {
    Ok(match name.to_ascii_lowercase().as_str() {
        "nofit" => Outlook::NoFit,
        "nocandidates" | "nopreemptioncandidates" => Outlook::NoCandidates,
        "preempt" => Outlook::Preempt,
        "reclaim" => Outlook::Reclaim,
        "fit" => Outlook::Fit,
        _ => return Err(format!("possibility: {name:?} is not known")),
    })
}

/// Compares everything said of an assignment but for reasons.
fn compare(
    world: &World,
    claim: &Claim,
    assignment: &QuotaAssignment,
    expect: &mut Fields<'_>,
) -> Result<(), Stop> {
    same("mode", &mode(expect.text("mode")?)?, &assignment.mode)?;
    let sets = expect.list("podSets")?;
    same("podSets", &sets.len(), &assignment.pod_sets.len())?;
    for (value, own) in sets.iter().zip(&assignment.pod_sets) {
        let mut fields = Fields::new("podSet", value)?;
        let set = &claim.pod_sets[own.pod_set];
        let name = fields.text("name")?;
        same("podSet", &name, &set.name.as_str())?;
        same(format!("{name} count"), &fields.integer("count")?, &Some(i64::from(own.count)))?;
        let mut expected: BTreeMap<&str, (String, AssignmentMode)> = BTreeMap::new();
        for (resource, value) in fields.entries("flavors")? {
            let mut choice = Fields::new("flavor", value)?;
            let pair = (choice.text("flavor")?.to_string(), mode(choice.text("mode")?)?);
            choice.pass(&["triedFlavorIdx"]);
            choice.end()?;
            expected.insert(resource, pair);
        }
        let named = own.flavors.iter().map(|choice| {
            let (flavor, resource) = world.tenants.tree().names(choice.of);
            (resource, (flavor.to_string(), choice.mode))
        });
        same(format!("{name} flavors"), &expected, &named.collect())?;
        if fields.maybe("requests").is_some() {
            let expected = fields.integers("requests")?;
            let mut actual: BTreeMap<String, i64> =
                set.requests.iter().map(|(name, amount)| (name.to_string(), amount)).collect();
            for (choice, amount) in own.flavors.iter().zip(&own.requests) {
                actual.insert(world.tenants.tree().names(choice.of).1.to_string(), *amount);
            }
            if own.flavors.is_empty() && expected.contains_key("pods") {
                actual.insert("pods".into(), i64::from(own.count));
            }
            same(format!("{name} requests"), &expected, &actual)?;
        }
        fields.pass(&["attempts"]);
        fields.end()?;
    }
    let expected = world.expected("usage", expect.list("usage")?)?;
    same("usage", &expected, &table(world, &assignment.usage))?;
    let level = expect.integer("borrowing")?.unwrap_or(0);
    same("borrowing", &level, &i64::from(assignment.level))?;
    expect.pass(&["noFitReason", "attempts"]);
    Ok(())
}

/// With a stub in place of the search for victims.
pub(super) fn assigned(Case { rules, input, expect }: Case<'_, '_>) -> Result<(), Stop> {
    let mut world = World::charged(rules, input)?;
    let mut claim = world.claim(input, "workload")?;
    if input.maybe("allowedFlavors").is_some() {
        let allowed = input.texts("allowedFlavors")?;
        claim.allowed_flavors = Some(allowed.into_iter().map(Into::into).collect());
    }
    let mut oracle = Fields::new("preemptionOracle", input.take("preemptionOracle")?)?;
    let stub = |fields: &mut Fields<'_>| -> Result<(Outlook, Option<u32>), String> {
        let outlook = outlook(fields.text("possibility")?)?;
        let after = fields.integer("borrowAfter")?.unwrap_or(0);
        Ok((outlook, Some(u32::try_from(after).map_err(|error| error.to_string())?)))
    };
    let mut fields = Fields::new("default", oracle.take("default")?)?;
    let default = stub(&mut fields)?;
    fields.end()?;
    let mut overrides = BTreeMap::new();
    for value in oracle.list("overrides")? {
        let mut fields = Fields::new("override", value)?;
        let of = world.tenants.intern(fields.text("flavor")?, fields.text("resource")?);
        overrides.insert(of, stub(&mut fields)?);
        fields.end()?;
    }
    oracle.end()?;
    let answer = |of, _| overrides.get(&of).copied().unwrap_or(default);
    let assignment = world.searches().assign_with(&claim, answer)?;
    compare(&world, &claim, &assignment, expect)
}

pub(super) fn generated(Case { rules, input, expect }: Case<'_, '_>) -> Result<(), Stop> {
    let (mut world, _) = World::with_holders(rules, input, "admitted")?;
    let claim = world.claim(input, "incoming")?;
    // These cases have no partial admission, which the settings say to `decide`.
    let assignment = world.searches().assign(&claim)?;
    compare(&world, &claim, &assignment, expect)?;
    let decision = world.tenants.decide(&claim)?;
    same("decision", &assignment, &decision.assignment)?;
    victims::compare(&world, expect.list("targets")?, &decision.victims)
}

pub(super) fn preferred(Case { input, expect, .. }: Case<'_, '_>) -> Result<(), Stop> {
    let rule = fungibility(input.take("fungibility")?)?;
    let side = |value: &Value| -> Result<(Outlook, u32), String> {
        let mut fields = Fields::new("side", value)?;
        let outlook = outlook(fields.text("preemptionMode")?)?;
        let level = fields.integer("borrowingLevel")?.unwrap_or(0);
        fields.end()?;
        Ok((outlook, u32::try_from(level).map_err(|error| error.to_string())?))
    };
    let (a, b) = (side(input.take("a")?)?, side(input.take("b")?)?);
    let preferred = Outlook::compare(rule, a, b).is_gt();
    same("preferred", &expect.flag("preferred")?, &preferred)
}

pub(super) fn search(Case { input, expect, .. }: Case<'_, '_>) -> Result<(), Stop> {
    let mut sets = Vec::new();
    for value in input.list("podSets")? {
        let mut fields = Fields::new("podSet", value)?;
        fields.pass(&["name", "requestsPerPod"]);
        let number = |number: i64| u32::try_from(number).map_err(|error| error.to_string());
        let count = number(fields.integer("count")?.ok_or("count: is required")?)?;
        let least = fields.integer("minCount")?.map(number).transpose()?;
        fields.end()?;
        sets.push((count, least.unwrap_or(count)));
    }
    let limit = input.integer("totalCountLimit")?.ok_or("totalCountLimit: is required")?;
    let found = reduced_counts(&sets, |counts| {
        let total: i64 = counts.iter().map(|count| i64::from(*count)).sum();
        (total <= limit).then_some(total)
    });
    same("found", &expect.flag("found")?, &found.is_some())?;
    let expected = expect.integer("totalCount")?.unwrap_or(0);
    same("totalCount", &expected, &found.unwrap_or(0))
}
