// SPDX-License-Identifier: GPL-2.0-only

use std::sync::Arc;

use super::*;

/// An emulator with a given state.
#[derive(Debug, Default)]
struct Fake(Mutex<(Duration, Option<String>)>);

impl Fake {
    fn works(&self, seconds: u64) {
        self.0.lock().unwrap().0 += Duration::from_secs(seconds);
    }

    fn ends(&self, how: &str) {
        self.0.lock().unwrap().1 = Some(how.to_owned());
    }
}

impl Emulator for Fake {
    fn work(&self) -> Duration {
        self.0.lock().unwrap().0
    }

    fn end(&self) -> Option<String> {
        self.0.lock().unwrap().1.clone()
    }
}

/// Returns L1 and guest `one`, both just started, with the directory of their logs.
fn world() -> (tempfile::TempDir, Arc<Fake>, Vitals) {
    let dir = tempfile::tempdir().unwrap();
    let emulator = Arc::new(Fake::default());
    let vitals = Vitals::new(
        dir.path(),
        Arc::downgrade(&emulator) as Weak<dyn Emulator>,
        1,
    );
    vitals.born(Some("one"));
    (dir, emulator, vitals)
}

/// Sets a patience that is exceeded immediately in one of the two ways.
fn impatient(vitals: &Vitals, still: Duration) {
    vitals.set_patience(Patience {
        still,
        spinning: Duration::from_secs(300),
    });
}

fn complaint(vitals: &Vitals, vm: Option<&str>) -> String {
    vitals.check(vm).unwrap_err().to_string()
}

#[test]
fn new_machines_have_no_problem() {
    let (_dir, _emulator, vitals) = world();
    vitals.check(Some("one")).unwrap();
    // A machine that was never started is not judged.
    vitals.check(Some("two")).unwrap();
}

#[test]
fn a_panic_is_reported_with_the_end_of_the_console() {
    let (_dir, _emulator, vitals) = world();
    for line in 0..100 {
        vitals.console("one", format!("[    1.0] line {line}\n").as_bytes());
    }
    vitals.console("one", b"[    2.0] Kernel panic - not syncing: why\n");
    let text = complaint(&vitals, Some("one"));
    assert!(text.starts_with("guest one is unwell: Kernel panic\nfrom "));
    assert!(text.contains("line 99\n") && text.ends_with("not syncing: why"));
    assert!(!text.contains("line 90\n"));
    vitals.check(None).unwrap();
    let judged = vitals.judge(&[]);
    assert_eq!(judged, ["one: [    2.0] Kernel panic - not syncing: why"]);
}

#[test]
fn each_line_is_judged_once() {
    let (_dir, _emulator, vitals) = world();
    vitals.console("one", b"[    1.0] WARNING: CPU: 0 PID: 1 at a.c:1\n");
    let allowed = [Regex::new("a.c:1").unwrap()];
    assert!(vitals.judge(&allowed).is_empty());
    assert!(vitals.judge(&[]).is_empty());
    vitals.console("one", b"\xff[    2.0] WARNING: CPU: 0 PID: 1 at b.c:1\n");
    assert_eq!(vitals.judge(&[]).len(), 1);
}

#[test]
fn a_name_used_again_starts_afresh() {
    let (_dir, _emulator, vitals) = world();
    vitals.console("one", b"[    2.0] Kernel panic - not syncing: why\n");
    vitals.exited(
        "one",
        Exit {
            code: Some(0),
            signal: None,
        },
    );
    vitals.check(Some("one")).unwrap_err();
    vitals.born(Some("one"));
    vitals.check(Some("one")).unwrap();
    // The messages of the first kernel are still to be judged.
    assert_eq!(vitals.judge(&[]).len(), 1);
}

#[test]
fn a_kernel_that_follows_another_is_not_judged_by_its_words() {
    let (_dir, _emulator, vitals) = world();
    vitals.console("one", b"[    1.0] Run /init as init process\n");
    vitals.console("one", b"[    9.0] Kernel panic - not syncing: why\n");
    vitals.console("one", b"[    1.0] Run /init as init process\n");
    vitals.check(Some("one")).unwrap_err();
    assert_eq!(vitals.count(Some("one"), "Run /init"), 2);
    vitals.born(Some("one"));
    vitals.check(Some("one")).unwrap();
    vitals.console("one", b"[    2.0] Kernel panic - not syncing: why\n");
    vitals.check(Some("one")).unwrap_err();
}

#[test]
fn the_end_of_a_process_is_reported() {
    let (_dir, emulator, vitals) = world();
    vitals.exited(
        "one",
        Exit {
            code: None,
            signal: Some(9),
        },
    );
    let text = complaint(&vitals, Some("one"));
    assert!(text.starts_with("guest one ended unexpectedly (signal 9)"));
    // This is the state after a triple fault.
    emulator.ends("exit status: 0");
    let text = complaint(&vitals, Some("one"));
    assert!(text.starts_with("L1 ended unexpectedly (exit status: 0)"));
}

#[test]
fn a_guest_is_judged_by_its_own_work() {
    let (_dir, _emulator, vitals) = world();
    impatient(&vitals, Duration::ZERO);
    std::thread::sleep(Duration::from_millis(2));
    vitals.heartbeat(None);
    vitals.work("one", Duration::from_secs(5));
    std::thread::sleep(Duration::from_millis(2));
    let text = vitals.problem(Some("one"), "").unwrap().to_string();
    assert_eq!(text, "stands still for 0 s");
}

#[test]
fn a_guest_that_burns_without_a_heartbeat_spins() {
    let (_dir, _emulator, vitals) = world();
    vitals.work("one", Duration::from_secs(1));
    vitals.heartbeat(Some("one"));
    impatient(&vitals, Duration::from_millis(1));
    std::thread::sleep(Duration::from_millis(5));
    vitals.work("one", Duration::from_secs(302));
    let text = vitals.problem(Some("one"), "").unwrap().to_string();
    assert_eq!(text, "spins: no heartbeat in 301 s of processor time");
}

#[test]
fn l1_is_judged_by_its_emulator() {
    let (_dir, emulator, vitals) = world();
    vitals.heartbeat(None);
    impatient(&vitals, Duration::from_millis(1));
    std::thread::sleep(Duration::from_millis(5));
    emulator.works(301);
    let text = complaint(&vitals, None);
    assert!(text.starts_with("L1 spins: no heartbeat in 301 s"));
    vitals.heartbeat(None);
    impatient(&vitals, Duration::from_secs(1));
    vitals.check(None).unwrap();
}

#[test]
fn an_internal_error_of_kvm_is_reported() {
    let (_dir, _emulator, vitals) = world();
    vitals.born(Some("one"));
    vitals.console("one", b"KVM internal error. Suberror: 3\n");
    let text = complaint(&vitals, Some("one"));
    assert!(text.starts_with("guest one is unwell: KVM internal error\n"));
}
