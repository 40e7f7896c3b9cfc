// SPDX-License-Identifier: GPL-2.0-only

//! stress-ng's stressors of filesystems: those that compare their reads with their writes, and one
//! that checks sizes.

use anyhow::{Result, ensure};

use super::Tool;

pub(super) const STRESS_NG: Tool = Tool {
    name: "stress-ng",
    limit: "128M",
    prepare: |_| Ok(()),
    lines,
    verified,
    least: [500, 125],
};

/// Sizes for the stressors.
const STRESSORS: &str = "--hdd-bytes 8m --hdd-write-size 16k --hdd-opts wr-seq,rd-rnd \
    --readahead-bytes 8m --copy-file-bytes 128m --pseek-io-size 64k --fallocate-bytes 1m";
/// Stressors that compare, with the number of operations of each; several times as many in the long
/// form.
const COMPARING: [(&str, u64); 4] = [
    ("hdd", 64),
    ("readahead", 64),
    ("copy-file", 4),
    ("pseek", 8),
];
/// The stressor that checks sizes. Other stressors check only for errors.
const SIZING: (&str, u64) = ("fallocate", 1);
/// These files have no names while they are in use, so that their pages are not put. Unlinking is
/// therefore made to do nothing and to succeed.
const KEEP: &str = "strace -f --seccomp-bpf -qq -o /dev/null -e trace=unlink,unlinkat,rmdir \
    -e inject=unlink,unlinkat,rmdir:retval=0";
/// This stressor compares too, and would fill the disk with files that are not unlinked.
const UNLINKING: (&str, u64) = ("metamix", 2);
/// Its size.
const UNLINKING_SIZE: &str = "--metamix-bytes 1m";

/// Returns the stressors whose operations are counted.
fn comparing() -> impl Iterator<Item = &'static str> {
    let all = COMPARING.iter().chain([&UNLINKING]);
    all.map(|(name, _)| *name)
}

fn lines(quick: bool) -> Vec<String> {
    let times = if quick { 1 } else { 4 };
    let line = |sizes, stressors: &[(&str, u64)]| {
        let mut line = format!("stress-ng --temp-path . --verify --metrics-brief {sizes}");
        for (name, operations) in stressors {
            line += &format!(" --{name} 1 --{name}-ops {}", operations * times);
        }
        line
    };
    let kept = [&COMPARING[..], &[SIZING]].concat();
    vec![
        format!("{KEEP} {}", line(STRESSORS, &kept)),
        line(UNLINKING_SIZE, &[UNLINKING]),
    ]
}

/// The exit status covers the stressors, but some of them only print what was wrong.
fn verified(output: &str) -> Result<u64> {
    ensure!(
        !output.contains("stress-ng: fail:"),
        "a stressor reported a failure"
    );
    ensure!(output.contains("skipped: 0"), "a stressor was skipped");
    let counts = comparing().filter_map(|name| operations(output, name));
    let counts: Vec<u64> = counts.collect();
    ensure!(!counts.is_empty(), "there are no figures");
    ensure!(!counts.contains(&0), "a stressor did nothing");
    Ok(counts.iter().sum())
}

/// Returns the operations of a stressor in the table of figures.
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
        let rows = comparing().map(|name| {
            let count = if name == "hdd" { hdd } else { "10" };
            format!("stress-ng: metrc: [7] {name}   {count}   0.24  0.01  0.00  4.42  5.58\n")
        });
        let rows: String = rows.collect();
        format!("{rows}stress-ng: info:  [7] skipped: 0\n")
    }

    #[test]
    fn operations_are_counted() {
        assert_eq!(verified(&said("951")).unwrap(), 951 + 40);
        assert!(verified(&said("0")).is_err());
        assert!(verified("stress-ng: info:  [7] skipped: 0\n").is_err());
    }

    #[test]
    fn a_printed_failure_counts() {
        let wrong = "stress-ng: fail:  [8] hdd: incorrect data found 3 times\n";
        assert!(verified(&(said("951") + wrong)).is_err());
    }
}
