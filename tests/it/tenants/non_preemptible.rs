//! A claim that says that it may not be evicted is no victim, in any dialect.

use phalanx::Time;
use phalanx::model::Amounts;
use phalanx::quota::{
    AssignmentMode, Claim, Flavor, KueueSettings, PodSet, Queue, QueuePreemption,
    QueuePreemptionPolicy, Quota, Tenants,
};

fn claim(name: &str, queue: &str, gpus: i64) -> Claim {
    let mut requests = Amounts::new();
    requests.set("gpu", gpus);
    Claim::new(name, queue).pods(PodSet::new("main", 1, requests))
}

/// Two leaves that are promised half of twelve each.
fn halves(mut tenants: Tenants) -> Tenants {
    tenants.set_flavor(Flavor::new("all"));
    let root = Queue::inner("root").quota("all", "gpu", Quota::nominal(12));
    tenants.set_queue(root).unwrap();
    let reclaim = QueuePreemption::default().reclaim_within_cohort(QueuePreemptionPolicy::Any);
    for leaf in ["a", "b"] {
        let queue = Queue::leaf(leaf).parent("root").preemption(reclaim);
        let quota = Quota::nominal(6).deserved(6);
        tenants.set_queue(queue.quota("all", "gpu", quota)).unwrap();
    }
    tenants
}

#[test]
fn no_dialect_names_a_claim_that_may_not_be_evicted() {
    // Without a guarantee of the root: leaves promise all there is.
    let flat = |mut tenants: Tenants| {
        tenants.set_queue(Queue::inner("root")).unwrap();
        tenants
    };
    let all: [(&str, Tenants); 7] = [
        ("own", flat(halves(Tenants::default()))),
        ("kueue", flat(halves(Tenants::kueue()))),
        ("fair", flat(halves(Tenants::kueue_with(KueueSettings::default().fair())))),
        ("proportion", halves(Tenants::volcano_proportion())),
        ("drf", halves(Tenants::volcano_drf())),
        ("yunikorn", halves(Tenants::yunikorn())),
        ("kai", flat(halves(Tenants::kai()))),
    ];
    for (dialect, tenants) in all {
        let mut named = 0;
        for marked in 0..16_u32 {
            let mut tenants = tenants.clone();
            let mut holders = Vec::new();
            for at in 0..4 {
                let mut own = claim(&format!("a{at}"), "a", 3);
                own.preemptible = (marked & 1 << at != 0).then_some(false);
                let of = tenants.intern("all", "gpu");
                let usage = [(of, 3)].into_iter().collect();
                let holder = tenants.restore(&own, &usage, Time::from_secs(at)).unwrap();
                // What is asked of the books by hand does not undo what the claim says.
                tenants.set_kept(holder, true).unwrap();
                tenants.set_kept(holder, false).unwrap();
                tenants.set_leaving(holder, true).unwrap();
                tenants.set_leaving(holder, false).unwrap();
                holders.push(holder);
            }
            let decision = tenants.decide(&claim("b0", "b", 3)).unwrap();
            assert_ne!(decision.assignment.mode, AssignmentMode::Fit, "{dialect}");
            for victim in &decision.victims {
                let at = holders.iter().position(|holder| *holder == victim.holder).unwrap();
                assert_eq!(marked & 1 << at, 0, "{dialect} {marked:b}");
            }
            named += u32::from(!decision.victims.is_empty());
            if marked == 15 {
                assert!(decision.victims.is_empty(), "{dialect}");
            }
        }
        assert!(named > 10, "{dialect} {named}");
    }
}
