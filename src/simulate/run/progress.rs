//! The progress of one job: work at a rate, checkpoints, and the time of its runs.

use core::time::Duration;

use crate::base::Time;
use crate::simulate::job::{Checkpointing, Rate};

/// A job's work so far. Work is counted in nanoseconds at the rate of one, × a million.
#[derive(Debug, Clone)]
pub(super) struct Progress {
    total: u128,
    done: u128,
    saved: u128,
    rate: Rate,
    checkpoint: Option<Checkpointing>,
    phase: Phase,
    /// Up to when all of this is counted.
    at: Time,
    /// The start of the run, and its last moment from which nothing can be lost.
    start: Time,
    safe: Time,
    amount: i64,
    /// Amount × nanoseconds of the run, and of those until `safe`.
    spent: u128,
    safe_spent: u128,
    overhead: Duration,
}

/// The doings of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// It does not run.
    Stopped,
    /// It loads its last checkpoint, until a time.
    Restarting(Time),
    /// It works, until its next checkpoint.
    Working(Option<Time>),
    /// It saves, until a time.
    Saving(Time),
}

/// A part of a run, from one time to another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Part {
    /// Its length, kept or in vain.
    pub(super) kept: Duration,
    pub(super) lost: Duration,
    /// Amount × nanoseconds of these.
    pub(super) kept_spent: u128,
    pub(super) lost_spent: u128,
}

impl Progress {
    pub(super) fn new(run_time: Duration, checkpoint: Option<Checkpointing>) -> Progress {
        Progress {
            total: run_time.as_nanos() * u128::from(Rate::ONE.as_millionths()),
            done: 0,
            saved: 0,
            rate: Rate::ONE,
            checkpoint: checkpoint.filter(|checkpoint| checkpoint.every > Duration::ZERO),
            phase: Phase::Stopped,
            at: Time::ZERO,
            start: Time::ZERO,
            safe: Time::ZERO,
            amount: 0,
            spent: 0,
            safe_spent: 0,
            overhead: Duration::ZERO,
        }
    }

    /// Begins a run with so much of the measured resource.
    pub(super) fn start(&mut self, rate: Rate, amount: i64, now: Time) {
        (self.at, self.start, self.safe) = (now, now, now);
        (self.rate, self.amount, self.spent, self.safe_spent) = (rate, amount, 0, 0);
        let restart =
            self.checkpoint.filter(|_| self.saved > 0).map(|checkpoint| checkpoint.restart);
        self.phase = match restart {
            Some(span) if span > Duration::ZERO => Phase::Restarting(now.after(span)),
            _ => self.work(now),
        };
    }

    fn work(&self, now: Time) -> Phase {
        Phase::Working(self.checkpoint.map(|checkpoint| now.after(checkpoint.every)))
    }

    /// Counts until a time, and passes from one phase to the next. Returns whether the work is done.
    pub(super) fn advance(&mut self, now: Time) -> bool {
        let span = now.since(self.at);
        self.at = self.at.max(now);
        self.spent = self
            .spent
            .saturating_add(span.as_nanos().saturating_mul(u128::from(self.amount.unsigned_abs())));
        match self.phase {
            Phase::Stopped => return false,
            Phase::Working(_) => {
                let work = span.as_nanos().saturating_mul(u128::from(self.rate.as_millionths()));
                self.done = self.done.saturating_add(work).min(self.total);
            }
            Phase::Restarting(_) | Phase::Saving(_) => self.overhead += span,
        }
        match (self.phase, self.checkpoint) {
            (Phase::Restarting(until), _) if until <= now => self.phase = self.work(now),
            (Phase::Saving(until), _) if until <= now => {
                self.is_saved(now);
                self.phase = self.work(now);
            }
            (Phase::Working(Some(next)), Some(checkpoint))
                if next <= now && self.done < self.total =>
            {
                if checkpoint.save > Duration::ZERO {
                    self.phase = Phase::Saving(now.after(checkpoint.save));
                } else {
                    self.is_saved(now);
                    self.phase = self.work(now);
                }
            }
            _ => {}
        }
        matches!(self.phase, Phase::Working(_)) && self.done >= self.total
    }

    fn is_saved(&mut self, now: Time) {
        (self.saved, self.safe, self.safe_spent) = (self.done, now, self.spent);
    }

    /// The time of the next phase, or of the end of the work; `None` if it never comes. At the end of
    /// time nothing more comes.
    pub(super) fn next(&self) -> Option<Time> {
        if self.at == Time::MAX {
            return None;
        }
        match self.phase {
            Phase::Stopped => None,
            Phase::Restarting(until) | Phase::Saving(until) => Some(until),
            Phase::Working(save) => {
                let left = self.total - self.done;
                let rate = u128::from(self.rate.as_millionths());
                if left > 0 && rate == 0 {
                    return None;
                }
                let nanos = u64::try_from(left.div_ceil(rate.max(1))).unwrap_or(u64::MAX);
                let end = self.at.after(Duration::from_nanos(nanos));
                Some(save.map_or(end, |save| save.min(end)))
            }
        }
    }

    /// Another rate from now on; what was done is counted.
    pub(super) fn set_rate(&mut self, rate: Rate) {
        self.rate = rate;
    }

    /// Another number of members from now on. A job with checkpoints saves and restarts for it.
    pub(super) fn resize(&mut self, amount: i64, now: Time) {
        self.amount = amount;
        if let Some(checkpoint) = self.checkpoint
            && self.phase != Phase::Stopped
        {
            self.is_saved(now);
            let until = now.after(checkpoint.save.saturating_add(checkpoint.restart));
            self.phase = if until > now { Phase::Restarting(until) } else { self.work(now) };
        }
    }

    /// Stops the run: it falls back to the last checkpoint.
    pub(super) fn stop(&mut self, now: Time) -> Part {
        self.advance(now);
        let part = Part {
            kept: self.safe.since(self.start),
            lost: now.since(self.safe),
            kept_spent: self.safe_spent,
            lost_spent: self.spent.saturating_sub(self.safe_spent),
        };
        (self.phase, self.done) = (Phase::Stopped, self.saved);
        part
    }

    /// Ends the run for good: all of it is kept.
    pub(super) fn end(&mut self, now: Time) -> Part {
        self.advance(now);
        self.phase = Phase::Stopped;
        Part { kept: now.since(self.start), kept_spent: self.spent, ..Part::default() }
    }

    pub(super) fn overhead(&self) -> Duration {
        self.overhead
    }

    /// The work done, as time at the rate of one.
    pub(super) fn worked(&self) -> Duration {
        let nanos = self.done / u128::from(Rate::ONE.as_millionths());
        Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }

    pub(super) fn amount(&self) -> i64 {
        self.amount
    }
}
