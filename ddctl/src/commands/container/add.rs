// SPDX-License-Identifier: GPL-2.0-only

//! `ddctl container add`.

use crate::{context::Context, error::Result, output::Frame, report::AddedReport, value};
use clap::{Args, ValueEnum};
use ddabi::{
    NAME_LEN,
    pool::{DEFAULT_WEIGHT, SsdAdmit, Store},
};
use ddnl::{NewPool, Policy};

/// Enrol a cgroup as a container
#[derive(Args, Debug)]
#[command(after_help = concat!(
    "Examples:",
    "\n  ddctl container add /system.slice/nginx.service --weight 300",
    "\n  ddctl container add db.slice --name db --store ssd",
))]
pub(crate) struct Arguments {
    /// Path of the cgroup, with or without /sys/fs/cgroup in front
    cgroup: String,
    /// Name shown in the guest and on the host [default: the last component of the path]
    #[arg(long)]
    name: Option<String>,
    /// Weight from 0 to 10000
    #[arg(long, default_value_t = DEFAULT_WEIGHT, value_parser = value::weight, allow_negative_numbers = true)]
    weight: u32,
    /// Weight from 0 to 10000 in the SSD tier [default: that of --weight]
    #[arg(long, value_name = "WEIGHT", value_parser = value::weight, allow_negative_numbers = true)]
    ssd_weight: Option<u32>,
    /// Tiers that cache the pages
    #[arg(long, value_enum, default_value_t = StoreChoice::Mem)]
    store: StoreChoice,
    /// Which of its pages to cache: adaptive, fifo, workingset, tinylfu, s3 or mru
    #[arg(long, default_value = Policy::DEFAULT.name(), value_parser = value::policy)]
    policy: Policy,
    /// Which of its pages go to the SSD tier
    #[arg(long, value_enum, default_value_t = Admit::All)]
    ssd_admit: Admit,
}

/// The stores, by the names on the command line.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(super) enum StoreChoice {
    /// The host's memory tier
    Mem,
    /// The host's SSD tier
    Ssd,
    /// The host's memory tier, and its SSD tier for pages that have to leave it
    Hybrid,
    /// Do not cache the container's pages
    None,
}

impl From<StoreChoice> for Store {
    fn from(choice: StoreChoice) -> Self {
        match choice {
            StoreChoice::Mem => Self::Memory,
            StoreChoice::Ssd => Self::Ssd,
            StoreChoice::Hybrid => Self::Hybrid,
            StoreChoice::None => Self::None,
        }
    }
}

/// The pages that go to the SSD tier, by the names on the command line.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(super) enum Admit {
    /// All pages
    All,
    /// Pages that were read repeatedly; the device wears out less
    Second,
}

impl From<Admit> for SsdAdmit {
    fn from(admit: Admit) -> Self {
        match admit {
            Admit::All => Self::All,
            Admit::Second => Self::Second,
        }
    }
}

pub(super) fn run(context: &mut Context<'_>, arguments: &Arguments) -> Result<()> {
    let mut guest = context.guest("container add")?;
    let cgroup = below_root(&arguments.cgroup);
    let pool = NewPool {
        name: arguments.name.clone().unwrap_or_else(|| last_part(&cgroup)),
        weight: arguments.weight,
        ssd_weight: arguments.ssd_weight,
        store: arguments.store.into(),
        policy: Some(arguments.policy),
        ssd_admit: Some(arguments.ssd_admit.into()),
        cgroup,
    };
    let id = guest.control.add_pool(&pool)?;
    let text = format!(
        "Enrolled {} as container {} (id {id}) with weight {}",
        pool.cgroup, pool.name, pool.weight
    );
    let report = AddedReport {
        container: id,
        name: &pool.name,
        cgroup: &pool.cgroup,
        weight: pool.weight,
        policy: arguments.policy.name(),
    };
    Frame::done(text, &report).print(context)
}

/// Returns the path below the cgroup root: `/a/b` for `/sys/fs/cgroup/a/b`, `/a/b` and `a/b`.
fn below_root(path: &str) -> String {
    let path = match path.strip_prefix("/sys/fs/cgroup") {
        Some(rest) if rest.is_empty() || rest.starts_with('/') => rest,
        _ => path,
    };
    format!("/{}", path.trim_matches('/'))
}

/// Returns the last component of a path, cut to the longest name that the ABI allows.
fn last_part(path: &str) -> String {
    let part = path.rsplit('/').next().unwrap_or_default();
    let mut end = part.len().min(NAME_LEN);
    while !part.is_char_boundary(end) {
        end -= 1;
    }
    part[..end].into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_below_the_root() {
        for path in ["/sys/fs/cgroup/a/b", "/a/b", "a/b", "a/b/", "/a/b/"] {
            assert_eq!(below_root(path), "/a/b");
        }
        assert_eq!(below_root("/sys/fs/cgroups"), "/sys/fs/cgroups");
        assert_eq!(below_root("/sys/fs/cgroup"), "/");
    }

    #[test]
    fn names_are_bounded() {
        assert_eq!(last_part("/a/web.slice"), "web.slice");
        assert_eq!(last_part(&format!("/{}", "ä".repeat(40))).len(), 64);
        assert_eq!(last_part(&format!("/x{}", "ä".repeat(40))).len(), 63);
    }
}
