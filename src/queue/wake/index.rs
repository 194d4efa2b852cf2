//! Who sleeps on what, so that an event costs in proportion to the groups it can help.
//!
//! Two ways to sleep:
//! - *Counted*: a group cannot do without `needed` pods of one shape in one domain, and in every
//!   domain there is room for fewer. Node-scoped monotone filters say which nodes take the shape,
//!   and how often ([`Filter::room`](crate::framework::Filter::room)). The count is an upper bound
//!   under every strategy, so while it is short nothing can help.
//! - *Loosely*: no count explains the failure. Whatever happens on a node that could host one of
//!   the shapes may help; if a plugin reads beyond the node, whatever happens anywhere.
//!
//! Those who sleep on the same shape and level share a watch. A watch is posted with a class of one
//! resource, where it costs nothing while that resource is short. Once it is not, the watch is
//! counted by all filters, when it is the turn of its first sleeper and no earlier. If it is still
//! short, it moves to a class of another resource that is, or to one that counts only the nodes whose
//! labels, taints and names suit it. If there is none, it lacks something else, and stands aside: its
//! own count is followed on those nodes.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

use super::bucket::{Class, Measure, Sums};
use super::hints::{Loose, Moved, Watched};
use crate::base::RowSet;
use crate::framework::Framework;
use crate::model::PodShape;
use crate::queue::capacity::{Bound, is_capped};
use crate::queue::queued_group::{Key, UnitId};
use crate::state::{Cluster, Row};

/// Room for pods of one shape, domain by domain, and who sleeps on it.
#[derive(Debug)]
struct Watch {
    shape: Arc<PodShape>,
    level: Option<String>,
    /// In the order of the queue.
    sleepers: BTreeMap<u64, BTreeSet<Key>>,
    /// The class that it is posted with, or that it stands aside in.
    class: Option<u64>,
    aside: Option<Aside>,
    /// The only rows that can ever suit it, as their nodes are; once that had to be found out.
    pool: Option<Arc<RowSet>>,
}

/// What is followed of a watch that stands aside. It may be too much, never too little.
#[derive(Debug)]
struct Aside {
    sums: Sums,
    /// Under which it is listed as ripe.
    ripe: Option<Key>,
}

/// All of them.
#[derive(Debug, Default)]
pub(crate) struct Watches {
    list: BTreeMap<u64, Watch>,
    numbers: BTreeMap<(Option<String>, Arc<PodShape>), u64>,
    classes: BTreeMap<u64, (Measure, Class)>,
    measures: BTreeMap<Measure, u64>,
    /// Classes that may not keep all of their sleepers asleep any more.
    hot: BTreeSet<u64>,
    /// Watches aside that may not, with the first in line.
    ripe: BTreeSet<(Key, u64)>,
    /// Watches aside, by their pools.
    pools: BTreeMap<Arc<RowSet>, BTreeSet<u64>>,
    loose: Loose,
    next: u64,
    /// How many counts were looked at.
    pub(crate) visited: u64,
    /// How often sleepers whose turn had come were left asleep.
    pub(crate) spared: u64,
}

impl Watch {
    /// The least that anybody needs.
    fn least(&self) -> u64 {
        self.sleepers.first_key_value().map_or(u64::MAX, |(needed, _)| *needed)
    }

    /// The first in line who needs no more than there is.
    fn first(&self, most: u64) -> Option<&Key> {
        self.sleepers.range(..=most).filter_map(|(_, keys)| keys.first()).min()
    }
}

impl Watches {
    /// For how many pods of a shape there is room in the best domain, at the most. `in_step` says
    /// that [`Watches::wake`] was told of everything that moved.
    pub(crate) fn room(
        &mut self,
        cluster: &Cluster,
        framework: &Framework,
        shape: &Arc<PodShape>,
        level: Option<&str>,
        in_step: bool,
    ) -> u64 {
        let class = if in_step && is_capped(framework, shape) {
            let name = (level.map(String::from), Arc::clone(shape));
            let watch = self.numbers.get(&name).and_then(|id| self.list.get(id));
            let own = watch.and_then(|watch| watch.class);
            let any = || {
                let measures = Measure::of(shape, level);
                measures.iter().find_map(|measure| self.measures.get(measure)).copied()
            };
            own.or_else(any).and_then(|id| self.classes.get(&id))
        } else {
            None
        };
        let bound = Bound::new(cluster, framework, shape);
        match class {
            Some((_, class)) => Sums::of(&bound, level, class.sums.rows()).most(),
            None => Sums::of(&bound, level, 0..cluster.rows()).most(),
        }
    }

    /// Puts a group to sleep.
    pub(crate) fn subscribe(
        &mut self,
        cluster: &Cluster,
        framework: &Framework,
        key: &Key,
        watched: &Watched,
    ) {
        let Watched::Room { shape, level, needed } = watched else {
            return self.loose.subscribe(key.unit, watched);
        };
        let name = (level.clone(), Arc::clone(shape));
        let id = match self.numbers.get(&name) {
            Some(id) => *id,
            None => self.new_watch(cluster, framework, level.clone(), Arc::clone(shape)),
        };
        self.put_sleeper(id, *needed, key.clone());
    }

    /// Forgets a sleeper.
    pub(crate) fn unsubscribe(&mut self, key: &Key, watched: &Watched) {
        let Watched::Room { shape, level, needed } = watched else {
            return self.loose.unsubscribe(key.unit, watched);
        };
        let name = (level.clone(), Arc::clone(shape));
        let Some(&id) = self.numbers.get(&name) else { return };
        self.drop_sleeper(id, *needed, key);
        if self.list.get(&id).is_some_and(|watch| watch.sleepers.is_empty()) {
            self.leave_class(id);
            self.list.remove(&id);
            self.numbers.remove(&name);
        }
    }

    /// A sleeper has another place in the queue.
    pub(crate) fn rekey(&mut self, old: &Key, new: &Key, watched: &Watched) {
        if let Watched::Room { shape, level, needed } = watched
            && let Some(&id) = self.numbers.get(&(level.clone(), Arc::clone(shape)))
        {
            self.drop_sleeper(id, *needed, old);
            self.put_sleeper(id, *needed, new.clone());
        }
    }

    fn put_sleeper(&mut self, id: u64, needed: u64, key: Key) {
        self.change_sleepers(id, needed, |keys| {
            keys.insert(key);
        });
    }

    fn drop_sleeper(&mut self, id: u64, needed: u64, key: &Key) {
        self.change_sleepers(id, needed, |keys| {
            keys.remove(key);
        });
    }

    fn change_sleepers(&mut self, id: u64, needed: u64, change: impl FnOnce(&mut BTreeSet<Key>)) {
        let Some(watch) = self.list.get_mut(&id) else { return };
        let keys = watch.sleepers.entry(needed).or_default();
        let before = keys.first().cloned();
        change(keys);
        let after = keys.first().cloned();
        if keys.is_empty() {
            watch.sleepers.remove(&needed);
        }
        if watch.aside.is_some() {
            self.ripen(id);
        } else if before != after
            && let Some(number) = watch.class
            && let Some((_, class)) = self.classes.get_mut(&number)
        {
            if let Some(key) = before {
                class.take_down(needed, &key, id);
            }
            if let Some(key) = after {
                class.post(needed, key, id);
                if needed <= class.sums.most() {
                    self.hot.insert(number);
                }
            }
        }
    }

    fn new_watch(
        &mut self,
        cluster: &Cluster,
        framework: &Framework,
        level: Option<String>,
        shape: Arc<PodShape>,
    ) -> u64 {
        let name = (level.clone(), Arc::clone(&shape));
        let id = self.take_number();
        let sleepers = BTreeMap::new();
        let mut watch = Watch { shape, level, sleepers, class: None, aside: None, pool: None };
        if is_capped(framework, &watch.shape) {
            let measure = Measure::of(&watch.shape, watch.level.as_deref()).into_iter().next();
            watch.class = measure.map(|measure| self.class(cluster, measure));
        }
        self.numbers.insert(name, id);
        if let Some((_, class)) = watch.class.and_then(|number| self.classes.get_mut(&number)) {
            class.members += 1;
            self.list.insert(id, watch);
            return id;
        }
        let bound = Bound::new(cluster, framework, &watch.shape);
        let sums = Sums::of(&bound, watch.level.as_deref(), 0..cluster.rows());
        self.list.insert(id, watch);
        self.stand_aside(cluster, framework, id, sums);
        id
    }

    fn take_number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    /// The class of a measure.
    fn class(&mut self, cluster: &Cluster, measure: Measure) -> u64 {
        if let Some(id) = self.measures.get(&measure) {
            return *id;
        }
        let id = self.take_number();
        let class = Class::new(cluster, &measure);
        self.measures.insert(measure.clone(), id);
        self.classes.insert(id, (measure, class));
        id
    }

    /// Takes a watch out of its class, and from aside.
    fn leave_class(&mut self, id: u64) {
        let Some(watch) = self.list.get_mut(&id) else { return };
        if let Some(aside) = watch.aside.take() {
            if let Some(key) = aside.ripe {
                self.ripe.remove(&(key, id));
            }
            leave_pool(&mut self.pools, watch.pool.as_ref(), id);
        }
        let Some(number) = watch.class.take() else { return };
        let Some((_, class)) = self.classes.get_mut(&number) else { return };
        for (needed, keys) in &watch.sleepers {
            if let Some(key) = keys.first() {
                class.take_down(*needed, key, id);
            }
        }
        class.members -= 1;
    }

    /// Forgets classes without members. They are kept until something moves, since who looks for
    /// another class may look at the same ones.
    fn sweep(&mut self) {
        let Watches { classes, measures, hot, .. } = self;
        classes.retain(|number, (measure, class)| {
            if class.members == 0 {
                measures.remove(measure);
                hot.remove(number);
            }
            class.members > 0
        });
    }

    /// Posts a watch with a class.
    fn enter_class(&mut self, id: u64, number: u64) {
        let Some(watch) = self.list.get_mut(&id) else { return };
        let Some((_, class)) = self.classes.get_mut(&number) else { return };
        watch.class = Some(number);
        class.members += 1;
        for (needed, keys) in &watch.sleepers {
            if let Some(key) = keys.first() {
                class.post(*needed, key.clone(), id);
            }
        }
        if class.first().is_some() {
            self.hot.insert(number);
        }
    }

    /// Takes in what moved: counts are brought up to date, and who sleeps loosely is woken.
    pub(crate) fn wake(
        &mut self,
        cluster: &Cluster,
        framework: &Framework,
        moved: &Moved,
    ) -> BTreeSet<UnitId> {
        self.sweep();
        for &row in &moved.gone {
            self.follow(cluster, row);
        }
        for name in moved.nodes.union(&moved.changed) {
            let Some(node) = cluster.node(name) else { continue };
            let row = node.row();
            if moved.changed.contains(name) {
                self.repool(cluster, framework, row);
            }
            self.follow(cluster, row);
            let aside = self.pools.iter().filter(|(pool, _)| pool.contains(row));
            for id in aside.flat_map(|(_, ids)| ids).copied().collect::<Vec<_>>() {
                self.visit(cluster, framework, id, row);
            }
        }
        self.loose.wake(cluster, moved)
    }

    /// The only rows that can ever suit a watch. Found out once, and kept up to date.
    fn pool(&mut self, cluster: &Cluster, framework: &Framework, id: u64) -> Arc<RowSet> {
        let Some(watch) = self.list.get_mut(&id) else { return Arc::default() };
        let pool = watch.pool.get_or_insert_with(|| {
            let bound = Bound::new(cluster, framework, &watch.shape);
            Arc::new((0..cluster.rows()).filter(|row| bound.may_ever(*row)).collect())
        });
        Arc::clone(pool)
    }

    /// A node itself has changed: it may suit other watches now.
    fn repool(&mut self, cluster: &Cluster, framework: &Framework, row: Row) {
        let mut others = Vec::new();
        for (id, watch) in &self.list {
            let Some(pool) = &watch.pool else { continue };
            self.visited += 1;
            let suits = Bound::new(cluster, framework, &watch.shape).may_ever(row);
            if suits != pool.contains(row) {
                others.push((*id, suits));
            }
        }
        // Mostly whole pools change alike.
        let mut known: BTreeMap<(Arc<RowSet>, bool), Arc<RowSet>> = BTreeMap::new();
        for (id, suits) in others {
            let Some(watch) = self.list.get_mut(&id) else { continue };
            let Some(old) = watch.pool.clone() else { continue };
            let changed = known.entry((Arc::clone(&old), suits)).or_insert_with(|| {
                let mut rows = RowSet::clone(&old);
                if suits {
                    rows.insert(row);
                } else {
                    rows.remove(row);
                }
                Arc::new(rows)
            });
            let new = Arc::clone(changed);
            watch.pool = Some(Arc::clone(&new));
            if watch.aside.is_some() {
                leave_pool(&mut self.pools, Some(&old), id);
                self.pools.entry(new).or_default().insert(id);
                continue;
            }
            let class = watch.class.and_then(|number| self.classes.get(&number));
            if let Some((measure, _)) = class.filter(|(measure, _)| measure.pool.is_some()) {
                let other = self.class(cluster, measure.clone().within(&new));
                self.leave_class(id);
                self.enter_class(id, other);
            }
        }
    }

    /// Brings all classes up to date with a row.
    fn follow(&mut self, cluster: &Cluster, row: Row) {
        for (number, (measure, class)) in &mut self.classes {
            let key = measure.level.as_deref().and_then(|level| cluster.label_key(level));
            class.update(cluster, measure, key, row);
            self.visited += 1;
            if class.first().is_some() {
                self.hot.insert(*number);
            }
        }
    }

    /// Brings a watch aside up to date with a row.
    fn visit(&mut self, cluster: &Cluster, framework: &Framework, id: u64, row: Row) {
        self.visited += 1;
        let Some(watch) = self.list.get_mut(&id) else { return };
        let Some(aside) = &mut watch.aside else { return };
        let bound = Bound::new(cluster, framework, &watch.shape);
        aside.sums.count(&bound, watch.level.as_deref(), row);
        self.ripen(id);
    }

    /// Lists a watch aside under its first sleeper whom its count does not keep asleep.
    fn ripen(&mut self, id: u64) {
        let Some(watch) = self.list.get_mut(&id) else { return };
        let Some(aside) = &watch.aside else { return };
        let first = watch.first(aside.sums.most()).cloned();
        let Some(aside) = &mut watch.aside else { return };
        if aside.ripe == first {
            return;
        }
        if let Some(key) = core::mem::replace(&mut aside.ripe, first.clone()) {
            self.ripe.remove(&(key, id));
        }
        if let Some(key) = first {
            self.ripe.insert((key, id));
        }
    }

    /// The first sleeper in line for whom there is room by the count of all filters, if nobody
    /// before it is ready. The caller wakes it.
    pub(crate) fn next(
        &mut self,
        cluster: &Cluster,
        framework: &Framework,
        ready: Option<&Key>,
    ) -> Option<UnitId> {
        loop {
            let (key, id) = self.first()?;
            if ready.is_some_and(|ready| *ready < key) {
                return None;
            }
            self.visited += 1;
            if self.examine(cluster, framework, id, &key) {
                return Some(key.unit);
            }
            self.spared += 1;
        }
    }

    /// The first in line of those who may have to be woken.
    fn first(&mut self) -> Option<(Key, u64)> {
        let Watches { hot, classes, ripe, .. } = self;
        let mut first = ripe.first().cloned();
        hot.retain(|number| {
            let head = classes.get(number).and_then(|(_, class)| class.first());
            let Some(head) = head else { return false };
            if first.as_ref().is_none_or(|first| head < first) {
                first = Some(head.clone());
            }
            true
        });
        first
    }

    /// Counts for a watch by all filters. If its first sleeper lacks room still, the watch goes
    /// where it costs nothing, or stands aside.
    fn examine(&mut self, cluster: &Cluster, framework: &Framework, id: u64, key: &Key) -> bool {
        let Some(watch) = self.list.get_mut(&id) else { return false };
        let (shape, level) = (Arc::clone(&watch.shape), watch.level.clone());
        if let Some(aside) = &mut watch.aside {
            let bound = Bound::new(cluster, framework, &shape);
            for row in aside.sums.rows().collect::<Vec<_>>() {
                aside.sums.count(&bound, level.as_deref(), row);
            }
            let reached = watch.first(watch.aside.as_ref().map_or(0, |aside| aside.sums.most()));
            let reached = reached == Some(key);
            self.ripen(id);
            return reached;
        }
        let least = watch.least();
        let Some(number) = watch.class else { return false };
        let Some((posted_by, class)) = self.classes.get(&number) else { return false };
        let bound = Bound::new(cluster, framework, &shape);
        let sums = Sums::of(&bound, level.as_deref(), class.sums.rows());
        if watch.first(sums.most()) == Some(key) {
            return true;
        }
        let posted_by = posted_by.clone();
        if sums.most() < least {
            let pool = self.pool(cluster, framework, id);
            let everywhere = Measure::of(&shape, level.as_deref());
            let within = everywhere.clone().into_iter().map(|measure| measure.within(&pool));
            for measure in everywhere.into_iter().chain(within) {
                if measure == posted_by {
                    continue;
                }
                let other = self.class(cluster, measure);
                if self.classes.get(&other).is_some_and(|(_, class)| class.sums.most() < least) {
                    self.leave_class(id);
                    self.enter_class(id, other);
                    return false;
                }
            }
        }
        self.stand_aside(cluster, framework, id, sums);
        false
    }

    fn stand_aside(&mut self, cluster: &Cluster, framework: &Framework, id: u64, sums: Sums) {
        let pool = self.pool(cluster, framework, id);
        let Some(watch) = self.list.get_mut(&id) else { return };
        if let Some((_, class)) = watch.class.and_then(|number| self.classes.get_mut(&number)) {
            for (needed, keys) in &watch.sleepers {
                if let Some(key) = keys.first() {
                    class.take_down(*needed, key, id);
                }
            }
        }
        self.pools.entry(pool).or_default().insert(id);
        watch.aside = Some(Aside { sums, ripe: None });
        self.ripen(id);
    }

    /// How many counts are kept, and how many nodes they remember in all.
    pub(crate) fn size(&self) -> (usize, usize) {
        let asides = self.list.values().filter_map(|watch| watch.aside.as_ref());
        let classes = self.classes.values().map(|(_, class)| class.sums.len());
        let rows = asides.map(|aside| aside.sums.len()).sum::<usize>() + classes.sum::<usize>();
        (self.list.len() + self.classes.len(), rows)
    }
}

fn leave_pool(
    pools: &mut BTreeMap<Arc<RowSet>, BTreeSet<u64>>,
    pool: Option<&Arc<RowSet>>,
    id: u64,
) {
    let Some(pool) = pool else { return };
    if let Some(ids) = pools.get_mut(pool) {
        ids.remove(&id);
        if ids.is_empty() {
            pools.remove(pool);
        }
    }
}
