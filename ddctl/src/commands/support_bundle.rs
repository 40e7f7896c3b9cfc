// SPDX-License-Identifier: GPL-2.0-only

//! `ddctl support-bundle`.

mod contents;

use crate::{
    context::Context,
    error::{Error, Kind, Result},
    output::{Frame, Properties},
    watch::timestamp,
};
use clap::Args;
use contents::Entry;
use flate2::{Compression, write::GzEncoder};
use rustix::fs::{Mode, OFlags};
use schemars::JsonSchema;
use serde::Serialize;
use std::{
    fs::File,
    io::{self, Write},
    path::{Path, PathBuf},
    time::UNIX_EPOCH,
};
use tar::{Builder, Header};

/// Write an archive that describes this machine, for support
///
/// The archive has the output of doctor, status, stats, advise and ssd list, the parameters of the
/// modules, the lines of the kernel log that name them, versions, and the files in
/// /etc/doubledecker and /etc/modprobe.d that the packages install. It has no other files. It
/// contains the names of VMs, containers and users' cgroups, and unchanged configuration files:
/// remove passwords from commands and addresses before you send it.
#[derive(Args, Debug)]
#[command(after_help = concat!(
    "Examples:",
    "\n  ddctl support-bundle",
    "\n  ddctl support-bundle /tmp/host1.tar.gz",
))]
pub(crate) struct Arguments {
    /// Archive to write, which must not exist [default: ddctl-support-TIME.tar.gz]
    file: Option<PathBuf>,
}

/// The archive that was written.
#[derive(JsonSchema, Serialize)]
pub(crate) struct BundleReport {
    /// Path of the archive.
    path: PathBuf,
    /// Names of the files in it.
    files: Vec<String>,
}

/// Directory in the archive.
const TOP: &str = "ddctl-support";

pub(crate) fn run(context: &mut Context<'_>, arguments: &Arguments) -> Result<()> {
    let time = timestamp(context.system.now());
    let path = match &arguments.file {
        Some(path) => path.clone(),
        None => {
            let digits = time.chars().filter(char::is_ascii_digit);
            format!(
                "ddctl-support-{}.tar.gz",
                digits.take(14).collect::<String>()
            )
            .into()
        }
    };
    let place = context.system.file(&path.to_string_lossy());
    let file = create(&place).map_err(|error| {
        Error::new(
            Kind::Failed,
            format!("cannot write {}: {error}", path.display()),
        )
    })?;
    let entries = contents::collect(context.system, context.wanted());
    let elapsed = context.system.now().duration_since(UNIX_EPOCH);
    let seconds = elapsed.unwrap_or_default().as_secs();
    write(file, &entries, seconds).inspect_err(|_| {
        // An incomplete archive is removed. The error of writing it is reported.
        let _ = std::fs::remove_file(&place);
    })?;
    let mut facts = Properties::default();
    for entry in &entries {
        facts.add(&format!("  {}", entry.name), entry.about.clone());
    }
    let mut text = format!("Wrote {}, which contains\n", path.display());
    text += &facts.text(context.columns());
    text += "Remove passwords from configuration files before you pass it on\n";
    let files = entries.into_iter().map(|entry| entry.name).collect();
    Frame::new(text, &BundleReport { path, files }).print(context)
}

/// Creates a file that its user alone can read. A file that exists is not replaced, and a symbolic
/// link is not followed.
fn create(path: &Path) -> io::Result<File> {
    let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC;
    let file = rustix::fs::open(path, flags, Mode::RUSR | Mode::WUSR)?;
    Ok(file.into())
}

fn write(file: File, entries: &[Entry], seconds: u64) -> io::Result<()> {
    let mut archive = Builder::new(GzEncoder::new(file, Compression::default()));
    for entry in entries {
        let mut header = Header::new_gnu();
        header.set_size(entry.content.len() as u64);
        header.set_mode(0o600);
        header.set_mtime(seconds);
        let name = format!("{TOP}/{}", entry.name);
        archive.append_data(&mut header, name, entry.content.as_slice())?;
    }
    archive.into_inner()?.finish()?.flush()
}
