// SPDX-License-Identifier: GPL-2.0-only

//! Work and rows of a frame on a host of 1000 VMs with 100 containers each.

use crate::feed::SyntheticHost;
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
