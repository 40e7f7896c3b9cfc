// SPDX-License-Identifier: GPL-2.0-only

//! Kernel options and functions that the modules need. A test compares the functions with the
//! modules' sources.

use ddnl::Side;

/// A kernel option and its purpose.
pub(super) struct KernelOption {
    pub(super) name: &'static str,
    pub(super) why: &'static str,
}

const fn option(name: &'static str, why: &'static str) -> KernelOption {
    KernelOption { name, why }
}

const BOTH_OPTIONS: [KernelOption; 4] = [
    option("CONFIG_MODULES", "to load the module"),
    option("CONFIG_RUST", "the module is written in Rust"),
    option("CONFIG_DYNAMIC_FTRACE_WITH_ARGS", "to attach to functions"),
    option("CONFIG_KPROBES", "to find functions by their names"),
];
const HOST_OPTIONS: [KernelOption; 1] = [option("CONFIG_KVM", "to run VMs")];
const GUEST_OPTIONS: [KernelOption; 2] = [
    option("CONFIG_MEMCG", "to find the cgroup of a page"),
    option("CONFIG_CGROUPS", "to tell containers apart"),
];

/// Returns the kernel options that must be `y` or `m`.
pub(super) fn options(side: Side) -> impl Iterator<Item = &'static KernelOption> {
    let own: &[KernelOption] = match side {
        Side::Guest => &GUEST_OPTIONS,
        Side::Host => &HOST_OPTIONS,
    };
    BOTH_OPTIONS.iter().chain(own)
}

const HOST_OBSERVED: [&str; 1] = ["kvm_arch_pre_destroy_vm"];
const HOST_DIVERTED: [&str; 1] = ["____kvm_emulate_hypercall"];
const GUEST_OBSERVED: [&str; 7] = [
    "__filemap_remove_folio",
    "__folio_mark_dirty",
    "delete_from_page_cache_batch",
    "filemap_dirty_folio",
    "free_unref_folios",
    "iomap_iter",
    "iomap_swapfile_activate",
];
const GUEST_DIVERTED: [&str; 3] = [
    "generic_shutdown_super",
    "invalidate_inode_pages2_range",
    "truncate_inode_pages_range",
];

/// Returns all functions that the module of this side attaches to on every kernel.
pub(super) fn functions(side: Side) -> impl Iterator<Item = &'static str> {
    let observed: &[&str] = match side {
        Side::Guest => &GUEST_OBSERVED,
        Side::Host => &HOST_OBSERVED,
    };
    observed.iter().chain(diverted(side)).copied()
}

/// Returns the functions whose calls are diverted. Only one ftrace user can divert a function.
pub(super) const fn diverted(side: Side) -> &'static [&'static str] {
    match side {
        Side::Guest => &GUEST_DIVERTED,
        Side::Host => &HOST_DIVERTED,
    }
}

/// A filesystem whose files can be cached, and the functions the guest module attaches to.
pub(super) struct Filesystem {
    pub(super) name: &'static str,
    pub(super) observed: &'static [&'static str],
    pub(super) diverted: [&'static str; 2],
}

impl Filesystem {
    /// Returns the functions of both kinds.
    pub(super) fn functions(&self) -> impl Iterator<Item = &'static str> {
        self.observed.iter().copied().chain(self.diverted)
    }
}

/// The filesystems that can be cached.
pub(super) const FILESYSTEMS: [Filesystem; 2] = [
    Filesystem {
        name: "ext4",
        observed: &["ext4_swap_extents", "ext4_write_inline_data_end"],
        diverted: ["ext4_readahead", "ext4_read_folio"],
    },
    Filesystem {
        name: "xfs",
        observed: &[],
        diverted: ["xfs_vm_readahead", "xfs_vm_read_folio"],
    },
];

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    /// Returns the values of `.symbol =` in a C file of the repository: those of observers, and all
    /// others.
    fn symbols(file: &str) -> [BTreeSet<String>; 2] {
        let path = format!("{}/../{file}", env!("CARGO_MANIFEST_DIR"));
        let text = std::fs::read_to_string(&path).unwrap();
        let mut sets = [BTreeSet::new(), BTreeSet::new()];
        let mut diverted = 0;
        for line in text.lines() {
            if let Some(rest) = line.strip_prefix("static struct dd_hook dd_") {
                diverted = usize::from(!OBSERVERS.iter().any(|name| rest.starts_with(name)));
            }
            if let Some((_, rest)) = line.split_once(".symbol = \"") {
                sets[diverted].extend(rest.split('"').next().map(Into::into));
            }
        }
        sets
    }

    /// Prefixes of the modules' names for hooks that only observe.
    const OBSERVERS: [&str; 3] = ["observers", "ext4_changes", "destroy_hook"];

    fn set<'a>(names: impl IntoIterator<Item = &'a str>) -> BTreeSet<String> {
        names.into_iter().map(Into::into).collect()
    }

    #[test]
    fn functions_are_those_of_the_modules() {
        assert_eq!(
            symbols("host-module/shim/kvm.c"),
            [set(HOST_OBSERVED), set(HOST_DIVERTED)]
        );
        let changes = FILESYSTEMS.iter().flat_map(|one| one.observed).copied();
        let observed = GUEST_OBSERVED.into_iter().chain(changes);
        let reads = FILESYSTEMS.iter().flat_map(|one| one.diverted);
        let diverted = GUEST_DIVERTED.into_iter().chain(reads);
        assert_eq!(
            symbols("guest-module/shim/hooks.c"),
            [set(observed), set(diverted)]
        );
    }
}
