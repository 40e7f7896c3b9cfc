// SPDX-License-Identifier: GPL-2.0-only

//! Why a container has its weight in the SSD tier.

use crate::engine::read_time::Times;
use std::fmt;

/// Why a container that is in both tiers has its weight in the SSD tier.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(in crate::engine) enum Finding {
    /// The host gives the VM nothing in the SSD tier.
    NoTier,
    /// There is no hit-ratio curve: its part is by the weight of the file.
    NoCurve,
    /// A page takes hardly longer from the guest's disk: it has no weight.
    FastDisk(Times),
    /// Its weight was chosen.
    Chosen {
        times: Times,
        /// Parts of the pages that come back which the memory tier and the SSD tier are expected to
        /// give, 0 to 1.
        memory: f64,
        ssd: f64,
    },
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoTier => f.write_str("no SSD tier for this VM: weights there stay"),
            Self::NoCurve => f.write_str("no hit-ratio curve yet: SSD weight is by the file"),
            Self::FastDisk(times) => write!(
                f,
                "no SSD weight: a page takes {} from the guest's disk and {} from the SSD tier",
                times.disk, times.ssd
            ),
            Self::Chosen { times, memory, ssd } => {
                let (memory, ssd) = (memory * 100.0, ssd * 100.0);
                write!(f, "of the pages that come back, memory gives {memory:.0}%")?;
                if let Some(time) = times.memory {
                    write!(f, " (in {time} each)")?;
                }
                write!(
                    f,
                    ", the SSD tier {ssd:.0}% (in {}; the guest's disk takes {})",
                    times.ssd, times.disk
                )
            }
        }
    }
}
