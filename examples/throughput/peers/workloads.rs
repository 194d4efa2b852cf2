//! Workloads of `scheduler_perf`: nodes, pods bound beforehand, pods that are measured.

use phalanx::{Pod, PodGroup};

use super::objects::{self as of, NodeKind, PodKind, RACK};
use crate::scene::ZONE;

/// Pods in groups of one size.
#[derive(Clone, Copy)]
pub(super) struct Batch {
    pub(super) pods: usize,
    pod: PodKind,
    /// Pods of a group; 1 is a pod by itself.
    pub(super) size: usize,
    /// Groups of a composite; 0 is none.
    inner: usize,
    namespace: &'static str,
    /// Namespaces of such a name and a number, in turn.
    namespaces: usize,
    /// Whether groups start pod by pod.
    is_basic: bool,
    /// Whether a group needs one rack, and a composite one zone.
    in_rack: bool,
    priority: i32,
    /// The first of the ports that groups have in turn; 0 is none.
    ports: u16,
}

/// Events beside the measured pods, in the time that the threshold gives them.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Churn {
    None,
    /// A node without room and a pod that fits nowhere come; at the next second they go.
    Recreate,
    /// So many pods a second come that fit nowhere.
    Huge(usize),
    /// So many pods a second come that need victims.
    High(usize),
    /// So many of the pods that were bound beforehand are deleted a second.
    Delete(usize),
}

/// A workload: a row of `scheduler_perf`.
#[derive(Clone, Copy)]
pub(super) struct Workload {
    pub(super) section: &'static str,
    pub(super) name: &'static str,
    pub(super) nodes: usize,
    pub(super) node: NodeKind,
    pub(super) before: [Option<Batch>; 2],
    pub(super) measured: Batch,
    pub(super) churn: Churn,
    /// Pods that wait behind a gate all the time.
    pub(super) gated: usize,
    pub(super) preempts: bool,
    /// Whether each pod has a volume of its own.
    pub(super) volumes: bool,
    /// The least mean of their runs in pods a second, if it is asserted.
    pub(super) threshold: Option<u32>,
}

const fn pods(pods: usize, pod: PodKind) -> Batch {
    Batch {
        pods,
        pod,
        size: 1,
        inner: 0,
        namespace: "sched-1",
        namespaces: 0,
        is_basic: false,
        in_rack: false,
        priority: 0,
        ports: 0,
    }
}

const fn gangs(groups: usize, size: usize, pod: PodKind) -> Batch {
    Batch { size, ..pods(groups * size, pod) }
}

/// The pods that were there before are in a namespace of their own.
const fn before(own: Batch) -> [Option<Batch>; 2] {
    [Some(Batch { namespace: "sched-0", ..own }), None]
}

const fn row(
    section: &'static str,
    name: &'static str,
    threshold: u32,
    beforehand: usize,
    measured: Batch,
) -> Workload {
    Workload {
        section,
        name,
        nodes: 5_000,
        node: of::plain,
        before: if beforehand > 0 {
            before(Batch { pods: beforehand, ..measured })
        } else {
            [None; 2]
        },
        measured,
        churn: Churn::None,
        gated: 0,
        preempts: false,
        volumes: false,
        threshold: if threshold > 0 { Some(threshold) } else { None },
    }
}

const MISC: [Workload; 8] = [
    row("4.1", "SchedulingBasic 10k", 680, 1_000, pods(10_000, of::default_pod)),
    row("4.1", "SchedulingBasic 50k", 790, 5_000, pods(50_000, of::default_pod)),
    Workload {
        nodes: 15_001,
        node: of::named,
        ..row("4.1", "SchedulingDaemonset", 1_100, 0, pods(30_000, of::daemon))
    },
    Workload {
        churn: Churn::Recreate,
        ..row("4.1", "SchedulingWithMixedChurn", 710, 0, pods(10_000, of::default_pod))
    },
    Workload {
        nodes: 1,
        node: of::named,
        churn: Churn::Delete(50),
        gated: 10_000,
        ..row("4.1", "SchedulingWhileGated", 910, 20_000, pods(20_000, of::light))
    },
    Workload {
        churn: Churn::Delete(100),
        ..row("4.1", "SchedulingDeletedPodsWithFinalizers", 830, 5_000, pods(5_000, of::light))
    },
    Workload {
        node: of::own_resource,
        ..row("4.1", "SchedulingWithExtendedResource", 180, 0, pods(5_000, of::extended))
    },
    Workload {
        churn: Churn::Huge(5),
        ..row("4.5", "Unschedulable", 590, 100, pods(10_000, of::default_pod))
    },
];

const AFFINITY: [Workload; 8] = [
    row("4.2", "SchedulingPodAntiAffinity", 180, 1_000, pods(2_000, of::anti)),
    Workload {
        before: before(pods(1_000, of::anti)),
        ..row("4.2", "SchedulingPodMatchingAntiAffinity", 540, 0, pods(5_000, of::green))
    },
    Workload {
        node: of::one_zone,
        ..row("4.2", "SchedulingPodAffinity", 70, 5_000, pods(5_000, of::affine))
    },
    row("4.2", "SchedulingPreferredPodAffinity", 160, 5_000, pods(5_000, of::wish)),
    row("4.2", "SchedulingPreferredPodAntiAffinity", 190, 5_000, pods(5_000, of::anti_wish)),
    Workload {
        node: of::one_zone,
        ..row("4.2", "SchedulingNodeAffinity", 540, 5_000, pods(10_000, of::on_zone))
    },
    Workload {
        node: of::one_zone,
        before: before(pods(10_000, of::mixed)),
        ..row("4.2", "MixedSchedulingBasePod", 540, 0, pods(5_000, of::default_pod))
    },
    Workload {
        before: [Some(Batch { namespaces: 100, ..pods(4_000, of::anti) }), None],
        nodes: 6_000,
        ..row("4.2", "RequiredPodAntiAffinity, 100 namespaces", 140, 0, pods(2_000, of::anti))
    },
];

const SPREAD: [Workload; 4] = [
    Workload {
        node: of::moons,
        before: before(pods(5_000, of::default_pod)),
        ..row("4.3", "TopologySpreading", 460, 0, pods(5_000, of::spread))
    },
    Workload {
        node: of::moons,
        before: before(pods(5_000, of::default_pod)),
        ..row("4.3", "PreferredTopologySpreading", 340, 0, pods(5_000, of::spread_wish))
    },
    Workload {
        node: of::moons,
        before: before(pods(5_000, of::default_pod)),
        ..row("4.3", "DefaultTopologySpreading", 160, 0, pods(50_000, of::served))
    },
    Workload {
        node: of::some_tainted,
        ..row("4.3", "SchedulingWithNodeInclusionPolicy", 270, 0, pods(4_000, of::inclusion))
    },
];

const VOLUMES: [Workload; 2] = [
    row("4.4", "SchedulingSecrets", 790, 1_000, pods(10_000, of::default_pod)),
    Workload {
        volumes: true,
        ..row("4.4", "SchedulingCSIPVs", 100, 5_000, pods(5_000, of::default_pod))
    },
];

const fn preempting(
    name: &'static str,
    section: &'static str,
    nodes: usize,
    low: Batch,
    measured: Batch,
) -> Workload {
    Workload { nodes, before: before(low), preempts: true, ..row(section, name, 0, 0, measured) }
}

const fn above(own: Batch) -> Batch {
    Batch { priority: 10_000, ..own }
}

const LOW: Batch = Batch { ports: 8_000, priority: 1_000, ..gangs(5, 100, of::sixth_of_a_node) };
const LOW_SMALL: Batch =
    Batch { ports: 8_000, priority: 1_000, ..gangs(50, 10, of::sixth_of_a_node) };

const PREEMPTION: [Workload; 11] = [
    preempting("PreemptionBasic", "4.5", 1_000, pods(4_000, of::low), pods(1_000, of::high)),
    Workload {
        preempts: true,
        before: before(pods(20_000, of::low)),
        churn: Churn::High(5),
        ..row("4.5", "PreemptionAsync", 570, 0, pods(5_000, of::default_pod))
    },
    preempting(
        "GangPreemptionBasic 1x100",
        "4.6",
        100,
        pods(1_000, of::low_by_port),
        above(gangs(1, 100, of::whole_node)),
    ),
    preempting(
        "GangPreemptionBasic 10x10",
        "4.6",
        100,
        pods(1_000, of::low_by_port),
        above(gangs(10, 10, of::whole_node)),
    ),
    preempting(
        "GangPreemptionPodGroups 1x100",
        "4.6",
        100,
        LOW,
        above(Batch { ports: 9_000, ..gangs(1, 100, of::most_of_a_node) }),
    ),
    preempting(
        "GangPreemptionPodGroups 10x10",
        "4.6",
        100,
        LOW_SMALL,
        above(Batch { ports: 9_000, ..gangs(10, 10, of::most_of_a_node) }),
    ),
    Workload {
        node: of::moons,
        ..preempting(
            "GangPreemptionTopologySpreading",
            "4.6",
            100,
            pods(1_000, of::low_by_port),
            above(gangs(6, 16, of::whole_node_spread)),
        )
    },
    preempting(
        "CPGPreemptionBasic 1x10x10",
        "4.8",
        100,
        pods(1_000, of::low_by_port),
        above(Batch { inner: 10, ..gangs(10, 10, of::whole_node) }),
    ),
    preempting(
        "CPGPreemptionBasic 10x2x5",
        "4.8",
        100,
        pods(1_000, of::low_by_port),
        above(Batch { inner: 2, ..gangs(20, 5, of::whole_node) }),
    ),
    preempting(
        "CPGPreemptionCPG 1x10x10",
        "4.8",
        100,
        Batch { inner: 10, ..LOW_SMALL },
        above(Batch { inner: 10, ports: 9_000, ..gangs(10, 10, of::most_of_a_node) }),
    ),
    preempting(
        "CPGPreemptionCPG 10x2x5",
        "4.8",
        100,
        Batch { inner: 2, ports: 8_000, priority: 1_000, ..gangs(100, 5, of::sixth_of_a_node) },
        above(Batch { inner: 2, ports: 9_000, ..gangs(20, 5, of::most_of_a_node) }),
    ),
];

const fn gang(name: &'static str, groups: usize, size: usize) -> Workload {
    row("4.7", name, 0, 0, gangs(groups, size, of::default_pod))
}

const fn basic(name: &'static str, groups: usize, size: usize) -> Workload {
    row("4.7", name, 0, 0, Batch { is_basic: true, ..gangs(groups, size, of::default_pod) })
}

const fn racks(name: &'static str, threshold: u32, groups: usize, size: usize) -> Workload {
    let measured = Batch { in_rack: true, ..gangs(groups, size, of::default_pod) };
    Workload { node: of::racked, ..row("4.7", name, threshold, 0, measured) }
}

const GROUPS: [Workload; 15] = [
    gang("GangScheduling 1000x3", 1_000, 3),
    gang("GangScheduling 2000x3", 2_000, 3),
    gang("GangScheduling 3000x3", 3_000, 3),
    gang("GangScheduling 3x1000", 3, 1_000),
    gang("GangScheduling 6x1000", 6, 1_000),
    gang("GangScheduling 9x1000", 9, 1_000),
    gang("GangScheduling 10x5000", 10, 5_000),
    basic("BasicScheduling 3000x3", 3_000, 3),
    basic("BasicScheduling 9x1000", 9, 1_000),
    racks("TopologyAwareScheduling 750x4", 400, 750, 4),
    racks("TopologyAwareScheduling 1500x4", 350, 1_500, 4),
    racks("TopologyAwareScheduling 2250x4", 350, 2_250, 4),
    racks("TopologyAwareScheduling 3x1000", 550, 3, 1_000),
    racks("TopologyAwareScheduling 6x1000", 350, 6, 1_000),
    racks("TopologyAwareScheduling 9x1000", 350, 9, 1_000),
];

const fn composites(name: &'static str, own: Batch) -> Workload {
    Workload { node: of::racked, ..row("4.8", name, 0, 0, own) }
}

const COMPOSITES: [Workload; 6] = [
    composites(
        "CPGBasicScheduling 1500x2x3",
        Batch { inner: 2, is_basic: true, ..gangs(3_000, 3, of::small) },
    ),
    composites("CPGGangScheduling 500x2x3", Batch { inner: 2, ..gangs(1_000, 3, of::small) }),
    composites("CPGGangScheduling 1500x2x3", Batch { inner: 2, ..gangs(3_000, 3, of::small) }),
    composites("CPGGangScheduling 3x2x1500", Batch { inner: 2, ..gangs(6, 1_500, of::small) }),
    composites(
        "CPGTopologyAwareScheduling 1500x2x4",
        Batch { inner: 2, in_rack: true, ..gangs(3_000, 4, of::small) },
    ),
    composites(
        "CPGTopologyAwareScheduling 3x2x1500",
        Batch { inner: 2, in_rack: true, ..gangs(6, 1_500, of::small) },
    ),
];

/// All rows that are run, by section of the notes about these benchmarks.
pub(super) fn all() -> impl Iterator<Item = Workload> {
    let parts: [&[Workload]; 7] =
        [&MISC, &AFFINITY, &SPREAD, &VOLUMES, &PREEMPTION, &GROUPS, &COMPOSITES];
    let mut all: Vec<Workload> = parts.into_iter().flatten().copied().collect();
    all.sort_by_key(|workload| workload.section);
    all.into_iter()
}

impl Batch {
    /// The part of a batch in so many, in whole groups.
    pub(super) fn part(self, divide: usize) -> Batch {
        let (size, inner) = (self.size.min(self.pods.div_ceil(divide)), self.inner.max(1));
        let whole = size * inner;
        Batch { size, pods: (self.pods.div_ceil(divide) / whole).max(1) * whole, ..self }
    }

    /// The groups, each of a name that begins so. `alike` pods differ in no label.
    pub(super) fn groups(&self, name: &str, alike: bool) -> Vec<PodGroup> {
        let group = |number: usize| self.group(name, number, alike);
        let count = self.pods / self.size;
        if self.inner == 0 {
            return (0..count).map(group).collect();
        }
        let composite = |number: usize| {
            let own = format!("{name}-c{number}");
            let least = if self.is_basic { 1 } else { self.inner as u32 };
            let inner = (number * self.inner..(number + 1) * self.inner).map(group);
            let outer = PodGroup::gang(own, least).in_namespace(self.namespace);
            let outer = inner.fold(outer.priority(self.priority), PodGroup::group);
            if self.in_rack { outer.require(ZONE) } else { outer }
        };
        (0..count / self.inner).map(composite).collect()
    }

    fn group(&self, name: &str, number: usize, alike: bool) -> PodGroup {
        let own = format!("{name}-{number}");
        let namespace = match self.namespaces {
            0 => self.namespace.to_string(),
            count => format!("sched-{}", number % count),
        };
        let least = if self.is_basic { 1 } else { self.size as u32 };
        let mut group = PodGroup::gang(own, least).in_namespace(namespace);
        for index in 0..self.size {
            let index = number * self.size + index;
            let mut pod: Pod = (self.pod)(index);
            if !alike {
                pod = pod.label("signature", index.to_string());
            }
            if self.ports > 0 {
                pod = pod.host_port("TCP", self.ports + number as u16);
            }
            if self.priority > 0 {
                pod = pod.priority(self.priority);
            }
            let priority = pod.priority;
            // Templates of one index are of one group, so that pods alike share a shape.
            group = group.pods(1, pod).priority(priority);
        }
        if self.in_rack { group.require(RACK) } else { group }
    }
}
