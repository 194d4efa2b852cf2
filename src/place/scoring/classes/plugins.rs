//! All plugins of a framework with domain reach, prepared for one pod shape.

use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

use super::partition::Partitions;
use super::plugin::ClassedPlugin;
use crate::framework::counters::Counter;
use crate::framework::prepared::{AdmittedRows, AnyPrepared, Plugin};
use crate::framework::{Context, CountedPods, Declaration, Grain, Reach, ScorePreparation};
use crate::model::PodShape;
use crate::place::scoring::changes::{ChangeLog, PodEvents};
use crate::place::scoring::view::View;
use crate::state::journal::NodeChange;
use crate::state::{Cluster, PlacedPods, Row};

/// Nodes that plugins read beside the one they judge, by declaration.
#[derive(Debug, Default)]
struct NodeReads {
    /// Anything.
    all: bool,
    /// Labels: nodes with equal values belong together.
    keys: Vec<String>,
    /// Labels of namespaces.
    namespaces: bool,
}

impl NodeReads {
    fn add(&mut self, declaration: &Declaration) {
        match &declaration.reach {
            Reach::Cluster => (self.all, self.namespaces) = (true, true),
            Reach::Domain(keys) => self.keys.extend_from_slice(keys),
            Reach::Static | Reach::Node => {}
        }
        self.all |= declaration.reads_nodes;
        self.namespaces |= declaration.reads_affinity;
        for counter in &declaration.counters {
            self.keys.push(counter.key.clone());
            self.namespaces |= matches!(counter.pods, CountedPods::Repelling);
        }
    }

    /// Whether a change of one node can change answers for others.
    fn concerns(&self, cluster: &Cluster, change: NodeChange) -> bool {
        self.all
            || change.has(NodeChange::ADDED)
            || change.has(NodeChange::REMOVED)
            || self
                .keys
                .iter()
                .filter_map(|key| cluster.label_key(key))
                .any(|key| change.label(key))
    }
}

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
    /// How many changes of nodes are accounted for, and of namespaces.
    nodes: u64,
    namespaces: u64,
    reads: NodeReads,
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
        changes: &ChangeLog,
    ) -> Option<ClassedPlugins> {
        let mut all = ClassedPlugins {
            stages: Vec::new(),
            complete,
            rows: AdmittedRows::default(),
            cursor: changes.pods.end(),
            history: changes.pods.history(),
            nodes: changes.nodes_end(),
            namespaces: changes.namespaces(),
            reads: NodeReads::default(),
            layout: 0,
            indices: 0,
        };
        for plugin in plugins {
            all.add(plugin, shape, view, (partitions, &changes.placed))?;
        }
        Some(all)
    }

    fn add(
        &mut self,
        plugin: Plugin,
        shape: &Arc<PodShape>,
        view: View<'_>,
        (partitions, placed): (&mut Partitions, &PlacedPods),
    ) -> Option<()> {
        let View { framework, cluster, .. } = view;
        let declaration = plugin.declare(framework, shape);
        if !declaration.is_cacheable() || !declaration.grained {
            return None;
        }
        self.reads.add(&declaration);
        let counters = Counter::of_declaration(&declaration, cluster, shape);
        let kept = Some(placed);
        let cx = Context { counters: &counters, kept, ..Context::new(cluster, shape) };
        let prepared = match plugin {
            Plugin::Filter(index) => {
                let preparation = framework.prepare_filter(index, &cx);
                self.rows.add(index, preparation).map(AnyPrepared::Filter)
            }
            Plugin::Score(index) => match framework.prepare_score(index, &cx) {
                ScorePreparation::Ready(prepared) => Some(AnyPrepared::Score(prepared)),
                // A score that is the same for every node decides nothing.
                ScorePreparation::Skip | ScorePreparation::Constant(_) => None,
            },
        };
        let Some(prepared) = prepared else { return Some(()) };
        let ready = (prepared, counters);
        self.stages.push(ClassedPlugin::new(plugin, shape, &declaration, ready, view, partitions)?);
        Some(())
    }

    /// Takes in what has changed of nodes and namespaces; false if what is prepared is void, or
    /// the pods that came and went are not all known, or too many.
    pub(crate) fn follow_nodes(&mut self, cluster: &Cluster, changes: &ChangeLog) -> bool {
        let namespaces = changes.namespaces() == self.namespaces || !self.reads.namespaces;
        let nodes = changes.nodes_since(self.nodes).filter(|_| namespaces);
        let pods = changes.pods.reach(self.history, self.cursor)
            && changes.pods.end() - self.cursor <= self.most_events(cluster);
        let Some(events) = nodes.filter(|_| pods) else { return false };
        let told_apart = |change: NodeChange| {
            let mut keys = self.stages.iter().flat_map(|stage| &stage.grain().keys);
            keys.any(|key| change.label(*key))
        };
        let concerns = |change| self.reads.concerns(cluster, change) || told_apart(change);
        if events.iter().any(|event| concerns(event.change)) {
            return false;
        }
        for event in events {
            self.stages.iter_mut().for_each(|stage| stage.forget_row(Row::from(event.row)));
        }
        (self.nodes, self.namespaces) = (changes.nodes_end(), changes.namespaces());
        true
    }

    /// How many pods that came or went are followed: with more, to prepare anew costs less.
    fn most_events(&self, cluster: &Cluster) -> u64 {
        let dear = self.stages.iter().any(ClassedPlugin::is_dear);
        let asked = if dear { cluster.rows() / 2 } else { 0 };
        ((cluster.rows() + cluster.pod_count()) / 64 + asked).max(256) as u64
    }

    /// Whether a score is evaluated row by row.
    pub(crate) fn has_fine_scores(&self) -> bool {
        let is_score = |stage: &ClassedPlugin| matches!(stage.plugin, Plugin::Score(_));
        self.stages.iter().any(|stage| stage.is_fine() && is_score(stage))
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
