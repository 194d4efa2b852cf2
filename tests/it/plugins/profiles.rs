//! Several profiles in one framework: each pod is placed as if its profile were the framework.

use phalanx::framework::{FrameworkError, PROFILE, Reach, filter_fn};
use phalanx::{Framework, Node, Outcome, Planner, Pod, PodGroup, Request, Strategy, place_gang};
use proptest::prelude::*;

use crate::support::worlds;

/// The group, with all of its pods in a profile.
fn in_profile(group: &PodGroup, profile: &str) -> PodGroup {
    let mut group = group.clone();
    for pod in &mut group.pods {
        *pod = pod.clone().attribute(PROFILE, profile);
    }
    group.groups = group.groups.iter().map(|own| in_profile(own, profile)).collect();
    group
}

/// The places of all pods, or that there are none.
fn places(outcome: &Outcome) -> Option<Vec<(String, String)>> {
    let Outcome::Placed(plan) = outcome else { return None };
    let places = plan.assignments().map(|own| (own.pod().name.clone(), own.node().to_owned()));
    Some(places.collect())
}

fn profiles() -> [(&'static str, Framework); 3] {
    [("", Framework::kubernetes()), ("pack", Framework::default()), ("spread", Framework::spread())]
}

fn merged() -> Framework {
    let [(_, own), pack, spread] = profiles();
    let builder = own.to_builder().profile(pack.0, &pack.1).profile(spread.0, &spread.1);
    builder.build().expect("profiles go together")
}

proptest! {
    #![proptest_config(worlds::cases(300))]

    #[test]
    fn a_pod_is_placed_as_its_profile_places_it(
        mut cluster in worlds::world(),
        first in worlds::gang("g"),
        second in worlds::gang("h"),
        greedy in any::<bool>(),
    ) {
        let merged = merged();
        let mut warm = Planner::new();
        let strategy = if greedy { Strategy::Kubernetes } else { Strategy::default() };
        for group in [first, second] {
            let mut next = None;
            for (profile, own) in profiles() {
                let group = in_profile(&group, profile);
                let ask = || Request::new(&group).strategy(strategy);
                let expected = Planner::new().place(&cluster, &own, ask());
                let found = warm.place(&cluster, &merged, ask());
                match (expected, found) {
                    (Ok(expected), Ok(found)) => {
                        prop_assert_eq!(places(&expected), places(&found), "{}", profile);
                        if let Outcome::Placed(plan) = found {
                            next = Some(plan);
                        }
                    }
                    (expected, found) => prop_assert_eq!(
                        expected.err().map(|error| error.to_string()),
                        found.err().map(|error| error.to_string())
                    ),
                }
            }
            // The planner is warm, and the cluster another.
            if let Some(plan) = next {
                cluster.commit(&merged, &plan).expect("it was just made");
            }
        }
    }
}

#[test]
fn a_filter_of_a_profile_judges_no_pod_of_another() {
    let refuses = filter_fn("Refuses", Reach::Static, |_, _| false);
    let strict = Framework::default().to_builder().filter(refuses).build().unwrap();
    let framework = Framework::default().to_builder().profile("strict", &strict).build().unwrap();
    let mut cluster = phalanx::Cluster::new();
    cluster.add_node(Node::new("n").capacity("cpu", 4)).unwrap();
    let place = |pod: Pod| {
        let group = PodGroup::gang("g", 1).pods(1, pod.request("cpu", 1));
        place_gang(&cluster, &framework, &group).unwrap()
    };
    let is_placed = |pod: Pod| matches!(place(pod), Outcome::Placed(_));
    assert!(is_placed(Pod::new()));
    assert!(!is_placed(Pod::new().attribute(PROFILE, "strict")));
    // A profile that nobody has is none.
    assert!(is_placed(Pod::new().attribute(PROFILE, "unknown")));
    // Room is judged in each: five do not fit.
    for pod in [Pod::new(), Pod::new().attribute(PROFILE, "unknown")] {
        let group = PodGroup::gang("g", 5).pods(5, pod.request("cpu", 1));
        assert!(!matches!(place_gang(&cluster, &framework, &group), Ok(Outcome::Placed(_))));
    }
}

#[test]
fn profiles_have_names_of_their_own() {
    let own = Framework::default();
    let twice = own.to_builder().profile("a", &own).profile("a", &own).build();
    let name = || "a".to_owned();
    assert_eq!(twice.unwrap_err(), FrameworkError::Duplicate { stage: "profile", name: name() });
    let nameless = own.to_builder().profile("", &own).build();
    assert_eq!(nameless.unwrap_err(), FrameworkError::Nameless("profile"));
    // One that is added later takes nothing from those before.
    let first = own.to_builder().profile("a", &own).build().unwrap();
    let both = first.to_builder().profile("b", &own).build().unwrap();
    for name in ["NodeResourcesFit", "a/NodeResourcesFit", "b/NodeResourcesFit"] {
        assert_eq!(both.filter_names().filter(|own| *own == name).count(), 1, "{name}");
    }
    assert_eq!(
        first.to_builder().profile("a", &own).build().unwrap_err(),
        FrameworkError::Duplicate { stage: "profile", name: name() }
    );
}
