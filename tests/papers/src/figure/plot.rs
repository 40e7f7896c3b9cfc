// SPDX-License-Identifier: GPL-2.0

//! Plots as SVG.

use super::Part;
use anyhow::{Result, anyhow};
use plotters::prelude::*;

const SIZE: (u32, u32) = (640, 340);

/// Distinguishable also without colour vision (Okabe and Ito).
const COLOURS: [RGBColor; 5] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(230, 159, 0),
];

/// The colour of what a paper says.
const PAPER: RGBColor = RGBColor(170, 170, 170);

/// Draws a part; what is missing has no plot.
pub(super) fn draw(part: &Part) -> Result<Option<String>> {
    match part {
        Part::Lines { title, x, y, lines } => lines_plot(title, (x, y), lines).map(Some),
        Part::Bars { title, y, bars } => bars_plot(title, y, bars).map(Some),
        Part::Missing(_) => Ok(None),
    }
}

type Line = (String, Vec<(f64, f64)>);

fn lines_plot(title: &str, (x, y): (&str, &str), lines: &[Line]) -> Result<String> {
    let most = |pick: fn(&(f64, f64)) -> f64| {
        let values = lines.iter().flat_map(|(_, points)| points.iter().map(pick));
        values.fold(f64::MIN_POSITIVE, f64::max)
    };
    let (right, top) = (most(|(x, _)| *x), most(|(_, y)| *y) * 1.08);
    let mut svg = String::new();
    {
        let area = SVGBackend::with_string(&mut svg, SIZE).into_drawing_area();
        area.fill(&WHITE).map_err(told)?;
        let mut chart = ChartBuilder::on(&area)
            .caption(title, ("sans-serif", 16))
            .margin(10)
            .x_label_area_size(36)
            .y_label_area_size(56)
            .build_cartesian_2d(0.0..right, 0.0..top)
            .map_err(told)?;
        let mut mesh = chart.configure_mesh();
        let mesh = mesh.x_desc(x).y_desc(y).light_line_style(WHITE);
        mesh.draw().map_err(told)?;
        for ((name, points), colour) in lines.iter().zip(COLOURS) {
            let series = LineSeries::new(points.iter().copied(), colour.stroke_width(2));
            chart
                .draw_series(series)
                .map_err(told)?
                .label(name)
                .legend(move |(x, y)| {
                    PathElement::new([(x, y), (x + 16, y)], colour.stroke_width(2))
                });
        }
        let mut labels = chart.configure_series_labels();
        let labels = labels.background_style(WHITE.mix(0.8)).border_style(PAPER);
        let labels = labels.position(SeriesLabelPosition::UpperLeft);
        labels.draw().map_err(told)?;
        area.present().map_err(told)?;
    }
    Ok(svg)
}

fn bars_plot(title: &str, y: &str, bars: &[(String, f64, Option<f64>)]) -> Result<String> {
    let values = bars
        .iter()
        .flat_map(|(_, ours, paper)| [*ours, paper.unwrap_or(0.0)]);
    let top = values.fold(1.0, f64::max) * 1.1;
    let right = bars.len() as f64;
    let mut svg = String::new();
    {
        let area = SVGBackend::with_string(&mut svg, SIZE).into_drawing_area();
        area.fill(&WHITE).map_err(told)?;
        let mut chart = ChartBuilder::on(&area)
            .caption(title, ("sans-serif", 16))
            .margin(10)
            .x_label_area_size(36)
            .y_label_area_size(56)
            .build_cartesian_2d(0.0..right, 0.0..top)
            .map_err(told)?;
        let mut mesh = chart.configure_mesh();
        let mesh = mesh.y_desc(y).disable_x_mesh().x_labels(0);
        mesh.light_line_style(WHITE).draw().map_err(told)?;
        let bar = |at: usize, from: f64, height: f64, colour: RGBColor| {
            let left = at as f64 + from;
            Rectangle::new([(left, 0.0), (left + 0.35, height)], colour.filled())
        };
        let ours = bars.iter().enumerate();
        let ours = ours.map(|(at, (_, ours, _))| bar(at, 0.14, *ours, COLOURS[0]));
        let square = |colour: RGBColor| {
            move |(x, y): (i32, i32)| Rectangle::new([(x, y - 5), (x + 12, y + 5)], colour.filled())
        };
        chart
            .draw_series(ours)
            .map_err(told)?
            .label("ours")
            .legend(square(COLOURS[0]));
        if bars.iter().any(|(_, _, paper)| paper.is_some()) {
            let paper = bars.iter().enumerate();
            let paper = paper
                .filter_map(|(at, (_, _, paper))| paper.map(|paper| bar(at, 0.51, paper, PAPER)));
            chart
                .draw_series(paper)
                .map_err(told)?
                .label("paper")
                .legend(square(PAPER));
        }
        // Labels below the bars, two lines where they are long.
        let style = ("sans-serif", 12).into_font().color(&BLACK);
        for (at, (label, ..)) in bars.iter().enumerate() {
            let middle = chart.backend_coord(&(at as f64 + 0.5, 0.0));
            for (line, part) in label.split(", ").enumerate() {
                let left = middle.0 - part.len() as i32 * 3;
                let place = (left, middle.1 + 6 + 13 * line as i32);
                area.draw(&Text::new(part.to_string(), place, style.clone()))
                    .map_err(told)?;
            }
        }
        let mut labels = chart.configure_series_labels();
        let labels = labels.background_style(WHITE.mix(0.8)).border_style(PAPER);
        labels.draw().map_err(told)?;
        area.present().map_err(told)?;
    }
    Ok(svg)
}

fn told(error: impl std::fmt::Display) -> anyhow::Error {
    anyhow!("cannot draw: {error}")
}
