//! The roster of a group: its pods by number, and their distinct shapes.

use alloc::sync::Arc;

use smallvec::SmallVec;

use crate::base::hash::{FixedMap, hash_of};
use crate::model::{Pod, PodGroup, PodShape};

/// A group whose pods are numbered in the order of [`PodGroup::all_pods`].
#[derive(Debug, Clone, Default)]
pub(crate) struct Roster {
    group: PodGroup,
    known: Known,
}

/// The index of a group's pods.
#[derive(Debug, Clone, Default)]
struct Known {
    leaves: SmallVec<[Leaf; 1]>,
    shapes: SmallVec<[Arc<PodShape>; 1]>,
    /// The place in `shapes` of each pod.
    shape_of: SmallVec<[u32; 4]>,
}

/// Places of shapes by their hash.
type Places = FixedMap<u64, SmallVec<[u32; 1]>>;

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

impl Known {
    fn enter(
        &mut self,
        group: &mut PodGroup,
        path: &mut SmallVec<[u32; 4]>,
        places: &mut Places,
        last: &mut Option<(*const PodShape, u32)>,
    ) {
        if !group.pods.is_empty() {
            self.leaves.push(Leaf { first: self.shape_of.len() as u32, path: path.clone() });
        }
        self.shape_of.reserve(group.pods.len());
        for pod in &mut group.pods {
            if pod.group.is_none() {
                pod.group = Some(group.name.clone());
            }
            let pointer = Arc::as_ptr(pod.shape());
            let place = match *last {
                Some((known, place)) if known == pointer => place,
                _ => self.shape_place(pod.shape(), places),
            };
            *last = Some((pointer, place));
            self.shape_of.push(place);
        }
        for (index, subgroup) in group.groups.iter_mut().enumerate() {
            path.push(index as u32);
            self.enter(subgroup, path, places, last);
            path.pop();
        }
    }

    fn shape_place(&mut self, shape: &Arc<PodShape>, places: &mut Places) -> u32 {
        // Most groups have one shape: it is hashed when there is another to compare it with.
        if let [only] = &self.shapes[..]
            && places.is_empty()
        {
            places.insert(hash_of(&**only), SmallVec::from_slice(&[0]));
        }
        let place = self.shapes.len() as u32;
        if place > 0 {
            let same_hash = places.entry(hash_of(&**shape)).or_default();
            let same = |place: &&u32| self.shapes[**place as usize] == *shape;
            if let Some(known) = same_hash.iter().find(same) {
                return *known;
            }
            same_hash.push(place);
        }
        self.shapes.push(Arc::clone(shape));
        place
    }
}

impl Roster {
    /// Numbers the pods and finds their distinct shapes; a pod that names no group gets its own.
    ///
    /// O(pods); pods that share a shape by pointer are not compared.
    pub(crate) fn new(mut group: PodGroup) -> Roster {
        let mut known = Known::default();
        known.enter(&mut group, &mut SmallVec::new(), &mut Places::default(), &mut None);
        Roster { group, known }
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
        let at = self.known.leaves.partition_point(|leaf| leaf.first <= member).saturating_sub(1);
        let leaf = &self.known.leaves[at];
        let group = leaf.path.iter().fold(&self.group, |group, &at| &group.groups[at as usize]);
        (group, leaf.first)
    }

    pub(crate) fn len(&self) -> usize {
        self.known.shape_of.len()
    }

    pub(crate) fn shapes(&self) -> &[Arc<PodShape>] {
        &self.known.shapes
    }

    pub(crate) fn shape_of(&self) -> &[u32] {
        &self.known.shape_of
    }
}
