// SPDX-License-Identifier: GPL-2.0-only

//! Processor time of work that does not benefit from the cache, with and without the guest module.
//!
//! The machines' clocks count instructions, so that a second of processor time is a thousand
//! million instructions, whatever else the test machine does. The time is that of the task that
//! does the work. It includes the reclaim of its pages and the time that the host takes for its
//! hypercalls, but neither writeback nor the module's worker.

use anyhow::{Context as _, Result, ensure};
use ddlab::{Command, FileSpec, Guest, Target, Throttle, median};

use crate::{
    ddctl,
    stage::{self, GUEST, Stage},
};

/// Number of times that each work is done with the module, and as often without it. It is even.
const TURNS: u64 = 4;
/// Size of the part of a file that is read in a turn. It is not read again.
const PART: u64 = 16 << 20;
/// Number of pages that are read one by one in a turn. They are not read again.
const SINGLE: u64 = 2048;
/// Pages that are read in the same way before, which fill the memory of the reader, so that a work
/// reclaims its own pages, and not those of another one.
const BEFORE: u64 = 4096;
/// The works whose pages are reclaimed. In the other ones, tasks would reclaim what these leave.
const RECLAIMED: [&str; 2] = [
    "a page of a file that is scanned once",
    "a page that is read by itself, and once",
];
/// Size of the file that stays in the page cache.
const KEPT: u64 = 4 << 20;
const READER: &str = "reader";
/// Limit of the reader, whose pages are reclaimed while it reads.
const LIMIT: &str = "16M";
/// Functions for the programs: `busy` returns the nanoseconds for which the program has run.
const PRELUDE: &str = r#"
sub busy { open my $f, "<", "/proc/self/schedstat"; (split " ", <$f>)[0] }
sub slurp { my ($f, $at, $len, $step) = @_; sysseek $f, $at, 0;
  while ($len > 0) { $len -= sysread $f, my $b, $step } }
sub file { open my $f, $_[0], "/mnt/$_[1]" or die "$_[1]: $!"; $f }
"#;

/// Reads a file into the page cache, and begins to count after that.
const WARM: &str = "slurp($f, 0, 4 << 20, 4096); $before = busy();";

/// A kind of work, and the most instructions that it may lose for each unit with the module.
struct Work {
    name: &'static str,
    max_lost: f64,
    /// Number of its units in a turn.
    units: u64,
    /// Pages that the filesystem reads beyond those that are requested.
    readahead_kib: u32,
    /// Whether it is done in the reader's cgroup, whose pages are reclaimed.
    limited: bool,
    /// Program, in which `TURN` is replaced by the number of the turn.
    program: String,
}

/// Returns all kinds of work.
fn works() -> [Work; 5] {
    let work = |name, (max_lost, units), readahead_kib, program: String| Work {
        name,
        max_lost,
        units,
        readahead_kib,
        limited: RECLAIMED.contains(&name),
        program,
    };
    [
        work(
            RECLAIMED[0],
            (6500.0, PART >> 12),
            128,
            format!(
                "my $f = file(q(<), q(scanned)); my $at = TURN * ({PART} + {BEFORE} * 4096); \
                 slurp($f, $at, {BEFORE} * 4096, 131072); $before = busy(); \
                 slurp($f, $at + {BEFORE} * 4096, {PART}, 131072)"
            ),
        ),
        work(
            RECLAIMED[1],
            (16000.0, SINGLE),
            0,
            format!(
                "my $f = file(q(<), q(single)); my $at = TURN * ({SINGLE} + {BEFORE}); \
                 slurp($f, ($at + $_ * 1367 % {BEFORE}) << 12, 4096, 4096) for 0..{BEFORE} - 1; \
                 $at += {BEFORE}; $before = busy(); \
                 slurp($f, ($at + $_ * 1367 % {SINGLE}) << 12, 4096, 4096) for 0..{SINGLE} - 1"
            ),
        ),
        work(
            "a page that is read from the page cache",
            (300.0, (8 * KEPT) >> 12),
            128,
            format!("my $f = file(q(<), q(kept)); {WARM} slurp($f, 0, 4 << 20, 4096) for 1..8"),
        ),
        work(
            "a page that is overwritten",
            (700.0, (8 * KEPT) >> 12),
            128,
            "my $f = file(q(+<), q(written)); \
             for (1..8) { sysseek $f, 0, 0; syswrite $f, chr(64 + $_) x 131072 for 1..32 }"
                .into(),
        ),
        work(
            "a small file that is made and deleted",
            (10000.0, 500),
            128,
            "for my $n (0..499) { my $f = file(q(>), \"t$n\"); syswrite $f, q(x) x 6000 } \
             unlink map { \"/mnt/t$_\" } 0..499"
                .into(),
        ),
    ]
}

pub(super) fn measure(stage: &Stage<'_>) -> Result<Vec<Target>> {
    stage.load_host(512)?;
    let files = vec![
        FileSpec::new("scanned", 2 * TURNS * (PART + (BEFORE << 12)), 1),
        FileSpec::new("single", (2 * TURNS * (SINGLE + BEFORE)) << 12, 2),
        FileSpec::new("kept", KEPT, 3),
        FileSpec::new("written", 4 << 20, 4),
    ];
    let disk = stage.disk("data", files)?;
    let guest = stage.guest_with("one", &disk, Throttle::NONE)?;
    guest.cgroup(READER, &[("memory.max", LIMIT)])?;
    let readahead = format!(
        "{}/queue/read_ahead_kb",
        stage::block_directory(&guest, &disk)?
    );
    let works = works();
    let mut times: [[Vec<f64>; 2]; 5] = Default::default();
    let all = 2 * TURNS;
    for turn in 0..all {
        // Drifts, such as those of a filesystem that fills, concern both halves alike.
        let with = (all / 4..all * 3 / 4).contains(&turn);
        match (guest.has_module(GUEST)?, with) {
            (false, true) => stage::attach(&guest)?,
            (true, false) => guest.unload_module(GUEST)?,
            _ => {}
        }
        for (work, times) in works.iter().zip(&mut times) {
            guest.write_file(&readahead, work.readahead_kib.to_string())?;
            let before = hits(&guest, with)?;
            times[usize::from(with)].push(busy(&guest, work, turn)? as f64);
            let came = hits(&guest, with)? - before;
            // The readahead of the turn before went beyond its part.
            ensure!(came <= 64, "{}: {came} pages came from the host", work.name);
        }
    }
    let target = |(work, times): (&Work, [Vec<f64>; 2])| {
        // Single turns may take longer, because the clock of the machine also counts the
        // instructions of its other processors, such as those of writeback.
        let [without, with] =
            times.map(|times| median(times).unwrap_or_default() / work.units as f64);
        let name = format!("overhead: instructions lost by {}", work.name);
        let detail = format!("{without:.0} without the module, {with:.0} with it");
        Target::at_most(name, work.max_lost, with - without, "").detail(detail)
    };
    Ok(works.iter().zip(times).map(target).collect())
}

/// Returns the number of pages that came from the host.
fn hits(guest: &Guest, with: bool) -> Result<u64> {
    Ok(match with {
        true => ddctl::counters(guest)?.get_hits,
        false => 0,
    })
}

/// Does a work. Returns the nanoseconds for which its task ran.
fn busy(guest: &Guest, work: &Work, turn: u64) -> Result<u64> {
    let program = work.program.replace("TURN", &turn.to_string());
    let line =
        format!("perl -e '{PRELUDE} my $before = busy(); {program}; print busy() - $before'");
    let command = Command::shell(line);
    let output = guest.run_ok(&match work.limited {
        true => command.cgroup(READER),
        false => command,
    })?;
    let text = output.trim();
    text.parse()
        .with_context(|| format!("not a number: {text}"))
}
