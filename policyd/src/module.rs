// SPDX-License-Identifier: GPL-2.0-only

//! Access to the guest module.

use dddaemon::listener::{self, Listener};
use ddnl::{AsyncGuestControl, Result, Side, tokio::GuestClient};

/// A change of the module's state.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Change {
    /// The module was loaded.
    Came,
    /// The module was unloaded.
    Went,
    /// The module found, lost or changed its host.
    Session,
}

/// Access to the guest module; tests put a fake in its place.
pub trait GuestAccess {
    /// The interface that changes pools.
    type Control: AsyncGuestControl;

    /// Finds the module and checks its version.
    fn connect(&mut self) -> impl Future<Output = Result<Self::Control>>;

    /// Waits for the next change. No change is lost if the future is dropped.
    fn changed(&mut self) -> impl Future<Output = Change>;
}

/// The module of the running kernel.
pub struct Kernel(Listener);

impl Kernel {
    /// Starts to listen for changes of the module.
    pub async fn open() -> Self {
        Self(Listener::open(Side::Guest).await)
    }
}

impl GuestAccess for Kernel {
    type Control = GuestClient;

    async fn connect(&mut self) -> Result<GuestClient> {
        let mut guest = GuestClient::open().await?;
        guest.status().await?;
        self.0.follow().await?;
        Ok(guest)
    }

    async fn changed(&mut self) -> Change {
        match self.0.next().await {
            listener::Change::Came => Change::Came,
            listener::Change::Went => Change::Went,
            listener::Change::Event(_) | listener::Change::Lost => Change::Session,
        }
    }
}
