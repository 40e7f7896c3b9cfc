// SPDX-License-Identifier: GPL-2.0-only

//! Metrics of the devices of the SSD tier, of which there are 16 at most.

use ddabi::ssd::{DeviceState, SsdStats};
use dddaemon::{
    exposition::{Labels, Page},
    pools::bytes,
};
use ddnl::{Device, printable, reply::device_state_word};

const STATES: [DeviceState; 4] = [
    DeviceState::Active,
    DeviceState::Suspect,
    DeviceState::Failed,
    DeviceState::Leaving,
];

type Getter = fn(&SsdStats) -> u64;

const SIZES: [(&str, &str, Getter); 4] = [
    (
        "ddhostd_ssd_size_bytes",
        "Places for pages on a device",
        |it| bytes(it.places),
    ),
    ("ddhostd_ssd_used_bytes", "Cached pages on a device", |it| {
        bytes(it.used)
    }),
    (
        "ddhostd_ssd_free_bytes",
        "Segments of a device that no container has",
        |it| bytes(it.free_segments.wrapping_mul(it.segment_places)),
    ),
    (
        "ddhostd_ssd_write_budget_bytes_per_second",
        "Limit of writes to a device in a second; 0 means no limit",
        |it| bytes(it.write_budget),
    ),
];

const COUNTERS: [(&str, &str, Getter); 12] = [
    ("ddhostd_ssd_reads_total", "Read requests", |it| it.reads),
    (
        "ddhostd_ssd_read_bytes_total",
        "Pages that were read with the right content",
        |it| bytes(it.read_pages),
    ),
    (
        "ddhostd_ssd_unwritten_hit_bytes_total",
        "Pages that were requested before they were written to the device",
        |it| bytes(it.memory_pages),
    ),
    (
        "ddhostd_ssd_read_errors_total",
        "Read requests that failed",
        |it| it.read_errors,
    ),
    (
        "ddhostd_ssd_read_timeouts_total",
        "Read requests that took too long",
        |it| it.timeouts,
    ),
    (
        "ddhostd_ssd_read_refused_bytes_total",
        "Pages not read because the device is suspect or the host had no memory",
        |it| bytes(it.refused_reads),
    ),
    (
        "ddhostd_ssd_checksum_error_bytes_total",
        "Pages that were read with other content than was written",
        |it| bytes(it.bad_checksums),
    ),
    (
        "ddhostd_ssd_written_bytes_total",
        "Pages that were written",
        |it| bytes(it.written_pages),
    ),
    (
        "ddhostd_ssd_write_errors_total",
        "Write requests that failed",
        |it| it.write_errors,
    ),
    (
        "ddhostd_ssd_evicted_bytes_total",
        "Segments that were evicted to make room",
        |it| bytes(it.evicted_segments.wrapping_mul(it.segment_places)),
    ),
    (
        "ddhostd_ssd_over_budget_bytes_total",
        "Pages that were not put because of the write budget",
        |it| bytes(it.over_budget),
    ),
    (
        "ddhostd_ssd_discarded_bytes_total",
        "Pages of free segments that were discarded on the device",
        |it| bytes(it.discarded_pages),
    ),
];

pub(super) fn write(devices: &[Device], page: &mut Page) {
    let labels = |device: &Device| {
        let labels = Labels::default().with("device", &device.id.to_string());
        labels.with("path", &printable(&device.path))
    };
    let devices: Vec<(Labels, &Device)> = devices.iter().map(|it| (labels(it), it)).collect();
    let mut family = page.gauge(
        "ddhostd_ssd_state",
        "State of a device: 1 for the state that it is in, 0 for the others",
    );
    for (labels, device) in &devices {
        for state in STATES {
            let labels = labels.with("state", device_state_word(state));
            family.add(&labels, device.state == state);
        }
    }
    for (name, help, of) in SIZES {
        let mut family = page.gauge(name, help);
        for (labels, device) in &devices {
            family.add(labels, of(&device.stats));
        }
    }
    for (name, help, of) in COUNTERS {
        let mut family = page.counter(name, help);
        for (labels, device) in &devices {
            family.add(labels, of(&device.stats));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use dddaemon::exposition::Format;
    use std::collections::BTreeSet;
    use zerocopy::{FromBytes, IntoBytes};

    fn page(state: DeviceState, stats: SsdStats) -> String {
        let mut page = Page::new(Format::Text);
        let device = Device {
            id: 3,
            path: "/dev/sdb".into(),
            state,
            stats,
        };
        write(&[device], &mut page);
        page.finish()
    }

    #[test]
    fn every_counter_is_on_the_page() {
        const WORDS: usize = size_of::<SsdStats>() / size_of::<u64>();
        let mut pages = BTreeSet::new();
        for word in 0..WORDS {
            let mut words = [1u64; WORDS];
            words[word] = 2;
            let stats = SsdStats::read_from_bytes(words.as_bytes()).unwrap();
            pages.insert(page(DeviceState::Active, stats));
        }
        // The number of all segments follows from the size.
        assert_eq!(pages.len(), WORDS);
    }

    #[test]
    fn one_state_is_in_force() {
        let page = page(DeviceState::Suspect, SsdStats::default());
        for (state, value) in [("active", 0), ("suspect", 1), ("failed", 0), ("leaving", 0)] {
            let labels = format!("{{device=\"3\",path=\"/dev/sdb\",state=\"{state}\"}}");
            let line = format!("ddhostd_ssd_state{labels} {value}");
            assert!(page.lines().any(|one| one == line), "{line} in {page}");
        }
    }
}
