// SPDX-License-Identifier: GPL-2.0-only

//! The parameters of the machine model, with their sources.
//!
//! Times are in nanoseconds. *Calibrated* parameters were chosen so that one figure of a paper is
//! met, where no store is involved unless noted; results for the store follow from them and are not
//! fitted.

/// Pages of 4 KiB that the machine moves as one: 16 KiB, the mean file of Filebench's servers.
/// This is also the size of a large folio.
pub const UNIT_PAGES: u64 = 4;

/// Bytes of a unit.
pub const UNIT: u64 = UNIT_PAGES * 4096;

/// Units in a MiB.
pub const UNITS_PER_MIB: u64 = (1 << 20) / UNIT;

/// Eviction batch in units: 2 MiB (DoubleDecker, section 4.3).
pub const BATCH: u64 = 2 * UNITS_PER_MIB;

/// A microsecond.
pub const US: u64 = 1_000;

/// A millisecond.
pub const MS: u64 = 1_000_000;

/// A second.
pub const SECOND: u64 = 1_000_000_000;

/// Time to read a unit from the guest's page cache: a system call and copies of four pages. One
/// page takes about a microsecond on machines of the paper's time.
pub const COPY: u64 = 4 * US;

/// Time to get a unit from the host: four gets at 7.4 to 16.1 thousand cycles ("Cooperative
/// hypervisor caching by content similarity", table of tmem operations) of 3.4 GHz, exits included.
pub const GET: u64 = 4 * 3_500;

/// Time to put a unit: four puts at 20.9 to 23.7 thousand cycles, from the same table.
pub const PUT: u64 = 4 * 6_600;

/// Time of a read of a unit from an SSD of the host, which the vCPU waits for: that of a common NVMe
/// device, one read at a time.
pub const SSD_READ: u64 = 100 * US;

/// Reads that such a device serves at a time.
pub const SSD_QUEUE: u64 = 8;

/// Time of a random access to the disk, which the paper does not describe. Without a store and with
/// 2 GiB in the VM its web server does a thousand flows a second (figure 5), which are 320 reads of
/// files; with the files that it has in table 4 a quarter to a third of these miss, about a hundred
/// a second. This is the rate of a disk of 7200 revolutions a minute.
pub const SEEK: u64 = 9 * MS;

/// Time to transfer a unit from that disk at 120 MB/s.
pub const TRANSFER: u64 = UNIT * SECOND / 120_000_000;

/// Asynchronous writes are sorted and merged, so that one of this many seeks. Calibrated: while
/// making their files, the containers of figure 9 fill 1 GiB each in 500 s, before they need the
/// store.
pub const WRITE_MERGE: u64 = 4;

/// Time by which the disk's queue of writes may run ahead before writers wait (Linux' dirty
/// limits).
pub const QUEUE_LIMIT: u64 = SECOND;

/// Processor time of one file served by the web server: open, read, close, and a tenth of a log
/// entry. Calibrated where the store answers nearly all reads, because the paper shows no run
/// without it: two processors that wait for nothing else serve about the 93.7 MB/s of table 2 with
/// DDMem.
pub const SERVE: u64 = 320 * US;

/// The same for a video's read of 1 MiB, in addition to its copies. It is eight times the value
/// that would give the 1.2 GB/s of table 2: reads from the page cache need neither store nor disk,
/// and simulating them costs most.
pub const STREAM: u64 = 10_400 * US;

/// Processor time of one operation of a key-value store (Redis: 10 400 a second, figure 5).
pub const KEY_VALUE: u64 = 95 * US;

/// The same for a database over files (MongoDB: 300 a second, figure 5).
pub const DOCUMENT: u64 = 3_300 * US;

/// The same for a relational database (MySQL: its best in table 4 is 133 a second).
pub const RELATIONAL: u64 = 7_500 * US;

/// Records in a unit. A record of YCSB has ten fields of a hundred bytes, and a key.
pub const RECORDS: u32 = 15;

/// Threads of a YCSB client, by its default. With one, the numbers of operations above are those of
/// the paper for any number of processors.
pub const YCSB_THREADS: usize = 1;

/// Memory of the web server's processes according to table 1 of DoubleDecker: 88.9 MiB of its
/// limit.
pub const WEB_ANONYMOUS_MIB: u64 = 89;

/// Filebench operations for one operation of the machine's web server. Filebench counts opening,
/// reading and closing a file, and the tenth part of a log entry.
pub const FLOWS: f64 = 3.1;

/// Data sets in MiB. The paper does not publish its own. With these sizes each workload uses about
/// as much memory in total as figure 9 and table 2 show.
pub const WEB_SET_MIB: u64 = 1_800;
/// Files of the proxy.
pub const PROXY_SET_MIB: u64 = 1_500;
/// Mailboxes.
pub const MAIL_SET_MIB: u64 = 1_700;
/// Size of one video. With a new one every ten seconds there are as many evictions as table 2 has
/// for the video server with DDMem, in the time in which those of the web server and the mail
/// server occur.
pub const VIDEO_MIB: u64 = 43;

/// Videos that are read.
pub const ACTIVE_VIDEOS: u32 = 32;
/// Videos that are replaced by new ones, one every ten seconds.
pub const PASSIVE_VIDEOS: u32 = 194;
/// Time between two new videos (Filebench's `replaceinterval`).
pub const REPLACE: u64 = 10 * SECOND;

/// Threads of the web server. The paper does not name any; these follow from table 2 by Little's
/// law, throughput times latency. Filebench's latency is the mean over all operations of a flow,
/// including opening and closing of files (`stats_snap` in its `stats.c`): 31 for 168 KiB here
/// (14.2 MB/s, 29.2 ms; 5.5 MB/s, 73 ms).
pub const WEB_THREADS: usize = 77;
/// Threads of the proxy: 19 operations for 88 KiB (5.4 MB/s, 89.1 ms; Filebench has 100 by default).
pub const PROXY_THREADS: usize = 105;
/// Threads of the mail server: 13 operations for 48 KiB (1.3 MB/s, 598.2 ms; 2 MB/s, 386.7 ms).
pub const MAIL_THREADS: usize = 215;
/// Streams of videos, and their writer: one operation for 256 KiB (1276 MB/s, 2.6 ms; 481.5 MB/s,
/// 7.8 ms).
pub const VIDEO_THREADS: usize = 16;

/// Files of the web servers of figures 3 and 4: each server fills the store of 1 GiB in addition to
/// its own memory.
pub const LONE_WEB_SET_MIB: u64 = 2_200;
/// Memory of each of the two containers of figures 3 and 4: a VM of 2 GiB less its kernel.
pub const LONE_LIMIT_MIB: u64 = 900;

/// Data of the stores of figure 5 and table 4. Redis and MySQL have the sizes of table 1 (memory
/// and swap), and MongoDB has more than memory and store together.
pub const REDIS_SET_MIB: u64 = 1_990;
/// Places of Redis' memory that a read touches: the table of keys, the record's own table, and its
/// fields' names and values are allocated by size, and are therefore apart from each other.
pub const REDIS_PLACES: u32 = 4;
/// MySQL's buffer pool and heap.
pub const MYSQL_SET_MIB: u64 = 1_890;
/// MongoDB's files.
pub const MONGO_SET_MIB: u64 = 2_200;

/// Videos of figure 14: VMs of 4 GiB fill a store of 2 GiB within ten minutes.
pub const LARGE_VIDEO_MIB: u64 = 192;
/// Streams of a VM of figure 14, and its writer.
pub const PACED_THREADS: usize = 8;
/// Time between two reads of 1 MiB of a stream of figure 14: 70 MB/s in total, which four VMs can
/// get from one disk.
pub const PACE: u64 = 400 * MS;

/// Files of table 4's web server. It has more than in figure 9: its memory and store there
/// together, 2.7 GB and 2.6 GB, less its processes.
pub const COOPERATIVE_WEB_SET_MIB: u64 = 2_570;

/// Memory of the VM of table 4, and of figure 5.7 of the thesis (section 5.6.2).
pub const COOPERATIVE_VM_MIB: u64 = 6 * 1024;

/// Weight with which Linux scans the memory of processes when a VM runs short of memory: the
/// default of `vm.swappiness`, out of 200 (`get_scan_count` in `mm/vmscan.c`, without its adaptive
/// part).
pub const SWAPPINESS: u64 = 60;
/// Sum of the weights of processes' memory and of files.
pub const SWAPPINESS_SUM: u64 = 200;

/// Page cache of UniCache's guests, which is small: its store is below a FUSE file system and
/// memcached.
pub const UNICACHE_LIMIT_MIB: u64 = 8;
/// Wikipedia's pages and query results.
pub const WIKIPEDIA_SET_MIB: u64 = 120;
/// CloudStone's images and query results.
pub const CLOUDSTONE_SET_MIB: u64 = 200;
/// Time between two requests of UniCache's clients.
pub const THINK: u64 = 20 * MS;

/// Time to recompute a page of Wikipedia or a query's result: the response time in table I where
/// the video server leaves it nearly nothing (best effort), as if no read were answered then.
pub const WIKIPEDIA_RECOVERY: u64 = 84 * MS;
/// The same for CloudStone, which the paper shows only in a plot. It is the response time of table
/// I by weights, which is a lower bound, because some of the reads hit the cache; the 12 s of best
/// effort are anomalies according to the paper.
pub const CLOUDSTONE_RECOVERY: u64 = 400 * MS;
