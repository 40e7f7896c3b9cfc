// SPDX-License-Identifier: GPL-2.0-only

//! Patches of `tests/mutations` apply to the tree, alone and in the combinations that are used, and
//! a scenario loads the modules that are built with each.

use std::{collections::BTreeSet, fs, path::Path};

use anyhow::{Context as _, Result};

use crate::patch::{self, FOLDER, Patch};

pub(super) fn check(top: &Path) -> Result<Vec<String>> {
    let builds = ddscenarios::every_build();
    let loaded = builds.iter().flatten().map(|name| (*name).to_owned());
    let (there, loaded) = (patch::names()?, loaded.collect());
    let mut broken = strays(&there, &loaded);
    for names in builds {
        if names.iter().all(|name| there.contains(*name))
            && let Err(error) = try_on(top, &names)
        {
            let names = names.join(" with ");
            broken.push(format!("{FOLDER}: {names} cannot be applied: {error:#}"));
        }
    }
    Ok(broken)
}

fn strays(there: &BTreeSet<String>, loaded: &BTreeSet<String>) -> Vec<String> {
    let missing = loaded.difference(there);
    let missing = missing.map(|name| {
        format!("{FOLDER}/{name}.patch is missing, with which a scenario loads modules")
    });
    let idle = there.difference(loaded);
    let idle = idle.map(|name| {
        format!("{FOLDER}/{name}.patch: no scenario loads modules that are built with it")
    });
    missing.chain(idle).collect()
}

/// Applies patches one after the other to a copy of the files that they change.
fn try_on(top: &Path, names: &[&str]) -> Result<()> {
    let copy = tempfile::tempdir()?;
    let patches = names.iter().map(|name| Patch::read(name));
    let patches = patches.collect::<Result<Vec<_>>>()?;
    for file in patches.iter().flat_map(Patch::files) {
        let to = copy.path().join(file);
        fs::create_dir_all(to.parent().unwrap_or(&to))?;
        fs::copy(top.join(file), &to).with_context(|| format!("there is no {file}"))?;
    }
    patches.iter().try_for_each(|patch| {
        anyhow::ensure!(!patch.words().is_empty(), "the patch has no description");
        patch.apply(copy.path())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workspace;

    #[test]
    fn every_patch_applies() {
        let broken = check(workspace::top()).unwrap();
        assert!(broken.is_empty(), "{}", broken.join("\n"));
    }

    #[test]
    fn patches_and_entries_come_in_pairs() {
        let set = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect();
        assert!(strays(&set(&["a"]), &set(&["a"])).is_empty());
        let broken = strays(&set(&["a", "b"]), &set(&["b", "c"]));
        assert_eq!(broken.len(), 2);
        assert!(broken[0].contains("c.patch is missing"));
        assert!(broken[1].contains("a.patch: no scenario"));
    }
}
