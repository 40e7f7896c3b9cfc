// SPDX-License-Identifier: GPL-2.0-only

//! `mutants`: runs cargo-mutants, and lists the faults that no test notices.

mod record;

use std::{
    fs::{self, File},
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result, bail, ensure};

use crate::{commit, workspace};
use record::{Outcomes, Records, Run, Unnoticed};

/// The file of results, relative to the top of the tree.
const RESULTS: &str = "docs/results/mutants.json";

/// Exit codes of cargo-mutants: all faults were caught, some were missed, some took too long.
const ENDED: [i32; 3] = [0, 2, 3];

/// Make small faults, one at a time, and list those that no test notices
///
/// Needs cargo-mutants (`cargo install cargo-mutants --locked`). Each fault is compiled and tested
/// separately, which takes many hours for all: name a package, files or a shard. The results are
/// merged into docs/results/mutants.json; the exit code is 0 if each fault that was not noticed is
/// argued there.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Package whose code is changed (may be given more than once); all four when not given
    #[arg(long = "package", short)]
    packages: Vec<String>,
    /// Only files that match this pattern (may be given more than once)
    #[arg(long = "file", short)]
    files: Vec<String>,
    /// Only part K of N, counted from 0
    #[arg(long, value_name = "K/N")]
    shard: Option<String>,
    /// Only faults that were not noticed before and are not argued
    #[arg(long, conflicts_with = "shard")]
    again: bool,
    /// Merge the results of an earlier run of cargo-mutants in this directory
    #[arg(long, value_name = "DIR", conflicts_with_all = ["packages", "files"])]
    merge: Option<PathBuf>,
}

/// A package whose tests are examined.
struct Examined {
    name: &'static str,
    /// The files to change if none are given.
    files: &'static str,
    /// Selection of its tests: those of the package itself.
    tests: &'static [&'static str],
}

const EXAMINED: [Examined; 4] = [
    Examined {
        name: "ddcore",
        files: "ddcore/src/**",
        tests: &[],
    },
    Examined {
        name: "ddnl",
        files: "ddnl/src/**",
        tests: &["--all-features"],
    },
    Examined {
        name: "ddctl",
        files: "ddctl/src/**",
        tests: &[],
    },
    Examined {
        name: "policyd",
        // The other files of the daemon act on the machine, so that their faults could damage it.
        files: "policyd/src/engine/**",
        tests: &["--lib", "--test=engine"],
    },
];

pub(crate) fn run(args: &Args) -> Result<bool> {
    let path = workspace::top().join(RESULTS);
    let known = Records::read(&path)?;
    let mut records = Records::read(&path)?;
    let mut unnoticed = Vec::new();
    let mut take = |out: &Path| -> Result<()> {
        let outcomes: Outcomes = serde_json::from_reader(open(&out.join("outcomes.json"))?)?;
        let run = Run {
            shard: args.shard.clone(),
            commit: commit::name()?,
            date: commit::today()?,
        };
        unnoticed.extend(match args.again {
            true => records.retried(&outcomes, &run),
            false => records.merge(&outcomes, &run),
        });
        // The records are written after each package, because the next one takes long and may be
        // interrupted.
        ddlab::report::write_json(&path, &records)
    };
    match &args.merge {
        Some(out) => take(out)?,
        None => {
            for package in examined(&args.packages)? {
                let only = args.again.then(|| known.unnoticed(package.name));
                if only.as_ref().is_none_or(|only| !only.patterns.is_empty()) {
                    take(&make(package, args, &only.unwrap_or_default())?)?;
                }
            }
        }
    }
    print!("{}", records.summary());
    for mutant in &unnoticed {
        println!("not noticed, not argued: {mutant}");
    }
    Ok(unnoticed.is_empty())
}

fn examined(names: &[String]) -> Result<Vec<&'static Examined>> {
    let find = |name: &String| {
        let found = EXAMINED.iter().find(|one| one.name == name);
        let all = EXAMINED.map(|one| one.name).join(", ");
        found.with_context(|| format!("there is no {name}; choose from {all}"))
    };
    match names {
        [] => Ok(EXAMINED.iter().collect()),
        names => names.iter().map(find).collect(),
    }
}

/// Runs cargo-mutants, for certain mutants only if patterns are given. Returns the directory with
/// its results.
fn make(package: &Examined, args: &Args, only: &Unnoticed) -> Result<PathBuf> {
    let dir = workspace::target().join("mutants").join(package.name);
    fs::create_dir_all(&dir).with_context(|| format!("cannot make {}", dir.display()))?;
    let mut command = workspace::cargo();
    command
        .args(["mutants", "--jobs", "1", "--test-tool", "cargo"])
        .args(["--minimum-test-timeout", "60"])
        .args(["--package", package.name, "--output"])
        .arg(&dir);
    // cargo-mutants 27 does not apply the patterns of names to faults that omit a field. Without
    // the files it would make those of the whole package.
    let files = match args.files.is_empty() {
        true => &only.files,
        false => &args.files,
    };
    let default = files.is_empty().then_some(package.files);
    for file in files.iter().map(String::as_str).chain(default) {
        command.args(["--file", file]);
    }
    for pattern in &only.patterns {
        command.args(["--re", pattern]);
    }
    if let Some(shard) = &args.shard {
        // In round-robin order each part has some faults of every file.
        command.args(["--sharding", "round-robin", "--shard", shard]);
    }
    // Debug information takes a third of the time to compile, and is not needed here.
    let plain = format!("--config=profile.test.package.{}.debug=0", package.name);
    command.arg("--cargo-arg").arg(plain);
    for test in package.tests {
        command.arg(format!("--cargo-arg={test}"));
    }
    let status = command.status().context("cannot run cargo")?;
    match status.code() {
        Some(code) if ENDED.contains(&code) => Ok(dir.join("mutants.out")),
        Some(101) => bail!("is cargo-mutants installed? `cargo install cargo-mutants --locked`"),
        _ => bail!("cargo mutants ended without a result ({status}); see above"),
    }
}

fn open(path: &Path) -> Result<File> {
    ensure!(path.exists(), "{} is missing", path.display());
    File::open(path).with_context(|| format!("cannot read {}", path.display()))
}
