// SPDX-License-Identifier: GPL-2.0-only

//! The profiles of Filebench that the papers use, in units of 16 KiB.
//!
//! These are `webserver`, `webproxy`, `varmail` and `videoserver` of Filebench 1.5 alpha. File
//! sizes are gamma distributed with a mean of 16 KiB and rounded up to whole units; flows are as
//! published. Each call of `next` returns one of Filebench's reads or writes with the operations
//! that lead to it. The sizes of the file sets are in [`crate::parameters`].

mod files;
mod mail;
mod proxy;
mod video;
mod webserver;

pub use mail::Mail;
pub use proxy::Proxy;
pub use video::Video;
pub use webserver::Webserver;
