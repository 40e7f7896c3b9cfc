// SPDX-License-Identifier: GPL-2.0-only

//! The demo's report.

use maud::{Markup, html};

use ddreport::{
    chart::{GREY, Ladder, Rung, Spread, Strip, colour},
    page,
    page::{Cell, table},
};

use super::{
    curves::{own_share, own_work, shares, timeline},
    section::{changes, promises},
};
use crate::{
    demo::{DEFAULT, FIFO, HOST, WEIGHTS, WITHOUT},
    outcome::{COMPARED, ContainerResult, Outcome, SETTLED_S},
    recording::ContainerTrack,
};

/// Returns the whole document.
pub(crate) fn demo_page(outcome: &Outcome) -> Markup {
    let body = html! {
        h1 { "DoubleDecker: one cache, two administrators" }
        (lead(outcome))
        (headline(outcome))
        h2 { "Cache of each container" }
        p {
            "The area shows the pages that the host keeps for a container, and the dashed line its "
            "entitlement. Other containers may use what a container leaves of its share, until it "
            "needs its share again."
        }
        (cache(outcome))
        (changes(&outcome.recording))
        h2 { "Cache of each VM" }
        p { "The host divides the cache between the VMs, and each VM divides its own part." }
        (vms(outcome))
        h2 { "Throughput of the containers" }
        p { "Requests served each second. The loads run all the time." }
        (work(outcome))
        h2 { "With and without DoubleDecker" }
        p {
            "Requests per second in the last " (SETTLED_S) " s of a phase, compared with those "
            "with the same memory in the guests' containers. The video server streams at a fixed rate."
        }
        (compared(outcome))
        (figures(outcome))
        h2 { "Latency of requests" }
        p {
            "Distribution of the latencies of all requests in the last " (SETTLED_S)
            " s of a phase. A second without an answered request counts as one request that took as "
            "long as the load went without an answer."
        }
        p {
            "A request whose pages the host has does not wait for the disk. It still waits for a "
            "processor of its VM, and the more requests are served, the less these are idle. "
            "Therefore the median falls, and the slowest requests may take longer than those that "
            "only wait for the disk. The table shows what the containers read from their disks, and "
            "how long the processors of their VMs are idle; both are emulated and slow."
        }
        (latencies(outcome))
        @for experiment in &outcome.experiments {
            (experiment.section())
        }
        h2 { "Promises" }
        (promises(outcome.targets()))
        h2 { "How it was measured" }
        (setting(outcome))
    };
    page("DoubleDecker demo", &body)
}

fn lead(outcome: &Outcome) -> Markup {
    let containers = outcome.containers.len();
    html! {
        p {
            "A KVM host with a page cache of " (outcome.setting.capacity_mib) " MiB, two VMs, "
            (containers) " containers. The disks are as slow as a small cloud volume: "
            (outcome.setting.disk) ". First the guests' containers have that memory; then it is a cache with "
            "one FIFO for all; then weights divide it, between the VMs by the host and inside each "
            "VM by the guest. One FIFO follows again before the default policy is used with weights, "
            "so that each change is compared alone, over equal times, and from the state in which "
            "the phase before left the cache."
        }
    }
}

fn headline(outcome: &Outcome) -> Markup {
    let web = outcome.container("web");
    let factor = |phase, base| web.and_then(|web| web.factor(phase, base));
    let hits = web.and_then(|web| web.figures(DEFAULT)?.hit_ratio);
    html! {
        div.headline {
            @if let Some(by) = factor(WEIGHTS, FIFO) {
                div { b { (format!("{by:.1}×")) } span { "web server: weights against one FIFO for all" } }
            }
            @if let Some(by) = factor(DEFAULT, FIFO) {
                div { b { (format!("{by:.1}×")) } span { "the same, with the default policy" } }
            }
            @if let Some(by) = factor(DEFAULT, WITHOUT) {
                div { b { (format!("{by:.1}×")) } span { "web server: DoubleDecker against the same memory in its guests" } }
            }
            @if let Some(ratio) = hits {
                div { b { (format!("{:.0} %", ratio * 100.0)) } span { "of the pages it missed came from the host" } }
            }
        }
    }
}

fn cache(outcome: &Outcome) -> Markup {
    let recording = &outcome.recording;
    let panels = recording.containers.iter().enumerate();
    let panels = panels.map(|(number, track)| own_share(recording, track, number));
    timeline(
        recording,
        "Cache of each container over time",
        panels.collect(),
    )
    .svg()
}

fn vms(outcome: &Outcome) -> Markup {
    let recording = &outcome.recording;
    let tracks = recording
        .vms
        .iter()
        .map(|vm| (vm.name.as_str(), vm.shares.as_slice()));
    let panel = shares(recording, "cache of each VM (MiB)", 170.0, tracks);
    timeline(recording, "Cache of each VM over time", vec![panel]).svg()
}

fn work(outcome: &Outcome) -> Markup {
    let recording = &outcome.recording;
    let panels = recording.containers.iter().enumerate();
    let panels = panels.map(|(number, track)| own_work(track, number));
    timeline(
        recording,
        "Requests of each container over time",
        panels.collect(),
    )
    .svg()
}

fn compared(outcome: &Outcome) -> Markup {
    let situations = [WITHOUT, FIFO, WEIGHTS, DEFAULT, HOST];
    let colours = [GREY, colour(5), colour(4), colour(2), colour(0)];
    let named = situations.into_iter().zip(colours);
    let row = |container: &ContainerResult| Rung {
        name: format!("{} / {}", container.vm, container.name),
        factors: situations
            .map(|phase| container.factor(phase, WITHOUT))
            .to_vec(),
    };
    let ladder = Ladder {
        about: "Requests per second compared with those with memory of guests".to_owned(),
        axis: "requests per second, compared with memory of guests".to_owned(),
        situations: named
            .map(|(name, colour)| (name.to_owned(), colour))
            .collect(),
        rows: outcome.containers.iter().map(row).collect(),
    };
    html! { figure { (ladder.svg()) } }
}

/// Returns histograms of each container's latencies, with a strip for each phase.
fn latencies(outcome: &Outcome) -> Markup {
    let recording = &outcome.recording;
    let colours = [GREY, colour(5), colour(2), colour(0)];
    let spread = |track: &ContainerTrack| {
        let phases = [WITHOUT, FIFO, DEFAULT, HOST].into_iter().zip(colours);
        let strips = phases.filter_map(|(name, colour)| {
            let latencies = track.latencies(recording.phase(name)?.settled(SETTLED_S));
            Some(Strip {
                name: name.to_owned(),
                colour,
                counts: latencies.counts(),
                p99_us: latencies.percentile_us(99),
            })
        });
        Spread {
            title: format!("{} / {}", track.vm, track.name),
            strips: strips.collect(),
        }
    };
    html! {
        div.charts {
            @for track in &recording.containers { (spread(track).svg()) }
        }
    }
}

fn figures(outcome: &Outcome) -> Markup {
    let number = |value: Option<f64>, digits: usize| {
        value.map_or("–".to_owned(), |value| format!("{value:.digits$}"))
    };
    let heads = [
        "container",
        "phase",
        "requests/s",
        "median (ms)",
        "p99 (ms)",
        "pages from the host (%)",
        "exits per page",
        "from disk (KiB/s)",
        "processors idle (%)",
    ];
    let row = |container: &ContainerResult, phase: &'static str| {
        let figures = container.figures(phase)?;
        let name = format!("{} / {}", container.vm, container.name);
        Some([
            Cell::text(html! { strong { (name) } }),
            Cell::text(phase),
            Cell::right(number(Some(figures.operations_per_s), 0)),
            Cell::right(number(figures.p50_ms, 1)),
            Cell::right(number(figures.p99_ms, 1)),
            Cell::right(number(figures.hit_ratio.map(|ratio| ratio * 100.0), 1)),
            Cell::right(number(figures.exits_per_page, 3)),
            Cell::right(number(figures.disk_kib_per_s, 0)),
            Cell::right(number(figures.idle.map(|idle| idle * 100.0), 0)),
        ])
    };
    let containers = outcome.containers.iter();
    let rows = containers.flat_map(|one| {
        COMPARED
            .into_iter()
            .filter_map(move |phase| row(one, phase))
    });
    table(&heads, rows)
}

fn setting(outcome: &Outcome) -> Markup {
    let setting = &outcome.setting;
    html! {
        dl {
            dt { "kernel" }
            dd { (setting.kernel) ", unmodified, on the host and in the VMs" }
            dt { "host machine" }
            dd { (machine(&setting.accelerator)) }
            dt { "disks" }
            dd { "ext4, each throttled to " (setting.disk) }
            @for container in &outcome.containers {
                dt { (container.vm) " / " (container.name) }
                dd { (container.about) }
            }
        }
    }
}

fn machine(accelerator: &str) -> &'static str {
    match accelerator {
        "kvm" => "virtual, on this machine's KVM",
        _ => {
            "emulated (TCG, with SVM): exits and copies cost far more than on hardware, so compare \
             ratios, and exits per page"
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outcome::sample;

    #[test]
    fn the_page_has_no_external_resources() {
        let html = demo_page(&sample()).into_string();
        let linked = html.replace("http://www.w3.org/2000/svg", "");
        for foreign in ["http:", "https:", "src=", "href=", "NaN", "inf,"] {
            assert!(!linked.contains(foreign), "{foreign}");
        }
        // Three timelines, the comparison, and the latencies of five containers.
        assert_eq!(html.matches("<svg").count(), 9);
        assert!(html.contains("ddctl set-weight"));
    }
}
