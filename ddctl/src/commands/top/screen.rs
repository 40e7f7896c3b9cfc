// SPDX-License-Identifier: GPL-2.0-only

//! The terminal that `ddctl top` draws on.

use ratatui::{
    DefaultTerminal, Frame,
    crossterm::event::{self, Event, KeyEvent},
};
use signal_hook::{
    consts::{SIGHUP, SIGINT, SIGTERM},
    iterator::{Handle, Signals},
};
use std::{
    io,
    sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel},
    thread,
    time::Duration,
};

/// Input from the user or the system.
pub(super) enum Input {
    /// A key was pressed.
    Key(KeyEvent),
    /// The size of the terminal has changed.
    Resize,
    /// The program is to end.
    Signal(i32),
}

/// The terminal, which is restored when this is dropped and when a thread panics.
pub(super) struct Screen {
    terminal: DefaultTerminal,
    inputs: Receiver<io::Result<Input>>,
    signals: Handle,
    open: bool,
}

impl Screen {
    /// Takes the terminal over. Two threads wait for keys and signals; the thread for keys waits
    /// until the process ends.
    pub(super) fn open() -> io::Result<Self> {
        let signals = Signals::new([SIGHUP, SIGINT, SIGTERM])?;
        let handle = signals.handle();
        let (sender, inputs) = channel();
        let keys = sender.clone();
        let terminal = ratatui::try_init()?;
        let screen = Self {
            terminal,
            inputs,
            signals: handle,
            open: true,
        };
        thread::Builder::new()
            .name("keys".into())
            .spawn(move || send_keys(&keys))?;
        thread::Builder::new()
            .name("signals".into())
            .spawn(move || send_signals(signals, &sender))?;
        Ok(screen)
    }

    /// Draws a frame. The size of the terminal is asked for before.
    pub(super) fn draw(&mut self, draw: impl FnOnce(&mut Frame<'_>)) -> io::Result<()> {
        self.terminal.draw(draw).map(|_| ())
    }

    /// Waits for an input. Returns `None` if there is none in this time.
    pub(super) fn input(&self, time: Duration) -> io::Result<Option<Input>> {
        match self.inputs.recv_timeout(time) {
            Ok(input) => input.map(Some),
            Err(RecvTimeoutError::Timeout) => Ok(None),
            Err(RecvTimeoutError::Disconnected) => Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }

    /// Restores the terminal.
    pub(super) fn close(mut self) -> io::Result<()> {
        self.open = false;
        self.signals.close();
        ratatui::try_restore()
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        if self.open {
            self.signals.close();
            // There is an error already, which is reported instead.
            let _ = ratatui::try_restore();
        }
    }
}

fn send_keys(sender: &Sender<io::Result<Input>>) {
    loop {
        let input = match event::read() {
            Ok(Event::Key(key)) if key.is_press() => Ok(Input::Key(key)),
            Ok(Event::Resize(..)) => Ok(Input::Resize),
            Ok(_) => continue,
            Err(error) => Err(error),
        };
        let failed = input.is_err();
        // The receiver is gone if the program ends.
        if sender.send(input).is_err() || failed {
            return;
        }
    }
}

fn send_signals(mut signals: Signals, sender: &Sender<io::Result<Input>>) {
    for signal in signals.forever() {
        if sender.send(Ok(Input::Signal(signal))).is_err() {
            return;
        }
    }
}
