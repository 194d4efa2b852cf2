//! A group as it is placed: its pods by number, and told apart by shape.

use alloc::sync::Arc;
use alloc::vec::Vec;

use smallvec::SmallVec;

use crate::base::hash::{FixedMap, hash_of};
use crate::model::{Pod, PodGroup, PodShape};

/// A group whose pods are numbered in the order of [`PodGroup::all_pods`].
#[derive(Debug, Clone, Default)]
pub(crate) struct Roster {
    group: PodGroup,
    leaves: Vec<Leaf>,
    shapes: Vec<Arc<PodShape>>,
    /// The place in `shapes` of each pod.
    shape_of: Vec<u32>,
}

/// A group that holds pods: the number of its first, and the way to it from the root.
#[derive(Debug, Clone)]
struct Leaf {
    first: u32,
    path: SmallVec<[u32; 4]>,
}

/// Finds pods by number, at once if they are in the leaf of the one before.
#[derive(Debug)]
pub(crate) struct Pods<'a> {
    roster: &'a Roster,
    leaf: &'a [Pod],
    first: u32,
}

impl<'a> Pods<'a> {
    /// The pod of a number below [`Roster::len`].
    #[inline]
    pub(crate) fn pod(&mut self, member: u32) -> &'a Pod {
        if let Some(pod) = self.leaf.get(member.wrapping_sub(self.first) as usize) {
            return pod;
        }
        let (leaf, first) = self.roster.leaf(member);
        (self.leaf, self.first) = (&leaf.pods, first);
        &self.leaf[(member - first) as usize]
    }
}

impl Roster {
    /// Numbers the pods and tells them apart; names their group to those that do not name it.
    ///
    /// O(pods); pods that share a shape by pointer are not compared.
    pub(crate) fn new(mut group: PodGroup) -> Roster {
        let mut roster = Roster::default();
        roster.enter(&mut group, &mut SmallVec::new(), &mut FixedMap::default(), &mut None);
        roster.group = group;
        roster
    }

    fn enter(
        &mut self,
        group: &mut PodGroup,
        path: &mut SmallVec<[u32; 4]>,
        known: &mut FixedMap<u64, Vec<u32>>,
        last: &mut Option<(*const PodShape, u32)>,
    ) {
        if !group.pods.is_empty() {
            self.leaves.push(Leaf { first: self.shape_of.len() as u32, path: path.clone() });
        }
        for pod in &mut group.pods {
            if pod.group.is_none() {
                pod.group = Some(group.name.clone());
            }
            let pointer = Arc::as_ptr(pod.shape());
            let place = match *last {
                Some((known, place)) if known == pointer => place,
                _ => self.shape_place(pod.shape(), known),
            };
            *last = Some((pointer, place));
            self.shape_of.push(place);
        }
        for (index, subgroup) in group.groups.iter_mut().enumerate() {
            path.push(index as u32);
            self.enter(subgroup, path, known, last);
            path.pop();
        }
    }

    fn shape_place(&mut self, shape: &Arc<PodShape>, known: &mut FixedMap<u64, Vec<u32>>) -> u32 {
        let same_hash = known.entry(hash_of(&**shape)).or_default();
        let found = same_hash.iter().find(|&&place| self.shapes[place as usize] == *shape);
        found.copied().unwrap_or_else(|| {
            let place = self.shapes.len() as u32;
            self.shapes.push(Arc::clone(shape));
            same_hash.push(place);
            place
        })
    }

    pub(crate) fn group(&self) -> &PodGroup {
        &self.group
    }

    /// The pods by number.
    pub(crate) fn pods(&self) -> Pods<'_> {
        Pods { roster: self, leaf: &[], first: 0 }
    }

    /// The leaf that holds a pod, and the number of its first.
    pub(crate) fn leaf(&self, member: u32) -> (&PodGroup, u32) {
        let at = self.leaves.partition_point(|leaf| leaf.first <= member).saturating_sub(1);
        let leaf = &self.leaves[at];
        let group = leaf.path.iter().fold(&self.group, |group, &at| &group.groups[at as usize]);
        (group, leaf.first)
    }

    pub(crate) fn len(&self) -> usize {
        self.shape_of.len()
    }

    pub(crate) fn shapes(&self) -> &[Arc<PodShape>] {
        &self.shapes
    }

    pub(crate) fn shape_of(&self) -> &[u32] {
        &self.shape_of
    }
}
