//! The search for holders that give back.

use alloc::vec::Vec;

/// Who gives back in which order, and what suffices.
pub(in crate::quota) trait GiveBack {
    /// A holder that gives back.
    type Holder: Clone;

    /// Takes the next holder that may give back from the sums; `None` if there is no other.
    fn take_next(&mut self) -> Option<Self::Holder>;

    /// Whether the claim has what it asks for without the holders that are taken.
    fn suffices(&mut self) -> bool;

    /// Adds a holder to the sums again.
    fn put_back(&mut self, holder: &Self::Holder);

    /// Takes a holder that was put back.
    fn take_again(&mut self, holder: &Self::Holder);

    /// The holders that have to go, of those that suffice; `None` if others have to go too. All are
    /// taken from the sums before; if the answer is `None`, after it too.
    fn needed(&mut self, taken: &[Self::Holder]) -> Option<Vec<Self::Holder>> {
        Some(taken.to_vec())
    }
}

/// Takes holders in their order until they suffice. The answer is the holders that have to go, or as
/// an error those that were taken in vain. The sums are as before.
pub(in crate::quota) fn give_back<G: GiveBack>(
    search: &mut G,
) -> Result<Vec<G::Holder>, Vec<G::Holder>> {
    let mut taken: Vec<G::Holder> = Vec::new();
    let mut found = None;
    while found.is_none()
        && let Some(holder) = search.take_next()
    {
        taken.push(holder);
        if search.suffices() {
            found = search.needed(&taken);
        }
    }
    for holder in &taken {
        search.put_back(holder);
    }
    found.ok_or(taken)
}

/// The holders of a list that are needed. Each is put back, from the last but one to the first, and
/// stays if the rest suffices. The last holder of the list takes its place.
pub(in crate::quota) fn without_spare<G: GiveBack>(
    search: &mut G,
    taken: &[G::Holder],
) -> Vec<G::Holder> {
    let (mut needed, mut spare) = (taken.to_vec(), Vec::new());
    for at in (0..needed.len().saturating_sub(1)).rev() {
        search.put_back(&needed[at]);
        if search.suffices() {
            spare.push(needed.swap_remove(at));
        } else {
            search.take_again(&needed[at]);
        }
    }
    for holder in &spare {
        search.take_again(holder);
    }
    needed
}

#[cfg(test)]
mod tests;
