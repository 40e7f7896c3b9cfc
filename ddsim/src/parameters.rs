// SPDX-License-Identifier: GPL-2.0-only

//! The parameters of the machine model, with their sources.
//!
//! Times are in nanoseconds. *Calibrated* parameters were chosen so that the model reproduces one
//! figure of a paper. Times of the disk and of the key-value stores were chosen by runs without a
//! store. Other parameters were chosen by results with one: the processor time of a served file by
//! table 2, the sizes of the file sets by what figure 9 shows, and the size of a video and the
//! length of the runs by the evictions in table 2. The sizes and evictions by which these were
//! chosen are therefore inputs of the model, not results that confirm it; the gains between modes,
//! the division of the store and the order of containers are not fitted.

/// Number of 4 KiB pages in a unit, which the machine moves as a whole. A unit of 16 KiB is the
/// mean file size of Filebench's servers, and the size of a large folio.
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

/// Time to read a unit from the guest's page cache: a system call and the copying of four pages,
/// each of which takes about a microsecond on machines of the paper's time.
pub const COPY: u64 = 4 * US;

/// Time to get a unit from the host: four gets of 7.4 to 16.1 thousand cycles ("Cooperative
/// hypervisor caching by content similarity", table of tmem operations) of 3.4 GHz, exits included.
pub const GET: u64 = 4 * 3_500;

/// Time to put a unit: four puts of 20.9 to 23.7 thousand cycles, from the same table.
pub const PUT: u64 = 4 * 6_600;

/// The speed of an SSD of the host.
#[derive(Clone, Copy, Debug)]
pub struct SsdSpeed {
    /// Time from the request for a unit until the vCPU has it, if the device does nothing else.
    pub access: u64,
    /// Time for which a unit occupies the device.
    pub transfer: u64,
}

/// A common NVMe device: its latency with one read at a time, and eight reads at a time.
pub const NVME: SsdSpeed = SsdSpeed {
    access: 100 * US,
    transfer: 100 * US / 8,
};

/// The SSD of DoubleDecker (section 5), a Kingston SSDNow V300. The manufacturer gives 450 MB/s for
/// both reading and writing. One read of 4 KiB at a time takes about 170 us on drives with the same
/// controller, SandForce's SF-2281 (published runs of CrystalDiskMark: 24.5 MB/s). A get reads one
/// page and waits for it, so that a unit takes four such reads. The thesis does not name its SSD.
pub const SATA: SsdSpeed = SsdSpeed {
    access: UNIT_PAGES * 170 * US,
    transfer: UNIT * SECOND / 450_000_000,
};

/// Size in MiB of DoubleDecker's SSD: 240 GB.
pub const SATA_MIB: u64 = 240_000_000_000 >> 20;

/// Number of requests in the queue of a block device, each for a page, above which a vCPU that asks
/// for another waits (Linux' default of `nr_requests`).
pub const SSD_REQUESTS: u64 = 128;

/// Time of a random access to the disk, which the paper does not describe. Without a store and with
/// 2 GiB in the VM, its web server executes a thousand flows per second (figure 5), which are 320
/// reads of files. With the files of table 4, a quarter to a third of these reads miss, which is
/// about a hundred per second and matches a disk with 7200 revolutions per minute.
pub const SEEK: u64 = 9 * MS;

/// Time to transfer a unit from this disk, at 120 MB/s.
pub const TRANSFER: u64 = UNIT * SECOND / 120_000_000;

/// Number of asynchronous writes for each seek, because such writes are sorted and merged.
/// Calibrated: while the containers of figure 9 create their files, each fills 1 GiB in 500 s,
/// before it needs the store.
pub const WRITE_MERGE: u64 = 4;

/// Length of the disk's queue of writes, as time, above which writers wait (Linux' dirty limits).
pub const QUEUE_LIMIT: u64 = SECOND;

/// Processor time of one file served by the web server: open, read, close, and a tenth of a log
/// entry. Calibrated with a store that has nearly all pages, because the paper shows no run without
/// it: two processors that wait for nothing else serve about the 93.7 MB/s of table 2 with DDMem.
pub const SERVE: u64 = 320 * US;

/// Processor time of a read of 1 MiB of a video, in addition to copying it. It is eight times the
/// value that would give the 1.2 GB/s of table 2, because reads from the page cache involve neither
/// store nor disk but take most of the time of the simulation.
pub const STREAM: u64 = 10_400 * US;

/// Processor time of one operation of a key-value store (Redis: 10 400 per second, figure 5).
pub const KEY_VALUE: u64 = 95 * US;

/// Processor time of one operation of a database in files (MongoDB: 300 per second, figure 5).
pub const DOCUMENT: u64 = 3_300 * US;

/// Processor time of one operation of a relational database (MySQL: at most 133 per second in table
/// 4).
pub const RELATIONAL: u64 = 7_500 * US;

/// Records in a unit. A record of YCSB has ten fields of a hundred bytes, and a key.
pub const RECORDS: u32 = 15;

/// Default number of threads of a YCSB client. With one thread the rates above are the same for any
/// number of processors.
pub const YCSB_THREADS: usize = 1;

/// Memory of the web server's processes: 88.9 MiB of its limit according to table 1 of
/// DoubleDecker.
pub const WEB_ANONYMOUS_MIB: u64 = 89;

/// Number of Filebench operations in one operation of the machine's web server: opening, reading
/// and closing a file, and a tenth of a log entry.
pub const FLOWS: f64 = 3.1;

/// Files of the web server. The paper does not give the sizes of its data sets. With this size and
/// the following ones each workload uses about as much memory in total as figure 9 and table 2
/// show.
pub const WEB_SET_MIB: u64 = 1_800;
/// Files of the proxy.
pub const PROXY_SET_MIB: u64 = 1_500;
/// Mailboxes.
pub const MAIL_SET_MIB: u64 = 1_700;
/// Size of one video. With a new video every ten seconds, the video server has as many evictions as
/// in table 2 with DDMem during the time in which the web server and the mail server have theirs.
pub const VIDEO_MIB: u64 = 43;

/// Videos that are read.
pub const ACTIVE_VIDEOS: u32 = 32;
/// Videos that are replaced by new ones, one every ten seconds.
pub const PASSIVE_VIDEOS: u32 = 194;
/// Time between two new videos (Filebench's `replaceinterval`).
pub const REPLACE: u64 = 10 * SECOND;

/// Threads of the web server. The paper does not give the numbers of threads; they follow from
/// table 2 by Little's law (throughput times latency). Filebench's latency is the mean over all
/// operations of a flow, including opening and closing of files (`stats_snap` in its `stats.c`): 31
/// for 168 KiB here (14.2 MB/s, 29.2 ms; 5.5 MB/s, 73 ms).
pub const WEB_THREADS: usize = 77;
/// Threads of the proxy: 19 operations for 88 KiB (5.4 MB/s, 89.1 ms; Filebench has 100 by
/// default).
pub const PROXY_THREADS: usize = 105;
/// Threads of the mail server: 13 operations for 48 KiB (1.3 MB/s, 598.2 ms; 2 MB/s, 386.7 ms).
pub const MAIL_THREADS: usize = 215;
/// Threads of the video server, which are streams and one writer: one operation for 256 KiB (1276
/// MB/s, 2.6 ms; 481.5 MB/s, 7.8 ms).
pub const VIDEO_THREADS: usize = 16;

/// Files of the web server of the thesis' figure 5.6, its working set.
pub const WORKING_SET_MIB: u64 = 1_024;
/// Memory of its container, which the thesis gives for its other experiments with both tiers
/// (section 5.5.2).
pub const HYBRID_LIMIT_MIB: u64 = 512;

/// Files of each web server of figures 3 and 4, which fill the store of 1 GiB in addition to the
/// server's own memory.
pub const LONE_WEB_SET_MIB: u64 = 2_200;
/// Memory of each of the two containers of figures 3 and 4: half of a VM of 2 GiB, less its kernel.
pub const LONE_LIMIT_MIB: u64 = 900;

/// Memory of Redis in figure 5 and table 4. Redis and MySQL have the sizes of table 1 (memory and
/// swap), and MongoDB has more data than fits into memory and store together.
pub const REDIS_SET_MIB: u64 = 1_990;
/// Number of separate places of Redis' memory that a read touches: the table of keys, the table of
/// the record, and the names and values of its fields. They are not adjacent, because Redis
/// allocates memory by size classes.
pub const REDIS_PLACES: u32 = 4;
/// MySQL's buffer pool and heap.
pub const MYSQL_SET_MIB: u64 = 1_890;
/// MongoDB's files.
pub const MONGO_SET_MIB: u64 = 2_200;

/// Size of a video of figure 14, with which VMs of 4 GiB fill a store of 2 GiB within ten minutes.
pub const LARGE_VIDEO_MIB: u64 = 192;
/// Threads of a VM of figure 14: its streams and one writer.
pub const PACED_THREADS: usize = 8;
/// Time between two reads of 1 MiB of a stream of figure 14. This gives 70 MB/s in total, which one
/// disk can deliver to four VMs.
pub const PACE: u64 = 400 * MS;

/// Files of the web server of table 4. It has more than in figure 9: as much as its memory and its
/// part of the store together in table 4, 2.7 GB and 2.6 GB, less the memory of its processes.
pub const COOPERATIVE_WEB_SET_MIB: u64 = 2_570;

/// Memory of the VM of table 4, and of figure 5.7 of the thesis (section 5.6.2).
pub const COOPERATIVE_VM_MIB: u64 = 6 * 1024;

/// Weight with which Linux scans process memory when a VM runs short of memory: the default of
/// `vm.swappiness`, out of 200 (`get_scan_count` in `mm/vmscan.c`, without its adaptive part).
pub const SWAPPINESS: u64 = 60;
/// Sum of the weights of process memory and of files.
pub const SWAPPINESS_SUM: u64 = 200;

/// Page cache of UniCache's guests. It is small, because UniCache's store is a layer below a FUSE
/// file system and memcached.
pub const UNICACHE_LIMIT_MIB: u64 = 8;
/// Wikipedia's pages and query results.
pub const WIKIPEDIA_SET_MIB: u64 = 120;
/// CloudStone's images and query results.
pub const CLOUDSTONE_SET_MIB: u64 = 200;
/// Time between two requests of UniCache's clients.
pub const THINK: u64 = 20 * MS;

/// Time to recompute a page of Wikipedia or the result of a query: the response time in table I
/// with best effort, where the video server leaves Wikipedia nearly no cache, so that all reads are
/// assumed to miss.
pub const WIKIPEDIA_RECOVERY: u64 = 84 * MS;
/// Time to recompute an image or the result of a query of CloudStone, which the paper shows only in
/// a plot. It is the response time of table I with weights. This is a lower bound, because some of
/// the reads hit the cache; the 12 s with best effort are anomalies according to the paper.
pub const CLOUDSTONE_RECOVERY: u64 = 400 * MS;
