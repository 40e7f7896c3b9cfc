// SPDX-License-Identifier: GPL-2.0-only

//! The contents of an archive for support: a fixed list, without parts that the machine does not
//! have.

use crate::{run, system::System};
use ddabi::ABI_VERSION;
use ddnl::Side;
use rustix::{
    fs::{Mode, OFlags},
    io::Errno,
};
use std::{
    fs::{self, File},
    io::{self, Read as _},
    path::Path,
};

/// A file of the archive.
pub(super) struct Entry {
    /// Its name below the directory of the archive.
    pub(super) name: String,
    /// Its description.
    pub(super) about: String,
    /// Its content.
    pub(super) content: Vec<u8>,
}

/// Verbs whose output is included, by the names of files.
const VERBS: [(&str, &str); 8] = [
    ("doctor.txt", "doctor"),
    ("status.txt", "status"),
    ("status.json", "status --json"),
    ("stats.txt", "stats"),
    ("stats.json", "stats --json"),
    ("curves.json", "stats --curve --json"),
    ("ssd.json", "ssd list --json"),
    ("advise.txt", "advise"),
];

/// Files that are included as they are.
const FILES: [(&str, &str); 6] = [
    ("os-release", "/etc/os-release"),
    ("kernel-version", "/proc/version"),
    ("host.toml", "/etc/doubledecker/host.toml"),
    ("policyd.toml", "/etc/doubledecker/policyd.toml"),
    (
        "doubledecker-host.conf",
        "/etc/modprobe.d/doubledecker-host.conf",
    ),
    (
        "doubledecker-guest.conf",
        "/etc/modprobe.d/doubledecker-guest.conf",
    ),
];

/// The most bytes that are read of a file.
const MAX_BYTES: u64 = 1 << 20;

/// The most bytes of the kernel log that are read.
const LOG: usize = 64 << 20;

/// Reads everything that there is.
pub(super) fn collect(system: &dyn System, side: Option<Side>) -> Vec<Entry> {
    let mut entries = vec![Entry {
        name: "version.txt".into(),
        about: "version of ddctl".into(),
        content: format!(
            "ddctl {}, ABI version {ABI_VERSION}\n",
            env!("CARGO_PKG_VERSION")
        )
        .into_bytes(),
    }];
    let mut errors = String::new();
    for (name, line) in VERBS {
        let (output, error) = verb(system, line, side);
        if !output.is_empty() {
            entries.push(Entry {
                name: name.into(),
                about: format!("output of `ddctl {line}`"),
                content: output,
            });
        }
        if !error.is_empty() {
            errors += &format!("$ ddctl {line}\n{error}");
        }
    }
    for side in [Side::Host, Side::Guest] {
        module(&mut entries, system, side);
    }
    for (name, path) in FILES {
        file(&mut entries, system, name, path, path);
    }
    match log(&system.file("/dev/kmsg")) {
        Ok(lines) => entries.push(Entry {
            name: "kernel.log".into(),
            about: "lines of the kernel log that name the modules".into(),
            content: lines.into_bytes(),
        }),
        Err(error) => errors += &format!("/dev/kmsg: {error}\n"),
    }
    entries.push(Entry {
        name: "errors.txt".into(),
        about: "what could not be read, and why".into(),
        content: errors.into_bytes(),
    });
    entries
}

/// Runs a verb, and returns its output and its errors.
fn verb(system: &dyn System, line: &str, side: Option<Side>) -> (Vec<u8>, String) {
    let side = side.map(|side| format!("--{side}"));
    let words = ["ddctl"].into_iter().chain(line.split(' '));
    let words = words.chain(side.as_deref()).map(Into::into);
    let (mut out, mut err) = (Vec::new(), Vec::new());
    run(words, system, &mut out, &mut err);
    (out, String::from_utf8_lossy(&err).into_owned())
}

/// Adds the version and the parameters of a module that is loaded.
fn module(entries: &mut Vec<Entry>, system: &dyn System, side: Side) {
    let name = side.module();
    let directory = format!("/sys/module/{name}");
    for fact in ["version", "srcversion", "taint"] {
        let path = format!("{directory}/{fact}");
        let entry = format!("{name}/{fact}");
        file(entries, system, &entry, &path, fact);
    }
    let parameters = fs::read_dir(system.file(&format!("{directory}/parameters")));
    let parameters = parameters.into_iter().flatten().flatten();
    let mut names: Vec<String> = parameters
        .filter_map(|parameter| parameter.file_name().into_string().ok())
        .collect();
    names.sort();
    for parameter in names {
        let path = format!("{directory}/parameters/{parameter}");
        let name = format!("{name}/parameters/{parameter}");
        file(entries, system, &name, &path, "parameter");
    }
}

/// Adds a file, if it exists and can be read.
fn file(entries: &mut Vec<Entry>, system: &dyn System, name: &str, path: &str, about: &str) {
    let mut content = Vec::new();
    let read = File::open(system.file(path))
        .and_then(|file| file.take(MAX_BYTES).read_to_end(&mut content));
    if read.is_ok() {
        entries.push(Entry {
            name: name.into(),
            about: about.into(),
            content,
        });
    }
}

/// Returns the lines of the kernel log that name the modules. The log ends where a read would wait
/// for the next line.
fn log(path: &Path) -> io::Result<String> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let log = rustix::fs::open(path, flags, Mode::empty())?;
    let mut text = Vec::new();
    let mut record = vec![0; 16 << 10];
    while text.len() < LOG {
        match rustix::io::read(&log, &mut record) {
            Ok(0) | Err(Errno::AGAIN) => break,
            Ok(count) => text.extend_from_slice(&record[..count]),
            // The kernel has overwritten the next records. Reading continues with later ones.
            Err(Errno::PIPE | Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    let text = String::from_utf8_lossy(&text);
    let ours = text.lines().filter(|line| line.contains("doubledecker"));
    Ok(ours.map(|line| format!("{line}\n")).collect())
}
