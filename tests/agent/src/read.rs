// SPDX-License-Identifier: GPL-2.0-only

//! Reads of files, for their content or for the traffic.

use std::{
    fs::{File, OpenOptions},
    io::{self, Read as _, Seek as _, SeekFrom},
    os::unix::fs::OpenOptionsExt as _,
    time::Instant,
};

use anyhow::{Context as _, Result, bail};
use ddagent::{
    digest::Tree,
    protocol::{Read, ReadMode, Sum},
};
use memmap2::MmapOptions;
use walkdir::WalkDir;

/// Alignment of buffers and offsets for direct I/O.
const ALIGNMENT: usize = 4096;
/// Maximum block size, because a machine's memory is small.
const MAX_BLOCK: usize = 64 << 20;

/// Reads (part of) one file.
pub(crate) fn file(read: &Read) -> Result<Sum> {
    let block = read.block.clamp(1, MAX_BLOCK);
    if read.how == ReadMode::Direct && block % ALIGNMENT != 0 {
        bail!("direct reads need blocks that are multiples of {ALIGNMENT}");
    }
    let start = Instant::now();
    let mut hasher = read.digest.then(blake3::Hasher::new);
    let mut take = |part: &[u8]| {
        if let Some(hasher) = &mut hasher {
            hasher.update(part);
        }
    };
    let bytes = match read.how {
        ReadMode::Mmap => mapped(read, block, &mut take),
        ReadMode::Buffered | ReadMode::Direct => by_blocks(read, block, &mut take),
    }
    .with_context(|| format!("cannot read {}", read.path))?;
    Ok(Sum {
        files: 1,
        bytes,
        seconds: start.elapsed().as_secs_f64(),
        digest: hasher.map(|hasher| hasher.finalize().to_hex().to_string()),
    })
}

fn by_blocks(read: &Read, block: usize, take: &mut impl FnMut(&[u8])) -> io::Result<u64> {
    let direct = match read.how {
        ReadMode::Direct => rustix::fs::OFlags::DIRECT.bits() as i32,
        _ => 0,
    };
    let mut file = OpenOptions::new()
        .read(true)
        .custom_flags(direct)
        .open(&read.path)?;
    file.seek(SeekFrom::Start(read.offset))?;
    let mut room = vec![0; block + ALIGNMENT];
    let aligned = room.as_ptr().align_offset(ALIGNMENT);
    let buffer = &mut room[aligned..aligned + block];
    let mut left = read.len.unwrap_or(u64::MAX);
    let mut bytes = 0;
    while left > 0 {
        let want = usize::try_from(left).map_or(block, |left| left.min(block));
        let got = file.read(&mut buffer[..want])?;
        if got == 0 {
            break;
        }
        take(&buffer[..got]);
        bytes += got as u64;
        left -= got as u64;
    }
    Ok(bytes)
}

fn mapped(read: &Read, block: usize, take: &mut impl FnMut(&[u8])) -> io::Result<u64> {
    let file = File::open(&read.path)?;
    let rest = file.metadata()?.len().saturating_sub(read.offset);
    let len = read.len.map_or(rest, |len| len.min(rest));
    let Ok(size @ 1..) = usize::try_from(len) else {
        return Ok(0);
    };
    // SAFETY: the file is a test's, which does not shorten it during this request, and
    // other changes of its bytes are what the reader is to see.
    let map = unsafe {
        MmapOptions::new()
            .offset(read.offset)
            .len(size)
            .map(&file)?
    };
    for part in map.chunks(block) {
        // This faults the pages in even if no digest is computed.
        let touched: u64 = part
            .iter()
            .step_by(ALIGNMENT)
            .map(|&byte| u64::from(byte))
            .sum();
        std::hint::black_box(touched);
        take(part);
    }
    Ok(len)
}

/// Reads every regular file below a directory in path order.
pub(crate) fn tree(path: &str, digest: bool) -> Result<Sum> {
    let start = Instant::now();
    let mut tree = digest.then(Tree::new);
    let mut buffer = vec![0; 1 << 20];
    let mut sum = Sum {
        files: 0,
        bytes: 0,
        seconds: 0.0,
        digest: None,
    };
    for entry in WalkDir::new(path).sort_by_file_name() {
        let entry = entry?;
        if !entry.file_type().is_file() {
            continue;
        }
        let mut file = File::open(entry.path())?;
        if let Some(tree) = &mut tree {
            let relative = entry.path().strip_prefix(path)?;
            tree.file(&relative.to_string_lossy(), file.metadata()?.len());
        }
        sum.files += 1;
        loop {
            let got = file
                .read(&mut buffer)
                .with_context(|| format!("cannot read {}", entry.path().display()))?;
            if got == 0 {
                break;
            }
            sum.bytes += got as u64;
            if let Some(tree) = &mut tree {
                tree.content(&buffer[..got]);
            }
        }
    }
    sum.seconds = start.elapsed().as_secs_f64();
    sum.digest = tree.map(|tree| tree.finish());
    Ok(sum)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn read(path: &str, how: ReadMode, offset: u64, len: Option<u64>) -> Read {
        Read {
            path: path.to_owned(),
            offset,
            len,
            block: 4096,
            how,
            digest: true,
            cgroup: None,
        }
    }

    #[test]
    fn all_ways_see_the_same_bytes() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a");
        let content: Vec<u8> = (0..20_001_u32).map(|n| (n % 251) as u8).collect();
        fs::write(&path, &content).unwrap();
        let path = path.to_str().unwrap();
        let whole = blake3::hash(&content).to_hex().to_string();
        let part = blake3::hash(&content[4096..9000]).to_hex().to_string();
        for how in [ReadMode::Buffered, ReadMode::Mmap] {
            let sum = file(&read(path, how, 0, None)).unwrap();
            assert_eq!((sum.bytes, sum.digest.as_ref()), (20_001, Some(&whole)));
            let sum = file(&read(path, how, 4096, Some(4904))).unwrap();
            assert_eq!((sum.bytes, sum.digest.as_ref()), (4904, Some(&part)));
        }
    }

    #[test]
    fn a_tree_is_read_in_path_order() {
        let dir = tempfile::tempdir().unwrap();
        for (name, content) in [("b", "2"), ("a/y", "1"), ("a/x", "0")] {
            let path = dir.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, content).unwrap();
        }
        let mut expected = Tree::new();
        for (name, content) in [("a/x", "0"), ("a/y", "1"), ("b", "2")] {
            expected.file(name, 1);
            expected.content(content.as_bytes());
        }
        let sum = tree(dir.path().to_str().unwrap(), true).unwrap();
        assert_eq!((sum.files, sum.bytes), (3, 3));
        assert_eq!(sum.digest, Some(expected.finish()));
    }
}
