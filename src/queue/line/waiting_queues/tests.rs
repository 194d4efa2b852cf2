use super::*;
use crate::base::Time;
use core::cmp::Reverse;

fn key(group: u64) -> QueueKey {
    QueueKey { rank: 0, priority: Reverse(0), grown: 0, since: Time::ZERO, group }
}

#[test]
fn the_head_of_a_strict_queue_waits_for_those_before_it() {
    for rule in [HeadOfLine::BestEffort, HeadOfLine::StrictFifo] {
        let mut queues = WaitingQueues::default();
        let first = |queues: &WaitingQueues| queues.first_ready().map(|key| key.group);
        queues.put("a", &key(1), false, rule);
        queues.put("a", &key(2), true, rule);
        queues.put("b", &key(3), true, rule);
        let is_strict = rule == HeadOfLine::StrictFifo;
        assert_eq!(first(&queues), Some(if is_strict { 3 } else { 2 }));
        queues.put("a", &key(1), true, rule);
        assert_eq!(first(&queues), Some(1));
        queues.remove("a", &key(1), rule);
        assert_eq!(first(&queues), Some(2));
        queues.remove("a", &key(2), rule);
        queues.put("b", &key(3), false, rule);
        assert_eq!(first(&queues), None);
        assert_eq!(queues.first_of_each(1).len(), 1);
        queues.remove("b", &key(3), rule);
        assert!(queues.queues.is_empty() && queues.heads.is_empty());
    }
}
