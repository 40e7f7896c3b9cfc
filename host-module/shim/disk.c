// SPDX-License-Identifier: GPL-2.0-only
/* <linux/blkdev.h> and <linux/bio.h>: pages on block devices. */

#include <linux/bio.h>
#include <linux/blk-cgroup.h>
#include <linux/blkdev.h>
#include <linux/completion.h>
#include <linux/slab.h>
#include <linux/wait_bit.h>
#include <linux/workqueue.h>
#include "host.h"

/* Bios in reserve, so that writes make progress even if no memory is free. */
#define DD_BIOS 64
/* Maximum number of pages in a bio of a read. */
#define DD_READ_PAGES 16
/*
 * Maximum number of pages that are read at a time, 256 MiB. A device that stalls
 * keeps the pages of its reads until it ends them.
 */
#define DD_READING (1L << 16)
/* Maximum number of reads of a device that kernel threads submit at a time. */
#define DD_READERS 64

static atomic_long_t dd_reading;

struct dd_disk {
	struct file *file;
	struct bio_set bios;
	atomic_t dead;
	/* Reads whose last bio has not ended. */
	atomic_t reads;
	/* Submits reads of a device that could make the submitting task wait. */
	struct workqueue_struct *readers;
};

/* The device is gone. The block layer holds bd_holder_lock, which this function must release. */
static void dd_mark_dead(struct block_device *bdev, bool surprise)
	__releases(&bdev->bd_holder_lock)
{
	struct dd_disk *disk = bdev->bd_holder;

	atomic_set(&disk->dead, 1);
	mutex_unlock(&bdev->bd_holder_lock);
}

static const struct blk_holder_ops dd_holder_ops = { .mark_dead = dd_mark_dead };

static struct block_device *dd_bdev(const struct dd_disk *disk)
{
	return file_bdev(disk->file);
}

/* Opens a device exclusively and sets @pages to its size in pages. May sleep. */
struct dd_disk *dd_disk_open(const char *path, u64 *pages)
{
	struct dd_disk *disk = kzalloc(sizeof(*disk), GFP_KERNEL);
	int err;

	if (!disk)
		return ERR_PTR(-ENOMEM);
	/*
	 * Work on the queue "doubledecker" (queue.c) may drop the last reference to
	 * the device, and then waits for "doubledecker_read". Both queues have
	 * WQ_MEM_RECLAIM, so that both make progress when the host has no memory.
	 */
	disk->readers = alloc_workqueue("doubledecker_read",
					WQ_UNBOUND | WQ_HIGHPRI | WQ_MEM_RECLAIM, DD_READERS);
	if (!disk->readers) {
		err = -ENOMEM;
		goto free;
	}
	err = bioset_init(&disk->bios, DD_BIOS, 0, BIOSET_NEED_BVECS);
	if (err)
		goto queue;
	disk->file = bdev_file_open_by_path(path, BLK_OPEN_READ | BLK_OPEN_WRITE |
					    BLK_OPEN_RESTRICT_WRITES, disk, &dd_holder_ops);
	if (IS_ERR(disk->file)) {
		err = PTR_ERR(disk->file);
		goto exit;
	}
	if (bdev_logical_block_size(dd_bdev(disk)) > PAGE_SIZE) {
		err = -ERANGE;
		goto close;
	}
	*pages = bdev_nr_bytes(dd_bdev(disk)) >> PAGE_SHIFT;
	return disk;
close:
	bdev_fput(disk->file);
exit:
	bioset_exit(&disk->bios);
queue:
	destroy_workqueue(disk->readers);
free:
	kfree(disk);
	return ERR_PTR(err);
}

/* Waits for abandoned reads and closes the device. No other call may use @disk. */
void dd_disk_close(struct dd_disk *disk)
{
	wait_var_event(&disk->reads, !atomic_read(&disk->reads));
	destroy_workqueue(disk->readers);
	bdev_fput(disk->file);
	bioset_exit(&disk->bios);
	kfree(disk);
}

bool dd_disk_dead(const struct dd_disk *disk)
{
	return atomic_read(&disk->dead);
}

/* Returns whether all reads have ended, abandoned ones included. */
bool dd_disk_idle(const struct dd_disk *disk)
{
	return !atomic_read(&disk->reads);
}

static sector_t dd_sector(u64 page)
{
	return page << (PAGE_SHIFT - SECTOR_SHIFT);
}

/* Returns whether the device supports discards. An administrator can change that in sysfs. */
bool dd_disk_discards(const struct dd_disk *disk)
{
	return bdev_max_discard_sectors(dd_bdev(disk)) > 0;
}

/* Discards pages: the device need not keep their contents. May sleep. */
int dd_disk_discard(struct dd_disk *disk, u64 first, u64 count)
{
	return blkdev_issue_discard(dd_bdev(disk), dd_sector(first), dd_sector(count), GFP_NOIO);
}

/* Overwrites pages with zeroes. May sleep. */
int dd_disk_clear(struct dd_disk *disk, u64 first, u64 count)
{
	return blkdev_issue_zeroout(dd_bdev(disk), dd_sector(first), dd_sector(count),
				    GFP_KERNEL, 0);
}

struct dd_write {
	struct completion done;
	atomic_t left;
	blk_status_t status;
};

static void dd_write_end(struct bio *bio)
{
	struct dd_write *write = bio->bi_private;

	if (bio->bi_status)
		WRITE_ONCE(write->status, bio->bi_status);
	bio_put(bio);
	if (atomic_dec_and_test(&write->left))
		complete(&write->done);
}

/*
 * Writes pages to consecutive places and waits until the device has ended the
 * writes. Pages with the same @stream become invalid together; a device with
 * several write streams can use this to place them.
 */
int dd_disk_write(struct dd_disk *disk, u64 first, const u64 *frames, size_t count, u32 stream)
{
	unsigned short streams = bdev_max_write_streams(dd_bdev(disk));
	struct dd_write write = { .left = ATOMIC_INIT(1) };
	struct blk_plug plug;
	size_t at = 0;

	init_completion(&write.done);
	blk_start_plug(&plug);
	while (at < count) {
		unsigned int pages = min_t(size_t, count - at, BIO_MAX_VECS), i;
		struct bio *bio = bio_alloc_bioset(dd_bdev(disk), pages, REQ_OP_WRITE, GFP_NOIO,
						   &disk->bios);

		bio->bi_iter.bi_sector = dd_sector(first + at);
		if (streams)
			bio->bi_write_stream = 1 + stream % streams;
		bio->bi_private = &write;
		bio->bi_end_io = dd_write_end;
		for (i = 0; i < pages; i++)
			__bio_add_page(bio, pfn_to_page(frames[at + i]), PAGE_SIZE, 0);
		at += pages;
		atomic_inc(&write.left);
		submit_bio(bio);
	}
	blk_finish_plug(&plug);
	if (atomic_dec_and_test(&write.left))
		complete(&write.done);
	/* A device may take minutes to fail. The timeouts keep the hung task detector quiet. */
	while (!wait_for_completion_io_timeout(&write.done, 10 * HZ))
		;
	return blk_status_to_errno(write.status);
}

struct dd_read {
	/* The disk stays open as long as this read is counted in its field reads. */
	struct dd_disk *disk;
	struct completion done;
	/* Number of bios that have not ended, plus one while bios are being submitted. */
	atomic_t left;
	/* One reference of the owner, and one of all bios together. */
	refcount_t users;
	blk_status_t status;
	/* The owner no longer waits for the read: the frames are freed together with it. */
	bool abandoned;
	ktime_t begun;
	ktime_t ended;
	/* Submits the bios if the device could make the caller wait. */
	struct work_struct submit;
	blk_opf_t opf;
	size_t count;
	/* The places follow the frames. */
	u64 frames[];
};

static void dd_read_put(struct dd_read *read)
{
	if (!refcount_dec_and_test(&read->users))
		return;
	atomic_long_sub(read->count, &dd_reading);
	while (read->abandoned && read->count)
		dd_page_free(read->frames[--read->count]);
	kfree(read);
}

/*
 * Called when a bio has ended and when all bios are submitted. The disk may be
 * closed as soon as the last of these calls has decremented disk->reads.
 */
static void dd_read_ended(struct dd_read *read)
{
	struct dd_disk *disk = read->disk;

	if (!atomic_dec_and_test(&read->left))
		return;
	read->ended = ktime_get();
	complete(&read->done);
	dd_read_put(read);
	if (atomic_dec_and_test(&disk->reads))
		wake_up_var(&disk->reads);
}

static void dd_read_end(struct bio *bio)
{
	struct dd_read *read = bio->bi_private;

	if (bio->bi_status)
		WRITE_ONCE(read->status, bio->bi_status);
	bio_put(bio);
	dd_read_ended(read);
}

/*
 * Returns how many places, starting with the first one, a single bio can read:
 * places that are contiguous on the device, no more than the device accepts in a
 * request, in bytes and in pieces of memory, and none beyond a boundary at which
 * it splits requests (a stripe of an array, for example), because a bio with
 * REQ_NOWAIT must not be split.
 */
static unsigned int dd_stretch(struct block_device *bdev, const u64 *places, size_t count)
{
	unsigned int sectors = queue_max_sectors(bdev_get_queue(bdev));
	unsigned int chunk = bdev_limits(bdev)->chunk_sectors;
	unsigned int pages = 1;
	size_t most;

	/* Boundaries are those of the whole disk, of which the device may be a partition. */
	if (chunk)
		sectors = min(sectors,
			      blk_boundary_sectors_left(bdev->bd_start_sect + dd_sector(places[0]),
							chunk));
	most = min3(count, (size_t)DD_READ_PAGES, (size_t)sectors >> (PAGE_SHIFT - SECTOR_SHIFT));
	most = min_t(size_t, most, queue_max_segments(bdev_get_queue(bdev)));
	while (pages < most && places[pages] == places[0] + pages)
		pages++;
	return pages;
}

static void dd_read_submit(struct dd_read *read)
{
	struct dd_disk *disk = read->disk;
	struct block_device *bdev = dd_bdev(disk);
	const u64 *places = read->frames + read->count;
	size_t count = read->count, at = 0;
	struct blk_plug plug;

	blk_start_plug(&plug);
	while (at < count) {
		unsigned int pages = dd_stretch(bdev, places + at, count - at), i;
		struct bio *bio = bio_alloc_bioset(bdev, pages, read->opf, GFP_NOWAIT | __GFP_NOWARN,
						   &disk->bios);

		if (!bio) {
			WRITE_ONCE(read->status, BLK_STS_RESOURCE);
			break;
		}
		bio->bi_iter.bi_sector = dd_sector(places[at]);
		bio->bi_private = read;
		bio->bi_end_io = dd_read_end;
		for (i = 0; i < pages; i++)
			__bio_add_page(bio, pfn_to_page(read->frames[at + i]), PAGE_SIZE, 0);
		/*
		 * The SSD tier belongs to the host: I/O limits of the VMM's cgroup
		 * are meant for the VM's own disks.
		 */
		bio_associate_blkg_from_css(bio, blkcg_root_css);
		at += pages;
		atomic_inc(&read->left);
		submit_bio(bio);
	}
	blk_finish_plug(&plug);
	dd_read_ended(read);
}

static void dd_read_work(struct work_struct *work)
{
	dd_read_submit(container_of(work, struct dd_read, submit));
}

/*
 * Begins to read pages from places. The read owns the frames until
 * dd_disk_finish(). The caller may be a vCPU's thread. The function therefore
 * waits neither for memory nor for a free request of the device's queue. If
 * @nowait is set, the read fails when no request is free, because a vCPU would
 * have to wait for it. Otherwise a kernel thread waits for the request and
 * submits the bios. The kernel thread also submits them if the device does not
 * support REQ_NOWAIT (dm-crypt, for example).
 */
struct dd_read *dd_disk_begin(struct dd_disk *disk, const u64 *places, const u64 *frames,
			      size_t count, bool nowait)
{
	struct dd_read *read;

	nowait = nowait && bdev_nowait(dd_bdev(disk));
	if (dd_disk_dead(disk))
		return ERR_PTR(-ENODEV);
	if (atomic_long_read(&dd_reading) + count > DD_READING)
		return ERR_PTR(-EAGAIN);
	read = kzalloc(struct_size(read, frames, 2 * count), GFP_NOWAIT | __GFP_NOWARN);
	if (!read)
		return ERR_PTR(-ENOMEM);
	atomic_long_add(count, &dd_reading);
	read->disk = disk;
	read->opf = REQ_OP_READ | (nowait ? REQ_NOWAIT : 0);
	read->count = count;
	memcpy(read->frames, frames, count * sizeof(*frames));
	memcpy(read->frames + count, places, count * sizeof(*places));
	init_completion(&read->done);
	atomic_set(&read->left, 1);
	refcount_set(&read->users, 2);
	read->begun = ktime_get();
	atomic_inc(&disk->reads);
	if (nowait) {
		dd_read_submit(read);
	} else {
		INIT_WORK(&read->submit, dd_read_work);
		queue_work(disk->readers, &read->submit);
	}
	return read;
}

/* Returns whether the device has ended the read. */
bool dd_disk_has_read(struct dd_read *read)
{
	return completion_done(&read->done);
}

/*
 * Waits for at most @limit_us microseconds for the end of a read and sets
 * @took_us to the time that the device took. Releases the read in any case.
 * After -ETIMEDOUT the caller no longer owns the frames, because the device may
 * still write to them, and @took_us is not set.
 */
int dd_disk_finish(struct dd_read *read, u64 limit_us, u64 *took_us)
{
	unsigned long limit = limit_us ? usecs_to_jiffies(limit_us) + 1 : 0;
	int err = -ETIMEDOUT;

	if (try_wait_for_completion(&read->done) ||
	    (limit && wait_for_completion_io_timeout(&read->done, limit))) {
		err = blk_status_to_errno(READ_ONCE(read->status));
		/* An error of the device: the caller still owns the frames. */
		if (err == -ETIMEDOUT)
			err = -EIO;
		*took_us = ktime_us_delta(read->ended, read->begun);
	} else {
		read->abandoned = true;
	}
	dd_read_put(read);
	return err;
}
