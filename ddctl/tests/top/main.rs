// SPDX-License-Identifier: GPL-2.0-only

//! `ddctl top` in a terminal, and the work that it causes.

mod feed;
mod scale;
mod terminal;
