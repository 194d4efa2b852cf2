//! Streams of jobs on equal processors, with the starts that a published simulator computes.

use std::time::Duration;

use phalanx::plugins::Fit;
use phalanx::queue::{Backfill, HeadOfLine, Settings};
use phalanx::simulate::{Job, Simulation};
use phalanx::{Cluster, Framework, Node, Pod, PodGroup, Scheduler, Strategy, Time};
use serde_json::Value;

use super::Disagreement;

/// A job of a stream, in milliseconds.
#[derive(Debug, Clone, Copy)]
struct StreamJob {
    id: u64,
    submit: u64,
    processors: u32,
    estimate: u64,
    run: u64,
}

/// Settings by policy.
fn settings(policy: &str) -> Option<Settings> {
    let settings = Settings::new();
    Some(match policy {
        "fcfs" => settings.head_of_line(HeadOfLine::StrictFifo),
        "easy" => settings.backfill(Backfill::easy()),
        "easy_sjbf" => settings.backfill(Backfill::easy_shortest_first()),
        "conservative" => settings.backfill(Backfill::conservative()),
        _ => return None,
    })
}

/// Whether a case is a stream.
pub(super) fn is_case(case: &Value) -> bool {
    case.get("processors").is_some() && case.get("jobs").is_some()
}

/// Runs a stream under each policy that has starts: the policy, and where it differs.
///
/// # Errors
/// The case is no stream, or has expectations that are not known.
pub(super) fn run(case: &Value) -> Result<Vec<(String, Option<Disagreement>)>, String> {
    let fields = case.as_object().ok_or("is no object")?;
    let known = ["name", "tags", "processors", "jobs", "expect"];
    if let Some(field) = fields.keys().find(|field| !known.contains(&field.as_str())) {
        return Err(format!("{field}: is not known"));
    }
    let processors = case["processors"].as_u64().and_then(|count| u32::try_from(count).ok());
    let processors = processors.filter(|count| *count > 0).ok_or("processors: is no number")?;
    let jobs = case["jobs"].as_array().ok_or("jobs: is no list")?;
    let jobs = jobs.iter().map(job).collect::<Result<Vec<_>, _>>()?;
    let expect = case["expect"].as_object().ok_or("expect: is no object")?;
    if let Some(field) = expect.keys().find(|field| *field != "starts") {
        return Err(format!("expect.{field}: is not known"));
    }
    let starts = case["expect"]["starts"].as_object().ok_or("expect.starts: is no object")?;
    if starts.is_empty() {
        return Err("expect.starts: is empty".into());
    }
    let mut verdicts = Vec::new();
    for (policy, expected) in starts {
        let settings =
            settings(policy).ok_or_else(|| format!("expect.starts.{policy}: is not known"))?;
        let expected = expected.as_array().ok_or("expect.starts: holds no list")?;
        if expected.len() != jobs.len() {
            return Err(format!("expect.starts.{policy}: has not one start for each job"));
        }
        let actual = simulate(processors, &jobs, settings)?;
        let mut pairs = jobs.iter().zip(expected.iter().zip(&actual));
        let found = pairs.find_map(|(job, (expected, actual))| {
            let actual = actual.map_or(Value::Null, Value::from);
            (*expected != actual)
                .then(|| Disagreement::new(format!("job {}", job.id), policy, "", expected, actual))
        });
        verdicts.push((policy.clone(), found));
    }
    Ok(verdicts)
}

fn job(value: &Value) -> Result<StreamJob, String> {
    let numbers: Option<Vec<u64>> =
        value.as_array().and_then(|list| list.iter().map(Value::as_u64).collect());
    match numbers.as_deref() {
        Some(&[id, submit, processors, estimate, run]) if run <= estimate => {
            let processors = u32::try_from(processors).ok().filter(|count| *count > 0);
            let processors = processors.ok_or_else(|| format!("job {id}: has no processors"))?;
            Ok(StreamJob { id, submit, processors, estimate, run })
        }
        _ => Err(format!("jobs: {value} is no job")),
    }
}

fn simulate(
    processors: u32,
    jobs: &[StreamJob],
    settings: Settings,
) -> Result<Vec<Option<u64>>, String> {
    let mut cluster = Cluster::new();
    for index in 0..processors {
        let node = Node::new(format!("p{index}")).tie_rank(i64::from(index)).capacity("cpu", 1);
        cluster.add_node(node).map_err(|error| error.to_string())?;
    }
    let framework = Framework::builder().filter(Fit).strategy(Strategy::Kubernetes).build();
    let framework = framework.map_err(|error| error.to_string())?;
    let scheduler = Scheduler::new(cluster, framework, settings);
    let jobs = jobs.iter().enumerate().map(|(index, job)| {
        let gang = PodGroup::gang(format!("job-{index}"), job.processors)
            .pods(job.processors as usize, Pod::new().request("cpu", 1))
            .run_time_estimate(Duration::from_millis(job.estimate));
        Job::new(gang, Time::from_millis(job.submit), Duration::from_millis(job.run))
    });
    let results = Simulation::new(scheduler, "cpu").run(jobs, |_, _| ());
    let results = results.map_err(|error| error.to_string())?;
    Ok(results.jobs.iter().map(|job| job.start.map(Time::as_millis)).collect())
}
