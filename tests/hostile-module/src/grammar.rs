// SPDX-License-Identifier: GPL-2.0-only

//! The grammar of requests: mostly valid ones, and sometimes values at a limit or beyond it.

use crate::draft::Draft;
use crate::plan::{self, Frames};
use crate::random::Random;
use ddabi::hypercall::Operation;
use ddabi::key::{mix, FileKey, MAX_INDEX};
use ddabi::pool::{Store, DEFAULT_POOL, MAX_POOLS, MAX_WEIGHT};
use ddabi::request::{
    FlushRange, Hello, MigrateBody, PoolBody, Run, MAX_PAGES, MAX_RUNS, MAY_DEFER, MAY_RETAIN,
};
use ddabi::{NAME_LEN, PAGE_SIZE};

/// Kinds of requests.
#[derive(Clone, Copy, Eq, PartialEq)]
pub(crate) enum Kind {
    /// Random bytes.
    Noise,
    /// Valid requests, whose pages are checked when they come back.
    Orders,
    /// Valid requests with a few bytes changed.
    Mutants,
    /// Sessions and sequence numbers: replayed, jumping, extreme.
    Numbers,
    /// Registering and leaving repeatedly.
    Storms,
    /// Pools, weights, names, migration, and pages in the maximum number of pools.
    Pools,
    /// All processors write one block while each sends it.
    Crowd,
    /// As many requests as possible: short ones, and wild addresses and registers.
    Floods,
    /// Frames in memory that is plugged in and unplugged, between valid requests.
    Moving,
}

/// Each kind with its part of the mixture, in percent.
const KINDS: [(Kind, u64); 9] = [
    (Kind::Noise, 5),
    (Kind::Orders, 30),
    (Kind::Mutants, 15),
    (Kind::Numbers, 5),
    (Kind::Storms, 3),
    (Kind::Pools, 10),
    (Kind::Crowd, 10),
    (Kind::Floods, 22),
    // This one needs such memory.
    (Kind::Moving, 0),
];

impl Kind {
    /// Returns the kind that the module's parameter selects, or a random one.
    pub(crate) fn next(rng: &mut Random) -> Self {
        if let Some((kind, _)) = KINDS.get((plan::mode() as usize).wrapping_sub(1)) {
            return *kind;
        }
        let mut rest = rng.below(100);
        for (kind, weight) in KINDS {
            if rest < weight {
                return kind;
            }
            rest -= weight;
        }
        Self::Orders
    }

    /// Returns how many requests of the kind follow each other.
    pub(crate) fn burst(self) -> i64 {
        match self {
            Self::Orders => 512,
            Self::Storms | Self::Numbers => 8,
            _ => 64,
        }
    }
}

/// Files below this filesystem number contain only pages of this guest's frames.
const OWN_FILESYSTEMS: u64 = 2;

/// Filesystem number of pages that were put from anywhere in the guest's memory.
const WILD_FILESYSTEM: u32 = 0x1000;

/// Filesystem number of pages that were put from memory that is plugged in and unplugged.
const MOVING_FILESYSTEM: u32 = 0x2000;

fn file(rng: &mut Random) -> FileKey {
    FileKey {
        inode: rng.below(8),
        filesystem: rng.below(OWN_FILESYSTEMS) as u32,
        generation: 0,
    }
}

/// Returns a file that no filesystem has, or that many have.
fn odd_file(rng: &mut Random) -> FileKey {
    FileKey {
        inode: match rng.below(3) {
            0 => 0,
            1 => u64::MAX,
            _ => rng.next(),
        },
        filesystem: WILD_FILESYSTEM,
        generation: rng.next() as u32,
    }
}

/// A valid run of a worker's own frames.
#[derive(Clone, Copy)]
pub(crate) struct Order {
    /// Its first page in the arena.
    pub(crate) first: u64,
    /// The run as sent to the host.
    pub(crate) run: Run,
}

impl Order {
    /// Returns the pages of the arena, each with its content.
    pub(crate) fn pages(&self) -> impl Iterator<Item = (u64, [u64; 2])> {
        let Self { first, run } = *self;
        (0..u64::from(run.pages)).map(move |at| {
            let key = run.file.hash() ^ mix(run.index + at);
            (first + at, [MARK ^ plan::seed(), key])
        })
    }
}

const MARK: u64 = u64::from_le_bytes(*b"hostile!");

/// Composes a put or a get of a pool.
pub(crate) fn order(
    draft: &mut Draft,
    rng: &mut Random,
    operation: Operation,
    own: Frames,
    pool: u32,
) -> Order {
    let file = file(rng);
    // Keys are few, so that they are used again.
    let index = rng.below(64) * 16;
    let pages = match rng.below(64) {
        0 => 64,
        1..4 => 16,
        _ => 1 + rng.below(2),
    };
    let first = own.first + rng.below(own.count.saturating_sub(pages));
    let run = Run {
        file,
        index,
        gfn: frame(first),
        pool,
        pages: pages as u16,
        class: worth(rng),
        ..Run::default()
    };
    draft.begin(operation);
    draft.push(&run);
    if operation == Operation::Get {
        defer(draft, rng);
    }
    Order { first, run }
}

/// Lets the host defer a get, now and then with the ticket of one that it has deferred for any task
/// of this guest, and lets it keep the pages.
fn defer(draft: &mut Draft, rng: &mut Random) {
    let ticket = match rng.below(8) {
        0..5 => 0,
        5..7 => rng.below(4096),
        _ => rng.next(),
    };
    let flags = rng.below(2) as u32 * MAY_DEFER | rng.below(2) as u32 * MAY_RETAIN;
    draft.defer(flags, ticket);
}

/// Composes a request that a good guest could send, sometimes at the limits. Its result is not
/// checked.
pub(crate) fn sentence(draft: &mut Draft, rng: &mut Random, frames: Frames) {
    match rng.below(8) {
        0..3 => runs(draft, rng, Operation::Put, frames),
        3..5 => runs(draft, rng, Operation::Get, frames),
        5 => flush(draft, rng),
        6 => pool(draft, rng),
        _ => draft.begin(Operation::Ping),
    }
}

/// Composes runs at the limits and beyond them.
pub(crate) fn runs(draft: &mut Draft, rng: &mut Random, operation: Operation, frames: Frames) {
    let count = match rng.below(8) {
        0 => MAX_RUNS as u64,
        1 => 0,
        _ => 1 + rng.below(4),
    };
    draft.begin(operation);
    for _ in 0..count {
        let run = Run {
            file: odd_file(rng),
            index: index(rng),
            gfn: frame(frames.first + rng.below(frames.count)),
            pool: number_of_pool(rng),
            pages: pages(rng),
            class: class(rng),
            reserved: u8::from(rng.once_in(64)),
        };
        draft.push(&run);
    }
    if operation == Operation::Get {
        defer(draft, rng);
    }
}

/// Composes a put from any address: memory, devices, or no memory. The host only reads there.
pub(crate) fn wild_put(draft: &mut Draft, rng: &mut Random) {
    draft.begin(Operation::Put);
    for _ in 0..1 + rng.below(4) {
        let gfn = address(rng) / PAGE_SIZE as u64;
        let run = Run {
            file: odd_file(rng),
            index: rng.below(MAX_INDEX),
            gfn,
            pool: 0,
            pages: 1 + rng.below(64) as u16,
            ..Run::default()
        };
        draft.push(&run);
    }
}

/// Composes a get into addresses without memory, which the host must not try to write.
pub(crate) fn wild_get(draft: &mut Draft, rng: &mut Random) {
    draft.begin(Operation::Get);
    let run = Run {
        file: file(rng),
        index: rng.below(256) * 16,
        gfn: rng.one_of(&[1 << 30, 1 << 36, (1 << 40) - 1, 1 << 40, u64::MAX]),
        pool: 0,
        pages: 1 + rng.below(4) as u16,
        ..Run::default()
    };
    draft.push(&run);
}

/// Composes a put from memory that is plugged in and unplugged, or a get into it, of pages that
/// exist or not.
pub(crate) fn moving(draft: &mut Draft, rng: &mut Random) {
    let put = rng.once_in(2);
    draft.begin(if put { Operation::Put } else { Operation::Get });
    for _ in 0..1 + rng.below(4) {
        // Content from there is not checked, so that it has separate files.
        let file = if put || rng.once_in(2) {
            FileKey {
                filesystem: MOVING_FILESYSTEM,
                ..file(rng)
            }
        } else {
            file(rng)
        };
        let run = Run {
            file,
            index: rng.below(64) * 16,
            gfn: plan::moving_frame(rng.below(plan::moving())),
            pool: 0,
            pages: 1 + rng.below(64) as u16,
            class: worth(rng),
            ..Run::default()
        };
        draft.push(&run);
    }
}

/// Composes ranges of all scopes: reversed, endless, overlapping.
pub(crate) fn flush(draft: &mut Draft, rng: &mut Random) {
    draft.begin(Operation::Flush);
    let many = rng.once_in(16);
    for _ in 0..if many { MAX_RUNS as u64 } else { 1 } {
        let first = index(rng);
        let range = FlushRange {
            file: if rng.once_in(2) {
                file(rng)
            } else {
                odd_file(rng)
            },
            first,
            last: match rng.below(4) {
                0 => u64::MAX,
                1 => index(rng),
                _ => first.wrapping_add(rng.below(2048)),
            },
            // The whole VM is flushed rarely, or there would be few pages.
            scope: if rng.once_in(64) {
                rng.below(5) as u32
            } else {
                rng.below(2) as u32
            },
            reserved: 0,
        };
        draft.push(&range);
    }
}

/// Puts the pages of the default pool in both tiers, or on devices only. If all requests are of one
/// kind, the session is long, and a device that has failed must not end the test of the memory
/// tier.
pub(crate) fn default_pool_on_device(draft: &mut Draft, rng: &mut Random) {
    let store = if plan::mode() == 0 && rng.once_in(2) {
        Store::Ssd
    } else {
        Store::Hybrid
    };
    draft.begin(Operation::PoolSet);
    draft.push(&PoolBody {
        pool: DEFAULT_POOL,
        weight: 100,
        store: store as u32,
        policy: 0,
        ssd_weight: 100,
        ssd_admit: rng.below(2) as u32,
        name_len: 0,
        name: [0; NAME_LEN],
    });
}

/// Composes any operation on pools.
pub(crate) fn pool(draft: &mut Draft, rng: &mut Random) {
    // A fifth of the operations create pools, more than destroy them. A migration moves a whole
    // file, which is in one pool afterwards.
    let operation = match rng.below(64) {
        0..36 => Operation::PoolCreate,
        36..44 => Operation::PoolSet,
        44..48 => Operation::PoolDestroy,
        48 => Operation::Migrate,
        _ => Operation::PoolStats,
    };
    draft.begin(operation);
    if operation == Operation::Migrate {
        draft.push(&MigrateBody {
            file: file(rng),
            pool: number_of_pool(rng),
            reserved: u32::from(rng.once_in(16)),
        });
        return;
    }
    let limit = u64::from(MAX_WEIGHT);
    let mut name = [0; NAME_LEN];
    for byte in &mut name {
        *byte = rng.next() as u8;
    }
    draft.push(&PoolBody {
        pool: number_of_pool(rng),
        weight: rng.one_of(&[0, 1, 100, limit, limit + 1, u64::from(u32::MAX)]) as u32,
        store: rng.one_of(&[1, 1, 1, 0, 2, 3, 3, u64::from(u32::MAX)]) as u32,
        policy: rng.one_of(&[0, 1, 2, 3, 4, 5, 6, u64::from(u32::MAX)]) as u32,
        ssd_weight: rng.one_of(&[0, 1, 100, limit, limit + 1, u64::from(u32::MAX)]) as u32,
        ssd_admit: rng.one_of(&[0, 0, 1, 1, 2, u64::from(u32::MAX)]) as u32,
        name_len: rng.one_of(&[0, 1, 64, 65, u64::from(u32::MAX)]) as u32,
        name,
    });
}

/// Composes a registration, which is rarely a wrong one.
pub(crate) fn hello(draft: &mut Draft, rng: &mut Random) {
    draft.begin_as(Operation::Hello, 0, rng.next());
    let odd = rng.once_in(8);
    draft.push(&Hello {
        features: rng.next(),
        page_size: if odd {
            rng.next() as u32
        } else {
            PAGE_SIZE as u32
        },
        reserved: u32::from(odd && rng.once_in(2)),
    });
}

/// Composes a request with a late, early, repeated or unknown session and number. Returns whether
/// it may be executed at all, which is impossible for a session that never existed (they are random
/// numbers of 64 bits) and for a number before the first.
pub(crate) fn numbers(draft: &mut Draft, rng: &mut Random) -> bool {
    let now = plan::sequence();
    let sequence = match rng.below(6) {
        0 => 0,
        1 => now.saturating_sub(rng.below(2048)),
        2 => now + rng.below(4096),
        3 => u64::MAX,
        4 => now,
        _ => rng.next(),
    };
    let (session, was_there) = match rng.below(6) {
        0 => (rng.next(), false),
        1 => (plan::session().wrapping_add(1), false),
        _ => (plan::session(), true),
    };
    draft.begin_as(Operation::Ping, session, sequence);
    was_there && sequence > 0
}

/// Changes a few bytes anywhere in header and body.
pub(crate) fn mutate(draft: &mut Draft, rng: &mut Random) {
    for _ in 0..1 + rng.below(3) {
        let at = rng.below(draft.as_bytes().len() as u64) as usize;
        let bits = rng.next() as u8;
        let flip = rng.once_in(2);
        draft.change(at, |byte| {
            if flip {
                byte ^ 1u8.wrapping_shl(u32::from(bits))
            } else {
                bits
            }
        });
    }
    if rng.once_in(4) {
        draft.set_count(rng.one_of(&[0, 1, 2, 100, 101, 1 << 16, u64::from(u32::MAX)]) as u32);
    }
}

/// Writes random bytes, mostly with the right magic, because others are refused at once.
pub(crate) fn noise(draft: &mut Draft, rng: &mut Random) {
    let operation = Operation::from_raw(1 + rng.below(11) as u16).unwrap_or(Operation::Put);
    let end = rng.below(PAGE_SIZE as u64) as usize;
    draft.fill(end, || rng.next());
    if !rng.once_in(4) {
        draft.begin(operation);
        draft.set_count(rng.below(3) as u32);
        draft.stretch(end);
    }
}

/// Returns a guest-physical address of any kind.
pub(crate) fn address(rng: &mut Random) -> u64 {
    let page = rng.below(plan::pages());
    rng.one_of(&[
        0,
        0xa_0000,
        0xf_f000,
        // The interrupt controllers, the firmware, and the end of 32-bit addresses.
        0xfec0_0000,
        0xfee0_0000,
        0xffff_f000,
        1 << 32,
        1 << 46,
        1 << 51,
        (1 << 52) - PAGE_SIZE as u64,
        1 << 63,
        u64::MAX - (PAGE_SIZE as u64 - 1),
        plan::address(page),
        plan::address(plan::pages()) - PAGE_SIZE as u64,
        plan::address(plan::pages()),
    ])
}

fn frame(page: u64) -> u64 {
    plan::address(page) / PAGE_SIZE as u64
}

fn index(rng: &mut Random) -> u64 {
    match rng.below(12) {
        0 => MAX_INDEX,
        1 => MAX_INDEX - rng.below(64),
        2 => MAX_INDEX + 1,
        3 => u64::MAX,
        _ => rng.below(4096),
    }
}

fn pages(rng: &mut Random) -> u16 {
    // Large ones are rare, because they take as long as a hundred others.
    match rng.below(128) {
        0 => 0,
        1 => MAX_PAGES as u16,
        2 => MAX_PAGES as u16 + 1,
        3 => u16::MAX,
        4 => 512,
        5..8 => 64,
        _ => 1 + rng.below(2) as u16,
    }
}

/// Returns the lowest class or the one above it. A pool may refuse pages of the lowest class,
/// because its pages go to a device only if they were read again.
fn worth(rng: &mut Random) -> u8 {
    rng.below(2) as u8
}

/// Returns a class, mostly a valid one.
fn class(rng: &mut Random) -> u8 {
    rng.one_of(&[0, 0, 0, 0, 0, 1, 2, 3, 0, 0, 4, 255]) as u8
}

/// Returns the number of a pool that may exist.
pub(crate) fn any_pool(rng: &mut Random) -> u32 {
    rng.below(u64::from(MAX_POOLS)) as u32
}

/// Returns mostly one of the first pools, which short sessions have.
fn number_of_pool(rng: &mut Random) -> u32 {
    match rng.below(12) {
        0 => MAX_POOLS - 1,
        1 => MAX_POOLS,
        2 => u32::MAX,
        3..6 => any_pool(rng),
        _ => rng.below(8) as u32,
    }
}
