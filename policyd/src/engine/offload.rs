// SPDX-License-Identifier: GPL-2.0-only

//! Offloads cold pages gently, as Senpai does.
//!
//! The host's store keeps the pages that the guest drops, one hypercall away. The freed memory goes
//! back to the host by free page reporting. A step is a small part of a container's memory, and
//! shrinks the more the container waits for memory or I/O, or reads back what it lost.

use super::rates::Rates;
use crate::config::Offload;

/// The smallest step in bytes. Less is not worth a system call.
const MIN_STEP: u64 = 256 << 10;
/// The largest step in bytes, so that it stays gentle.
const MAX_STEP: u64 = 50 << 20;
/// Bytes that each container keeps.
pub(super) const MIN_LEFT: u64 = 16 << 20;

/// Returns the bytes to reclaim from a container that uses `current` bytes, `cached` of which are
/// page cache, and must keep `least`. Returns 0 if it must be left alone.
pub(super) fn step(offload: &Offload, rates: &Rates, current: u64, cached: u64, least: u64) -> u64 {
    let Some(memory) = rates.memory_pressure else {
        // Without pressure figures, harm would go unnoticed.
        return 0;
    };
    let strain = [
        memory / offload.pressure,
        rates.io_pressure.unwrap_or(0.0) / offload.io_pressure,
        rates.refaults_file / offload.refaults,
    ];
    let ease = 1.0 - strain.into_iter().fold(0.0, f64::max);
    if ease <= 0.0 {
        return 0;
    }
    let step = (current as f64 * offload.step * ease) as u64;
    let room = current.saturating_sub(least.max(MIN_LEFT)).min(cached);
    let step = step.min(MAX_STEP).min(room);
    if step < MIN_STEP { 0 } else { step }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: u64 = 1 << 30;

    fn rates(memory: f64, refaults: f64) -> Rates {
        Rates {
            memory_pressure: Some(memory),
            refaults_file: refaults,
            ..Rates::default()
        }
    }

    #[test]
    fn steps_shrink_with_strain() {
        let offload = Offload::default();
        let of = |rates: Rates| step(&offload, &rates, GIB, GIB / 2, 0);
        assert_eq!(of(rates(0.0, 0.0)), GIB / 200);
        assert!(of(rates(0.05, 0.0)) < GIB / 300);
        assert_eq!(of(rates(0.2, 0.0)), 0);
        assert_eq!(of(rates(0.0, 200.0)), 0);
        assert_eq!(of(Rates::default()), 0);
        let waits_for_disk = |part: f64| Rates {
            io_pressure: Some(offload.io_pressure * part),
            ..rates(0.0, 0.0)
        };
        assert_eq!(of(waits_for_disk(0.5)), GIB / 400);
        assert_eq!([1.0, 2.0].map(|part| of(waits_for_disk(part))), [0, 0]);
    }

    #[test]
    fn something_is_left() {
        let offload = Offload::default();
        let calm = rates(0.0, 0.0);
        assert_eq!(step(&offload, &calm, GIB, GIB, GIB), 0);
        assert_eq!(step(&offload, &calm, MIN_LEFT, MIN_LEFT, 0), 0);
        assert_eq!(step(&offload, &calm, GIB, 0, 0), 0);
        assert_eq!(step(&offload, &calm, 100 * GIB, 50 * GIB, 0), MAX_STEP);
    }
}
