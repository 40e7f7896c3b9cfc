// SPDX-License-Identifier: GPL-2.0

//! What a guest asks for. Its words are an allegation: they are copied once, checked once, and
//! become types that cannot be wrong.

use crate::pool::{Name, Settings};
use ddabi::hypercall::{Operation, Status};
use ddabi::key::{FileKey, MAX_INDEX};
use ddabi::pool::{Store, DEFAULT_POOL, MAX_POOLS, MAX_WEIGHT};
use ddabi::request::{
    FlushRange, FlushScope, Hello, MigrateBody, PoolBody, RequestHeader, Run, BODY, MAX_PAGES,
    MAX_RUNS, REQUEST_MAGIC,
};
use ddabi::{ABI_VERSION, NAME_LEN, PAGE_SIZE};
use zerocopy::FromBytes;

/// Largest frame number: guest-physical addresses have at most 52 bits.
const MAX_GFN: u64 = (1 << 40) - 1;

/// Bytes of the largest body.
pub(crate) const MAX_BODY: usize = PAGE_SIZE - BODY;

/// A header whose magic, version and zero fields are right.
pub(crate) struct Header {
    pub(crate) operation: Operation,
    pub(crate) session: u64,
    pub(crate) sequence: u64,
    count: usize,
}

impl Header {
    /// Checks a header.
    pub(crate) fn parse(raw: &RequestHeader) -> Result<Self, Status> {
        if raw.magic != REQUEST_MAGIC {
            return Err(Status::Invalid);
        }
        if raw.version != ABI_VERSION {
            return Err(Status::Unsupported);
        }
        let operation = Operation::from_raw(raw.operation).ok_or(Status::Unsupported)?;
        let most = match operation {
            Operation::Put | Operation::Get | Operation::Flush => MAX_RUNS,
            _ => 1,
        };
        let count = raw.count as usize;
        if raw.flags != 0 || raw.reserved != [0; 4] || count > most {
            return Err(Status::Invalid);
        }
        Ok(Self {
            operation,
            session: raw.session,
            sequence: raw.sequence,
            count,
        })
    }

    /// Bytes of the body; at most [`MAX_BODY`].
    pub(crate) fn body_len(&self) -> usize {
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
/// Every run has a page, together they have at most [`MAX_PAGES`]; indices, frames and pools are
/// within their bounds.
pub(crate) struct Runs<'a>(&'a [Run]);

impl<'a> Runs<'a> {
    fn parse(body: &'a [u8]) -> Result<Self, Status> {
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
                && run.pool < MAX_POOLS;
            if !valid {
                return Err(Status::Invalid);
            }
        }
        // INVARIANT: Just checked.
        Ok(Self(runs))
    }

    /// The runs.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &'a Run> {
        self.0.iter()
    }

    /// The first run.
    pub(crate) fn first(&self) -> Option<&'a Run> {
        self.0.first()
    }
}

/// What a flush covers.
pub(crate) enum Range {
    /// `first <= last <= MAX_INDEX`.
    Pages {
        file: FileKey,
        first: u64,
        last: u64,
    },
    File(FileKey),
    Filesystem(u32),
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
pub(crate) struct Ranges<'a>(&'a [FlushRange]);

impl<'a> Ranges<'a> {
    fn parse(body: &'a [u8]) -> Result<Self, Status> {
        let ranges = <[FlushRange]>::ref_from_bytes(body).map_err(|_| Status::Invalid)?;
        for range in ranges {
            Range::parse(range)?;
        }
        // INVARIANT: Just checked.
        Ok(Self(ranges))
    }

    /// The ranges.
    pub(crate) fn iter(&self) -> impl Iterator<Item = Range> + 'a {
        self.0.iter().filter_map(|range| Range::parse(range).ok())
    }
}

/// A request; whatever it contains is within its bounds.
pub(crate) enum Request<'a> {
    Hello,
    Goodbye,
    Ping,
    Put(Runs<'a>),
    Get(Runs<'a>),
    Flush(Ranges<'a>),
    PoolCreate(Settings, Name),
    PoolSet(u32, Settings),
    PoolDestroy(u32),
    Migrate(FileKey, u32),
    PoolStats(u32),
}

impl<'a> Request<'a> {
    /// Checks a body of [`Header::body_len`] bytes.
    pub(crate) fn parse(header: &Header, body: &'a [u8]) -> Result<Self, Status> {
        Ok(match header.operation {
            Operation::Hello => {
                let hello = whole::<Hello>(body)?;
                if hello.page_size as usize != PAGE_SIZE {
                    return Err(Status::Unsupported);
                }
                if hello.reserved != 0 {
                    return Err(Status::Invalid);
                }
                Self::Hello
            }
            Operation::Goodbye => Self::Goodbye,
            Operation::Ping => Self::Ping,
            Operation::Put => Self::Put(Runs::parse(body)?),
            Operation::Get => Self::Get(Runs::parse(body)?),
            Operation::Flush => Self::Flush(Ranges::parse(body)?),
            Operation::PoolCreate => {
                let pool = whole::<PoolBody>(body)?;
                let len = pool.name_len as usize;
                if len > NAME_LEN {
                    return Err(Status::Invalid);
                }
                Self::PoolCreate(settings(pool)?, Name::new(&pool.name[..len]))
            }
            Operation::PoolSet => {
                let pool = whole::<PoolBody>(body)?;
                Self::PoolSet(pool.pool, settings(pool)?)
            }
            Operation::PoolDestroy => {
                let pool = whole::<PoolBody>(body)?.pool;
                if pool == DEFAULT_POOL {
                    return Err(Status::Invalid);
                }
                Self::PoolDestroy(pool)
            }
            Operation::Migrate => {
                let body = whole::<MigrateBody>(body)?;
                if body.reserved != 0 {
                    return Err(Status::Invalid);
                }
                Self::Migrate(body.file, body.pool)
            }
            Operation::PoolStats => Self::PoolStats(whole::<PoolBody>(body)?.pool),
        })
    }
}

fn whole<T: FromBytes + zerocopy::KnownLayout + zerocopy::Immutable>(
    body: &[u8],
) -> Result<&T, Status> {
    T::ref_from_bytes(body).map_err(|_| Status::Invalid)
}

fn settings(body: &PoolBody) -> Result<Settings, Status> {
    if body.weight > MAX_WEIGHT {
        return Err(Status::Invalid);
    }
    Ok(Settings {
        weight: body.weight,
        store: Store::from_raw(body.store).ok_or(Status::Invalid)?,
    })
}

const _: () = assert!(MAX_RUNS * size_of::<Run>() <= MAX_BODY);
const _: () = assert!(size_of::<FlushRange>() == size_of::<Run>());
