//! The inspector as a process of its own: it reads the API, and says what does not hold.

use std::io::{Read, Write};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::support::api::{Api, runtime};
use crate::support::follow::{News, follow};
use crate::support::inspector::{Finding, Inspector};

/// The argument that makes this program the inspector: `inspect KUBECONFIG SECONDS`.
pub const COMMAND: &str = "inspect";

/// The first word of the last line: numbers of what was seen.
pub const SUMMARY: &str = "summary";

/// The first word of a line that tells a finding.
pub const FINDING: &str = "finding";

/// Time between looks at the clock.
const TICK: Duration = Duration::from_millis(250);

/// Follows pods, groups and nodes until standard input ends. One line of output tells each finding, and the
/// last one the numbers. A gang may be below its minimum for so long while the API answers.
pub fn main(kubeconfig: &Path, deadline: Duration) {
    let runtime = runtime(1);
    runtime.block_on(run(kubeconfig, deadline));
}

/// Whether pods are known as they are now, and how often they were not.
#[derive(Default)]
struct Sight {
    is_clear: AtomicBool,
    lost: Mutex<usize>,
}

async fn run(kubeconfig: &Path, deadline: Duration) {
    let api = Api::new(kubeconfig).await;
    let inspector = Mutex::new(Inspector::new(deadline));
    let sight = Sight::default();
    let ended = tokio::task::spawn_blocking(|| {
        // Whatever comes, only the end counts.
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
    });
    let nodes = follow(&api, "/api/v1/nodes", |news: News| match news {
        News::All(objects) => locked(&inspector).all_nodes(&objects),
        News::Put(object) => locked(&inspector).put_node(&object),
        News::Gone(object) => locked(&inspector).drop_node(&object),
        News::Lost => {}
    });
    let groups =
        follow(&api, "/apis/scheduling.k8s.io/v1alpha2/podgroups", |news: News| match news {
            News::All(objects) => locked(&inspector).all_gangs(&objects),
            News::Put(object) => locked(&inspector).put_gang(&object),
            News::Gone(object) => locked(&inspector).drop_gang(&object),
            News::Lost => {}
        });
    let pods = follow(&api, "/api/v1/pods", |news: News| {
        sight.is_clear.store(!matches!(news, News::Lost), Ordering::Relaxed);
        match news {
            News::All(objects) => locked(&inspector).all_pods(&objects),
            News::Put(object) => locked(&inspector).put_pod(&object),
            News::Gone(object) => locked(&inspector).drop_pod(&object),
            News::Lost => *locked(&sight.lost) += 1,
        }
    });
    let begin = Instant::now();
    let mut known = Duration::ZERO;
    let clock = async {
        let mut last = Instant::now();
        loop {
            tokio::time::sleep(TICK).await;
            let passed = std::mem::replace(&mut last, Instant::now());
            if sight.is_clear.load(Ordering::Relaxed) {
                known += passed.elapsed();
                locked(&inspector).pass(passed.elapsed());
            }
            tell(&begin, locked(&inspector).take_findings());
        }
    };
    tokio::select! {
        () = nodes => {},
        () = groups => {},
        () = pods => {},
        () = clock => {},
        _ = ended => {},
    }
    let mut inspector = locked(&inspector);
    inspector.end();
    tell(&begin, inspector.take_findings());
    println!("{SUMMARY} {}", summary(&inspector, begin.elapsed(), known, *locked(&sight.lost)));
}

fn locked<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

fn tell(begin: &Instant, findings: Vec<Finding>) {
    for finding in findings {
        println!("{FINDING} {:.1} s {finding}", begin.elapsed().as_secs_f64());
    }
    // A closed output is seen at the next line.
    let _ = std::io::stdout().flush();
}

/// Numbers of what was seen, in `time`, of which the API answered for `known`.
fn summary(inspector: &Inspector, time: Duration, known: Duration, lost: usize) -> Value {
    let seen = inspector.seen();
    let mut waits: Vec<f64> = seen.waits.iter().map(Duration::as_secs_f64).collect();
    waits.sort_by(f64::total_cmp);
    let part = |of: usize| waits.get(waits.len() * of / 100).or(waits.last()).copied();
    json!({
        "seconds": time.as_secs(),
        "secondsKnown": known.as_secs(),
        "watchesLost": lost,
        "observations": seen.observations,
        "gangs": seen.gangs,
        "gangsWhole": seen.gangs_whole,
        "pods": seen.pods,
        "bindings": seen.bindings,
        "longestBelowMinimumS": seen.longest_below.as_secs_f64(),
        "gangWaitS": {"p50": part(50), "p99": part(99), "longest": waits.last()},
    })
}
