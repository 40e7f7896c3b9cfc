// SPDX-License-Identifier: GPL-2.0-only

//! An experiment beside the paper's.

use ddreport::{
    gain,
    page::{Cell, table},
};
use maud::{Markup, html};
use serde::Serialize;

/// Percentage by which a share may differ from the paper's.
pub(super) const SHARE: f64 = 3.0;

/// Whether an experiment has the paper's result.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Verdict {
    /// All values are within their bands.
    Reproduced,
    /// At least half of them are.
    Partly,
    /// Fewer are.
    Not,
}

/// A value, with the paper's.
#[derive(Debug, Serialize)]
pub(super) struct Compared {
    what: String,
    paper: f64,
    /// The measured value, or `None` if it was not measured.
    ours: Option<f64>,
    /// Whether the measured value is within the band around the paper's.
    holds: bool,
}

impl Compared {
    /// Returns a part of the store.
    pub(super) fn share(what: impl Into<String>, paper: f64, ours: Option<f64>) -> Self {
        let off = |ours: f64| (ours / paper - 1.0).abs() * 100.0;
        Self::new(what, paper, ours, |ours| off(ours) <= SHARE)
    }

    /// Returns a throughput, divided by that in another mode. It is judged as in the simulated
    /// figures.
    pub(super) fn gain(what: impl Into<String>, paper: f64, ours: Option<f64>) -> Self {
        Self::new(what, paper, ours, |ours| gain::agrees(paper, ours))
    }

    fn new(
        what: impl Into<String>,
        paper: f64,
        ours: Option<f64>,
        holds: impl Fn(f64) -> bool,
    ) -> Self {
        Self {
            what: what.into(),
            paper,
            ours,
            holds: ours.is_some_and(holds),
        }
    }
}

/// An experiment's scale and values, compared with the paper's.
#[derive(Debug, Serialize)]
pub(crate) struct Paper {
    /// The paper's store, divided by that of the experiment.
    scale: f64,
    pub(super) verdict: Verdict,
    compared: Vec<Compared>,
}

impl Paper {
    /// Compares values. The sizes are those of the paper's store and of this one, in MiB.
    pub(super) fn new((paper_mib, mib): (u64, u64), compared: Vec<Compared>) -> Self {
        let held = compared.iter().filter(|one| one.holds).count();
        Self {
            scale: scale(paper_mib, mib),
            verdict: match (held, compared.len()) {
                (0, _) => Verdict::Not,
                (held, all) if held == all => Verdict::Reproduced,
                (held, all) if 2 * held >= all => Verdict::Partly,
                _ => Verdict::Not,
            },
            compared,
        }
    }

    /// Returns the verdict, and the values on which it is based.
    pub(super) fn section(&self) -> Markup {
        let verdict = match self.verdict {
            Verdict::Reproduced => "The paper's figure is reproduced.",
            Verdict::Partly => "The paper's figure is partly reproduced.",
            Verdict::Not => "The paper's figure is not reproduced.",
        };
        let rows = self.compared.iter().map(|one| {
            let ours = one.ours;
            [
                Cell::text(&one.what),
                Cell::number(format!("{:.2}", one.paper)),
                Cell::number(ours.map_or("not measured".into(), |ours| format!("{ours:.2}"))),
                Cell::text(if one.holds { "yes" } else { "no" }),
            ]
        });
        html! {
            p {
                (verdict) " It is if all shares are within " (SHARE) " % of the paper's, and all "
                "gains within a factor of " (gain::FACTOR) " and in its direction; and partly if \
                 at least half of them are."
            }
            (table(&["value", "paper", "here", "within"], rows))
        }
    }
}

/// Returns the size of the paper's store, divided by that of the experiment.
fn scale(paper_mib: u64, mib: u64) -> f64 {
    paper_mib as f64 / mib as f64
}

/// Returns a sentence about the scale, for readers.
pub(super) fn scaled(paper_mib: u64, mib: u64) -> String {
    format!(
        "The paper's store of {paper_mib} MiB is {:.1} times as large as this one of {mib} MiB.",
        scale(paper_mib, mib)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(compared: Vec<Compared>) -> Verdict {
        Paper::new((1_024, 24), compared).verdict
    }

    #[test]
    fn bands_have_two_ends() {
        let gain = |ours| Compared::gain("x", 6.6, ours).holds;
        assert!(gain(Some(3.3)) && gain(Some(13.2)));
        assert!(!gain(Some(3.2)) && !gain(Some(13.3)) && !gain(None));
        // No gain is not within a factor of two of a gain, and neither is a loss.
        let gain = |ours| Compared::gain("x", 1.5, Some(ours)).holds;
        assert!(gain(1.3) && !gain(1.0) && !gain(0.8));
        let share = |ours| Compared::share("x", 0.5, ours).holds;
        assert!(share(Some(0.49)) && share(Some(0.51)));
        assert!(!share(Some(0.48)) && !share(Some(0.52)) && !share(None));
    }

    #[test]
    fn half_of_the_values_are_a_part() {
        let value = |ours| Compared::gain("x", 1.0, Some(ours));
        assert_eq!(verdict(vec![value(1.0), value(2.0)]), Verdict::Reproduced);
        assert_eq!(verdict(vec![value(1.0), value(3.0)]), Verdict::Partly);
        let few = vec![value(1.0), value(3.0), value(3.0)];
        assert_eq!(verdict(few), Verdict::Not);
        assert_eq!(verdict(Vec::new()), Verdict::Not);
    }

    #[test]
    fn the_scale_is_told() {
        assert!(scaled(1_024, 24).contains(" 42.7 times "));
        let json = serde_json::to_value(Paper::new((4_096, 48), Vec::new())).unwrap();
        assert_eq!(
            (json["scale"].as_f64(), &json["verdict"]),
            (Some(4096.0 / 48.0), &"not".into())
        );
    }
}
