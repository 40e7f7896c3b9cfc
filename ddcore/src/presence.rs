// SPDX-License-Identifier: GPL-2.0-only

//! The guest's map of the pages that the host may have. It alone determines which copies are valid.
//!
//! Each page of a file is in one of four [states](State); the transitions are those of
//! `docs/developers/decisions/0002-deferred-puts.md`. A [`Shard`] has the files of one part of the
//! key space. It neither locks nor allocates: the caller serialises all calls, and provides memory
//! through [`Slots`].
//!
//! Pages are kept in chunks of [`CHUNK_PAGES`], found by file and chunk number in a hash table, so
//! that a lookup costs the same in a file of one page and in one of a tebibyte. The chunks of a
//! file are linked as well. The slots of a chunk whose pages are all absent, and of a file without
//! chunks, are freed immediately.
//!
//! An inode has pages of one generation at a time. An event with another generation first
//! invalidates all of them, because on some filesystems the owner of a file may set its generation
//! and set it back.
//!
//! ```
//! use ddabi::key::FileKey;
//! use ddcore::presence::{ChunkSlot, Claim, FileSlot, Fixed, Seed, Shard};
//!
//! let file = FileKey { inode: 12, ..FileKey::default() };
//! let files = Fixed([const { FileSlot::EMPTY }; 4]);
//! let chunks = Fixed([const { ChunkSlot::EMPTY }; 4]);
//! let mut shard = Shard::new(files, chunks, Seed::new([7, 8]));
//! shard.adopt(u32::MAX);
//! assert_eq!(shard.begin_put(&file, 0, 16), Ok(()));
//! shard.finish_put(&file, 0, 16, true);
//! assert_eq!(shard.claim(&file, 0, 4), Claim::Ask);
//! assert_eq!(shard.claim(&file, 0, 8), Claim::Miss { present: 4 });
//! ```

mod bits;
mod chunk;
mod clock;
mod counters;
mod file;
mod page;
mod seed;
mod shard;
mod slots;
mod span;
mod table;
mod verify;
mod walk;

pub use bits::State;
pub use chunk::{ChunkSlot, CHUNK_PAGES};
pub use clock::Reclaimed;
pub use counters::{Counters, LowSlots};
pub use file::FileSlot;
pub use page::{Claim, Finished, Refused};
pub use seed::Seed;
pub use shard::Shard;
pub use slots::{Fixed, Slots, MAX_SLOTS};
pub use walk::{Cursor, Step};
