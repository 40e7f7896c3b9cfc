// SPDX-License-Identifier: GPL-2.0-only

//! The common parts of the daemons of guests and hosts.
//!
//! - [`event_loop`]: runs a daemon's loop, and turns signals into requests;
//! - [`failure`]: how a program ends: reports, warnings and the error, as text or JSON;
//! - [`service`], [`lock`]: the service manager, and other daemons of the same kind;
//! - [`listener`]: changes of a kernel module;
//! - [`status`], [`metrics`], [`show`]: reports on a socket and on a page for Prometheus;
//! - [`exposition`], [`pools`]: the format of that page, and the metrics of pools on it;
//! - `catalogue`, `scrape` and `fake` (feature `fake`): readers of such a page and a service
//!   manager, for tests;
//! - [`journal`], [`log`], [`pace`]: lines of the journal, and bounds for what others cause.

#![forbid(unsafe_code)]

mod accept;
#[cfg(any(test, feature = "fake"))]
pub mod catalogue;
pub mod event_loop;
pub mod exposition;
pub mod failure;
#[cfg(feature = "fake")]
pub mod fake;
pub mod journal;
pub mod listener;
pub mod lock;
pub mod log;
pub mod metrics;
pub mod pace;
pub mod pools;
#[cfg(feature = "fake")]
pub mod scrape;
pub mod service;
pub mod show;
pub mod status;
