//! Days of the Philly trace: the one that is packaged, and those of the published file.

use crate::common::date;
use crate::common::files;

/// Seconds of a day.
pub(crate) const DAY: u64 = 86_400;

/// A job: a gang of one-GPU workers.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Job {
    /// Seconds after midnight.
    pub(crate) submit: u64,
    /// Seconds.
    pub(crate) duration: u64,
    /// Size of the gang.
    pub(crate) gpus: usize,
}

/// The packaged day.
pub(crate) fn packaged() -> Result<Vec<Job>, String> {
    let name = "philly-2017-10-05.csv.gz";
    let packed = include_bytes!("../data/philly-2017-10-05.csv.gz");
    let text = files::text(name, files::unpack(name, packed.to_vec())?)?;
    text.lines()
        .enumerate()
        .skip(1)
        .map(|(index, line)| {
            let fields: Vec<Option<u64>> =
                line.split(',').take(3).map(|field| field.parse().ok()).collect();
            match fields[..] {
                [Some(submit), Some(duration), Some(gpus)] => {
                    Ok(Job { submit, duration, gpus: gpus as usize })
                }
                _ => Err(format!("{name}: line {}: is no job", index + 1)),
            }
        })
        .collect()
}

/// Days of the published file (columns `timestamp`, `duration`, `num_gpus`), in gzip or not: the
/// jobs submitted on each, and those before that ran still at its beginning, with what was left of
/// them. Times are rounded down to seconds.
pub(crate) fn published(file: &str, days: &[&str]) -> Result<Vec<Vec<Job>>, String> {
    let text = files::text(file, files::read(file)?)?;
    let mut lines = text.lines();
    let header: Vec<&str> = lines.next().unwrap_or_default().split(',').map(str::trim).collect();
    let column = |name: &str| {
        let place = header.iter().position(|have| *have == name);
        place.ok_or_else(|| format!("{file}: line 1: column {name} is missing"))
    };
    let columns = [column("timestamp")?, column("duration")?, column("num_gpus")?];
    let mut read: Vec<(u64, f64, usize)> = Vec::new();
    for (index, line) in lines.enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let cells: Vec<&str> = line.split(',').map(str::trim).collect();
        let job = || {
            let [submit, duration, gpus] = columns.map(|place| cells.get(place).copied());
            let duration = duration?.parse().ok().filter(|span| (0.0..1e10).contains(span))?;
            Some((seconds(submit?)?, duration, gpus?.parse().ok()?))
        };
        read.push(job().ok_or_else(|| format!("{file}: line {}: is no job", index + 2))?);
    }
    let of = |day: &&str| {
        let begin = seconds(&format!("{day} 00:00:00"))
            .ok_or_else(|| format!("{day:?} is no day as 2017-10-05"))?;
        let mut jobs: Vec<Job> = Vec::new();
        for &(submit, duration, gpus) in read.iter().filter(|job| job.2 > 0) {
            let (submit, past) = (submit.saturating_sub(begin), begin.saturating_sub(submit));
            let left = duration - past as f64;
            if submit < DAY && (past == 0 || left > 0.0) {
                jobs.push(Job { submit, duration: left as u64, gpus });
            }
        }
        jobs.sort();
        if jobs.is_empty() { Err(format!("{file}: has no jobs on {day}")) } else { Ok(jobs) }
    };
    days.iter().map(of).collect()
}

/// Seconds since 1970 of `2017-10-05 07:01:55`.
fn seconds(text: &str) -> Option<u64> {
    let (date, time) = text.split_once(' ')?;
    date::seconds(date, time)
}
