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
mod tests {
    use super::*;
    use crate::base::numbers::numbers;

    /// Holders of a line give back so much each until a sum is free.
    struct Line {
        rest: Vec<(usize, u64)>,
        free: u64,
        asks: u64,
    }

    impl GiveBack for Line {
        type Holder = (usize, u64);

        fn take_next(&mut self) -> Option<(usize, u64)> {
            let next = self.rest.pop()?;
            self.free += next.1;
            Some(next)
        }

        fn suffices(&mut self) -> bool {
            self.free >= self.asks
        }

        fn put_back(&mut self, holder: &(usize, u64)) {
            self.free -= holder.1;
        }

        fn take_again(&mut self, holder: &(usize, u64)) {
            self.free += holder.1;
        }

        fn needed(&mut self, taken: &[(usize, u64)]) -> Option<Vec<(usize, u64)>> {
            Some(without_spare(self, taken))
        }
    }

    /// The holders named suffice, none of them is spare, none behind the first that suffice is named,
    /// and the sums are as before. In vain only if all together do not suffice.
    #[test]
    fn named_holders_suffice_and_none_is_spare() {
        let mut next = numbers(7);
        for _ in 0..2_000 {
            let count = next() as usize % 6;
            let all: Vec<(usize, u64)> = (0..count).map(|at| (at, next() % 5)).collect();
            let asks = 1 + next() % 12;
            let mut line = Line { rest: all.clone(), free: 0, asks };
            let found = give_back(&mut line);
            assert_eq!(line.free, 0, "{all:?} {asks}");
            let sum = |own: &[(usize, u64)]| own.iter().map(|own| own.1).sum::<u64>();
            match found {
                Ok(found) => {
                    assert!(sum(&found) >= asks);
                    assert!(found.iter().all(|own| sum(&found) - own.1 < asks), "{found:?}");
                    let first = all.iter().rev().scan(0, |sum, own| {
                        *sum += own.1;
                        Some((own.0, *sum))
                    });
                    let least = first.into_iter().find(|(_, sum)| *sum >= asks).map(|own| own.0);
                    assert!(found.iter().all(|own| Some(own.0) >= least));
                }
                Err(taken) => assert!(taken.len() == all.len() && sum(&all) < asks),
            }
        }
    }
}
