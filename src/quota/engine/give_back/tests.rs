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
