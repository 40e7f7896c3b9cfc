//! The decisions of the cache, without I/O, locks, clocks or allocation.
