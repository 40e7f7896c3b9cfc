// SPDX-License-Identifier: GPL-2.0-only

//! Reasons for weights in the SSD tier.

use crate::engine::read_time::Times;
use std::fmt;

/// The reason for the weight of a container that is in both tiers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(in crate::engine) enum Finding {
    /// The VM has no share of the SSD tier.
    NoTier,
    /// There is no hit-ratio curve, so that its part is by the weight of the file.
    NoCurve,
    /// It has no weight, because the guest's disk is about as fast as the tier.
    FastDisk(Times),
    /// Its weight was chosen.
    Chosen {
        times: Times,
        /// The parts of refaults that the memory tier and the SSD tier are expected to serve, 0 to
        /// 1.
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
