// SPDX-License-Identifier: GPL-2.0-only

//! Parser of requests. The host copies a request page once, because the guest can change it at any
//! time. The copy is checked here and converted to types that have only valid values.

use crate::policy::Policy;
use crate::speculation::{confine, part};
use ddabi::hypercall::{Operation, Status};
use ddabi::key::{FileKey, MAX_INDEX};
use ddabi::name::Name;
use ddabi::pool::{
    SsdAdmit, Store, DEFAULT_POOL, DEFAULT_WEIGHT, MAX_POOLS, MAX_WEIGHT, SAME_WEIGHT,
};
use ddabi::request::{
    FlushRange, FlushScope, Hello, MigrateBody, PoolBody, RequestHeader, Run, BODY, CLASSES,
    MAX_PAGES, MAX_RUNS, MAY_DEFER, MAY_RETAIN, REQUEST_MAGIC,
};
use ddabi::{ABI_VERSION, NAME_LEN, PAGE_SIZE};
use zerocopy::{FromBytes, Immutable, KnownLayout};

/// The largest frame number, because guest-physical addresses have at most 52 bits.
const MAX_GFN: u64 = (1 << 40) - 1;

/// Size of the largest body in bytes.
pub const MAX_BODY: usize = PAGE_SIZE - BODY;

/// A header with valid magic, version and reserved fields.
#[derive(Clone, Copy, Debug)]
pub struct Header {
    /// The operation.
    pub operation: Operation,
    /// The session in the request, which is not checked here.
    pub session: u64,
    /// The sequence number in the session.
    pub sequence: u64,
    count: usize,
    options: GetOptions,
}

/// What a guest allows and requests in a get.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct GetOptions {
    /// Whether the host may begin to read pages instead of waiting for them.
    pub may_defer: bool,
    /// Whether the SSD tier may keep the pages that it returns.
    pub may_retain: bool,
    /// The ticket of a get that was deferred, or 0.
    pub ticket: u64,
}

impl Header {
    /// Checks a header. The error is the status of the call.
    pub fn parse(raw: &RequestHeader) -> Result<Self, Status> {
        if raw.magic != REQUEST_MAGIC {
            return Err(Status::Invalid);
        }
        if raw.version != ABI_VERSION {
            return Err(Status::Unsupported);
        }
        let operation = Operation::from_raw(raw.operation).ok_or(Status::Unsupported)?;
        let limit = match operation {
            Operation::Put | Operation::Get | Operation::Flush => MAX_RUNS,
            _ => 1,
        };
        let count = raw.count as usize;
        let is_get = operation == Operation::Get;
        let flags = if is_get { MAY_DEFER | MAY_RETAIN } else { 0 };
        let is_valid = raw.flags & !flags == 0 && (is_get || raw.ticket == 0);
        if !is_valid || raw.reserved != [0; 3] || count > limit {
            return Err(Status::Invalid);
        }
        Ok(Self {
            operation,
            session: raw.session,
            sequence: raw.sequence,
            count,
            options: GetOptions {
                may_defer: raw.flags & MAY_DEFER != 0,
                may_retain: raw.flags & MAY_RETAIN != 0,
                ticket: raw.ticket,
            },
        })
    }

    /// Returns the size of the body in bytes, which is at most [`MAX_BODY`].
    pub fn body_len(&self) -> usize {
        match self.operation {
            Operation::Goodbye | Operation::Ping => 0,
            Operation::Hello => size_of::<Hello>(),
            Operation::Put | Operation::Get => self.count * size_of::<Run>(),
            Operation::Flush => self.count * size_of::<FlushRange>(),
            Operation::Migrate => size_of::<MigrateBody>(),
            Operation::PoolCreate
            | Operation::PoolSet
            | Operation::PoolDestroy
            | Operation::PoolStats => size_of::<PoolBody>(),
        }
    }
}

/// Runs that are within all bounds.
///
/// # Invariants
///
/// Every run has at least one page, and together they have `pages` pages, at most [`MAX_PAGES`].
/// Indices, frames, pools and classes are within their bounds.
#[derive(Clone, Copy, Debug)]
pub struct Runs<'a> {
    runs: &'a [Run],
    pages: u32,
}

impl<'a> Runs<'a> {
    /// Checks runs whose classes must be below `classes`.
    fn parse(body: &'a [u8], classes: usize) -> Result<Self, Status> {
        let runs = <[Run]>::ref_from_bytes(body).map_err(|_| Status::Invalid)?;
        let mut pages = 0u64;
        for run in runs {
            let count = u64::from(run.pages);
            pages += count;
            let valid = count > 0
                && pages <= u64::from(MAX_PAGES)
                && run.index <= MAX_INDEX
                && run.index + count - 1 <= MAX_INDEX
                && run.gfn <= MAX_GFN
                && run.gfn + count - 1 <= MAX_GFN
                && run.pool < MAX_POOLS
                && usize::from(run.class) < classes
                && run.reserved == 0;
            if !valid {
                return Err(Status::Invalid);
            }
        }
        // INVARIANT: Just checked.
        let pages = confine(pages as usize, MAX_PAGES as usize + 1) as u32;
        Ok(Self { runs, pages })
    }

    /// Returns the runs.
    pub fn iter(&self) -> Iter<'a> {
        Iter(self.runs.iter())
    }

    /// Returns the number of pages of all runs.
    pub const fn pages(&self) -> u32 {
        self.pages
    }

    /// Returns the runs, each with the position of its first page among all pages.
    pub fn placed(&self) -> Placed<'a> {
        Placed {
            runs: self.iter(),
            next: 0,
        }
    }

    /// Returns the first run.
    pub fn first(&self) -> Option<Run> {
        self.runs.first().map(confined)
    }

    /// Returns run number `turn`, modulo the number of runs.
    pub fn in_turn(&self, turn: u64) -> Option<Run> {
        let turn = turn.checked_rem(self.runs.len() as u64)? as usize;
        self.runs.get(turn).map(confined)
    }
}

/// Iterator over the runs of a request. It is a named type because the names of adapters around
/// closures exceed the kernel's limit for symbol names.
#[derive(Clone, Debug)]
pub struct Iter<'a>(core::slice::Iter<'a, Run>);

impl Iterator for Iter<'_> {
    type Item = Run;

    #[inline]
    fn next(&mut self) -> Option<Run> {
        self.0.next().map(confined)
    }
}

/// Iterator over the runs of a request, each with the position of its first page among all pages.
#[derive(Clone, Debug)]
pub struct Placed<'a> {
    runs: Iter<'a>,
    next: usize,
}

impl Iterator for Placed<'_> {
    type Item = (Run, usize);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        let mut run = self.runs.next()?;
        let part = part(self.next, usize::from(run.pages), MAX_PAGES as usize);
        run.pages = part.len() as u16;
        self.next = part.end;
        Some((run, part.start))
    }
}

/// Confines the numbers of a run to their bounds, even under speculation.
fn confined(run: &Run) -> Run {
    Run {
        pool: confine(run.pool as usize, MAX_POOLS as usize) as u32,
        pages: confine(usize::from(run.pages), MAX_PAGES as usize + 1) as u16,
        class: confine(usize::from(run.class), CLASSES) as u8,
        ..*run
    }
}

/// Checks that the number of a pool is within its bound. The pool need not exist.
fn pool(number: u32) -> Result<u32, Status> {
    if number >= MAX_POOLS {
        return Err(Status::NoPool);
    }
    Ok(confine(number as usize, MAX_POOLS as usize) as u32)
}

/// The pages that a flush covers.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Range {
    /// Pages of a file.
    Pages {
        /// The file.
        file: FileKey,
        /// Index of the first page, not above `last`.
        first: u64,
        /// Index of the last page, at most [`MAX_INDEX`].
        last: u64,
    },
    /// A file.
    File(FileKey),
    /// A filesystem instance.
    Filesystem(u32),
    /// All pages of the VM.
    All,
}

impl Range {
    fn parse(raw: &FlushRange) -> Result<Self, Status> {
        if raw.reserved != 0 {
            return Err(Status::Invalid);
        }
        match FlushScope::from_raw(raw.scope).ok_or(Status::Invalid)? {
            FlushScope::Pages if raw.first > raw.last || raw.first > MAX_INDEX => {
                Err(Status::Invalid)
            }
            FlushScope::Pages => Ok(Self::Pages {
                file: raw.file,
                first: raw.first,
                last: raw.last.min(MAX_INDEX),
            }),
            FlushScope::File => Ok(Self::File(raw.file)),
            FlushScope::Filesystem => Ok(Self::Filesystem(raw.file.filesystem)),
            FlushScope::All => Ok(Self::All),
        }
    }
}

/// Flush ranges that are all valid.
///
/// # Invariants
///
/// `Range::parse` succeeds for each.
#[derive(Clone, Copy, Debug)]
pub struct Ranges<'a>(&'a [FlushRange]);

impl<'a> Ranges<'a> {
    fn parse(body: &'a [u8]) -> Result<Self, Status> {
        let ranges = <[FlushRange]>::ref_from_bytes(body).map_err(|_| Status::Invalid)?;
        for range in ranges {
            Range::parse(range)?;
        }
        // INVARIANT: Just checked.
        Ok(Self(ranges))
    }

    /// Returns the ranges.
    pub fn iter(&self) -> impl Iterator<Item = Range> + 'a {
        self.0.iter().filter_map(|range| Range::parse(range).ok())
    }
}

/// Settings of a pool.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Settings {
    /// Weight among the VM's pools, at most [`MAX_WEIGHT`].
    pub weight: u32,
    /// Weight in the SSD tier, at most [`MAX_WEIGHT`], or [`SAME_WEIGHT`] if it is `weight`.
    pub ssd_weight: u32,
    /// The store of its pages.
    pub store: Store,
    /// The policy of its container. The host evicts pages in the order of this policy.
    pub policy: Policy,
    /// Which of its pages go to the SSD tier.
    pub ssd_admit: SsdAdmit,
}

impl Settings {
    /// Settings of the default pool until the guest changes them.
    pub const DEFAULT: Self = Self {
        weight: DEFAULT_WEIGHT,
        ssd_weight: SAME_WEIGHT,
        store: Store::Memory,
        policy: Policy::DEFAULT,
        ssd_admit: SsdAdmit::All,
    };

    /// Returns whether the pool may have pages in any tier.
    pub fn is_on(&self) -> bool {
        self.share() > 0 || self.ssd_share() > 0
    }

    /// Returns the weight with which the memory tier is divided, which is 0 if the pool may not
    /// have pages there.
    pub fn share(&self) -> u32 {
        match self.store {
            Store::Memory | Store::Hybrid => self.weight,
            Store::Ssd | Store::None => 0,
        }
    }

    /// Returns the weight with which the SSD tier is divided, which is 0 if the pool may not have
    /// pages there.
    pub fn ssd_share(&self) -> u32 {
        match self.store {
            Store::Ssd | Store::Hybrid => self.ssd_weight(),
            Store::Memory | Store::None => 0,
        }
    }

    /// Returns its weight in the SSD tier, whether or not it may have pages there.
    pub const fn ssd_weight(&self) -> u32 {
        match self.ssd_weight {
            SAME_WEIGHT => self.weight,
            weight => weight,
        }
    }

    fn parse(body: &PoolBody) -> Result<Self, Status> {
        let is_valid = |weight| weight <= MAX_WEIGHT;
        let is_same = body.ssd_weight == SAME_WEIGHT;
        if !is_valid(body.weight) || !is_same && !is_valid(body.ssd_weight) {
            return Err(Status::Invalid);
        }
        Ok(Self {
            weight: body.weight,
            ssd_weight: body.ssd_weight,
            store: Store::from_raw(body.store).ok_or(Status::Invalid)?,
            policy: Policy::from_raw(body.policy).ok_or(Status::Invalid)?,
            ssd_admit: SsdAdmit::from_raw(body.ssd_admit).ok_or(Status::Invalid)?,
        })
    }
}

/// A request. All numbers are within their bounds, but pools need not exist.
#[derive(Clone, Copy, Debug)]
pub enum Request<'a> {
    /// Register, with the features that the guest supports.
    Hello(u64),
    /// End the session.
    Goodbye,
    /// Fetch eviction notices.
    Ping,
    /// Store runs.
    Put(Runs<'a>),
    /// Return runs, which are removed from the index.
    Get(Runs<'a>, GetOptions),
    /// Free ranges.
    Flush(Ranges<'a>),
    /// Create a pool.
    PoolCreate(Settings, Name),
    /// Change the settings of a pool.
    PoolSet(u32, Settings),
    /// Destroy a pool other than the default one.
    PoolDestroy(u32),
    /// Move a file's pages to a pool.
    Migrate(FileKey, u32),
    /// Return the statistics of a pool.
    PoolStats(u32),
}

impl<'a> Request<'a> {
    /// Checks a body of [`Header::body_len`] bytes.
    pub fn parse(header: &Header, body: &'a [u8]) -> Result<Self, Status> {
        Ok(match header.operation {
            Operation::Hello => {
                let hello = whole::<Hello>(body)?;
                if hello.page_size as usize != PAGE_SIZE {
                    return Err(Status::Unsupported);
                }
                if hello.reserved != 0 {
                    return Err(Status::Invalid);
                }
                Self::Hello(hello.features)
            }
            Operation::Goodbye => Self::Goodbye,
            Operation::Ping => Self::Ping,
            Operation::Put => Self::Put(Runs::parse(body, CLASSES)?),
            Operation::Get => Self::Get(Runs::parse(body, 1)?, header.options),
            Operation::Flush => Self::Flush(Ranges::parse(body)?),
            Operation::PoolCreate => {
                let pool = whole::<PoolBody>(body)?;
                let len = pool.name_len as usize;
                if len > NAME_LEN {
                    return Err(Status::Invalid);
                }
                Self::PoolCreate(Settings::parse(pool)?, Name::new(&pool.name[..len]))
            }
            Operation::PoolSet => {
                let body = whole::<PoolBody>(body)?;
                Self::PoolSet(pool(body.pool)?, Settings::parse(body)?)
            }
            Operation::PoolDestroy => {
                let number = whole::<PoolBody>(body)?.pool;
                if number == DEFAULT_POOL {
                    return Err(Status::Invalid);
                }
                Self::PoolDestroy(pool(number)?)
            }
            Operation::Migrate => {
                let body = whole::<MigrateBody>(body)?;
                if body.reserved != 0 {
                    return Err(Status::Invalid);
                }
                Self::Migrate(body.file, pool(body.pool)?)
            }
            Operation::PoolStats => Self::PoolStats(pool(whole::<PoolBody>(body)?.pool)?),
        })
    }
}

fn whole<T: FromBytes + KnownLayout + Immutable>(body: &[u8]) -> Result<&T, Status> {
    T::ref_from_bytes(body).map_err(|_| Status::Invalid)
}

const _: () = assert!(MAX_RUNS * size_of::<Run>() <= MAX_BODY);
const _: () = assert!(size_of::<FlushRange>() == size_of::<Run>());

#[cfg(test)]
mod tests;
