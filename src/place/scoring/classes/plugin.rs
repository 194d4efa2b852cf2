//! One plugin that reads beyond the node, asked once a class of rows.

use alloc::sync::Arc;
use alloc::vec::Vec;

use smallvec::SmallVec;

use super::partition::{Partition, Partitions};
use super::pod_events::PodEvent;
use crate::framework::counters::Counter;
use crate::framework::{Context, Declaration, Feasible, Framework, Grain, Prepared, Score};
use crate::model::PodShape;
use crate::state::{Cluster, NodeView, Overlay, Row};

/// A filter or a score, by its place in the framework.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Plugin {
    Filter(usize),
    Score(usize),
}

/// What there is to look at.
#[derive(Clone, Copy)]
pub(crate) struct View<'a> {
    pub(crate) framework: &'a Framework,
    pub(crate) cluster: &'a Cluster,
    pub(crate) overlay: &'a Overlay,
    pub(crate) shape: &'a PodShape,
}

impl<'a> View<'a> {
    pub(crate) fn context<'b>(self, prepared: &'b Prepared, counters: &'b [Counter]) -> Context<'b>
    where
        'a: 'b,
    {
        Context { prepared, counters, kept: true, ..Context::new(self.cluster, self.shape) }
    }
}

/// A plugin at work for one shape, with its answers by class.
#[derive(Debug)]
pub(crate) struct ClassedPlugin {
    pub(crate) plugin: Plugin,
    prepared: Prepared,
    counters: Vec<Counter>,
    pub(crate) reads_feasible: bool,
    ignores_deleting: bool,
    /// Of which field, and as of which state of it, the feasible rows were told.
    pub(crate) considered: (u64, u64),
    grain: Grain,
    /// One a key of the grain.
    keys: SmallVec<[Arc<Partition>; 2]>,
    pub(crate) column: Arc<Partition>,
    /// By class: as of which version it was given, and the answer.
    answers: Vec<(u64, i64)>,
    /// Grows when all answers become stale.
    pub(crate) version: u64,
    /// The classes whose answers became stale since the version began.
    pub(crate) stale: Vec<u32>,
    pub(crate) calls: u64,
}

/// The answer of a filter that lets the pod in.
pub(crate) const PASS: i64 = 1;

impl ClassedPlugin {
    /// `None` if the plugin promises nothing.
    pub(crate) fn new(
        plugin: Plugin,
        declaration: &Declaration,
        prepared: Prepared,
        counters: Vec<Counter>,
        sight: View<'_>,
        columns: &mut Partitions,
    ) -> Option<ClassedPlugin> {
        let mut stage = ClassedPlugin {
            plugin,
            prepared,
            counters,
            reads_feasible: declaration.reads_feasible,
            ignores_deleting: declaration.ignores_deleting,
            considered: (0, 0),
            grain: Grain::default(),
            keys: SmallVec::new(),
            column: Arc::default(),
            answers: Vec::new(),
            version: 0,
            stale: Vec::new(),
            calls: 0,
        };
        let grain = stage.ask_grain(sight)?;
        stage.lay_out(grain, sight.cluster, columns);
        Some(stage)
    }

    fn ask_grain(&self, sight: View<'_>) -> Option<Grain> {
        let cx = sight.context(&self.prepared, &self.counters);
        match self.plugin {
            Plugin::Filter(plugin) => sight.framework.filters()[plugin].grain(&cx),
            Plugin::Score(plugin) => sight.framework.scores()[plugin].1.grain(&cx),
        }
    }

    fn lay_out(&mut self, grain: Grain, cluster: &Cluster, columns: &mut Partitions) {
        self.keys = grain.keys.iter().map(|key| columns.of_labels(cluster, &[*key])).collect();
        self.column = columns.of_grain(cluster, &grain);
        self.grain = grain;
        self.answers.clear();
        self.answers.resize(self.column.classes(), (0, 0));
        self.forget_all();
    }

    /// Makes all answers stale.
    fn forget_all(&mut self) {
        self.version += 1;
        self.stale.clear();
    }

    fn forget(&mut self, class: usize) {
        if self.answers[class].0 == self.version {
            self.answers[class].0 = 0;
            self.stale.push(class as u32);
        }
    }

    /// How finely rows are told apart.
    pub(crate) fn grain(&self) -> &Grain {
        &self.grain
    }

    /// Whether there are nearly as many classes as rows.
    #[inline]
    pub(crate) fn is_fine(&self) -> bool {
        self.column.is_fine()
    }

    /// Takes in that a pod came to a row, or left it. Returns whether rows are told apart by other
    /// labels now.
    pub(crate) fn change(
        &mut self,
        sight: View<'_>,
        columns: &mut Partitions,
        event: &PodEvent,
    ) -> bool {
        let PodEvent { row, ref shape, deleting, came } = *event;
        let (row, placed) = (row as Row, &**shape);
        let Some(node) = sight.overlay.view(sight.cluster, row) else { return false };
        let sign = if came { 1 } else { -1 };
        for counter in &mut self.counters {
            counter.change(placed, node, sight.shape, sign);
        }
        let mut prepared = core::mem::take(&mut self.prepared);
        let cx = sight.context(&Prepared::NONE, &self.counters);
        let framework = sight.framework;
        match (self.plugin, came) {
            _ if deleting && self.ignores_deleting => {}
            (Plugin::Filter(plugin), true) => {
                framework.filters()[plugin].take(&mut prepared, &cx, placed, node);
            }
            (Plugin::Filter(plugin), false) => {
                framework.filters()[plugin].undo(&mut prepared, &cx, placed, node);
            }
            (Plugin::Score(plugin), true) => {
                framework.scores()[plugin].1.take(&mut prepared, &cx, placed, node);
            }
            (Plugin::Score(plugin), false) => {
                framework.scores()[plugin].1.undo(&mut prepared, &cx, placed, node);
            }
        }
        self.prepared = prepared;
        let moved = self.regrain(sight, columns);
        if !moved {
            self.forget_sharers(row);
        }
        moved
    }

    /// Asks how finely nodes are told apart now. Returns whether by other labels.
    fn regrain(&mut self, sight: View<'_>, columns: &mut Partitions) -> bool {
        // Who promised before and does not now is asked again about every node.
        let grain = self
            .ask_grain(sight)
            .unwrap_or_else(|| Grain::default().each().epoch(self.grain.epoch.wrapping_add(1)));
        if grain == self.grain {
            return false;
        }
        if grain.keys == self.grain.keys && grain.each == self.grain.each {
            self.grain.epoch = grain.epoch;
            self.forget_all();
            return false;
        }
        self.lay_out(grain, sight.cluster, columns);
        true
    }

    /// Makes the answers stale that a pod on a row concerns.
    fn forget_sharers(&mut self, row: Row) {
        if self.stale.len() > 4 * self.answers.len() + 64 {
            self.forget_all();
            return;
        }
        match (&*self.keys, self.grain.each) {
            ([], false) => {}
            ([], true) => self.forget(row),
            // Class 0 lacks the label, and shares nothing.
            ([key], false) if key.class(row) == 0 => {}
            ([key], false) => self.forget(key.class(row)),
            _ => {
                for class in 0..self.column.classes() {
                    let Some(other) = self.column.first(class) else { continue };
                    let shares = |key: &Arc<Partition>| {
                        key.class(row) != 0 && key.class(row) == key.class(other)
                    };
                    if self.grain.each && other == row || self.keys.iter().any(shares) {
                        self.forget(class);
                    }
                }
            }
        }
    }

    /// Tells the plugin which nodes are feasible, each row for as many as `counts` says.
    pub(crate) fn consider(&mut self, sight: View<'_>, rows: &[Row], counts: &[u32]) {
        let Plugin::Score(plugin) = self.plugin else { return };
        let mut prepared = core::mem::take(&mut self.prepared);
        let cx = sight.context(&Prepared::NONE, &self.counters);
        let feasible = Feasible::classes(sight.cluster, rows, counts);
        sight.framework.scores()[plugin].1.consider(&mut prepared, &cx, &feasible);
        self.prepared = prepared;
        if let Some(grain) = self.ask_grain(sight)
            && grain.epoch != self.grain.epoch
        {
            self.grain.epoch = grain.epoch;
            self.forget_all();
        }
    }

    /// What the plugin says of the nodes of a class.
    #[inline]
    pub(crate) fn answer(&mut self, sight: View<'_>, class: usize) -> i64 {
        let (version, answer) = self.answers[class];
        if version == self.version { answer } else { self.ask(sight, class) }
    }

    fn ask(&mut self, sight: View<'_>, class: usize) -> i64 {
        let node = self.column.first(class).and_then(|row| sight.overlay.view(sight.cluster, row));
        let answer = node.map_or(0, |node| self.call(sight, node));
        self.calls += 1;
        self.answers[class] = (self.version, answer);
        answer
    }

    fn call(&self, sight: View<'_>, node: NodeView<'_>) -> i64 {
        let cx = sight.context(&self.prepared, &self.counters);
        match self.plugin {
            Plugin::Filter(plugin) => {
                i64::from(sight.framework.filters()[plugin].filter(&cx, node).passes())
            }
            Plugin::Score(plugin) => sight.framework.scores()[plugin].1.score(&cx, node),
        }
    }

    /// The weight and the plugin; `None` for a filter.
    #[inline]
    pub(crate) fn score(framework: &Framework, plugin: Plugin) -> Option<(i64, &dyn Score)> {
        match plugin {
            Plugin::Filter(_) => None,
            Plugin::Score(plugin) => {
                let (weight, score) = &framework.scores()[plugin];
                Some((*weight, &**score))
            }
        }
    }
}
