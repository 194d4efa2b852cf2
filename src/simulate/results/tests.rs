use super::*;

fn job(queue: &str, submit: u64, start: u64, end: u64) -> JobRecord {
    let at = Time::from_secs;
    JobRecord {
        name: ObjectName::new("default", queue),
        queue: queue.into(),
        pods: 1,
        amount: 1,
        submit: at(submit),
        run_time: at(end).since(at(start)),
        start: Some(at(start)),
        first_start: Some(at(start)),
        end: Some(at(end)),
        restarts: 0,
        lost: Duration::ZERO,
        kept: Duration::ZERO,
        overhead: Duration::ZERO,
        worked: at(end).since(at(start)),
    }
}

#[test]
fn slowdown_is_bounded_below_by_one_and_by_ten_seconds() {
    let bound = Duration::from_secs(10);
    assert_eq!(job("a", 0, 10, 20).bounded_slowdown(bound), Some(2.0));
    assert_eq!(job("a", 0, 9, 10).bounded_slowdown(bound), Some(1.0));
    assert_eq!(job("a", 0, 99, 100).bounded_slowdown(bound), Some(10.0));
}

#[test]
fn percentiles_are_of_the_nearest_rank_and_jain_is_of_queues() {
    let waits: Vec<Duration> = (1..=200).map(Duration::from_secs).collect();
    assert_eq!(percentile(&waits, 50), Duration::from_secs(100));
    assert_eq!(percentile(&waits, 99), Duration::from_secs(198));
    assert_eq!(percentile(&[], 99), Duration::ZERO);
    let jobs = [job("a", 0, 10, 20), job("b", 0, 10, 20)].to_vec();
    let mut results = Results { jobs, ..Results::empty() };
    assert_eq!(results.summary().jain, 1.0);
    // Shares of 1/2 and 1.
    results.jobs[1] = job("b", 10, 10, 20);
    assert_eq!(results.summary().jain, 2.25 / (2.0 * 1.25));
}
