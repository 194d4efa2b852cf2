//! Status of tasks, and when a gang of tasks is whole.

/// Status of a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TaskStatus {
    /// It waits.
    Pending,
    /// It has room, and is not bound yet.
    Allocated,
    /// It has room that others are about to leave.
    Pipelined,
    /// It is being bound.
    Binding,
    /// It is bound.
    Bound,
    /// It runs.
    Running,
    /// It is being evicted.
    Releasing,
    /// It is done.
    Succeeded,
    /// It has failed.
    Failed,
    /// Nothing is known of it.
    Unknown,
}

impl TaskStatus {
    const ALL: [TaskStatus; 10] = [
        TaskStatus::Pending,
        TaskStatus::Allocated,
        TaskStatus::Pipelined,
        TaskStatus::Binding,
        TaskStatus::Bound,
        TaskStatus::Running,
        TaskStatus::Releasing,
        TaskStatus::Succeeded,
        TaskStatus::Failed,
        TaskStatus::Unknown,
    ];

    /// Volcano's number: a bit each, in the order above.
    pub fn code(self) -> i64 {
        1 << self as u32
    }

    /// The status of a number.
    pub fn from_code(code: i64) -> Option<TaskStatus> {
        TaskStatus::ALL.into_iter().find(|status| status.code() == code)
    }

    /// Whether the task counts in what its queue has allocated.
    pub fn is_allocated(self) -> bool {
        use TaskStatus::{Allocated, Binding, Bound, Running};
        matches!(self, Allocated | Binding | Bound | Running)
    }

    /// Whether the task may be preempted.
    pub fn is_preemptable(self) -> bool {
        matches!(self, TaskStatus::Bound | TaskStatus::Running)
    }

    /// Whether the task counts towards the number that a gang needs to be valid at all.
    pub fn is_valid(self) -> bool {
        let counts = matches!(self, TaskStatus::Succeeded | TaskStatus::Pipelined);
        self.is_allocated() || counts || self == TaskStatus::Pending
    }
}

/// How many tasks of a gang are where, against the number that it needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Readiness {
    /// How many it needs.
    pub minimum: i32,
    /// Tasks that have room, run, or are done.
    pub ready: i32,
    /// Tasks that wait for others to leave.
    pub waiting: i32,
    /// Tasks that wait and ask for nothing.
    pub best_effort: i32,
    /// All but those that are leaving, have failed or are unknown.
    pub valid: i32,
    /// All.
    pub all: i32,
}

impl Readiness {
    /// No tasks yet.
    pub fn new(minimum: i32) -> Readiness {
        Readiness { minimum, ..Readiness::default() }
    }

    /// Counts a task.
    pub fn add(&mut self, status: TaskStatus, best_effort: bool) {
        self.all += 1;
        self.valid += i32::from(status.is_valid());
        self.ready += i32::from(status.is_allocated() || status == TaskStatus::Succeeded);
        self.waiting += i32::from(status == TaskStatus::Pipelined);
        self.best_effort += i32::from(status == TaskStatus::Pending && best_effort);
    }

    /// Whether enough have room, or need none.
    pub fn is_ready(&self) -> bool {
        self.ready + self.best_effort >= self.minimum
    }

    /// Whether enough have room or will have.
    pub fn is_pipelined(&self) -> bool {
        self.waiting + self.ready + self.best_effort >= self.minimum
    }

    /// Whether too few have room or will have, not counting those that need none.
    pub fn is_starving(&self) -> bool {
        self.waiting + self.ready < self.minimum
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tasks_that_ask_for_nothing_count_while_they_wait() {
        let mut gang = Readiness::new(3);
        gang.add(TaskStatus::Pending, true);
        gang.add(TaskStatus::Running, false);
        assert!(!gang.is_pipelined() && gang.is_starving());
        gang.add(TaskStatus::Pipelined, false);
        assert!(gang.is_pipelined() && !gang.is_ready() && gang.is_starving());
        gang.add(TaskStatus::Succeeded, false);
        assert!(gang.is_ready() && !gang.is_starving());
    }

    #[test]
    fn codes_go_both_ways() {
        for status in TaskStatus::ALL {
            assert_eq!(TaskStatus::from_code(status.code()), Some(status));
        }
        assert_eq!(TaskStatus::from_code(3), None);
    }
}
