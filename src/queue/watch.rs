//! Who sleeps on what, so that an event visits only the groups it can help.
//!
//! Two ways to sleep:
//! - *Counted*: a group cannot do without `needed` pods of one shape in one domain, and in every
//!   domain there is room for fewer. Node-scoped monotone filters say which nodes take the shape,
//!   and how often ([`Filter::room`](crate::framework::Filter::room)). The count is an upper bound
//!   under every strategy, so while it is short nothing can help.
//! - *Loosely*: no count explains the failure. Whatever happens on a node that could host one of
//!   the shapes may help; if a plugin reads beyond the node, whatever happens anywhere.

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

use super::unit::UnitId;
use crate::base::{RowSet, Time};
use crate::framework::{Context, Declaration, Framework, Preparation, Prepared, Reach};
use crate::model::PodShape;
use crate::model::resources::{CPU, MEMORY};
use crate::state::{Cluster, LabelKey, Row};

/// What a sleeping group waits for.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub(crate) enum Watched {
    #[default]
    Nothing,
    /// Room for so many pods of a shape in one domain of a label key, or anywhere.
    Room { shape: Arc<PodShape>, level: Option<String>, needed: u64 },
    /// A change on a node that has, of one of these resources, as much as is given here.
    Nodes(Vec<(Box<str>, i64)>),
    /// Any change.
    Anything,
}

/// Room for pods of one shape, domain by domain.
#[derive(Debug)]
struct Watch {
    shape: Arc<PodShape>,
    level: Option<String>,
    /// Rows with room: domain, and for how many pods.
    rows: BTreeMap<Row, (u32, u64)>,
    sums: BTreeMap<u32, u64>,
    sleepers: BTreeMap<u64, BTreeSet<UnitId>>,
    /// Under which request it is found.
    scarce: Option<(Box<str>, i64)>,
}

/// By resource, and by the amount requested of it.
type ByRequest<T> = BTreeMap<Box<str>, BTreeMap<i64, BTreeSet<T>>>;

/// All of them.
#[derive(Debug, Default)]
pub(crate) struct Watches {
    list: BTreeMap<u64, Watch>,
    numbers: BTreeMap<(Option<String>, Arc<PodShape>), u64>,
    /// Watches by what a pod requests of its scarcest resource.
    scarce: ByRequest<u64>,
    /// Watches for which requests bound nothing.
    unbounded: BTreeSet<u64>,
    loose: ByRequest<UnitId>,
    anything: BTreeSet<UnitId>,
    next: u64,
}

/// What changed since the sleepers were looked at last.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub(crate) struct Moved {
    /// Nodes that appeared or changed, or whose pods did, by name.
    pub(crate) nodes: BTreeSet<String>,
    /// Something that concerns everybody: a node went or changed, a namespace changed.
    pub(crate) anything: bool,
}

impl Moved {
    pub(crate) fn is_empty(&self) -> bool {
        self.nodes.is_empty() && !self.anything
    }
}

/// Who is woken, and why.
#[derive(Debug, Default)]
pub(crate) struct Woken {
    pub(crate) counted: BTreeSet<UnitId>,
    pub(crate) loosely: BTreeSet<UnitId>,
    pub(crate) visited: u64,
}

/// An upper bound on how many pods of a shape each node can take, whatever else is placed.
pub(crate) struct Bound<'a> {
    cluster: &'a Cluster,
    framework: &'a Framework,
    shape: &'a PodShape,
    filters: Vec<(usize, Prepared)>,
    only: Option<RowSet>,
    refused: bool,
}

/// Whether "no" of a filter stays "no" until the node itself changes for the better.
fn is_steady(declaration: &Declaration) -> bool {
    matches!(declaration.reach, Reach::Static | Reach::Node)
        && declaration.monotone
        && !declaration.reads_group
        && !declaration.reads_time
        && !declaration.reads_nodes
        && declaration.counters.is_empty()
}

/// Whether some filter sees to it that what a pod of this shape requests must be left.
pub(crate) fn is_capped(framework: &Framework, shape: &PodShape) -> bool {
    framework.filters().iter().any(|filter| {
        let declaration = filter.declare(shape);
        declaration.room && is_steady(&declaration)
    })
}

/// Whether any plugin reads beyond the node for a shape.
pub(crate) fn is_far(framework: &Framework, shape: &PodShape) -> bool {
    let far = |declaration: Declaration| {
        !matches!(declaration.reach, Reach::Static | Reach::Node) || declaration.reads_nodes
    };
    !framework.domain_scores().is_empty()
        || framework.filters().iter().any(|filter| far(filter.declare(shape)))
        || framework.scores().iter().any(|(_, score)| far(score.declare(shape)))
}

impl<'a> Bound<'a> {
    pub(crate) fn new(
        cluster: &'a Cluster,
        framework: &'a Framework,
        shape: &'a PodShape,
    ) -> Bound<'a> {
        let mut bound =
            Bound { cluster, framework, shape, filters: Vec::new(), only: None, refused: false };
        let cx = Context { now: Time::ZERO, ..Context::new(cluster, shape) };
        for (index, filter) in framework.filters().iter().enumerate() {
            if !is_steady(&filter.declare(shape)) {
                continue;
            }
            match filter.prepare(&cx) {
                Preparation::Skip | Preparation::Constant(_) => {}
                Preparation::Ready(prepared) => bound.filters.push((index, prepared)),
                Preparation::Narrow(prepared, rows) => {
                    match &mut bound.only {
                        Some(only) => only.intersect(&rows),
                        only => *only = Some(rows),
                    }
                    bound.filters.push((index, prepared));
                }
                Preparation::Reject(_) => bound.refused = true,
            }
        }
        bound
    }

    /// For how many pods a row has room, at the most.
    pub(crate) fn of(&self, row: Row) -> u64 {
        let Some(node) = self.cluster.view(row) else { return 0 };
        if self.refused || self.only.as_ref().is_some_and(|only| !only.contains(row)) {
            return 0;
        }
        let base = Context::new(self.cluster, self.shape);
        let mut room = i64::from(u32::MAX);
        for (index, prepared) in &self.filters {
            let cx = Context { prepared, ..base };
            let Some(filter) = self.framework.filters().get(*index) else { continue };
            if !filter.filter(&cx, node).passes() {
                return 0;
            }
            room = room.min(filter.room(&cx, node));
        }
        u64::try_from(room).unwrap_or(0)
    }
}

impl Watch {
    fn count(&mut self, bound: &Bound<'_>, key: Option<LabelKey>, row: Row) -> u64 {
        if let Some((domain, room)) = self.rows.remove(&row)
            && let Some(sum) = self.sums.get_mut(&domain)
        {
            *sum -= room;
            if *sum == 0 {
                self.sums.remove(&domain);
            }
        }
        let domain = match (&self.level, key) {
            (None, _) => Some(0),
            (Some(_), Some(key)) => bound
                .cluster
                .view(row)
                .and_then(|node| node.label_value(key))
                .map(|value| value.index() as u32),
            (Some(_), None) => None,
        };
        let Some(domain) = domain else { return 0 };
        let room = bound.of(row);
        if room == 0 {
            return 0;
        }
        self.rows.insert(row, (domain, room));
        let sum = self.sums.entry(domain).or_default();
        *sum += room;
        *sum
    }

    fn most(&self) -> u64 {
        self.sums.values().copied().max().unwrap_or(0)
    }

    /// Looks at all rows again that had room.
    fn recount(&mut self, cluster: &Cluster, framework: &Framework) -> u64 {
        let shape = Arc::clone(&self.shape);
        let bound = Bound::new(cluster, framework, &shape);
        let key = self.level.as_deref().and_then(|level| cluster.label_key(level));
        for row in self.rows.keys().copied().collect::<Vec<_>>() {
            self.count(&bound, key, row);
        }
        self.most()
    }
}

/// The request under which a shape is looked for: of the resource likely to be scarcest.
pub(crate) fn scarcest(shape: &PodShape) -> Option<(Box<str>, i64)> {
    let rarity = |name: &str| match name {
        CPU => 1,
        MEMORY => 2,
        _ => 0,
    };
    shape
        .requests
        .iter()
        .filter(|(_, amount)| *amount > 0)
        .min_by_key(|(name, _)| rarity(name))
        .map(|(name, amount)| (Box::from(name), amount))
}

impl Watches {
    /// For how many pods of a shape there is room in the best domain, at the most. What is known
    /// already is used only if [`Watches::wake`] was told of everything that moved.
    pub(crate) fn room(
        &mut self,
        cluster: &Cluster,
        framework: &Framework,
        shape: &Arc<PodShape>,
        level: Option<&str>,
        in_step: bool,
    ) -> u64 {
        let key = (level.map(String::from), Arc::clone(shape));
        if in_step && let Some(watch) = self.numbers.get(&key).and_then(|id| self.list.get_mut(id))
        {
            return watch.recount(cluster, framework);
        }
        let watch = new_watch(cluster, framework, shape, level);
        watch.most()
    }

    /// Puts a group to sleep.
    pub(crate) fn subscribe(
        &mut self,
        cluster: &Cluster,
        framework: &Framework,
        unit: UnitId,
        watched: &Watched,
    ) {
        match watched {
            Watched::Nothing => {}
            Watched::Anything => {
                self.anything.insert(unit);
            }
            Watched::Nodes(requests) => {
                for (resource, amount) in requests {
                    let amounts = self.loose.entry(resource.clone()).or_default();
                    amounts.entry(*amount).or_default().insert(unit);
                }
            }
            Watched::Room { shape, level, needed } => {
                let key = (level.clone(), Arc::clone(shape));
                let id = if let Some(id) = self.numbers.get(&key) {
                    *id
                } else {
                    let mut watch = new_watch(cluster, framework, shape, level.as_deref());
                    let id = self.next;
                    self.next += 1;
                    watch.scarce = if is_capped(framework, shape) { scarcest(shape) } else { None };
                    if let Some((resource, amount)) = &watch.scarce {
                        let amounts = self.scarce.entry(resource.clone()).or_default();
                        amounts.entry(*amount).or_default().insert(id);
                    } else {
                        self.unbounded.insert(id);
                    }
                    self.list.insert(id, watch);
                    self.numbers.insert(key, id);
                    id
                };
                if let Some(watch) = self.list.get_mut(&id) {
                    watch.sleepers.entry(*needed).or_default().insert(unit);
                }
            }
        }
    }

    /// Forgets a sleeper.
    pub(crate) fn unsubscribe(&mut self, unit: UnitId, watched: &Watched) {
        match watched {
            Watched::Nothing => {}
            Watched::Anything => {
                self.anything.remove(&unit);
            }
            Watched::Nodes(requests) => {
                for (resource, amount) in requests {
                    drop_from(&mut self.loose, resource, *amount, &unit);
                }
            }
            Watched::Room { shape, level, needed } => {
                let key = (level.clone(), Arc::clone(shape));
                let Some(&id) = self.numbers.get(&key) else { return };
                let Some(watch) = self.list.get_mut(&id) else { return };
                if let Some(units) = watch.sleepers.get_mut(needed) {
                    units.remove(&unit);
                    if units.is_empty() {
                        watch.sleepers.remove(needed);
                    }
                }
                if watch.sleepers.is_empty() {
                    match watch.scarce.take() {
                        Some((resource, amount)) => {
                            drop_from(&mut self.scarce, &resource, amount, &id);
                        }
                        None => {
                            self.unbounded.remove(&id);
                        }
                    }
                    self.list.remove(&id);
                    self.numbers.remove(&key);
                }
            }
        }
    }

    /// Who could be helped by what moved.
    ///
    /// A watch is visited only if the node has as much left as its shape requests of its scarcest
    /// resource. Elsewhere what it remembers of the node may be too much, never too little: before
    /// anybody is woken, it is made exact.
    pub(crate) fn wake(
        &mut self,
        cluster: &Cluster,
        framework: &Framework,
        moved: &Moved,
    ) -> Woken {
        let mut woken = Woken::default();
        let mut hot = BTreeSet::new();
        for name in &moved.nodes {
            let Some(node) = cluster.node(name) else { continue };
            let mut visit: BTreeSet<u64> = self.unbounded.clone();
            for (resource, amounts) in &self.scarce {
                let free = cluster.resource(resource).map_or(0, |id| node.free(id));
                if free > 0 {
                    visit.extend(amounts.range(..=free).flat_map(|(_, ids)| ids));
                }
            }
            for id in visit {
                woken.visited += 1;
                let Some(watch) = self.list.get_mut(&id) else { continue };
                let shape = Arc::clone(&watch.shape);
                let bound = Bound::new(cluster, framework, &shape);
                let key = watch.level.as_deref().and_then(|level| cluster.label_key(level));
                let sum = watch.count(&bound, key, node.row());
                if watch.sleepers.first_key_value().is_some_and(|(needed, _)| *needed <= sum) {
                    hot.insert(id);
                }
            }
            for (resource, amounts) in &self.loose {
                let has = cluster.resource(resource).map_or(0, |id| node.allocatable(id));
                woken.loosely.extend(amounts.range(..=has).flat_map(|(_, units)| units));
            }
        }
        for id in hot {
            let Some(watch) = self.list.get_mut(&id) else { continue };
            let most = watch.recount(cluster, framework);
            woken.counted.extend(watch.sleepers.range(..=most).flat_map(|(_, units)| units));
        }
        if moved.anything {
            woken.loosely.extend(self.loose.values().flat_map(BTreeMap::values).flatten());
        }
        if !moved.is_empty() {
            woken.loosely.extend(&self.anything);
        }
        woken
    }

    /// How many counts are kept, and how many nodes they remember in all.
    pub(crate) fn size(&self) -> (usize, usize) {
        (self.list.len(), self.list.values().map(|watch| watch.rows.len()).sum())
    }
}

fn new_watch(
    cluster: &Cluster,
    framework: &Framework,
    shape: &Arc<PodShape>,
    level: Option<&str>,
) -> Watch {
    let mut watch = Watch {
        shape: Arc::clone(shape),
        level: level.map(String::from),
        rows: BTreeMap::new(),
        sums: BTreeMap::new(),
        sleepers: BTreeMap::new(),
        scarce: None,
    };
    let bound = Bound::new(cluster, framework, shape);
    let key = level.and_then(|level| cluster.label_key(level));
    for row in 0..cluster.rows() {
        watch.count(&bound, key, row);
    }
    watch
}

fn drop_from<T: Ord>(index: &mut ByRequest<T>, resource: &str, amount: i64, item: &T) {
    let Some(amounts) = index.get_mut(resource) else { return };
    if let Some(items) = amounts.get_mut(&amount) {
        items.remove(item);
        if items.is_empty() {
            amounts.remove(&amount);
        }
    }
    if amounts.is_empty() {
        index.remove(resource);
    }
}
