// SPDX-License-Identifier: GPL-2.0

//! stress-ng's stressors of filesystems: those that compare what they read with what
//! they wrote, and one that looks at sizes.

use anyhow::{Result, ensure};

use super::Tool;

pub(super) const STRESS_NG: Tool = Tool {
    name: "stress-ng",
    limit: "96M",
    prepare: |_| Ok(()),
    lines,
    verified,
};

/// Compare: `hdd`, `readahead`, `copy-file`, `fpunch`, `pseek`. Looks at sizes: `fallocate`.
/// Others look at nothing but errors.
const STRESSORS: &str = "--hdd 1 --hdd-bytes 8m --hdd-write-size 16k --hdd-opts wr-seq,rd-rnd \
    --readahead 1 --readahead-bytes 8m --copy-file 1 --copy-file-bytes 128m \
    --fpunch 1 --fpunch-bytes 8m --pseek 1 --pseek-io-size 64k \
    --fallocate 1 --fallocate-bytes 8m";
/// Those files have no names while it works on them, and pages of such a file go with it:
/// they are not put. So nothing is unlinked, although it is told so.
const KEEP: &str = "strace -f --seccomp-bpf -qq -o /dev/null -e trace=unlink,unlinkat,rmdir \
    -e inject=unlink,unlinkat,rmdir:retval=0";
/// Compares too, and would fill the disk with what is not unlinked.
const UNLINKING: &str = "--metamix 1 --metamix-bytes 1m";
/// Those whose operations are counted.
const COMPARING: [&str; 6] = [
    "hdd",
    "readahead",
    "copy-file",
    "fpunch",
    "pseek",
    "metamix",
];

fn lines(quick: bool) -> Vec<String> {
    let seconds = if quick { 20 } else { 90 };
    let line = |stressors| {
        format!("stress-ng --temp-path . --verify --metrics-brief --timeout {seconds} {stressors}")
    };
    vec![format!("{KEEP} {}", line(STRESSORS)), line(UNLINKING)]
}

/// Its exit status is that of the stressors, some of which only say what was wrong.
fn verified(output: &str) -> Result<u64> {
    ensure!(!output.contains("stress-ng: fail:"), "something was wrong");
    ensure!(output.contains("skipped: 0"), "something was skipped");
    let counts = COMPARING.iter().filter_map(|name| operations(output, name));
    let counts: Vec<u64> = counts.collect();
    ensure!(!counts.is_empty(), "there are no figures");
    ensure!(!counts.contains(&0), "something did nothing");
    Ok(counts.iter().sum())
}

/// What the table of figures says of a stressor.
fn operations(output: &str, stressor: &str) -> Option<u64> {
    output.lines().find_map(|line| {
        let (_, row) = line.split_once("stress-ng: metrc: ")?;
        let mut words = row.split_whitespace().skip(1);
        (words.next() == Some(stressor)).then_some(words.next()?.parse().ok()?)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(hdd: &str) -> String {
        let rows = COMPARING.map(|name| {
            let count = if name == "hdd" { hdd } else { "10" };
            format!("stress-ng: metrc: [7] {name}   {count}   0.24  0.01  0.00  4.42  5.58\n")
        });
        format!("{}stress-ng: info:  [7] skipped: 0\n", rows.concat())
    }

    #[test]
    fn operations_are_counted() {
        assert_eq!(verified(&said("951")).unwrap(), 951 + 50);
        assert!(verified(&said("0")).is_err());
        assert!(verified("stress-ng: info:  [7] skipped: 0\n").is_err());
    }

    #[test]
    fn what_is_only_said_counts() {
        let wrong = "stress-ng: fail:  [8] hdd: incorrect data found 3 times\n";
        assert!(verified(&(said("951") + wrong)).is_err());
    }
}
