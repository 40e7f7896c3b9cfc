// SPDX-License-Identifier: GPL-2.0-only

//! fio: what is written in one way is verified in another, by checksums and by the seed
//! in each block's header, which tells what was written last from what was before.

use std::fmt::Write as _;

use anyhow::{Context as _, Result, ensure};

use super::Tool;

pub(super) const FIO: Tool = Tool {
    name: "fio",
    limit: "24M",
    prepare: |_| Ok(()),
    lines: |quick| vec![line(if quick { 1 } else { 4 })],
    verified,
    least: [10_000, 2_500],
};

/// Size of each file in MiB.
const FILE_MIB: u64 = 4;
/// What all have in common. The page cache is left as it is; before it verifies, fio
/// has the kernel forget the file all the same.
const COMMON: &str = "--bsrange=1k-64k --verify=crc32c --verify_fatal=1 --verify_state_save=0 \
    --invalidate=0 --exitall_on_error=1";
/// Ways to read and to write; there is a file for each.
const WAYS: [&str; 7] = [
    "psync",
    "mmap",
    "io_uring --direct=1",
    "splice",
    "pvsync2",
    "psync --direct=1",
    "io_uring --iodepth=8",
];

/// All rounds, each of which writes all files anew, every file in another way, and then
/// verifies them, each in a way it was not written in. Beside the writers two more read,
/// write and verify a file all the time, one half directly, the other not.
fn line(rounds: usize) -> String {
    let mut line = String::new();
    for round in 1..=rounds {
        let common = format!("fio --name=global --size={FILE_MIB}m {COMMON} --randseed={round}");
        let write = jobs(round);
        let verify = jobs(2 * round + 1);
        let half = FILE_MIB / 2;
        let mix = format!("--filename=mix --rw=randrw --verify_backlog=16 --size={half}m");
        let _ = writeln!(
            line,
            "{common} {write} --name=mix-1 {mix} --ioengine=psync \
             --name=mix-2 {mix} --ioengine=io_uring --direct=1 --offset={half}m\n\
             {common} --verify_only=1 --verify_header_seed=1 {verify}"
        );
    }
    line
}

/// A job for each file, in the way that many places after its own.
fn jobs(shift: usize) -> String {
    let job = |file| {
        let way = WAYS[(file + shift) % WAYS.len()];
        format!("--name=file-{file} --filename=file-{file} --rw=randwrite --ioengine={way} ")
    };
    (0..WAYS.len()).map(job).collect()
}

/// Blocks that were read and verified: each that was written, in jobs that read them.
fn verified(output: &str) -> Result<u64> {
    let mut sum = 0;
    for job in output.split("issued rwts: total=").skip(1) {
        let mut counts = job.split(',').map(str::parse::<u64>);
        let mut count = || counts.next().context("no figure")?.context("not a figure");
        sum += count()?.min(count()?);
    }
    ensure!(sum > 0, "it verified nothing");
    Ok(sum)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_that_were_written_and_read_count() {
        let job = |counts| format!("err= 0\n     issued rwts: total={counts},0,0 short=0\n");
        let said = job("0,185") + &job("98,47") + &job("184,184");
        assert_eq!(verified(&said).unwrap(), 47 + 184);
        assert!(verified(&job("0,185")).is_err());
        assert!(verified("").is_err());
    }

    #[test]
    fn ways_differ() {
        let shifts = |round: usize| (round, 2 * round + 1);
        for (write, verify) in (1..=4).map(shifts) {
            assert_ne!(write % WAYS.len(), verify % WAYS.len());
        }
    }
}
