// SPDX-License-Identifier: GPL-2.0-only

//! The lines above the rows: title, tiers, rates and messages.

use super::{bar, theme::Theme};
use crate::{
    number,
    top::{reading::Tier, state::State},
};
use ratatui::text::{Line, Span};

/// Columns of the names at the beginning of the lines.
const LABEL: usize = 8;

/// Returns the lines for a terminal of this width.
pub(super) fn lines(state: &State, theme: &Theme, width: usize) -> Vec<Line<'static>> {
    let reading = &state.reading;
    let mut lines = vec![title(state, theme, width)];
    let bar_width = (width / 3).clamp(8, 40);
    let tiers = reading.tiers.iter();
    lines.extend(tiers.map(|tier| tier_line(tier, theme, bar_width)));
    lines.push(rates(state, theme));
    lines.push(message(state, theme));
    lines
}

/// Returns the name of the program and the view at the left, and the time at the right.
fn title(state: &State, theme: &Theme, width: usize) -> Line<'static> {
    let reading = &state.reading;
    let count = |count: u64, name: &str| match count {
        1 => format!("1 {name}"),
        count => format!("{count} {name}s"),
    };
    let containers = count(reading.container_count, "container");
    let content = match reading.vms.len() as u64 {
        0 if reading.containers.is_some() => containers,
        vms => format!("{}, {containers}", count(vms, "VM")),
    };
    let left = format!("{}: {content}", reading.title);
    let taken = "ddctl top  ".len() + left.chars().count() + reading.time.len();
    Line::from(vec![
        Span::styled("ddctl top  ", theme.strong),
        Span::raw(left),
        Span::raw(" ".repeat(width.saturating_sub(taken).max(1))),
        Span::styled(reading.time.clone(), theme.faint),
    ])
}

fn tier_line(tier: &Tier, theme: &Theme, width: usize) -> Line<'static> {
    let part = tier.used as f64 / tier.size.max(1) as f64;
    let text = format!(
        " {:>6} of {:>6}  {:>6}  ",
        number::size(tier.used),
        number::size(tier.size),
        number::percent((tier.size > 0).then_some(part)),
    );
    let mut spans = vec![Span::raw(format!("{:LABEL$}", tier.name))];
    let whole = tier.size.max(tier.used);
    spans.extend(bar::share(theme, width, tier.used, tier.size, whole).spans);
    spans.push(Span::raw(text));
    let style = if tier.alarm { theme.alarm } else { theme.faint };
    spans.push(Span::styled(tier.note.clone(), style));
    Line::from(spans)
}

fn rates(state: &State, theme: &Theme) -> Line<'static> {
    const SPARK: usize = 8;
    let now = state.total.now();
    let fact = |name: &str, rate: f64| format!("  {name} {}/s", number::rate(rate));
    Line::from(vec![
        Span::raw(format!("{:LABEL$}", "Hits")),
        Span::styled(bar::sparkline(state.total.hits(SPARK), SPARK), theme.spark),
        Span::raw(format!(
            " {}/s  HIT {}",
            number::rate(now.hits),
            number::percent(state.total.hit_ratio()),
        )),
        Span::raw(fact("puts", now.puts)),
        Span::raw(fact("evicted", now.evicted)),
        Span::raw(fact("refused", now.refused)),
    ])
}

/// Returns the most important message, or else what limits the rows.
fn message(state: &State, theme: &Theme) -> Line<'static> {
    if let Some(trouble) = &state.trouble {
        return Line::styled(format!("No data: {trouble}; trying again"), theme.alarm);
    }
    if let Some(note) = state.note.as_ref().or(state.reading.notice.as_ref()) {
        return Line::styled(note.clone(), theme.alarm);
    }
    let mut spans = Vec::new();
    if let Some((id, name)) = &state.vm {
        spans.push(Span::styled(
            format!("Containers of VM {name} (id {id})  "),
            theme.strong,
        ));
    }
    if state.typing {
        spans.push(Span::raw(format!("Filter: {}█", state.filter)));
    } else if !state.filter.is_empty() {
        spans.push(Span::raw(format!("Filter: {}", state.filter)));
    }
    Line::from(spans)
}
