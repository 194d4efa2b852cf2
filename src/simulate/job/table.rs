//! Rates from tables.

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;

use super::rate::{Rate, RunTimes, Running};

/// Rates from tables: the product of the factors of the tables that are given.
///
/// ```
/// use phalanx::simulate::{Rate, RateTable};
///
/// let rates = RateTable::new()
///     // A job in one rack runs at full speed, one beyond at 80 %.
///     .level("rack", Rate::ONE)
///     .beyond(Rate::percent(80))
///     // On a T4 a job takes four times as long.
///     .device("T4", Rate::percent(25))
///     // Two on a device have 60 % each, three 35 %.
///     .neighbours([Rate::percent(60), Rate::percent(35)]);
/// # let _ = rates;
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RateTable {
    levels: Vec<(String, Rate)>,
    beyond: Option<Rate>,
    label: Option<String>,
    devices: BTreeMap<String, Rate>,
    throughputs: BTreeMap<(String, String), Rate>,
    neighbours: Vec<Rate>,
    pairs: BTreeMap<(String, String), Rate>,
    members: BTreeMap<String, Vec<Rate>>,
}

impl RateTable {
    /// A table by which every job runs at the rate of one, and an elastic one at the share of its
    /// members that run.
    pub fn new() -> RateTable {
        RateTable::default()
    }

    /// Adds a level of the topology, narrowest first: the factor of a job that the narrowest level
    /// holding all of its members is this one. The key is a label, or `kubernetes.io/hostname`.
    #[must_use]
    pub fn level(mut self, key: impl Into<String>, rate: Rate) -> RateTable {
        self.levels.push((key.into(), rate));
        self
    }

    /// Sets the factor of jobs that no level holds. Default: one.
    #[must_use]
    pub fn beyond(mut self, rate: Rate) -> RateTable {
        self.beyond = Some(rate);
        self
    }

    /// Sets the label of a node that names the model of its devices. Default: the devices say so
    /// themselves.
    #[must_use]
    pub fn device_label(mut self, key: impl Into<String>) -> RateTable {
        self.label = Some(key.into());
        self
    }

    /// Adds a factor for a model of devices. The slowest device of a job decides.
    #[must_use]
    pub fn device(mut self, device: impl Into<String>, rate: Rate) -> RateTable {
        self.devices.insert(device.into(), rate);
        self
    }

    /// Adds a factor for a job of a [model](super::Job::model) on a model of devices, in place of
    /// that of [`device`](RateTable::device).
    #[must_use]
    pub fn throughput(
        mut self,
        model: impl Into<String>,
        device: impl Into<String>,
        rate: Rate,
    ) -> RateTable {
        self.throughputs.insert((model.into(), device.into()), rate);
        self
    }

    /// Sets factors by the number of other jobs that use a device of the job: of one, of two, and so
    /// on, the last for more.
    #[must_use]
    pub fn neighbours(mut self, rates: impl IntoIterator<Item = Rate>) -> RateTable {
        self.neighbours = rates.into_iter().collect();
        self
    }

    /// Adds a factor for a job of one model beside a job of another on a device. If all of a job's
    /// neighbours on devices have one, their product is taken in place of the factor by number.
    #[must_use]
    pub fn pair(
        mut self,
        model: impl Into<String>,
        beside: impl Into<String>,
        rate: Rate,
    ) -> RateTable {
        self.pairs.insert((model.into(), beside.into()), rate);
        self
    }

    /// Sets the factors of elastic jobs of a model by the number of members: of one, of two, and so
    /// on, the last for more. The empty model is for all others. Default: members per pods.
    #[must_use]
    pub fn members(
        mut self,
        model: impl Into<String>,
        rates: impl IntoIterator<Item = Rate>,
    ) -> RateTable {
        self.members.insert(model.into(), rates.into_iter().collect());
        self
    }

    fn of_level(&self, running: &Running<'_>) -> Rate {
        let held = self.levels.iter().find(|(key, _)| running.is_within(key));
        held.map_or(self.beyond.unwrap_or(Rate::ONE), |(_, rate)| *rate)
    }

    fn of_device(&self, model: &str, device: &str) -> Rate {
        let own = self.throughputs.get(&(model.into(), device.into()));
        own.or_else(|| self.devices.get(device)).copied().unwrap_or(Rate::ONE)
    }

    fn of_devices(&self, running: &Running<'_>) -> Rate {
        let model = running.job.model.as_str();
        let slowest = match &self.label {
            Some(key) => {
                let labels = running.nodes().filter_map(|node| node.label(key));
                labels.map(|device| self.of_device(model, device)).min()
            }
            None => running.devices().map(|device| self.of_device(model, &device.model)).min(),
        };
        slowest.unwrap_or(Rate::ONE)
    }

    fn of_neighbours(&self, running: &Running<'_>) -> Rate {
        let model = running.job.model.as_str();
        let beside = || running.neighbours.iter().filter(|neighbour| neighbour.devices > 0);
        let pair = |other: &str| self.pairs.get(&(model.into(), other.into())).copied();
        let product = beside().try_fold(Rate::ONE, |product, neighbour| {
            Some(product.times(pair(&neighbour.job.model)?))
        });
        let by_number = || {
            let count = beside().count().min(self.neighbours.len());
            count.checked_sub(1).and_then(|at| self.neighbours.get(at)).copied()
        };
        product.or_else(by_number).unwrap_or(Rate::ONE)
    }

    fn of_members(&self, running: &Running<'_>) -> Rate {
        let job = running.job;
        if !job.elastic {
            return Rate::ONE;
        }
        let count = running.sites.len();
        match self.members.get(&job.model).or_else(|| self.members.get("")) {
            Some(rates) => {
                let at = count.min(rates.len()).saturating_sub(1);
                rates.get(at).copied().unwrap_or(Rate::ONE)
            }
            None => Rate::ratio(count as f64, job.group.pod_count() as f64).unwrap_or(Rate::ONE),
        }
    }
}

impl RunTimes for RateTable {
    fn rate(&self, running: &Running<'_>) -> Rate {
        let place = self.of_level(running).times(self.of_devices(running));
        place.times(self.of_neighbours(running)).times(self.of_members(running))
    }

    fn reads_neighbours(&self) -> bool {
        !self.neighbours.is_empty() || !self.pairs.is_empty()
    }
}
