// SPDX-License-Identifier: GPL-2.0-only

//! Pictures of the terminal for the documents. Blocks are drawn as rectangles, so that they look
//! alike in all fonts.

use ratatui::{
    buffer::{Buffer, Cell},
    style::{Color, Modifier},
};
use std::{env, fmt::Write as _, fs, path::Path};

/// Size of a cell in units of the picture.
const WIDTH: f64 = 8.0;
const HEIGHT: f64 = 18.0;
/// Distance of the text's base line from the upper edge of its cell.
const BASE: f64 = 13.5;
/// Width of the edge around all cells.
const EDGE: f64 = 12.0;
const PAPER: &str = "#1e1e2e";
const INK: &str = "#d9dce8";
/// Set to write the pictures instead of comparing them.
const WRITE: &str = "DD_WRITE_PICTURES";

/// Compares the picture of a terminal with the one in `docs/pictures`.
pub(crate) fn assert_picture(name: &str, title: &str, buffer: &Buffer) {
    let top = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let path = top.join("docs/pictures").join(name).with_extension("svg");
    let drawn = svg(title, buffer);
    if env::var_os(WRITE).is_some() {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, &drawn).unwrap();
    }
    let there = fs::read_to_string(&path).unwrap_or_default();
    assert!(
        there == drawn,
        "{} shows another state; look at the new one after {WRITE}=1 cargo test -p ddctl",
        path.display()
    );
}

/// Draws a terminal.
fn svg(title: &str, buffer: &Buffer) -> String {
    let area = buffer.area();
    let (columns, rows) = (f64::from(area.width), f64::from(area.height));
    let (width, height) = (columns * WIDTH + 2.0 * EDGE, rows * HEIGHT + 2.0 * EDGE);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" \
         width=\"{width}\" height=\"{height}\" role=\"img\" \
         font-family=\"ui-monospace, 'DejaVu Sans Mono', Menlo, Consolas, monospace\" \
         font-size=\"13\" xml:space=\"preserve\">\n<title>{title}</title>\n\
         <rect width=\"{width}\" height=\"{height}\" rx=\"8\" fill=\"{PAPER}\"/>\n"
    );
    for row in 0..area.height {
        let cells: Vec<&Cell> = (0..area.width)
            .map(|column| &buffer[(column, row)])
            .collect();
        let mut column = 0;
        for alike in cells.chunk_by(|one, other| style(one) == style(other)) {
            draw(&mut svg, (column, usize::from(row)), alike);
            column += alike.len();
        }
    }
    svg.push_str("</svg>\n");
    svg
}

/// Returns the style that cells share if they are drawn together.
fn style(cell: &Cell) -> (Color, Color, Modifier) {
    (cell.fg, cell.bg, cell.modifier)
}

fn draw(svg: &mut String, (column, row): (usize, usize), cells: &[&Cell]) {
    let (left, upper) = (EDGE + column as f64 * WIDTH, EDGE + row as f64 * HEIGHT);
    let first = cells[0];
    let (mut ink, mut paper) = (colour(first.fg).unwrap_or(INK), colour(first.bg));
    if first.modifier.contains(Modifier::REVERSED) {
        (ink, paper) = (paper.unwrap_or(PAPER), Some(ink));
    }
    let mut look = format!("fill=\"{ink}\"");
    if first.modifier.contains(Modifier::DIM) {
        look.push_str(" fill-opacity=\"0.55\"");
    }
    let mut rect = |x: f64, y: f64, width: f64, height: f64, look: &str| {
        let _ = writeln!(
            svg,
            "<rect x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{height}\" {look}/>"
        );
    };
    if let Some(paper) = paper {
        let width = cells.len() as f64 * WIDTH;
        rect(left, upper, width, HEIGHT, &format!("fill=\"{paper}\""));
    }
    let mut at = left;
    for alike in cells.chunk_by(|one, other| one.symbol() == other.symbol()) {
        let width = alike.len() as f64 * WIDTH;
        if let Some((part, opacity)) = block(alike[0].symbol()) {
            let height = HEIGHT * part;
            let look = format!("fill=\"{ink}\" fill-opacity=\"{opacity}\"");
            rect(at, upper + HEIGHT - height, width, height, &look);
        }
        at += width;
    }
    if first.modifier.contains(Modifier::BOLD) {
        look.push_str(" font-weight=\"bold\"");
    }
    words(svg, (left, upper + BASE), cells, &look);
}

/// Writes the words of a line, each at its column.
fn words(svg: &mut String, (left, base): (f64, f64), cells: &[&Cell], look: &str) {
    let is_word = |cell: &&Cell| cell.symbol() != " " && block(cell.symbol()).is_none();
    let mut column = 0;
    for part in cells.chunk_by(|one, other| is_word(one) == is_word(other)) {
        if is_word(&part[0]) {
            let x = left + column as f64 * WIDTH;
            let length = part.len() as f64 * WIDTH;
            let text: String = part.iter().map(|cell| escaped(cell.symbol())).collect();
            let _ = writeln!(
                svg,
                "<text x=\"{x}\" y=\"{base}\" textLength=\"{length}\" {look}>{text}</text>"
            );
        }
        column += part.len();
    }
}

/// Returns the height of a block as a part of its cell, and its opacity.
fn block(symbol: &str) -> Option<(f64, f64)> {
    let symbol = symbol.chars().next()?;
    match symbol {
        '▁'..='█' => Some((f64::from(symbol as u32 - '▁' as u32 + 1) / 8.0, 1.0)),
        '▓' => Some((1.0, 0.75)),
        '░' => Some((1.0, 0.2)),
        _ => None,
    }
}

fn colour(colour: Color) -> Option<&'static str> {
    match colour {
        Color::Reset => None,
        Color::Red => Some("#f38ba8"),
        Color::Green => Some("#8fd694"),
        Color::Yellow => Some("#f2c063"),
        Color::Cyan => Some("#74c7ec"),
        other => panic!("no tint stands for {other}"),
    }
}

fn escaped(symbol: &str) -> String {
    match symbol {
        "&" => "&amp;".into(),
        "<" => "&lt;".into(),
        other => other.into(),
    }
}

#[test]
fn signs_of_markup_are_text() {
    let buffer = Buffer::with_lines(["a<b & ▄░"]);
    let svg = svg("signs", &buffer);
    assert!(svg.contains(">a&lt;b</text>"), "{svg}");
    assert!(svg.contains(">&amp;</text>"), "{svg}");
    assert!(
        svg.contains("height=\"9\" fill=\"#d9dce8\" fill-opacity=\"1\""),
        "{svg}"
    );
}
