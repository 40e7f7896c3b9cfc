// SPDX-License-Identifier: GPL-2.0-only

//! Ways to cache the disk of a guest on flash.

use anyhow::{Context as _, Result};
use ddlab::{Machine, wait};

use super::peers::{FLASH_MIB, META_MIB, READS_ENDED, statistic};
use crate::{
    ddctl::{self, PoolStats},
    mapper,
};

/// Sectors of a MiB.
const MIB: u64 = 2048;
/// A part of the flash device in the tier, and the parts that dm-cache needs.
const PART: &str = "part";
const META: &str = "meta";
/// The device that dm-cache makes.
const CACHED: &str = "cached";
/// Sectors of a block of dm-cache, the fewest that it accepts.
const BLOCK: u64 = 64;

/// A cache on flash.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Way {
    /// The tier with pages that leave the guest.
    Tier,
    /// The tier with pages that leave the guest again.
    Proven,
    /// The tier with pages that stay on the device when they are read.
    Retained,
    DmCache,
    Bcache,
}

/// What a cache was asked for so far.
#[derive(Clone, Copy, Debug)]
pub(super) struct LookedUp {
    pub(super) hits: u64,
    misses: u64,
}

impl LookedUp {
    pub(super) fn lookups(self) -> u64 {
        self.hits + self.misses
    }
}

impl Way {
    /// Returns the option that says which pages the tier admits.
    pub(super) fn admits(self) -> Option<&'static str> {
        match self {
            Self::Tier | Self::Retained => Some("all"),
            Self::Proven => Some("second"),
            Self::DmCache | Self::Bcache => None,
        }
    }

    /// Makes a cache on `flash` for the disk `origin`. Returns the path of the guest's disk.
    pub(super) fn start(self, host: &Machine, flash: &str, origin: &str) -> Result<String> {
        match self {
            Self::Tier | Self::Proven | Self::Retained => {
                part(host, PART, flash, 0, FLASH_MIB)?;
                ddctl::run(host, &format!("ssd add /dev/mapper/{PART}"))?;
                let retain = if self == Self::Retained { "on" } else { "off" };
                ddctl::run(host, &format!("ssd set --retain {retain}"))?;
                Ok(origin.to_owned())
            }
            Self::DmCache => {
                part(host, PART, flash, 0, FLASH_MIB)?;
                part(host, META, flash, FLASH_MIB, META_MIB)?;
                host.exec_ok(["modprobe", "-a", "dm-cache", "dm-cache-smq"])?;
                let sectors = mapper::sectors(host, origin)?;
                let table = format!(
                    "0 {sectors} cache /dev/mapper/{META} /dev/mapper/{PART} {origin} {BLOCK} \
                     1 writethrough smq 0"
                );
                mapper::create(host, CACHED, &table)?;
                Ok(format!("/dev/mapper/{CACHED}"))
            }
            Self::Bcache => {
                host.exec_ok(["modprobe", "bcache"])?;
                // A cache needs more than 512 buckets, which a small device only has if they are
                // small.
                let make = format!("make-bcache -b 16k -w 4k -C {flash} -B {origin}");
                host.shell(format!("wipefs --quiet --all {origin}; {make}"))?;
                for device in [flash, origin] {
                    host.write_file("/sys/fs/bcache/register", device)?;
                }
                // All requests are cached, whatever their size and however busy the flash is.
                host.write_file("/sys/block/bcache0/bcache/sequential_cutoff", "0")?;
                host.shell("for f in /sys/fs/bcache/*-*/congested_*_us; do echo 0 > $f; done")?;
                Ok("/dev/bcache0".to_owned())
            }
        }
    }

    /// Returns what the cache was asked for. The tier is not asked for pages that the guest knows
    /// not to be there; it reads them from its disk at once.
    pub(super) fn looked_up(
        self,
        host: &Machine,
        of_tier: impl Fn() -> Result<PoolStats>,
        guest: &Machine,
    ) -> Result<LookedUp> {
        let (hits, misses) = match self {
            Self::Tier | Self::Proven | Self::Retained => (
                of_tier()?.hits,
                statistic(guest, "/dev/dd/own", READS_ENDED)?,
            ),
            Self::DmCache => {
                let status = host.exec_ok(["dmsetup", "status", CACHED])?;
                let word = |at| -> Result<u64> {
                    let word = status.split_whitespace().nth(at);
                    Ok(word.context("the status of dm-cache")?.parse()?)
                };
                (word(7)?, word(8)?)
            }
            Self::Bcache => {
                let count = |what: &str| -> Result<u64> {
                    let path = format!("/sys/block/bcache0/bcache/stats_total/cache_{what}");
                    Ok(host.read_text(&path)?.trim().parse()?)
                };
                (count("hits")?, count("misses")?)
            }
        };
        Ok(LookedUp { hits, misses })
    }

    /// Removes the cache.
    pub(super) fn end(self, host: &Machine) -> Result<()> {
        match self {
            Self::Tier | Self::Proven | Self::Retained => {
                ddctl::run(host, &format!("ssd remove /dev/mapper/{PART}"))?;
                mapper::run(host, &format!("remove {PART}"))
            }
            Self::DmCache => {
                for name in [CACHED, PART, META] {
                    mapper::run(host, &format!("remove {name}"))?;
                }
                Ok(())
            }
            Self::Bcache => {
                host.shell(
                    "for f in /sys/block/bcache0/bcache/stop /sys/fs/bcache/*-*/stop; \
                     do echo 1 > $f; done",
                )?;
                wait::until("bcache has left its devices", || {
                    let left = host.shell("ls -d /sys/block/bcache0 /sys/fs/bcache/*-* || :")?;
                    Ok(left.trim().is_empty().then_some(()))
                })
            }
        }
    }
}

/// Makes a device of a part of another one.
fn part(host: &Machine, name: &str, device: &str, first_mib: u64, mib: u64) -> Result<()> {
    let (first, len) = (first_mib * MIB, mib * MIB);
    mapper::create(host, name, &format!("0 {len} linear {device} {first}"))
}
