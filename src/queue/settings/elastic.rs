//! Options of gangs that grow, shrink, and come back from a loss.

use core::time::Duration;

/// How gangs grow beyond their minimum, give members back, and replace members that failing nodes took.
///
/// ```
/// use phalanx::queue::{Elastic, Repair, Settings};
///
/// let elastic = Elastic::new().by_turns().repair(Repair::new());
/// let settings = Settings::new().elastic(elastic);
/// # assert!(settings.elastic.by_turns && settings.elastic.surplus_first.is_none());
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "camelCase", default))]
#[non_exhaustive]
pub struct Elastic {
    /// Whether a gang of pods starts with its minimum and then grows by one member a turn. Groups that
    /// have not started come before growth at their priority. Default: no, a gang takes all members
    /// that fit at once.
    ///
    /// If members differ, a turn has one of each shape, and the start all of them. Groups of groups,
    /// and gangs with slices or an even spread, start and grow at once.
    pub by_turns: bool,
    /// Whether members above the minima of their gangs yield before any gang falls, whatever the cost.
    /// With tenants they give quota back too. Default `None`: without tenants, and in dialects that search
    /// over quota and room at once ([`PreemptionSettings::joint`](super::PreemptionSettings::joint)), if
    /// gangs grow by turns.
    pub surplus_first: Option<bool>,
    /// Repair of gangs whose nodes fail. Default `None`: lost members wait for room as others do.
    pub repair: Option<Repair>,
}

impl Elastic {
    /// The defaults.
    pub fn new() -> Elastic {
        Elastic::default()
    }

    /// Lets gangs start with their minimum and grow by one member a turn.
    #[must_use]
    pub fn by_turns(mut self) -> Elastic {
        self.by_turns = true;
        self
    }

    /// Sets whether members above the minima of their gangs yield before any gang falls.
    #[must_use]
    pub fn surplus_first(mut self, first: bool) -> Elastic {
        self.surplus_first = Some(first);
        self
    }

    /// Sets the repair of gangs whose nodes fail.
    #[must_use]
    pub fn repair(mut self, repair: Repair) -> Elastic {
        self.repair = Some(repair);
        self
    }

    pub(in crate::queue) fn takes_surplus_first(&self) -> bool {
        self.surplus_first.unwrap_or(self.by_turns)
    }
}

/// Repair of gangs: what is done if lost members find no room in the domain of their gang.
///
/// | way | cost, in pod-milliseconds | if |
/// |---|---|---|
/// | less important units yield | the work lost with them | [`Settings::preemption`](super::Settings::preemption) finds some |
/// | the gang moves whole | its own work that is lost | there is room for all of it elsewhere |
/// | it stays below its size | `worth` for each missing member | its minimum runs |
///
/// The cheapest way is taken: at equal cost the gang stays, else units yield. [`Decision::Repair`] says
/// which.
///
/// [`Decision::Repair`]: crate::Decision::Repair
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "camelCase", default))]
#[non_exhaustive]
pub struct Repair {
    /// How long a member is expected to be missing if the gang waits for room: the cost of staying, for
    /// each of them. Default 30 minutes.
    pub worth: Duration,
    /// How long room elsewhere is kept for a gang that moves while its pods leave. Default 10 minutes.
    pub move_within: Duration,
}

impl Default for Repair {
    fn default() -> Repair {
        Repair { worth: Duration::from_secs(1_800), move_within: Duration::from_secs(600) }
    }
}

impl Repair {
    /// The defaults.
    pub fn new() -> Repair {
        Repair::default()
    }

    /// Sets how long a member is expected to be missing if the gang waits for room.
    #[must_use]
    pub fn worth(mut self, span: Duration) -> Repair {
        self.worth = span;
        self
    }

    /// Sets how long room is kept for a gang that moves while its pods leave.
    #[must_use]
    pub fn move_within(mut self, span: Duration) -> Repair {
        self.move_within = span;
        self
    }
}
