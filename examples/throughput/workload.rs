//! The work of a busy day: gangs, their shapes, and how long they run.

use phalanx::model::{LabelSelector, PodAffinityTerm, SpreadConstraint};
use phalanx::place::Gang;
use phalanx::{Cluster, Framework, Outcome, Planner, Pod, PodGroup, Request, Strategy};

use crate::scene::{Dice, GPU, HOSTNAME, RACK, ZONE};

/// Shapes that come again and again.
pub(crate) const KNOWN: usize = 200;
/// Namespaces that gangs are in.
pub(crate) const TEAMS: usize = 10;
/// Gangs have up to 2⁹ pods.
const DOUBLINGS: usize = 9;
/// GPUs of an arrival on average: 10 × 512 pods in 1,023 draws, and a pod in four has two.
pub(crate) const GPUS_A_GANG: f64 = 5_120.0 / 1_023.0 * 1.25;

/// The demand of a gang beyond room on nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Plain,
    /// One rack is required.
    Rack,
    /// The pods of its shape are spread evenly over the zones.
    Spread,
    /// The pods of its shape are on different nodes.
    Repel,
}

impl Kind {
    /// Whether plugins that read beyond the node judge it.
    pub(crate) fn has_domain_plugins(self) -> bool {
        matches!(self, Kind::Spread | Kind::Repel)
    }
}

/// A gang that waits for its decision.
#[derive(Debug)]
pub(crate) struct Work {
    pub(crate) group: PodGroup,
    pub(crate) kind: Kind,
    /// The number of its shape, below [`KNOWN`] for those that come again.
    pub(crate) shape: usize,
    /// The generation of the cluster when its scheduler met it before, if it was in a conflict.
    pub(crate) met: Option<u64>,
}

/// The arrivals of a day, the same for the same seed.
#[derive(Debug)]
pub(crate) struct Arrivals {
    dice: Dice,
    known: Vec<(Kind, Pod)>,
    gangs: usize,
    shapes: usize,
}

impl Arrivals {
    pub(crate) fn new(seed: u64) -> Arrivals {
        let mut dice = Dice(seed);
        // 5 % spread, 5 % repel.
        let kind_of = |number| match number * 20 / KNOWN {
            0 => Kind::Spread,
            1 => Kind::Repel,
            _ => Kind::Plain,
        };
        let known =
            (0..KNOWN).map(|number| (kind_of(number), pod(number, kind_of(number), &mut dice)));
        Arrivals { known: known.collect(), dice, gangs: 0, shapes: KNOWN }
    }

    /// The next gang.
    pub(crate) fn next(&mut self) -> Work {
        let size = self.size();
        let (shape, (mut kind, template)) = if self.dice.below(10) < 6 {
            let shape = self.dice.below(KNOWN);
            (shape, self.known[shape].clone())
        } else {
            let kind = match self.dice.below(20) {
                0 => Kind::Spread,
                1 => Kind::Repel,
                _ => Kind::Plain,
            };
            self.shapes += 1;
            (self.shapes - 1, (kind, pod(self.shapes - 1, kind, &mut self.dice)))
        };
        let mut group = PodGroup::gang(format!("g{}", self.gangs), size as u32)
            .in_namespace(template.namespace())
            .pods(size, template);
        self.gangs += 1;
        // A third of all gangs, of the nine tenths that are left.
        if kind == Kind::Plain && self.dice.below(27) < 10 {
            kind = Kind::Rack;
            group = group.require(RACK);
        }
        Work { group, kind, shape, met: None }
    }

    /// 1, 2, 4 ... 512 in probability proportional to 1/size.
    fn size(&mut self) -> usize {
        let mut left = self.dice.below((2 << DOUBLINGS) - 1);
        let mut size = 1;
        while left >= (1 << DOUBLINGS) / size {
            left -= (1 << DOUBLINGS) / size;
            size *= 2;
        }
        size
    }

    /// Half to one and a half times the mean.
    pub(crate) fn life(&mut self, mean: f64) -> f64 {
        mean * (0.5 + self.dice.below(1_000) as f64 / 1_000.0)
    }
}

/// A pod of a shape.
fn pod(number: usize, kind: Kind, dice: &mut Dice) -> Pod {
    let app = format!("app-{number}");
    let own = || LabelSelector::label("app", app.as_str());
    let pod = Pod::new()
        .in_namespace(format!("team-{}", number % TEAMS))
        .label("app", app.as_str())
        .request("cpu", format!("{}m", 1_000 + dice.below(3_001)))
        .request("memory", format!("{}Mi", 2_048 + dice.below(6_145)))
        .request(GPU, if dice.below(4) == 0 { 2 } else { 1 });
    match kind {
        Kind::Spread => pod.spread(SpreadConstraint::new(1, ZONE, own())),
        Kind::Repel => pod.anti_affinity(PodAffinityTerm::new(HOSTNAME, own())),
        Kind::Plain | Kind::Rack => pod,
    }
}

/// The gang of a group, which is sound.
pub(crate) fn gang_of(group: &PodGroup) -> Gang {
    Gang::new(group.clone()).expect("drawn groups are sound")
}

/// The decision of a planner on a gang, with the salt of its scheduler.
pub(crate) fn place(
    planner: &mut Planner,
    cluster: &Cluster,
    framework: &Framework,
    gang: &Gang,
    salt: u64,
) -> Outcome {
    let request = Request::from(gang).strategy(Strategy::Kubernetes).salt(salt);
    planner.place(cluster, framework, request).expect("drawn groups are sound")
}
