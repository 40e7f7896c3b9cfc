// SPDX-License-Identifier: GPL-2.0-only

//! JSON of containers.

use crate::{
    commands::stats::{hit_ratio, puts_per_hit},
    target::pool_name,
};
use ddnl::Pool;
use schemars::JsonSchema;
use serde::Serialize;

/// Containers of a guest.
#[derive(JsonSchema, Serialize)]
pub(crate) struct ContainersReport {
    /// The containers in the order of their numbers.
    pub containers: Vec<ContainerReport>,
}

/// A container: the numbers of the module, and ratios that follow from them.
#[derive(JsonSchema, Serialize)]
pub(crate) struct ContainerReport {
    /// Numbers of the module.
    #[serde(flatten)]
    numbers: Pool,
    /// Pages held now.
    used_pages: u64,
    /// Pages that the container is entitled to in the memory tier.
    entitlement_pages: u64,
    /// Part of the requested pages that were returned; null until a page is requested.
    hit_ratio: Option<f64>,
    /// Number of puts for each hit; null until there is a hit.
    puts_per_hit: Option<f64>,
}

impl From<&Pool> for ContainerReport {
    fn from(pool: &Pool) -> Self {
        let stats = pool.stats_or_zero();
        let name = pool_name(pool);
        Self {
            used_pages: stats.used,
            entitlement_pages: stats.entitlement,
            hit_ratio: hit_ratio(&stats),
            puts_per_hit: puts_per_hit(&stats),
            numbers: Pool {
                name,
                ..pool.clone()
            },
        }
    }
}

/// Curves of containers.
#[derive(JsonSchema, Serialize)]
pub(crate) struct CurvesReport {
    /// The curves in the order of the containers.
    pub curves: Vec<CurveReport>,
}

/// Hits that a container would have had with other shares.
#[derive(JsonSchema, Serialize)]
pub(crate) struct CurveReport {
    /// Number of the container.
    pub container: u32,
    /// Its name.
    pub name: String,
    /// Pages read that the page cache did not have.
    pub reads: u64,
    /// Standard error of the curve, in parts of a thousand of the reads.
    pub error_permille: u64,
    /// Points of the curve by size.
    pub points: Vec<PointReport>,
}

/// A point of a curve.
#[derive(JsonSchema, Serialize)]
pub(crate) struct PointReport {
    /// Share in pages.
    pub pages: u64,
    /// Hits of the reads at this share.
    pub hits: u64,
}

/// A container that was enrolled.
#[derive(JsonSchema, Serialize)]
pub(crate) struct AddedReport<'a> {
    /// Number of the container.
    pub container: u32,
    /// Its name.
    pub name: &'a str,
    /// Its cgroup below the root of cgroup v2.
    pub cgroup: &'a str,
    /// Its weight.
    pub weight: u32,
    /// Name of its policy.
    pub policy: &'a str,
}

/// A container that was removed.
#[derive(JsonSchema, Serialize)]
pub(crate) struct RemovedReport {
    /// Number of the container.
    pub container: u32,
}

/// Policy of a container after a change.
#[derive(JsonSchema, Serialize)]
pub(crate) struct PolicyReport<'a> {
    /// Number of the container.
    pub container: u32,
    /// Name of the policy.
    pub policy: &'a str,
}

/// Store of a container after a change.
#[derive(JsonSchema, Serialize)]
pub(crate) struct StoreReport<'a> {
    /// Number of the container.
    pub container: u32,
    /// `mem`, `ssd`, `hybrid` or `none`.
    pub store: &'a str,
    /// Which pages go to the SSD tier, `all` or `second`, if that was given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ssd_admit: Option<&'a str>,
}
