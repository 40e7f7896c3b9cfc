// SPDX-License-Identifier: GPL-2.0-only

//! fio: data that is written in one way is verified in another, by checksums and by the seed in
//! each block's header, which distinguishes the last write from earlier ones.

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
/// Common options. fio leaves the page cache as it is, except that it makes the kernel drop a file
/// before verifying it.
const COMMON: &str = "--bsrange=1k-64k --verify=crc32c --verify_fatal=1 --verify_state_save=0 \
    --invalidate=0 --exitall_on_error=1";
/// Ways to read and to write, with a file for each.
const WAYS: [&str; 7] = [
    "psync",
    "mmap",
    "io_uring --direct=1",
    "splice",
    "pvsync2",
    "psync --direct=1",
    "io_uring --iodepth=8",
];

/// Returns the command for all rounds. Each round writes all files, every file in another way, and
/// then verifies them, each in a way other than that of the write. Two more jobs read, write and
/// verify a file all the time, one directly and one through the page cache.
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

/// Returns a job for each file, in the way that is `shift` places after its own.
fn jobs(shift: usize) -> String {
    let job = |file| {
        let way = WAYS[(file + shift) % WAYS.len()];
        format!("--name=file-{file} --filename=file-{file} --rw=randwrite --ioengine={way} ")
    };
    (0..WAYS.len()).map(job).collect()
}

/// Returns the number of blocks that were read and verified, from the jobs that read.
fn verified(output: &str) -> Result<u64> {
    let mut sum = 0;
    for job in output.split("issued rwts: total=").skip(1) {
        let mut counts = job.split(',').map(str::parse::<u64>);
        let mut count = || counts.next().context("no figure")?.context("not a figure");
        sum += count()?.min(count()?);
    }
    ensure!(sum > 0, "fio verified nothing");
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
