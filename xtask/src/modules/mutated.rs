// SPDX-License-Identifier: GPL-2.0-only

//! Modules with patches of `tests/mutations`, one build for each set of patches. A set is built
//! again when its inputs have changed.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result};

use super::{MODULES, Mode, RUST_MODULES, SOURCES, VERSION, compile, gather, out_dir, work_dir};
use crate::{cache, patch::Patch, progress, tree::Kernel, workspace};

/// Folders of the modules that are patched.
const PATCHED: [&str; 2] = [RUST_MODULES[0], RUST_MODULES[1]];
/// Paths that affect one module only.
const OWN: [(&str, &str); 3] = [
    ("host-module/", PATCHED[0]),
    // The engine of the host.
    ("ddcore/src/host/", PATCHED[0]),
    ("guest-module/", PATCHED[1]),
];

/// Builds the modules that the patches change. Returns the directory with these only.
pub(crate) fn build(kernel: &Kernel, names: &[&str]) -> Result<PathBuf> {
    let patches = names.iter().map(|name| Patch::read(name));
    let patches = patches.collect::<Result<Vec<_>>>()?;
    let files: Vec<&str> = patches.iter().flat_map(Patch::files).collect();
    let modules = touched(&files);
    let all = names.join("+");
    let copy = tempfile::tempdir()?;
    let is_needed = |folder: &&str| !MODULES.contains(folder) || modules.contains(folder);
    for folder in SOURCES.iter().filter(|folder| is_needed(folder)) {
        let (from, to) = (workspace::top().join(folder), copy.path().join(folder));
        duplicate(&from, &to).with_context(|| format!("cannot copy {folder}"))?;
    }
    for patch in &patches {
        let applied = patch.apply(copy.path());
        applied.with_context(|| format!("cannot apply {all}"))?;
    }
    let mut made_from = vec![
        VERSION.to_owned(),
        kernel.release.name.clone(),
        kernel.make_arguments()?.join(" "),
    ];
    read(copy.path(), &mut made_from)?;
    let parts: Vec<&str> = made_from.iter().map(String::as_str).collect();
    let key = cache::key(&parts);

    let work = work_dir(kernel, Mode::Mutated)?;
    let _lock = cache::lock_in(&work)?;
    let out = out_dir(kernel, Mode::Mutated).join(&all);
    let stamp = out.with_extension("key");
    if fs::read_to_string(&stamp).is_ok_and(|last| last == key) {
        return Ok(out);
    }
    cache::remove(&out)?;
    progress::step(&format!("build the modules with {all}"), || {
        compile(kernel, Mode::Mutated, (copy.path(), &work), &modules)
    })?;
    gather(&work, &modules, &out)?;
    fs::write(stamp, key)?;
    Ok(out)
}

/// Returns the folders of the modules that these files affect.
fn touched(files: &[&str]) -> Vec<&'static str> {
    let is_part = |file: &str, module: &str| {
        let owner = OWN.iter().find(|(own, _)| file.starts_with(own));
        owner.is_none_or(|(_, owner)| *owner == module)
    };
    let is_touched = |module: &&str| files.iter().any(|file| is_part(file, module));
    PATCHED.into_iter().filter(is_touched).collect()
}

/// Copies a folder without its build results.
fn duplicate(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let (name, path) = (entry.file_name(), entry.path());
        if name == "target" {
            continue;
        }
        match entry.file_type()?.is_dir() {
            true => duplicate(&path, &to.join(name))?,
            false => _ = fs::copy(&path, to.join(name))?,
        }
    }
    Ok(())
}

/// Adds the paths and contents of a directory's files to `parts`, in a fixed order.
fn read(dir: &Path, parts: &mut Vec<String>) -> Result<()> {
    let mut entries = fs::read_dir(dir)?.collect::<io::Result<Vec<_>>>()?;
    entries.sort_by_key(fs::DirEntry::file_name);
    for entry in entries {
        let path = entry.path();
        if entry.file_type()?.is_dir() {
            parts.push(entry.file_name().to_string_lossy().into_owned());
            read(&path, parts)?;
        } else {
            let content = fs::read(&path)?;
            parts.push(entry.file_name().to_string_lossy().into_owned());
            parts.push(String::from_utf8_lossy(&content).into_owned());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_modules_that_a_patch_changes_are_built() {
        assert_eq!(touched(&["guest-module/src/map.rs"]), ["guest-module"]);
        assert_eq!(
            touched(&["ddcore/src/host/room.rs", "host-module/shim/page.c"]),
            ["host-module"]
        );
        assert_eq!(touched(&["shim/hook.c"]), ["host-module", "guest-module"]);
        assert_eq!(
            touched(&["ddcore/src/hosts.rs"]),
            ["host-module", "guest-module"]
        );
    }

    #[test]
    fn builds_are_named_by_their_inputs() {
        let dir = tempfile::tempdir().unwrap();
        let (tree, copy) = (dir.path().join("tree"), dir.path().join("copy"));
        fs::create_dir_all(tree.join("target")).unwrap();
        fs::write(tree.join("target/a.o"), "").unwrap();
        fs::write(tree.join("a"), "1").unwrap();
        duplicate(&tree, &copy).unwrap();
        let parts = || {
            let mut parts = Vec::new();
            read(&copy, &mut parts).unwrap();
            parts
        };
        assert_eq!(parts(), ["a", "1"]);
        fs::write(copy.join("a"), "2").unwrap();
        assert_eq!(parts(), ["a", "2"]);
    }
}
