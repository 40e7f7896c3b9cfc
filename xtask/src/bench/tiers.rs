// SPDX-License-Identifier: GPL-2.0-only

//! `bench tiers`: compares the SSD tier with its bare device, and with dm-cache and bcache.

use anyhow::Result;

use crate::{suite::KernelArgs, test};

/// Compare the SSD tier with its bare device, and with dm-cache and bcache
///
/// Runs the scenario `tiers`: reads of a guest from the tier beside direct reads of its device,
/// writes of the tier beside sequential ones, and hits and flash writes of three caches under the
/// same load. Takes about ten minutes under emulation; writes target/test/result.json.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    kernel: KernelArgs,
    /// Accelerator of the host machine: kvm, tcg or auto
    #[arg(long, default_value = "auto")]
    accel: ddlab::Accel,
    /// Add the result to docs/results/scenarios.json, with the commit and the date
    #[arg(long)]
    record: bool,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &Args) -> Result<bool> {
    let mut test = test::Args::of_scenario("tiers");
    test.record = args.record;
    test.json = args.json;
    test.accel = args.accel;
    test.kernel = args.kernel.clone();
    test::run(&test)
}
