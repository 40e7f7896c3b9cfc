// SPDX-License-Identifier: GPL-2.0-only

//! What a machine lacks for a file.
//!
//! Only `policyd check` examines the machine. The daemon starts although a container, its runtime,
//! or even the hierarchy of cgroups is missing, because each of them may appear later.

use crate::{
    config::{Config, Container, Selector},
    discovery::{Runtime, Runtimes},
    tree::Tree,
};
use ddnl::{Kind, ProgramError, printable};
use schemars::JsonSchema;
use serde::Serialize;
use std::{
    collections::BTreeSet,
    fmt, fs, io,
    iter::once,
    path::{Path, PathBuf},
};

/// A valid file.
#[derive(Clone, Debug, Eq, JsonSchema, PartialEq, Serialize)]
pub struct CheckReport {
    /// Its path, as the user gave it.
    pub file: PathBuf,
    /// Number of its entries for containers.
    pub containers: usize,
    /// Number of warnings, which are lines of the standard error.
    pub warnings: usize,
}

impl CheckReport {
    /// Creates the report on a file of which there are this many warnings.
    pub fn new(file: &Path, config: &Config, warnings: usize) -> Self {
        Self {
            file: file.into(),
            containers: config.containers.len(),
            warnings,
        }
    }
}

/// For people.
impl fmt::Display for CheckReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let counted = |count: usize, noun: &str| match count {
            1 => format!("1 {noun}"),
            _ => format!("{count} {noun}s"),
        };
        let file = self.file.display();
        let containers = counted(self.containers, "container");
        match self.warnings {
            0 => writeln!(f, "{file}: OK, {containers}"),
            count => {
                let warnings = counted(count, "warning");
                writeln!(f, "{file}: valid, {containers}, {warnings}")
            }
        }
    }
}

/// Returns an error if policyd can do nothing for a target of a file, whatever the machine is like.
/// It has a line for each of them.
pub fn within_reach(config: &Config) -> Result<(), ProgramError> {
    let hopeless = config.containers.iter().filter_map(|one| {
        let cause = one
            .uncached()
            .filter(|_| one.target.is_some() && !one.manage_memory)?;
        Some(format!(
            "container `{}`: policyd can never meet its target: {cause} keeps no page of it at the \
             host, and guest memory is only changed with `manage_memory = true`",
            printable(&one.name)
        ))
    });
    let hopeless: Vec<String> = hopeless.collect();
    match hopeless.is_empty() {
        true => Ok(()),
        false => Err(ProgramError::new(Kind::Unmet, hopeless.join("\n"))
            .hint("set `manage_memory = true`, let the host keep pages, or remove the target")),
    }
}

/// Looks for what a file selects. `root` is the root below which runtimes keep their files. Returns
/// a warning for each runtime without files, and for each container that is not there now; or the
/// reason why no container can be managed on this machine.
pub fn inspect(config: &Config, root: &Path) -> Result<Vec<String>, ProgramError> {
    hierarchy(&config.cgroup_root)?;
    let mut runtimes = Runtimes::new(root, config);
    let mut warnings = Vec::new();
    let mut found = |selector: &Selector| {
        let obstacle = obstacle(selector, &runtimes);
        let is_found = obstacle.is_none();
        warnings.extend(obstacle.filter(|text| !warnings.contains(text)));
        is_found
    };
    // Without the files of its runtime, a container cannot be found, which needs no second warning.
    let named: Vec<&Container> = config
        .containers
        .iter()
        .filter(|one| found(&one.selector) && one.selector.is_literal())
        .collect();
    let mut tree = Tree::unwatched(&config.cgroup_root, config.reach());
    let cgroups: Vec<_> = tree
        .scan()
        .into_keys()
        .map(|cgroup| {
            let is_asked = config.asks_names();
            let identity = is_asked.then(|| runtimes.identify(&cgroup)).flatten();
            (cgroup, identity)
        })
        .collect();
    for Container { name, selector, .. } in named {
        let is_there = match selector {
            // The scan ends early in a tree that is very large.
            Selector::Cgroup(path) => !tree.living(once(path.text())).is_empty(),
            _ => cgroups
                .iter()
                .any(|(cgroup, identity)| selector.matches(cgroup, identity.as_ref())),
        };
        if !is_there {
            warnings.push(format!("container `{name}`: {} now", absence(selector)));
        }
    }
    Ok(warnings)
}

/// Checks that a directory is the root of cgroup version 2, and counts the memory of its cgroups.
fn hierarchy(root: &Path) -> Result<(), ProgramError> {
    let root = root.display();
    let message = match fs::read_to_string(format!("{root}/cgroup.controllers")) {
        Ok(all) if all.split_whitespace().any(|one| one == "memory") => return Ok(()),
        Ok(_) => format!(
            "cgroup v2 in {root} has no memory controller: boot without `cgroup_disable=memory`, \
             and without cgroup v1 for memory"
        ),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            format!("{root} is not the root of cgroup v2: mount it, or set `cgroup_root`")
        }
        Err(error) => format!("cannot read {root}/cgroup.controllers: {error}"),
    };
    Err(ProgramError::new(Kind::Unmet, message))
}

/// Returns why no container can be found by a selector now: the files of its runtime are missing.
fn obstacle(selector: &Selector, runtimes: &Runtimes) -> Option<String> {
    let (key, all): (_, &[Runtime]) = match selector {
        Selector::Pod { .. } => ("pod", &[Runtime::Containerd, Runtime::Crio]),
        Selector::Runtime(runtime, _) => (runtime.word(), &[*runtime]),
        Selector::Cgroup(_) | Selector::Unit(_) | Selector::UserUnit { .. } => return None,
    };
    let mut reasons = BTreeSet::new();
    for runtime in all {
        let obstacles = runtimes.obstacles(*runtime);
        if obstacles.is_empty() {
            return None;
        }
        let reason = |(path, error): (PathBuf, io::Error)| match error.kind() {
            io::ErrorKind::NotFound => format!("there is no {}", path.display()),
            _ => format!("{} cannot be read: {error}", path.display()),
        };
        reasons.extend(obstacles.into_iter().map(reason));
    }
    let reasons: Vec<String> = reasons.into_iter().collect();
    Some(format!(
        "no container is found by `{key}` now: {}. Start the runtime, or name its directories in \
         [runtimes]",
        reasons.join(", ")
    ))
}

/// Returns the message for a selector that matches no cgroup: it names the missing object.
fn absence(selector: &Selector) -> String {
    let text = selector.text();
    match selector {
        Selector::Cgroup(_) => format!("there is no cgroup {text}"),
        Selector::Unit(_) => format!("unit {text} has no cgroup"),
        Selector::UserUnit { .. } => format!("unit {text} of a user has no cgroup"),
        Selector::Pod { .. } | Selector::Runtime(..) => format!("`{text}` does not run"),
    }
}
