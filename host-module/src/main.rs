// SPDX-License-Identifier: GPL-2.0

//! Skeleton.

#![crate_name = "doubledecker_host"]

use kernel::prelude::*;

module! {
    type: Skeleton,
    name: "doubledecker_host",
    authors: ["DoubleDecker developers"],
    description: "DoubleDecker host",
    license: "GPL",
}

struct Skeleton;

impl kernel::Module for Skeleton {
    fn init(_module: &'static ThisModule) -> Result<Self> {
        pr_info!("abi {} {}\n", ddabi::ABI_VERSION, ddabi::key::mix(7));
        Ok(Skeleton)
    }
}
