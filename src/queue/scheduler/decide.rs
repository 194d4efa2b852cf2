//! Decisions: the loop that finds the next one.

use super::Scheduler;
use crate::base::{ObjectName, Time};
use crate::queue::groups::{Member, MemberState, Phase};
use crate::queue::holds::Hold;
use crate::queue::removals::is_there;
use crate::queue::terms::decision::Decision;
use crate::queue::terms::observe::GroupChange;

impl Scheduler {
    /// The next decision; `None` if there is nothing to do until the next input or
    /// [`Scheduler::next_wake`].
    ///
    /// Groups are tried in queue order until one is placed. Each attempt costs one request to the
    /// planner, unless counting capacity alone shows that the group cannot be placed.
    pub fn poll_decision(&mut self, now: Time) -> Option<Decision> {
        if self.world.is_stopped() {
            return None;
        }
        self.expire(now);
        loop {
            self.follow();
            if let Some(mut decision) = self.report.next_decision() {
                if let Decision::Prepare { ticket, .. } = &decision
                    && !self.holds.plan(*ticket).is_some_and(Hold::prepares)
                {
                    // It was undone, or bound from outside, before anything was prepared.
                    continue;
                }
                if let Decision::Bind { ticket, plan, .. } | Decision::Prepare { ticket, plan, .. } =
                    &mut decision
                    && let Some(sent) = self.holds.plan_in_flight(*ticket)
                {
                    // Members may have been deleted since the decision was queued.
                    plan.clone_from(sent);
                }
                if let Decision::Evict { ticket, victims, .. } = &mut decision {
                    // Victims may have gone, been taken back, or failed.
                    self.update_evictions();
                    self.follow();
                    victims.retain(|victim| self.removals.is_open(*ticket, &victim.name));
                    for victim in &mut *victims {
                        victim.pods.retain(|pod| is_there(self.world.cluster(), pod));
                    }
                    if victims.is_empty() {
                        continue;
                    }
                    let names = victims.iter().map(|victim| &*victim.name).collect();
                    self.have_been_asked(*ticket, &names);
                }
                if let Decision::Move { ticket, moves, .. } = &mut decision {
                    // Units may have moved, been taken back, or failed.
                    self.update_evictions();
                    self.follow();
                    moves.retain(|step| {
                        self.removals.is_open(*ticket, &step.unit)
                            && is_there(self.world.cluster(), &step.pod)
                    });
                    if moves.is_empty() {
                        continue;
                    }
                    let names = moves.iter().map(|step| &*step.unit).collect();
                    self.have_been_asked(*ticket, &names);
                }
                if let Decision::Unbind { pods, .. } = &mut decision {
                    // Pods may have been unbound, or deleted, since the decision was queued.
                    pods.retain(|own| {
                        let state = self.member_state(&own.pod);
                        state.is_none_or(|state| state == MemberState::Unbinding)
                    });
                    if pods.is_empty() {
                        continue;
                    }
                }
                if let Decision::CancelEvictions { victims, .. } = &mut decision {
                    victims.retain(|victim| {
                        victim.pods.iter().any(|pod| is_there(self.world.cluster(), pod))
                    });
                    if victims.is_empty() {
                        continue;
                    }
                }
                return Some(decision);
            }
            if self.evict_due() {
                continue;
            }
            self.apply_changes();
            if self.holds.take_due() {
                self.update_reservations();
                continue;
            }
            if self.world.settings().discipline.backfill().is_some() {
                if self.backfill() || self.search_again() {
                    continue;
                }
                return self.report.next_decision();
            }
            self.groups.partners_mut().count_checked(1);
            let ready = self.next_ready();
            if let Some(id) = self.line.next_sleeper(&self.world, ready.as_ref()) {
                // The missing capacity is there, so the back-off does not apply.
                self.report.count(|metrics| &mut metrics.woken);
                self.set_phase(id, Phase::Queued);
                self.emit(id, GroupChange::Queued);
                continue;
            }
            match ready {
                Some(key) => self.attempt(key.group),
                None if self.search_again() => {}
                None => return self.report.next_decision(),
            }
        }
    }

    /// The state of a member, by its full name.
    fn member_state(&self, pod: &ObjectName) -> Option<MemberState> {
        let (id, seq) = self.groups.member(pod)?;
        self.groups.find(id, seq).map(Member::state)
    }
}
