//! Rates of jobs, and what they may depend on.

use alloc::string::String;
use alloc::vec::Vec;

use super::Job;
use crate::model::Device;
use crate::state::{Cluster, NodeView};

/// Millionths of a rate of one.
const WHOLE: u64 = 1_000_000;

/// How fast a job works, in millionths: at [`Rate::ONE`] it takes its run time.
///
/// ```
/// use phalanx::simulate::Rate;
///
/// assert_eq!(Rate::percent(90).times(Rate::percent(50)), Rate::millionths(450_000));
/// assert_eq!(Rate::ratio(3.0, 2.0), Some(Rate::percent(150)));
/// assert_eq!(Rate::ratio(1.0, 0.0), None);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Rate(u64);

impl Rate {
    /// The rate at which a job takes its run time.
    pub const ONE: Rate = Rate(WHOLE);
    /// No progress.
    pub const ZERO: Rate = Rate(0);
    /// The largest rate: a million.
    pub const MAX: Rate = Rate(WHOLE * WHOLE);

    /// So many millionths, up to [`Rate::MAX`].
    pub fn millionths(count: u64) -> Rate {
        Rate(count).min(Rate::MAX)
    }

    /// So many hundredths, up to [`Rate::MAX`].
    pub fn percent(count: u64) -> Rate {
        Rate::millionths(count.saturating_mul(WHOLE / 100))
    }

    /// A throughput per that of the reference, to the nearest millionth. `None` if either is no number,
    /// or below zero, or the reference is zero.
    pub fn ratio(throughput: f64, reference: f64) -> Option<Rate> {
        let known = throughput >= 0.0 && throughput.is_finite() && reference > 0.0;
        let millionths = libm::round(throughput / reference * WHOLE as f64);
        (known && millionths.is_finite()).then(|| Rate::millionths(millionths as u64))
    }

    /// The product of two rates, rounded down.
    #[must_use]
    pub fn times(self, other: Rate) -> Rate {
        let product = u128::from(self.0) * u128::from(other.0) / u128::from(WHOLE);
        Rate::millionths(u64::try_from(product).unwrap_or(u64::MAX))
    }

    /// In millionths.
    pub fn as_millionths(self) -> u64 {
        self.0
    }
}

/// The place of a member of a running job.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub struct Site {
    /// Its node.
    pub node: String,
    /// Its devices on the node, by their index there, in order; none if devices are only counted.
    pub devices: Vec<u32>,
}

/// Another running job with members on nodes of a job.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct Neighbour<'a> {
    /// The other job.
    pub job: &'a Job,
    /// Number of devices that both use.
    pub devices: usize,
}

/// A running job, as [`RunTimes`] sees it.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct Running<'a> {
    /// The job.
    pub job: &'a Job,
    /// The cluster.
    pub cluster: &'a Cluster,
    /// Its members' places, in the order of its pods; pods without a place are left out.
    pub sites: &'a [Site],
    /// Other running jobs on its nodes, in the order in which they arrived. None if
    /// [`RunTimes::reads_neighbours`] says no.
    pub neighbours: &'a [Neighbour<'a>],
}

impl<'a> Running<'a> {
    /// The nodes of its members, one by one; those that have gone are left out.
    pub fn nodes(&self) -> impl Iterator<Item = NodeView<'a>> + use<'a> {
        let cluster = self.cluster;
        self.sites.iter().filter_map(move |site| cluster.node(&site.node))
    }

    /// Whether all members stand in one domain of a label: their nodes have it, with one value. With
    /// `kubernetes.io/hostname`, whether they stand on one node.
    pub fn is_within(&self, level: &str) -> bool {
        if level == "kubernetes.io/hostname" {
            return self.sites.windows(2).all(|pair| pair[0].node == pair[1].node);
        }
        let mut values = self.nodes().map(|node| node.label(level));
        let Some(Some(first)) = values.next() else { return false };
        values.all(|value| value == Some(first))
    }

    /// The devices of its members.
    pub fn devices(&self) -> impl Iterator<Item = &'a Device> + use<'a> {
        let cluster = self.cluster;
        self.sites.iter().flat_map(move |site| {
            let devices = cluster.node(&site.node).map_or(&[][..], NodeView::devices);
            site.devices.iter().filter_map(|index| devices.get(*index as usize))
        })
    }
}

/// How fast jobs run where they are.
///
/// A job is asked for again when its members change, and when its neighbours do. Any
/// `Fn(&Running) -> Rate` is one.
///
/// ```
/// use phalanx::simulate::{Rate, RunTimes, Running};
///
/// /// Jobs that a rack does not hold lose a tenth.
/// let racks = |running: &Running<'_>| {
///     if running.is_within("rack") { Rate::ONE } else { Rate::percent(90) }
/// };
/// fn takes(_: &impl RunTimes) {}
/// takes(&racks);
/// ```
pub trait RunTimes {
    /// The rate of a job.
    fn rate(&self, running: &Running<'_>) -> Rate;

    /// Whether rates depend on [neighbours](Running::neighbours). Default: yes.
    fn reads_neighbours(&self) -> bool {
        true
    }
}

impl<F: Fn(&Running<'_>) -> Rate> RunTimes for F {
    fn rate(&self, running: &Running<'_>) -> Rate {
        self(running)
    }
}
