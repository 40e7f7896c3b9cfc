// SPDX-License-Identifier: GPL-2.0-only

//! `ddctl top` without a terminal.

use super::{Effect, source::Source, state::State, view};
use crate::{context::Context, error::Result, system::System};
use ddnl::Side;
use ratatui::{Frame, crossterm::event::KeyEvent};
use std::io::sink;

/// Display of a module that is read again and again.
pub struct Monitor<'a> {
    system: &'a dyn System,
    side: Option<Side>,
    source: Source,
    state: State,
}

impl<'a> Monitor<'a> {
    /// Reads the module of the side that the user chose, or else of the one that is loaded.
    pub fn new(system: &'a dyn System, side: Option<Side>) -> Result<Self> {
        let (mut out, mut err) = (sink(), sink());
        let context = Context::new(system, &mut out, &mut err, false, side);
        let mut source = Source::new(&context)?;
        let first = source.read(&context, None)?;
        let state = State::new(first, context.colour());
        Ok(Self {
            system,
            side,
            source,
            state,
        })
    }

    /// Reads the module. If that fails, the next frames show why.
    pub fn read(&mut self) {
        let (mut out, mut err) = (sink(), sink());
        let context = Context::new(self.system, &mut out, &mut err, false, self.side);
        let reading = self.source.read(&context, self.state.wanted_vm());
        self.state.update(reading);
    }

    /// Handles a key, and returns its effect.
    pub fn press(&mut self, key: KeyEvent) -> Effect {
        self.state.press(key)
    }

    /// Draws a frame.
    pub fn draw(&mut self, frame: &mut Frame<'_>) {
        view::draw(frame, &mut self.state);
    }
}
