// SPDX-License-Identifier: GPL-2.0-only

//! The rows.

use super::{bar, theme::Theme};
use crate::{
    number,
    top::{
        history::{History, LENGTH},
        order::Column,
        reading::Row as Item,
        state::State,
    },
};
use ratatui::{
    Frame,
    layout::{Constraint, Rect},
    style::{Modifier, Style},
    text::{Line, Span},
    widgets::{Cell, Paragraph, Row, Table, TableState},
};

/// The rows that are shown.
pub(super) struct Shown {
    /// Number of rows above.
    pub(super) first: usize,
    /// Number of rows that are shown.
    pub(super) rows: usize,
    /// Number of all rows.
    pub(super) count: usize,
}

/// A column of the table.
#[derive(Clone, Copy, Eq, PartialEq)]
enum Field {
    Name,
    Containers,
    Store,
    Policy,
    Weight,
    Share,
    Used,
    Entitled,
    Ssd,
    SsdEntitled,
    Ratio,
    Hits,
    Spark,
}

/// Columns between two fields.
const GAP: u16 = 1;

impl Field {
    /// Returns the heading and the least width.
    fn layout(self) -> (&'static str, u16) {
        match self {
            Self::Name => ("NAME", 12),
            Self::Containers => ("CONT", 4),
            Self::Store => ("STORE", 5),
            Self::Policy => ("POLICY", 10),
            Self::Weight => ("WEIGHT", 7),
            Self::Share => ("USE OF SHARE", 12),
            Self::Used => ("USED", 7),
            Self::Entitled => ("ENTITLED", 9),
            Self::Ssd => ("IN SSD", 7),
            Self::SsdEntitled => ("SSD ENTITLED", 12),
            Self::Ratio => ("HIT", 6),
            Self::Hits => ("HITS/S", 7),
            Self::Spark => ("HISTORY", 10),
        }
    }

    fn heading(self) -> &'static str {
        self.layout().0
    }

    fn width(self) -> u16 {
        self.layout().1
    }

    fn column(self) -> Option<Column> {
        Some(match self {
            Self::Name => Column::Name,
            Self::Weight => Column::Weight,
            Self::Used => Column::Used,
            Self::Entitled => Column::Entitled,
            Self::Ratio => Column::Ratio,
            Self::Hits => Column::Hits,
            _ => return None,
        })
    }

    fn is_left(self) -> bool {
        matches!(
            self,
            Self::Name | Self::Store | Self::Policy | Self::Share | Self::Spark
        )
    }
}

/// Returns the fields for a width. Those that matter less are left out first.
fn fields(state: &State, width: u16) -> Vec<Field> {
    use Field::{
        Containers, Entitled, Hits, Name, Policy, Ratio, Share, Spark, Ssd, SsdEntitled, Store,
        Used, Weight,
    };
    let all = [
        Name,
        Containers,
        Store,
        Policy,
        Weight,
        Share,
        Used,
        Entitled,
        Ssd,
        SsdEntitled,
        Ratio,
        Hits,
        Spark,
    ];
    let vms = state.reading.containers.is_none();
    let has_ssd = state.reading.tiers.len() > 1;
    let mut fields: Vec<Field> = all
        .into_iter()
        .filter(|field| match field {
            Containers => vms,
            Store | Policy => !vms,
            Ssd | SsdEntitled => has_ssd,
            _ => true,
        })
        .collect();
    for spare in [
        Policy,
        Containers,
        Store,
        SsdEntitled,
        Ssd,
        Spark,
        Weight,
        Share,
        Entitled,
        Ratio,
        Hits,
    ] {
        let needed: u16 = fields.iter().map(|field| field.width() + GAP).sum();
        if needed <= width + GAP {
            break;
        }
        fields.retain(|field| *field != spare);
    }
    fields
}

/// Returns the widths of fields. Names, bars and sparklines share the remaining columns.
fn widths(fields: &[Field], width: u16) -> Vec<u16> {
    let needed: u16 = fields.iter().map(|field| field.width() + GAP).sum();
    let mut left = (width + GAP).saturating_sub(needed);
    let mut widths: Vec<u16> = fields.iter().map(|field| field.width()).collect();
    let most = |field: Field| match field {
        Field::Name => 32,
        Field::Share => 40,
        Field::Spark => u16::try_from(LENGTH).unwrap_or(u16::MAX),
        _ => 0,
    };
    while left > 0 {
        let before = left;
        for (field, width) in fields.iter().zip(&mut widths) {
            if left > 0 && *width < most(*field) {
                *width += 1;
                left -= 1;
            }
        }
        if left == before {
            break;
        }
    }
    widths
}

/// Draws the rows that fit, and returns which these are.
pub(super) fn draw(frame: &mut Frame<'_>, area: Rect, state: &mut State, theme: &Theme) -> Shown {
    let height = usize::from(area.height.saturating_sub(1));
    let (rows, selected, count) = state.visible(height);
    let fields = fields(state, area.width);
    let widths = widths(&fields, area.width);
    let whole = rows.iter().map(|row| row.used.max(row.entitled)).max();
    let whole = whole.unwrap_or_default();
    let lines = rows.iter().map(|item| {
        let cells = fields.iter().zip(&widths);
        Row::new(cells.map(|(field, width)| cell(state, theme, *field, *width, item, whole)))
    });
    let headings = fields.iter().map(|field| heading(state, theme, *field));
    let shown = Shown {
        first: state.offset(),
        rows: rows.len(),
        count,
    };
    let table = Table::new(lines, widths.iter().copied().map(Constraint::Length))
        .header(Row::new(headings))
        .column_spacing(GAP)
        .row_highlight_style(theme.selected);
    // Rows that are not up to date are drawn faint.
    let table = match state.trouble {
        Some(_) => table.style(theme.faint),
        None => table,
    };
    let mut position = TableState::new().with_selected(selected);
    frame.render_stateful_widget(table, area, &mut position);
    if let Some(selected) = selected {
        keep_graphs(frame, area, selected, fields.iter().zip(&widths));
    }
    if count == 0 && area.height > 2 {
        let below = Rect {
            y: area.y + 2,
            height: area.height - 2,
            ..area
        };
        frame.render_widget(Paragraph::new(nothing(state)).centered(), below);
    }
    shown
}

/// Draws bars and sparklines of the selected row as those of other rows: inverted, a sparkline is
/// upside down, and use looks like a gap.
fn keep_graphs<'a>(
    frame: &mut Frame<'_>,
    area: Rect,
    selected: usize,
    fields: impl Iterator<Item = (&'a Field, &'a u16)>,
) {
    // The headings are above the rows.
    let row = u16::try_from(selected + 1).unwrap_or(u16::MAX);
    let mut x = area.x;
    for (field, width) in fields {
        if matches!(field, Field::Share | Field::Spark) {
            let cells = Rect {
                x,
                y: area.y.saturating_add(row),
                width: *width,
                height: 1,
            };
            let upright = Style::new().remove_modifier(Modifier::REVERSED);
            frame
                .buffer_mut()
                .set_style(cells.intersection(area), upright);
        }
        x = x.saturating_add(width + GAP);
    }
}

/// Returns why there is no row.
fn nothing(state: &State) -> &'static str {
    if !state.filter.is_empty() {
        "no name contains the filter; Esc shows all"
    } else if state.reading.containers.is_some() {
        "no container is enrolled"
    } else {
        "no VM has loaded doubledecker_guest yet"
    }
}

fn heading(state: &State, theme: &Theme, field: Field) -> Cell<'static> {
    let sorts = field.column() == Some(state.order.column);
    let line = match sorts {
        true => {
            let arrow = if state.order.ascending() {
                '▲'
            } else {
                '▼'
            };
            Line::styled(format!("{}{arrow}", field.heading()), theme.strong)
        }
        false => Line::styled(field.heading(), theme.faint),
    };
    Cell::new(match field.is_left() {
        true => line,
        false => line.right_aligned(),
    })
}

fn cell(
    state: &State,
    theme: &Theme,
    field: Field,
    width: u16,
    item: &Item,
    whole: u64,
) -> Cell<'static> {
    let history = state.histories.of(item.id);
    let width = usize::from(width);
    let (store, policy) = item.kind.unwrap_or_default();
    let text = match field {
        Field::Share => {
            return Cell::new(bar::share(theme, width, item.used, item.entitled, whole));
        }
        Field::Spark => {
            let values = history.map(|one| bar::sparkline(one.hits(width), width));
            return Cell::new(Span::styled(values.unwrap_or_default(), theme.spark));
        }
        Field::Name => item.name.clone(),
        Field::Store => store.into(),
        Field::Policy => policy.into(),
        Field::Containers => item.containers.to_string(),
        Field::Weight => item.weight.to_string(),
        Field::Used => number::size(item.used),
        Field::Entitled => number::size(item.entitled),
        Field::Ssd => number::size(item.ssd_used),
        Field::SsdEntitled => number::size(item.ssd_entitled),
        Field::Ratio => number::percent(history.and_then(History::hit_ratio)),
        Field::Hits => history.map_or_else(String::new, |one| number::rate(one.now().hits)),
    };
    let line = Line::raw(text);
    Cell::new(match field.is_left() {
        true => line,
        false => line.right_aligned(),
    })
}
