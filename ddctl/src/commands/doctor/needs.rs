// SPDX-License-Identifier: GPL-2.0

//! What the modules need of a kernel. A test compares the functions with the modules' sources.

use ddnl::Side;

/// A kernel option and what it is for.
pub(super) struct KernelOption {
    pub(super) name: &'static str,
    pub(super) why: &'static str,
}

const fn option(name: &'static str, why: &'static str) -> KernelOption {
    KernelOption { name, why }
}

const BOTH_OPTIONS: [KernelOption; 3] = [
    option("CONFIG_MODULES", "to load the module"),
    option("CONFIG_RUST", "the module is written in Rust"),
    option("CONFIG_DYNAMIC_FTRACE_WITH_ARGS", "to attach to functions"),
];
const HOST_OPTIONS: [KernelOption; 1] = [option("CONFIG_KVM", "to run VMs")];
const GUEST_OPTIONS: [KernelOption; 2] = [
    option("CONFIG_MEMCG", "to know whose page it is"),
    option("CONFIG_CGROUPS", "to know containers"),
];

/// Kernel options that must be on or a module.
pub(super) fn options(side: Side) -> impl Iterator<Item = &'static KernelOption> {
    let own: &[KernelOption] = match side {
        Side::Guest => &GUEST_OPTIONS,
        Side::Host => &HOST_OPTIONS,
    };
    BOTH_OPTIONS.iter().chain(own)
}

const HOST_FUNCTIONS: [&str; 2] = ["____kvm_emulate_hypercall", "kvm_arch_pre_destroy_vm"];
const GUEST_FUNCTIONS: [&str; 9] = [
    "__filemap_remove_folio",
    "__folio_mark_dirty",
    "delete_from_page_cache_batch",
    "filemap_dirty_folio",
    "free_unref_folios",
    "generic_shutdown_super",
    "invalidate_inode_pages2_range",
    "kiocb_invalidate_post_direct_write",
    "truncate_inode_pages_range",
];

/// Functions the module attaches to, all of them.
pub(super) const fn functions(side: Side) -> &'static [&'static str] {
    match side {
        Side::Guest => &GUEST_FUNCTIONS,
        Side::Host => &HOST_FUNCTIONS,
    }
}

/// A filesystem whose files can be cached, and the functions the guest module attaches to.
pub(super) struct Filesystem {
    pub(super) name: &'static str,
    pub(super) functions: [&'static str; 2],
}

/// Filesystems whose files can be cached.
pub(super) const FILESYSTEMS: [Filesystem; 2] = [
    Filesystem {
        name: "ext4",
        functions: ["ext4_readahead", "ext4_read_folio"],
    },
    Filesystem {
        name: "xfs",
        functions: ["xfs_vm_readahead", "xfs_vm_read_folio"],
    },
];

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    /// The words behind `.symbol =` in a C file of the repository.
    fn symbols(file: &str) -> BTreeSet<String> {
        let path = format!("{}/../{file}", env!("CARGO_MANIFEST_DIR"));
        let text = std::fs::read_to_string(&path).unwrap();
        text.split(".symbol = \"")
            .skip(1)
            .filter_map(|rest| rest.split('"').next())
            .map(Into::into)
            .collect()
    }

    fn set<'a>(names: impl IntoIterator<Item = &'a str>) -> BTreeSet<String> {
        names.into_iter().map(Into::into).collect()
    }

    #[test]
    fn functions_are_those_of_the_modules() {
        assert_eq!(symbols("host-module/shim/kvm.c"), set(HOST_FUNCTIONS));
        let reads = FILESYSTEMS.iter().flat_map(|one| one.functions);
        let all = GUEST_FUNCTIONS.into_iter().chain(reads);
        assert_eq!(symbols("guest-module/shim/hooks.c"), set(all));
    }
}
