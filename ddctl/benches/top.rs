// SPDX-License-Identifier: GPL-2.0-only

//! Time of a reading and of a frame of `ddctl top`, and memory of the process, on a host of 1000
//! VMs with 100 containers each. It prints numbers and judges none.

#[path = "../tests/top/feed.rs"]
#[allow(dead_code, reason = "the counters are for tests")]
mod feed;

use ddctl::Monitor;
use ratatui::{
    Terminal,
    backend::TestBackend,
    crossterm::event::{KeyCode, KeyEvent},
};
use std::{
    fs,
    time::{Duration, Instant},
};

const FRAMES: usize = 200;

fn main() {
    let root = tempfile::TempDir::new().expect("a directory for files");
    let feed = feed::SyntheticHost::new(root.path().into(), vec![100; 1000]);
    let mut monitor = Monitor::new(&feed, None).expect("a host");
    let mut terminal = Terminal::new(TestBackend::new(200, 60)).expect("a terminal");
    println!("1000 VMs of 100 containers, terminal of 200x60, {FRAMES} frames");
    measure("VMs", &mut monitor, &mut terminal);
    monitor.press(KeyEvent::from(KeyCode::Enter));
    monitor.read();
    measure("containers of a VM", &mut monitor, &mut terminal);
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let peak = status.lines().find(|line| line.starts_with("VmHWM:"));
    println!("memory of the process: {}", peak.unwrap_or("unknown"));
}

fn measure(what: &str, monitor: &mut Monitor<'_>, terminal: &mut Terminal<TestBackend>) {
    let (mut readings, mut frames) = (Vec::new(), Vec::new());
    for _ in 0..FRAMES {
        let start = Instant::now();
        monitor.read();
        readings.push(start.elapsed());
        let start = Instant::now();
        let drawn = terminal.draw(|frame| monitor.draw(frame));
        drawn.expect("a frame");
        frames.push(start.elapsed());
    }
    for (name, mut times) in [("reading", readings), ("frame", frames)] {
        times.sort_unstable();
        let show = |time: Duration| time.as_secs_f64() * 1e3;
        println!(
            "{what}: {name} {:.2} ms (median), {:.2} ms (longest)",
            show(times[times.len() / 2]),
            show(times[times.len() - 1])
        );
    }
}
