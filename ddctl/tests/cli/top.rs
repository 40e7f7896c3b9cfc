// SPDX-License-Identifier: GPL-2.0-only

//! Tests of the frames that `ddctl top` draws, and of the effects of keys and of changes in
//! modules.

use crate::{picture::assert_picture, world::World};
use ddabi::ssd::{DeviceState, SsdStats};
use ddctl::{Effect, Monitor, System};
use ddnl::{Device, fake::Fault};
use insta::assert_snapshot;
use ratatui::{
    Terminal,
    backend::TestBackend,
    crossterm::event::{KeyCode, KeyEvent, KeyModifiers},
    style::Color,
};
use std::time::Duration;

/// A host on which hits rise and fall.
fn busy() -> World {
    let world = World::host();
    let host = world.host.clone();
    let mut time = 0_u64;
    *world.meanwhile.borrow_mut() = Box::new(move || {
        time += 1;
        host.with(|state| {
            let grow = |stats: &mut ddabi::pool::PoolStats, factor: u64| {
                let hits = (time % 9) * factor;
                stats.puts += factor * 3;
                stats.gets += hits + factor;
                stats.misses += factor;
                stats.evictions += factor / 2;
            };
            grow(&mut state.vms[0].stats, 900);
            grow(&mut state.vms[1].stats, 40);
            grow(state.pools[1].stats.as_mut().unwrap(), 900);
        });
    });
    world
}

struct Display<'a> {
    world: &'a World,
    monitor: Monitor<'a>,
    terminal: Terminal<TestBackend>,
}

impl<'a> Display<'a> {
    fn new(world: &'a World, width: u16, height: u16) -> Self {
        Self {
            world,
            monitor: Monitor::new(world, None).unwrap(),
            terminal: Terminal::new(TestBackend::new(width, height)).unwrap(),
        }
    }

    /// Lets seconds pass, each with a reading.
    fn pass(&mut self, seconds: u64) {
        for _ in 0..seconds {
            self.world.sleep(Duration::from_secs(1));
            self.monitor.read();
        }
    }

    /// Presses keys, and reads the module when a key requires it.
    fn keys(&mut self, keys: impl IntoIterator<Item = KeyCode>) {
        for key in keys {
            if self.press(key) == Effect::Read {
                self.monitor.read();
            }
        }
    }

    fn press(&mut self, key: KeyCode) -> Effect {
        self.monitor.press(KeyEvent::new(key, KeyModifiers::NONE))
    }

    fn letters(&mut self, letters: &str) {
        self.keys(letters.chars().map(KeyCode::Char));
    }

    fn draw(&mut self) -> String {
        self.terminal
            .draw(|frame| self.monitor.draw(frame))
            .unwrap();
        self.terminal.backend().to_string()
    }

    /// Returns the names in the rows from top to bottom.
    fn names(&mut self) -> Vec<String> {
        let screen = self.draw();
        let lines = screen.lines().skip_while(|line| !line.contains("WEIGHT"));
        let name = |line: &str| {
            line.trim_matches('"')
                .split_whitespace()
                .next()
                .map(Into::into)
        };
        let names = lines.skip(1).map_while(name);
        names.filter(|name: &String| name != "q").collect()
    }
}

fn add_device(world: &World, state: DeviceState) {
    world.host.with(|host| {
        host.devices.push(Device {
            id: 0,
            path: "/dev/nvme0n1".into(),
            state,
            stats: SsdStats {
                places: 1 << 20,
                used: 300_000,
                ..SsdStats::default()
            },
        });
        host.vms[0].stats.ssd_used = 300_000;
        host.vms[0].stats.ssd_entitlement = 600_000;
        host.vms[1].stats.ssd_entitlement = 400_000;
    });
}

#[test]
fn vms_of_a_host() {
    let world = busy();
    let mut display = Display::new(&world, 80, 24);
    assert_snapshot!("first", display.draw());
    display.pass(20);
    assert_snapshot!("rates", display.draw());
}

#[test]
fn containers_of_a_vm() {
    let world = busy();
    let mut display = Display::new(&world, 80, 24);
    display.pass(3);
    display.keys([KeyCode::Enter]);
    display.pass(12);
    assert_snapshot!(display.draw());
    display.keys([KeyCode::Esc]);
    assert_eq!(display.names(), ["web", "mail", "vm3"]);
    // The VM is still selected.
    display.keys([KeyCode::Enter]);
    assert!(display.draw().contains("Containers of VM web"));
}

#[test]
fn containers_of_a_guest() {
    let world = World::guest();
    let mut display = Display::new(&world, 80, 24);
    display.pass(2);
    assert_snapshot!(display.draw());
    display.keys([KeyCode::Down, KeyCode::Enter, KeyCode::Esc]);
    assert_eq!(display.names(), ["nginx", "postgres", "default"]);
    world
        .guest
        .with(|state| state.status.state = ddabi::genl::LinkState::Alone);
    display.pass(1);
    assert!(
        display
            .draw()
            .contains("no host answers: nothing is cached")
    );
}

#[test]
fn wide_and_narrow_terminals() {
    let world = busy();
    add_device(&world, DeviceState::Suspect);
    for (name, width, height) in [("wide", 140, 14), ("narrow", 44, 12)] {
        let mut display = Display::new(&world, width, height);
        display.pass(30);
        assert_snapshot!(name, display.draw());
    }
    // Nothing is drawn outside of a terminal, however small it is.
    for (width, height) in [(1, 1), (5, 3), (20, 2), (300, 5), (10, 80)] {
        let mut display = Display::new(&world, width, height);
        display.draw();
        display.letters("?");
        display.draw();
    }
}

/// The pictures in `docs/pictures` show what `ddctl top` draws now.
#[test]
fn pictures() {
    let mut world = busy();
    world.terminal = true;
    add_device(&world, DeviceState::Active);
    let mut display = Display::new(&world, 110, 12);
    display.pass(30);
    display.draw();
    let title = "ddctl top: the VMs of a host, their shares of memory and SSDs, hits and history";
    assert_picture("top", title, display.terminal.backend().buffer());
    display.keys([KeyCode::Enter]);
    display.pass(8);
    display.draw();
    let title = "ddctl top: the containers of a VM";
    assert_picture("top-containers", title, display.terminal.backend().buffer());
}

/// The size may change between two frames.
#[test]
fn a_terminal_that_is_resized() {
    let world = busy();
    let mut display = Display::new(&world, 80, 24);
    display.keys([KeyCode::End]);
    display.draw();
    display.terminal.backend_mut().resize(80, 8);
    // The selected row is among the two that fit.
    assert_eq!(display.names(), ["mail", "vm3"]);
    display.terminal.backend_mut().resize(80, 24);
    assert_eq!(display.names(), ["web", "mail", "vm3"]);
}

#[test]
fn every_order() {
    let world = busy();
    world.host.with(|state| {
        state.vms[1].entitlement = 200_000;
    });
    let mut display = Display::new(&world, 80, 24);
    display.pass(2);
    for (key, order) in [
        ("N", ["mail", "vm3", "web"]),
        ("W", ["web", "mail", "vm3"]),
        ("U", ["web", "mail", "vm3"]),
        ("E", ["mail", "web", "vm3"]),
        ("R", ["vm3", "mail", "web"]),
        ("H", ["web", "mail", "vm3"]),
    ] {
        if key == "R" {
            world.host.with(|state| {
                for (vm, misses) in [(0, 900), (1, 100), (2, 0)] {
                    state.vms[vm].stats.gets += 1_000;
                    state.vms[vm].stats.misses += misses;
                }
            });
            display.pass(1);
        }
        display.letters(key);
        assert_eq!(display.names(), order, "{key}");
        display.letters("i");
        let mut inverted = order;
        inverted.reverse();
        if !["E"].contains(&key) {
            assert_eq!(display.names(), inverted, "{key} inverted");
        }
    }
    // From the last column to the first, and back.
    display.letters("s");
    assert!(display.draw().contains("NAME▲"));
    display.letters("S");
    assert!(display.draw().contains("HITS/S▼"));
}

#[test]
fn filters() {
    let world = busy();
    let mut display = Display::new(&world, 80, 24);
    display.letters("/MA");
    assert!(display.draw().contains("Filter: MA█"));
    assert_eq!(display.names(), ["mail"]);
    // A key that quits elsewhere is a letter here.
    display.letters("q");
    assert!(display.draw().contains("no name contains the filter"));
    display.keys([KeyCode::Backspace, KeyCode::Enter]);
    assert_eq!(display.names(), ["mail"]);
    display.keys([KeyCode::Enter]);
    assert!(display.draw().contains("Containers of VM mail"));
    display.keys([KeyCode::Esc]);
    assert_eq!(display.names(), ["web", "mail", "vm3"]);
    display.letters("/web");
    display.keys([KeyCode::Esc]);
    assert_eq!(display.names(), ["web", "mail", "vm3"]);
}

#[test]
fn keys_are_explained() {
    let world = busy();
    let mut display = Display::new(&world, 80, 24);
    display.letters("?");
    assert_snapshot!(display.draw());
    display.letters("q");
    assert!(!display.draw().contains("Help"));
    assert_eq!(display.press(KeyCode::Char('q')), Effect::Quit);
    let interrupt = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
    assert_eq!(display.monitor.press(interrupt), Effect::Quit);
}

#[test]
fn a_vm_that_goes() {
    let world = busy();
    let mut display = Display::new(&world, 80, 24);
    display.keys([KeyCode::Enter]);
    world.host.with(|state| {
        state.vms.remove(0);
        state.pools.retain(|pool| pool.vm != Some(1));
    });
    // The counters of the removed VM are not advanced any more.
    *world.meanwhile.borrow_mut() = Box::new(|| {});
    display.pass(1);
    assert!(display.draw().contains("VM web has gone"));
    assert_eq!(display.names(), ["mail", "vm3"]);
    display.keys([KeyCode::Down]);
    assert!(!display.draw().contains("has gone"));
}

#[test]
fn a_module_that_is_unloaded_and_loaded_again() {
    let world = busy();
    let mut display = Display::new(&world, 80, 24);
    display.pass(2);
    world.host.with(|state| state.fault = Fault::Absent);
    display.pass(2);
    assert_snapshot!(display.draw());
    world.host.with(|state| {
        state.fault = Fault::None;
        state.vms[0].stats = ddabi::pool::PoolStats::default();
    });
    display.pass(1);
    let screen = display.draw();
    assert!(!screen.contains("not loaded"), "{screen}");
}

/// Returns whether a frame has a colour.
fn has_colour(world: &World) -> bool {
    let mut display = Display::new(world, 80, 24);
    display.draw();
    let buffer = display.terminal.backend().buffer();
    let mut cells = buffer.content().iter();
    cells.any(|cell| cell.fg != Color::Reset || cell.bg != Color::Reset)
}

#[test]
fn colours_are_for_terminals_that_want_them() {
    let mut world = busy();
    assert!(!has_colour(&world));
    world.terminal = true;
    assert!(has_colour(&world));
    for (name, value, expected) in [
        ("NO_COLOR", "1", false),
        ("NO_COLOR", "", true),
        ("TERM", "dumb", false),
        ("TERM", "xterm", true),
    ] {
        world.variables = [(name, value)].into();
        assert_eq!(has_colour(&world), expected, "{name}={value}");
    }
}

#[test]
fn names_cannot_steer_the_terminal() {
    let world = busy();
    world.file("/proc/4001/cmdline", "qemu\0-name\0\u{1b}[2J\u{202e}web\0");
    let mut display = Display::new(&world, 80, 24);
    let screen = display.draw();
    assert!(!screen.contains(['\u{1b}', '\u{202e}']), "{screen}");
    assert!(screen.contains("\\u{1b}"), "{screen}");
}

#[test]
fn other_outputs_than_a_terminal() {
    let world = busy();
    assert_snapshot!(world.runs(&["top", "top --json"]));
    let mut bare = World::new();
    bare.terminal = true;
    assert_eq!(bare.outcome("top").code, 3);
}
