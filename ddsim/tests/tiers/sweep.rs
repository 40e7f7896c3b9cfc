// SPDX-License-Identifier: GPL-2.0-only

//! The thesis' sweep of ratios of memory to SSD at equal cost (section 5.6.1, figure 5.6).

use ddabi::policy::Policy;
use ddsim::host::{Mode, TierKind};
use ddsim::machine::{Container, Machine};
use ddsim::parameters::{NVME, UNITS_PER_MIB, US};
use ddsim::random::{Random, Zipf};
use ddsim::workload::{Step, Workload};

/// Size in MiB of the files that the container reads.
const SET_MIB: u64 = 256;
/// Size in MiB of the memory that the whole budget buys.
const MEMORY_MIB: u64 = 128;
/// Number of MiB of SSD that cost as much as one MiB of memory.
const SSD_PRICE: u64 = 6;
/// Seconds until the caches are filled, and seconds over which a ratio is then measured.
const FILL_S: u64 = 400;
const JUDGE_S: u64 = 60;
const EIGHTHS: u64 = 8;

/// A workload that reads files by popularity, one at a time.
struct Reader {
    files: Zipf,
}

impl Workload for Reader {
    fn next(&mut self, _thread: usize, random: &mut Random, steps: &mut Vec<Step>) {
        let file = self.files.next(random);
        steps.push(Step::Read {
            file,
            first: 0,
            units: 1,
        });
        steps.push(Step::Work(20 * US));
    }
}

/// Returns the operations per second with `eighths` eighths of the budget spent on memory.
fn rate(eighths: u64) -> f64 {
    let memory = MEMORY_MIB * eighths / EIGHTHS;
    let ssd = MEMORY_MIB * SSD_PRICE * (EIGHTHS - eighths) / EIGHTHS;
    let mut machine = Machine::new(memory, Mode::Weighted);
    machine.set_ssd(ssd, NVME);
    let vm = machine.host().add_vm(100);
    let container = machine.add(Container {
        vm,
        limit_mib: 4,
        weight: if memory > 0 { 100 } else { 0 },
        policy: Policy::Fifo,
        processors: 4,
        threads: 4,
        start_s: 0,
        workload: Box::new(Reader {
            files: Zipf::new((SET_MIB * UNITS_PER_MIB) as u32, 0.8, 7),
        }),
    });
    let pool = machine.pool(container);
    if ssd > 0 {
        machine.host().set_ssd_weight(pool, 100);
    }
    machine.run(FILL_S);
    let before = machine.work(container).operations;
    machine.run(FILL_S + JUDGE_S);
    let [up, down] =
        [TierKind::Memory, TierKind::Ssd].map(|tier| machine.host().counts_in(pool, tier));
    assert!((up.used > 0) == (memory > 0) && (down.used > 0) == (ssd > 0));
    (machine.work(container).operations - before) as f64 / JUDGE_S as f64
}

/// Memory alone holds too few pages, and reads from SSDs alone take too long. A mix is faster than
/// either at the same cost.
#[test]
fn a_mix_reaches_what_neither_tier_reaches_at_its_cost() {
    let rates: Vec<f64> = (0..=EIGHTHS).map(rate).collect();
    println!("{rates:.0?}");
    let ends = rates[0].max(rates[EIGHTHS as usize]);
    let mix = &rates[1..EIGHTHS as usize];
    let best = mix.iter().copied().fold(0.0, f64::max);
    assert!(best > ends * 1.1, "{rates:.0?}");
    // There is one best ratio: apart from noise, rates rise up to it and fall beyond it.
    let at = rates.iter().position(|rate| *rate == best).unwrap();
    let rises = rates[..=at].windows(2).all(|pair| pair[1] > pair[0] * 0.98);
    let falls = rates[at..].windows(2).all(|pair| pair[1] < pair[0] * 1.02);
    assert!(rises && falls, "{rates:.0?}");
}
