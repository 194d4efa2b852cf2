//! Attempts to start a group of the line.

use crate::queue::line::shortage::KnownRoom;
use crate::queue::scheduler::Scheduler;
use crate::queue::scheduler::attempt::AttemptResult;
use crate::queue::terms::ids::GroupId;
use crate::queue::terms::shortage::Shortage;
use crate::queue::terms::wake::WakeCondition;
use crate::state::Plan;

/// The result of an attempt to start a group.
pub(super) enum Tried {
    Started,
    /// It waits on in the line.
    Waits(Shortage),
    /// It waits for something other than room, or does not wait any more.
    Left,
}

impl Scheduler {
    /// An attempt to start a group.
    pub(super) fn try_start(
        &mut self,
        id: GroupId,
        room: KnownRoom,
        promised: Option<&Plan>,
    ) -> Tried {
        self.drop_unsuitable_nomination(id);
        let Some((gang, tree)) = self.gang_and_tree(id) else { return Tried::Left };
        match self.find_plan(id, &gang, &tree, room, promised) {
            AttemptResult::Plan(plan, held) => {
                self.start_plan(gang, plan, held);
                Tried::Started
            }
            AttemptResult::Unschedulable(shortage, wake_on) => {
                let is_denied = matches!(shortage, Shortage::Permit { .. });
                if is_denied || matches!(wake_on, WakeCondition::Quota { .. }) {
                    // It sleeps: neither its turn nor room alone would start it.
                    self.mark_unschedulable(&gang, &shortage, &wake_on);
                    return Tried::Left;
                }
                Tried::Waits(shortage)
            }
            AttemptResult::Error(error) => {
                self.fail(&gang, &error);
                Tried::Left
            }
        }
    }

    /// An attempt to start a group at the place that it was promised.
    pub(super) fn try_promised(&mut self, id: GroupId, plan: &Plan) -> Tried {
        if !self.groups.contains_key(&id) {
            return Tried::Left;
        }
        self.holds.forget_nomination(id);
        self.try_start(id, KnownRoom::Unknown, Some(plan))
    }
}
