// SPDX-License-Identifier: GPL-2.0

//! What every verb needs: the modules, the output, and the options of all verbs.

use crate::{
    error::{Error, Kind, Result},
    system::System,
};
use ddnl::{GuestControl, GuestStatus, HostControl, HostStatus, Side};
use std::io::Write;

/// One run of one verb.
pub(crate) struct Context<'a> {
    pub(crate) system: &'a dyn System,
    pub(crate) out: &'a mut dyn Write,
    pub(crate) err: &'a mut dyn Write,
    pub(crate) json: bool,
    wanted: Option<Side>,
}

/// A host module whose version is ours.
pub(crate) struct Host {
    pub(crate) control: Box<dyn HostControl>,
    pub(crate) status: HostStatus,
}

/// A guest module whose version is ours.
pub(crate) struct Guest {
    pub(crate) control: Box<dyn GuestControl>,
    pub(crate) status: GuestStatus,
}

/// The one module a verb talks to.
pub(crate) enum Either {
    Host(Box<dyn HostControl>),
    Guest(Box<dyn GuestControl>),
}

impl<'a> Context<'a> {
    pub(crate) fn new(
        system: &'a dyn System,
        out: &'a mut dyn Write,
        err: &'a mut dyn Write,
        json: bool,
        wanted: Option<Side>,
    ) -> Self {
        Self {
            system,
            out,
            err,
            json,
            wanted,
        }
    }

    /// The side the user asked for, if any.
    pub(crate) fn wanted(&self) -> Option<Side> {
        self.wanted
    }

    /// The host module. `verb` is named if this turns out to be a guest.
    pub(crate) fn host(&self, verb: &str) -> Result<Host> {
        if self.wanted == Some(Side::Guest) {
            return Err(wrong_side(verb, Side::Host, Kind::Usage));
        }
        let host = self.open_host()?;
        if host.is_none() && self.loaded(Side::Guest) {
            return Err(wrong_side(verb, Side::Host, Kind::NoModule));
        }
        host.ok_or_else(|| ddnl::Error::NotLoaded { side: Side::Host }.into())
    }

    /// The guest module. `verb` is named if this turns out to be a host.
    pub(crate) fn guest(&self, verb: &str) -> Result<Guest> {
        if self.wanted == Some(Side::Host) {
            return Err(wrong_side(verb, Side::Guest, Kind::Usage));
        }
        let guest = self.open_guest()?;
        if guest.is_none() && self.loaded(Side::Host) {
            return Err(wrong_side(verb, Side::Guest, Kind::NoModule));
        }
        guest.ok_or_else(|| ddnl::Error::NotLoaded { side: Side::Guest }.into())
    }

    /// The side this machine is, or the user chose.
    pub(crate) fn side(&self) -> Result<Side> {
        if let Some(side) = self.wanted {
            return Ok(side);
        }
        match (self.loaded(Side::Host), self.loaded(Side::Guest)) {
            (true, false) => Ok(Side::Host),
            (false, true) => Ok(Side::Guest),
            (true, true) => Err(Error::new(
                Kind::Usage,
                "this machine is a host and a guest at once",
            )
            .hint("add --host or --guest")),
            (false, false) => Err(neither()),
        }
    }

    /// The module of [`Self::side`].
    pub(crate) fn either(&self) -> Result<Either> {
        let side = self.side()?;
        let module = match side {
            Side::Host => self.open_host()?.map(|host| Either::Host(host.control)),
            Side::Guest => self.open_guest()?.map(|guest| Either::Guest(guest.control)),
        };
        module.ok_or_else(|| ddnl::Error::NotLoaded { side }.into())
    }

    /// The host module, if it is loaded.
    pub(crate) fn open_host(&self) -> Result<Option<Host>> {
        let Some(mut control) = loaded_or_none(self.system.host())? else {
            return Ok(None);
        };
        let status = control.status()?;
        Ok(Some(Host { control, status }))
    }

    /// The guest module, if it is loaded.
    pub(crate) fn open_guest(&self) -> Result<Option<Guest>> {
        let Some(mut control) = loaded_or_none(self.system.guest())? else {
            return Ok(None);
        };
        let status = control.status()?;
        Ok(Some(Guest { control, status }))
    }

    /// A module that cannot be asked is loaded nevertheless.
    fn loaded(&self, side: Side) -> bool {
        let missing = |error: &ddnl::Error| matches!(error, ddnl::Error::NotLoaded { .. });
        match side {
            Side::Host => !self.system.host().is_err_and(|error| missing(&error)),
            Side::Guest => !self.system.guest().is_err_and(|error| missing(&error)),
        }
    }
}

fn loaded_or_none<T>(opened: ddnl::Result<T>) -> Result<Option<T>> {
    match opened {
        Ok(control) => Ok(Some(control)),
        Err(ddnl::Error::NotLoaded { .. }) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Neither module is there.
pub(crate) fn neither() -> Error {
    Error::new(
        Kind::NoModule,
        "neither doubledecker_host nor doubledecker_guest is loaded",
    )
    .hint(
        "insmod doubledecker_host.ko on a KVM host, doubledecker_guest.ko in a VM; `ddctl doctor` \
         says what they need",
    )
}

fn wrong_side(verb: &str, needed: Side, kind: Kind) -> Error {
    let (place, other) = match needed {
        Side::Host => ("on the host", "in a guest"),
        Side::Guest => ("in a guest", "on the host"),
    };
    Error::new(kind, format!("`{verb}` works {place}, not {other}")).hint(format!(
        "run it {place}, where {} is loaded",
        needed.module()
    ))
}
