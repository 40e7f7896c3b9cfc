// SPDX-License-Identifier: GPL-2.0-only
/*
 * A livepatch of one function that DoubleDecker's modules divert, for tests.
 * While the patch is enabled, the modules cannot divert the function, and while
 * they divert it, the patch cannot be enabled. The replacements do as little as
 * the callers of the functions allow.
 */

#include <linux/fs.h>
#include <linux/kvm_host.h>
#include <linux/livepatch.h>
#include <linux/module.h>
#include <linux/pagemap.h>
#include <uapi/linux/kvm_para.h>

static char *function = "";
module_param(function, charp, 0444);
MODULE_PARM_DESC(function, "Function to patch");

static char *object;
module_param(object, charp, 0444);
MODULE_PARM_DESC(object, "Module that contains it (default: the kernel itself)");

/* Pages that are not invalidated remain the responsibility of the caller. */
static int patched_invalidate(struct address_space *mapping, pgoff_t start, pgoff_t end)
{
	invalidate_mapping_pages(mapping, start, end);
	return mapping_empty(mapping) ? 0 : -EBUSY;
}

/* Readahead is optional: each folio is then read separately. */
static void patched_readahead(struct readahead_control *rac)
{
}

/* Behaves as if KVM knew no hypercall. */
static int patched_hypercall(struct kvm_vcpu *vcpu, int cpl,
			     int (*complete)(struct kvm_vcpu *vcpu))
{
	vcpu->run->hypercall.ret = -KVM_ENOSYS;
	return 1;
}

static const struct {
	const char *function;
	void *replacement;
} patches[] = {
	{ "invalidate_inode_pages2_range", patched_invalidate },
	{ "ext4_readahead", patched_readahead },
	{ "____kvm_emulate_hypercall", patched_hypercall },
};

/* An empty entry ends the list. */
static struct klp_func funcs[2];
static struct klp_object objects[] = { { .funcs = funcs }, {} };
static struct klp_patch patch = { .mod = THIS_MODULE, .objs = objects };

static int __init livepatch_init(void)
{
	int i;

	for (i = 0; i < ARRAY_SIZE(patches); i++) {
		if (strcmp(function, patches[i].function))
			continue;
		funcs[0].old_name = function;
		funcs[0].new_func = patches[i].replacement;
		objects[0].name = object;
		return klp_enable_patch(&patch);
	}
	return -EINVAL;
}

static void __exit livepatch_exit(void)
{
}

module_init(livepatch_init);
module_exit(livepatch_exit);
MODULE_DESCRIPTION("Livepatch of a function that DoubleDecker diverts, for tests");
MODULE_LICENSE("GPL");
MODULE_INFO(livepatch, "Y");
