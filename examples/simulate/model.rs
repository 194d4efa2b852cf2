//! The job model: how fast jobs run where they are, checkpoints, elastic jobs, users, and failures.

use std::time::Duration;

use phalanx::simulate::{Checkpointing, Faults, Random, Rate, RateTable, Users};
use phalanx::{Node, Time};
use serde_json::{Map, Value, json};

use crate::common::cli::{Arguments, Mistake};
use crate::common::files;

use super::scaling::{Bought, Pools};

/// The behaviour of jobs, users and nodes that a trace does not have.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Model {
    pub(crate) rates: Option<RateTable>,
    pub(crate) checkpoint: Option<Checkpointing>,
    /// Percent of the pods of a gang that must run.
    pub(crate) elastic: Option<u32>,
    pub(crate) users: Option<Users>,
    /// Failures of nodes and of racks, and the longest repair.
    failures: Option<(usize, usize, Duration)>,
    /// Whether jobs wait for those that the trace says they follow.
    pub(crate) dependencies: bool,
    /// The models of GPUs, rack by rack, over and over.
    devices: Vec<String>,
    /// Watts of a GPU or processor, idle and busy.
    watts: Option<(f64, f64)>,
    /// The price of a GPU or processor for an hour, used or not.
    price: Option<f64>,
    /// Nodes that can be bought.
    pub(crate) pools: Option<Pools>,
    /// All of this, as it was given.
    given: Value,
}

impl Model {
    /// The model that the arguments ask for.
    pub(crate) fn parse(arguments: &Arguments) -> Result<Model, Mistake> {
        let mut given = Map::new();
        let mut list = |option: &str, most: usize| -> Result<Option<Vec<u64>>, Mistake> {
            let Some(text) = arguments.value(option) else { return Ok(None) };
            let numbers: Option<Vec<u64>> =
                text.split(',').map(|part| part.trim().parse().ok()).collect();
            let numbers = numbers.filter(|numbers| (1..=most).contains(&numbers.len()));
            given.insert(option.trim_start_matches('-').into(), json!(numbers));
            numbers.map(Some).ok_or_else(|| {
                Mistake::Usage(format!("{option} {text:?} is not up to {most} whole numbers"))
            })
        };
        let at = |list: &[u64], at: usize| list.get(at).copied().unwrap_or(0);
        let secs = |list: &[u64], index| Duration::from_secs(at(list, index).min(1 << 40));
        let checkpoint = list("--checkpoint", 3)?
            .map(|list| Checkpointing::new(secs(&list, 0), secs(&list, 1), secs(&list, 2)));
        let users =
            list("--users", 2)?.map(|list| Users::new(at(&list, 0) as usize).think(secs(&list, 1)));
        let failures = list("--failures", 3)?;
        let failures = failures.map(|list| {
            let count = |index| at(&list, index).min(1_000_000) as usize;
            (count(0), count(1), secs(&list, 2).max(Duration::from_secs(1)))
        });
        let elastic = arguments.flag("--elastic");
        let elastic =
            if elastic { Some(arguments.number("--elastic", 100, 1..=100)?) } else { None };
        let devices = arguments.value("--devices").map(|text| text.split(',').map(String::from));
        let devices: Vec<String> = devices.into_iter().flatten().collect();
        let rates = arguments.value("--rates");
        let rates = rates.map(|text| json_of("--rates", text, read_rates)).transpose();
        let rates = rates.map_err(Mistake::Input)?;
        let dependencies = arguments.flag("--dependencies");
        let numbers = |option: &str, count: usize| -> Result<Option<Vec<f64>>, Mistake> {
            let Some(text) = arguments.value(option) else { return Ok(None) };
            let numbers: Option<Vec<f64>> = text
                .split(',')
                .map(|part| part.trim().parse().ok().filter(|number| (0.0..=1e9).contains(number)))
                .collect();
            let numbers = numbers.filter(|numbers| numbers.len() == count);
            numbers.map(Some).ok_or_else(|| {
                Mistake::Usage(format!("{option} {text:?}: numbers from 0 to 1e9, {count} of them"))
            })
        };
        let watts = numbers("--watts", 2)?.map(|watts| (watts[0], watts[1]));
        let price = numbers("--price", 1)?.map(|price| price[0]);
        let pools = arguments.value("--autoscale");
        let pools = pools.map(|text| json_of("--autoscale", text, Pools::read)).transpose();
        let (pools, scaling) = pools.map_err(Mistake::Input)?.unzip();
        let mut put = |key: &str, value: Value| {
            if !value.is_null() {
                given.insert(key.into(), value);
            }
        };
        put("autoscale", json!(scaling));
        put("watts", json!(watts));
        put("price", json!(price));
        put("elastic", json!(elastic));
        put("devices", if devices.is_empty() { Value::Null } else { json!(devices) });
        put("dependencies", if dependencies { json!(true) } else { Value::Null });
        put("rates", rates.as_ref().map_or(Value::Null, |(_, value)| value.clone()));
        let rates = rates.map(|(rates, _)| rates);
        let given = if given.is_empty() { Value::Null } else { given.into() };
        Ok(Model {
            rates,
            checkpoint,
            elastic,
            users,
            failures,
            dependencies,
            devices,
            watts,
            price,
            pools,
            given,
        })
    }

    /// Its part of the line that a cell is a function of; null for none.
    pub(crate) fn line(&self) -> &Value {
        &self.given
    }

    /// Energy and cost as sums over the whole run, from GPU-seconds in use and there, and what was
    /// bought. Bought nodes have prices of their own.
    pub(crate) fn sums(&self, used: f64, there: f64, bought: &Bought) -> Vec<(&'static str, f64)> {
        let energy = self.watts.map(|(idle, busy)| {
            ("energy_kwh", (busy * used + idle * (there - used).max(0.0)) / 3.6e6)
        });
        let own = (there - bought.gpu_seconds).max(0.0) / 3_600.0;
        let is_priced = self.price.is_some() || self.pools.is_some();
        let cost = is_priced.then(|| ("cost", self.price.unwrap_or(0.0) * own + bought.cost));
        let pools = self.pools.is_some();
        let nodes = pools.then_some(("nodes_bought", bought.nodes as f64));
        let hours = pools.then_some(("node_hours_bought", bought.node_hours));
        [energy, cost, nodes, hours].into_iter().flatten().collect()
    }

    /// The model of the GPUs of a rack.
    pub(crate) fn device(&self, rack: usize) -> &str {
        let place = rack.checked_rem(self.devices.len());
        place.and_then(|place| self.devices.get(place)).map_or("", String::as_str)
    }

    /// Whether GPUs are devices of their own, which jobs can share.
    pub(crate) fn has_devices(&self) -> bool {
        self.rates.is_some()
    }

    /// The failures of a seed.
    pub(crate) fn faults(&self, nodes: &[Node], seed: u64, until: Time) -> Faults {
        // Estimates and arrivals are drawn from the seed too; failures are not to follow them.
        let faults = Faults::new(Random::new(seed ^ 0x6661_696c_7572_6573));
        let Some((single, racks, repair)) = self.failures else { return faults };
        let faults = faults.failures(nodes, single, until, repair);
        faults.domain_failures("rack", nodes, racks, until, repair)
    }
}

/// An option's JSON, or a file of it, as it is read and as it was given.
fn json_of<T>(
    option: &str,
    text: &str,
    read: impl Fn(&Value) -> Result<T, String>,
) -> Result<(T, Value), String> {
    let (name, text) = if text.trim_start().starts_with('{') {
        (option, text.to_string())
    } else {
        (text, files::read(text).and_then(|bytes| files::text(text, bytes))?)
    };
    let value: Value = serde_json::from_str(&text).map_err(|error| format!("{name}: {error}"))?;
    let read = read(&value).map_err(|error| format!("{name}: {error}"))?;
    Ok((read, value))
}

fn rate(at: &str, value: &Value) -> Result<Rate, String> {
    let rate = value.as_f64().and_then(|value| Rate::ratio(value, 1.0));
    rate.ok_or_else(|| format!("{at}: {value} is no rate from 0 on"))
}

fn object<'a>(at: &str, value: &'a Value) -> Result<&'a Map<String, Value>, String> {
    value.as_object().ok_or_else(|| format!("{at}: {value} is no object"))
}

fn list<'a>(at: &str, value: &'a Value) -> Result<&'a Vec<Value>, String> {
    value.as_array().ok_or_else(|| format!("{at}: {value} is no list"))
}

fn rates(at: &str, value: &Value) -> Result<Vec<Rate>, String> {
    list(at, value)?.iter().map(|value| rate(at, value)).collect()
}

fn word<'a>(at: &str, value: &'a Value) -> Result<&'a str, String> {
    value.as_str().ok_or_else(|| format!("{at}: {value} is no text"))
}

fn read_rates(value: &Value) -> Result<RateTable, String> {
    let mut table = RateTable::new();
    for (key, value) in object("rates", value)? {
        match key.as_str() {
            // Levels are a list of pairs, since their order counts.
            "levels" => {
                for pair in list(key, value)? {
                    let [level, factor] = list(key, pair)?.as_slice() else {
                        return Err(format!("levels: {pair} is no pair of a label and a rate"));
                    };
                    table = table.level(word(key, level)?, rate(key, factor)?);
                }
            }
            "beyond" => table = table.beyond(rate(key, value)?),
            "deviceLabel" => table = table.device_label(word(key, value)?),
            "devices" => {
                for (device, factor) in object(key, value)? {
                    table = table.device(device, rate(key, factor)?);
                }
            }
            "throughputs" => {
                for (model, devices) in object(key, value)? {
                    for (device, factor) in object(key, devices)? {
                        table = table.throughput(model, device, rate(key, factor)?);
                    }
                }
            }
            "neighbours" => table = table.neighbours(rates(key, value)?),
            "pairs" => {
                for triple in list(key, value)? {
                    let [model, beside, factor] = list(key, triple)?.as_slice() else {
                        return Err(format!("pairs: {triple} is not two models and a rate"));
                    };
                    table = table.pair(word(key, model)?, word(key, beside)?, rate(key, factor)?);
                }
            }
            "members" => {
                for (model, factors) in object(key, value)? {
                    table = table.members(model, rates(key, factors)?);
                }
            }
            other => return Err(format!("rates: {other:?} is not known")),
        }
    }
    Ok(table)
}
