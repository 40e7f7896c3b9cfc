// SPDX-License-Identifier: GPL-2.0-only

//! The functions that a module is attached to, as listed by the kernel.

use anyhow::{Context as _, Result, ensure};
use ddlab::Machine;

pub(super) const TRACEFS: &str = "/sys/kernel/tracing";
/// The function in the modules that ftrace calls.
const CALLED: &str = "dd_hook_called";

/// A function of the kernel to which a module is attached.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Function {
    pub(super) name: String,
    /// The kernel module that contains it.
    pub(super) module: Option<String>,
    /// Whether its calls are diverted, not only observed.
    pub(super) diverted: bool,
}

impl Function {
    /// Returns whether it is a read function of a filesystem.
    pub(super) fn reads(&self) -> bool {
        self.name.ends_with("_readahead") || self.name.ends_with("_read_folio")
    }
}

/// Returns the functions to which the module is attached now. No other user may be attached to
/// them, because the kernel names no callback if there are several.
pub(super) fn attached(machine: &Machine) -> Result<Vec<Function>> {
    let text = machine.read_text(&format!("{TRACEFS}/enabled_functions"))?;
    let lines = text.lines().filter(|line| line.contains(CALLED));
    let functions: Vec<_> = lines.map(parse).collect::<Option<_>>().context("no name")?;
    ensure!(
        functions.iter().any(|one| one.diverted),
        "{} is attached to no function: {text}",
        machine.name()
    );
    Ok(functions)
}

/// Parses `name [module] (users) flags …`.
fn parse(line: &str) -> Option<Function> {
    let (name, flags) = line.split_once(" (")?;
    let (_, flags) = flags.split_once(')')?;
    let flags = flags.split('\t').next()?;
    let mut words = name.split_whitespace();
    Some(Function {
        name: words.next()?.to_owned(),
        module: words
            .next()
            .map(|module| module.trim_matches(['[', ']']).to_owned()),
        diverted: flags.split_whitespace().any(|flag| flag == "I"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_the_kernel_are_read() {
        let one = "free_unref_folios (1)           \ttramp: 0xffffffffc0a6d000 \
                   (dd_hook_called+0x0/0x70 [doubledecker_guest])";
        let function = Function {
            name: "free_unref_folios".to_owned(),
            module: None,
            diverted: false,
        };
        assert_eq!(parse(one), Some(function));
        let two = "xfs_vm_readahead [xfs] (2) R I     \ttramp: x (dd_hook_called+0x0)";
        let function = Function {
            name: "xfs_vm_readahead".to_owned(),
            module: Some("xfs".to_owned()),
            diverted: true,
        };
        assert_eq!(parse(two), Some(function));
    }
}
