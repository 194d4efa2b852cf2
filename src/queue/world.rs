//! The world: the cluster, the rules by which it is judged, and the time.

use crate::base::Time;
use crate::framework::{Framework, Strategy};
use crate::model::{Pod, PodGroup};
use crate::place::CommitError;
use crate::place::{Outcome, PlaceError, Planner, Request};
use crate::state::{Applied, Cluster, Event, Plan, StateError};

use crate::queue::settings::Settings;

/// The cluster with the framework, the settings and the time: all owners read it, the driver and the
/// ledger of holds change it.
pub(in crate::queue) struct World {
    cluster: Cluster,
    framework: Framework,
    without_permits: Framework,
    settings: Settings,
    planner: Planner,
    now: Time,
    /// Whether time stands still while lists come in.
    is_stopped: bool,
}

impl World {
    pub(in crate::queue) fn new(
        cluster: Cluster,
        framework: Framework,
        settings: Settings,
    ) -> World {
        World {
            cluster,
            without_permits: framework.without_permits(),
            framework,
            settings,
            planner: Planner::new(),
            now: Time::ZERO,
            is_stopped: false,
        }
    }

    pub(in crate::queue) fn cluster(&self) -> &Cluster {
        &self.cluster
    }

    pub(in crate::queue) fn framework(&self) -> &Framework {
        &self.framework
    }

    /// The framework for plans of later times: permits judge those as of now.
    pub(in crate::queue) fn without_permits(&self) -> &Framework {
        &self.without_permits
    }

    pub(in crate::queue) fn settings(&self) -> &Settings {
        &self.settings
    }

    pub(in crate::queue) fn now(&self) -> Time {
        self.now
    }

    /// Advances the time, unless it stands still; it never runs backwards.
    pub(in crate::queue) fn advance(&mut self, now: Time) {
        if !self.is_stopped {
            self.now = self.now.max(now);
        }
    }

    /// Time stands still until [`World::resume_time`].
    pub(in crate::queue) fn stop_time(&mut self) {
        self.is_stopped = true;
    }

    /// Time goes on. Returns whether it stood still.
    pub(in crate::queue) fn resume_time(&mut self) -> bool {
        core::mem::take(&mut self.is_stopped)
    }

    /// Whether time stands still.
    pub(in crate::queue) fn is_stopped(&self) -> bool {
        self.is_stopped
    }

    pub(in crate::queue) fn apply(&mut self, event: Event) -> Result<Applied, StateError> {
        self.cluster.apply(event)
    }

    pub(in crate::queue) fn add_pod(&mut self, pod: Pod) -> Result<(), StateError> {
        self.cluster.add_pod(pod).map(drop)
    }

    pub(in crate::queue) fn remove_pod(
        &mut self,
        namespace: &str,
        name: &str,
    ) -> Result<(), StateError> {
        self.cluster.remove_pod(namespace, name).map(drop)
    }

    /// Commits a plan, judged by the framework.
    pub(in crate::queue) fn commit(&mut self, plan: &Plan) -> Result<(), CommitError> {
        self.cluster.commit(&self.framework, plan)
    }

    pub(in crate::queue) fn forget_deleted(&mut self, version: u64) {
        self.cluster.forget_deleted(version);
    }

    /// The request to place a tree, with the options of the scheduler.
    pub(in crate::queue) fn request<'a>(
        &self,
        tree: &'a PodGroup,
        strategy: Option<Strategy>,
        now: Time,
    ) -> Request<'a> {
        let request = Request::new(tree).now(now);
        let request = request.budget(self.settings.budget).salt(self.settings.salt);
        match strategy.or(self.settings.strategy) {
            Some(strategy) => request.strategy(strategy),
            None => request,
        }
    }

    /// The outcome of a request to the warm planner. The cluster does not change.
    pub(in crate::queue) fn place(&mut self, request: Request<'_>) -> Result<Outcome, PlaceError> {
        let mut outcome = self.planner.place(&self.cluster, &self.framework, request)?;
        if let Outcome::Placed(plan) | Outcome::Held { plan, .. } = &mut outcome {
            plan.forget_avoided();
        }
        Ok(outcome)
    }
}
