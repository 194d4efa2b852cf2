//! Rows of Volcano's tables: arithmetic, shares of queues, and when a gang is ready.

use std::collections::{BTreeMap, BTreeSet};

use crate::sessions::volcano::{Readiness, TaskStatus};
use phalanx::quota::volcano::{Attributes, Missing, Resources};
use serde_json::Value;

use super::super::systems::Case;
use super::super::tenants::fields::Fields;
use super::super::tenants::{Stop, same};
use super::amounts::{number, of_table};
use super::left_out;

/// The fields of a row.
struct Row<'r, 'a>(&'r mut Fields<'a>);

impl<'a> Row<'_, 'a> {
    /// Amounts; `None` if they are absent.
    fn maybe(&mut self, name: &'a str) -> Result<Option<Resources>, Stop> {
        Ok(self.0.maybe(name).map(|value| of_table(name, value)).transpose()?)
    }

    fn amounts(&mut self, name: &'a str) -> Result<Resources, Stop> {
        Ok(of_table(name, self.0.take(name)?)?)
    }

    /// The two sides of a comparison.
    fn pair(&mut self) -> Result<(Resources, Resources), Stop> {
        Ok((self.amounts("resource1")?, self.amounts("resource2")?))
    }

    fn number(&mut self, name: &'a str) -> Result<f64, Stop> {
        Ok(number(name, self.0.take(name)?)?)
    }

    fn integer(&mut self, name: &'a str) -> Result<i64, Stop> {
        Ok(self.0.integer(name)?.ok_or_else(|| format!("{name}: is required"))?)
    }
}

fn set<'a>(names: impl IntoIterator<Item = &'a str>) -> BTreeSet<String> {
    names.into_iter().map(Into::into).collect()
}

/// Names that the answer lists, in any order.
fn expect_names<'a>(expect: &mut Fields<'a>, field: &'a str, actual: &[&str]) -> Result<(), Stop> {
    expect.take(field)?;
    same(field, &set(expect.texts(field)?), &set(actual.iter().copied()))
}

fn expect_truth<'a>(expect: &mut Fields<'a>, field: &'a str, actual: bool) -> Result<(), Stop> {
    expect.take(field)?;
    same(field, &expect.flag(field)?, &actual)
}

fn expect_amounts<'a>(
    expect: &mut Fields<'a>,
    field: &'a str,
    actual: &Resources,
) -> Result<(), Stop> {
    same(field, &of_table(field, expect.take(field)?)?, actual)
}

/// Compares one row.
pub(super) fn compare(case: &mut Case<'_>) -> Result<(), Stop> {
    let (name, missing) = match case.function.rsplit_once("/testsForDefault") {
        Some((name, "Zero")) => (name, Missing::Zero),
        Some((name, "Infinity")) => (name, Missing::Infinity),
        Some(_) => return Err(Stop::Bad(format!("{}: is not known", case.function))),
        None => (case.function, Missing::Zero),
    };
    let (mut input, expect) = (Row(&mut case.input), &mut case.expect);
    let truth = |expect: &mut Fields<'_>, actual| expect_truth(expect, "expected", actual);
    match name {
        "TestResourceAddScalar" => {
            let mut amounts = input.amounts("resource")?;
            let name = input.0.text("scalarName")?;
            amounts.add_scalar(name, input.number("scalarQuantity")?);
            expect_amounts(expect, "expected", &amounts)
        }
        "TestSetMaxResource" | "TestAddResource" | "TestSubResource" => {
            let (mut one, other) = input.pair()?;
            match name {
                "TestSetMaxResource" => one.raise_to(&other),
                "TestAddResource" => one.add(&other),
                _ => one.subtract(&other),
            }
            expect_amounts(expect, "expected", &one)
        }
        "TestIsZero" => {
            let amounts = input.amounts("resource")?;
            truth(expect, amounts.is_zero(input.0.text("resourceName")?))
        }
        "TestDiff" => {
            let (one, other) = input.pair()?;
            let (more, less) = one.difference(&other, missing);
            expect_amounts(expect, "expectedIncreased", &more)?;
            expect_amounts(expect, "expectedDecreased", &less)
        }
        "TestLess" | "TestLessEqual" | "TestLessPartly" | "TestLessEqualPartly" | "TestEqual" => {
            let (one, other) = input.pair()?;
            let actual = match name {
                "TestLess" => one.less(&other, missing),
                "TestLessEqual" => one.less_equal(&other, missing),
                "TestLessPartly" => one.less_partly(&other, missing),
                "TestLessEqualPartly" => one.less_equal_partly(&other, missing),
                _ => one.equals(&other),
            };
            truth(expect, actual)
        }
        "TestResource_LessEqualResource" => {
            let (one, other) = input.pair()?;
            expect_names(expect, "expected", &one.exceeding(&other, missing))
        }
        "TestLessEqualWithDimensionAndResourcesName" => {
            let one = input.maybe("resource1")?.unwrap_or_default();
            let other = input.maybe("resource2")?;
            let request = input.maybe("req")?;
            // Nothing is within what was never set.
            let exceeding = match &other {
                Some(other) => one.exceeding_of(other, request.as_ref()),
                None => one.names(),
            };
            expect_truth(expect, "expectedFlag", exceeding.is_empty())?;
            expect_names(expect, "expectedResourceNames", &exceeding)
        }
        "TestLessEqualPartlyWithDimension"
        | "TestLessEqualPartlyWithDimensionZeroFiltered"
        | "TestGreaterPartlyWithDimension"
        | "TestGreaterPartlyWithRelevantDimensions" => {
            let one = input.maybe("r")?.unwrap_or_default();
            let other = input.maybe("rr")?.unwrap_or_default();
            // Nothing is asked for.
            let request = input.maybe("req")?.unwrap_or_default();
            let names = match name {
                "TestLessEqualPartlyWithDimension" => one.within_of(&other, &request),
                "TestLessEqualPartlyWithDimensionZeroFiltered" => {
                    one.within_of_any(&other, &request)
                }
                "TestGreaterPartlyWithDimension" => one.beyond_of(&other, &request),
                _ => one.beyond_of_named(&other, &request),
            };
            expect_truth(expect, "wantBool", !names.is_empty())?;
            expect_names(expect, "wantNames", &names)
        }
        "TestMinDimensionResourceZero" | "TestMinDimensionResourceInfinity" => {
            let (mut one, other) = input.pair()?;
            let infinite = name.ends_with("Infinity");
            one.bound_by(&other, if infinite { Missing::Infinity } else { Missing::Zero });
            expect_amounts(expect, "expected", &one)
        }
        "TestResource_GreaterPartly" => {
            let (child, parent) = (input.amounts("child")?, input.amounts("parent")?);
            let exceeding = child.exceeding(&parent, Missing::Infinity);
            expect_truth(expect, "expectedExceeds", !exceeding.is_empty())?;
            expect_names(expect, "expectedResources", &exceeding)
        }
        "TestIntersection" | "TestIntersectionWithIgnoredScalarResources" => {
            let (one, other) = (input.amounts("r1")?, input.amounts("r2")?);
            let common = match name {
                "TestIntersection" => one.common(&other),
                _ => one.common_but_pods(&other),
            };
            expect_names(expect, "want", &common)
        }
        "TestSaturatingAdd" | "TestSaturatingMul" => {
            let (a, b) = (input.integer("a")?, input.integer("b")?);
            let add = name == "TestSaturatingAdd";
            let actual = if add { a.saturating_add(b) } else { a.saturating_mul(b) };
            let expected = expect.integer("want")?.ok_or("want: is required")?;
            same("want", &expected, &actual)
        }
        "Test_updateQueueAttrShare" => {
            let (deserved, allocated) = (input.amounts("deserved")?, input.amounts("allocated")?);
            let request = input.amounts("request")?;
            let queue = Attributes { deserved, allocated, request, ..Attributes::new("q") };
            let expected = number("wantShare", expect.take("wantShare")?)?;
            same("wantShare", &expected, &queue.configured_share())
        }
        "TestSubJobInfo_IsPipelined" | "TestSubJobInfo_IsReady" => {
            let readiness = readiness(input.0.take("sji")?)?;
            let ready = name == "TestSubJobInfo_IsReady";
            truth(expect, if ready { readiness.is_ready() } else { readiness.is_pipelined() })
        }
        // What an object is told of itself, which decides nothing.
        "TestParseMinMemberInfoChanged" | "TestShouldSkipUnschedulableForReleasing" => {
            Err(left_out("volcano-status"))
        }
        _ => Err(Stop::Bad(format!("{name}: is not known"))),
    }
}

fn status(code: Option<i64>) -> Result<TaskStatus, Stop> {
    let code = code.ok_or("a status without a number")?;
    Ok(TaskStatus::from_code(code).ok_or_else(|| format!("{code}: is no status"))?)
}

fn readiness(value: &Value) -> Result<Readiness, Stop> {
    let mut fields = Fields::new("sji", value)?;
    let minimum = fields.integer("MinAvailable")?.unwrap_or(0);
    let mut readiness = Readiness::new(minimum as i32);
    let tasks: BTreeMap<&str, &Value> = fields.entries("Tasks")?.into_iter().collect();
    for (code, tasks) in fields.entries("TaskStatusIndex")? {
        let status = status(code.parse().ok())?;
        for task in tasks.as_object().ok_or("tasks: is no object")?.values() {
            let mut task = Fields::new("task", task)?;
            let best_effort = task.flag("BestEffort")?;
            task.pass(&["UID", "Name", "Resreq", "InitResreq"]);
            task.end()?;
            readiness.add(status, best_effort);
        }
    }
    // What is in no status does not count.
    drop(tasks);
    fields.end()?;
    Ok(readiness)
}
