// SPDX-License-Identifier: GPL-2.0-only

//! Operations of guests and administrators, and the bytes of a guest's request.

use arbitrary::Arbitrary;
use ddabi::hypercall::Operation;
use ddabi::key::FileKey;
use ddabi::pool::SAME_WEIGHT;
use ddabi::request::{
    BODY, FlushRange, Hello, MAX_RUNS, MAY_RETAIN, MigrateBody, PoolBody, REQUEST_MAGIC,
    RequestHeader, Run,
};
use ddabi::{ABI_VERSION, NAME_LEN, PAGE_SIZE};
use ddcore::host::get::Frames;
use zerocopy::{FromBytes as _, Immutable, IntoBytes};

/// An operation or event. Numbers of VMs are taken modulo the number of VMs.
#[derive(Arbitrary, Debug)]
pub(crate) enum Call {
    /// A guest's request.
    Guest(u8, Sent),
    /// The administrator sets the capacity.
    Capacity(u8),
    /// The administrator sets the floor, which is kept even if the host is short of memory.
    Floor(u8),
    /// The administrator chooses whether victims are determined by weights or only by age.
    Mode(bool),
    /// The administrator flushes a VM.
    FlushVm(u8),
    /// Sets the number of frames that the host can spare.
    Spare(u16),
    /// The host reclaims frames through the shrinker.
    Shrink(u16),
    /// Memory for a VM's index becomes available or unavailable.
    IndexMemory(u8, bool),
    /// This number of milliseconds passes.
    Time(u8),
    /// The administrator sets a VM's weight.
    VmWeight(u8, u8),
    /// KVM destroys a VM.
    VmEnds(u8),
    /// The administrator sets a VM's weight in the SSD tier.
    VmSsdWeight(u8, u8),
    /// Pages of a pool move to the SSD tier.
    Demote(u8, u8, u8),
    /// Pages of a pool move to the memory tier.
    Promote(u8, u8, u8),
    /// A segment is evicted.
    EvictSegment,
    /// The administrator sets the number of pages that are kept free, and the number of free pages
    /// above which pages are promoted.
    Thresholds(u8, u8),
    /// One in this number of pages that are read from the device is lost.
    Damage(u8),
}

/// A request. There are only few files, indices and pools, so that requests often concern the same
/// ones.
#[derive(Arbitrary, Debug)]
pub(crate) enum Sent {
    Hello,
    Goodbye,
    Put(Vec<Pages>),
    Get(Vec<Pages>),
    /// A get after which pages of the SSD tier may stay.
    GetRetained(Vec<Pages>),
    Flush(Vec<Range>),
    PoolCreate(Pool),
    PoolSet(u8, Pool),
    PoolDestroy(u8),
    Migrate(u8, u8),
    /// With this sequence number instead of the next one.
    Numbered(u16),
    /// Any bytes, as the body of any operation.
    Noise(u8, u32, Vec<u8>),
}

#[derive(Arbitrary, Clone, Copy, Debug)]
pub(crate) struct Pages {
    file: u8,
    /// Page index. In files with large indices it is relative to the largest index that is kept.
    index: u16,
    pages: u8,
    pool: u8,
    class: u8,
    /// The page whose frame cannot be accessed, if there is one.
    fault: u8,
}

/// The frame of a guest that cannot be accessed.
const FAULTS: u64 = 1 << 20;

/// Returns whether a guest's frame can be accessed.
pub(crate) fn is_reachable(gfn: u64) -> bool {
    gfn != FAULTS
}

/// Returns the state of the frames of a run. Most can be written.
pub(crate) fn frames_of(run: &Run) -> Frames {
    match FAULTS.abs_diff(run.gfn) / 16 % 16 {
        12 => Frames::Untold,
        13 => Frames::Tracked,
        14 => Frames::Absent,
        15 => Frames::Reading,
        _ => Frames::Ready,
    }
}

#[derive(Arbitrary, Clone, Copy, Debug)]
pub(crate) struct Range {
    scope: u8,
    file: u8,
    first: u16,
    last: u16,
}

#[derive(Arbitrary, Clone, Copy, Debug)]
pub(crate) struct Pool {
    weight: u16,
    store: u8,
    policy: u8,
    /// Weight in the SSD tier; some numbers stand for [`SAME_WEIGHT`].
    ssd_weight: u16,
    ssd_admit: u8,
}

/// Returns a file in one of two filesystems. Every fourth file has pages around the largest index
/// that is kept.
fn file(number: u8) -> FileKey {
    FileKey {
        inode: u64::from(number % 8),
        filesystem: u32::from(number >> 3) % 2,
        generation: 0,
    }
}

fn index(of: u8, index: u16) -> u64 {
    const KEPT: u64 = 1 << 36;
    match of % 4 {
        0 => KEPT - 512 + u64::from(index % 1024),
        1 => u64::from(index) << 10,
        _ => u64::from(index % 2048),
    }
}

/// A request page of a guest in the layout in which the host reads it.
#[repr(C, align(8))]
pub(crate) struct Page([u8; PAGE_SIZE]);

impl Page {
    pub(crate) fn new(sent: &Sent, session: u64, sequence: u64) -> Self {
        let mut page = Self([0; PAGE_SIZE]);
        let (operation, count) = page.write(sent);
        let header = RequestHeader {
            magic: REQUEST_MAGIC,
            version: ABI_VERSION,
            operation,
            session,
            sequence,
            count,
            flags: match sent {
                Sent::GetRetained(_) => MAY_RETAIN,
                _ => 0,
            },
            ..RequestHeader::default()
        };
        page.0[..BODY].copy_from_slice(header.as_bytes());
        page
    }

    pub(crate) fn header(&self) -> RequestHeader {
        RequestHeader::read_from_prefix(&self.0)
            .expect("a page is longer")
            .0
    }

    pub(crate) fn body(&self, length: usize) -> &[u8] {
        &self.0[BODY..BODY + length]
    }

    fn put<T: IntoBytes + Immutable>(&mut self, elements: &[T]) -> u32 {
        let bytes = elements.as_bytes();
        self.0[BODY..BODY + bytes.len()].copy_from_slice(bytes);
        elements.len() as u32
    }

    /// Writes the body. Returns its operation and the number of its elements.
    fn write(&mut self, sent: &Sent) -> (u16, u32) {
        let one = |operation: Operation| operation as u16;
        match sent {
            Sent::Hello => {
                let hello = Hello {
                    page_size: PAGE_SIZE as u32,
                    ..Hello::default()
                };
                (one(Operation::Hello), self.put(&[hello]))
            }
            Sent::Goodbye => (one(Operation::Goodbye), 0),
            Sent::Numbered(_) => (one(Operation::Ping), 0),
            Sent::Put(pages) => (one(Operation::Put), self.put(&runs(pages, true))),
            Sent::Get(pages) | Sent::GetRetained(pages) => {
                (one(Operation::Get), self.put(&runs(pages, false)))
            }
            Sent::Flush(ranges) => {
                let ranges: Vec<_> = ranges.iter().take(MAX_RUNS).map(range).collect();
                (one(Operation::Flush), self.put(&ranges))
            }
            Sent::PoolCreate(settings) => {
                (one(Operation::PoolCreate), self.put(&[pool(0, *settings)]))
            }
            Sent::PoolSet(number, settings) => (
                one(Operation::PoolSet),
                self.put(&[pool(*number, *settings)]),
            ),
            Sent::PoolDestroy(number) => {
                let settings = Pool {
                    weight: 0,
                    store: 0,
                    policy: 0,
                    ssd_weight: 0,
                    ssd_admit: 0,
                };
                (
                    one(Operation::PoolDestroy),
                    self.put(&[pool(*number, settings)]),
                )
            }
            Sent::Migrate(of, to) => {
                let body = MigrateBody {
                    file: file(*of),
                    pool: u32::from(*to) % 6,
                    reserved: 0,
                };
                (one(Operation::Migrate), self.put(&[body]))
            }
            Sent::Noise(operation, count, bytes) => {
                let length = bytes.len().min(PAGE_SIZE - BODY);
                self.0[BODY..BODY + length].copy_from_slice(&bytes[..length]);
                (u16::from(*operation) % 13, *count)
            }
        }
    }
}

fn runs(pages: &[Pages], put: bool) -> Vec<Run> {
    let run = |pages: &Pages| Run {
        file: file(pages.file),
        index: index(pages.file, pages.index),
        // Most runs end before the first frame that cannot be accessed.
        gfn: FAULTS - 16 * u64::from(pages.fault),
        pool: u32::from(pages.pool) % 6,
        pages: 1 + u16::from(pages.pages % 80),
        class: if put { pages.class % 4 } else { 0 },
        reserved: 0,
    };
    pages.iter().take(MAX_RUNS).map(run).collect()
}

fn range(range: &Range) -> FlushRange {
    FlushRange {
        file: file(range.file),
        first: index(range.file, range.first),
        last: index(range.file, range.last),
        scope: u32::from(range.scope) % 5,
        reserved: 0,
    }
}

fn pool(number: u8, settings: Pool) -> PoolBody {
    PoolBody {
        pool: u32::from(number) % 6,
        weight: settings.weight.into(),
        store: u32::from(settings.store) % 5,
        policy: u32::from(settings.policy) % 8,
        ssd_weight: match settings.ssd_weight {
            weight if weight % 4 == 3 => SAME_WEIGHT,
            weight => weight.into(),
        },
        ssd_admit: u32::from(settings.ssd_admit) % 3,
        name_len: 4,
        name: [b'p'; NAME_LEN],
    }
}
