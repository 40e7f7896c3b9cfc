/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Generic netlink for both modules: attributes are parsed here into one flat
 * structure, replies are written through small functions, and everything else
 * is done in Rust (shim/genl.rs). One C file of each module includes this after
 * defining:
 *
 *	DD_FAMILY	the name of the family
 *	DD_DO(x)	x(n) for each number of a command that acts or answers once
 *	DD_DUMP(x)	x(n) for each number of a command that dumps
 *	DD_EVENT	the command number of notifications
 *	DD_PARALLEL	whether commands may run at the same time
 *
 * Numbers are those of ddabi/src/genl.rs. docs/netlink/ is the specification. A
 * test compares these three places.
 */
#ifndef DD_SHIM_GENL_H
#define DD_SHIM_GENL_H

#include <linux/types.h>

enum {
	DD_A_VM_ID = 4,
	DD_A_POOL_ID = 6,
	DD_A_NAME = 7,
	DD_A_CGROUP_PATH = 9,
	DD_A_WEIGHT = 10,
	DD_A_STORE = 11,
	DD_A_CAPACITY = 12,
	DD_A_FLOOR = 15,
	DD_A_MODE = 16,
	DD_A_BATCH = 17,
	DD_A_FILE_FD = 24,
	DD_A_POLICY = 25,
	DD_A_SSD_WEIGHT = 31,
	DD_A_PATH = 32,
	DD_A_DEVICE = 33,
	DD_A_DEADLINE = 36,
	DD_A_KEEP_FREE = 37,
	DD_A_PROMOTE_FREE = 38,
	DD_A_WRITE_BUDGET = 39,
	DD_A_WAITING = 40,
	DD_A_SSD_ADMIT = 41,
	DD_A_RETAIN = 42,
	DD_A_INDEX_LIMIT = 43,
	DD_A_MAX = 43,
};

#define DD_NAME_LEN 64

/* The attributes of a request; mirrored by `Args` in genl.rs. */
struct dd_genl_args {
	u64 present;		/* bit n is set if attribute n was given */
	u64 capacity;
	u64 floor;
	u64 keep_free;
	u64 promote_free;
	u64 write_budget;
	u64 index_limit;
	u32 vm_id;
	u32 pool_id;
	u32 weight;
	u32 store;
	u32 mode;
	u32 batch;
	u32 file_fd;
	u32 policy;
	u32 ssd_weight;
	u32 device;
	u32 deadline;
	u32 waiting;
	u32 ssd_admit;
	u32 retain;
	const char *name;		/* zero terminated, or NULL */
	const char *cgroup_path;	/* zero terminated, or NULL */
	const char *path;		/* zero terminated, or NULL */
};

struct dd_genl_message;

/* Implemented in Rust. May sleep. */
int dd_genl_do(u8 command, const struct dd_genl_args *args,
	       struct dd_genl_message *reply);
/* Writes the message at *cursor and advances it. Returns 1, or 0 if there is none. May sleep. */
int dd_genl_dump(u8 command, const struct dd_genl_args *args, u64 *cursor,
		 struct dd_genl_message *message);

/* Called from Rust. */
int dd_genl_register(void);
void dd_genl_unregister(void);
int dd_genl_put_u32(struct dd_genl_message *message, u16 attribute, u32 value);
int dd_genl_put_u64(struct dd_genl_message *message, u16 attribute, u64 value);
int dd_genl_put_bytes(struct dd_genl_message *message, u16 attribute,
		      const void *bytes, size_t len);
int dd_genl_put_string(struct dd_genl_message *message, u16 attribute,
		       const char *text, size_t len);
void dd_genl_explain(struct dd_genl_message *message, const char *text);
/* Sends an event with (attribute, u32) pairs and a name. May sleep. */
void dd_genl_event(const u32 *pairs, size_t count, const char *name, size_t name_len);

#endif
