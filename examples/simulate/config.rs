//! Options from a file: a JSON object whose keys are the options, or a list of such objects.

use serde_json::{Map, Value};

use crate::common::cli::{Arguments, Finish, Mistake};
use crate::common::files;

/// The grids that are asked for: the options of each object of the file that `--config` names, or the
/// arguments alone. Options of the command line go before.
pub(crate) fn read(arguments: &Arguments) -> Result<Vec<Arguments>, Mistake> {
    let Some(file) = arguments.value("--config") else { return Ok(vec![arguments.clone()]) };
    let fault = |text: &str| Mistake::Input(format!("{file}: {text}"));
    let text = files::read(file).and_then(|bytes| files::text(file, bytes));
    let text = text.map_err(Mistake::Input)?;
    let value: Value = serde_json::from_str(&text).map_err(|error| fault(&error.to_string()))?;
    let objects = match &value {
        Value::Array(list) if !list.is_empty() => list.as_slice(),
        one => std::slice::from_ref(one),
    };
    let object = |value: &Value| {
        let options = value.as_object().ok_or_else(|| fault("is no object, nor a list of them"))?;
        options_of(file, options, arguments)
    };
    objects.iter().map(object).collect()
}

/// Runs several grids; their answers follow one another, under one head of columns.
pub(crate) fn each(
    grids: &[Arguments],
    run: impl Fn(&Arguments) -> Result<Finish, Mistake>,
) -> Result<Finish, Mistake> {
    let forms = ["text", "json", "summary", "markdown"];
    // A file that one grid writes would be written over by the next.
    let files = ["--pictures", "--job-table", "--sample-table", "--record"];
    for grid in grids {
        grid.word("--output", &forms)?;
        if let Some(option) = files.iter().find(|option| grid.flag(option)) {
            return Err(Mistake::Usage(format!("{option} is for one grid, not for a list")));
        }
    }
    let mut all = Finish::default();
    for grid in grids {
        let finish = run(grid)?;
        let is_table = grid.value("--output") == Some("summary") && !all.out.is_empty();
        let head = if is_table { finish.out.find('\n').map_or(0, |end| end + 1) } else { 0 };
        all.out.push_str(&finish.out[head..]);
        all.err.push_str(&finish.err);
        all.code = all.code.max(finish.code);
    }
    Ok(all)
}

/// The arguments with the options of an object.
fn options_of(
    file: &str,
    options: &Map<String, Value>,
    arguments: &Arguments,
) -> Result<Arguments, Mistake> {
    let mut all = arguments.clone();
    let fault = |text: String| Mistake::Input(format!("{file}: {text}"));
    // Machines and seeds have two options each, of which the command line may choose the other.
    let excluded = |key: &str| {
        [("--nodes", "--processors"), ("--seed", "--seeds")].iter().any(|(one, other)| {
            key == *one && arguments.flag(other) || key == *other && arguments.flag(one)
        })
    };
    for (key, value) in options {
        let option = format!("--{key}");
        if option == "--config" {
            return Err(fault("config: a file names no other".into()));
        }
        let is_flag = super::PROGRAM.flags.contains(&option.as_str());
        if !is_flag && !super::PROGRAM.options.contains(&option.as_str()) {
            return Err(fault(format!("{key}: is no option")));
        }
        let text = match value {
            Value::Bool(false) if is_flag => continue,
            Value::Bool(true) if is_flag => String::new(),
            _ if is_flag => return Err(fault(format!("{key}: is true or false"))),
            Value::Array(list) => list
                .iter()
                .map(plain)
                .collect::<Option<Vec<String>>>()
                .map(|list| list.join(","))
                .ok_or_else(|| fault(format!("{key}: is a list of texts and numbers")))?,
            Value::Object(_) => value.to_string(),
            other => plain(other).ok_or_else(|| fault(format!("{key}: is a text or a number")))?,
        };
        if !arguments.flag(&option) && !excluded(&option) {
            all.add(option, text);
        }
    }
    Ok(all)
}

/// A text or a number as an option has it.
fn plain(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    }
}
