//! The request in numbers: classes of equal pods, room as vectors, and what near filters say.
//!
//! Filters that read only the node, and whose "no" stays a "no", are asked once for each class and
//! node. Filters that promise to judge room are replaced by comparing vectors. All others are left
//! out, so what does not fit here does not fit at all; what fits is judged again by every filter
//! before it is returned.

use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;

use crate::base::{RowSet, Time};
use crate::framework::device_choice::choose_for;
use crate::framework::{Context, Evaluation, Framework, Preparation, Prepared, Reach};
use crate::model::{Pod, PodGroup, PodShape};
use crate::place::error::PlaceError;
use crate::place::gang::Gang;
use crate::state::{Cluster, ResourceId, Row, Txn};

/// A pod to be placed, and its class.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Member<'a> {
    pub(crate) leaf: &'a PodGroup,
    pub(crate) pod: &'a Pod,
    pub(crate) class: usize,
    /// Its place among all pods of the tree.
    pub(crate) number: u32,
}

/// Pods that no filter can tell apart.
#[derive(Debug)]
pub(crate) struct Class<'a> {
    leaf: &'a PodGroup,
    pub(crate) shape: &'a Arc<PodShape>,
    /// What one pod takes: a pod, then the resources of the model; all zero if no filter judges
    /// room.
    pub(crate) ask: Vec<i64>,
    /// Requests something that no node has.
    impossible: bool,
    near: Near,
}

/// The filters that are asked once for each node.
#[derive(Debug, Default)]
struct Near {
    stages: Vec<(usize, Prepared)>,
    only: Option<RowSet>,
    refused: bool,
}

/// The request in numbers.
#[derive(Debug)]
pub(crate) struct Model<'a> {
    pub(crate) cluster: &'a Cluster,
    pub(crate) framework: &'a Framework,
    pub(crate) now: Time,
    pub(crate) members: Vec<Member<'a>>,
    pub(crate) classes: Vec<Class<'a>>,
    /// The resources that are counted; the first dimension is the number of pods.
    pub(crate) resources: Vec<ResourceId>,
    /// How many dimensions there are.
    pub(crate) width: usize,
    /// The row of each node, in the order of ties.
    pub(crate) rows: Vec<Row>,
    /// What is free on each node, never negative; `width` numbers a node.
    free: Vec<i64>,
    /// How many pods of a class fit on a node alone; -1 where not yet known.
    fits: Vec<i32>,
}

/// Pods of one class on one node are counted no further.
const MANY: i64 = 1 << 30;

impl<'a> Model<'a> {
    /// The model of the members of a group on some rows.
    pub(crate) fn new(
        cluster: &'a Cluster,
        framework: &'a Framework,
        gang: &'a Gang,
        now: Time,
        rows: Vec<Row>,
    ) -> Model<'a> {
        let mut model = Model {
            cluster,
            framework,
            now,
            members: Vec::new(),
            classes: Vec::new(),
            resources: Vec::new(),
            width: 1,
            rows,
            free: Vec::new(),
            fits: Vec::new(),
        };
        let mut next = 0;
        // The class of each shape, where no filter reads the group.
        let mut of_shape: Vec<Option<usize>> = vec![None; gang.shapes()];
        gang.group().visit(&mut |leaf| {
            for pod in &leaf.pods {
                let (number, place) = (next, gang.shape_of()[next as usize]);
                next += 1;
                if !pod.scheduling_gates.is_empty() {
                    continue;
                }
                let class = match of_shape[place as usize] {
                    Some(class)
                        if core::ptr::eq(model.classes[class].leaf, leaf)
                            || !model.reads_group(gang.shape(place)) =>
                    {
                        class
                    }
                    _ => model.add_class(leaf, gang.shape(place)),
                };
                of_shape[place as usize] = Some(class);
                model.members.push(Member { leaf, pod, class, number });
            }
        });
        model.measure();
        model
    }

    fn add_class(&mut self, leaf: &'a PodGroup, shape: &'a Arc<PodShape>) -> usize {
        let judges_room = self.framework.filters().iter().any(|filter| filter.declare(shape).room);
        let mut impossible = false;
        if judges_room {
            for (name, amount) in shape.requests.iter().filter(|(_, amount)| *amount > 0) {
                match self.cluster.resource(name) {
                    Some(id) if !self.resources.contains(&id) => self.resources.push(id),
                    Some(_) => {}
                    None => impossible |= amount > 0,
                }
            }
        }
        // Amounts follow once all resources are known; until then the flag is the first number.
        let ask = vec![i64::from(judges_room)];
        let near = self.near(leaf, shape);
        self.classes.push(Class { leaf, shape, ask, impossible, near });
        self.classes.len() - 1
    }

    fn reads_group(&self, shape: &PodShape) -> bool {
        self.framework.filters().iter().any(|filter| filter.declare(shape).reads_group)
    }

    fn near(&self, leaf: &'a PodGroup, shape: &PodShape) -> Near {
        let mut near = Near::default();
        for (plugin, filter) in self.framework.filters().iter().enumerate() {
            let declaration = filter.declare(shape);
            let lasting = match declaration.reach {
                Reach::Static => true,
                Reach::Node => declaration.monotone && !declaration.room,
                Reach::Domain(_) | Reach::Cluster => false,
            };
            if !lasting || !declaration.counters.is_empty() {
                continue;
            }
            let base = Context { now: self.now, ..Context::new(self.cluster, shape) };
            match filter.prepare(&Context { group: Some(leaf), ..base }) {
                Preparation::Ready(prepared) => near.stages.push((plugin, prepared)),
                Preparation::Narrow(prepared, rows) => {
                    near.stages.push((plugin, prepared));
                    match &mut near.only {
                        Some(only) => only.intersect(&rows),
                        only => *only = Some(rows),
                    }
                }
                Preparation::Reject(_) => near.refused = true,
                _ => {}
            }
        }
        near
    }

    /// Reads what is free, and sets what classes take.
    fn measure(&mut self) {
        self.width = 1 + self.resources.len();
        for class in &mut self.classes {
            let requests = &class.shape.requests;
            let of = |id: &ResourceId| requests.of(self.cluster.resource_name(*id));
            let judges_room = class.ask.first() == Some(&1);
            class.ask.extend(
                self.resources.iter().map(|id| if judges_room { of(id).max(0) } else { 0 }),
            );
        }
        self.free.reserve(self.rows.len() * self.width);
        for &row in &self.rows {
            let Some(node) = self.cluster.view(row) else {
                self.free.extend(core::iter::repeat_n(0, self.width));
                continue;
            };
            self.free.push(node.pod_limit().saturating_sub(node.pod_count()).clamp(0, MANY));
            self.free.extend(self.resources.iter().map(|id| node.free(*id).max(0)));
        }
        self.fits = vec![-1; self.rows.len() * self.classes.len()];
    }

    /// What is free on a node.
    #[inline]
    pub(crate) fn free(&self, node: u32) -> &[i64] {
        let first = node as usize * self.width;
        self.free.get(first..first + self.width).unwrap_or(&[])
    }

    /// How many pods of a class fit on a node that gets nothing else.
    #[inline]
    pub(crate) fn fits(&mut self, class: usize, node: u32) -> u32 {
        let place = node as usize * self.classes.len() + class;
        match self.fits.get(place) {
            Some(&known) if known >= 0 => known as u32,
            Some(_) => {
                let count = self.count(class, node);
                self.fits[place] = count as i32;
                count
            }
            None => 0,
        }
    }

    fn count(&self, class: usize, node: u32) -> u32 {
        let asked = &self.classes[class];
        let room = times(self.free(node), &asked.ask);
        if room == 0 || asked.impossible || asked.near.refused {
            return 0;
        }
        let row = self.rows[node as usize];
        if asked.near.only.as_ref().is_some_and(|only| !only.contains(row)) {
            return 0;
        }
        let Some(view) = self.cluster.view(row) else { return 0 };
        let mut room = room;
        for (plugin, prepared) in &asked.near.stages {
            let base = Context { now: self.now, ..Context::new(self.cluster, asked.shape) };
            let cx = Context { prepared, group: Some(asked.leaf), ..base };
            let filter = &self.framework.filters()[*plugin];
            if !filter.filter(&cx, view).passes() {
                return 0;
            }
            // A node that passes takes one pod, whatever the bound says.
            room = room.min(u32::try_from(filter.room(&cx, view).max(1)).unwrap_or(u32::MAX));
        }
        room
    }

    /// Places a member if every filter passes it, and devices can be found for it.
    pub(crate) fn place(
        &self,
        txn: &mut Txn,
        member: usize,
        node: u32,
    ) -> Result<bool, PlaceError> {
        let Member { leaf, pod, .. } = self.members[member];
        let row = self.rows[node as usize];
        let shape = pod.shape();
        let evaluation = Evaluation::new(self.framework, txn, shape, Some(leaf), self.now);
        if txn.view(row).is_none_or(|view| evaluation.filter(view).is_err()) {
            return Ok(false);
        }
        let Ok(devices) = choose_for(self.framework, txn, shape, row) else { return Ok(false) };
        txn.place_with(pod, row, devices)?;
        Ok(true)
    }

    /// The leaf of the first member of a class.
    pub(crate) fn leaf_of(&self, class: usize) -> &'a PodGroup {
        self.classes[class].leaf
    }
}

/// How often `ask` goes into `free`.
#[inline]
pub(crate) fn times(free: &[i64], ask: &[i64]) -> u32 {
    let mut least = MANY;
    for (&free, &ask) in free.iter().zip(ask) {
        if ask > 0 {
            least = least.min(if free < ask { 0 } else { free / ask });
        }
    }
    least as u32
}
