//! Entry points of the sequential strategy: over score tables where they apply, else by the
//! reference engine.

use alloc::vec::Vec;

use super::claimed::ClaimedEngine;
use super::engine::{Confinement, Engine};
use super::reference::ReferenceEngine;
use super::tables::{Opened, TableEngine};
use super::workspace::Workspace;
use super::{Sequential, refuse_unsound};
use crate::place::error::PlaceError;
use crate::place::layout::{Layout, Member};
use crate::place::outcome::Answer;
use crate::place::request::Task;
use crate::place::topology::tiers::DomainSense;

/// The answer of the sequential strategy.
pub(crate) fn place(task: Task<'_>, workspace: &mut Workspace) -> Result<Answer, PlaceError> {
    Ok(answer(task, attempt(task, workspace)?))
}

/// The same by the reference engine, every candidate domain tried in full.
pub(crate) fn reference(task: Task<'_>) -> Result<Answer, PlaceError> {
    let layout = lay_out(task, reference_engine(task), (false, 1), Vec::new())?;
    Ok(answer(task, layout))
}

/// The layout that the sequential strategy finds, if it finds one.
pub(crate) fn attempt(
    task: Task<'_>,
    workspace: &mut Workspace,
) -> Result<Option<Layout>, PlaceError> {
    let Task { cluster, framework, gang, request } = task;
    let Workspace { caches, run, spare, prune, threads } = workspace;
    let how = (*prune, *threads);
    caches.tables.threads = *threads;
    if gang.bare().is_some()
        && let Some(engine) = ClaimedEngine::open(caches, task)
    {
        return lay_out(task, engine, how, core::mem::take(spare));
    }
    match TableEngine::open(&mut caches.tables, run, cluster, framework, gang, request) {
        Opened::Fast(engine) => lay_out(task, engine, how, core::mem::take(spare)),
        Opened::Unsupported => lay_out(task, reference_engine(task), how, Vec::new()),
        Opened::TooFew => {
            let sense = DomainSense::of(task.strategy());
            refuse_unsound(cluster, sense, gang.group()).map(|()| None)
        }
    }
}

fn reference_engine(task: Task<'_>) -> ReferenceEngine<'_> {
    ReferenceEngine::new(task.cluster, task.framework, task.gang, task.request)
}

/// The layout that an engine finds, in a list of members that is empty.
fn lay_out(
    task: Task<'_>,
    engine: impl Engine,
    (prune, threads): (bool, usize),
    members: Vec<Member>,
) -> Result<Option<Layout>, PlaceError> {
    let Task { cluster, framework, gang, request } = task;
    let rows = request.rows(cluster);
    let within = Confinement::rows(rows.as_deref());
    let mut layout = Layout { members, domains: Vec::new() };
    let sense = DomainSense::of(task.strategy());
    let mut sequential = Sequential { cluster, framework, engine, sense, prune, threads };
    let fits = sequential.place(gang, task.group(), 0, within, &mut layout)?;
    Ok((fits && !layout.members.is_empty()).then_some(layout))
}

fn answer(task: Task<'_>, layout: Option<Layout>) -> Answer {
    layout.map_or_else(|| Answer::greedy(task.group().full_name()), Answer::Placed)
}
