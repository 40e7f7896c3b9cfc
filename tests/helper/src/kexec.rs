// SPDX-License-Identifier: GPL-2.0-only

//! Starting another kernel from this one.

use std::{
    ffi::CString,
    fs::{self, File},
    io,
    os::fd::AsRawFd as _,
    path::Path,
};

use anyhow::{Context as _, Result};
use rustix::system::{RebootCommand, reboot};

/// Starts the loaded kernel without firmware and VMM. Does not return on success.
pub(crate) fn start() -> Result<()> {
    reboot(RebootCommand::Kexec).context("the kernel is not started")
}

/// Loads a kernel, to be started with the current command line. With `on_crash` it is loaded for
/// the case that this one crashes; its command line then reserves no memory again.
pub(crate) fn load(kernel: &Path, initrd: &Path, on_crash: bool) -> Result<()> {
    let open = |path: &Path| File::open(path).with_context(|| path.display().to_string());
    let (kernel, initrd) = (open(kernel)?, open(initrd)?);
    let line = fs::read_to_string("/proc/cmdline")?;
    let words = line.split_whitespace();
    let kept = words.filter(|word| !(on_crash && word.starts_with("crashkernel=")));
    let line = CString::new(kept.collect::<Vec<_>>().join(" "))?;
    let line = line.as_bytes_with_nul();
    let flags: libc::c_long = match on_crash {
        true => libc::KEXEC_FILE_ON_CRASH.into(),
        false => 0,
    };
    // SAFETY: The kernel reads both files and the line, which live until it returns.
    let done = unsafe {
        libc::syscall(
            libc::SYS_kexec_file_load,
            kernel.as_raw_fd(),
            initrd.as_raw_fd(),
            line.len(),
            line.as_ptr(),
            flags,
        )
    };
    match done {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()).context("the kernel is not loaded"),
    }
}
