// SPDX-License-Identifier: GPL-2.0-only

//! Fair shares of containers before anything is measured: parts by weight, none of which is below
//! the container's floor.

use super::quantity::Share;
use crate::config::Priority;

/// The fair share of a container about which nothing is known.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fair {
    /// Its part, in proportion to the others'.
    pub(super) part: Share,
    /// Lower classes make room for newcomers first.
    pub(super) class: Priority,
}

/// The weight of a container, and the least part that it shall get.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asked {
    pub(super) weight: f64,
    pub(super) floor: Share,
}

/// Divides 1 by weight among containers. Containers whose part would be below their floor get the
/// floor, and the others divide what is left. Floors that exceed 1 together are made smaller in
/// proportion.
pub(super) fn parts(containers: &[Asked]) -> Vec<Share> {
    let floors: Share = containers.iter().map(|one| one.floor).sum();
    let fits = match floors > Share::ALL {
        true => Share::ALL / floors,
        false => 1.0,
    };
    let floors: Vec<Share> = containers.iter().map(|one| one.floor * fits).collect();
    let mut raised = vec![false; containers.len()];
    // Each pass raises a container, or is the last one.
    loop {
        let parts = beside_raised(containers, &floors, &raised);
        let low = |at: &usize| !raised[*at] && parts[*at] < floors[*at];
        let low: Vec<usize> = (0..parts.len()).filter(low).collect();
        if low.is_empty() {
            return parts;
        }
        for at in low {
            raised[at] = true;
        }
    }
}

/// Returns the parts if some containers are raised to their floors, and the others divide the rest.
fn beside_raised(containers: &[Asked], floors: &[Share], raised: &[bool]) -> Vec<Share> {
    let all = 0..containers.len();
    let held = all.clone().filter(|at| raised[*at]).map(|at| floors[at]);
    let left = Share::ALL - held.sum();
    let others = all.clone().filter(|at| !raised[*at]);
    let weights: f64 = others.map(|at| containers[at].weight).sum();
    let part = |at: usize| match raised[at] {
        true => floors[at],
        false if weights > 0.0 => left.max(Share::ZERO) * containers[at].weight / weights,
        false => Share::ZERO,
    };
    all.map(part).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn parts(containers: &[(f64, f64)]) -> Vec<f64> {
        let asked = |&(weight, floor): &(f64, f64)| Asked {
            weight,
            floor: Share(floor),
        };
        let asked: Vec<Asked> = containers.iter().map(asked).collect();
        let parts = super::parts(&asked).into_iter();
        parts.map(|part| part.0).collect()
    }

    #[test]
    fn floors_come_before_weights() {
        let divided = |containers: &[(f64, f64)]| {
            let percent = |part: f64| (part * 100.0).round();
            parts(containers)
                .into_iter()
                .map(percent)
                .collect::<Vec<_>>()
        };
        assert_eq!(divided(&[(1.0, 0.0), (3.0, 0.0)]), [25.0, 75.0]);
        assert_eq!(divided(&[(1.0, 0.4), (3.0, 0.0)]), [40.0, 60.0]);
        // Without the floor of the first container, the part of the second would be 0.3.
        let two = [(1.0, 0.5), (3.0, 0.28), (6.0, 0.0)];
        assert_eq!(divided(&two), [50.0, 28.0, 22.0]);
        assert_eq!(divided(&[(1.0, 1.5), (1.0, 0.5)]), [75.0, 25.0]);
        assert_eq!(divided(&[(0.0, 0.0)]), [0.0]);
        assert!(parts(&[]).is_empty());
    }

    proptest! {
        #[test]
        fn all_is_divided_and_floors_hold(
            containers in prop::collection::vec((0.01..100.0f64, 0.0..0.3f64), 1..12),
        ) {
            let parts = parts(&containers);
            prop_assert!((parts.iter().sum::<f64>() - 1.0).abs() < 1e-9);
            let floors: f64 = containers.iter().map(|(_, floor)| floor).sum();
            for (part, (_, floor)) in parts.iter().zip(&containers) {
                prop_assert!(part + 1e-9 >= floor / floors.max(1.0));
            }
        }
    }
}
