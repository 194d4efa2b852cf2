//! All plugins of a framework with domain reach, prepared for one pod shape.

use alloc::sync::Arc;
use alloc::vec::Vec;

use super::partition::Partitions;
use super::plugin::ClassedPlugin;
use super::pod_events::PodEvents;
use crate::framework::counters::Counter;
use crate::framework::prepared::{AdmittedRows, Plugin, PreparedPlugin, Resolved};
use crate::framework::{Context, Grain, Normalization};
use crate::model::PodShape;
use crate::place::scoring::view::View;

/// The non-local plugins of one shape, kept up to date as pods come and go.
#[derive(Debug)]
pub(crate) struct ClassedPlugins {
    pub(crate) stages: Vec<ClassedPlugin>,
    /// Whether the plugins are among them that skip the shape while no pod has affinity terms.
    complete: bool,
    pub(crate) rows: AdmittedRows,
    /// How many events are accounted for.
    cursor: u64,
    /// The history that the events are of.
    history: u64,
    /// Grows when rows are told apart by other labels.
    pub(crate) layout: u64,
    /// Indices made so far.
    pub(crate) indices: u64,
}

impl ClassedPlugins {
    /// Prepares plugins for the shape; `None` if one of them promises no classes.
    ///
    /// Nothing may be placed in the overlay.
    pub(crate) fn prepare(
        plugins: impl Iterator<Item = Plugin>,
        shape: &Arc<PodShape>,
        complete: bool,
        view: View<'_>,
        partitions: &mut Partitions,
        events: &PodEvents,
    ) -> Option<ClassedPlugins> {
        let mut all = ClassedPlugins {
            stages: Vec::new(),
            complete,
            rows: AdmittedRows::default(),
            cursor: events.end(),
            history: events.history(),
            layout: 0,
            indices: 0,
        };
        for plugin in plugins {
            all.add(plugin, shape, view, partitions)?;
        }
        Some(all)
    }

    fn add(
        &mut self,
        plugin: Plugin,
        shape: &Arc<PodShape>,
        view: View<'_>,
        partitions: &mut Partitions,
    ) -> Option<()> {
        let View { framework, cluster, .. } = view;
        let declaration = plugin.declare(framework, shape);
        if !declaration.is_cacheable() || !declaration.grained {
            return None;
        }
        let counters = Counter::of_declaration(&declaration, cluster, shape);
        let cx = Context { counters: &counters, kept: true, ..Context::new(cluster, shape) };
        let resolved = plugin.prepare(framework, &cx);
        let (index, prepared) = match (plugin, resolved) {
            (Plugin::Filter(index), resolved) => (index, self.rows.add(index, resolved)),
            (Plugin::Score(index), Resolved::Prepared(prepared, _)) => (index, Some(prepared)),
            // A score that is the same for every node decides nothing.
            (Plugin::Score(index), _) => (index, None),
        };
        let Some(prepared) = prepared else { return Some(()) };
        let score = plugin.score(framework);
        if score.is_some_and(|(_, score)| score.normalization() == Normalization::Own) {
            return None;
        }
        let ready = PreparedPlugin { index, prepared, counters };
        self.stages.push(ClassedPlugin::new(plugin, shape, &declaration, ready, view, partitions)?);
        Some(())
    }

    /// Whether it can be brought up to date.
    pub(crate) fn is_known(&self, events: &PodEvents) -> bool {
        self.history == events.history() && self.cursor >= events.start()
    }

    /// Follows the pods that came and went.
    pub(crate) fn follow(
        &mut self,
        view: View<'_>,
        partitions: &mut Partitions,
        events: &PodEvents,
    ) {
        for event in events.since(self.cursor) {
            for stage in &mut self.stages {
                let moved = stage.change(view, partitions, event);
                self.layout += u64::from(moved);
            }
        }
        self.cursor = events.end();
    }

    /// The labels by which coarse plugins together tell rows apart.
    pub(crate) fn grain(&self) -> Grain {
        let coarse = || self.stages.iter().filter(|stage| !stage.is_fine());
        let grain = Grain::new(coarse().flat_map(|stage| stage.grain().keys.iter().copied()));
        if coarse().any(|stage| stage.grain().each) { grain.each() } else { grain }
    }

    /// Whether the plugins are complete; `all`: also those that skip the shape while no pod has
    /// affinity terms.
    pub(crate) fn covers(&self, all: bool) -> bool {
        self.complete || !all
    }

    /// Evaluations of a node by a plugin.
    pub(crate) fn calls(&self) -> u64 {
        self.stages.iter().map(|stage| stage.calls).sum()
    }
}
