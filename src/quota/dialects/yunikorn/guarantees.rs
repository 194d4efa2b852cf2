//! The rest of guarantees along a path while allocations are moved, and the rule for queues that
//! lets one take from the other.
//!
//! Source: YuniKorn's `pkg/scheduler/objects/preemption.go` (`QueuePreemptionSnapshot`).

use alloc::string::String;
use alloc::vec::Vec;

use super::queues::Queues;
use super::resource::Resource;
use super::resources;

#[derive(Debug, Clone)]
struct Snapshot {
    path: String,
    parent: Option<usize>,
    guaranteed: Option<Resource>,
    allocated: Option<Resource>,
    preempting: Option<Resource>,
}

/// Queues as they are, to try on them what preemption would make of them.
#[derive(Debug, Clone)]
pub struct Guarantees {
    /// Parents before their children.
    queues: Vec<Snapshot>,
    ask: Option<usize>,
}

impl Guarantees {
    /// All queues as they are; `ask` is the path of the queue that wants more.
    pub fn new(all: &Queues, ask: Option<&str>) -> Guarantees {
        let mut ordered: Vec<_> =
            all.iter().map(|queue| (all.path(&queue.path).len(), queue)).collect();
        ordered.sort_by(|a, b| (a.0, &a.1.path).cmp(&(b.0, &b.1.path)));
        let mut queues: Vec<Snapshot> = Vec::new();
        for (_, queue) in ordered {
            let parent = queues.iter().position(|own| Some(&own.path) == queue.parent.as_ref());
            queues.push(Snapshot {
                path: queue.path.clone(),
                parent,
                guaranteed: queue.guaranteed.clone(),
                allocated: queue.allocated.clone(),
                preempting: None,
            });
        }
        let ask = ask.and_then(|ask| queues.iter().position(|own| own.path == ask));
        Guarantees { queues, ask }
    }

    fn at(&self, path: &str) -> Option<usize> {
        self.queues.iter().position(|own| own.path == path)
    }

    /// Notes that so much of a queue, and of all above, is being preempted already.
    pub fn preempting(&mut self, path: &str, amounts: &Resource) {
        self.upwards(path, |own| {
            own.preempting = Some(resources::add(own.preempting.as_ref(), Some(amounts)));
        });
    }

    /// Counts so much more in a queue and all above.
    pub fn add(&mut self, path: &str, amounts: &Resource) {
        self.upwards(path, |own| {
            own.allocated = Some(resources::add(own.allocated.as_ref(), Some(amounts)));
        });
    }

    /// Counts so much less.
    pub fn take(&mut self, path: &str, amounts: &Resource) {
        self.upwards(path, |own| {
            own.allocated = Some(resources::subtract(own.allocated.as_ref(), Some(amounts)));
        });
    }

    fn upwards(&mut self, path: &str, mut change: impl FnMut(&mut Snapshot)) {
        let mut next = self.at(path);
        while let Some(queue) = next.and_then(|at| self.queues.get_mut(at)) {
            change(queue);
            next = queue.parent;
        }
    }

    /// The rest of a queue's guarantee and of those above, negative where more is used; `None` if
    /// no queue of the path has one.
    ///
    /// For the queue that asks its own guarantee counts before those above. A queue above it that has
    /// a guarantee passes nothing down if the one that asks has one, so that siblings below it are
    /// judged by their own. (Whether it stands above is told by the beginning of the path as a text:
    /// `root.a` counts as above `root.ab`, as in YuniKorn.)
    pub fn remaining(&self, path: &str) -> Option<Resource> {
        self.remaining_at(self.at(path)?)
    }

    fn remaining_at(&self, at: usize) -> Option<Resource> {
        let own = self.queues.get(at)?;
        let parent = own.parent.and_then(|parent| self.remaining_at(parent));
        let guaranteed = own.guaranteed.as_ref();
        if resources::is_empty(parent.as_ref()) && resources::is_empty(guaranteed) {
            return None;
        }
        let used = resources::subtract_existing(own.allocated.as_ref(), own.preempting.as_ref());
        let left = resources::subtract_existing(guaranteed, used.as_ref());
        let ask = self.ask.and_then(|ask| self.queues.get(ask)).filter(|_| own.parent.is_some());
        if let Some(ask) = ask.filter(|_| !resources::is_empty(left.as_ref())) {
            if ask.path == own.path {
                return resources::merge_missing(left.as_ref(), parent.as_ref());
            }
            if ask.path.starts_with(&own.path) && !resources::is_empty(ask.guaranteed.as_ref()) {
                return None;
            }
        }
        resources::least(left.as_ref(), parent.as_ref())
    }

    /// Usage beyond the guarantees of a queue and of those above, of the types of which more is
    /// used there; `None` if nothing is used.
    pub fn preemptable(&self, path: &str) -> Option<Resource> {
        self.preemptable_at(self.at(path)?)
    }

    fn preemptable_at(&self, at: usize) -> Option<Resource> {
        let own = self.queues.get(at)?;
        if resources::is_empty(own.allocated.as_ref()) {
            return None;
        }
        let used = resources::subtract_existing(own.allocated.as_ref(), own.preempting.as_ref());
        let mut beyond = resources::subtract_existing(used.as_ref(), own.guaranteed.as_ref())?;
        beyond.retain(|_, amount| *amount > 0);
        if beyond.is_empty() {
            return Some(beyond);
        }
        let parent = own.parent.and_then(|parent| self.preemptable_at(parent));
        resources::least_existing(Some(&beyond), parent.as_ref())
    }
}

/// Whether what is left to a queue that asks leaves room on every type that it asks for: none of them
/// is below nothing.
pub fn is_under_guarantee(ask: Option<&Resource>, left: Option<&Resource>) -> bool {
    let negative =
        |name: &String| left.is_some_and(|left| left.get(name).is_some_and(|own| *own < 0));
    left.is_some() && ask.is_none_or(|ask| !ask.keys().any(negative))
}

/// Whether what is left to a victim's queue is below nothing on a type that is asked for.
pub fn is_over_guarantee(ask: Option<&Resource>, left: Option<&Resource>) -> bool {
    let (Some(ask), Some(left)) = (ask, left) else { return false };
    ask.keys().any(|name| left.get(name).is_some_and(|own| *own < 0))
}

#[cfg(test)]
mod tests;
