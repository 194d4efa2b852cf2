//! KAI's dialect beside KAI's own session.

use std::collections::{BTreeMap, BTreeSet};

use conformance::sessions::kai::{
    Action, Gpu, Job, Node, Pod, PodAffinity, PodSet as Set, PodState, Sessions, SubGroupSet, World,
};
use phalanx::Time;
use phalanx::model::Amounts;
use phalanx::quota::kai::{KaiSettings, QueueShare, ResourceShare};
use phalanx::quota::{Claim, Flavor, PodSet, Queue, Quota, Tenants, UNLIMITED, Weight};

use crate::dice::Dice;

fn gpus(name: &str, queue: &str, priority: i64, amount: i64) -> Claim {
    let mut requests = Amounts::new();
    requests.set("gpu", amount);
    Claim::new(name, queue).priority(priority).pods(PodSet::new("main", 1, requests))
}

/// On one node without fragmentation, the dialect and KAI's own session take back for the same work.
#[test]
fn the_dialect_takes_back_where_a_session_does() {
    let (mut taken, mut refused) = (0, 0);
    for seed in 0..400 {
        let mut dice = Dice(seed);
        let queues = 2 + dice.below(3) as usize;
        let mut world = World::default();
        let settings = KaiSettings::default().capacity("gpu", 8);
        let settings = settings.capacity("cpu", 1_000_000).capacity("memory", 1 << 40);
        let mut tenants = Tenants::kai_with(settings);
        tenants.set_flavor(Flavor::new("all"));
        world.nodes.push(Node {
            name: "n".into(),
            cpu: 1_000_000,
            memory: 1 << 40,
            gpus: 8,
            gpu_memory: 100,
            pods: 100,
            labels: BTreeMap::new(),
        });
        for at in 0..queues {
            let (deserved, weight) = (dice.below(5) as i64, dice.below(3));
            let priority = 100 + dice.below(2) as i32;
            let unlimited = ResourceShare {
                deserved: UNLIMITED,
                weight: Weight::ONE,
                ..ResourceShare::default()
            };
            let own = ResourceShare {
                deserved: deserved * 1000,
                weight: Weight::new(weight),
                ..ResourceShare::default()
            };
            world.queues.push(QueueShare {
                name: format!("q{at}"),
                parent: None,
                priority,
                created: at as u64,
                resources: vec![unlimited, unlimited, own],
            });
            let mut quota = Quota::nominal(deserved);
            quota.over_quota_weight = Some(Weight::new(weight));
            let all = Quota::nominal(0).deserved(UNLIMITED);
            let queue = Queue::leaf(format!("q{at}"))
                .quota("all", "cpu", all.clone())
                .quota("all", "memory", all)
                .quota("all", "gpu", quota)
                .priority(priority);
            tenants.set_queue(queue).expect("sound");
        }
        let mut free = 8;
        let mut at = 0;
        while free > 0 {
            let size = (1 + dice.below(3) as i64).min(free);
            free -= size;
            let queue = format!("q{}", dice.below(queues as u64));
            let name = format!("r{at}");
            let since = at as i64;
            world.jobs.push(job(&name, &queue, since, size, Some("n")));
            let claim = gpus(&name, &queue, 50, size);
            let amounts = [("cpu", 1), ("memory", 1), ("gpu", size)];
            let number = |(name, amount)| (tenants.intern("all", name), amount);
            let usage = amounts.into_iter().map(number).collect();
            tenants.restore(&claim, &usage, Time::from_secs(at)).expect("sound");
            at += 1;
        }
        let size = 1 + dice.below(4) as i64;
        let queue = format!("q{}", dice.below(queues as u64));
        world.jobs.push(job("p", &queue, 1_000, size, None));
        let mut sessions = Sessions::new(world);
        sessions.run(&[Action::Reclaim]);
        let outcomes = sessions.outcomes();
        let evicted: BTreeSet<String> = outcomes
            .iter()
            .filter(|(_, pod)| pod.state == PodState::Releasing)
            .map(|(name, _)| (*name).to_string())
            .collect();
        let mut claim = gpus("p", &queue, 50, size);
        for name in ["cpu", "memory"] {
            claim.pod_sets[0].requests.set(name, 1);
        }
        let decision = tenants.decide(&claim).expect("sound");
        let name = |victim: &phalanx::quota::QuotaVictim| {
            tenants.holder(victim.holder).expect("holds").name.clone()
        };
        let victims: BTreeSet<String> = decision.victims.iter().map(name).collect();
        assert_eq!(victims, evicted, "seed {seed}");
        if victims.is_empty() {
            refused += 1;
        } else {
            taken += 1;
        }
    }
    assert!(taken > 50 && refused > 50, "{taken} {refused}");
}

fn job(name: &str, queue: &str, since: i64, gpus: i64, node: Option<&str>) -> Job {
    let pod = Pod {
        name: name.into(),
        pod_set: "default".into(),
        state: if node.is_some() { PodState::Running } else { PodState::Pending },
        node: node.map(Into::into),
        devices: Vec::new(),
        order: None,
        cpu: 1,
        memory: 1,
        gpu: Gpu::Whole(gpus),
        node_affinity: None,
        labels: BTreeMap::new(),
        affinity: PodAffinity::default(),
    };
    let set = Set { name: "default".into(), min_available: 1, topology: None };
    Job {
        name: name.into(),
        queue: queue.into(),
        priority: 50,
        preemptible: true,
        since,
        stale_for: None,
        stays_releasing: false,
        tree: SubGroupSet { pod_sets: vec![set], ..SubGroupSet::default() },
        pods: vec![pod],
    }
}
