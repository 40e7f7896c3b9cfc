// SPDX-License-Identifier: GPL-2.0-only

//! Plots as SVG.

use super::{Bar, Line, Part};
use anyhow::{Result, anyhow};
use plotters::coord::Shift;
use plotters::coord::types::RangedCoordf64;
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

/// The colour of a paper's values.
const PAPER: RGBColor = RGBColor(170, 170, 170);

/// Draws a part. Returns `None` if it has no data.
pub(super) fn draw(part: &Part) -> Result<Option<String>> {
    match part {
        Part::Lines { title, x, y, lines } => lines_plot(title, (x, y), lines).map(Some),
        Part::Bars { title, y, bars } => bars_plot(title, y, bars).map(Some),
        Part::Missing(_) => Ok(None),
    }
}

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type Chart<'a, 'b> = ChartContext<'a, SVGBackend<'b>, Cartesian2d<RangedCoordf64, RangedCoordf64>>;

/// Draws a chart from 0 to these ends, with its contents and a legend at this place.
fn chart(
    title: &str,
    (right, top): (f64, f64),
    legend: SeriesLabelPosition,
    draw: impl FnOnce(&Area<'_>, &mut Chart<'_, '_>) -> Result<()>,
) -> Result<String> {
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
        draw(&area, &mut chart)?;
        let mut labels = chart.configure_series_labels();
        let labels = labels.background_style(WHITE.mix(0.8)).border_style(PAPER);
        labels.position(legend).draw().map_err(told)?;
        area.present().map_err(told)?;
    }
    Ok(svg)
}

fn lines_plot(title: &str, (x, y): (&str, &str), lines: &[Line]) -> Result<String> {
    let most = |pick: fn(&(f64, f64)) -> f64| {
        let values = lines.iter().flat_map(|(_, points)| points.iter().map(pick));
        values.fold(f64::MIN_POSITIVE, f64::max)
    };
    let ends = (most(|(x, _)| *x), most(|(_, y)| *y) * 1.08);
    chart(title, ends, SeriesLabelPosition::UpperLeft, |_, chart| {
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
        Ok(())
    })
}

fn bars_plot(title: &str, y: &str, bars: &[Bar]) -> Result<String> {
    let values = bars
        .iter()
        .flat_map(|(_, ours, paper)| [*ours, paper.unwrap_or(0.0)]);
    let ends = (bars.len() as f64, values.fold(1.0, f64::max) * 1.1);
    let place = SeriesLabelPosition::MiddleRight;
    chart(title, ends, place, |area, chart| {
        let mut mesh = chart.configure_mesh();
        let mesh = mesh.y_desc(y).disable_x_mesh().x_labels(0);
        mesh.light_line_style(WHITE).draw().map_err(told)?;
        let ours: fn(&Bar) -> Option<f64> = |(_, ours, _)| Some(*ours);
        let kinds = [
            ("ours", COLOURS[0], 0.14, ours),
            ("paper", PAPER, 0.51, |bar| bar.2),
        ];
        for (name, colour, from, height) in kinds {
            let heights = bars.iter().map(height).enumerate();
            let series = heights.filter_map(|(at, height)| {
                let left = at as f64 + from;
                let corners = [(left, 0.0), (left + 0.35, height?)];
                Some(Rectangle::new(corners, colour.filled()))
            });
            let mut series = series.peekable();
            if series.peek().is_none() {
                continue;
            }
            chart
                .draw_series(series)
                .map_err(told)?
                .label(name)
                .legend(move |(x, y)| {
                    Rectangle::new([(x, y - 5), (x + 12, y + 5)], colour.filled())
                });
        }
        // Labels are below the bars, in two lines if they are long.
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
        Ok(())
    })
}

fn told(error: impl std::fmt::Display) -> anyhow::Error {
    anyhow!("cannot draw: {error}")
}
