// SPDX-License-Identifier: GPL-2.0

//! Dependencies point one way: from what changes often to what does not.

use super::Source;

/// Our crates, each with those of ours it may depend on.
const OURS: &[(&str, &[&str])] = &[
    ("ddabi", &[]),
    ("ddcore", &["ddabi"]),
    ("ddnl", &["ddabi"]),
    ("ddctl", &["ddabi", "ddnl", "ddsim"]),
    ("policyd", &["ddabi", "ddnl"]),
    ("ddsim", &["ddabi", "ddcore"]),
    ("ddpapers", &["ddabi", "ddcore", "ddnl", "ddsim", "policyd"]),
    // What runs in the test machines knows nothing of what is tested.
    ("ddagent", &[]),
    ("ddhelper", &["ddabi", "ddagent", "ddload"]),
    ("ddload", &[]),
    ("ddlab", &["ddagent"]),
    ("ddfuzz", &["ddabi", "ddcore", "ddsim"]),
    ("ddbench", &["ddabi", "ddcore", "ddlab"]),
    ("dddemo", &["ddabi", "ddlab", "ddload"]),
    (
        "ddscenarios",
        &["ddabi", "ddhelper", "ddlab", "ddload", "ddnl"],
    ),
    ("xtask", &["dddemo", "ddlab", "ddscenarios"]),
];
/// Crates the kernel build compiles too: it has nothing else of foreigners'.
const IN_KERNEL: [&str; 2] = ["ddabi", "ddcore"];
const KERNELS_OWN: [&str; 2] = ["zerocopy", "zerocopy-derive"];

pub(super) fn check(sources: &[Source]) -> Vec<String> {
    sources
        .iter()
        .filter(|source| source.path.ends_with("/Cargo.toml"))
        .flat_map(|source| check_manifest(&source.path, &source.text))
        .collect()
}

fn check_manifest(path: &str, manifest: &str) -> Vec<String> {
    let Some(name) = package_name(manifest) else {
        return vec![format!("{path}: no package name")];
    };
    let Some((_, ours)) = OURS.iter().find(|(known, _)| *known == name) else {
        return vec![format!(
            "{path}: say in xtask/src/tidy/dependency.rs what {name} may depend on"
        )];
    };
    let may = |dependency: &str| match OURS.iter().any(|(known, _)| *known == dependency) {
        true => ours.contains(&dependency),
        false => !IN_KERNEL.contains(&name) || KERNELS_OWN.contains(&dependency),
    };
    dependencies(manifest)
        .filter(|dependency| !may(dependency))
        .map(|dependency| format!("{path}: {name} must not depend on {dependency}"))
        .collect()
}

fn package_name(manifest: &str) -> Option<&str> {
    section(manifest, "[package]")
        .find_map(|line| line.strip_prefix("name = \""))
        .and_then(|rest| rest.strip_suffix('"'))
}

/// Names below `[dependencies]`.
fn dependencies(manifest: &str) -> impl Iterator<Item = &str> {
    section(manifest, "[dependencies]")
        .filter_map(|line| line.split(['.', '=', ' ']).next())
        .filter(|name| !name.is_empty() && !name.starts_with('#'))
}

fn section<'a>(manifest: &'a str, head: &str) -> impl Iterator<Item = &'a str> {
    manifest
        .lines()
        .skip_while(move |line| line.trim() != head)
        .skip(1)
        .take_while(|line| !line.starts_with('['))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn manifest(name: &str, dependency: &str) -> String {
        format!(
            "[package]\nname = \"{name}\"\n[dependencies]\n# why\n{dependency}.workspace = true\n\
             \n[dev-dependencies]\nproptest = \"1\"\n"
        )
    }

    fn complaints(name: &str, dependency: &str) -> usize {
        check_manifest("x/Cargo.toml", &manifest(name, dependency)).len()
    }

    #[test]
    fn the_direction_holds() {
        assert_eq!(complaints("ddcore", "ddabi"), 0);
        assert_eq!(complaints("ddabi", "ddcore"), 1);
        assert_eq!(complaints("policyd", "serde"), 0);
        assert_eq!(complaints("policyd", "ddlab"), 1);
    }

    #[test]
    fn the_kernel_has_no_other_crates() {
        assert_eq!(complaints("ddcore", "zerocopy"), 0);
        assert_eq!(complaints("ddcore", "serde"), 1);
    }

    #[test]
    fn a_new_crate_is_asked_for_its_place() {
        assert_eq!(complaints("ddnew", "serde"), 1);
    }
}
