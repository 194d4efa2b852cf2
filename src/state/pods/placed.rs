//! Pods on rows by their shape, for counts of the pods of few shapes.

use alloc::vec::Vec;

use crate::base::Row;
use crate::state::ids::ShapeId;

/// Pods of a shape up to which a pod is found in its list.
const MOST: usize = 4_096;

/// The rows of the pods of each shape, as of one moment of a cluster.
#[derive(Debug, Default)]
pub(crate) struct PlacedPods {
    /// By number of shape: a number for each pod on a row, twice that of the row, and one more if it
    /// is being deleted.
    by_shape: Vec<Vec<u32>>,
    state: State,
}

#[derive(Debug, Default, PartialEq, Eq)]
enum State {
    #[default]
    Unmade,
    Asked,
    Made,
    /// A shape has too many pods.
    GivenUp,
}

impl PlacedPods {
    /// Lists that are not made.
    pub(crate) const NONE: &'static PlacedPods =
        &PlacedPods { by_shape: Vec::new(), state: State::Unmade };

    /// Makes the lists of the pods on rows if they are asked for repeatedly: a single count costs
    /// less without.
    pub(crate) fn ask<P>(&mut self, placed: impl Fn() -> P)
    where
        P: Iterator<Item = (ShapeId, Row, bool)>,
    {
        match self.state {
            State::Unmade => self.state = State::Asked,
            State::Asked => {
                self.state = State::Made;
                placed().for_each(|(shape, row, deleting)| self.change(shape, row, deleting, true));
            }
            State::Made => debug_assert_eq!(
                self.by_shape.iter().map(Vec::len).sum::<usize>(),
                placed().count()
            ),
            State::GivenUp => {}
        }
    }

    /// Takes in that a pod came to a row, or left it. O(1) if it came, O(pods of the shape) if it
    /// left.
    pub(crate) fn change(&mut self, shape: ShapeId, row: Row, deleting: bool, came: bool) {
        if !self.are_made() {
            return;
        }
        if self.by_shape.len() <= shape.index() {
            self.by_shape.resize_with(shape.index() + 1, Vec::new);
        }
        let pods = &mut self.by_shape[shape.index()];
        let pod = row.as_u32() << 1 | u32::from(deleting);
        if came && pods.len() < MOST && row.index() < 1 << 31 {
            pods.push(pod);
        } else if let Some(at) = pods.iter().rposition(|other| !came && *other == pod) {
            pods.swap_remove(at);
        } else {
            *self = PlacedPods { by_shape: Vec::new(), state: State::GivenUp };
        }
    }

    pub(crate) fn are_made(&self) -> bool {
        self.state == State::Made
    }

    /// The row of each pod of a shape, and whether it is being deleted. The lists must be made.
    pub(crate) fn of(&self, shape: ShapeId) -> impl Iterator<Item = (Row, bool)> + '_ {
        let pods = self.by_shape.get(shape.index()).into_iter().flatten();
        pods.map(|pod| (Row::from(pod >> 1), pod & 1 == 1))
    }
}

#[cfg(test)]
mod tests;
