// SPDX-License-Identifier: GPL-2.0-only

//! Context of a verb: the modules, the output, and the global options.

use crate::{
    error::{Error, Kind, Result},
    paragraph::COLUMNS,
    system::System,
};
use ddnl::{GuestControl, GuestStatus, HostControl, HostStatus, Side, program_error};
use std::{ffi::OsString, io::Write};

/// Context in which one verb runs.
pub(crate) struct Context<'a> {
    pub(crate) system: &'a dyn System,
    pub(crate) out: &'a mut dyn Write,
    pub(crate) err: &'a mut dyn Write,
    pub(crate) json: bool,
    wanted: Option<Side>,
}

/// A host module of our ABI version, and its status.
pub(crate) struct OpenHost {
    pub(crate) control: Box<dyn HostControl>,
    pub(crate) status: HostStatus,
}

/// A guest module of our ABI version, and its status.
pub(crate) struct OpenGuest {
    pub(crate) control: Box<dyn GuestControl>,
    pub(crate) status: GuestStatus,
}

/// The module that a verb works on, for verbs of both sides.
pub(crate) enum OpenModule {
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

    /// Returns the side that the user asked for, if any.
    pub(crate) fn wanted(&self) -> Option<Side> {
        self.wanted
    }

    /// Returns whether colours are shown: on a terminal that has them, unless the variable
    /// `NO_COLOR` has a value.
    pub(crate) fn colour(&self) -> bool {
        let has = |name, value: fn(&OsString) -> bool| {
            let variable = self.system.variable(name);
            variable.is_some_and(|variable| value(&variable))
        };
        self.system.terminal()
            && !has("NO_COLOR", |value| !value.is_empty())
            && !has("TERM", |value| value == "dumb")
    }

    /// Returns the number of columns that tables may have: those of the terminal, and never fewer
    /// than every terminal has.
    pub(crate) fn columns(&self) -> usize {
        self.system
            .columns()
            .map_or(COLUMNS, usize::from)
            .max(COLUMNS)
    }

    /// Prints a warning to the standard error.
    pub(crate) fn warn(&mut self, message: &str) -> Result<()> {
        match self.json {
            true => writeln!(self.err, "{}", program_error::warning(message))?,
            false => writeln!(self.err, "Warning: {message}")?,
        }
        Ok(())
    }

    /// Opens the host module. If only the guest module is loaded, the error names `verb`.
    pub(crate) fn host(&self, verb: &str) -> Result<OpenHost> {
        if self.wanted == Some(Side::Guest) {
            return Err(wrong_side(verb, Side::Host, Kind::Usage));
        }
        let host = self.open_host()?;
        if host.is_none() && self.loaded(Side::Guest) {
            return Err(wrong_side(verb, Side::Host, Kind::NoModule));
        }
        host.ok_or_else(|| ddnl::Error::NotLoaded { side: Side::Host }.into())
    }

    /// Opens the guest module. If only the host module is loaded, the error names `verb`.
    pub(crate) fn guest(&self, verb: &str) -> Result<OpenGuest> {
        if self.wanted == Some(Side::Host) {
            return Err(wrong_side(verb, Side::Guest, Kind::Usage));
        }
        let guest = self.open_guest()?;
        if guest.is_none() && self.loaded(Side::Host) {
            return Err(wrong_side(verb, Side::Guest, Kind::NoModule));
        }
        guest.ok_or_else(|| ddnl::Error::NotLoaded { side: Side::Guest }.into())
    }

    /// Returns the side that the user chose, or else the side whose module is loaded.
    pub(crate) fn side(&self) -> Result<Side> {
        if let Some(side) = self.wanted {
            return Ok(side);
        }
        match (self.loaded(Side::Host), self.loaded(Side::Guest)) {
            (true, false) => Ok(Side::Host),
            (false, true) => Ok(Side::Guest),
            (true, true) => Err(Error::new(
                Kind::Usage,
                "both doubledecker_host and doubledecker_guest are loaded",
            )
            .hint("add --host or --guest")),
            (false, false) => Err(neither()),
        }
    }

    /// Opens the module of [`Self::side`].
    pub(crate) fn either(&self) -> Result<OpenModule> {
        let side = self.side()?;
        let module = match side {
            Side::Host => self.open_host()?.map(|host| OpenModule::Host(host.control)),
            Side::Guest => self
                .open_guest()?
                .map(|guest| OpenModule::Guest(guest.control)),
        };
        module.ok_or_else(|| ddnl::Error::NotLoaded { side }.into())
    }

    /// Opens the host module, if it is loaded.
    pub(crate) fn open_host(&self) -> Result<Option<OpenHost>> {
        let Some(mut control) = loaded_or_none(self.system.host())? else {
            return Ok(None);
        };
        let status = control.status()?;
        Ok(Some(OpenHost { control, status }))
    }

    /// Opens the guest module, if it is loaded.
    pub(crate) fn open_guest(&self) -> Result<Option<OpenGuest>> {
        let Some(mut control) = loaded_or_none(self.system.guest())? else {
            return Ok(None);
        };
        let status = control.status()?;
        Ok(Some(OpenGuest { control, status }))
    }

    /// Returns whether a module is loaded. It is also loaded if it refuses our requests.
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

/// Returns the error for a machine without either module.
pub(crate) fn neither() -> Error {
    Error::new(
        Kind::NoModule,
        "neither doubledecker_host nor doubledecker_guest is loaded",
    )
    .hint(
        "run `modprobe doubledecker_host` on a KVM host, or `modprobe doubledecker_guest` in a VM; \
         `ddctl doctor` shows what they need",
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
