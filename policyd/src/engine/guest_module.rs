// SPDX-License-Identifier: GPL-2.0-only

//! The engine's knowledge of the guest module.

use super::{Action, Cgroups, Time, view::View};
use ddnl::Pool;
use std::collections::BTreeMap;

/// State of the guest module, as far as it is known.
#[derive(Debug)]
pub(super) enum GuestModule {
    /// It is not loaded, or not usable, and is tried again at this time.
    Absent { next_try: Time },
    /// It is loaded. Its pools were listed, and are listed again, at these times.
    Present {
        view: View,
        listed: Time,
        next_list: Time,
    },
}

impl GuestModule {
    /// Returns the state of a module that was found, and whose pools have to be listed.
    pub(super) fn found(now: Time) -> Self {
        Self::Present {
            view: View::default(),
            listed: now,
            next_list: now,
        }
    }

    pub(super) const fn is_present(&self) -> bool {
        matches!(self, Self::Present { .. })
    }

    /// Returns its pools, if it is loaded.
    pub(super) const fn view(&self) -> Option<&View> {
        match self {
            Self::Present { view, .. } => Some(view),
            Self::Absent { .. } => None,
        }
    }

    /// Returns the pools of existing cgroups; none without the module.
    pub(super) fn pools<'a>(&'a self, cgroups: &'a Cgroups) -> BTreeMap<&'a str, &'a Pool> {
        self.view().map(|view| view.of(cgroups)).unwrap_or_default()
    }

    pub(super) fn default_pool(&self) -> Option<&Pool> {
        self.view().and_then(View::default_pool)
    }

    /// Returns the action that is due, if there is one.
    pub(super) fn due(&self, now: Time) -> Option<Action> {
        match self {
            Self::Absent { next_try } if *next_try <= now => Some(Action::Connect),
            Self::Present { next_list, .. } if *next_list <= now => Some(Action::List),
            Self::Absent { .. } | Self::Present { .. } => None,
        }
    }

    /// Has the pools listed at this time, or before.
    pub(super) fn list_by(&mut self, time: Time) {
        if let Self::Present { next_list, .. } = self {
            *next_list = time.min(*next_list);
        }
    }
}
