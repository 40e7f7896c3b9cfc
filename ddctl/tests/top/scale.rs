// SPDX-License-Identifier: GPL-2.0-only

//! Work, memory and rows of a frame on a host of 1000 VMs with 100 containers each.

use crate::feed::SyntheticHost;
use allocation_counter::{AllocationInfo, measure};
use ddctl::{Effect, Monitor};
use ratatui::{
    Terminal,
    backend::TestBackend,
    crossterm::event::{KeyCode, KeyEvent},
};
use tempfile::TempDir;

#[test]
fn work_depends_on_the_rows_shown() {
    let root = TempDir::new().unwrap();
    let feed = SyntheticHost::new(root.path().into(), vec![100; 1000]);
    let mut monitor = Monitor::new(&feed, None).unwrap();
    let mut terminal = Terminal::new(TestBackend::new(80, 24)).unwrap();
    let work = |feed: &SyntheticHost| {
        let work = &feed.work;
        (
            work.requests.take(),
            work.vms.take(),
            work.containers.take(),
        )
    };
    work(&feed);
    monitor.read();
    assert_eq!(work(&feed), (1, 1000, 0));
    terminal.draw(|frame| monitor.draw(frame)).unwrap();
    let screen = terminal.backend().to_string();
    assert!(screen.contains("1000 VMs, 100000 containers"), "{screen}");
    assert!(screen.contains("1-18 of 1000"), "{screen}");
    // Drawing makes no request, and only the containers of one VM are requested.
    assert_eq!(work(&feed), (0, 0, 0));
    let enter = KeyEvent::from(KeyCode::Enter);
    assert_eq!(monitor.press(enter), Effect::Read);
    monitor.read();
    assert_eq!(work(&feed), (1, 1000, 100));
}

/// Readings of all rows before a frame is measured. Each adds a rate to the history of every row.
const READINGS: usize = 4;
/// A terminal that shows this number of rows of VMs.
const ROWS: u16 = 40;
/// The most memory of `ddctl top` beside its program: the whole process may have 50 MiB.
const MAX_BYTES: u64 = 16 << 20;
/// The most allocations of a frame that may differ between hosts on which the same number of rows
/// is shown: the list of all rows grows.
const MAX_MORE: u64 = 32;

/// Returns the allocations of the first readings and frames, and those of one further frame, on a
/// host of VMs with this number of containers each. `keys` are pressed before the last frame.
fn allocations(vms: Vec<u32>, keys: &[KeyCode]) -> [AllocationInfo; 2] {
    let root = TempDir::new().unwrap();
    let feed = SyntheticHost::new(root.path().into(), vms);
    let mut frame = AllocationInfo::default();
    let whole = measure(|| {
        let mut monitor = Monitor::new(&feed, None).unwrap();
        let mut terminal = Terminal::new(TestBackend::new(200, ROWS)).unwrap();
        let mut draw = |monitor: &mut Monitor<'_>| {
            terminal.draw(|frame| monitor.draw(frame)).unwrap();
        };
        // ratatui has filled its caches.
        for _ in 0..READINGS {
            monitor.read();
            draw(&mut monitor);
        }
        for key in keys {
            if monitor.press(KeyEvent::from(*key)) == Effect::Read {
                monitor.read();
            }
            draw(&mut monitor);
        }
        frame = measure(|| draw(&mut monitor));
    });
    [whole, frame]
}

/// The time of a frame depends on what it allocates and formats, which depends on the rows that are
/// shown, and not on those that exist.
#[test]
fn frames_cost_what_they_show() {
    let [_, small] = allocations(vec![100; ROWS.into()], &[]);
    let [whole, large] = allocations(vec![100; 1000], &[]);
    assert!(
        large.count_total <= small.count_total + MAX_MORE,
        "{} allocations of a frame with 1000 VMs, and {} with {ROWS}",
        large.count_total,
        small.count_total
    );
    assert!(whole.bytes_max <= MAX_BYTES, "{whole:?}");
    // The containers of a VM.
    let [_, small] = allocations(vec![ROWS.into(); 1000], &[KeyCode::Enter]);
    let [whole, large] = allocations(vec![1000; 1000], &[KeyCode::Enter]);
    assert!(
        large.count_total <= small.count_total + MAX_MORE,
        "{} allocations of a frame with 1000 containers, and {} with {ROWS}",
        large.count_total,
        small.count_total
    );
    assert!(whole.bytes_max <= MAX_BYTES, "{whole:?}");
}
