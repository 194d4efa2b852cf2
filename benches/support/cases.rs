//! The cases of `placement` and `instructions`: one for every figure that is asked for.

use crate::scene::{Constraint, Scene};
use crate::stage::{EVENTS, WARMING, Work};

/// The most GPUs that a node has.
const GPUS: usize = 8;

/// One thing to measure.
#[derive(Debug)]
pub(crate) struct Case {
    /// Cases of a group are on one cluster, and the first of them is the straight pass over it.
    pub(crate) group: String,
    pub(crate) name: String,
    pub(crate) work: Work,
    pub(crate) threads: usize,
    pub(crate) salt: u64,
    pub(crate) scene: Scene,
}

impl Case {
    /// Whether the first gang fits; it does unless it is larger than any cluster of its size.
    pub(crate) fn fits(&self) -> bool {
        self.scene.gang <= self.scene.nodes * GPUS
    }

    /// How many pods a round places; 1 if it places none.
    pub(crate) fn placements(&self) -> u64 {
        match self.work {
            Work::Straight => 1,
            Work::Queue => (self.scene.pods - WARMING) as u64,
            _ if self.fits() => self.scene.gang as u64,
            _ => 1,
        }
    }
}

/// All cases, group by group.
pub(crate) fn all() -> Vec<Case> {
    let mut list = List::default();
    for filled in [false, true] {
        let on = |nodes: usize| Ground { nodes, filled };
        for nodes in [5_000, 15_000, 100_000] {
            list.group("cold", on(nodes));
            for size in [1, 64, 1_000] {
                list.gang(size, Work::Cold);
            }
        }
        list.group("cold", on(10_000));
        list.gang(10_000, Work::Cold);

        list.group("different", on(5_000));
        list.add("gang_64", Work::Cold, |scene| {
            (scene.gang, scene.pods, scene.shapes, scene.mixed) = (64, 64, 64, true);
        });
        list.add("one_by_one", Work::Queue, |scene| (scene.pods, scene.shapes) = (64, 64));

        for nodes in [5_000, 100_000] {
            list.group("warm", on(nodes));
            for size in [1, 64, 1_000] {
                list.gang(size, Work::Warm);
                list.last().scene.churn = Some(10);
            }
        }

        list.group("salted", on(5_000));
        for size in [1, 64, 1_000] {
            list.gang(size, Work::Warm);
            list.last().scene.churn = Some(10);
            list.last().salt = 7;
        }

        list.group("refused", on(5_000));
        for (name, work) in [("cold", Work::Cold), ("warm", Work::Warm)] {
            let size = GPUS * 5_000 + 1;
            list.add(name, work, |scene| (scene.gang, scene.pods) = (size, size));
        }

        list.group("topology", on(5_000));
        for size in [4, 64, 512] {
            // No rack of the filled cluster has room for 512.
            if size < 512 || !filled {
                list.gang(size, Work::Cold);
                list.last().scene.topology = true;
            }
        }
    }
    let on = |nodes: usize| Ground { nodes, filled: false };

    list.group("threads", on(15_000));
    for (name, threads) in [("one", 1), ("two", 2)] {
        list.add(name, Work::Cold, |scene| {
            (scene.gang, scene.pods, scene.shapes) = (512, 512, 16);
            (scene.mixed, scene.topology, scene.unpruned) = (true, true, true);
        });
        list.last().threads = threads;
    }

    list.group("one_by_one", on(5_000));
    list.add("identical", Work::Queue, |scene| scene.pods = 1_000);
    for (name, constraint) in [
        ("zone_spread", Constraint::ZoneSpread),
        ("zone_affinity", Constraint::ZoneAffinity),
        ("rack_affinity", Constraint::RackAffinity),
        ("hostname_anti", Constraint::HostnameAnti),
    ] {
        list.add(name, Work::Queue, |scene| {
            (scene.pods, scene.constraint) = (500, constraint);
        });
    }

    list.group("events", on(5_000));
    for (shape, constraint) in
        [("plain", Constraint::None), ("zone_spread", Constraint::ZoneSpread)]
    {
        for (event, name) in EVENTS {
            list.add(&format!("{shape}_{name}"), Work::Event(event), |scene| {
                scene.constraint = constraint;
            });
        }
    }

    list.group("commit", on(5_000));
    for size in [1, 64, 1_000] {
        list.gang(size, Work::Commit);
    }
    list.cases
}

#[derive(Clone, Copy, Default)]
struct Ground {
    nodes: usize,
    filled: bool,
}

#[derive(Default)]
struct List {
    group: String,
    ground: Ground,
    cases: Vec<Case>,
}

impl List {
    fn group(&mut self, name: &str, ground: Ground) {
        let look = if ground.filled { "filled" } else { "uniform" };
        (self.group, self.ground) = (format!("{name}/{look}/{}", ground.nodes), ground);
        self.add("straight_pass", Work::Straight, |_| {});
    }

    fn gang(&mut self, size: usize, work: Work) {
        self.add(&format!("gang_{size}"), work, |scene| (scene.gang, scene.pods) = (size, size));
    }

    fn add(&mut self, name: &str, work: Work, change: impl FnOnce(&mut Scene)) {
        let mut scene = Scene { nodes: self.ground.nodes, ..Scene::default() };
        if self.ground.filled {
            (scene.node_shapes, scene.fill) = (8, 0.7);
        }
        change(&mut scene);
        let (group, name) = (self.group.clone(), name.to_owned());
        self.cases.push(Case { group, name, work, threads: 1, salt: 0, scene });
    }

    fn last(&mut self) -> &mut Case {
        self.cases.last_mut().expect("a case was added")
    }
}
