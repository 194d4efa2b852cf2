//! EASY: the first of the line is promised the earliest start, the others may not delay it.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;

use super::demand::Demand;
use super::pass::Tried;
use super::promise::{Standing, Then};
use super::releases::Release;
use super::state::Guard;
use crate::base::{ObjectName, Time};
use crate::queue::ids::GroupId;
use crate::queue::scheduler::Scheduler;
use crate::queue::shortage::Shortage;
use crate::state::{Cluster, Plan};
use core::time::Duration;

impl Scheduler {
    /// A pass by the rule of EASY: of the whole line, or of those that arrived behind the first of
    /// it.
    pub(super) fn easy(&mut self, whole: bool, arrived: &BTreeSet<GroupId>, shortest_first: bool) {
        let head = self.backfill.standing.as_ref().map(|standing| standing.head);
        let key = |id: GroupId| self.groups.get(&id).and_then(|queued| queued.key.as_ref());
        let head_key = head.and_then(key);
        let is_behind =
            |id: GroupId| key(id).is_none_or(|own| head_key.is_some_and(|head| own > head));
        let mut behind: Vec<GroupId> = if !whole && arrived.iter().all(|id| is_behind(*id)) {
            let mut arrived: Vec<_> = arrived.iter().filter_map(|id| key(*id)).collect();
            arrived.sort_unstable();
            arrived.into_iter().map(|key| key.group).collect()
        } else {
            self.start_heads()
        };
        let mut free = self.free_now();
        if shortest_first {
            behind.sort_by_cached_key(|id| self.end_of(*id, Time::ZERO));
        }
        for id in behind {
            if self.backfill.standing.is_none() {
                break;
            }
            if self.try_behind(id, &free) {
                free = self.free_now();
            }
        }
        let at = self.backfill.standing.as_ref().map(|standing| standing.at);
        // Should what the promise rests on still run by then, it is to be made anew.
        self.wake_for_promises(at.map(|at| at.after(Duration::from_nanos(1))));
    }

    pub(super) fn free_now(&self) -> Demand {
        self.backfill.numbers.free(&self.cluster)
    }

    /// Starts the first of the line while it fits, and promises the next one its start. Returns
    /// those behind it.
    fn start_heads(&mut self) -> Vec<GroupId> {
        self.backfill.standing = None;
        let line = self.line();
        let mut free = self.free_now();
        let mut releases: Option<Vec<Release>> = None;
        let mut behind = line.iter();
        let mut head = None;
        for &id in behind.by_ref() {
            let Some(from) = self.ready_from(id) else { continue };
            if from <= self.now {
                match self.try_head(id, &free) {
                    Tried::Started => {
                        free = self.free_now();
                        releases = None;
                        continue;
                    }
                    Tried::Left => {
                        // It may have started by preemption.
                        releases = None;
                        continue;
                    }
                    Tried::Waits(shortage) => self.wait_in_line(id, shortage),
                }
            }
            if self.promise_head(id, &free, from, &mut releases) {
                head = Some(id);
                break;
            }
            // No start is known for it: it holds up no other.
        }
        self.backfill.promises.retain(|id, _| Some(*id) == head);
        behind.copied().collect()
    }

    /// An attempt to start the first of the line.
    fn try_head(&mut self, id: GroupId, free: &Demand) -> Tried {
        let demand = self.demand(id);
        if !free.covers(&demand) && self.settings.preemption.is_none() {
            self.wait_for_room(id);
            let queued = self.groups.get(&id);
            let shortage = queued.and_then(|queued| queued.shortage.clone());
            return shortage.map_or(Tried::Left, Tried::Waits);
        }
        let tried = self.try_start(id);
        let Tried::Waits(shortage) = tried else { return tried };
        if !matches!(shortage, Shortage::Permit { .. })
            && let Some(promise) = self.backfill.promises.get(&id)
        {
            let plan = promise.plan.clone();
            let tried = self.try_promised(id, plan);
            if !matches!(tried, Tried::Waits(_)) {
                return tried;
            }
        }
        if self.settings.preemption.is_some()
            && let Some(tree) = self.tree_of(id)
            && self.preempt(id, &tree, &shortage)
        {
            return Tried::Left;
        }
        Tried::Waits(shortage)
    }

    /// Promises a group the earliest start from a time on. Returns whether there is one. `releases`
    /// are those of now, once they are known.
    fn promise_head(
        &mut self,
        id: GroupId,
        free: &Demand,
        from: Time,
        releases: &mut Option<Vec<Release>>,
    ) -> bool {
        if self.groups.get(&id).is_some_and(|queued| queued.infeasible_at == Some(self.epoch)) {
            return false;
        }
        let demand = self.demand(id);
        let releases = &*releases.get_or_insert_with(|| self.releases());
        let old = self.backfill.promises.get(&id);
        let old = old.filter(|old| old.losses == self.backfill.losses).map(|old| old.at);
        let mut tree = None;
        let mut later: Option<Cluster> = None;
        let (mut free, mut released) = (free.clone(), 0);
        for (index, release) in releases.iter().enumerate() {
            free.add(&release.demand);
            let at = release.end;
            let more = releases.get(index + 1).is_some_and(|next| next.end == at);
            if more || at < from || !free.covers(&demand) {
                continue;
            }
            let plan = self.backfill.promises.get(&id).filter(|_| old == Some(at));
            let known = plan.map(|promise| promise.plan.clone());
            let (plan, then) = if let Some(plan) = known {
                (plan, None)
            } else {
                let mut without = later.take().unwrap_or_else(|| self.cluster.clone());
                for release in releases.get(released..=index).unwrap_or_default() {
                    self.release_from(release.group, &mut without);
                }
                released = index + 1;
                tree = tree.or_else(|| self.tree_of(id));
                let Some(tree) = &tree else { return false };
                let Some(plan) = self.place_later(id, tree, &without, at) else {
                    later = Some(without);
                    continue;
                };
                let mut with = without.clone();
                if with.commit(&self.framework, &plan).is_err() {
                    later = Some(without);
                    continue;
                }
                (plan, Some(Then { without, with }))
            };
            free.subtract(&self.demand_of_plan(&plan));
            self.promise(id, at, plan);
            self.backfill.standing = Some(Standing { head: id, at, free, then });
            return true;
        }
        if later.is_some_and(|later| later.pod_count() == 0)
            && let Some(queued) = self.groups.get_mut(&id)
        {
            queued.infeasible_at = Some(self.epoch);
        }
        false
    }

    /// An attempt to start a group behind the first of the line. Returns whether it has started.
    fn try_behind(&mut self, id: GroupId, free: &Demand) -> bool {
        if self.ready_from(id).is_none_or(|from| from > self.now) {
            return false;
        }
        let demand = self.demand(id);
        if !free.covers(&demand) {
            self.wait_for_room(id);
            return false;
        }
        let Some(standing) = &self.backfill.standing else { return false };
        let outlasts = self.end_if_started(id) > standing.at;
        if outlasts && !standing.free.covers(&demand) {
            let shortage = self.promised(standing);
            self.wait_in_line(id, shortage);
            return false;
        }
        if outlasts && let Some(mut standing) = self.backfill.standing.take() {
            standing.then = standing.then.take().or_else(|| self.at_promise(&standing));
            self.backfill.guard = Some(Guard { standing, moved: None });
        }
        let mut tried = self.try_start(id);
        if matches!(tried, Tried::Waits(Shortage::Promised { .. }))
            && let Some(plan) = self.place_beside_promise(id)
        {
            tried = self.try_promised(id, plan);
        }
        let guard = self.backfill.guard.take();
        let moved = guard.and_then(|guard| {
            self.backfill.standing = Some(guard.standing);
            guard.moved
        });
        match tried {
            Tried::Started => {
                self.metrics.add_one(|metrics| &mut metrics.backfilled);
                if let Some(standing) = self.backfill.standing.as_mut().filter(|_| outlasts) {
                    standing.free.subtract(&demand);
                    let promise = self.backfill.promises.get_mut(&standing.head);
                    if let (Some(promise), Some(plan)) = (promise, moved) {
                        promise.plan = plan;
                    }
                }
                true
            }
            Tried::Waits(shortage) => {
                if let Some(standing) = self.backfill.standing.as_mut().filter(|_| outlasts) {
                    // What was judged there has not started.
                    standing.then = None;
                }
                self.wait_in_line(id, shortage);
                false
            }
            Tried::Left => false,
        }
    }

    /// A place for a group that runs beyond the promised start, once the first of the line has its
    /// own. Whether it is free by now is for the attempt to say.
    fn place_beside_promise(&mut self, id: GroupId) -> Option<Plan> {
        let tree = self.tree_of(id)?;
        let guard = self.backfill.guard.take()?;
        let Standing { at, then, .. } = &guard.standing;
        let plan = then.as_ref().and_then(|then| self.place_later(id, &tree, &then.with, *at));
        self.backfill.guard = Some(guard);
        plan
    }

    fn promised(&self, standing: &Standing) -> Shortage {
        let to = self.groups.get(&standing.head).map(|queued| queued.name.clone());
        Shortage::Promised { to: to.unwrap_or_else(|| ObjectName::new("", "")), at: standing.at }
    }

    /// The cluster at the promised start; `None` if the promise does not hold.
    fn at_promise(&mut self, standing: &Standing) -> Option<Then> {
        let plan = self.backfill.promises.get(&standing.head)?.plan.clone();
        let mut without = self.cluster.clone();
        for release in self.releases().iter().filter(|release| release.end <= standing.at) {
            self.release_from(release.group, &mut without);
        }
        let mut with = without.clone();
        with.commit(&self.framework, &plan).ok()?;
        Some(Then { without, with })
    }

    /// Why a plan for a group that runs beyond the promised start may not be taken up: the first of
    /// the line would have no place by then, neither the promised one nor another.
    pub(in crate::queue) fn delays_promise(&mut self, plan: &Plan) -> Option<Shortage> {
        let mut guard = self.backfill.guard.take()?;
        let is_kept = self.keep_promise(&mut guard, plan).is_some();
        let shortage = (!is_kept).then(|| self.promised(&guard.standing));
        self.backfill.guard = Some(guard);
        shortage
    }

    /// Takes a plan up at the promised start, beside the first of the line.
    fn keep_promise(&mut self, guard: &mut Guard, plan: &Plan) -> Option<()> {
        let Standing { head, at, then, .. } = &mut guard.standing;
        let then = then.as_mut()?;
        let mut without = then.without.clone();
        without.commit(&self.framework, plan).ok()?;
        let mut with = then.with.clone();
        if with.commit(&self.framework, plan).is_err() {
            let tree = self.tree_of(*head)?;
            let elsewhere = self.place_later(*head, &tree, &without, *at)?;
            with = without.clone();
            with.commit(&self.framework, &elsewhere).ok()?;
            guard.moved = Some(elsewhere);
        }
        *then = Then { without, with };
        Some(())
    }
}
