// SPDX-License-Identifier: GPL-2.0-only

//! Checks of the kernel: version, options, functions to attach to, and what forbids attaching.

use super::{Examination, machine::loaded_kvm, needs};
use ddnl::Side;
use flate2::read::GzDecoder;
use std::{collections::BTreeSet, fs::File, io::Read, path::PathBuf};

/// The kernels that the modules are tested with. A test compares them with
/// `docs/results/kernels.json`.
const TESTED: [&str; 2] = ["7.2", "7.3"];

pub(super) fn examine(examination: &mut Examination<'_>) {
    let release = examination.read("/proc/sys/kernel/osrelease");
    let release = match release.trim() {
        "" => "unknown",
        release => release,
    };
    version(examination, release);
    realtime(examination);
    options(examination, release);
    functions(examination);
    tracing(examination);
    livepatches(examination);
    signatures(examination);
}

fn version(examination: &mut Examination<'_>, release: &str) {
    let is_of = |version: &&str| {
        let rest = release.strip_prefix(*version);
        rest.is_some_and(|rest| !rest.starts_with(|c: char| c.is_ascii_digit()))
    };
    if TESTED.iter().any(is_of) {
        examination.ok("kernel", release);
    } else {
        examination.warn(
            "kernel",
            format!(
                "{release}: the modules are tested with {}",
                TESTED.join(" and ")
            ),
            "the module refuses to load if the kernel lacks something it needs",
        );
    }
}

/// Reads the version string, because the configuration may not be readable.
fn realtime(examination: &mut Examination<'_>) {
    let version = examination.read("/proc/sys/kernel/version");
    if version.split_whitespace().any(|word| word == "PREEMPT_RT") {
        examination.fail(
            "realtime",
            "this kernel has PREEMPT_RT, on which the module refuses to load",
            "boot a kernel without PREEMPT_RT, such as Debian's cloud-amd64 or amd64",
        );
    }
}

fn options(examination: &mut Examination<'_>, release: &str) {
    let Some(config) = config(examination, release) else {
        examination.warn(
            "config",
            "the kernel's configuration cannot be read",
            "check that your distribution's kernel package has CONFIG_RUST=y",
        );
        return;
    };
    let enabled: BTreeSet<&str> = config
        .lines()
        .filter_map(|line| line.strip_suffix("=y").or(line.strip_suffix("=m")))
        .collect();
    let missing: Vec<String> = needs::options(examination.side)
        .filter(|option| !enabled.contains(option.name))
        .map(|option| format!("{} ({})", option.name, option.why))
        .collect();
    if missing.is_empty() {
        examination.ok("config", "has all options that the module needs");
    } else {
        examination.fail(
            "config",
            format!("lacks {}", missing.join(", ")),
            "boot a kernel that has these options, such as Debian's from backports",
        );
    }
}

/// The text of the running kernel's configuration.
fn config(examination: &Examination<'_>, release: &str) -> Option<String> {
    let packed = File::open(examination.system.file("/proc/config.gz"));
    if let Ok(packed) = packed {
        let mut text = String::new();
        if GzDecoder::new(packed).read_to_string(&mut text).is_ok() {
            return Some(text);
        }
    }
    let places = [
        format!("/boot/config-{release}"),
        format!("/lib/modules/{release}/config"),
        format!("/usr/lib/modules/{release}/config"),
    ];
    let texts = places.iter().map(|place| examination.read(place));
    texts.into_iter().find(|text| !text.is_empty())
}

fn functions(examination: &mut Examination<'_>) {
    let Some(present) = present_functions(examination) else {
        examination.warn(
            "functions",
            "neither /proc/kallsyms nor tracefs can be read",
            "run this as root",
        );
        return;
    };
    let missing: Vec<&str> = needs::functions(examination.side)
        .filter(|function| !present.contains(*function))
        .collect();
    if missing.is_empty() {
        examination.ok(
            "functions",
            "all functions that the module attaches to exist",
        );
    } else {
        // A host's functions are in modules of KVM.
        let can_be_missing = examination.side == Side::Host && loaded_kvm(examination).is_none();
        let advice = match can_be_missing {
            true => "load kvm_amd or kvm_intel, and examine the host again",
            false => "this kernel cannot be used; boot one of the tested version",
        };
        examination.fail(
            "functions",
            format!("{} missing", missing.join(", ")),
            advice,
        );
    }
    if examination.side == Side::Guest {
        filesystems(examination, &present);
    }
}

/// Returns the functions that can be attached to. The list of tracefs is exact; kallsyms, which
/// also has functions that ftrace cannot trace, is the fallback.
fn present_functions(examination: &Examination<'_>) -> Option<BTreeSet<String>> {
    let traceable = examination.read("/sys/kernel/tracing/available_filter_functions");
    if !traceable.is_empty() {
        return Some(words(&traceable, 0));
    }
    let symbols = examination.read("/proc/kallsyms");
    (!symbols.is_empty()).then(|| words(&symbols, 2))
}

/// Returns the word at index `at` of each line.
fn words(text: &str, at: usize) -> BTreeSet<String> {
    let word = |line: &str| line.split_whitespace().nth(at).map(Into::into);
    text.lines().filter_map(word).collect()
}

fn filesystems(examination: &mut Examination<'_>, present: &BTreeSet<String>) {
    let mounts = examination.read("/proc/mounts");
    let mounted = words(&mounts, 2);
    let usable: Vec<&str> = needs::FILESYSTEMS
        .iter()
        .filter(|one| one.functions().all(|function| present.contains(function)))
        .map(|one| one.name)
        .collect();
    let used: Vec<&str> = usable
        .iter()
        .copied()
        .filter(|name| mounted.contains(*name))
        .collect();
    match (usable.as_slice(), used.as_slice()) {
        ([], _) => examination.fail(
            "filesystem",
            "neither ext4 nor xfs can be attached to",
            "load the filesystem's module, or boot a kernel of the tested version",
        ),
        (_, []) => examination.warn(
            "filesystem",
            "no ext4 or xfs filesystem is mounted, and others are not cached",
            "put the files that are worth caching on ext4 or xfs",
        ),
        _ => examination.ok("filesystem", format!("{} mounted", used.join(" and "))),
    }
}

fn tracing(examination: &mut Examination<'_>) {
    if examination.read("/proc/sys/kernel/ftrace_enabled").trim() == "0" {
        examination.fail(
            "ftrace",
            "ftrace is switched off: the module cannot attach to functions",
            "run `sysctl kernel.ftrace_enabled=1`",
        );
    }
}

/// A function can be diverted by a livepatch or by the module, not by both.
fn livepatches(examination: &mut Examination<'_>) {
    let patched = patched_functions(examination);
    let taken = |names: &[&'static str]| -> Vec<&'static str> {
        let names = names.iter().copied();
        names.filter(|name| patched.contains(*name)).collect()
    };
    let advice = "disable the livepatch and unload its module, or boot a kernel that has the fix";
    let all = taken(needs::diverted(examination.side));
    if !all.is_empty() {
        examination.fail(
            "livepatch",
            format!("a livepatch replaces {}: nothing is cached", all.join(", ")),
            advice,
        );
    }
    if examination.side != Side::Guest {
        return;
    }
    for filesystem in needs::FILESYSTEMS {
        let functions = taken(&filesystem.diverted);
        if !functions.is_empty() {
            let (functions, name) = (functions.join(", "), filesystem.name);
            examination.fail(
                "livepatch",
                format!("a livepatch replaces {functions}: files of {name} are not cached"),
                advice,
            );
        }
    }
}

/// Returns the functions that livepatches replace, from `patch/object/function,number` in sysfs.
fn patched_functions(examination: &Examination<'_>) -> BTreeSet<String> {
    let list = |path: PathBuf| {
        let entries = std::fs::read_dir(path).into_iter().flatten();
        entries.filter_map(|entry| entry.ok().map(|entry| entry.path()))
    };
    let patches = list(examination.system.file("/sys/kernel/livepatch"));
    let functions = patches.flat_map(list).flat_map(list);
    let name = |path: PathBuf| {
        let name = path.file_name()?.to_str()?.split(',').next()?;
        Some(name.to_owned())
    };
    functions.filter_map(name).collect()
}

fn signatures(examination: &mut Examination<'_>) {
    let enforced = examination.read("/sys/module/module/parameters/sig_enforce");
    let lockdown = examination.read("/sys/kernel/security/lockdown");
    let locked = ["[integrity]", "[confidentiality]"]
        .iter()
        .any(|level| lockdown.contains(level));
    if enforced.trim() != "Y" && !locked {
        return;
    }
    let taint = examination.read(&format!(
        "/sys/module/doubledecker_{}/taint",
        examination.side
    ));
    // A module whose signature the kernel did not accept has the flag E.
    if taint.contains('O') && !taint.contains('E') {
        examination.ok(
            "signatures",
            "this kernel loads only signed modules, and accepted the signature of this one",
        );
    } else {
        examination.warn(
            "signatures",
            "this kernel loads only signed modules (lockdown or module.sig_enforce)",
            "sign the module with a key that the kernel trusts, or switch Secure Boot off",
        );
    }
}

#[cfg(test)]
mod tests {
    use super::TESTED;
    use std::collections::BTreeSet;

    #[test]
    fn kernels_are_those_of_the_record() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/results/kernels.json");
        let text = std::fs::read_to_string(path).unwrap();
        let record: serde_json::Value = serde_json::from_str(&text).unwrap();
        let releases = record.as_array().unwrap().iter().map(|one| {
            let release = one["release"].as_str().unwrap();
            let mut parts = release.split(['.', '-', '+', '~']);
            format!("{}.{}", parts.next().unwrap(), parts.next().unwrap())
        });
        let releases: BTreeSet<String> = releases.collect();
        assert_eq!(releases, TESTED.map(Into::into).into());
    }
}
