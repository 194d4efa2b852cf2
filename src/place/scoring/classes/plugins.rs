//! All plugins of a framework that read beyond the node, made ready for one shape.

use alloc::vec::Vec;

use super::index::ClassIndex;
use super::partition::Partitions;
use super::plugin::{ClassedPlugin, Plugin, View};
use super::pod_events::PodEvents;
use crate::base::RowSet;
use crate::framework::counters::Counter;
use crate::framework::{Context, Grain, Normalization, Preparation, Prepared};

/// What the far plugins say of all nodes for one shape, kept up to date as pods come and go.
#[derive(Debug)]
pub(crate) struct ClassedPlugins {
    pub(crate) stages: Vec<ClassedPlugin>,
    /// Whether the plugins are among them that had nothing to say.
    complete: bool,
    pub(crate) only: Option<RowSet>,
    pub(crate) refused: bool,
    /// How many events are taken in.
    cursor: u64,
    /// Which history the events are of.
    history: u64,
    /// Grows when rows are told apart by other labels.
    pub(crate) layout: u64,
    /// All rows.
    pub(crate) whole: ClassIndex,
    /// Fields made so far.
    pub(crate) fields: u64,
}

impl ClassedPlugins {
    /// Prepares plugins for the shape; `None` if one of them promises nothing.
    ///
    /// Nothing may be placed in the overlay.
    pub(crate) fn prepare(
        plugins: impl Iterator<Item = Plugin>,
        complete: bool,
        sight: View<'_>,
        columns: &mut Partitions,
        events: &PodEvents,
    ) -> Option<ClassedPlugins> {
        let mut company = ClassedPlugins {
            stages: Vec::new(),
            complete,
            only: None,
            refused: false,
            cursor: events.end(),
            history: events.history(),
            layout: 0,
            whole: ClassIndex::default(),
            fields: 0,
        };
        for plugin in plugins {
            company.add(plugin, sight, columns)?;
        }
        Some(company)
    }

    fn add(&mut self, plugin: Plugin, sight: View<'_>, columns: &mut Partitions) -> Option<()> {
        let View { framework, cluster, shape, .. } = sight;
        let declaration = match plugin {
            Plugin::Filter(plugin) => framework.filters()[plugin].declare(shape),
            Plugin::Score(plugin) => framework.scores()[plugin].1.declare(shape),
        };
        if declaration.reads_group || declaration.reads_time || !declaration.grained {
            return None;
        }
        let counters = Counter::of_declaration(&declaration, cluster, shape);
        let cx: Context<'_> = sight.context(&Prepared::NONE, &counters);
        let preparation = match plugin {
            Plugin::Filter(plugin) => framework.filters()[plugin].prepare(&cx),
            Plugin::Score(plugin) => framework.scores()[plugin].1.prepare(&cx),
        };
        let score = ClassedPlugin::score(framework, plugin);
        let prepared = match (preparation, score) {
            (Preparation::Ready(prepared), _) | (Preparation::Narrow(prepared, _), Some(_)) => {
                prepared
            }
            (Preparation::Narrow(prepared, rows), None) => {
                match &mut self.only {
                    Some(only) => only.intersect(&rows),
                    only => *only = Some(rows),
                }
                prepared
            }
            (Preparation::Reject(_), None) => {
                self.refused = true;
                return Some(());
            }
            // A score that is the same for every node decides nothing.
            _ => return Some(()),
        };
        if score.is_some_and(|(_, score)| score.normalization() == Normalization::Own) {
            return None;
        }
        let stage = ClassedPlugin::new(plugin, &declaration, prepared, counters, sight, columns)?;
        self.stages.push(stage);
        Some(())
    }

    /// Whether it can be brought up to date.
    pub(crate) fn is_known(&self, events: &PodEvents) -> bool {
        self.history == events.history() && self.cursor >= events.start()
    }

    /// Takes in what has happened.
    pub(crate) fn follow(&mut self, sight: View<'_>, columns: &mut Partitions, events: &PodEvents) {
        for event in events.since(self.cursor) {
            for stage in &mut self.stages {
                let moved = stage.change(sight, columns, event);
                self.layout += u64::from(moved);
            }
        }
        self.cursor = events.end();
    }

    /// What coarse stages together tell rows apart by.
    pub(crate) fn grain(&self) -> Grain {
        let coarse = || self.stages.iter().filter(|stage| !stage.is_fine());
        let grain = Grain::new(coarse().flat_map(|stage| stage.grain().keys.iter().copied()));
        if coarse().any(|stage| stage.grain().each) { grain.each() } else { grain }
    }

    /// Whether it has the plugins it is asked for; `all`: also those that had nothing to say.
    pub(crate) fn covers(&self, all: bool) -> bool {
        self.complete || !all
    }

    /// Evaluations of a node by a plugin.
    pub(crate) fn calls(&self) -> u64 {
        self.stages.iter().map(|stage| stage.calls).sum()
    }
}
