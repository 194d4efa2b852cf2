//! EASY: the first of the line is promised the earliest start, the others may not delay it.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;

use super::demand::Demand;
use super::line::{ClassId, Turn};
use super::pass::Tried;
use super::promise::{Standing, Then};
use super::state::Guard;
use crate::base::{ObjectName, Time};
use crate::queue::capacity::reads_beyond_node;
use crate::queue::ids::GroupId;
use crate::queue::queued_group::Phase;
use crate::queue::scheduler::Scheduler;
use crate::queue::shortage::{KnownRoom, Shortage};
use crate::state::{Cluster, Plan};
use core::time::Duration;

/// What a pass has found out about classes. Room is only taken in a pass: what is refused stays
/// refused.
#[derive(Debug, Default)]
struct Refused {
    /// Classes of which none has a place now.
    now: BTreeSet<ClassId>,
    /// Classes of which those have no place that run beyond the promised start.
    beyond: BTreeSet<ClassId>,
}

impl Scheduler {
    /// A pass by the rule of EASY: of the whole line, or of those that arrived behind the first of
    /// it.
    pub(super) fn easy(&mut self, whole: bool, arrived: &BTreeSet<GroupId>) {
        self.sort_line();
        let head = self.backfill.standing.as_ref().map(|standing| standing.head);
        let key = |id: GroupId| self.groups.get(&id).and_then(|queued| queued.key.as_ref());
        let head_key = head.and_then(key);
        let is_behind =
            |id: GroupId| key(id).is_none_or(|own| head_key.is_some_and(|head| own > head));
        if !whole && arrived.iter().all(|id| is_behind(*id)) {
            self.try_arrived(arrived);
        } else {
            self.start_heads();
            self.try_line();
        }
        self.tell_arrived(arrived);
        let at = self.backfill.standing.as_ref().map(|standing| standing.at);
        // Should what the promise rests on still run by then, it is to be made anew.
        self.wake_for_promises(at.map(|at| at.after(Duration::from_nanos(1))));
    }

    /// Tries those that arrived, in turn.
    fn try_arrived(&mut self, arrived: &BTreeSet<GroupId>) {
        let (mut free, mut refused) = (self.free_now(), Refused::default());
        let turns = arrived.iter().filter_map(|id| Some((self.place_in_line(*id)?, *id)));
        let mut turns: Vec<((ClassId, Turn), GroupId)> = turns.collect();
        turns.sort_unstable_by(|((_, one), _), ((_, other), _)| one.cmp(other));
        for ((class, _), id) in turns {
            let most = self.longest_allowed(class, &free, &refused);
            let is_short_enough =
                most.is_some_and(|most| self.longest_run(id).unwrap_or(Duration::MAX) <= most);
            if is_short_enough && self.try_behind(id, class, &free, &mut refused) {
                free = self.free_now();
            }
        }
    }

    /// Tries the groups behind the first of the line, in turn: those that the sums and what was
    /// refused allow. O(classes), and an attempt for each class that has room in all and no place.
    fn try_line(&mut self) {
        let Some(head) = self.backfill.standing.as_ref().map(|standing| standing.head) else {
            return;
        };
        let head = self.groups.get(&head).and_then(|queued| queued.key.clone());
        let (mut free, mut refused) = (self.free_now(), Refused::default());
        // The next of each class.
        let mut next: BTreeSet<(Turn, ClassId)> = BTreeSet::new();
        let classes: Vec<ClassId> = self.backfill.line.classes().collect();
        for class in classes {
            let most = self.longest_allowed(class, &free, &refused);
            let turn = most.and_then(|most| self.backfill.line.first(class, None, most));
            next.extend(turn.map(|turn| (turn.clone(), class)));
        }
        while let Some((turn, class)) = next.pop_first() {
            // There may be less room than when its turn was found.
            let Some(most) = self.longest_allowed(class, &free, &refused) else { continue };
            let id = turn.1.group;
            let is_behind = head.as_ref().is_none_or(|head| turn.1 > *head);
            let is_short_enough = self.longest_run(id).unwrap_or(Duration::MAX) <= most;
            if is_behind && is_short_enough && self.try_behind(id, class, &free, &mut refused) {
                free = self.free_now();
            }
            if let Some(most) = self.longest_allowed(class, &free, &refused) {
                let turn = self.backfill.line.first(class, Some(&turn), most);
                next.extend(turn.map(|turn| (turn.clone(), class)));
            }
        }
    }

    /// How long a group of a class may run at most to be tried behind the first of the line; `None`
    /// if there is no room for it.
    fn longest_allowed(
        &mut self,
        class: ClassId,
        free: &Demand,
        refused: &Refused,
    ) -> Option<Duration> {
        let is_covered = free.covers(self.backfill.line.demand(class)?);
        if refused.now.contains(&class) || !is_covered || self.too_little_room(class).is_some() {
            return None;
        }
        let standing = self.backfill.standing.as_ref()?;
        let demand = self.backfill.line.demand(class)?;
        let may_stay = !refused.beyond.contains(&class) && standing.free.covers(demand);
        Some(if may_stay { Duration::MAX } else { standing.at.since(self.now) })
    }

    /// Notes why those that arrived and have not started wait.
    fn tell_arrived(&mut self, arrived: &BTreeSet<GroupId>) {
        let mut free = None;
        for &id in arrived {
            if self.groups.get(&id).is_none_or(|queued| queued.phase != Phase::Queued) {
                continue;
            }
            let Some(standing) = &self.backfill.standing else { continue };
            let shortage = self.promised(standing);
            let demand = self.demand(id);
            let has_room = free.get_or_insert_with(|| self.free_now()).covers(&demand)
                && self.class_has_room(id);
            if has_room {
                self.wait_in_line(id, shortage);
            } else {
                self.wait_for_room(id);
            }
        }
    }

    /// Starts the first of the line while it fits, and promises the next one its start.
    fn start_heads(&mut self) {
        self.backfill.standing = None;
        let mut free = self.free_now();
        let (mut head, mut last) = (None, None);
        while let Some(key) = self.backfill.line.after(last.as_ref()).cloned() {
            let id = key.group;
            last = Some(key);
            let Some(from) = self.ready_from(id) else { continue };
            if from <= self.now {
                match self.try_head(id, &free) {
                    Tried::Started => {
                        free = self.free_now();
                        continue;
                    }
                    // It may have started by preemption.
                    Tried::Left => continue,
                    Tried::Waits(shortage) => self.wait_in_line(id, shortage),
                }
            }
            if self.promise_head(id, &free, from) {
                head = Some(id);
                break;
            }
            // No start is known for it: it holds up no other.
        }
        self.backfill.promises.retain(|id, _| Some(*id) == head);
    }

    /// Whether as many pods of a group have room, node by node, as must have.
    fn class_has_room(&mut self, id: GroupId) -> bool {
        let class = self.class_of(id);
        class.is_none_or(|class| self.too_little_room(class).is_none())
    }

    /// An attempt to start the first of the line.
    fn try_head(&mut self, id: GroupId, free: &Demand) -> Tried {
        let demand = self.demand(id);
        let has_room = free.covers(&demand) && self.class_has_room(id);
        if !has_room && self.settings.preemption.is_none() {
            self.wait_for_room(id);
            let queued = self.groups.get(&id);
            let shortage = queued.and_then(|queued| queued.shortage.clone());
            return shortage.map_or(Tried::Left, Tried::Waits);
        }
        let tried = self.try_start(id, KnownRoom::Unknown);
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

    /// Promises a group the earliest start from a time on. Returns whether there is one.
    fn promise_head(&mut self, id: GroupId, free: &Demand, from: Time) -> bool {
        if self.groups.get(&id).is_some_and(|queued| queued.infeasible_at == Some(self.epoch)) {
            return false;
        }
        let demand = self.demand(id);
        self.read_running();
        let old = self.backfill.promises.get(&id);
        let old = old.filter(|old| old.losses == self.backfill.losses).map(|old| old.at);
        let mut tree = None;
        let mut later: Option<Cluster> = None;
        let mut free = free.clone();
        let class = self.class_of(id);
        let mut room = class.and_then(|class| {
            self.too_little_room(class)?;
            Some((class, self.room_of(class)?))
        });
        // Groups that have ended by then and are still in the working copy.
        let mut ended: Vec<GroupId> = Vec::new();
        let mut last = None;
        while let Some((at, groups)) = self.add_releases(last, from, &demand, &mut free) {
            last = Some(at);
            ended.extend(groups);
            let plan = self.backfill.promises.get(&id).filter(|_| old == Some(at));
            let known = plan.map(|promise| promise.plan.clone());
            let (plan, then) = if let Some(plan) = known {
                (plan, None)
            } else {
                let mut without = later.take().unwrap_or_else(|| self.cluster.clone());
                for group in ended.drain(..) {
                    self.release_from(group, &mut without);
                }
                if let Some((class, room)) = &mut room
                    && !self.has_room_later(*class, room, &without)
                {
                    later = Some(without);
                    continue;
                }
                let mut with = without.clone();
                // The place that was promised for another time, where it will do.
                let own = self.backfill.promises.get(&id).filter(|_| old.is_some());
                let own = own.map(|promise| promise.plan.clone());
                let plan = own.filter(|plan| with.commit(&self.framework, plan).is_ok());
                let plan = plan.or_else(|| {
                    tree = tree.take().or_else(|| self.tree_of(id));
                    let plan = self.place_later(id, tree.as_ref()?, &without, at)?;
                    with.commit(&self.framework, &plan).is_ok().then_some(plan)
                });
                let Some(plan) = plan else {
                    later = Some(without);
                    continue;
                };
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

    /// Adds what running groups give back, those that end first before the others, to the sums: up
    /// to the first end after `last` at which they cover a demand. Returns it, with the groups.
    fn add_releases(
        &self,
        last: Option<Time>,
        from: Time,
        demand: &Demand,
        free: &mut Demand,
    ) -> Option<(Time, Vec<GroupId>)> {
        let mut groups = Vec::new();
        let mut ends = self.backfill.running.ends_after(last).peekable();
        while let Some((at, group, given)) = ends.next() {
            free.add(given);
            groups.push(group);
            let more = ends.peek().is_some_and(|(next, ..)| *next == at);
            if !more && at >= from && free.covers(demand) {
                return Some((at, groups));
            }
        }
        None
    }

    /// An attempt to start a group behind the first of the line. Returns whether it has started.
    fn try_behind(
        &mut self,
        id: GroupId,
        class: ClassId,
        free: &Demand,
        refused: &mut Refused,
    ) -> bool {
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
            self.backfill.guard = Some(Guard { standing, moved: None, taken_up: false });
        }
        let is_counted = self.backfill.line.alike(class).is_some();
        let room = if is_counted { KnownRoom::Enough } else { KnownRoom::Unknown };
        let mut tried = self.try_start(id, room);
        if matches!(tried, Tried::Waits(Shortage::Promised { .. }))
            && let Some(plan) = self.place_beside_promise(id)
        {
            tried = self.try_promised(id, plan.clone());
            if matches!(tried, Tried::Started) {
                self.take_up_beside(&plan);
            }
        }
        let guard = self.backfill.guard.take();
        let moved = guard.and_then(|mut guard| {
            if guard.taken_up && !matches!(tried, Tried::Started) {
                // What was taken up at the promised start has not started.
                guard.standing.then = None;
            }
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
                if self.is_refused_as_class(class, &shortage) {
                    let is_promised = matches!(shortage, Shortage::Promised { .. });
                    let refused = if is_promised { &mut refused.beyond } else { &mut refused.now };
                    refused.insert(class);
                }
                self.wait_in_line(id, shortage);
                false
            }
            Tried::Left => false,
        }
    }

    /// Whether what holds a group up holds up all of its class: it has no place, and nodes are judged
    /// one by one.
    fn is_refused_as_class(&self, class: ClassId, shortage: &Shortage) -> bool {
        let is_place = matches!(
            shortage,
            Shortage::Capacity { .. } | Shortage::Placement { .. } | Shortage::Promised { .. }
        );
        let alike = self.backfill.line.alike(class).filter(|_| self.tenancy.is_none());
        is_place && alike.is_some_and(|alike| !reads_beyond_node(&self.framework, &alike.shape))
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

    /// Takes up a plan at the promised start that was found beside the first of the line.
    fn take_up_beside(&mut self, plan: &Plan) {
        let Some(guard) = &mut self.backfill.guard else { return };
        // Another plan may have been taken up there in part.
        let then = guard.standing.then.take().filter(|_| !guard.taken_up);
        guard.standing.then = then.and_then(|mut then| {
            then.without.commit(&self.framework, plan).ok()?;
            then.with.commit(&self.framework, plan).ok()?;
            Some(then)
        });
    }

    fn promised(&self, standing: &Standing) -> Shortage {
        let to = self.groups.get(&standing.head).map(|queued| queued.name.clone());
        Shortage::Promised { to: to.unwrap_or_else(|| ObjectName::new("", "")), at: standing.at }
    }

    /// The cluster at the promised start; `None` if the promise does not hold.
    fn at_promise(&mut self, standing: &Standing) -> Option<Then> {
        let plan = self.backfill.promises.get(&standing.head)?.plan.clone();
        let mut without = self.cluster.clone();
        self.read_running();
        for (_, group, _) in self.backfill.running.ends().take_while(|(at, ..)| *at <= standing.at)
        {
            self.release_from(group, &mut without);
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
        then.without.commit(&self.framework, plan).ok()?;
        guard.taken_up = true;
        if then.with.commit(&self.framework, plan).is_err() {
            let tree = self.tree_of(*head)?;
            let elsewhere = self.place_later(*head, &tree, &then.without, *at)?;
            let mut with = then.without.clone();
            with.commit(&self.framework, &elsewhere).ok()?;
            then.with = with;
            guard.moved = Some(elsewhere);
        }
        Some(())
    }
}
