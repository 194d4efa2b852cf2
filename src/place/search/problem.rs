//! The problem in numbers: classes of equal pods, room as vectors, verdicts of node-local filters.
//!
//! A group that does not fit by these numbers does not fit at all; one that fits is evaluated again
//! by every filter before it is returned.

use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;

use super::beyond::{Beyond, Counted};
use crate::base::Time;
use crate::framework::device_fit::choose_for;
use crate::framework::{Evaluation, Framework};
use crate::model::{Pod, PodGroup, PodShape};
use crate::place::cache::capacity::{Amount, Capacity, Extent};
use crate::place::cache::fits::Asker;
use crate::place::error::PlaceError;
use crate::place::gang::Gang;
use crate::place::numbers::Dimensions;
use crate::state::{Cluster, Row, Txn};

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
    /// Demand of one pod: a pod, then the resources of the problem; all zero if no filter judges
    /// room. Then the bounds beyond amounts.
    pub(crate) ask: Vec<i64>,
    /// The column of how many fit on a node alone.
    fits: usize,
}

/// The request in numbers.
#[derive(Debug)]
pub(crate) struct Problem<'a> {
    pub(crate) cluster: &'a Cluster,
    pub(crate) framework: &'a Framework,
    pub(crate) now: Time,
    pub(crate) members: Vec<Member<'a>>,
    pub(crate) classes: Vec<Class<'a>>,
    pub(crate) dimensions: Dimensions,
    /// The row of each node, in the order of ties.
    pub(crate) rows: Arc<[Row]>,
    /// Whether those are all nodes of the cluster.
    pub(crate) whole: bool,
    pub(crate) rooms: &'a mut Capacity,
    /// The columns of what is free, a dimension each.
    free: Vec<usize>,
    /// The bounds beyond amounts.
    beyond: Beyond,
}

impl<'a> Problem<'a> {
    /// The model of the members of a group on some rows; `None` stands for all.
    pub(crate) fn new(
        cluster: &'a Cluster,
        framework: &'a Framework,
        gang: &'a Gang,
        now: Time,
        rows: Option<Vec<Row>>,
        rooms: &'a mut Capacity,
    ) -> Problem<'a> {
        rooms.sync(cluster, framework);
        let mut model = Problem {
            cluster,
            framework,
            now,
            members: Vec::new(),
            classes: Vec::new(),
            dimensions: Dimensions::default(),
            whole: rows.is_none(),
            rows: rows.map_or_else(|| Arc::clone(&rooms.tree.rows), Into::into),
            rooms,
            free: Vec::new(),
            beyond: Beyond::default(),
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
        let judges_room = self.framework.judges_room(shape);
        if judges_room {
            self.dimensions.add(self.cluster, shape);
        }
        let asker = Asker { leaf, now: self.now };
        let fits = self.rooms.fits(self.cluster, self.framework, shape, asker);
        // Amounts follow once all resources are known.
        let ask = vec![i64::from(judges_room)];
        self.classes.push(Class { leaf, shape, ask, fits });
        self.classes.len() - 1
    }

    fn reads_group(&self, shape: &PodShape) -> bool {
        self.framework.filters().iter().any(|filter| filter.declare(shape).reads_group)
    }

    /// Sets what classes take, and finds what is free.
    fn measure(&mut self) {
        for class in &mut self.classes {
            let judged = i64::from(class.ask == [1]);
            let ask = self.dimensions.ask(self.cluster, class.shape);
            class.ask = ask.map(|amount| amount * judged).collect();
        }
        let resources = self.dimensions.resources.iter().map(|id| Amount::Free(*id));
        for amount in core::iter::once(Amount::Pods).chain(resources) {
            self.free.push(self.rooms.amount(self.cluster, amount));
        }
        let of_class = |class: &Class<'a>| Counted {
            shape: class.shape,
            fits: class.fits,
            members: 0,
            ask: Vec::new(),
        };
        let mut counted: Vec<Counted<'a>> = self.classes.iter().map(of_class).collect();
        self.members.iter().for_each(|member| counted[member.class].members += 1);
        self.beyond = Beyond::new(self.cluster, self.framework, &mut counted);
        for (class, counted) in self.classes.iter_mut().zip(counted) {
            class.ask.extend(counted.ask);
        }
    }

    /// How many dimensions there are: pods and resources.
    pub(crate) fn width(&self) -> usize {
        self.dimensions.width()
    }

    /// The same, with the bounds beyond amounts, which only packings count.
    pub(crate) fn full_width(&self) -> usize {
        self.width() + self.beyond.width()
    }

    /// Free amounts of a node, a dimension each.
    #[inline]
    pub(crate) fn free(&self, node: u32) -> impl Iterator<Item = i64> + '_ {
        let row = self.rows[node as usize];
        self.free.iter().map(move |&column| self.rooms.value(column, row))
    }

    /// The same, with the bounds beyond amounts.
    pub(crate) fn full_free(&self, node: u32) -> impl Iterator<Item = i64> + '_ {
        let row = self.rows[node as usize];
        self.free(node).chain(self.beyond.free(self.cluster, self.rooms, row))
    }

    /// Free amounts of some nodes together.
    pub(crate) fn free_in(&mut self, extent: Extent) -> Vec<i64> {
        self.free.iter().map(|&column| self.rooms.sum(column, extent)).collect()
    }

    /// How many pods of a class fit on a node that gets nothing else.
    #[inline]
    pub(crate) fn fits(&self, class: usize, node: u32) -> u32 {
        self.rooms.value(self.classes[class].fits, self.rows[node as usize]) as u32
    }

    /// The same, of some nodes, each by itself.
    pub(crate) fn fits_in(&mut self, class: usize, extent: Extent) -> i64 {
        self.rooms.sum(self.classes[class].fits, extent)
    }

    /// Whether a member has claims.
    pub(crate) fn has_claims(&self) -> bool {
        let mut volumes = self.classes.iter().flat_map(|class| &class.shape.volumes);
        volumes.any(|volume| volume.claim().is_some())
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
