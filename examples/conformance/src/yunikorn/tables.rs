//! Rows of YuniKorn's tables.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use phalanx::quota::yunikorn::{
    Guarantees, QueueState, Queues, Resource, is_over_guarantee, is_under_guarantee, resources,
};
use serde_json::Value;

use super::super::systems::Case;
use super::super::tenants::fields::Fields;
use super::super::tenants::{Stop, same};
use super::amounts::{maybe, of, quantities};

type Maybe = Option<Resource>;

/// One side and the other, where the second may be the same object as the first.
fn sides<'a>(input: &mut Fields<'a>, names: [&'a str; 2]) -> Result<(Maybe, Maybe), Stop> {
    let one = maybe(input, names[0])?;
    let other = maybe(input, names[1])?;
    let other = if input.flag("sameRef")? { one.clone() } else { other };
    Ok((one, other))
}

fn expect_truth<'a>(expect: &mut Fields<'a>, name: &'a str, actual: bool) -> Result<(), Stop> {
    expect.take(name)?;
    same(name, &expect.flag(name)?, &actual)
}

fn expect_amounts(expect: &mut Fields<'_>, actual: &Maybe) -> Result<(), Stop> {
    same("expected", &maybe(expect, "expected")?, actual)
}

fn expect_number<'a>(expect: &mut Fields<'a>, name: &'a str, actual: f64) -> Result<(), Stop> {
    let expected = share(expect.take(name)?)?;
    if (expected - actual).abs() <= 1e-12 * expected.abs() {
        return Ok(());
    }
    same(name, &expected, &actual)
}

fn expect_order<'a>(expect: &mut Fields<'a>, name: &'a str, actual: Ordering) -> Result<(), Stop> {
    same(name, &expect.integer(name)?, &Some(actual as i64))
}

/// A share, which may be infinite.
fn share(value: &Value) -> Result<f64, Stop> {
    match value.as_str() {
        Some("+Inf") => Ok(f64::INFINITY),
        Some("-Inf") => Ok(f64::NEG_INFINITY),
        _ => Ok(value.as_f64().ok_or_else(|| format!("is no share: {value}"))?),
    }
}

fn shares<'a>(fields: &mut Fields<'a>, name: &'a str) -> Result<Vec<f64>, Stop> {
    fields.list(name)?.iter().map(share).collect()
}

/// Amounts by queue.
fn by_queue<'a>(
    fields: &mut Fields<'a>,
    name: &'a str,
) -> Result<BTreeMap<&'a str, Resource>, Stop> {
    let mut queues = BTreeMap::new();
    for (queue, value) in fields.entries(name)? {
        queues.insert(queue, of(name, value)?);
    }
    Ok(queues)
}

/// Compares one row.
pub(super) fn compare(case: &mut Case<'_>) -> Result<(), Stop> {
    if let Some(known) = alone(case).or_else(|| two(case)).or_else(|| with_total(case)) {
        return known;
    }
    match case.function {
        "TestGetPreemptableResource" => {
            guarantees(case, phalanx::quota::yunikorn::Guarantees::preemptable, &[None])
        }
        "TestGetRemainingGuaranteedResource" => {
            // The queue that asks is not in the row.
            let asks = [None, Some("root.parent.childQ1"), Some("root.parent.childQ2")];
            guarantees(case, phalanx::quota::yunikorn::Guarantees::remaining, &asks)
        }
        "TestSortAllocationsBasedOnAsk" => victims(case),
        "TestEqualsTracked" => tracked(case),
        function => Err(Stop::Bad(format!("{function}: is not known"))),
    }
}

/// Rows on one resource; `None` for others.
fn alone(case: &mut Case<'_>) -> Option<Result<(), Stop>> {
    let (name, test): (_, fn(Option<&Resource>) -> bool) = match case.function {
        "TestNewResourceFromMap" => return Some(from_map(case)),
        "TestNewResourceFromConf" => return Some(from_configuration(case)),
        "TestIsZero" => ("expected", resources::is_zero),
        "TestStrictlyGreaterThanZero" => ("expected", resources::is_positive),
        "TestHasNegativeValue" => ("expectedResult", resources::has_negative),
        "TestIsEmpty" => ("expectedResult", resources::is_empty),
        _ => return None,
    };
    let amounts = maybe(&mut case.input, "input");
    let compared = amounts.map_err(Stop::from);
    Some(compared.and_then(|own| expect_truth(&mut case.expect, name, test(own.as_ref()))))
}

fn from_map(case: &mut Case<'_>) -> Result<(), Stop> {
    let amounts = maybe(&mut case.input, "input")?.unwrap_or_default();
    let mut expect = Fields::new("expected", case.expect.take("expected")?)?;
    same("length", &expect.integer("length")?, &Some(amounts.len() as i64))?;
    same("resources", &maybe(&mut expect, "resources")?.unwrap_or_default(), &amounts)?;
    Ok(expect.end()?)
}

fn from_configuration(case: &mut Case<'_>) -> Result<(), Stop> {
    let stated = case.input.maybe("input").map(|value| quantities("input", value)).transpose()?;
    let read = resources::from_configuration(&stated.unwrap_or_default());
    let exists = read.is_ok();
    let amounts = read.unwrap_or_default();
    let pairs: Vec<String> = amounts.iter().map(|(name, own)| format!("{name}:{own}")).collect();
    let text = if pairs.is_empty() { String::new() } else { format!("map[{}]", pairs.join(" ")) };
    let mut expect = Fields::new("expected", case.expect.take("expected")?)?;
    expect_truth(&mut expect, "resourceExist", exists)?;
    same("resourceTypes", &expect.integer("resourceTypes")?, &Some(amounts.len() as i64))?;
    let stated = expect.text_or_empty("resources")?;
    same("resources", &if stated == "map[]" { "" } else { stated }, &text.as_str())?;
    Ok(expect.end()?)
}

/// Rows on two resources; `None` for others.
fn two(case: &mut Case<'_>) -> Option<Result<(), Stop>> {
    let test = |names, answer, test| Some((names, answer, test));
    type Test = fn(Option<&Resource>, Option<&Resource>) -> bool;
    type Known = Option<([&'static str; 2], &'static str, Test)>;
    let known: Known = match case.function {
        "TestEquals" => test(["base", "compare"], "expected", resources::equal as Test),
        "TestMatchAnyOnlyExisting" => test(["left", "right"], "expected", resources::match_any),
        "TestEqualsOrEmpty" => test(["left", "right"], "want", resources::equal_or_zero),
        "TestDeepEquals" => test(["left", "right"], "want", resources::same),
        "TestFitIn" => test(["larger", "smaller"], "want", resources::fits),
        "TestFitInSkip" => test(["larger", "smaller"], "expected", resources::fits_limit),
        "TestFitInActual" => test(["larger", "smaller"], "expected", resources::fits_actual),
        "TestIsAskQueueUnderGuaranteed" => {
            test(["askResource", "askQueue"], "expected", is_under_guarantee)
        }
        "TestIsVictimQueueOverGuaranteed" => {
            test(["askResource", "victimQueue"], "expected", is_over_guarantee)
        }
        _ => None,
    };
    if let Some((names, answer, test)) = known {
        return Some(truth(case, names, answer, test));
    }
    type Sum = fn(Option<&Resource>, Option<&Resource>) -> Maybe;
    let sum: ([&'static str; 2], Sum) = match case.function {
        "TestComponentWiseMin" => (["res1", "res2"], resources::least),
        "TestComponentWiseMax" => (["res1", "res2"], |a, b| Some(resources::most(a, b))),
        "TestComponentWiseMinOnlyExisting" => (["left", "right"], resources::least_existing),
        "TestMergeIfNotPresent" => (["left", "right"], resources::merge_missing),
        "TestSubOnlyExisting" => (["base", "delta"], resources::subtract_existing),
        "TestAddOnlyExisting" => (["base", "delta"], resources::add_existing),
        "TestStrictlyGreaterThan" => return Some(both_ways(case, resources::is_greater)),
        "TestStrictlyGreaterThanOrEquals" => return Some(both_ways(case, resources::is_at_least)),
        "TestStrictlyGreaterThanOnlyExisting" => {
            return Some(both_ways(case, resources::is_greater_existing));
        }
        "TestStrictlyGreaterThanOrEqualsOnlyExisting" => {
            return Some(both_ways(case, resources::is_at_least_existing));
        }
        "TestTypeMatching" => return Some(matching(case)),
        "TestFitInScore" => return Some(fit_score(case)),
        "TestQueue_allocatedResFits_Root" => return Some(fits(case, resources::fits)),
        "TestQueue_allocatedResFits_Other" => return Some(fits(case, resources::fits_limit)),
        _ => return None,
    };
    Some(amounts(case, sum.0, sum.1))
}

/// The fields of a row stand in the input, or one step deeper.
fn nested<'a, T>(
    input: &mut Fields<'a>,
    read: impl FnOnce(&mut Fields<'a>) -> Result<T, Stop>,
) -> Result<T, Stop> {
    let Some(value) = input.maybe("input") else { return read(input) };
    let mut own = Fields::new("input.input", value)?;
    let known = read(&mut own)?;
    own.end()?;
    Ok(known)
}

fn truth<'a>(
    case: &mut Case<'a>,
    names: [&'a str; 2],
    answer: &'a str,
    test: impl Fn(Option<&Resource>, Option<&Resource>) -> bool,
) -> Result<(), Stop> {
    let (one, other) = nested(&mut case.input, |input| sides(input, names))?;
    expect_truth(&mut case.expect, answer, test(one.as_ref(), other.as_ref()))
}

fn amounts<'a>(
    case: &mut Case<'a>,
    names: [&'a str; 2],
    sum: impl Fn(Option<&Resource>, Option<&Resource>) -> Maybe,
) -> Result<(), Stop> {
    let (one, other) = nested(&mut case.input, |input| sides(input, names))?;
    expect_amounts(&mut case.expect, &sum(one.as_ref(), other.as_ref()))
}

/// Whether the larger is larger, and the smaller.
fn both_ways(
    case: &mut Case<'_>,
    test: impl Fn(Option<&Resource>, Option<&Resource>) -> bool,
) -> Result<(), Stop> {
    let names = ["larger", "smaller"];
    let (one, other) = nested(&mut case.input, |input| sides(input, names))?;
    let (one, other) = (one.as_ref(), other.as_ref());
    let actual = [test(one, other), test(other, one)];
    let expected = case.expect.take("expected")?;
    if let Some(pair) = expected.as_array() {
        let pair: Vec<Option<bool>> = pair.iter().map(Value::as_bool).collect();
        return same("expected", &pair, &actual.map(Some).to_vec());
    }
    let mut expect = Fields::new("expected", expected)?;
    expect_truth(&mut expect, "larger", actual[0])?;
    expect_truth(&mut expect, "smaller", actual[1])?;
    Ok(expect.end()?)
}

fn matching(case: &mut Case<'_>) -> Result<(), Stop> {
    let (one, other) = sides(&mut case.input, ["base", "other"])?;
    let actual = resources::type_matching(one.as_ref(), other.as_ref());
    same("expected", &case.expect.take("expected")?.as_u64(), &Some(actual))
}

fn fit_score(case: &mut Case<'_>) -> Result<(), Stop> {
    let receiver = maybe(&mut case.input, "receiver")?;
    // What is fitted stands among the answers.
    let fit = maybe(&mut case.expect, "fit")?;
    let actual = resources::fit_score(receiver.as_ref(), fit.as_ref());
    expect_number(&mut case.expect, "expected", actual)
}

/// Whether a queue may have more, of quantities.
fn fits(
    case: &mut Case<'_>,
    test: impl Fn(Option<&Resource>, Option<&Resource>) -> bool,
) -> Result<(), Stop> {
    let mut amounts = |name| -> Result<Maybe, Stop> {
        let Some(value) = case.input.maybe(name) else { return Ok(None) };
        let wrong = |kind| format!("{name}: {kind}");
        Ok(Some(resources::from_configuration(&quantities(name, value)?).map_err(wrong)?))
    };
    let (quota, used, change) = (amounts("quota")?, amounts("used")?, amounts("change")?);
    let wanted = resources::add_existing(change.as_ref(), used.as_ref());
    expect_truth(&mut case.expect, "want", test(quota.as_ref(), wanted.as_ref()))
}

/// Rows on shares of a total; `None` for others.
fn with_total(case: &mut Case<'_>) -> Option<Result<(), Stop>> {
    Some(match case.function {
        "TestGetFairShare" => fair_share(case),
        "TestGetShares" => (|| {
            let (own, total) = sides(&mut case.input, ["res", "total"])?;
            let expected = shares(&mut case.expect, "expected")?;
            same("expected", &expected, &resources::shares(own.as_ref(), total.as_ref()))
        })(),
        "TestCompareShares" => (|| {
            let one = shares(&mut case.input, "left")?;
            let other = shares(&mut case.input, "right")?;
            let actual = resources::compare_shares(&one, &other);
            expect_order(&mut case.expect, "expected", actual)
        })(),
        "TestCompUsageRatio" | "TestCompUsageRatioSpecificTypes" => (|| {
            let (one, other) = sides(&mut case.input, ["left", "right"])?;
            let (total, ask) = sides(&mut case.input, ["total", "ask"])?;
            let (one, other, total) = (one.as_ref(), other.as_ref(), total.as_ref());
            let actual = if case.function == "TestCompUsageRatio" {
                resources::compare_usage(one, other, total)
            } else {
                resources::compare_usage_of(one, other, total, ask.as_ref())
            };
            expect_order(&mut case.expect, "expected", actual)
        })(),
        "TestFairnessRatio" => fairness(case),
        "TestCompUsageRatioSeparately" => (|| {
            let mut own = |names: [&'static str; 3]| -> Result<f64, Stop> {
                let (used, guaranteed) = sides(&mut case.input, [names[0], names[1]])?;
                let most = maybe(&mut case.input, names[2])?;
                Ok(resources::fair_share(used.as_ref(), guaranteed.as_ref(), most.as_ref()))
            };
            let one = own(["leftAllocated", "leftGuaranteed", "leftFairMax"])?;
            let other = own(["rightAllocated", "rightGuaranteed", "rightFairMax"])?;
            expect_order(&mut case.expect, "expectedRatio", one.total_cmp(&other))
        })(),
        "TestResource_DominantResource" => (|| {
            let (used, capacity) = sides(&mut case.input, ["used", "capacity"])?;
            let actual = resources::dominant_type(used.as_ref(), capacity.as_ref());
            same("wantName", &case.expect.text_or_empty("wantName")?, &actual.as_str())
        })(),
        _ => return None,
    })
}

fn fair_share(case: &mut Case<'_>) -> Result<(), Stop> {
    let (allocated, guaranteed) = sides(&mut case.input, ["allocated", "guaranteed"])?;
    let most = maybe(&mut case.input, "fairmax")?;
    let actual = resources::fair_share(allocated.as_ref(), guaranteed.as_ref(), most.as_ref());
    expect_number(&mut case.expect, "expected", actual)
}

fn fairness(case: &mut Case<'_>) -> Result<(), Stop> {
    let (one, other) = sides(&mut case.input, ["left", "right"])?;
    let total = maybe(&mut case.input, "total")?;
    let actual = resources::fairness_ratio(one.as_ref(), other.as_ref(), total.as_ref());
    expect_truth(&mut case.expect, "expectedIsInf", actual.is_infinite())?;
    let sign = case.expect.integer("expectedInfSign")?.unwrap_or(0);
    if actual.is_infinite() {
        case.expect.pass(&["expectedRatio"]);
        return same("expectedInfSign", &sign, &(actual.signum() as i64));
    }
    expect_number(&mut case.expect, "expectedRatio", actual)
}

/// The queues of a row: two children of a parent below the root.
const QUEUES: [(&str, &str); 4] = [
    ("root", "root"),
    ("parent", "root.parent"),
    ("childQ1", "root.parent.childQ1"),
    ("childQ2", "root.parent.childQ2"),
];

/// Amounts that are left to queues, whoever of them asks.
fn guarantees(
    case: &mut Case<'_>,
    left: impl Fn(&Guarantees, &str) -> Maybe,
    asks: &[Option<&str>],
) -> Result<(), Stop> {
    let guaranteed = by_queue(&mut case.input, "guaranteed")?;
    let allocated = by_queue(&mut case.input, "allocated")?;
    let queues = Queues::new(QUEUES.map(|(name, path)| QueueState {
        path: path.into(),
        parent: path.rsplit_once('.').map(|(parent, _)| parent.into()),
        guaranteed: guaranteed.get(name).cloned(),
        allocated: allocated.get(name).cloned(),
        ..QueueState::default()
    }));
    let expected = by_queue(&mut case.expect, "remaining")?;
    let mut all = expected.keys().chain(guaranteed.keys()).chain(allocated.keys());
    if let Some(other) = all.find(|own| QUEUES.iter().all(|(name, _)| name != *own)) {
        return Err(Stop::Bad(format!("{other}: is not known")));
    }
    let mut compared = Ok(());
    for &ask in asks {
        let own = Guarantees::new(&queues, ask);
        compared = QUEUES.iter().try_for_each(|(name, path)| {
            let (expected, actual) = (expected.get(name), left(&own, path));
            // A queue that the row does not name has nothing left.
            if resources::equal_or_zero(expected, actual.as_ref()) {
                return Ok(());
            }
            same(name, &expected, &actual.as_ref())
        });
        if compared.is_ok() {
            break;
        }
    }
    compared
}

/// The order of victims by what they have of an ask.
fn victims(case: &mut Case<'_>) -> Result<(), Stop> {
    let (total, ask) = sides(&mut case.input, ["total", "ask"])?;
    let (total, ask) = (total.as_ref(), ask.as_ref());
    let mut victims = Vec::new();
    for value in case.input.list("victims")? {
        let mut own = Fields::new("victim", value)?;
        let (key, allocated) = (own.text("key")?, maybe(&mut own, "allocated")?);
        own.end()?;
        victims.push((key, resources::type_matching(allocated.as_ref(), ask), allocated));
    }
    victims.sort_by(|a, b| {
        let usage = resources::compare_usage_of(a.2.as_ref(), b.2.as_ref(), total, ask);
        b.1.cmp(&a.1).then(usage).then(a.0.cmp(b.0))
    });
    let keys: Vec<&str> = victims.iter().map(|own| own.0).collect();
    case.expect.take("expectedVictims")?;
    same("expectedVictims", &case.expect.texts("expectedVictims")?, &keys)
}

/// Whether two tables of resources have the same keys with the same amounts.
fn tracked(case: &mut Case<'_>) -> Result<(), Stop> {
    let input = &mut case.input;
    let (one, other) =
        nested(input, |input| Ok((by_queue(input, "base")?, by_queue(input, "compare")?)))?;
    let equal = one.len() == other.len()
        && one.iter().all(|(name, own)| {
            other.get(name).is_some_and(|other| resources::equal(Some(own), Some(other)))
        });
    expect_truth(&mut case.expect, "expected", equal)
}
