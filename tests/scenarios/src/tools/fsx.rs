// SPDX-License-Identifier: GPL-2.0-only

//! The file system exerciser: random operations on a file, whose content it keeps in memory and
//! compares with each read.

use anyhow::{Context as _, Result};

use super::Tool;

pub(super) const FSX: Tool = Tool {
    name: "fsx",
    limit: "14M",
    prepare: |guest| guest.write_file(CONFIG_PATH, CONFIG),
    lines,
    verified,
    least: [1_000, 200],
};

/// Number of its processes, each with a file.
const PROCESSES: u64 = 2;
const CONFIG_PATH: &str = "/run/fsx.toml";
/// All of its operations, with their relative frequencies.
const CONFIG: &str = "
flen = 2000000
[opsize]
min = 1
max = 100000
[weights]
close_open = 1
invalidate = 1
mapread = 10
mapwrite = 5
read = 15
write = 10
truncate = 1
fsync = 0.3
fdatasync = 0.3
posix_fallocate = 1
punch_hole = 2
sendfile = 8
posix_fadvise = 2
copy_file_range = 3
";
/// It prints each operation. Reads are counted, other operations are dropped, and all other output
/// is shown.
const COUNT: &str = r#"awk '
    /^\[INFO/ { if ($4 ~ /^(read|mapread|sendfile)$/) compared++; next }
    { print }
    END { print "compared", compared + 0 }'"#;

fn lines(quick: bool) -> Vec<String> {
    let steps = if quick { 200 } else { 1000 };
    let line = |seed| {
        format!("fsx -v -f {CONFIG_PATH} -N {steps} -S {seed} -P . file-{seed} 2>&1 | {COUNT}")
    };
    (1..=PROCESSES).map(line).collect()
}

fn verified(output: &str) -> Result<u64> {
    let counts = output
        .lines()
        .find_map(|line| line.strip_prefix("compared "));
    Ok(counts.context("fsx compared nothing")?.parse()?)
}
