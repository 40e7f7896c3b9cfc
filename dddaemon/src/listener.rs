// SPDX-License-Identifier: GPL-2.0-only

//! Changes of a kernel module: it is loaded, it is unloaded, and its events.

use ddnl::{
    Event, Result, Side,
    tokio::{Events, Registrations},
};
use std::future::pending;
use tracing::{debug, warn};

/// A change of the module.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Change {
    /// It was loaded.
    Came,
    /// It was unloaded.
    Went,
    /// It sent an event.
    Event(Event),
    /// Changes were lost, which may have been any of these.
    Lost,
}

/// Listens to a module of this machine's kernel.
pub struct Listener {
    side: Side,
    registrations: Option<Registrations>,
    events: Option<Events>,
    /// Whether the module is loaded, so that it has events.
    is_loaded: bool,
}

impl Listener {
    /// Listens for the module to be loaded. If that is not possible, the daemon polls instead.
    pub async fn open(side: Side) -> Self {
        let registrations = match Registrations::open(side).await {
            Ok(registrations) => Some(registrations),
            Err(error) => {
                warn!("cannot receive announcements of modules, so that they are polled: {error}");
                None
            }
        };
        Self {
            side,
            registrations,
            events: None,
            is_loaded: false,
        }
    }

    /// Begins to follow the events of the module, which is loaded.
    pub async fn follow(&mut self) -> Result<()> {
        self.events = Some(Events::open(self.side).await?);
        self.is_loaded = true;
        Ok(())
    }

    /// Opens sources again that have broken. Returns whether every change of a loaded module is
    /// heard from now on.
    pub async fn follows_all(&mut self) -> bool {
        // If one cannot be opened, the next call tries again.
        if self.registrations.is_none() {
            self.registrations = Registrations::open(self.side).await.ok();
        }
        if self.events.is_none() && self.is_loaded {
            self.events = Events::open(self.side).await.ok();
        }
        self.registrations.is_some() && self.events.is_some()
    }

    /// Waits for the next change. Nothing is lost if the future is dropped.
    pub async fn next(&mut self) -> Change {
        let registration = async {
            match &mut self.registrations {
                Some(registrations) => registrations.next().await,
                None => pending().await,
            }
        };
        let event = async {
            match &mut self.events {
                Some(events) => events.next().await,
                None => pending().await,
            }
        };
        let (heard, from_events) = tokio::select! {
            loaded = registration => (loaded.map(loaded_or_not), false),
            event = event => (event.map(told), true),
        };
        match heard {
            Ok(change) => {
                if change == Change::Went {
                    self.events = None;
                    self.is_loaded = false;
                }
                change
            }
            Err(error) => {
                warn!("{error}");
                // A broken source does not recover. Until another one is open, the daemon polls.
                if !matches!(error, ddnl::Error::Overrun) {
                    if from_events {
                        self.events = None;
                    } else {
                        self.registrations = None;
                    }
                }
                Change::Lost
            }
        }
    }
}

fn loaded_or_not(loaded: bool) -> Change {
    if loaded { Change::Came } else { Change::Went }
}

fn told(event: Event) -> Change {
    debug!(event = event.label(), "the module says");
    Change::Event(event)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_source_that_broke_is_opened_again() {
        let mut listener = Listener::open(Side::Host).await;
        listener.registrations = None;
        // The module is not loaded, so that it has no events.
        assert!(!listener.follows_all().await);
        assert!(listener.registrations.is_some() && listener.events.is_none());
    }
}
