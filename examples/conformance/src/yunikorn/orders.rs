//! Orders of queues and applications.

use crate::sessions::yunikorn::{sort_applications, sort_queues};
use phalanx::quota::yunikorn::{ApplicationStanding, QueueStanding, SortPolicy};

use super::super::systems::Case;
use super::super::tenants::fields::Fields;
use super::super::tenants::{Stop, same};
use super::amounts::{maybe, priority};

fn policy(input: &mut Fields<'_>) -> Result<SortPolicy, Stop> {
    let fair = match input.text("policy")? {
        "fair" => true,
        "fifo" => false,
        policy => return Err(Stop::Bad(format!("policy: {policy:?} is not known"))),
    };
    Ok(SortPolicy { fair, by_priority: input.flag("consider_priority")? })
}

fn expect_order(case: &mut Case<'_>, actual: &[&str]) -> Result<(), Stop> {
    case.expect.take("order")?;
    same("order", &case.expect.texts("order")?, &actual.to_vec())
}

/// Siblings by their shares.
pub(super) fn queues(case: &mut Case<'_>) -> Result<(), Stop> {
    let policy = policy(&mut case.input)?;
    let mut queues = Vec::new();
    for value in case.input.list("queues")? {
        let mut own = Fields::new("queue", value)?;
        let standing = QueueStanding {
            name: own.text("name")?.into(),
            allocated: maybe(&mut own, "allocated")?,
            guaranteed: maybe(&mut own, "guaranteed")?,
            pending: maybe(&mut own, "pending")?,
            priority: priority(&mut own, "priority")?,
        };
        queues.push((standing, maybe(&mut own, "fair_max")?));
        own.end()?;
    }
    let sorted = sort_queues(policy, queues);
    let names: Vec<&str> = sorted.iter().map(|own| own.name.as_str()).collect();
    expect_order(case, &names)
}

/// Applications of a leaf.
pub(super) fn applications(case: &mut Case<'_>) -> Result<(), Stop> {
    let policy = policy(&mut case.input)?;
    let total = maybe(&mut case.input, "total")?;
    let mut applications = Vec::new();
    for value in case.input.list("applications")? {
        let mut own = Fields::new("application", value)?;
        applications.push(ApplicationStanding {
            id: own.text("id")?.into(),
            allocated: maybe(&mut own, "allocated")?,
            pending: maybe(&mut own, "pending")?,
            priority: priority(&mut own, "ask_max_priority")?,
            submitted: own.integer("submission_time")?.unwrap_or(0),
        });
        own.end()?;
    }
    let sorted = sort_applications(policy, applications, total.as_ref());
    let names: Vec<&str> = sorted.iter().map(|own| own.id.as_str()).collect();
    expect_order(case, &names)
}
