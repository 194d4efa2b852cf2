//! The traces: jobs in five formats.

use std::time::Duration;

use phalanx::Time;
use serde_json::Value;

use super::columns;

/// A job as a trace has it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct TraceJob {
    pub(crate) id: Value,
    pub(crate) submit: Time,
    /// Processors or GPUs; of a share of a GPU, thousandths are in `milli`.
    pub(crate) size: u32,
    pub(crate) milli: Option<i64>,
    pub(crate) run: Duration,
    /// The estimate that the trace has.
    pub(crate) estimate: Option<Duration>,
    pub(crate) queue: String,
    /// The kind of its program; empty if it is not known.
    pub(crate) model: String,
    /// Who submitted it; empty if that is not known.
    pub(crate) user: String,
    /// The job that it follows.
    pub(crate) after: Option<Value>,
    /// Work, seconds a unit of it, overhead: for the policies that preempt.
    pub(crate) work: (f64, f64, f64),
}

/// A trace, and the number of processors that it names.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Trace {
    pub(crate) jobs: Vec<TraceJob>,
    pub(crate) processors: Option<u32>,
}

impl TraceJob {
    pub(super) fn new(id: Value, submit: Time, size: u32, run: Duration) -> TraceJob {
        let work = (run.as_secs_f64(), 1.0, 0.0);
        let (milli, estimate, after) = (None, None, None);
        let (queue, model, user) = (String::new(), String::new(), String::new());
        TraceJob { id, submit, size, milli, run, estimate, queue, model, user, after, work }
    }
}

/// Reads a trace. The message of an error names the file and the line.
pub(crate) fn read(
    file: &str,
    text: &str,
    format: &str,
    name: Option<&str>,
) -> Result<Trace, String> {
    let trace = match format {
        "swf" => swf(file, text)?,
        "stream" => stream(file, text, name)?,
        "muri" => muri(file, text)?,
        "openb" => openb(file, text)?,
        "borg2019" => columns::borg(file, text)?,
        "csv" => columns::read(file, text, name.unwrap_or(""), "")?,
        "helios" | "pai2020" => {
            let (map, header) = columns::known(format).unwrap_or(("", ""));
            columns::read(file, text, map, header)?
        }
        _ => philly(file, text)?,
    };
    if trace.jobs.is_empty() { Err(format!("{file}: has no jobs")) } else { Ok(trace) }
}

/// The Standard Workload Format: 18 numbers a line, −1 where a value is not known.
fn swf(file: &str, text: &str) -> Result<Trace, String> {
    let (mut jobs, mut processors, mut nodes) = (Vec::new(), None, None);
    for (index, line) in text.lines().enumerate() {
        let at = |what: &str| format!("{file}: line {}: {what}", index + 1);
        let line = line.trim();
        if let Some(comment) = line.strip_prefix(';') {
            let (key, value) = comment.split_once(':').unwrap_or((comment, ""));
            let number = value.split_whitespace().next().and_then(|word| word.parse().ok());
            match key.trim() {
                "MaxProcs" => processors = number,
                "MaxNodes" => nodes = number,
                _ => {}
            }
            continue;
        }
        if line.is_empty() {
            continue;
        }
        let fields: Vec<&str> = line.split_whitespace().collect();
        let number = |field: usize| -> Result<f64, String> {
            let text = fields.get(field - 1).ok_or_else(|| at(&format!("has no field {field}")))?;
            let value: f64 =
                text.parse().map_err(|_| at(&format!("field {field}: {text:?} is no number")))?;
            let known = value.is_finite() && value.abs() < 1e12;
            if known { Ok(value) } else { Err(at(&format!("field {field}: {text} is too large"))) }
        };
        let (submit, run) = (number(2)?, number(4)?);
        let requested = if fields.len() > 7 { number(8)? } else { -1.0 };
        let size = if requested > 0.0 { requested } else { number(5)? };
        let limit = if fields.len() > 8 { number(9)? } else { -1.0 };
        if submit < 0.0 {
            return Err(at("field 2: the time of submission is below zero"));
        }
        let id = number(1)?;
        let id = if id.fract() == 0.0 { Value::from(id as i64) } else { Value::from(id) };
        // A job without processors, or whose run time is not known, never ran: it has size 0.
        let size = if run < 0.0 || size < 1.0 { 0 } else { size.min(f64::from(u32::MAX)) as u32 };
        let secs = |value: f64| Duration::from_millis((value * 1_000.0).round() as u64);
        let submit = Time::ZERO.after(secs(submit));
        let mut job = TraceJob::new(id, submit, size, secs(run.max(0.0)));
        job.estimate = (limit > 0.0).then(|| secs(limit));
        if fields.len() > 14 {
            job.queue = format!("{}", number(15)?);
        }
        if fields.len() > 11 && number(12)? >= 0.0 {
            job.user = format!("{}", number(12)?);
        }
        if fields.len() > 16 && number(17)? >= 0.0 {
            job.after = Some(Value::from(number(17)? as i64));
        }
        jobs.push(job);
    }
    Ok(Trace { jobs, processors: processors.or(nodes) })
}

/// Streams of the backfill suite: one JSON object a line, jobs in milliseconds.
fn stream(file: &str, text: &str, name: Option<&str>) -> Result<Trace, String> {
    for (index, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let at = |what: &str| format!("{file}: line {}: {what}", index + 1);
        let stream: Value = serde_json::from_str(line).map_err(|error| at(&error.to_string()))?;
        if name.is_some_and(|name| stream["name"] != name) {
            continue;
        }
        let count = |value: &Value| value.as_u64().and_then(|count| u32::try_from(count).ok());
        let processors =
            count(&stream["processors"]).ok_or_else(|| at("processors: is no number"))?;
        let list = stream["jobs"].as_array().ok_or_else(|| at("jobs: is no list"))?;
        let mut jobs = Vec::with_capacity(list.len());
        for job in list {
            let bad = || at(&format!("jobs: {job} is no job"));
            let parts = job.as_array().filter(|parts| parts.len() == 5).ok_or_else(bad)?;
            let number = |at: usize| parts[at].as_u64().ok_or_else(bad);
            let size = count(&parts[2]).ok_or_else(bad)?;
            let submit = Time::from_millis(number(1)?);
            let run = Duration::from_millis(number(4)?);
            let mut job = TraceJob::new(parts[0].clone(), submit, size, run);
            job.estimate = Some(Duration::from_millis(number(3)?));
            jobs.push(job);
        }
        return Ok(Trace { jobs, processors: Some(processors) });
    }
    let name = name.map_or(String::from("a stream"), |name| format!("a stream {name:?}"));
    Err(format!("{file}: has not {name}"))
}

/// The rows of a table by column: those of `columns`, empty where one is missing and begins with
/// `?`.
fn table<'a, const N: usize>(
    file: &str,
    text: &'a str,
    columns: [&str; N],
) -> Result<Vec<(usize, [&'a str; N])>, String> {
    let rows = table_of(file, text, &columns, "")?;
    let row = |cells: Vec<Option<&'a str>>| {
        std::array::from_fn(|at| cells.get(at).copied().flatten().unwrap_or(""))
    };
    Ok(rows.into_iter().map(|(line, cells)| (line, row(cells))).collect())
}

/// A line and its cells, those of missing columns none.
type Row<'a> = (usize, Vec<Option<&'a str>>);

/// As [`table`], for any number of columns; an empty one is none. `header` is that of files that have
/// none of their own.
pub(super) fn table_of<'a>(
    file: &str,
    text: &'a str,
    columns: &[&str],
    header: &str,
) -> Result<Vec<Row<'a>>, String> {
    let mut lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()).peekable();
    let first: &'a str = lines.peek().ok_or_else(|| format!("{file}: is empty"))?.1;
    let split = |line: &'a str| -> Vec<&'a str> {
        line.trim_start_matches('\u{feff}')
            .split(',')
            .map(|cell| cell.trim().trim_matches('"'))
            .collect()
    };
    let own = split(first);
    let is_headed = header.is_empty() || own.first() == header.split(',').next().as_ref();
    let names: Vec<String> = if is_headed {
        lines.next();
        own.iter().map(ToString::to_string).collect()
    } else {
        header.split(',').map(String::from).collect()
    };
    let mut places = Vec::with_capacity(columns.len());
    for column in columns {
        let name = column.trim_start_matches('?');
        let place = name.split('|').find_map(|name| names.iter().position(|have| have == name));
        if place.is_none() && !column.starts_with('?') && !column.is_empty() {
            return Err(format!("{file}: line 1: column {name} is missing"));
        }
        places.push(place);
    }
    lines
        .map(|(index, line)| {
            let cells = split(line);
            if cells.len() != names.len() {
                let (have, want) = (cells.len(), names.len());
                return Err(format!("{file}: line {}: has {have} fields, not {want}", index + 1));
            }
            Ok((index + 1, places.iter().map(|place| place.map(|place| cells[place])).collect()))
        })
        .collect()
}

pub(super) fn number(file: &str, line: usize, what: &str, text: &str) -> Result<f64, String> {
    let value = text.parse().ok().filter(|value| (0.0..=1e15).contains(value));
    value.ok_or_else(|| format!("{file}: line {line}: {what}: {text:?} is not a number from 0 on"))
}

/// An id: a number where it is one.
pub(super) fn id(text: &str) -> Value {
    text.parse::<i64>().map_or_else(|_| Value::from(text), Value::from)
}

fn muri(file: &str, text: &str) -> Result<Trace, String> {
    let jobs = super::muri_jobs(file, text)?;
    let jobs = jobs.into_iter().map(|job| {
        let run =
            Duration::from_secs_f64((job.iterations * job.iteration + job.overhead).min(1e12));
        let submit = Time::ZERO.after(Duration::from_secs_f64(job.submit.min(1e10)));
        let mut read = TraceJob::new(id(&job.id), submit, job.gpus, run);
        read.model = job.model;
        read.work = (job.iterations, job.iteration, job.overhead);
        read
    });
    Ok(Trace { jobs: jobs.collect(), processors: None })
}

/// Philly: as published, or as the days that the examples carry.
fn philly(file: &str, text: &str) -> Result<Trace, String> {
    let columns = ["timestamp|submit", "duration", "num_gpus|gpus", "?cluster", "?id"];
    let mut jobs = Vec::new();
    for (line, [submit, run, size, cluster, name]) in table(file, text, columns)? {
        let secs = match date(submit) {
            Some(secs) => secs as f64,
            None => number(file, line, "submit", submit)?,
        };
        let size = number(file, line, "gpus", size)?.min(f64::from(u32::MAX)) as u32;
        let run = Duration::from_secs_f64(number(file, line, "duration", run)?.min(1e10));
        let submit = Time::ZERO.after(Duration::from_secs_f64(secs.min(1e10)));
        let own = if name.is_empty() { Value::from(line - 2) } else { id(name) };
        let mut job = TraceJob::new(own, submit, size, run);
        job.queue = cluster.to_string();
        jobs.push(job);
    }
    Ok(Trace { jobs: seconds(jobs), processors: None })
}

/// Dates count from the first.
pub(super) fn seconds(mut jobs: Vec<TraceJob>) -> Vec<TraceJob> {
    let first = jobs.iter().map(|job| job.submit).min().unwrap_or_default();
    if first > Time::from_secs(1_000_000_000) {
        for job in &mut jobs {
            job.submit = Time::ZERO.after(job.submit.since(first));
        }
    }
    jobs
}

/// Seconds since 1970 of `2017-10-09 07:01:55`.
pub(super) fn date(text: &str) -> Option<u64> {
    let (date, time) = text.split_once([' ', 'T'])?;
    crate::common::date::seconds(date, time)
}

/// Alibaba's pods: each is a job of its own, from its creation for as long as it ran.
fn openb(file: &str, text: &str) -> Result<Trace, String> {
    let columns =
        ["name", "num_gpu", "gpu_milli", "creation_time", "deletion_time", "?scheduled_time"];
    let mut jobs = Vec::new();
    for (line, [name, gpus, milli, creation, deletion, scheduled]) in table(file, text, columns)? {
        let number = |what: &str, text: &str| number(file, line, what, text);
        let gpus = number("num_gpu", gpus)?.min(1e6) as u32;
        let milli = number("gpu_milli", milli)?.min(1e6) as i64;
        let creation = number("creation_time", creation)?.min(1e10);
        let begin =
            if scheduled.is_empty() { creation } else { number("scheduled_time", scheduled)? };
        let run = (number("deletion_time", deletion)? - begin).clamp(0.0, 1e10);
        let submit = Time::ZERO.after(Duration::from_secs_f64(creation));
        let mut job = TraceJob::new(Value::from(name), submit, gpus, Duration::from_secs_f64(run));
        job.milli = Some(if gpus == 1 { milli } else { i64::from(gpus) * 1_000 });
        jobs.push(job);
    }
    Ok(Trace { jobs, processors: None })
}
