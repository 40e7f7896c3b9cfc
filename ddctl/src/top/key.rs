// SPDX-License-Identifier: GPL-2.0-only

//! Effects of keys.

use super::{order::Column, state::State};
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

/// Effect of a key.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Effect {
    /// The display is drawn again.
    Draw,
    /// The modules are read again.
    Read,
    /// The program ends.
    Quit,
}

impl State {
    /// Handles a key.
    pub(crate) fn press(&mut self, key: KeyEvent) -> Effect {
        self.note = None;
        if key.modifiers.contains(KeyModifiers::CONTROL) {
            return match key.code {
                KeyCode::Char('c') => Effect::Quit,
                _ => Effect::Draw,
            };
        }
        if self.help {
            self.help = false;
            return Effect::Draw;
        }
        if self.typing {
            self.type_filter(key.code);
            return Effect::Draw;
        }
        let page = isize::try_from(self.height.max(1)).unwrap_or(isize::MAX);
        match key.code {
            KeyCode::Char('q') => return Effect::Quit,
            KeyCode::Char('?' | 'h') | KeyCode::F(1) => self.help = true,
            KeyCode::Up | KeyCode::Char('k') => self.select(-1),
            KeyCode::Down | KeyCode::Char('j') => self.select(1),
            KeyCode::PageUp => self.select(-page),
            KeyCode::PageDown => self.select(page),
            KeyCode::Home | KeyCode::Char('g') => self.select(isize::MIN),
            KeyCode::End | KeyCode::Char('G') => self.select(isize::MAX),
            KeyCode::Char('/') => self.typing = true,
            KeyCode::Char('s' | '>') => self.sort_by(self.order.column.neighbour(true)),
            KeyCode::Char('S' | '<') => self.sort_by(self.order.column.neighbour(false)),
            KeyCode::Char('i') => self.order.inverted = !self.order.inverted,
            KeyCode::Char(letter) => {
                if let Some(column) = Column::of_key(letter) {
                    self.sort_by(column);
                }
            }
            KeyCode::Enter | KeyCode::Right if self.enter() => return Effect::Read,
            // The filter belongs to the rows that are shown, and is left before them.
            KeyCode::Esc | KeyCode::Backspace | KeyCode::Left => {
                if !self.filter.is_empty() {
                    self.filter.clear();
                } else if self.vm.is_some() {
                    self.leave();
                    return Effect::Read;
                }
            }
            _ => {}
        }
        Effect::Draw
    }

    fn type_filter(&mut self, key: KeyCode) {
        match key {
            KeyCode::Char(letter) => self.filter.push(letter),
            KeyCode::Backspace => drop(self.filter.pop()),
            KeyCode::Enter | KeyCode::Down | KeyCode::Up => self.typing = false,
            KeyCode::Esc => {
                self.typing = false;
                self.filter.clear();
            }
            _ => {}
        }
    }

    fn sort_by(&mut self, column: Column) {
        self.order.column = column;
        self.order.inverted = false;
    }
}
