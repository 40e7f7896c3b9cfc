// SPDX-License-Identifier: GPL-2.0-only

//! Both modules and their events on tokio.

use crate::{
    attributes::Attributes,
    blocking::{DUMP_ATTEMPTS, configure, join, kernel, lost_events},
    call::{self, Call},
    control::{AsyncGuestControl, AsyncHostControl, ConfigChange, NewPool, PoolChange, VmChange},
    error::{Error, Result},
    exchange::{self, Exchange, Progress},
    family::{Family, Side},
    reply::{Device, Event, GuestStatus, HostStatus, Pool, Vm},
};
use netlink_sys::{AsyncSocket, AsyncSocketExt, TokioSocket, protocols::NETLINK_GENERIC};
use std::{collections::VecDeque, io};

/// A socket for requests, which are sent one at a time.
struct Connection {
    socket: TokioSocket,
    sequence: u32,
}

impl Connection {
    fn open() -> Result<Self> {
        let mut socket = <TokioSocket as AsyncSocket>::new(NETLINK_GENERIC)?;
        configure(socket.socket_mut())?;
        Ok(Self {
            socket,
            sequence: 0,
        })
    }

    async fn resolve(&mut self, side: Side) -> Result<Family> {
        let call = Family::resolve(side.family());
        match self.call(&Family::controller(side), &call).await {
            Err(Error::NotFound { .. }) => Err(Error::NotLoaded { side }),
            answer => Family::read(side, &answer?),
        }
    }

    async fn call<T>(&mut self, family: &Family, call: &Call<T>) -> Result<T> {
        for _ in 0..DUMP_ATTEMPTS {
            match self.exchange(family, call).await {
                Err(Error::Interrupted) => {}
                replies => return call.read(replies?),
            }
        }
        Err(Error::Interrupted)
    }

    async fn exchange<T>(&mut self, family: &Family, call: &Call<T>) -> Result<Vec<Attributes>> {
        self.sequence += 1;
        let (mut exchange, datagram) = Exchange::begin(family, self.sequence, call);
        self.socket.send_to(&datagram, &kernel()).await?;
        loop {
            let datagram = receive(&mut self.socket).await?;
            if exchange.receive(&datagram)? == Progress::Done {
                return Ok(exchange.finish());
            }
        }
    }
}

/// One module on tokio.
struct Client {
    connection: Connection,
    family: Family,
}

impl Client {
    async fn open(side: Side) -> Result<Self> {
        let mut connection = Connection::open()?;
        let family = connection.resolve(side).await?;
        Ok(Self { connection, family })
    }

    /// Sends a request to the module. If the module was reloaded since the last call, the request
    /// is sent again to the new instance.
    async fn call<T>(&mut self, call: &Call<T>) -> Result<T> {
        match self.connection.call(&self.family, call).await {
            Err(error @ Error::NotFound { .. }) => {
                let family = self.connection.resolve(self.family.side).await?;
                if family.id == self.family.id {
                    return Err(error);
                }
                self.family = family;
                self.connection.call(&self.family, call).await
            }
            answer => answer,
        }
    }
}

/// The host module on tokio.
pub struct HostClient(Client);

impl HostClient {
    /// Opens a socket and looks the module's family up.
    pub async fn open() -> Result<Self> {
        Client::open(Side::Host).await.map(Self)
    }
}

impl AsyncHostControl for HostClient {
    async fn status(&mut self) -> Result<HostStatus> {
        self.0.call(&call::host::status()).await
    }

    async fn vms(&mut self) -> Result<Vec<Vm>> {
        self.0.call(&call::host::vms()).await
    }

    async fn pools(&mut self, vm: u32) -> Result<Vec<Pool>> {
        self.0.call(&call::host::pools(Some(vm))).await
    }

    async fn devices(&mut self) -> Result<Vec<Device>> {
        self.0.call(&call::host::devices()).await
    }

    async fn set_vm(&mut self, vm: u32, change: VmChange) -> Result<u64> {
        self.0.call(&call::host::set_vm(vm, change)?).await
    }

    async fn configure(&mut self, change: &ConfigChange) -> Result<u64> {
        self.0.call(&call::host::configure(change)).await
    }

    async fn add_device(&mut self, path: &str) -> Result<u32> {
        self.0.call(&call::host::add_device(path)?).await
    }

    async fn remove_device(&mut self, device: u32) -> Result<u64> {
        self.0.call(&call::host::remove_device(device)).await
    }

    async fn set_write_budget(&mut self, device: u32, pages: u64) -> Result<()> {
        let call = call::host::set_write_budget(device, pages);
        self.0.call(&call).await
    }
}

/// The guest module on tokio.
pub struct GuestClient(Client);

impl GuestClient {
    /// Opens a socket and looks the module's family up.
    pub async fn open() -> Result<Self> {
        Client::open(Side::Guest).await.map(Self)
    }
}

impl AsyncGuestControl for GuestClient {
    async fn status(&mut self) -> Result<GuestStatus> {
        self.0.call(&call::guest::status()).await
    }

    async fn pools(&mut self) -> Result<Vec<Pool>> {
        self.0.call(&call::guest::pools()).await
    }

    async fn add_pool(&mut self, pool: &NewPool) -> Result<u32> {
        self.0.call(&call::guest::add_pool(pool)?).await
    }

    async fn set_pool(&mut self, pool: u32, change: PoolChange) -> Result<()> {
        self.0.call(&call::guest::set_pool(pool, change)?).await
    }

    async fn remove_pool(&mut self, pool: u32) -> Result<()> {
        self.0.call(&call::guest::remove_pool(pool)).await
    }
}

/// Events of a module.
pub struct Events {
    socket: TokioSocket,
    family: Family,
    waiting: VecDeque<Event>,
}

impl Events {
    /// Joins the multicast group of a module.
    pub async fn open(side: Side) -> Result<Self> {
        let family = Connection::open()?.resolve(side).await?;
        let mut socket = <TokioSocket as AsyncSocket>::new(NETLINK_GENERIC)?;
        join(socket.socket_mut(), &family)?;
        Ok(Self {
            socket,
            family,
            waiting: VecDeque::new(),
        })
    }

    /// Waits for the next event. No event is lost if the future is dropped.
    pub async fn next(&mut self) -> Result<Event> {
        loop {
            if let Some(event) = self.waiting.pop_front() {
                return Ok(event);
            }
            let datagram = receive(&mut self.socket).await.map_err(lost_events)?;
            self.waiting
                .extend(exchange::events(&self.family, &datagram)?);
        }
    }
}

/// Reports when a module is loaded or unloaded, by the kernel's announcements of families.
pub struct Registrations {
    socket: TokioSocket,
    side: Side,
    waiting: VecDeque<bool>,
}

impl Registrations {
    /// Joins the kernel's group for announcements of families.
    pub async fn open(side: Side) -> Result<Self> {
        let controller = Family::controller(side);
        let answer = Connection::open()?
            .call(&controller, &Family::announcer())
            .await?;
        let controller = controller.announced(&answer)?;
        let mut socket = <TokioSocket as AsyncSocket>::new(NETLINK_GENERIC)?;
        join(socket.socket_mut(), &controller)?;
        Ok(Self {
            socket,
            side,
            waiting: VecDeque::new(),
        })
    }

    /// Waits until the module is loaded (returns true) or unloaded (returns false). No announcement
    /// is lost if the future is dropped.
    pub async fn next(&mut self) -> Result<bool> {
        loop {
            if let Some(loaded) = self.waiting.pop_front() {
                return Ok(loaded);
            }
            let datagram = receive(&mut self.socket).await.map_err(lost_events)?;
            self.waiting
                .extend(exchange::registrations(self.side, &datagram)?);
        }
    }
}

/// Receives one datagram from the kernel. Datagrams from other processes are dropped.
async fn receive(socket: &mut TokioSocket) -> Result<Vec<u8>> {
    loop {
        match socket.recv_from_full().await {
            Ok((datagram, from)) if from.port_number() == 0 => return Ok(datagram),
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error.into()),
        }
    }
}
