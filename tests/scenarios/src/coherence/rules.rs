// SPDX-License-Identifier: GPL-2.0-only

//! Rules of the cache, each tested by a few steps made for it.

use anyhow::{Context as _, Result};
use ddlab::{Command, Guest, Target};

use super::{EXT4_PLAIN, EXT4_SCSI, XFS_16K, XFS_DAX};
use crate::{
    ddctl,
    filesystem::{EXT4, EXT4_1K, Filesystem, XFS},
};

/// A rule, and the way to test it.
struct Rule {
    /// The helper's name of the rule.
    name: &'static str,
    /// Operation after which bytes are wrong if the rule is broken.
    after: &'static str,
    /// Filesystems on which it is tested.
    sites: &'static [Filesystem],
}

const RULES: [Rule; 24] = [
    Rule {
        name: "atomic",
        after: "blocks were replaced atomically",
        sites: &[EXT4_SCSI],
    },
    Rule {
        name: "block",
        after: "single blocks of pages were written",
        sites: &[EXT4, EXT4_1K, XFS],
    },
    Rule {
        name: "cut",
        after: "folios that were written in part were cut",
        sites: &[EXT4_1K],
    },
    Rule {
        name: "dax",
        after: "a file was DAX for some time",
        sites: &[XFS_DAX],
    },
    Rule {
        name: "direct",
        after: "files were read beside direct writes",
        sites: &[EXT4, XFS],
    },
    Rule {
        name: "queued",
        after: "files were read beside direct writes that were queued",
        sites: &[EXT4, XFS],
    },
    Rule {
        name: "donor",
        after: "files gave their blocks to others",
        sites: &[EXT4, EXT4_1K],
    },
    Rule {
        name: "encrypt",
        after: "keys of encrypted files came and went",
        sites: &[EXT4_PLAIN],
    },
    Rule {
        name: "frames",
        after: "pages changed their frames",
        sites: &[EXT4, XFS],
    },
    Rule {
        name: "generation",
        after: "files had another generation for a while",
        sites: &[EXT4_PLAIN],
    },
    Rule {
        name: "layout",
        after: "blocks were described in another way",
        sites: &[EXT4, EXT4_1K],
    },
    Rule {
        name: "overtake",
        after: "pages changed on their way to the host",
        sites: &[EXT4, XFS],
    },
    Rule {
        name: "poison",
        after: "frames broke",
        sites: &[EXT4, XFS],
    },
    Rule {
        name: "quota",
        after: "the kernel wrote quotas",
        sites: &[EXT4, XFS],
    },
    Rule {
        name: "readonly",
        after: "filesystems were read-only for a while",
        sites: &[EXT4, XFS],
    },
    Rule {
        name: "realtime",
        after: "a file moved to the realtime device",
        sites: &[XFS_DAX],
    },
    Rule {
        name: "reuse",
        after: "a file got the inode of another one",
        sites: &[EXT4, XFS],
    },
    Rule {
        name: "scrub",
        after: "extents were repaired",
        sites: &[XFS],
    },
    Rule {
        name: "shutdown",
        after: "filesystems were shut down",
        sites: &[EXT4, XFS],
    },
    Rule {
        name: "swap",
        after: "a file was swapped to",
        sites: &[EXT4, XFS],
    },
    Rule {
        name: "tail",
        after: "files that end inside a folio were made longer",
        sites: &[XFS_16K],
    },
    Rule {
        name: "unmount",
        after: "a file was changed while it was not mounted",
        sites: &[EXT4],
    },
    Rule {
        name: "whole",
        after: "filesystems as a whole were changed",
        sites: &[EXT4_SCSI, XFS],
    },
    Rule {
        name: "zeroes",
        after: "a disk filled blocks with zeros",
        sites: &[EXT4_SCSI],
    },
];
/// Minimum number of pages that the steps put.
const PAGES: u64 = 12_000;

/// Tests all rules. No other task uses the filesystems.
pub(super) fn hold(guest: &Guest) -> Result<Vec<Target>> {
    let before = ddctl::counters(guest)?;
    let mut targets = Vec::new();
    for rule in &RULES {
        let mut wrong = 0;
        for site in rule.sites {
            wrong += rule
                .wrong_bytes(guest, site)
                .with_context(|| format!("{} on {}", rule.name, site.name))?;
        }
        targets.push(Target::at_most(
            format!("coherence: wrong bytes after {}", rule.after),
            0.0,
            wrong as f64,
            "",
        ));
    }
    let counted = ddctl::counters(guest)? - before;
    // Without these pages the rules would hold whatever the modules do.
    targets.push(Target::at_least(
        "coherence: pages put while single rules were tested",
        PAGES as f64,
        counted.put_stored as f64,
        "",
    ));
    Ok(targets)
}

impl Rule {
    fn wrong_bytes(&self, guest: &Guest, site: &Filesystem) -> Result<u64> {
        let line = format!(
            "ddhelper rule {} --mount {} --device /dev/dd/{} --fstype {} --cgroup {}",
            self.name,
            site.path(),
            site.name,
            site.fstype,
            site.name,
        );
        let command = Command::new(line.split(' ')).cgroup(site.name);
        let wrong = guest.run_ok(&command)?;
        wrong.trim().parse().context("the output is not a number")
    }
}
