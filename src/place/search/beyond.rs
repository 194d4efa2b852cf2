//! Bounds beyond amounts, each a dimension of packings: devices, host ports, other filters' counts.
//!
//! A packing that knew amounts alone would fill a node however few devices it has. The filters would
//! refuse each such answer.

use alloc::vec::Vec;

use crate::framework::{Framework, device_capacity};
use crate::model::{DeviceRequest, PodShape};
use crate::place::cache::capacity::Capacity;
use crate::place::cache::fits::is_evaluated;
use crate::state::{Cluster, DeviceNeed, Row};

/// Bounds at most: fewer only cost time.
const MOST: usize = 16;

/// The filters whose counts are told by request and by port.
const DEVICES: &str = "DeviceFit";
const PORTS: &str = "NodePorts";

/// How many units a node has.
#[derive(Debug)]
enum Bound {
    /// How often its devices meet a need.
    Need(DeviceNeed),
    /// A port, once.
    Port,
    /// How many pods of a class fit, by a column of capacities.
    Fits(usize),
}

/// A class of equal pods, as bounds read it.
#[derive(Debug)]
pub(crate) struct Counted<'a> {
    pub(crate) shape: &'a PodShape,
    /// The column of how many fit on a node alone.
    pub(crate) fits: usize,
    /// How many members are of the class.
    pub(crate) members: u32,
    /// Units that one member asks for, a bound each.
    pub(crate) ask: Vec<i64>,
}

/// The bounds of the classes of a problem.
#[derive(Debug, Default)]
pub(crate) struct Beyond(Vec<Bound>);

impl Beyond {
    /// The bounds of some classes, and what their members ask for. O(classes × bounds).
    pub(crate) fn new(
        cluster: &Cluster,
        framework: &Framework,
        classes: &mut [Counted<'_>],
    ) -> Beyond {
        let mut beyond = Beyond::default();
        let judges = |name: &str| framework.filters().iter().any(|filter| filter.name() == name);
        if judges(DEVICES) {
            beyond.add_devices(cluster, classes);
        }
        if judges(PORTS) {
            let all = classes.iter().flat_map(|class| &class.shape.ports);
            let mut ports: Vec<_> = all.cloned().collect();
            ports.sort_unstable();
            ports.dedup();
            for port in ports {
                beyond.add(Bound::Port, classes, |_, shape| i64::from(shape.ports.contains(&port)));
            }
        }
        for at in 0..classes.len() {
            if classes[at].members > 1 && is_counted_otherwise(framework, classes[at].shape) {
                let column = classes[at].fits;
                beyond.add(Bound::Fits(column), classes, |class, _| i64::from(class == at));
            }
        }
        beyond
    }

    /// The dimensions of devices: each request that differs, and the whole devices of a kind.
    fn add_devices(&mut self, cluster: &Cluster, classes: &mut [Counted<'_>]) {
        let mut requests: Vec<DeviceRequest> = Vec::new();
        for request in classes.iter().flat_map(|class| &class.shape.devices) {
            let kind = request.is_whole().then(|| DeviceRequest::whole(&*request.kind, 1));
            for request in kind.into_iter().chain([request.clone()]) {
                if !requests.contains(&request) {
                    requests.push(request);
                }
            }
            if requests.len() > MOST {
                break;
            }
        }
        for request in requests {
            let of_kind = request == DeviceRequest::whole(&*request.kind, 1);
            let need = DeviceNeed::new(&request, |text| cluster.device_term(text));
            self.add(Bound::Need(need), classes, |_, shape| {
                let own = shape.devices.iter();
                let units = own.map(|own| {
                    if of_kind && own.is_whole() && own.kind == request.kind {
                        i64::from(own.count())
                    } else {
                        i64::from(*own == request)
                    }
                });
                units.fold(0, i64::saturating_add)
            });
        }
    }

    fn add(
        &mut self,
        bound: Bound,
        classes: &mut [Counted<'_>],
        ask: impl Fn(usize, &PodShape) -> i64,
    ) {
        if self.0.len() < MOST {
            self.0.push(bound);
            for (number, class) in classes.iter_mut().enumerate() {
                class.ask.push(ask(number, class.shape));
            }
        }
    }

    /// How many there are.
    pub(crate) fn width(&self) -> usize {
        self.0.len()
    }

    /// The units of a row, a bound each.
    pub(crate) fn free<'b>(
        &'b self,
        cluster: &'b Cluster,
        rooms: &'b Capacity,
        row: Row,
    ) -> impl Iterator<Item = i64> + 'b {
        self.0.iter().map(move |bound| match bound {
            Bound::Need(need) => cluster.view(row).map_or(0, |node| {
                let often = device_capacity(node, core::slice::from_ref(need));
                i64::try_from(often).unwrap_or(i64::MAX)
            }),
            Bound::Port => 1,
            Bound::Fits(column) => rooms.value(*column, row),
        })
    }
}

/// Whether a filter other than those of amounts, devices and ports counts pods of a shape.
fn is_counted_otherwise(framework: &Framework, shape: &PodShape) -> bool {
    framework.filters_for(shape).iter().any(|&place| {
        let filter = &framework.filters()[place];
        let declaration = filter.declare(shape);
        is_evaluated(&declaration)
            && !declaration.is_pod_independent()
            && !matches!(filter.name(), DEVICES | PORTS)
    })
}
