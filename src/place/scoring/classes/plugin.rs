//! One plugin with domain reach, evaluated once per class of rows that it cannot tell apart.

use alloc::sync::Arc;
use alloc::vec::Vec;

use smallvec::SmallVec;

use super::partition::{Partition, Partitions};
use crate::framework::counters::Counter;
use crate::framework::prepared::{AnyPrepared, Plugin};
use crate::framework::{Context, Declaration, Feasible, Grain};
use crate::model::PodShape;
use crate::place::scoring::changes::PodEvent;
use crate::place::scoring::view::View;
use crate::state::{Cluster, LabelKey, LabelValue, NodeView, PlacedPods, Row};

/// A plugin prepared for one shape, with its answers by class.
#[derive(Debug)]
pub(crate) struct ClassedPlugin {
    pub(crate) plugin: Plugin,
    shape: Arc<PodShape>,
    prepared: AnyPrepared,
    counters: Vec<Counter>,
    pub(crate) reads_feasible: bool,
    ignores_deleting: bool,
    /// The index, and the state of it, whose feasible rows the plugin has observed.
    pub(crate) observed: (u64, u64),
    grain: Grain,
    /// One a key of the grain.
    keys: SmallVec<[Arc<Partition>; 2]>,
    pub(crate) column: Arc<Partition>,
    /// By class: the version at which it was evaluated, and the answer.
    answers: Vec<(u64, i64)>,
    /// Grows when all answers become stale.
    pub(crate) version: u64,
    /// The classes whose answers became stale since the version began.
    pub(crate) stale: Vec<u32>,
    /// Whether the filter has told which rows it may reject.
    knows_rejects: bool,
    /// The last shape of a pod that came or went, and whether it concerns the plugin.
    concern: Option<(Arc<PodShape>, bool)>,
    pub(crate) calls: u64,
}

/// The answer of a filter that lets the pod in.
pub(crate) const PASS: i64 = 1;

impl ClassedPlugin {
    /// `None` if the plugin promises no classes.
    pub(crate) fn new(
        plugin: Plugin,
        shape: &Arc<PodShape>,
        declaration: &Declaration,
        (prepared, counters): (AnyPrepared, Vec<Counter>),
        view: View<'_>,
        partitions: &mut Partitions,
    ) -> Option<ClassedPlugin> {
        let mut stage = ClassedPlugin {
            plugin,
            shape: Arc::clone(shape),
            prepared,
            counters,
            reads_feasible: declaration.reads_feasible,
            ignores_deleting: declaration.ignores_deleting,
            observed: (0, 0),
            grain: Grain::default(),
            keys: SmallVec::new(),
            column: Arc::default(),
            answers: Vec::new(),
            version: 0,
            stale: Vec::new(),
            knows_rejects: false,
            concern: None,
            calls: 0,
        };
        let grain = stage.classes_now(view)?;
        stage.lay_out(grain, view.cluster, partitions);
        Some(stage)
    }

    /// The context of the plugin, and its preparation.
    fn parts<'b>(&'b mut self, view: View<'b>) -> (Context<'b>, &'b mut AnyPrepared) {
        let ClassedPlugin { shape, prepared, counters, .. } = self;
        let kept = Some(PlacedPods::NONE);
        let cx = Context { counters, kept, ..Context::new(view.cluster, shape) };
        (cx, prepared)
    }

    /// `None` if what is prepared cannot be kept.
    fn classes_now(&mut self, view: View<'_>) -> Option<Grain> {
        let (cx, prepared) = self.parts(view);
        Some(prepared.incremental()?.classes(&cx))
    }

    fn lay_out(&mut self, grain: Grain, cluster: &Cluster, partitions: &mut Partitions) {
        self.keys = grain.keys.iter().map(|key| partitions.of_labels(cluster, &[*key])).collect();
        self.column = partitions.of_grain(cluster, &grain);
        self.grain = grain;
        self.answers = alloc::vec![(0, 0); self.column.classes()];
        self.forget_all();
    }

    /// Marks all answers stale.
    fn forget_all(&mut self) {
        self.version += 1;
        self.stale.clear();
    }

    /// Makes the answer of a row stale whose node has changed, but for the labels that rows are
    /// told apart by.
    pub(crate) fn forget_row(&mut self, row: Row) {
        if self.grain.each {
            self.forget(self.column.class(row));
        }
    }

    fn forget(&mut self, class: usize) {
        // Leaves may rest on classes that nobody asked about if the filter told which may fail.
        if self.answers[class].0 == self.version || self.knows_rejects {
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

    /// Follows a pod that came to a row, or left it. Returns whether rows are told apart by other
    /// labels now.
    pub(crate) fn change(
        &mut self,
        view: View<'_>,
        partitions: &mut Partitions,
        event: &PodEvent,
    ) -> bool {
        let PodEvent { row, shape: ref placed, deleting, came } = *event;
        let Some(node) = view.node(Row::from(row)) else { return false };
        let sign = if came { 1 } else { -1 };
        for counter in &mut self.counters {
            counter.change(placed, node, &self.shape, sign);
        }
        let counts = !(deleting && self.ignores_deleting);
        let is_counted = !self.counters.is_empty();
        let known = self.concern.take().filter(|(shape, _)| Arc::ptr_eq(shape, placed));
        let (cx, prepared) = self.parts(view);
        if let Some(incremental) = prepared.incremental().filter(|_| counts) {
            let concerned = match &known {
                _ if is_counted => true,
                Some((_, concerned)) => *concerned,
                None => incremental.concerned_by(&cx, placed),
            };
            if !concerned {
                self.concern = Some((Arc::clone(placed), false));
                return false;
            }
            if came {
                incremental.pod_added(&cx, placed, node);
            } else {
                incremental.pod_removed(&cx, placed, node);
            }
            self.concern = Some((Arc::clone(placed), true));
        }
        let moved = self.regrain(view, partitions);
        if !moved {
            self.forget_sharers(Row::from(row));
        }
        moved
    }

    /// Evaluates again how finely nodes are told apart. Returns whether by other labels.
    fn regrain(&mut self, view: View<'_>, partitions: &mut Partitions) -> bool {
        // A plugin that has promised classes and does not any more is evaluated for every node.
        let grain = self
            .classes_now(view)
            .unwrap_or_else(|| Grain::default().each().epoch(self.grain.epoch.wrapping_add(1)));
        if grain == self.grain {
            return false;
        }
        if grain.keys == self.grain.keys && grain.each == self.grain.each {
            self.grain.epoch = grain.epoch;
            self.forget_all();
            return false;
        }
        self.lay_out(grain, view.cluster, partitions);
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
            ([], true) => self.forget(row.index()),
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

    /// Shows a score which nodes are feasible, each row for as many as `counts` says.
    pub(crate) fn observe_feasible(&mut self, view: View<'_>, rows: &[Row], counts: &[u32]) {
        let (cx, prepared) = self.parts(view);
        let AnyPrepared::Score(score) = prepared else { return };
        score.observe_feasible(&cx, &Feasible::classes(view.cluster, rows, counts));
        if let Some(grain) = self.classes_now(view)
            && grain.epoch != self.grain.epoch
        {
            self.grain.epoch = grain.epoch;
            self.forget_all();
        }
    }

    /// Calls `tell` with the rows that a filter may reject, if it knows that all others pass; else
    /// returns `false`.
    pub(crate) fn rejects(&mut self, view: View<'_>, mut tell: impl FnMut(Row)) -> bool {
        let mut values = SmallVec::<[(LabelKey, LabelValue); 8]>::new();
        let (cx, prepared) = self.parts(view);
        let mut note = |key, value| values.push((key, value));
        let known = prepared.incremental().is_some_and(|known| known.rejects(&cx, &mut note));
        let grain = &self.grain;
        let of = |key| grain.keys.iter().position(|own| *own == key).map(|at| &self.keys[at]);
        let known = known && !grain.each && values.iter().all(|(key, _)| of(*key).is_some());
        for (key, value) in values.drain(..).filter(|_| known) {
            let rows = of(key).map_or(&[][..], |column| column.rows_with(value));
            for &row in rows {
                tell(Row::from(row));
            }
        }
        self.knows_rejects |= known;
        known
    }

    /// Whether each class is asked about once the answers are void.
    pub(crate) fn is_dear(&self) -> bool {
        self.is_fine() && !self.knows_rejects
    }

    /// The answer for the nodes of a class.
    #[inline]
    pub(crate) fn answer(&mut self, view: View<'_>, class: usize) -> i64 {
        let (version, answer) = self.answers[class];
        if version == self.version { answer } else { self.ask(view, class) }
    }

    fn ask(&mut self, view: View<'_>, class: usize) -> i64 {
        let node = self.column.first(class).and_then(|row| view.node(row));
        let answer = node.map_or(0, |node| self.call(view, node));
        self.calls += 1;
        self.answers[class] = (self.version, answer);
        answer
    }

    fn call(&mut self, view: View<'_>, node: NodeView<'_>) -> i64 {
        match self.parts(view) {
            (cx, AnyPrepared::Filter(filter)) => i64::from(filter.filter(&cx, node).passes()),
            (cx, AnyPrepared::Score(score)) => score.score(&cx, node),
        }
    }
}
