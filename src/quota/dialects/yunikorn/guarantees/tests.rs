use super::super::queues::QueueState;
use super::*;

#[allow(clippy::unnecessary_wraps, reason = "as queues have it")]
fn cpu(amount: i64) -> Option<Resource> {
    Some(Resource::from([("cpu".into(), amount)]))
}

fn queues(all: [(&str, Option<i64>, i64); 4]) -> Queues {
    Queues::new(all.map(|(path, guaranteed, used)| QueueState {
        path: path.into(),
        parent: path.rsplit_once('.').map(|(parent, _)| parent.into()),
        guaranteed: guaranteed.and_then(cpu),
        allocated: cpu(used),
        ..QueueState::default()
    }))
}

#[test]
fn the_least_of_the_path_is_left_but_for_the_one_that_asks() {
    let all = queues([
        ("root", None, 10),
        ("root.p", Some(8), 10),
        ("root.p.a", Some(6), 10),
        ("root.p.b", Some(4), 0),
    ]);
    let plain = Guarantees::new(&all, None);
    assert_eq!(plain.remaining("root.p.b"), cpu(-2), "the parent has used up its own");
    let asked = Guarantees::new(&all, Some("root.p.b"));
    assert_eq!(asked.remaining("root.p"), None);
    assert_eq!((asked.remaining("root.p.b"), asked.remaining("root.p.a")), (cpu(4), cpu(-4)));
    assert_eq!(asked.preemptable("root.p.a"), cpu(2), "no more than the parent's");
}

#[test]
fn moving_an_allocation_changes_all_above() {
    let all = queues([
        ("root", None, 10),
        ("root.p", Some(8), 10),
        ("root.a", None, 0),
        ("root.b", None, 0),
    ]);
    let mut moved = Guarantees::new(&all, None);
    moved.take("root.p", &cpu(5).expect("some"));
    assert_eq!(moved.remaining("root.p"), cpu(3));
    moved.add("root.p", &cpu(4).expect("some"));
    moved.preempting("root.p", &cpu(1).expect("some"));
    assert_eq!(moved.remaining("root.p"), cpu(0));
}
