// SPDX-License-Identifier: GPL-2.0-only

//! Tests the guest's half of a policy with any amount of memory and any reported pressure, together
//! with the curve.

#![no_main]

use arbitrary::Arbitrary;
use ddcore::curve::{Curve, Slot};
use ddcore::policy::shadow::Cell;
use ddcore::policy::{Admission, Class, PageName, Policy, Pressure, Verdict};
use libfuzzer_sys::fuzz_target;

#[derive(Arbitrary, Debug)]
enum Step {
    Missed(u16, bool),
    Offered {
        page: u16,
        refaulted: bool,
        capacity: u64,
        full: bool,
        floor: u8,
    },
    Gone(u16),
    Policy(u8),
    Fade,
}

#[derive(Arbitrary, Debug)]
struct Input {
    words: u8,
    cells: u8,
    slots: u8,
    steps: Vec<Step>,
}

fn name(page: u16) -> PageName {
    PageName {
        page: ddabi::key::mix(page.into()),
        group: ddabi::key::mix(!u64::from(page >> 2)),
        block: ddabi::key::mix((page >> 4).into()) & !15 | u64::from(page & 15),
    }
}

fuzz_target!(|input: Input| {
    let mut pool = Admission::new(
        Policy::default(),
        vec![0u64; input.words.into()],
        vec![Cell::default(); input.cells.into()],
    );
    let mut curve = Curve::new(vec![Slot::default(); input.slots.into()]);
    for step in input.steps {
        match step {
            Step::Missed(page, hit) => {
                pool.missed(&name(page), hit);
                curve.read(name(page).page);
            }
            Step::Offered {
                page,
                refaulted,
                capacity,
                full,
                floor,
            } => {
                let pressure = Pressure {
                    capacity,
                    full,
                    floor: Class::new(floor),
                };
                let verdict = pool.offered(&name(page), refaulted, &pressure);
                assert!(full || matches!(verdict, Verdict::Put(_)));
                curve.left(name(page).page);
            }
            Step::Gone(page) => curve.gone(name(page).page),
            Step::Policy(number) => {
                let policies = Policy::ALL.len();
                pool.set_policy(Policy::ALL[usize::from(number) % policies]);
            }
            Step::Fade => curve.fade(),
        }
        assert!(curve.hits(u64::MAX) <= curve.reads());
    }
    assert!(curve.points().is_sorted_by_key(|point| point.hits));
});
