// SPDX-License-Identifier: GPL-2.0-only

//! The operations of a profile's threads, with one file for each profile.

mod mail;
mod proxy;
mod rotation;
mod scan;
mod video;
mod webserver;
mod zipf;

use std::{io, time::Duration};

use anyhow::Result;

use crate::{io::Io, load::Load, profile::Profile};

/// The operations of a thread.
pub(crate) trait Script: Send {
    /// Makes one request.
    fn request(&mut self, io: &mut Io) -> io::Result<()>;
}

/// A thread before its start.
pub(crate) struct Actor {
    pub(crate) script: Box<dyn Script>,
    /// Time between requests; `None` if each follows the previous one immediately.
    pub(crate) every: Option<Duration>,
    /// Time of the first request, as a fraction of `every`.
    pub(crate) phase: f64,
    /// Whether its requests are counted and timed.
    pub(crate) foreground: bool,
}

/// Returns the threads of a load, in a fixed order.
pub(crate) fn actors(load: &Load) -> Result<Vec<Actor>> {
    let threads = load.shape().threads;
    let mut actors = Vec::new();
    for thread in 0..threads {
        actors.push(Actor {
            script: script(load, thread)?,
            every: load
                .shape()
                .rate
                .map(|rate| Duration::from_secs_f64(threads as f64 / rate)),
            phase: thread as f64 / threads as f64,
            foreground: true,
        });
    }
    if load.profile() == Profile::Video {
        actors.push(video::writer(load));
    }
    Ok(actors)
}

fn script(load: &Load, thread: u64) -> Result<Box<dyn Script>> {
    Ok(match load.profile() {
        Profile::Mail => Box::new(mail::Mail::new(load, thread)),
        Profile::Proxy => Box::new(proxy::Proxy::new(load, thread)),
        Profile::Scan => Box::new(scan::Scan::new(load, thread)),
        Profile::Video => Box::new(video::Stream::new(load, thread)),
        Profile::Webserver => Box::new(webserver::Webserver::new(load, thread)?),
        Profile::Zipf => Box::new(zipf::Zipf::new(load)?),
    })
}
