//! Sorting queues and applications, as YuniKorn sorts.

use std::vec::Vec;

use phalanx::quota::yunikorn::resources;
use phalanx::quota::yunikorn::{ApplicationStanding, QueueStanding, Resource, SortPolicy};

/// Sorts siblings, each given with its fair maximum.
///
/// A comparison judges each of two queues by the fair maximum of the place at which it stands at the
/// time, and the maxima do not move along: what YuniKorn does. The places are those that an insertion
/// sort goes through, which is what Go has for up to twenty.
pub fn sort_queues(
    policy: SortPolicy,
    queues: Vec<(QueueStanding, Option<Resource>)>,
) -> Vec<QueueStanding> {
    let (mut queues, maxima): (Vec<QueueStanding>, Vec<Option<Resource>>) =
        queues.into_iter().unzip();
    for from in 1..queues.len() {
        for at in (1..=from).rev() {
            let (own, before) = ((&queues[at], maxima[at].as_ref()), at - 1);
            let other = (&queues[before], maxima[before].as_ref());
            if policy.compare_queues(own, other).is_ge() {
                break;
            }
            queues.swap(at, before);
        }
    }
    queues
}

/// Sorts the applications of a queue that have something pending, by name where nothing else decides.
pub fn sort_applications(
    policy: SortPolicy,
    mut applications: Vec<ApplicationStanding>,
    total: Option<&Resource>,
) -> Vec<ApplicationStanding> {
    applications.retain(|own| resources::is_positive(own.pending.as_ref()));
    applications.sort_by(|a, b| a.id.cmp(&b.id));
    applications.sort_by(|a, b| policy.compare_applications(a, b, total));
    applications
}

#[cfg(test)]
mod tests {
    use super::*;

    #[allow(clippy::unnecessary_wraps, reason = "as queues have it")]
    fn cpu(amount: i64) -> Option<Resource> {
        Some(Resource::from([("cpu".into(), amount)]))
    }

    #[test]
    fn fair_maxima_stay_at_their_places_while_queues_move() {
        let queue = |name: &str, used: i64, most: i64| {
            let name = name.into();
            (QueueStanding { name, allocated: cpu(used), ..QueueStanding::default() }, cpu(most))
        };
        let policy = SortPolicy { fair: true, by_priority: false };
        // By their own maxima: a has 0.5, b 0.1, c 0.3.
        let all = std::vec![queue("a", 50, 100), queue("b", 100, 1000), queue("c", 30, 100)];
        let sorted = sort_queues(policy, all);
        let names: Vec<&str> = sorted.iter().map(|own| own.name.as_str()).collect();
        // Once b stands first it is judged by 100; a, second, by 1,000.
        assert_eq!(names, ["b", "a", "c"]);
    }
}
