//! Partial admission: a claim with fewer pods than all.

use alloc::vec::Vec;

use smallvec::SmallVec;

use crate::quota::model::claim::{AssignmentMode, Claim, QuotaDecision};

/// The counts of pod sets with the fewest pods left out that are accepted, and what `accept` makes of
/// them. `sets` are counts and least counts.
///
/// Omitted pods are spread in proportion to the pods that each set can do without. If that is `d`
/// of one set and `T` of all, and `i` of `T` are left out, the set leaves out `⌊d · i / T⌋`. The
/// smallest `i` is found by halves, so a count below an accepted one should be accepted, too. O(log
/// T) calls; none if no set can do without a pod, as there is nothing to reduce.
///
/// Source: Kueue's `podset_reducer.go`.
///
/// ```
/// use phalanx::quota::reduced_counts;
///
/// let within = |most: u32| {
///     move |counts: &[u32]| (counts.iter().sum::<u32>() <= most).then(|| counts.to_vec())
/// };
/// assert_eq!(reduced_counts(&[(5, 3), (5, 1)], within(7)), Some(vec![4, 3]));
/// assert_eq!(reduced_counts(&[(5, 3), (5, 1)], within(3)), None);
/// ```
pub fn reduced_counts<R>(
    sets: &[(u32, u32)],
    mut accept: impl FnMut(&[u32]) -> Option<R>,
) -> Option<R> {
    let spare = |&(count, least): &(u32, u32)| u64::from(count.saturating_sub(least));
    let total: u64 = sets.iter().map(spare).sum();
    if total == 0 {
        return None;
    }
    let mut counts: Vec<u32> = Vec::with_capacity(sets.len());
    let (mut low, mut high) = (0, total + 1);
    let mut found = None;
    while low < high {
        let middle = low + (high - low) / 2;
        counts.clear();
        counts.extend(sets.iter().map(|set| {
            let left = u128::from(spare(set)) * u128::from(middle) / u128::from(total);
            set.0 - left as u32
        }));
        match accept(&counts) {
            Some(result) => (high, found) = (middle, Some(result)),
            None => low = middle + 1,
        }
    }
    found
}

/// The decision on all pods of a claim or, where that neither fits nor finds victims and fewer pods
/// would do, on the largest number of them that does.
pub(in crate::quota) fn decide_reduced(
    claim: &Claim,
    mut attempt: impl FnMut(Option<&[u32]>) -> QuotaDecision,
) -> QuotaDecision {
    let settled = |found: &QuotaDecision| match found.assignment.mode {
        AssignmentMode::Fit => true,
        AssignmentMode::Preempt => !found.victims.is_empty(),
        AssignmentMode::NoFit => false,
    };
    let whole = attempt(None);
    if settled(&whole) || !claim.is_elastic() {
        return whole;
    }
    let sets: SmallVec<[(u32, u32); 4]> =
        claim.pod_sets.iter().map(|set| (set.count, set.min_count.unwrap_or(set.count))).collect();
    let reduced = reduced_counts(&sets, |counts| Some(attempt(Some(counts))).filter(settled));
    reduced.unwrap_or(whole)
}
