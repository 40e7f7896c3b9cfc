// SPDX-License-Identifier: GPL-2.0-only

//! Time of a reading and of a frame of `ddctl top`, and memory of the process, on a host of 1000
//! VMs with 100 containers each. It fails if they exceed what `docs/developers/SPECIFICATION.md`
//! promises.

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
    process::ExitCode,
    time::{Duration, Instant},
};

const FRAMES: usize = 200;
/// The longest time for a screen: reading the state and drawing it.
const MAX_TIME: Duration = Duration::from_millis(100);
/// The most memory, in KiB.
const MAX_KIB: u64 = 50 << 10;

fn main() -> ExitCode {
    let root = tempfile::TempDir::new().expect("a directory for files");
    let feed = feed::SyntheticHost::new(root.path().into(), vec![100; 1000]);
    let mut monitor = Monitor::new(&feed, None).expect("a host");
    let mut terminal = Terminal::new(TestBackend::new(200, 60)).expect("a terminal");
    println!("1000 VMs of 100 containers, terminal of 200x60, {FRAMES} frames");
    let vms = measure("VMs", &mut monitor, &mut terminal);
    monitor.press(KeyEvent::from(KeyCode::Enter));
    monitor.read();
    let containers = measure("containers of a VM", &mut monitor, &mut terminal);
    let memory = peak_kib();
    println!("memory of the process: {memory} KiB at most");
    let longest = vms.max(containers);
    let mut code = ExitCode::SUCCESS;
    if longest > MAX_TIME {
        eprintln!("a screen took {longest:?}, and must take at most {MAX_TIME:?}");
        code = ExitCode::FAILURE;
    }
    if memory > MAX_KIB {
        eprintln!("the process used {memory} KiB, and must use at most {MAX_KIB} KiB");
        code = ExitCode::FAILURE;
    }
    code
}

/// Returns the peak of the memory of this process in KiB.
fn peak_kib() -> u64 {
    let status = fs::read_to_string("/proc/self/status").expect("the status of this process");
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let number = peak.and_then(|peak| peak.split_whitespace().next()?.parse().ok());
    number.expect("the peak of memory")
}

/// Prints the times of many screens, and returns the longest of them.
fn measure(
    what: &str,
    monitor: &mut Monitor<'_>,
    terminal: &mut Terminal<TestBackend>,
) -> Duration {
    let (mut readings, mut frames, mut screens) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..FRAMES {
        let start = Instant::now();
        monitor.read();
        let reading = start.elapsed();
        let drawn = terminal.draw(|frame| monitor.draw(frame));
        drawn.expect("a frame");
        let screen = start.elapsed();
        readings.push(reading);
        frames.push(screen - reading);
        screens.push(screen);
    }
    for (name, times) in [("reading", &mut readings), ("frame", &mut frames)] {
        times.sort_unstable();
        let show = |time: Duration| time.as_secs_f64() * 1e3;
        println!(
            "{what}: {name} {:.2} ms (median), {:.2} ms (longest)",
            show(times[times.len() / 2]),
            show(times[times.len() - 1])
        );
    }
    screens.into_iter().max().unwrap_or_default()
}
