// SPDX-License-Identifier: GPL-2.0-only

//! Allocation of the numbers by which administrators identify VMs.

/// Returns the next free number after `last`, or `None` if all are taken. `taken` returns the
/// numbers in use in rising order. Numbers begin at 1 and wrap around after the largest, so that
/// the number of a destroyed VM is not reused soon.
pub fn next<I>(last: u32, taken: I) -> Option<u32>
where
    I: DoubleEndedIterator<Item = u32> + Clone,
{
    let largest = taken.clone().next_back();
    if last < u32::MAX && largest.is_none_or(|largest| largest <= last) {
        // The usual case, which does not need the numbers in use.
        return Some(last + 1);
    }
    let behind = last
        .checked_add(1)
        .and_then(|from| free(from, taken.clone()));
    behind.or_else(|| free(1, taken))
}

/// Returns the smallest free number of at least `from`.
fn free(from: u32, taken: impl Iterator<Item = u32>) -> Option<u32> {
    let mut number = from;
    for other in taken {
        if other > number {
            break;
        }
        if other == number {
            number = number.checked_add(1)?;
        }
    }
    Some(number)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    fn of(last: u32, taken: &[u32]) -> Option<u32> {
        next(last, taken.iter().copied())
    }

    #[test]
    fn numbers_rise() {
        assert_eq!(of(0, &[]), Some(1));
        assert_eq!(of(1, &[1]), Some(2));
        assert_eq!(of(9, &[1, 4]), Some(10));
    }

    #[test]
    fn behind_the_last_number_they_begin_again() {
        assert_eq!(of(u32::MAX, &[]), Some(1));
        assert_eq!(of(u32::MAX, &[1, 2, 5]), Some(3));
        assert_eq!(of(u32::MAX - 1, &[1, u32::MAX]), Some(2));
        assert_eq!(of(3, &[1, 4, 5, 7]), Some(6));
    }

    proptest! {
        #[test]
        fn numbers_are_free(taken: BTreeSet<u32>, last: u32) {
            let taken: BTreeSet<u32> = taken.into_iter().filter(|number| *number > 0).collect();
            let sorted: Vec<u32> = taken.iter().copied().collect();
            let number = next(last, sorted.iter().copied()).unwrap();
            prop_assert!(number > 0 && !taken.contains(&number));
        }
    }
}
