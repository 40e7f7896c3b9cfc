// SPDX-License-Identifier: GPL-2.0-only

//! Requests and events over a blocking socket.

use crate::{
    attributes::Attributes,
    call::{self, Call},
    control::{
        ConfigChange, EventSource, FlushTarget, Flushed, GuestControl, HostControl, NewPool,
        PoolChange, VmChange,
    },
    error::{ENOBUFS, Error, Result},
    exchange::{self, Exchange, Progress},
    family::{Family, Side},
    reply::{Device, Event, GuestStatus, HostStatus, Pool, Vm},
};
use netlink_sys::{Socket, SocketAddr, protocols::NETLINK_GENERIC};
use std::{collections::VecDeque, io};

/// Maximum number of attempts to read a dump during which the state changes.
pub(crate) const DUMP_ATTEMPTS: u32 = 5;

/// A socket for requests, which are sent one at a time.
#[derive(Debug)]
struct Connection {
    socket: Socket,
    sequence: u32,
}

impl Connection {
    fn open() -> Result<Self> {
        let mut socket = Socket::new(NETLINK_GENERIC)?;
        configure(&mut socket)?;
        Ok(Self {
            socket,
            sequence: 0,
        })
    }

    fn resolve(&mut self, side: Side) -> Result<Family> {
        let call = Family::resolve(side.family());
        match self.call(&Family::controller(side), &call) {
            Err(Error::NotFound { .. }) => Err(Error::NotLoaded { side }),
            answer => Family::read(side, &answer?),
        }
    }

    fn call<T>(&mut self, family: &Family, call: &Call<T>) -> Result<T> {
        for _ in 0..DUMP_ATTEMPTS {
            match self.exchange(family, call) {
                Err(Error::Interrupted) => {}
                replies => return call.read(replies?),
            }
        }
        Err(Error::Interrupted)
    }

    fn exchange<T>(&mut self, family: &Family, call: &Call<T>) -> Result<Vec<Attributes>> {
        self.sequence += 1;
        let (mut exchange, datagram) = Exchange::begin(family, self.sequence, call);
        self.socket.send_to(&datagram, &kernel(), 0)?;
        loop {
            let datagram = receive(&self.socket)?;
            if exchange.receive(&datagram)? == Progress::Done {
                return Ok(exchange.finish());
            }
        }
    }
}

/// One module over a blocking socket.
#[derive(Debug)]
struct Client {
    connection: Connection,
    family: Family,
}

impl Client {
    fn open(side: Side) -> Result<Self> {
        let mut connection = Connection::open()?;
        let family = connection.resolve(side)?;
        Ok(Self { connection, family })
    }

    /// Sends a request to the module. If the module was reloaded since the last call, the request
    /// is sent again to the new instance.
    fn call<T>(&mut self, call: &Call<T>) -> Result<T> {
        match self.connection.call(&self.family, call) {
            Err(error @ Error::NotFound { .. }) => {
                let family = self.connection.resolve(self.family.side)?;
                if family.id == self.family.id {
                    return Err(error);
                }
                self.family = family;
                self.connection.call(&self.family, call)
            }
            answer => answer,
        }
    }
}

/// The host module over a blocking socket.
#[derive(Debug)]
pub struct HostClient(Client);

impl HostClient {
    /// Opens a socket and looks the module's family up.
    pub fn open() -> Result<Self> {
        Client::open(Side::Host).map(Self)
    }
}

impl HostControl for HostClient {
    fn status(&mut self) -> Result<HostStatus> {
        self.0.call(&call::host::status())
    }

    fn vms(&mut self) -> Result<Vec<Vm>> {
        self.0.call(&call::host::vms())
    }

    fn pools(&mut self, vm: Option<u32>) -> Result<Vec<Pool>> {
        self.0.call(&call::host::pools(vm))
    }

    fn set_vm(&mut self, vm: u32, change: VmChange) -> Result<u64> {
        self.0.call(&call::host::set_vm(vm, change)?)
    }

    fn configure(&mut self, change: &ConfigChange) -> Result<u64> {
        self.0.call(&call::host::configure(change))
    }

    fn flush(&mut self, target: FlushTarget) -> Result<Flushed> {
        self.0.call(&call::host::flush(target))
    }

    fn devices(&mut self) -> Result<Vec<Device>> {
        self.0.call(&call::host::devices())
    }

    fn add_device(&mut self, path: &str) -> Result<u32> {
        self.0.call(&call::host::add_device(path)?)
    }

    fn remove_device(&mut self, device: u32) -> Result<u64> {
        self.0.call(&call::host::remove_device(device))
    }

    fn set_write_budget(&mut self, device: u32, pages: u64) -> Result<()> {
        self.0.call(&call::host::set_write_budget(device, pages))
    }
}

/// The guest module over a blocking socket.
#[derive(Debug)]
pub struct GuestClient(Client);

impl GuestClient {
    /// Opens a socket and looks the module's family up.
    pub fn open() -> Result<Self> {
        Client::open(Side::Guest).map(Self)
    }
}

impl GuestControl for GuestClient {
    fn status(&mut self) -> Result<GuestStatus> {
        self.0.call(&call::guest::status())
    }

    fn pools(&mut self) -> Result<Vec<Pool>> {
        self.0.call(&call::guest::pools())
    }

    fn add_pool(&mut self, pool: &NewPool) -> Result<u32> {
        self.0.call(&call::guest::add_pool(pool)?)
    }

    fn set_pool(&mut self, pool: u32, change: PoolChange) -> Result<()> {
        self.0.call(&call::guest::set_pool(pool, change)?)
    }

    fn remove_pool(&mut self, pool: u32) -> Result<()> {
        self.0.call(&call::guest::remove_pool(pool))
    }

    fn flush(&mut self, pool: Option<u32>) -> Result<()> {
        self.0.call(&call::guest::flush(pool))
    }

    fn migrate(&mut self, file: u32, pool: u32) -> Result<()> {
        self.0.call(&call::guest::migrate(file, pool))
    }
}

/// Events of a module over a blocking socket of their own.
#[derive(Debug)]
pub struct Events {
    socket: Socket,
    family: Family,
    waiting: VecDeque<Event>,
}

impl Events {
    /// Joins the multicast group of a module, and the kernel's group that announces when families
    /// are unregistered.
    pub fn open(side: Side) -> Result<Self> {
        let mut connection = Connection::open()?;
        let controller = Family::controller(side);
        let answer = connection.call(&controller, &Family::announcer())?;
        let family = connection.resolve(side)?;
        let mut socket = Socket::new(NETLINK_GENERIC)?;
        join(&mut socket, &family)?;
        enter(&mut socket, &controller.announced(&answer)?)?;
        Ok(Self {
            socket,
            family,
            waiting: VecDeque::new(),
        })
    }
}

impl EventSource for Events {
    fn next_event(&mut self) -> Result<Option<Event>> {
        while self.waiting.is_empty() {
            let datagram = receive(&self.socket).map_err(lost_events)?;
            if exchange::registrations(self.family.side, &datagram)?.contains(&false) {
                return Ok(None);
            }
            self.waiting
                .extend(exchange::events(&self.family, &datagram)?);
        }
        Ok(self.waiting.pop_front())
    }
}

/// Address of the kernel.
pub(crate) fn kernel() -> SocketAddr {
    SocketAddr::new(0, 0)
}

/// Receives one datagram from the kernel. Datagrams from other processes are dropped.
fn receive(socket: &Socket) -> Result<Vec<u8>> {
    loop {
        match socket.recv_from_full() {
            Ok((datagram, from)) if from.port_number() == 0 => return Ok(datagram),
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// Binds a socket for requests. Errors of the kernel have a message (`NETLINK_EXT_ACK`) and no copy
/// of the request (`NETLINK_CAP_ACK`).
pub(crate) fn configure(socket: &mut Socket) -> Result<()> {
    socket.bind_auto()?;
    socket.set_cap_ack(true)?;
    socket.set_ext_ack(true)?;
    Ok(())
}

/// Binds a socket and joins a family's multicast group.
pub(crate) fn join(socket: &mut Socket, family: &Family) -> Result<()> {
    socket.bind_auto()?;
    enter(socket, family)
}

fn enter(socket: &mut Socket, family: &Family) -> Result<()> {
    let group = family
        .events
        .ok_or_else(|| Error::malformed("a netlink family has no multicast group for events"))?;
    let side = family.side;
    socket
        .add_membership(group)
        .map_err(|error| match error.kind() {
            io::ErrorKind::PermissionDenied => Error::Permission {
                side,
                message: error.to_string(),
            },
            _ => error.into(),
        })
}

/// Converts the error of a full receive buffer to [`Error::Overrun`].
pub(crate) fn lost_events(error: Error) -> Error {
    match error {
        Error::Io(error) if error.raw_os_error() == Some(ENOBUFS) => Error::Overrun,
        error => error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::attributes::text;
    use netlink_packet_generic::constants::{CTRL_ATTR_FAMILY_NAME, CTRL_CMD_GETFAMILY};

    /// The kernel's own family is always registered and needs no privileges. Its dump has several
    /// datagrams.
    #[test]
    fn the_kernel_lists_its_families() {
        let Ok(mut connection) = Connection::open() else {
            // The sandbox has no netlink.
            return;
        };
        let call = Call::dump(CTRL_CMD_GETFAMILY, Attributes::new(), |replies| {
            let name = |reply: &Attributes| reply.find(CTRL_ATTR_FAMILY_NAME).map(text);
            Ok(replies.iter().filter_map(name).collect::<Vec<_>>())
        });
        let controller = Family::controller(Side::Host);
        for _ in 0..3 {
            let names = connection.call(&controller, &call).unwrap();
            assert!(names.contains(&"nlctrl".into()), "{names:?}");
        }
    }
}
