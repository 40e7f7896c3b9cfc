// SPDX-License-Identifier: GPL-2.0

//! What is fair for containers before anything is measured: parts by weight, but no container's
//! part is below its floor.

use crate::config::Priority;

/// What is fair for a container before anything is known of it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fair {
    /// Its part, in proportion to the others'.
    pub(super) part: f64,
    /// Lower classes make room for newcomers first.
    pub(super) class: Priority,
}

/// Divides 1 by weight among containers, of each of which the weight and the floor (a part of 1)
/// are given. Containers whose part would be below their floor get the floor, and the others divide
/// what is left. Floors that exceed 1 together are made smaller in proportion.
pub(super) fn parts(containers: &[(f64, f64)]) -> Vec<f64> {
    let floors: f64 = containers.iter().map(|(_, floor)| floor).sum();
    let fits = if floors > 1.0 { 1.0 / floors } else { 1.0 };
    let floor = |at: usize| containers[at].1 * fits;
    let mut raised = vec![false; containers.len()];
    loop {
        let of = |at: usize, is_raised: bool| raised[at] == is_raised;
        let all = 0..containers.len();
        let left = 1.0
            - all
                .clone()
                .filter(|at| of(*at, true))
                .map(floor)
                .sum::<f64>();
        let weights = all.clone().filter(|at| of(*at, false));
        let weights: f64 = weights.map(|at| containers[at].0).sum();
        let part = |at: usize| match raised[at] {
            true => floor(at),
            false if weights > 0.0 => left.max(0.0) * containers[at].0 / weights,
            false => 0.0,
        };
        let parts: Vec<f64> = all.clone().map(part).collect();
        let low: Vec<usize> = all
            .filter(|at| !raised[*at] && parts[*at] < floor(*at))
            .collect();
        if low.is_empty() {
            return parts;
        }
        for at in low {
            raised[at] = true;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

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
        // The second would have 30 without the first one's floor.
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
