//! The traces: jobs as Muri's artifact writes them.

/// Seconds of work that starting or resuming a job of a model costs, for gangs of 1, 2, 4, 8, 16
/// and 32 GPUs. Source: the Muri artifact (SIGCOMM'22).
const OVERHEADS: [(&str, [u8; 6]); 8] = [
    ("vgg16", [7, 7, 8, 9, 9, 10]),
    ("vgg19", [7, 7, 8, 9, 10, 10]),
    ("resnet18", [4, 5, 5, 7, 7, 7]),
    ("shufflenet_v2_x1_0", [4, 4, 5, 5, 7, 8]),
    ("bert", [10; 6]),
    ("gpt2", [10; 6]),
    ("a2c", [38, 39, 39, 46, 46, 46]),
    ("dqn", [5, 5, 6, 6, 8, 8]),
];
/// The sizes of gangs that [`OVERHEADS`] lists.
const SIZES: [u32; 6] = [1, 2, 4, 8, 16, 32];
/// Overhead of a model that is not listed.
const OTHER: u8 = 10;
/// Running beside others costs every iteration this much. Source: the Muri artifact.
const SLOWDOWN: f64 = 1.015;

/// A job of a trace, in seconds.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Job {
    /// Its `job_id`.
    pub(crate) id: String,
    /// How many GPUs the gang needs.
    pub(crate) gpus: u32,
    /// When it arrives.
    pub(crate) submit: f64,
    /// How many iterations it runs for.
    pub(crate) iterations: f64,
    /// How long an iteration takes.
    pub(crate) iteration: f64,
    /// Overhead of every start.
    pub(crate) overhead: f64,
    /// The kind of its program.
    pub(crate) model: String,
    /// Seconds of an iteration that need data, the GPU and the network; zero if they are not known.
    pub(crate) stages: [f64; 3],
    /// Whether it takes what guaranteed jobs leave.
    pub(crate) is_opportunistic: bool,
}

/// The jobs of a trace, in the order of the file.
///
/// The first line names the columns; these are read, in any order, and others are ignored:
/// `job_id`, `num_gpu`, `submit_time` (ms), `iterations`, `model_name`, `iteration_time` (ms); and where
/// they are, `resource_time_0` to `_2` (ms) and `priority`, 1 for opportunistic jobs.
/// Ids need not be unique. Empty lines are passed over.
///
/// # Errors
/// A column is missing, a line has too few or too many fields, or a number is none or out of
/// range. The message names the file, the line and the column.
pub(crate) fn read(name: &str, text: &str) -> Result<Vec<Job>, String> {
    let mut lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    let (_, header) = lines.next().ok_or_else(|| format!("{name}: is empty"))?;
    let columns: Vec<&str> =
        header.trim_start_matches('\u{feff}').split(',').map(str::trim).collect();
    let find = |column: &str| {
        let missing = || format!("{name}: line 1: column {column} is missing");
        columns.iter().position(|have| *have == column).ok_or_else(missing)
    };
    let (id, gpus, submit) = (find("job_id")?, find("num_gpu")?, find("submit_time")?);
    let (iterations, model) = (find("iterations")?, find("model_name")?);
    let iteration = find("iteration_time")?;
    let stages = [0, 1, 2].map(|stage| find(&format!("resource_time_{stage}")).ok());
    let priority = find("priority").ok();
    let mut jobs = Vec::new();
    for (index, line) in lines {
        let fields: Vec<&str> = line.split(',').map(str::trim).collect();
        let place = |what: &str| format!("{name}: line {}: {what}", index + 1);
        if fields.len() != columns.len() {
            let (have, want) = (fields.len(), columns.len());
            return Err(place(&format!("has {have} fields, not {want}")));
        }
        let amount = |column: usize| {
            let problem = || {
                let (name, text) = (columns[column], fields[column]);
                place(&format!("{name}: {text:?} is not a number from 0 to 1e15"))
            };
            let value: f64 = fields[column].parse().map_err(|_| problem())?;
            if (0.0..=1e15).contains(&value) { Ok(value) } else { Err(problem()) }
        };
        let size: u32 = fields[gpus].parse().ok().filter(|size| *size > 0).ok_or_else(|| {
            place(&format!("num_gpu: {:?} is not a whole number above 0", fields[gpus]))
        })?;
        let stage = |column: Option<usize>| column.map_or(Ok(0.0), amount);
        let stages = [stage(stages[0])?, stage(stages[1])?, stage(stages[2])?];
        jobs.push(Job {
            id: fields[id].to_string(),
            gpus: size,
            submit: amount(submit)? / 1_000.0,
            iterations: amount(iterations)?,
            iteration: amount(iteration)? * SLOWDOWN / 1_000.0,
            overhead: overhead(fields[model], size),
            model: fields[model].to_string(),
            stages: stages.map(|time| time / 1_000.0),
            is_opportunistic: priority.map_or(Ok(0.0), amount)? > 0.0,
        });
    }
    if jobs.is_empty() {
        return Err(format!("{name}: has no jobs"));
    }
    Ok(jobs)
}

/// Overhead of starting a job: that of the next larger size listed, or of the largest.
fn overhead(model: &str, gpus: u32) -> f64 {
    let size = SIZES.iter().position(|size| *size >= gpus).unwrap_or(SIZES.len() - 1);
    let row = OVERHEADS.iter().find(|(name, _)| *name == model);
    f64::from(row.map_or(OTHER, |(_, seconds)| seconds[size]))
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: &str = "job_id,num_gpu,submit_time,iterations,model_name,iteration_time";

    fn job(line: &str) -> Result<Job, String> {
        read("t.csv", &format!("{HEADER}\n{line}\n")).map(|mut jobs| jobs.remove(0))
    }

    #[test]
    fn units_and_overheads_are_those_of_the_rule() {
        let found = job("7,4,1456000,1005573,resnet18,921").unwrap();
        assert_eq!((found.id.as_str(), found.gpus, found.overhead), ("7", 4, 5.0));
        assert_eq!((found.submit, found.iterations), (1_456.0, 1_005_573.0));
        assert!((found.iteration - 0.934_815).abs() < 1e-12);
        for (line, overhead) in [
            ("a,3,0,1,dqn,1", 6.0),
            ("a,12,0,1,vgg16,1", 9.0),
            ("a,33,0,1,a2c,1", 46.0),
            ("a,64,0,1,unheard-of,1", 10.0),
        ] {
            assert_eq!(job(line).unwrap().overhead, overhead, "{line}");
        }
    }

    #[test]
    fn columns_are_found_by_name_and_others_are_ignored() {
        let text = "\u{feff}iteration_time,extra,job_id,model_name,iterations,submit_time,num_gpu\r\n\
                    \r\n1000,x,j,bert,10,5000,2\r\n";
        let jobs = read("t.csv", text).unwrap();
        assert_eq!((jobs.len(), jobs[0].gpus, jobs[0].submit), (1, 2, 5.0));
    }

    #[test]
    fn malformed_traces_are_refused_by_line_and_column() {
        for (line, expected) in [
            ("a,0,0,1,bert,1", "t.csv: line 2: num_gpu: \"0\""),
            ("a,-1,0,1,bert,1", "t.csv: line 2: num_gpu: \"-1\""),
            ("a,1.5,0,1,bert,1", "t.csv: line 2: num_gpu: \"1.5\""),
            ("a,99999999999,0,1,bert,1", "t.csv: line 2: num_gpu"),
            ("a,1,-5,1,bert,1", "t.csv: line 2: submit_time: \"-5\""),
            ("a,1,0,NaN,bert,1", "t.csv: line 2: iterations: \"NaN\""),
            ("a,1,0,1,bert,inf", "t.csv: line 2: iteration_time: \"inf\""),
            ("a,1,0,1,bert,1e300", "t.csv: line 2: iteration_time: \"1e300\""),
            ("a,1,0,1,bert,", "t.csv: line 2: iteration_time: \"\""),
            ("a,1,0,1,bert", "t.csv: line 2: has 5 fields, not 6"),
            ("a,1,0,1,bert,1,1", "t.csv: line 2: has 7 fields, not 6"),
        ] {
            let error = job(line).unwrap_err();
            assert!(error.starts_with(expected), "{line}: {error}");
        }
        assert_eq!(read("t.csv", " \n"), Err("t.csv: is empty".into()));
        assert_eq!(read("t.csv", HEADER), Err("t.csv: has no jobs".into()));
        let missing = read("t.csv", "job_id,num_gpu\n").unwrap_err();
        assert_eq!(missing, "t.csv: line 1: column submit_time is missing");
    }
}
