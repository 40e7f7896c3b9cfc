// SPDX-License-Identifier: GPL-2.0-only

//! The grammar of requests: mostly valid ones, and sometimes values at a limit or beyond it.

use crate::dice::Dice;
use crate::draft::Draft;
use crate::plan::{self, Frames};
use ddabi::hypercall::Operation;
use ddabi::key::{mix, FileKey, MAX_INDEX};
use ddabi::pool::{Store, DEFAULT_POOL, MAX_POOLS, MAX_WEIGHT};
use ddabi::request::{
    FlushRange, Hello, MigrateBody, PoolBody, Run, MAX_PAGES, MAX_RUNS, MAY_DEFER,
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
    pub(crate) fn next(dice: &mut Dice) -> Self {
        if let Some((kind, _)) = KINDS.get((plan::mode() as usize).wrapping_sub(1)) {
            return *kind;
        }
        let mut rest = dice.below(100);
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

fn file(dice: &mut Dice) -> FileKey {
    FileKey {
        inode: dice.below(8),
        filesystem: dice.below(OWN_FILESYSTEMS) as u32,
        generation: 0,
    }
}

/// Returns a file that no filesystem has, or that many have.
fn odd_file(dice: &mut Dice) -> FileKey {
    FileKey {
        inode: match dice.below(3) {
            0 => 0,
            1 => u64::MAX,
            _ => dice.next(),
        },
        filesystem: WILD_FILESYSTEM,
        generation: dice.next() as u32,
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
    dice: &mut Dice,
    operation: Operation,
    own: Frames,
    pool: u32,
) -> Order {
    let file = file(dice);
    // Keys are few, so that they are used again.
    let index = dice.below(64) * 16;
    let pages = match dice.below(64) {
        0 => 64,
        1..4 => 16,
        _ => 1 + dice.below(2),
    };
    let first = own.first + dice.below(own.count.saturating_sub(pages));
    let run = Run {
        file,
        index,
        gfn: frame(first),
        pool,
        pages: pages as u16,
        ..Run::default()
    };
    draft.begin(operation);
    draft.push(&run);
    if operation == Operation::Get {
        defer(draft, dice);
    }
    Order { first, run }
}

/// Lets the host defer a get, now and then with the ticket of one that it has deferred for any task
/// of this guest.
fn defer(draft: &mut Draft, dice: &mut Dice) {
    let ticket = match dice.below(8) {
        0..5 => 0,
        5..7 => dice.below(4096),
        _ => dice.next(),
    };
    draft.defer(dice.below(2) as u32 * MAY_DEFER, ticket);
}

/// Composes a request that a good guest could send, sometimes at the limits. Its result is not
/// checked.
pub(crate) fn sentence(draft: &mut Draft, dice: &mut Dice, frames: Frames) {
    match dice.below(8) {
        0..3 => runs(draft, dice, Operation::Put, frames),
        3..5 => runs(draft, dice, Operation::Get, frames),
        5 => flush(draft, dice),
        6 => pool(draft, dice),
        _ => draft.begin(Operation::Ping),
    }
}

/// Composes runs at the limits and beyond them.
pub(crate) fn runs(draft: &mut Draft, dice: &mut Dice, operation: Operation, frames: Frames) {
    let count = match dice.below(8) {
        0 => MAX_RUNS as u64,
        1 => 0,
        _ => 1 + dice.below(4),
    };
    draft.begin(operation);
    for _ in 0..count {
        let run = Run {
            file: odd_file(dice),
            index: index(dice),
            gfn: frame(frames.first + dice.below(frames.count)),
            pool: number_of_pool(dice),
            pages: pages(dice),
            class: class(dice),
            reserved: u8::from(dice.once_in(64)),
        };
        draft.push(&run);
    }
    if operation == Operation::Get {
        defer(draft, dice);
    }
}

/// Composes a put from any address: memory, devices, or no memory. The host only reads there.
pub(crate) fn wild_put(draft: &mut Draft, dice: &mut Dice) {
    draft.begin(Operation::Put);
    for _ in 0..1 + dice.below(4) {
        let gfn = address(dice) / PAGE_SIZE as u64;
        let run = Run {
            file: odd_file(dice),
            index: dice.below(MAX_INDEX),
            gfn,
            pool: 0,
            pages: 1 + dice.below(64) as u16,
            ..Run::default()
        };
        draft.push(&run);
    }
}

/// Composes a get into addresses without memory, which the host must not try to write.
pub(crate) fn wild_get(draft: &mut Draft, dice: &mut Dice) {
    draft.begin(Operation::Get);
    let run = Run {
        file: file(dice),
        index: dice.below(256) * 16,
        gfn: dice.one_of(&[1 << 30, 1 << 36, (1 << 40) - 1, 1 << 40, u64::MAX]),
        pool: 0,
        pages: 1 + dice.below(4) as u16,
        ..Run::default()
    };
    draft.push(&run);
}

/// Composes a put from memory that is plugged in and unplugged, or a get into it, of pages that
/// exist or not.
pub(crate) fn moving(draft: &mut Draft, dice: &mut Dice) {
    let put = dice.once_in(2);
    draft.begin(if put { Operation::Put } else { Operation::Get });
    for _ in 0..1 + dice.below(4) {
        // Content from there is not checked, so that it has separate files.
        let file = if put || dice.once_in(2) {
            FileKey {
                filesystem: MOVING_FILESYSTEM,
                ..file(dice)
            }
        } else {
            file(dice)
        };
        let run = Run {
            file,
            index: dice.below(64) * 16,
            gfn: plan::moving_frame(dice.below(plan::moving())),
            pool: 0,
            pages: 1 + dice.below(64) as u16,
            ..Run::default()
        };
        draft.push(&run);
    }
}

/// Composes ranges of all scopes: reversed, endless, overlapping.
pub(crate) fn flush(draft: &mut Draft, dice: &mut Dice) {
    draft.begin(Operation::Flush);
    let many = dice.once_in(16);
    for _ in 0..if many { MAX_RUNS as u64 } else { 1 } {
        let first = index(dice);
        let range = FlushRange {
            file: if dice.once_in(2) {
                file(dice)
            } else {
                odd_file(dice)
            },
            first,
            last: match dice.below(4) {
                0 => u64::MAX,
                1 => index(dice),
                _ => first.wrapping_add(dice.below(2048)),
            },
            // The whole VM is flushed rarely, or there would be few pages.
            scope: if dice.once_in(64) {
                dice.below(5) as u32
            } else {
                dice.below(2) as u32
            },
            reserved: 0,
        };
        draft.push(&range);
    }
}

/// Puts the pages of the default pool on devices, or in both tiers.
pub(crate) fn default_pool_on_device(draft: &mut Draft, dice: &mut Dice) {
    draft.begin(Operation::PoolSet);
    draft.push(&PoolBody {
        pool: DEFAULT_POOL,
        weight: 100,
        store: dice.one_of(&[Store::Ssd as u64, Store::Hybrid as u64]) as u32,
        policy: 0,
        ssd_weight: 100,
        ssd_admit: dice.below(2) as u32,
        name_len: 0,
        name: [0; NAME_LEN],
    });
}

/// Composes any operation on pools.
pub(crate) fn pool(draft: &mut Draft, dice: &mut Dice) {
    // A fifth of the operations create pools, more than destroy them. A migration moves a whole
    // file, which is in one pool afterwards.
    let operation = match dice.below(64) {
        0..36 => Operation::PoolCreate,
        36..44 => Operation::PoolSet,
        44..48 => Operation::PoolDestroy,
        48 => Operation::Migrate,
        _ => Operation::PoolStats,
    };
    draft.begin(operation);
    if operation == Operation::Migrate {
        draft.push(&MigrateBody {
            file: file(dice),
            pool: number_of_pool(dice),
            reserved: u32::from(dice.once_in(16)),
        });
        return;
    }
    let limit = u64::from(MAX_WEIGHT);
    let mut name = [0; NAME_LEN];
    for byte in &mut name {
        *byte = dice.next() as u8;
    }
    draft.push(&PoolBody {
        pool: number_of_pool(dice),
        weight: dice.one_of(&[0, 1, 100, limit, limit + 1, u64::from(u32::MAX)]) as u32,
        store: dice.one_of(&[1, 1, 1, 0, 2, 3, 3, u64::from(u32::MAX)]) as u32,
        policy: dice.one_of(&[0, 1, 2, 3, 4, 5, 6, u64::from(u32::MAX)]) as u32,
        ssd_weight: dice.one_of(&[0, 1, 100, limit, limit + 1, u64::from(u32::MAX)]) as u32,
        ssd_admit: dice.one_of(&[0, 0, 1, 1, 2, u64::from(u32::MAX)]) as u32,
        name_len: dice.one_of(&[0, 1, 64, 65, u64::from(u32::MAX)]) as u32,
        name,
    });
}

/// Composes a registration, which is rarely a wrong one.
pub(crate) fn hello(draft: &mut Draft, dice: &mut Dice) {
    draft.begin_as(Operation::Hello, 0, dice.next());
    let odd = dice.once_in(8);
    draft.push(&Hello {
        features: dice.next(),
        page_size: if odd {
            dice.next() as u32
        } else {
            PAGE_SIZE as u32
        },
        reserved: u32::from(odd && dice.once_in(2)),
    });
}

/// Composes a request with a late, early, repeated or unknown session and number. Returns whether
/// it may be executed at all, which is impossible for a session that never existed (they are random
/// numbers of 64 bits) and for a number before the first.
pub(crate) fn numbers(draft: &mut Draft, dice: &mut Dice) -> bool {
    let now = plan::sequence();
    let sequence = match dice.below(6) {
        0 => 0,
        1 => now.saturating_sub(dice.below(2048)),
        2 => now + dice.below(4096),
        3 => u64::MAX,
        4 => now,
        _ => dice.next(),
    };
    let (session, was_there) = match dice.below(6) {
        0 => (dice.next(), false),
        1 => (plan::session().wrapping_add(1), false),
        _ => (plan::session(), true),
    };
    draft.begin_as(Operation::Ping, session, sequence);
    was_there && sequence > 0
}

/// Changes a few bytes anywhere in header and body.
pub(crate) fn mutate(draft: &mut Draft, dice: &mut Dice) {
    for _ in 0..1 + dice.below(3) {
        let at = dice.below(draft.as_bytes().len() as u64) as usize;
        let bits = dice.next() as u8;
        let flip = dice.once_in(2);
        draft.change(at, |byte| {
            if flip {
                byte ^ 1u8.wrapping_shl(u32::from(bits))
            } else {
                bits
            }
        });
    }
    if dice.once_in(4) {
        draft.set_count(dice.one_of(&[0, 1, 2, 100, 101, 1 << 16, u64::from(u32::MAX)]) as u32);
    }
}

/// Writes random bytes, mostly with the right magic, because others are refused at once.
pub(crate) fn noise(draft: &mut Draft, dice: &mut Dice) {
    let operation = Operation::from_raw(1 + dice.below(11) as u16).unwrap_or(Operation::Put);
    let end = dice.below(PAGE_SIZE as u64) as usize;
    draft.fill(end, || dice.next());
    if !dice.once_in(4) {
        draft.begin(operation);
        draft.set_count(dice.below(3) as u32);
        draft.stretch(end);
    }
}

/// Returns a guest-physical address of any kind.
pub(crate) fn address(dice: &mut Dice) -> u64 {
    let page = dice.below(plan::pages());
    dice.one_of(&[
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

fn index(dice: &mut Dice) -> u64 {
    match dice.below(12) {
        0 => MAX_INDEX,
        1 => MAX_INDEX - dice.below(64),
        2 => MAX_INDEX + 1,
        3 => u64::MAX,
        _ => dice.below(4096),
    }
}

fn pages(dice: &mut Dice) -> u16 {
    // Large ones are rare, because they take as long as a hundred others.
    match dice.below(128) {
        0 => 0,
        1 => MAX_PAGES as u16,
        2 => MAX_PAGES as u16 + 1,
        3 => u16::MAX,
        4 => 512,
        5..8 => 64,
        _ => 1 + dice.below(2) as u16,
    }
}

/// Returns a class, mostly a valid one.
fn class(dice: &mut Dice) -> u8 {
    dice.one_of(&[0, 0, 0, 0, 0, 1, 2, 3, 0, 0, 4, 255]) as u8
}

/// Returns the number of a pool that may exist.
pub(crate) fn any_pool(dice: &mut Dice) -> u32 {
    dice.below(u64::from(MAX_POOLS)) as u32
}

/// Returns mostly one of the first pools, which short sessions have.
fn number_of_pool(dice: &mut Dice) -> u32 {
    match dice.below(12) {
        0 => MAX_POOLS - 1,
        1 => MAX_POOLS,
        2 => u32::MAX,
        3..6 => any_pool(dice),
        _ => dice.below(8) as u32,
    }
}
