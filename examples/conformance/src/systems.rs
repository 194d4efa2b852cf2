//! Cases of several systems in one format: which system a case is of.

use serde_json::Value;

use super::tenants::fields::Fields;
use super::tenants::{Stop, Verdict};
use super::{koordinator, volcano, yunikorn};

/// A case of one system.
pub(super) struct Case<'a> {
    /// Kind of the question.
    pub(super) family: &'a str,
    /// The test whose table has this row, for a case from a table.
    pub(super) function: &'a str,
    /// Tags of the subject.
    pub(super) tags: Vec<&'a str>,
    /// The question.
    pub(super) input: Fields<'a>,
    /// The answer. Only what it names is compared.
    pub(super) expect: Fields<'a>,
}

/// Whether a line is such a case.
pub(super) fn is_case(case: &Value) -> bool {
    ["system", "family", "input"].iter().all(|name| case.get(name).is_some())
}

/// Name, category and verdict of a case.
///
/// # Errors
/// The case is of no kind that is known, or has a field that is not.
pub(super) fn run(case: &Value) -> Result<(String, String, Verdict), String> {
    let mut fields = Fields::new("case", case)?;
    let (name, system) = (fields.text("name")?, fields.text("system")?);
    let (family, function) = (fields.text("family")?, fields.text_or_empty("function")?);
    fields.text("source")?;
    let tags = fields.texts("tags")?;
    let input = Fields::new("input", fields.take("input")?)?;
    let expect = Fields::new("expect", fields.take("expect")?)?;
    fields.end()?;
    let mut case = Case { family, function, tags, input, expect };
    let compared = match system {
        "volcano" => volcano::compare(&mut case),
        "yunikorn" => yunikorn::compare(&mut case),
        "koordinator" => koordinator::compare(&mut case),
        _ => Err(Stop::Bad(format!("system: {system:?} is not known"))),
    };
    let category = format!("{system} {family}");
    let verdict = match compared {
        Err(Stop::Verdict(verdict)) => verdict,
        Err(Stop::Bad(error)) => unreadable(error),
        Ok(()) => match case.input.end().and(case.expect.end()) {
            Ok(()) => Verdict::Agrees,
            Err(error) => unreadable(error),
        },
    };
    Ok((name.into(), category, verdict))
}

/// A case that cannot be read to the end: it fails, and the run goes on.
fn unreadable(error: String) -> Verdict {
    Verdict::Differs { step: String::new(), expected: "a case".into(), actual: error }
}
