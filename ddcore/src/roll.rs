// SPDX-License-Identifier: GPL-2.0

//! Numbers for those who come and go: administrators know them by these.

/// Returns the number after `last` that nobody has, and how many of the others have smaller ones.
/// `taken` gives the others' numbers from the smallest to the largest. Numbers begin at 1, and begin
/// there again behind the largest there is, so that one that went is not given out soon. `None` if
/// all are taken.
pub fn next<I>(last: u32, taken: I) -> Option<(u32, usize)>
where
    I: DoubleEndedIterator<Item = u32> + ExactSizeIterator + Clone,
{
    let largest = taken.clone().next_back();
    if last < u32::MAX && largest.is_none_or(|largest| largest <= last) {
        // Nearly always, and without a look at all of them.
        return Some((last + 1, taken.len()));
    }
    let behind = last
        .checked_add(1)
        .and_then(|from| free(from, taken.clone()));
    behind.or_else(|| free(1, taken))
}

/// The smallest number of at least `from` that nobody has.
fn free(from: u32, taken: impl Iterator<Item = u32>) -> Option<(u32, usize)> {
    let mut number = Some(from);
    let mut place = 0;
    for other in taken {
        match number {
            Some(wanted) if other > wanted => break,
            Some(wanted) if other == wanted => number = wanted.checked_add(1),
            Some(_) => {}
            None => return None,
        }
        place += 1;
    }
    Some((number?, place))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    fn of(last: u32, taken: &[u32]) -> Option<(u32, usize)> {
        next(last, taken.iter().copied())
    }

    #[test]
    fn numbers_rise() {
        assert_eq!(of(0, &[]), Some((1, 0)));
        assert_eq!(of(1, &[1]), Some((2, 1)));
        assert_eq!(of(9, &[1, 4]), Some((10, 2)));
    }

    #[test]
    fn behind_the_last_number_they_begin_again() {
        assert_eq!(of(u32::MAX, &[]), Some((1, 0)));
        assert_eq!(of(u32::MAX, &[1, 2, 5]), Some((3, 2)));
        assert_eq!(of(u32::MAX - 1, &[1, u32::MAX]), Some((2, 1)));
        assert_eq!(of(3, &[1, 4, 5, 7]), Some((6, 3)));
    }

    proptest! {
        #[test]
        fn nobody_else_has_it(taken: BTreeSet<u32>, last: u32) {
            let taken: BTreeSet<u32> = taken.into_iter().filter(|number| *number > 0).collect();
            let sorted: Vec<u32> = taken.iter().copied().collect();
            let (number, place) = next(last, sorted.iter().copied()).unwrap();
            prop_assert!(number > 0 && !taken.contains(&number));
            prop_assert_eq!(taken.range(..number).count(), place);
        }
    }
}
