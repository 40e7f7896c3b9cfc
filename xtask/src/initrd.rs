// SPDX-License-Identifier: GPL-2.0-only

//! The initial filesystem: the agent, and the modules that it needs to find the root.

use std::{
    fs,
    io::{self, Write},
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result};
use cpio::newc::{Builder, ModeFileType, trailer};

/// Writes the filesystem to `out`, with `agent` as `/init` and `modules` in the given order.
pub(crate) fn write(out: &Path, agent: &Path, modules: &[PathBuf]) -> Result<()> {
    let agent = fs::read(agent).with_context(|| format!("cannot read {}", agent.display()))?;
    let modules: Vec<Vec<u8>> = modules
        .iter()
        .map(|path| fs::read(path).with_context(|| format!("cannot read {}", path.display())))
        .collect::<Result<_>>()?;
    let file = fs::File::create(out).with_context(|| format!("cannot create {}", out.display()))?;
    let mut archive = Archive {
        to: io::BufWriter::new(file),
        inode: 1,
    };
    archive.directory("modules")?;
    archive.file("init", 0o755, &agent)?;
    for (number, module) in modules.iter().enumerate() {
        archive.file(&format!("modules/{number:03}.ko"), 0o644, module)?;
    }
    archive.finish()?;
    Ok(())
}

struct Archive<W: Write> {
    to: W,
    inode: u32,
}

impl<W: Write> Archive<W> {
    fn directory(&mut self, name: &str) -> io::Result<()> {
        let entry = self
            .entry(name, 0o755)
            .set_mode_file_type(ModeFileType::Directory);
        entry.write(&mut self.to, 0).finish().map(drop)
    }

    fn file(&mut self, name: &str, mode: u32, content: &[u8]) -> io::Result<()> {
        let len = u32::try_from(content.len()).map_err(io::Error::other)?;
        let entry = self
            .entry(name, mode)
            .set_mode_file_type(ModeFileType::Regular);
        let mut writer = entry.write(&mut self.to, len);
        writer.write_all(content)?;
        writer.finish().map(drop)
    }

    fn entry(&mut self, name: &str, mode: u32) -> Builder {
        self.inode += 1;
        Builder::new(name).ino(self.inode).nlink(1).mode(mode)
    }

    fn finish(mut self) -> io::Result<()> {
        trailer(&mut self.to)?;
        self.to.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_written_archive_can_be_read() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        fs::write(path("agent"), "program").unwrap();
        fs::write(path("a.ko"), "module").unwrap();
        write(&path("out"), &path("agent"), &[path("a.ko")]).unwrap();
        let mut file = io::Cursor::new(fs::read(path("out")).unwrap());
        let mut names = Vec::new();
        loop {
            let reader = cpio::NewcReader::new(file).unwrap();
            if reader.entry().is_trailer() {
                break;
            }
            names.push((reader.entry().name().to_owned(), reader.entry().file_size()));
            file = reader.finish().unwrap();
        }
        let expected = [("modules", 0), ("init", 7), ("modules/000.ko", 6)];
        assert_eq!(names, expected.map(|(name, size)| (name.to_owned(), size)));
    }
}
