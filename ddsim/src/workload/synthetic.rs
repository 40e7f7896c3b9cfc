// SPDX-License-Identifier: GPL-2.0-only

//! Streams that each have one property, for the policy table.

use super::filebench::{Mail, Proxy, Video, Webserver};
use super::{Step, Workload};
use crate::page::Page;
use crate::parameters::UNIT_PAGES;
use crate::random::{Random, Zipf};
use crate::stream::{Access, Kind};
use std::collections::VecDeque;

/// Name, stream, and sizes of guest and host in pages.
type Named = (&'static str, Vec<Access>, usize, usize);

/// Returns all streams.
pub fn all() -> Vec<Named> {
    let mut all = vec![
        ("zipf 0.9, small host", zipf(50_000, 0.9, 1), 2_500, 5_000),
        ("zipf 0.9, large host", zipf(50_000, 0.9, 1), 2_500, 15_000),
        ("zipf 0.99 (YCSB)", zipf(50_000, 0.99, 2), 5_000, 5_000),
        ("zipf 0.7", zipf(50_000, 0.7, 3), 5_000, 10_000),
        ("zipf 0.9 and one-shot", one_shot(), 13_000, 42_000),
        ("zipf 0.9, hot set moves", moving(), 3_000, 9_000),
        ("uniform", uniform(), 4_000, 8_000),
        ("loop", looping(20_000), 4_000, 8_000),
        ("loop that fits", looping(11_000), 4_000, 8_000),
        ("loop beside zipf 0.9", loop_beside(), 4_000, 8_000),
        ("scan, never again", scan(), 4_000, 8_000),
        ("scans, each twice", twice(), 3_000, 5_000),
        ("window, slow", window(12), 3_000, 4_000),
        ("window, fast", window(6), 3_000, 4_500),
    ];
    all.extend(filebench());
    all
}

/// Number of accesses of a stream.
const LENGTH: usize = 600_000;

/// Number of pages of one file. Files determine which pages of a stream are adjacent.
const FILE: u64 = 256;

fn page(number: u64) -> Access {
    Access::read(Page::new((number / FILE) as u32, (number % FILE) as u32))
}

/// Returns reads of a key-value store like YCSB's, in which each key is one page and popularity
/// follows Zipf's law.
pub fn zipf(pages: u32, exponent: f64, seed: u64) -> Vec<Access> {
    let (zipf, mut random) = (Zipf::new(pages, exponent, seed), Random::new(seed));
    let next = |_| page(u64::from(zipf.next(&mut random)));
    (0..LENGTH).map(next).collect()
}

/// Returns repeated accesses to the same pages in the same order.
pub fn looping(pages: u64) -> Vec<Access> {
    (0..LENGTH as u64).map(|at| page(at % pages)).collect()
}

fn one_shot() -> Vec<Access> {
    let (zipf, mut random) = (Zipf::new(50_000, 0.9, 2), Random::new(5));
    let mut fresh = 50_000;
    let mut next = |_| {
        if random.unit() < 0.37 {
            fresh += 1;
            return page(fresh);
        }
        page(u64::from(zipf.next(&mut random)))
    };
    (0..LENGTH).map(&mut next).collect()
}

fn moving() -> Vec<Access> {
    let (zipf, mut random) = (Zipf::new(50_000, 0.9, 10), Random::new(10));
    let mut next = |at: usize| {
        let moved = at as u64 / 100_000 * 7_000;
        page((u64::from(zipf.next(&mut random)) + moved) % 60_000)
    };
    (0..LENGTH).map(&mut next).collect()
}

fn uniform() -> Vec<Access> {
    let mut random = Random::new(3);
    (0..LENGTH).map(|_| page(random.below(20_000))).collect()
}

fn loop_beside() -> Vec<Access> {
    let (zipf, mut random) = (Zipf::new(40_000, 0.9, 1), Random::new(1));
    let mut next = |at: usize| match at % 2 {
        0 => page(u64::from(zipf.next(&mut random))),
        _ => page(40_000 + at as u64 / 2 % 20_000),
    };
    (0..LENGTH).map(&mut next).collect()
}

fn scan() -> Vec<Access> {
    (0..LENGTH as u64).map(page).collect()
}

fn twice() -> Vec<Access> {
    let part = 7_000;
    let number = |at: u64| at / (2 * part) * part + at % part;
    (0..LENGTH as u64).map(|at| page(number(at))).collect()
}

fn window(steps: u64) -> Vec<Access> {
    let mut random = Random::new(9);
    (0..LENGTH as u64)
        .map(|at| page(at / steps + random.below(8_000)))
        .collect()
}

/// Returns small versions of Filebench's servers, with file sets of 128 MiB (32 768 pages).
fn filebench() -> Vec<Named> {
    vec![
        (
            "web server",
            steps(&mut Webserver::new(128, 1), 20),
            6_000,
            12_000,
        ),
        ("proxy", steps(&mut Proxy::new(128, 2), 10), 6_000, 12_000),
        ("mail", steps(&mut Mail::new(128, 3), 16), 6_000, 12_000),
        ("videos", steps(&mut Video::new(4), 8), 6_000, 12_000),
    ]
}

/// Returns the accesses of a workload whose threads are executed round-robin, one step at a time.
fn steps(workload: &mut dyn Workload, threads: usize) -> Vec<Access> {
    let mut random = Random::new(7);
    let mut queues = vec![VecDeque::new(); threads];
    let mut next = Vec::new();
    let mut stream = Vec::new();
    while stream.len() < LENGTH {
        for (thread, queue) in queues.iter_mut().enumerate() {
            if queue.is_empty() {
                workload.next(thread, &mut random, &mut next);
                queue.extend(next.drain(..));
            }
            let (kind, (file, first, units)) = match queue.pop_front() {
                Some(Step::Read { file, first, units }) => (Kind::Read, (file, first, units)),
                Some(Step::Write { file, first, units }) => (Kind::Write, (file, first, units)),
                Some(Step::Delete { file, units }) => (Kind::Gone, (file, 0, units)),
                _ => continue,
            };
            let pages = UNIT_PAGES as u32;
            let pages = first * pages..(first + units) * pages;
            stream.extend(pages.map(|index| Access {
                page: Page::new(file, index),
                kind,
            }));
        }
    }
    stream
}
