// SPDX-License-Identifier: GPL-2.0-only

//! A load generator with the shapes of Filebench's file server profiles.
//!
//! A [`Load`] describes a run: a [`Profile`] on a directory, with its sizes. Its [`FileSet`]s are
//! known before they exist, so that a harness can put them on a disk image instead of writing them
//! through a slow machine. [`run`] starts the threads and emits one [`Line`] for each interval.
//!
//! The operations of each thread depend only on the seed: it works on its own share of the files,
//! in rotation, as Filebench does.

mod clock;
mod fileset;
mod io;
mod load;
mod pace;
mod processor;
mod profile;
mod report;
mod run;
mod script;
mod stop;
mod tally;
mod worker;

pub use fileset::{File, FileSet};
pub use load::Load;
pub use pace::Pace;
pub use processor::ProcessorTimes;
pub use profile::Profile;
pub use report::{Interval, Latency, Line, Ready, Summary};
pub use run::{End, prepare, run};
