// SPDX-License-Identifier: GPL-2.0-only

//! Access to the host module.

use dddaemon::listener::{Change, Listener};
use ddnl::{AsyncHostControl, Result, Side, tokio::HostClient};

/// Access to the host module; tests put a fake in its place.
pub trait HostAccess {
    /// The interface that sets weights and sizes.
    type Control: AsyncHostControl;

    /// Finds the module and checks its version.
    fn connect(&mut self) -> impl Future<Output = Result<Self::Control>>;

    /// Waits for the next change. Nothing is lost if the future is dropped.
    fn changed(&mut self) -> impl Future<Output = Change>;

    /// Returns whether every change is heard from now on.
    fn follows_all(&mut self) -> impl Future<Output = bool>;
}

/// The module in this machine's kernel.
pub struct Kernel(Listener);

impl Kernel {
    /// Listens for the module to be loaded.
    pub async fn open() -> Self {
        Self(Listener::open(Side::Host).await)
    }
}

impl HostAccess for Kernel {
    type Control = HostClient;

    async fn connect(&mut self) -> Result<HostClient> {
        let mut host = HostClient::open().await?;
        host.status().await?;
        self.0.follow().await?;
        Ok(host)
    }

    async fn changed(&mut self) -> Change {
        self.0.next().await
    }

    async fn follows_all(&mut self) -> bool {
        self.0.follows_all().await
    }
}
