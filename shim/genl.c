// SPDX-License-Identifier: GPL-2.0-only
/* See genl.h. Each module includes this file. */

#include <linux/module.h>
#include <net/genetlink.h>
#include "genl.h"

struct dd_genl_message {
	struct sk_buff *skb;
	struct netlink_ext_ack *extack;
};

static struct genl_family dd_family;

/*
 * The version that `modinfo` reports. The macro module! of Rust has no key for
 * it.
 */
MODULE_VERSION(DD_VERSION);

static const struct nla_policy dd_policy[DD_A_MAX + 1] = {
	[DD_A_VM_ID] = { .type = NLA_U32 },
	[DD_A_POOL_ID] = { .type = NLA_U32 },
	[DD_A_NAME] = { .type = NLA_NUL_STRING, .len = DD_NAME_LEN },
	[DD_A_CGROUP_PATH] = { .type = NLA_NUL_STRING, .len = PATH_MAX - 1 },
	[DD_A_WEIGHT] = { .type = NLA_U32 },
	[DD_A_STORE] = { .type = NLA_U32 },
	[DD_A_CAPACITY] = { .type = NLA_U64 },
	[DD_A_FLOOR] = { .type = NLA_U64 },
	[DD_A_MODE] = { .type = NLA_U32 },
	[DD_A_BATCH] = { .type = NLA_U32 },
	[DD_A_FILE_FD] = { .type = NLA_U32 },
	[DD_A_POLICY] = { .type = NLA_U32 },
	[DD_A_SSD_WEIGHT] = { .type = NLA_U32 },
	[DD_A_PATH] = { .type = NLA_NUL_STRING, .len = PATH_MAX - 1 },
	[DD_A_DEVICE] = { .type = NLA_U32 },
	[DD_A_DEADLINE] = { .type = NLA_U32 },
	[DD_A_KEEP_FREE] = { .type = NLA_U64 },
	[DD_A_PROMOTE_FREE] = { .type = NLA_U64 },
	[DD_A_WRITE_BUDGET] = { .type = NLA_U64 },
	[DD_A_WAITING] = { .type = NLA_U32 },
	[DD_A_SSD_ADMIT] = { .type = NLA_U32 },
	[DD_A_RETAIN] = { .type = NLA_U32 },
	[DD_A_INDEX_LIMIT] = { .type = NLA_U64 },
};

static void dd_genl_parse(struct nlattr **attrs, struct dd_genl_args *args)
{
	int i;

	memset(args, 0, sizeof(*args));
	if (!attrs)
		return;
	for (i = 1; i <= DD_A_MAX; i++)
		if (attrs[i])
			args->present |= BIT_ULL(i);
	if (attrs[DD_A_VM_ID])
		args->vm_id = nla_get_u32(attrs[DD_A_VM_ID]);
	if (attrs[DD_A_POOL_ID])
		args->pool_id = nla_get_u32(attrs[DD_A_POOL_ID]);
	if (attrs[DD_A_NAME])
		args->name = nla_data(attrs[DD_A_NAME]);
	if (attrs[DD_A_CGROUP_PATH])
		args->cgroup_path = nla_data(attrs[DD_A_CGROUP_PATH]);
	if (attrs[DD_A_WEIGHT])
		args->weight = nla_get_u32(attrs[DD_A_WEIGHT]);
	if (attrs[DD_A_STORE])
		args->store = nla_get_u32(attrs[DD_A_STORE]);
	if (attrs[DD_A_CAPACITY])
		args->capacity = nla_get_u64(attrs[DD_A_CAPACITY]);
	if (attrs[DD_A_FLOOR])
		args->floor = nla_get_u64(attrs[DD_A_FLOOR]);
	if (attrs[DD_A_MODE])
		args->mode = nla_get_u32(attrs[DD_A_MODE]);
	if (attrs[DD_A_BATCH])
		args->batch = nla_get_u32(attrs[DD_A_BATCH]);
	if (attrs[DD_A_FILE_FD])
		args->file_fd = nla_get_u32(attrs[DD_A_FILE_FD]);
	if (attrs[DD_A_POLICY])
		args->policy = nla_get_u32(attrs[DD_A_POLICY]);
	if (attrs[DD_A_SSD_WEIGHT])
		args->ssd_weight = nla_get_u32(attrs[DD_A_SSD_WEIGHT]);
	if (attrs[DD_A_PATH])
		args->path = nla_data(attrs[DD_A_PATH]);
	if (attrs[DD_A_DEVICE])
		args->device = nla_get_u32(attrs[DD_A_DEVICE]);
	if (attrs[DD_A_DEADLINE])
		args->deadline = nla_get_u32(attrs[DD_A_DEADLINE]);
	if (attrs[DD_A_WAITING])
		args->waiting = nla_get_u32(attrs[DD_A_WAITING]);
	if (attrs[DD_A_SSD_ADMIT])
		args->ssd_admit = nla_get_u32(attrs[DD_A_SSD_ADMIT]);
	if (attrs[DD_A_RETAIN])
		args->retain = nla_get_u32(attrs[DD_A_RETAIN]);
	if (attrs[DD_A_KEEP_FREE])
		args->keep_free = nla_get_u64(attrs[DD_A_KEEP_FREE]);
	if (attrs[DD_A_PROMOTE_FREE])
		args->promote_free = nla_get_u64(attrs[DD_A_PROMOTE_FREE]);
	if (attrs[DD_A_WRITE_BUDGET])
		args->write_budget = nla_get_u64(attrs[DD_A_WRITE_BUDGET]);
	if (attrs[DD_A_INDEX_LIMIT])
		args->index_limit = nla_get_u64(attrs[DD_A_INDEX_LIMIT]);
}

static int dd_genl_doit(struct sk_buff *skb, struct genl_info *info)
{
	struct dd_genl_message reply = { .extack = info->extack };
	struct dd_genl_args args;
	void *head;
	int err;

	dd_genl_parse(info->attrs, &args);
	reply.skb = genlmsg_new(NLMSG_DEFAULT_SIZE, GFP_KERNEL | __GFP_NOWARN);
	if (!reply.skb)
		return -ENOMEM;
	head = genlmsg_put_reply(reply.skb, info, &dd_family, 0, info->genlhdr->cmd);
	if (!head) {
		nlmsg_free(reply.skb);
		return -EMSGSIZE;
	}
	err = dd_genl_do(info->genlhdr->cmd, &args, &reply);
	if (err) {
		nlmsg_free(reply.skb);
		return err;
	}
	genlmsg_end(reply.skb, head);
	return genlmsg_reply(reply.skb, info);
}

static int dd_genl_dumpit(struct sk_buff *skb, struct netlink_callback *cb)
{
	const struct genl_info *info = genl_info_dump(cb);
	struct dd_genl_message message = { .skb = skb, .extack = cb->extack };
	u64 *cursor = (u64 *)cb->ctx;
	struct dd_genl_args args;
	int written = 0;

	dd_genl_parse(info->attrs, &args);
	for (;;) {
		u64 next = *cursor;
		void *head;
		int ret;

		head = genlmsg_put(skb, NETLINK_CB(cb->skb).portid, cb->nlh->nlmsg_seq,
				   &dd_family, NLM_F_MULTI, info->genlhdr->cmd);
		if (!head)
			return written ? skb->len : -EMSGSIZE;
		ret = dd_genl_dump(info->genlhdr->cmd, &args, &next, &message);
		if (ret != 1) {
			genlmsg_cancel(skb, head);
			/*
			 * The buffer is full: the following messages are
			 * written to the next one.
			 */
			if (ret == -EMSGSIZE && written)
				return skb->len;
			return ret ? ret : skb->len;
		}
		genlmsg_end(skb, head);
		*cursor = next;
		written++;
	}
}

#define DD_DO_OP(n) \
	{ .cmd = n, .flags = GENL_ADMIN_PERM, .doit = dd_genl_doit },
#define DD_DUMP_OP(n) \
	{ .cmd = n, .flags = GENL_ADMIN_PERM, .dumpit = dd_genl_dumpit },

static const struct genl_small_ops dd_ops[] = {
	DD_DO(DD_DO_OP)
	DD_DUMP(DD_DUMP_OP)
};

static const struct genl_multicast_group dd_groups[] = {
	{ .name = "events", .flags = GENL_MCAST_CAP_NET_ADMIN },
};

/* Numbers from here on are reserved for commands of later versions. */
#ifndef DD_RESV_START
#define DD_RESV_START (DD_EVENT + 1)
#endif

static struct genl_family dd_family = {
	.name = DD_FAMILY,
	.version = 1,
	.maxattr = DD_A_MAX,
	.policy = dd_policy,
	.netnsok = false,
	.parallel_ops = DD_PARALLEL,
	.module = THIS_MODULE,
	.small_ops = dd_ops,
	.n_small_ops = ARRAY_SIZE(dd_ops),
	.resv_start_op = DD_RESV_START,
	.mcgrps = dd_groups,
	.n_mcgrps = ARRAY_SIZE(dd_groups),
};

int dd_genl_register(void)
{
	return genl_register_family(&dd_family);
}

void dd_genl_unregister(void)
{
	genl_unregister_family(&dd_family);
}

int dd_genl_put_u32(struct dd_genl_message *message, u16 attribute, u32 value)
{
	return nla_put_u32(message->skb, attribute, value);
}

int dd_genl_put_u64(struct dd_genl_message *message, u16 attribute, u64 value)
{
	return nla_put(message->skb, attribute, sizeof(value), &value);
}

int dd_genl_put_bytes(struct dd_genl_message *message, u16 attribute,
		      const void *bytes, size_t len)
{
	return nla_put(message->skb, attribute, len, bytes);
}

int dd_genl_put_string(struct dd_genl_message *message, u16 attribute,
		       const char *text, size_t len)
{
	struct nlattr *attr = nla_reserve(message->skb, attribute, len + 1);

	if (!attr)
		return -EMSGSIZE;
	memcpy(nla_data(attr), text, len);
	((char *)nla_data(attr))[len] = 0;
	return 0;
}

void dd_genl_explain(struct dd_genl_message *message, const char *text)
{
	if (message->extack)
		NL_SET_ERR_MSG_FMT(message->extack, "%s", text);
}

void dd_genl_event(const u32 *pairs, size_t count, const char *name, size_t name_len)
{
	struct dd_genl_message message = {};
	size_t i;
	void *head;

	if (!genl_has_listeners(&dd_family, &init_net, 0))
		return;
	message.skb = genlmsg_new(NLMSG_GOODSIZE, GFP_KERNEL | __GFP_NOWARN);
	if (!message.skb)
		return;
	head = genlmsg_put(message.skb, 0, 0, &dd_family, 0, DD_EVENT);
	if (!head)
		goto fail;
	for (i = 0; i < count; i++)
		if (nla_put_u32(message.skb, pairs[2 * i], pairs[2 * i + 1]))
			goto fail;
	if (name_len && dd_genl_put_string(&message, DD_A_NAME, name, name_len))
		goto fail;
	genlmsg_end(message.skb, head);
	genlmsg_multicast(&dd_family, message.skb, 0, 0, GFP_KERNEL);
	return;
fail:
	nlmsg_free(message.skb);
}
