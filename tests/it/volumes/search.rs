//! The search finds volumes for a gang wherever brute force does, and nowhere else.

use phalanx::reference::is_sound;
use phalanx::{Cluster, Framework, Outcome, PodGroup, place_gang};

use super::{claim, cluster, gang, local};
use crate::support::dice::Dice;

/// A volume: its size, the nodes that reach it, and its colour.
type Disk = (i64, Vec<usize>, u64);

/// A claim: its size, the colour it asks for, and whether one can be made.
type Want = (i64, Option<u64>, bool);

const NODES: [&str; 3] = ["n0", "n1", "n2"];

#[derive(Debug)]
struct World {
    disks: Vec<Disk>,
    wants: Vec<Want>,
    /// The claims of each pod.
    pods: Vec<Vec<usize>>,
}

impl World {
    fn new(dice: &mut Dice) -> World {
        let disks = (0..1 + dice.roll(5)).map(|_| {
            let mut nodes: Vec<usize> = (0..NODES.len()).filter(|_| dice.one_in(3)).collect();
            if nodes.is_empty() {
                nodes.push(dice.roll(3) as usize);
            }
            (10 * (1 + dice.roll(4)) as i64, nodes, dice.roll(2))
        });
        let disks = disks.collect();
        let wants = (0..1 + dice.roll(5)).map(|_| {
            let colour = dice.one_in(3).then(|| dice.roll(2));
            (10 * (1 + dice.roll(4)) as i64, colour, dice.one_in(6))
        });
        let wants: Vec<Want> = wants.collect();
        let pods = (0..1 + dice.roll(4)).map(|_| {
            let mut own: Vec<usize> =
                (0..1 + dice.roll(2)).map(|_| dice.roll(wants.len() as u64) as usize).collect();
            own.sort_unstable();
            own.dedup();
            own
        });
        let pods = pods.collect();
        World { disks, wants, pods }
    }

    fn cluster(&self) -> Cluster {
        let mut cluster = cluster(&NODES);
        for (number, (size, nodes, colour)) in self.disks.iter().enumerate() {
            let nodes: Vec<&str> = nodes.iter().map(|node| NODES[*node]).collect();
            let disk = local(&format!("d{number}"), *size, &nodes);
            cluster.set_storage(disk.label("colour", colour.to_string())).unwrap();
        }
        for (number, (size, colour, made)) in self.wants.iter().enumerate() {
            let class = if *made { "made" } else { "local" };
            let mut claim = claim(&format!("c{number}"), class, *size);
            if let Some(colour) = colour {
                let labels = phalanx::model::LabelSelector::label("colour", colour.to_string());
                claim = claim.selector(labels);
            }
            cluster.set_storage(claim).unwrap();
        }
        cluster
    }

    fn group(&self) -> PodGroup {
        let names: Vec<Vec<String>> = self
            .pods
            .iter()
            .map(|own| own.iter().map(|claim| format!("c{claim}")).collect())
            .collect();
        let names: Vec<Vec<&str>> =
            names.iter().map(|own| own.iter().map(String::as_str).collect()).collect();
        let names: Vec<&[&str]> = names.iter().map(Vec::as_slice).collect();
        gang("g", &names)
    }

    /// Whether some choice of nodes and volumes meets every claim: all are tried.
    fn fits(&self) -> bool {
        let count = self.pods.len() as u32;
        (0..3_usize.pow(count)).any(|number| {
            let seats: Vec<usize> = (0..count).map(|pod| number / 3_usize.pow(pod) % 3).collect();
            let mut users: Vec<Vec<usize>> = vec![Vec::new(); self.wants.len()];
            for (pod, own) in self.pods.iter().enumerate() {
                own.iter().for_each(|claim| users[*claim].push(seats[pod]));
            }
            self.gives(0, &users, &mut vec![false; self.disks.len()])
        })
    }

    fn gives(&self, at: usize, users: &[Vec<usize>], given: &mut Vec<bool>) -> bool {
        let Some((size, colour, made)) = self.wants.get(at) else { return true };
        if users[at].is_empty() {
            return self.gives(at + 1, users, given);
        }
        if *made {
            let one = users[at].iter().all(|node| *node == users[at][0]);
            return one && self.gives(at + 1, users, given);
        }
        (0..self.disks.len()).any(|disk| {
            let (capacity, nodes, own) = &self.disks[disk];
            let suits = !given[disk]
                && capacity >= size
                && colour.is_none_or(|colour| colour == *own)
                && users[at].iter().all(|node| nodes.contains(node));
            suits && {
                given[disk] = true;
                let found = self.gives(at + 1, users, given);
                given[disk] = false;
                found
            }
        })
    }
}

#[test]
fn a_gang_gets_its_volumes_wherever_brute_force_finds_them() {
    let framework = Framework::default();
    let mut dice = Dice(28);
    let mut counts = [0, 0];
    for round in 0..1_500 {
        let world = World::new(&mut dice);
        let (cluster, group) = (world.cluster(), world.group());
        let fits = world.fits();
        counts[usize::from(fits)] += 1;
        let outcome = place_gang(&cluster, &framework, &group).unwrap();
        match &outcome {
            Outcome::Placed(plan) => {
                assert!(fits, "{round}: forged");
                is_sound(plan, &group, &cluster, &framework)
                    .unwrap_or_else(|error| panic!("{round}: {error}"));
                let mut cluster = cluster.clone();
                cluster.commit(&framework, plan).unwrap_or_else(|error| panic!("{round}: {error}"));
            }
            Outcome::Unplaced(reason) => {
                assert!(!fits, "{round}: {outcome}\n{world:?}");
                let certificate = reason.certificate.as_ref();
                let certificate = certificate.unwrap_or_else(|| panic!("{round}: {outcome}"));
                certificate.verify(&cluster, &framework, &group).unwrap();
            }
            other => panic!("{round}: {other}"),
        }
    }
    assert!(counts.iter().all(|count| *count > 300), "{counts:?}");
}

/// One volume is reached by all nodes, and the greedy choice gives it to the pod that has others.
#[test]
fn volumes_change_hands() {
    let mut cluster = cluster(&NODES);
    cluster.set_storage(local("shared", 10, &NODES)).unwrap();
    cluster.set_storage(local("own", 20, &["n0"])).unwrap();
    cluster.set_storage(claim("x", "local", 10)).unwrap();
    cluster.set_storage(claim("y", "local", 10)).unwrap();
    let mut group = gang("g", &[&["x"], &["y"]]);
    for (pod, node) in group.pods.iter_mut().zip(["n0", "n1"]) {
        *pod = pod.clone().node_selector(super::HOST, node);
    }
    let framework = Framework::default();
    let outcome = place_gang(&cluster, &framework, &group).unwrap();
    let plan = outcome.plan().unwrap_or_else(|| panic!("{outcome}"));
    is_sound(plan, &group, &cluster, &framework).unwrap();
}
