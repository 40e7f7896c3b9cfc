// SPDX-License-Identifier: GPL-2.0-only

//! Draws the figures of `docs/users/performance.md` about other uses of the same memory, as the
//! report of `cargo xtask bench host` does.

use ddreport::{
    chart::{GREY, Ladder, Rung, colour},
    picture,
};

const PAGE: &str = include_str!("../../../docs/users/performance.md");
const HEAD: &str = "| load | memory of guests | host's page cache | one FIFO |";

/// Returns the name of a row, and the factors of DoubleDecker by the other three ways.
fn row(line: &str) -> (&str, [f64; 3]) {
    let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
    let factor = |at: usize| cells[at].parse().expect("a factor");
    (cells[0], [factor(1), factor(2), factor(3)])
}

#[test]
fn a_picture_shows_other_uses_of_the_memory() {
    let (_, table) = PAGE.split_once(HEAD).expect("the table");
    let lines = table
        .lines()
        .skip(2)
        .take_while(|line| line.starts_with('|'));
    let rows = lines.map(|line| {
        let (name, [by_guests, by_page_cache, by_fifo]) = row(line);
        Rung {
            name: name.to_owned(),
            factors: [
                1.0,
                by_guests / by_page_cache,
                by_guests / by_fifo,
                by_guests,
            ]
            .map(Some)
            .into(),
        }
    });
    let rows: Vec<Rung> = rows.collect();
    assert_eq!(rows.len(), 4, "{rows:?}");
    let ways = [
        ("memory of guests", GREY),
        ("host's page cache", colour(0)),
        ("one FIFO", colour(1)),
        ("DoubleDecker", colour(2)),
    ];
    let ladder = Ladder {
        about: "Requests a second for each use of the same memory, compared with memory of the \
                guests, under emulation"
            .to_owned(),
        axis: "requests, compared with memory of the guests".to_owned(),
        situations: ways.map(|(name, colour)| (name.to_owned(), colour)).into(),
        rows,
    };
    picture::assert("ways.svg", &ladder.file());
}
