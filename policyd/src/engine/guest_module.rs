// SPDX-License-Identifier: GPL-2.0-only

//! What is known of the guest module.

use super::{Action, Cgroups, Time, view::View};
use ddnl::Pool;
use std::collections::BTreeMap;

/// The guest module, as far as is known.
#[derive(Debug)]
pub(super) enum GuestModule {
    /// Not loaded, or not usable; tried again at this time.
    Absent { next_try: Time },
    /// Loaded; its pools were listed, and are listed again, at these times.
    Present {
        view: View,
        listed: Time,
        next_list: Time,
    },
}

impl GuestModule {
    /// It was found, and its pools are to be listed.
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

    /// Its pools, if it is there.
    pub(super) const fn view(&self) -> Option<&View> {
        match self {
            Self::Present { view, .. } => Some(view),
            Self::Absent { .. } => None,
        }
    }

    /// The pools of cgroups that exist; none without it.
    pub(super) fn pools<'a>(&'a self, cgroups: &'a Cgroups) -> BTreeMap<&'a str, &'a Pool> {
        self.view().map(|view| view.of(cgroups)).unwrap_or_default()
    }

    pub(super) fn default_pool(&self) -> Option<&Pool> {
        self.view().and_then(View::default_pool)
    }

    /// What is to be found out about it now, if anything.
    pub(super) fn due(&self, now: Time) -> Option<Action> {
        match self {
            Self::Absent { next_try } if *next_try <= now => Some(Action::Connect),
            Self::Present { next_list, .. } if *next_list <= now => Some(Action::List),
            Self::Absent { .. } | Self::Present { .. } => None,
        }
    }

    /// Lists the pools at a time, or before.
    pub(super) fn list_by(&mut self, time: Time) {
        if let Self::Present { next_list, .. } = self {
            *next_list = time.min(*next_list);
        }
    }
}
