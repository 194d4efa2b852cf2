//! Entry points of the sequential strategy: over score tables where they apply, else by the
//! reference engine.

use super::reference::ReferenceEngine;
use super::tables::{Opened, TableEngine};
use super::{Engine, Sequential, refuse_unsound};
use crate::place::cache::Caches;
use crate::place::error::PlaceError;
use crate::place::layout::Layout;
use crate::place::outcome::Answer;
use crate::place::request::Task;

/// The answer of the sequential strategy.
pub(crate) fn place(task: Task<'_>, caches: &mut Caches) -> Result<Answer, PlaceError> {
    Ok(answer(task, attempt(task, caches)?))
}

/// The same by the reference engine, every candidate domain tried in full.
pub(crate) fn reference(task: Task<'_>) -> Result<Answer, PlaceError> {
    let layout = run(task, reference_engine(task), false)?;
    Ok(answer(task, layout))
}

/// The layout that the sequential strategy finds, if it finds one.
pub(crate) fn attempt(task: Task<'_>, caches: &mut Caches) -> Result<Option<Layout>, PlaceError> {
    let Task { cluster, framework, gang, request } = task;
    let prune = caches.prune;
    match TableEngine::open(&mut caches.tables, cluster, framework, gang, request) {
        Opened::Fast(engine) => run(task, engine, prune),
        Opened::Unsupported => run(task, reference_engine(task), prune),
        Opened::TooFew => refuse_unsound(cluster, gang.group()).map(|()| None),
    }
}

fn reference_engine(task: Task<'_>) -> ReferenceEngine<'_> {
    ReferenceEngine::new(task.cluster, task.framework, task.gang, task.request)
}

fn run(task: Task<'_>, engine: impl Engine, prune: bool) -> Result<Option<Layout>, PlaceError> {
    let rows = task.request.rows(task.cluster);
    let mut layout = Layout::default();
    let mut sequential = Sequential { framework: task.framework, ground: engine, prune };
    let fits = sequential.place(task.gang, task.group(), 0, rows.as_deref(), &mut layout)?;
    Ok((fits && !layout.members.is_empty()).then_some(layout))
}

fn answer(task: Task<'_>, layout: Option<Layout>) -> Answer {
    layout.map_or_else(|| Answer::greedy(task.group().full_name()), Answer::Placed)
}
