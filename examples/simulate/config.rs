//! Options from a file: a JSON object whose keys are the options.

use serde_json::Value;

use crate::common::cli::{Arguments, Mistake};
use crate::common::files;

/// Adds the options of the file that `--config` names. Options of the command line go before.
pub(crate) fn read(arguments: &Arguments) -> Result<Arguments, Mistake> {
    let mut all = arguments.clone();
    let Some(file) = arguments.value("--config") else { return Ok(all) };
    let fault = |text: String| Mistake::Input(format!("{file}: {text}"));
    let text = files::read(file).and_then(|bytes| files::text(file, bytes));
    let text = text.map_err(Mistake::Input)?;
    let value: Value = serde_json::from_str(&text).map_err(|error| fault(error.to_string()))?;
    let options = value.as_object().ok_or_else(|| fault("is no object".into()))?;
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
