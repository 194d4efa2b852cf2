//! Cases with the answers of other schedulers, a line each.

mod backfill;
mod claims;
mod expect;
mod feasible;
mod gangs;
mod kai;
mod koordinator;
pub mod kueue_cases;
mod kueue_strategy;
mod pods;
mod preemption;
mod scenario;
pub mod sessions;
mod systems;
mod tenants;
mod volcano;
mod volumes;
mod yunikorn;

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use serde_json::Value;

/// The text of `--help`.
pub const USAGE: &str = "\
Compares this crate with the answers of other schedulers.

Usage: cargo run --release --manifest-path examples/conformance/Cargo.toml -- FILE...

Files hold one JSON object a line; gzip will do. A line is one of:
  pods      {name, scenario, expect: {steps}}: kube-scheduler's verdicts, scores and choices for
            pods placed one after another
  gangs     {name, scenario, expect: {domains, best}}: what kube-scheduler makes of a gang in each
            candidate domain
  feasible  {name, scenario, expect: {feasible}}: gangs that are known to fit, or not to; placed
            with the default framework
  volumes   as pods, of scenarios with claims and volumes: which volumes each node offers, too; and
            as gangs, what kube-scheduler makes of them as a group
  preemption, pods
            {name, scenario, expect: {steps}} with a step that says what is feasible or preempted:
            where kube-scheduler finds no node, whom it preempts
  preemption, gangs
            {name, scenario, expect: {tieStable, ...}}: the same for a gang; and the default beside
            it, which must help wherever kube-scheduler's rule does, and cost no more in its own
            order (for a constrained gang: than that rule within any one domain)
  claims    {name, scenario, expect: {steps}} with classes and slices of devices: filters, scores,
            offers of each node and devices by name, of pods with resource claims; with {feasible,
            placed, ...}: gangs with claims; with {kubeScheduler}: gangs that are known to fit
  kueue     {id, podSets, expect, ...}: topology assignments of Kueue
  tenants   {name, source, level, gates, input, expect}: Kueue's quota, flavors, preemption, fair
            sharing and cycles; docs/tenants/kueue.md names the rules that are left out
  systems   {name, system, family, input, expect, ...}: sessions, queues, preemption and tables of
            Volcano, YuniKorn and others; docs/tenants has pages that name what is left out
  streams   {name, processors, jobs, expect: {starts}}: jobs on equal processors, and when pyss starts
            them by each policy; one pass for each policy of each
  kai       {name, family, source, input, expect, ...}: KAI-Scheduler's fair shares, order, reclaim
            and sessions; docs/tenants/kai.md names the rules that are left out

Kubernetes objects are taken as an API server stores them.

A line that is none of these, or has a field that is not known, fails by its name, or by file and
line; the run goes on. Cases of rules that are left out are skipped, by name and rule.
The last line is always `N passed, M failed, K skipped`.

Exit code: 0 none failed, and at least one passed or was skipped; 1 otherwise; 2 misuse, or a file
cannot be read.
";

/// How many disagreements are told in full; the rest by name.
const TOLD: usize = 10;

/// Columns of a list of names.
const COLUMNS: usize = 100;

/// Where an answer differs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Disagreement {
    /// Where in the case: a step, a domain, a pod set.
    pub(crate) step: String,
    /// The plugin asked, if it is about one.
    pub(crate) plugin: String,
    /// The node or the pod, if it is about one.
    pub(crate) node: String,
    /// The answer of the other scheduler.
    pub(crate) expected: String,
    /// Ours.
    pub(crate) actual: String,
}

impl Disagreement {
    fn new(
        step: impl fmt::Display,
        plugin: impl fmt::Display,
        node: impl fmt::Display,
        expected: impl fmt::Display,
        actual: impl fmt::Display,
    ) -> Disagreement {
        Disagreement {
            step: step.to_string(),
            plugin: plugin.to_string(),
            node: node.to_string(),
            expected: expected.to_string(),
            actual: actual.to_string(),
        }
    }
}

/// How many cases of each category agree, and the first that do not.
#[derive(Debug, Default)]
pub struct Tally {
    /// Passed and failed, by category.
    categories: BTreeMap<String, (usize, usize)>,
    told: Vec<(String, Disagreement)>,
    /// Failed cases that are not told in full.
    more: Vec<String>,
    /// By outcome, of the gangs that are known to fit.
    outcomes: BTreeMap<&'static str, usize>,
    /// Kueue's cases: those that went through the planner too, and all.
    kueue: (usize, usize),
    /// Names of the cases that are left out, by rule.
    skipped: BTreeMap<&'static str, Vec<String>>,
    /// Victims by default beside those of kube-scheduler's rule: of groups, and of constrained ones.
    costs: [preemption::Comparison; 2],
    /// How long each of those decisions took.
    durations: Vec<Duration>,
}

impl Tally {
    /// Runs the cases of a text, one a line. A line that is no case fails by its name, or by file and
    /// line if it has none.
    pub fn run(&mut self, file: &str, text: &str) {
        for (number, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
            if let Err(error) = self.case(line) {
                let place = format!("{file}:{}", number + 1);
                let name = name_of(line).unwrap_or_else(|| place.clone());
                let fault = Disagreement::new(place, "", "", "a case", error);
                self.count("not understood".into(), &name, Some(fault));
            }
        }
    }

    fn case(&mut self, line: &str) -> Result<(), String> {
        let mut case: Value = serde_json::from_str(line).map_err(|error| error.to_string())?;
        if case.get("podSets").is_some() {
            let verdict = kueue_cases::run_case(line)?;
            let difference = verdict.difference.map(|difference| {
                Disagreement::new("", "", "", difference.expected, difference.actual)
            });
            self.kueue.0 += usize::from(verdict.through_planner);
            self.kueue.1 += 1;
            self.count(format!("kueue {}", verdict.category), &verdict.id, difference);
            return Ok(());
        }
        if systems::is_case(&case) {
            self.judged(systems::run(&case)?);
            return Ok(());
        }
        if kai::is_case(&case) {
            self.judged(kai::run(&case)?);
            return Ok(());
        }
        if tenants::is_case(&case) {
            self.judged(tenants::run(&case)?);
            return Ok(());
        }
        let name = expect::text(&case, "name")?.to_string();
        if backfill::is_case(&case) {
            for (policy, disagreement) in backfill::run(&case)? {
                self.count(format!("backfill {policy}"), &name, disagreement);
            }
            return Ok(());
        }
        let scenario = expect::take(&mut case, "scenario")?;
        let expected = expect::take(&mut case, "expect")?;
        let category = category(&name);
        if scenario::has_storage(&scenario) {
            let disagreement = volumes::run(scenario, &expected);
            let disagreement = disagreement.unwrap_or_else(|error| Some(unreadable(error)));
            self.count(format!("volumes {category}"), &name, disagreement);
            return Ok(());
        }
        if claims::is_case(&scenario) {
            let steps = expected.get("steps").is_some();
            let disagreement = match steps {
                true => claims::compare(scenario, &expected),
                false => claims::gangs::compare(scenario, &expected),
            };
            let disagreement = disagreement.unwrap_or_else(|error| Some(unreadable(error)));
            let what = if steps { "claims" } else { "claims of gangs" };
            self.count(format!("{what} {category}"), &name, disagreement);
            return Ok(());
        }
        if preemption::is_of_gang(&expected) {
            let disagreement = preemption::compare_gang(scenario.clone(), &expected);
            let disagreement = disagreement.and_then(|disagreement| match disagreement {
                None => preemption::compare_cost(scenario, &expected, &mut self.costs),
                told => Ok(told),
            });
            let disagreement = disagreement.unwrap_or_else(|error| Some(unreadable(error)));
            self.count(format!("preemption gangs {category}"), &name, disagreement);
            return Ok(());
        }
        if preemption::is_of_pods(&expected) {
            let disagreement = preemption::compare_pods(scenario, &expected);
            let disagreement = disagreement.unwrap_or_else(|error| Some(unreadable(error)));
            self.count(format!("preemption pods {category}"), &name, disagreement);
            return Ok(());
        }
        let scenario = scenario::read(scenario)?;
        if expected.get("steps").is_some() {
            let disagreement = pods::compare(&scenario, &expected)?;
            self.count(format!("pods {category}"), &name, disagreement);
        } else if expected.get("domains").is_some() {
            let disagreement = gangs::compare(&scenario, &expected)?;
            self.count(format!("gangs {category}"), &name, disagreement);
        } else if let Some(fits) = expected.get("feasible").and_then(Value::as_bool) {
            let trial = feasible::place(&scenario, fits)?;
            *self.outcomes.entry(trial.word).or_default() += 1;
            self.durations.push(trial.duration);
            self.count(format!("feasible {category}"), &name, trial.disagreement);
        } else {
            return Err("expect: has neither steps, nor domains, nor feasible".into());
        }
        Ok(())
    }

    fn judged(&mut self, (name, category, verdict): (String, String, tenants::Verdict)) {
        match verdict {
            tenants::Verdict::Agrees => self.count(category, &name, None),
            tenants::Verdict::Differs { step, expected, actual } => {
                let difference = Disagreement::new(step, "", "", expected, actual);
                self.count(category, &name, Some(difference));
            }
            tenants::Verdict::Skipped(rule) => self.skipped.entry(rule).or_default().push(name),
        }
    }

    fn count(&mut self, category: String, name: &str, disagreement: Option<Disagreement>) {
        let (passed, failed) = self.categories.entry(category).or_default();
        match disagreement {
            None => *passed += 1,
            Some(disagreement) => {
                *failed += 1;
                if self.told.len() < TOLD {
                    self.told.push((name.to_string(), disagreement));
                } else {
                    self.more.push(name.to_string());
                }
            }
        }
    }

    /// How many cases agree.
    pub fn passed(&self) -> usize {
        self.categories.values().map(|(passed, _)| passed).sum()
    }

    /// How many do not, or are no cases.
    pub fn failed(&self) -> usize {
        self.categories.values().map(|(_, failed)| failed).sum()
    }

    /// How many are about rules that are left out.
    pub fn skipped(&self) -> usize {
        self.skipped.values().map(Vec::len).sum()
    }

    /// Whether none failed, and there was a case at all.
    pub fn holds(&self) -> bool {
        self.failed() == 0 && self.passed() + self.skipped() > 0
    }
}

/// The name of a line, as far as it has one.
fn name_of(line: &str) -> Option<String> {
    let value: Value = serde_json::from_str(line).ok()?;
    let name = value.get("id").or_else(|| value.get("name"))?;
    name.as_str().map(String::from)
}

/// Writes names, some a line.
fn list(names: &[String], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let mut column = 0;
    for name in names {
        if column > 0 && column + name.len() > COLUMNS {
            writeln!(f)?;
            column = 0;
        }
        write!(f, "{}{name}", if column == 0 { "  " } else { " " })?;
        column += name.len() + 1;
    }
    writeln!(f)
}

/// A case that cannot be read to the end: it fails, and the run goes on.
fn unreadable(error: String) -> Disagreement {
    Disagreement::new("", "", "", "a case", error)
}

/// The name of a case without its number.
fn category(name: &str) -> &str {
    let stem = name.trim_end_matches(|c: char| c.is_ascii_digit());
    stem.strip_suffix('-').filter(|stem| !stem.is_empty()).unwrap_or(name)
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (category, (passed, failed)) in &self.categories {
            writeln!(f, "{category}: {passed} of {} agree", passed + failed)?;
        }
        for (name, disagreement) in &self.told {
            let Disagreement { step, plugin, node, expected, actual } = disagreement;
            writeln!(f, "\n{name}")?;
            for (title, text) in [("step", step), ("plugin", plugin), ("node", node)] {
                if !text.is_empty() {
                    writeln!(f, "  {title}: {text}")?;
                }
            }
            writeln!(f, "  expected: {expected}\n  actual:   {actual}")?;
        }
        if !self.more.is_empty() {
            writeln!(f, "\nand {} more:", self.more.len())?;
            list(&self.more, f)?;
        }
        if !self.told.is_empty() {
            writeln!(f)?;
        }
        preemption::table(&self.costs, f)?;
        for (rule, names) in &self.skipped {
            writeln!(f, "left out by {rule}: {}", names.len())?;
            list(names, f)?;
        }
        if self.kueue.1 > 0 {
            let (through, all) = self.kueue;
            writeln!(f, "kueue: {through} of {all} also through the planner")?;
        }
        if !self.durations.is_empty() {
            let mut durations = self.durations.clone();
            durations.sort_unstable();
            for word in ["placed", "infeasible", "exhausted", "greedy"] {
                write!(f, "{word} {}, ", self.outcomes.get(word).copied().unwrap_or(0))?;
            }
            let micros = |at: usize| durations[at].as_micros();
            let last = durations.len() - 1;
            writeln!(f, "p50 {} us, max {} us", micros(last / 2), micros(last))?;
        }
        let (passed, failed, skipped) = (self.passed(), self.failed(), self.skipped());
        writeln!(f, "{passed} passed, {failed} failed, {skipped} skipped")
    }
}
