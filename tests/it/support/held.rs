//! Answers held to those of the plain loop.

use phalanx::reference;
use phalanx::{Cluster, Framework, Outcome, PlaceError, Planner, PodGroup, Request, Strategy};

/// Places a group by a planner, and holds the answer to that of the plain loop.
pub(crate) fn held(
    planner: &mut Planner,
    cluster: &Cluster,
    framework: &Framework,
    group: &PodGroup,
) -> Result<Outcome, PlaceError> {
    let request = || Request::new(group).strategy(Strategy::Kubernetes);
    let fast = planner.place(cluster, framework, request());
    let plain = reference::place_by_definition(cluster, framework, request());
    assert!(fast == plain, "{}:\n{fast:?}\n{plain:?}", group.name);
    if let Ok(Some(plan)) = fast.as_ref().map(Outcome::plan) {
        phalanx::reference::is_sound(plan, request(), cluster, framework).unwrap();
    }
    fast
}
