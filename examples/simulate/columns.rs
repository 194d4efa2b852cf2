//! Any table of jobs: a map says which column is what. Maps for published traces.

use std::collections::BTreeMap;
use std::time::Duration;

use phalanx::Time;
use serde_json::Value;

use super::trace::{Trace, TraceJob, id, number, seconds, table_of};

/// The keys of a map. It has `run`, or `start` and `end`; and `size` or `share`.
const KEYS: [&str; 13] = [
    "id", "submit", "run", "start", "end", "size", "share", "each", "estimate", "queue", "user",
    "model", "unit",
];

/// Maps of published traces, and the header of files that have none.
pub(crate) fn known(format: &str) -> Option<(&'static str, &'static str)> {
    match format {
        // HeliosData, `cluster_log.csv` (Hu et al., SC'21).
        "helios" => {
            Some(("id=job_id,user=user,queue=vc,size=gpu_num,submit=submit_time,run=duration", ""))
        }
        // Alibaba, `pai_task_table.csv` of 2020 (Weng et al., NSDI'22): hundredths of a GPU for each
        // instance. A task arrives when it starts: the file does not say when it was submitted.
        "pai2020" => Some((
            "id=job_name,model=task_name,each=inst_num,share=plan_gpu,start=start_time,end=end_time",
            "job_name,task_name,inst_num,status,start_time,end_time,plan_cpu,plan_mem,plan_gpu,gpu_type",
        )),
        _ => None,
    }
}

/// A map from `key=column,...`.
fn map(text: &str) -> Result<BTreeMap<&str, &str>, String> {
    let mut map = BTreeMap::new();
    for pair in text.split(',') {
        let (key, column) =
            pair.split_once('=').filter(|(key, _)| KEYS.contains(key)).ok_or_else(|| {
                format!("--columns: {pair:?} is not KEY=COLUMN, KEY one of: {}", KEYS.join(", "))
            })?;
        map.insert(key, column);
    }
    let has = |key: &str| map.contains_key(key);
    if !(has("run") || has("start") && has("end")) {
        return Err("--columns: neither run nor start and end are named".into());
    }
    if !(has("submit") || has("start")) {
        return Err("--columns: neither submit nor start is named".into());
    }
    if !(has("size") || has("share")) {
        return Err("--columns: neither size nor share is named".into());
    }
    Ok(map)
}

/// Jobs of a table. Rows without a size or a run time are left out: jobs that took no GPU, or had not
/// ended.
pub(crate) fn read(file: &str, text: &str, columns: &str, header: &str) -> Result<Trace, String> {
    let map = map(columns)?;
    let unit = match map.get("unit").copied().unwrap_or("s") {
        "s" => 1.0,
        "ms" => 1e-3,
        "us" => 1e-6,
        other => return Err(format!("--columns: unit {other:?} is none of: s, ms, us")),
    };
    let wanted: Vec<&str> =
        KEYS[..12].iter().map(|key| map.get(key).copied().unwrap_or("")).collect();
    let mut jobs = Vec::new();
    for (line, cells) in table_of(file, text, &wanted, header)? {
        let cell = |key: &str| {
            KEYS.iter().position(|known| *known == key).and_then(|at| cells[at]).unwrap_or("")
        };
        let time = |key: &str| -> Result<Option<f64>, String> {
            let text = cell(key);
            if text.is_empty() {
                return Ok(None);
            }
            let secs = match super::trace::date(text) {
                Some(secs) => secs as f64,
                None => number(file, line, key, text)? * unit,
            };
            Ok(Some(secs.min(1e10)))
        };
        let amount = |key: &str| -> Result<Option<f64>, String> {
            let text = cell(key);
            if text.is_empty() { Ok(None) } else { number(file, line, key, text).map(Some) }
        };
        let (start, end) = (time("start")?, time("end")?);
        let run = match amount("run")? {
            Some(run) => Some(run * unit),
            None => start.zip(end).map(|(start, end)| (end - start).max(0.0)),
        };
        // Hundredths of a GPU for each of so many; or whole ones.
        let size = match amount("share")? {
            Some(share) => Some(share / 100.0 * amount("each")?.unwrap_or(1.0)),
            None => amount("size")?,
        };
        let (Some(run), Some(size), Some(submit)) = (run, size, time("submit")?.or(start)) else {
            continue;
        };
        if size <= 0.0 {
            continue;
        }
        let own = if cell("id").is_empty() { Value::from(line) } else { id(cell("id")) };
        let submit = Time::ZERO.after(Duration::from_secs_f64(submit));
        let gpus = size.ceil().min(f64::from(u32::MAX)) as u32;
        let mut job = TraceJob::new(own, submit, gpus, Duration::from_secs_f64(run.min(1e10)));
        if map.contains_key("share") {
            // Shares of one GPU; more than one are whole GPUs.
            let milli = if size < 1.0 {
                (size * 1_000.0).round().max(1.0) as i64
            } else {
                i64::from(gpus) * 1_000
            };
            job.milli = Some(milli);
        }
        job.estimate =
            amount("estimate")?.map(|secs| Duration::from_secs_f64((secs * unit).min(1e10)));
        job.queue = cell("queue").to_string();
        job.user = cell("user").to_string();
        job.model = cell("model").to_string();
        jobs.push(job);
    }
    Ok(Trace { jobs: seconds(jobs), processors: None })
}

/// Events of instances of Google's trace of 2019 (Tirmazi et al., 2020): a collection is a job,
/// its instances are its size. It arrives with its first submission, and runs from the first time an
/// instance is scheduled until the last one is over.
pub(crate) fn borg(file: &str, text: &str) -> Result<Trace, String> {
    #[derive(Default)]
    struct Collection {
        submit: Option<f64>,
        start: Option<f64>,
        end: Option<f64>,
        instances: std::collections::BTreeSet<u64>,
    }
    let wanted = ["time", "type", "collection_id", "instance_index"];
    let mut collections: BTreeMap<u64, Collection> = BTreeMap::new();
    for (line, cells) in table_of(file, text, &wanted, "")? {
        let cell = |at: usize| cells[at].unwrap_or("");
        // Microseconds; zero is before the trace, and 2^63 − 1 after it.
        let time = number(file, line, "time", cell(0)).or_else(|error| {
            if cell(0) == "9223372036854775807" { Ok(f64::INFINITY) } else { Err(error) }
        })?;
        let secs = time * 1e-6;
        let known = number(file, line, "collection_id", cell(2))? as u64;
        let collection = collections.entry(known).or_default();
        collection.instances.insert(number(file, line, "instance_index", cell(3))? as u64);
        let least = |old: Option<f64>| Some(old.map_or(secs, |old| old.min(secs)));
        match cell(1) {
            "0" | "SUBMIT" => collection.submit = least(collection.submit),
            "3" | "SCHEDULE" => collection.start = least(collection.start),
            "5" | "6" | "7" | "8" | "FAIL" | "FINISH" | "KILL" | "LOST" if secs.is_finite() => {
                collection.end = Some(collection.end.map_or(secs, |old| old.max(secs)));
            }
            _ => {}
        }
    }
    let jobs = collections.into_iter().filter_map(|(name, collection)| {
        let (start, end) = (collection.start?, collection.end?);
        let submit = collection.submit.unwrap_or(start);
        let run = Duration::from_secs_f64((end - start).clamp(0.0, 1e10));
        let submit = Time::ZERO.after(Duration::from_secs_f64(submit.clamp(0.0, 1e10)));
        let size = collection.instances.len() as u32;
        Some(TraceJob::new(Value::from(name), submit, size, run))
    });
    Ok(Trace { jobs: seconds(jobs.collect()), processors: None })
}
