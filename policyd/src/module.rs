// SPDX-License-Identifier: GPL-2.0-only

//! How the daemon reaches the guest module.

use ddnl::{
    AsyncGuestControl, Result, Side,
    tokio::{Events, Guest, Registrations},
};
use std::future::pending;
use tracing::{debug, warn};

/// What happened at the module.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Change {
    /// It was loaded.
    Came,
    /// It was unloaded.
    Went,
    /// It found, lost or changed its host.
    Session,
}

/// Access to the guest module; tests put a fake in its place.
pub trait Module {
    /// What changes pools.
    type Control: AsyncGuestControl;

    /// Finds the module and checks its version.
    fn connect(&mut self) -> impl Future<Output = Result<Self::Control>>;

    /// Waits for the next change. Nothing is lost if the future is dropped.
    fn changed(&mut self) -> impl Future<Output = Change>;
}

/// The module in this machine's kernel.
pub struct Kernel {
    registrations: Option<Registrations>,
    events: Option<Events>,
}

impl Kernel {
    /// Listens for the module to come. Without that, the daemon only looks now and then.
    pub async fn open() -> Self {
        let registrations = match Registrations::open(Side::Guest).await {
            Ok(registrations) => Some(registrations),
            Err(error) => {
                warn!("cannot hear of modules that come and go, will look instead: {error}");
                None
            }
        };
        Self {
            registrations,
            events: None,
        }
    }
}

impl Module for Kernel {
    type Control = Guest;

    async fn connect(&mut self) -> Result<Guest> {
        let mut guest = Guest::open().await?;
        guest.status().await?;
        self.events = Some(Events::open(Side::Guest).await?);
        Ok(guest)
    }

    async fn changed(&mut self) -> Change {
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
                }
                change
            }
            Err(error) => {
                warn!("{error}");
                // What was lost may have been anything: look again. A source that is broken
                // would stay so; without it the daemon looks now and then.
                if !matches!(error, ddnl::Error::Overrun) {
                    if from_events {
                        self.events = None;
                    } else {
                        self.registrations = None;
                    }
                }
                Change::Session
            }
        }
    }
}

fn loaded_or_not(loaded: bool) -> Change {
    if loaded { Change::Came } else { Change::Went }
}

fn told(event: ddnl::Event) -> Change {
    debug!(event = event.label(), "the module says");
    Change::Session
}
