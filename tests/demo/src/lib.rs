// SPDX-License-Identifier: GPL-2.0-only

//! The demo, and the paper's experiments on real kernels.
//!
//! [`run`] is the demo: it boots a lab, runs a script of phases, shows a table while it runs and
//! writes a report. [`scenarios`] are the paper's experiments with changing weights, scaled down,
//! for the test suite; each writes its curves beside its logs.
//!
//! [`table_4`] is the paper's experiment with targets, on real servers.
//!
//! [`bench`] compares the ways to spend a host's memory on its guests' files.
//!
//! - [`plan`]: what runs where; [`site`]: VMs brought up by a plan;
//! - [`policy`], [`ddctl`]: changing and reading the two modules;
//! - [`recorder`], [`sampler`], [`recording`], [`latency`]: curves and figures of a run;
//! - [`live`], [`outcome`], [`report`]: showing them, with pages and charts of `ddreport`.

pub mod bench;
mod demo;
mod figures;
mod latency;
mod live;
mod outcome;
mod plan;
mod policy;
mod recorder;
mod recording;
mod report;
mod sampler;
mod site;
mod step;
mod table;
mod table_4;

use ddlab::ddctl;

pub use demo::{Options, run};
pub use figures::scenarios;
pub use outcome::Outcome;
