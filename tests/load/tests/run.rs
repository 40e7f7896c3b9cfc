// SPDX-License-Identifier: GPL-2.0-only

//! Whole runs on a real filesystem.

use std::{fs, time::Duration};

use ddload::{End, Interval, Line, Load, Profile, prepare, run};

fn lines(load: &Load, end: End) -> Vec<Line> {
    let mut lines = Vec::new();
    run(load, end, Duration::from_millis(50), |line| {
        lines.push(line.clone());
        Ok(())
    })
    .unwrap();
    lines
}

fn summary(lines: &[Line]) -> &Interval {
    match lines.last() {
        Some(Line::Summary(summary)) => summary,
        other => panic!("the last line is {other:?}"),
    }
}

#[test]
fn every_profile_does_its_amount_of_work() {
    for profile in <Profile as clap::ValueEnum>::value_variants() {
        let dir = tempfile::tempdir().unwrap();
        let load = Load::new(*profile, dir.path())
            .files(12)
            .file_size(30_000)
            .threads(3)
            .rate(10_000.0);
        for _ in 0..2 {
            let lines = lines(&load, End::Operations(100));
            assert!(matches!(lines[0], Line::Ready(_)));
            let sum = summary(&lines);
            assert_eq!(sum.operations, 100, "{profile}");
            assert!(sum.bytes_read > 0, "{profile}");
        }
    }
}

#[test]
fn equal_seeds_do_equal_work() {
    let work = |seed| {
        let dir = tempfile::tempdir().unwrap();
        let load = Load::new(Profile::Mail, dir.path()).files(40).seed(seed);
        let lines = lines(&load, End::Operations(200));
        let sum = summary(&lines);
        (sum.bytes_read, sum.bytes_written)
    };
    assert_eq!(work(3), work(3));
    assert_ne!(work(3), work(4));
}

#[test]
fn time_ends_a_run_and_intervals_fill_it() {
    let dir = tempfile::tempdir().unwrap();
    let load = Load::new(Profile::Zipf, dir.path())
        .file_size(1 << 20)
        .rate(200.0);
    let lines = lines(&load, End::Time(Duration::from_millis(300)));
    let sum = summary(&lines);
    assert!((0.3..5.0).contains(&sum.elapsed), "{sum:?}");
    let parts = lines.iter().filter_map(|line| match line {
        Line::Interval(interval) => Some(interval.operations),
        _ => None,
    });
    assert_eq!(parts.sum::<u64>(), sum.operations);
}

#[test]
fn a_missing_file_is_an_error() {
    let dir = tempfile::tempdir().unwrap();
    let load = Load::new(Profile::Webserver, dir.path())
        .files(3)
        .threads(1);
    prepare(&load).unwrap();
    let broken = run(&load, End::Never, Duration::from_millis(20), |line| {
        if matches!(line, Line::Interval(_)) {
            let sets = load.sets();
            let victim = &sets[0].files()[1].path;
            if victim.exists() {
                fs::remove_file(victim)?;
            }
        }
        Ok(())
    });
    assert!(broken.is_err());
}
