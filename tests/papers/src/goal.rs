// SPDX-License-Identifier: GPL-2.0

//! What the figures promise.

use crate::figure::{Compared, Figure};
use ddsim::goal::Goal;

/// Part by which shares may be off those in the papers' figures.
const OFF: f64 = 0.05;

/// What the figures of shares say: whoever is told a share gets it.
pub fn of_figures(figures: &[Figure]) -> Vec<Goal> {
    let shares = ["DoubleDecker, figure 13", "DoubleDecker, figure 14"];
    let shown = shares.iter().filter_map(|name| {
        let figure = figures.iter().find(|figure| figure.name == *name)?;
        let ratios = figure.compared.iter().filter_map(Compared::ratio);
        let off = ratios.map(|ratio| (ratio - 1.0).abs()).fold(0.0, f64::max);
        let name = format!("{name}: largest part by which a share is off the paper's");
        Some(Goal::at_most(name, OFF, off))
    });
    shown.collect()
}
