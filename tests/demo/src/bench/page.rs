// SPDX-License-Identifier: GPL-2.0-only

//! The report of a comparison.

use ddreport::{
    chart::{GREY, Ladder, Rung, colour},
    page::{Cell, table},
};
use maud::{Markup, html};

use super::{
    comparison::{Comparison, HEAD, row},
    way::Way,
    workload::Workload,
};
use crate::report::{page, promises};

/// Returns the whole document.
pub(super) fn comparison_page(comparison: &Comparison) -> Markup {
    let body = html! {
        h1 { "The same memory, spent in four ways" }
        p {
            (comparison.memory_mib) " MiB of a KVM host go to its guests (and their containers' "
            "limits), to the host's page cache (" code { "cache=writeback" } ", bounded by a "
            "cgroup), to one FIFO for all, or to DoubleDecker with its default policy. The disk "
            "of each VM is slowed down below all of them, to " (comparison.disk) "."
        }
        (factors(comparison))
        @for workload in Workload::ALL {
            (section(comparison, workload))
        }
        @if !comparison.break_even.is_empty() {
            h2 { "Disks of all speeds" }
            (sweep(comparison))
        }
        h2 { "Goals" }
        (promises(comparison.targets()))
        h2 { "How it was measured" }
        dl {
            dt { "kernel" } dd { (comparison.kernel) ", in host and guests" }
            dt { "accelerator" } dd { (comparison.accelerator) }
            dt { "avoided" } dd { "MiB/s that requests read and that did not come from disks" }
            dt { "starved" } dd { "part of the time in which the host itself waited for a processor" }
            dt { "per page" } dd {
                "for each 4 KiB that requests read: exits of all VMs, and processor time of the "
                "host with its guests"
            }
        }
        @if comparison.accelerator == "tcg" {
            p {
                "The host is emulated: everything but the disk is some 20 to 50 times slower than "
                "on a processor, and the disk is slowed down intentionally. Only ratios are meaningful."
            }
        }
    };
    page("DoubleDecker compared with other ways", &body)
}

/// Returns all ways compared with the first, in all stages.
fn factors(comparison: &Comparison) -> Markup {
    let rows = comparison.stages().into_iter().map(|stage| Rung {
        name: stage.to_owned(),
        factors: Way::ALL
            .map(|way| comparison.factor(stage, way, Way::Guests))
            .to_vec(),
    });
    let rows: Vec<_> = rows
        .filter(|row| row.factors.iter().any(Option::is_some))
        .collect();
    if rows.is_empty() {
        return html! {};
    }
    html! { figure { (ladder("Requests in each way", rows).svg()) } }
}

fn section(comparison: &Comparison, workload: Workload) -> Markup {
    let stages = comparison.stages();
    let own = stages.into_iter().filter(|stage| {
        let mut usual = comparison.usual(stage);
        usual.any(|one| one.workload == workload)
    });
    let own: Vec<_> = own.collect();
    if own.is_empty() {
        return html! {};
    }
    html! {
        h2 { (workload.about()) }
        @for stage in own {
            p { strong { (stage) } }
            (table(&HEAD, comparison.usual(stage).map(|one| row(one).into_iter().map(Cell::number))))
        }
    }
}

fn sweep(comparison: &Comparison) -> Markup {
    let speeds = comparison.break_even.first();
    let speeds = speeds.map_or(&[][..], |even| &even.factors);
    let heads: Vec<String> = std::iter::once("requests for each of".to_owned())
        .chain(speeds.iter().map(|(iops, _)| format!("{iops} IOPS")))
        .collect();
    let heads: Vec<&str> = heads.iter().map(String::as_str).collect();
    let rows = comparison.break_even.iter().map(|even| {
        let factors = even.factors.iter();
        let factors = factors.map(|(_, factor)| Cell::right(format!("{factor:.2}×")));
        std::iter::once(Cell::text(even.against.name())).chain(factors)
    });
    html! {
        @for even in &comparison.break_even {
            p { "DoubleDecker is " (even.describe()) "." }
        }
        (table(&heads, rows))
    }
}

fn ladder(about: &str, rows: Vec<Rung>) -> Ladder {
    let colours = [GREY, colour(0), colour(1), colour(2)];
    Ladder {
        about: about.to_owned(),
        axis: "requests, compared with memory in the guests".to_owned(),
        situations: Way::ALL
            .iter()
            .zip(colours)
            .map(|(way, colour)| (way.name().to_owned(), colour))
            .collect(),
        rows,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::comparison::sample;

    #[test]
    fn the_page_has_everything_in_it() {
        let text = comparison_page(&sample()).into_string();
        assert!(text.contains("one container") && text.contains("east's peak"));
        assert!(text.contains("Disks of all speeds"));
        assert_eq!(text.matches("<circle").count(), 16);
        assert!(!text.contains("NaN") && !text.contains("src="));
    }
}
