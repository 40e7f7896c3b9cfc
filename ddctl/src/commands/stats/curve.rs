// SPDX-License-Identifier: GPL-2.0-only

//! `ddctl stats --curve`: hits that containers would have with other shares.

use crate::{
    context::Context,
    error::Result,
    output::{Frame, show_ratio},
    report::{CurveReport, CurvesReport, PointReport},
    table::Table,
    target::{find_pool, pool_label},
};
use ddabi::counters::CurvePoint;
use ddconf::size::show_pages;
use ddnl::Pool;

/// A container is shown with the smallest shares that reach these parts of all hits, in percent.
const STEPS: [u64; 9] = [1, 5, 10, 25, 50, 75, 90, 95, 100];

pub(super) fn draw(context: &Context<'_>, target: Option<&str>) -> Result<Frame> {
    let mut guest = context.guest("stats --curve")?;
    let mut pools = guest.control.pools()?;
    if let Some(target) = target {
        pools = vec![find_pool(&pools, target)?.clone()];
    }
    let mut table = Table::new(1, &["NAME", "SHARE", "HITS", "OF READS", "ERROR"]);
    for pool in &pools {
        let admission = pool.admission.unwrap_or_default();
        for point in shown(points(pool)) {
            let ratio = (admission.reads > 0).then(|| point.hits as f64 / admission.reads as f64);
            table.row([
                pool_label(pool),
                show_pages(point.pages),
                point.hits.to_string(),
                show_ratio(ratio),
                show_ratio(Some(admission.curve_error_permille as f64 / 1e3)),
            ]);
        }
    }
    let curves = pools.iter().map(report).collect();
    Ok(Frame::new(
        table.text(context.columns()),
        &CurvesReport { curves },
    ))
}

fn points(pool: &Pool) -> &[CurvePoint] {
    pool.curve.as_deref().unwrap_or_default()
}

/// Returns the points that show the shape of a curve. JSON has all points.
fn shown(points: &[CurvePoint]) -> Vec<CurvePoint> {
    let all = points.last().map_or(0, |point| point.hits);
    let reaching = |percent: u64| {
        let enough = |point: &&CurvePoint| {
            point.hits > 0 && u128::from(point.hits) * 100 >= u128::from(all) * u128::from(percent)
        };
        points.iter().find(enough).copied()
    };
    let mut shown: Vec<CurvePoint> = STEPS.into_iter().filter_map(reaching).collect();
    shown.dedup();
    shown
}

fn report(pool: &Pool) -> CurveReport {
    let admission = pool.admission.unwrap_or_default();
    let point = |point: &CurvePoint| PointReport {
        pages: point.pages,
        hits: point.hits,
    };
    CurveReport {
        container: pool.id,
        name: pool_label(pool),
        reads: admission.reads,
        error_permille: admission.curve_error_permille,
        points: points(pool).iter().map(point).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_points_show_the_shape() {
        assert!(shown(&[]).is_empty());
        let point = |pages, hits| CurvePoint { pages, hits };
        let curve = [point(16, 10), point(32, 500), point(64, 1000)];
        assert_eq!(shown(&curve), curve);
        let flat = [point(16, 1000)];
        assert_eq!(shown(&flat), flat);
    }
}
