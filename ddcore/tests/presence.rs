// SPDX-License-Identifier: GPL-2.0-only

//! The presence map against the table of its specification and against a model.

#[path = "presence/limits.rs"]
mod limits;
#[path = "presence/model.rs"]
mod model;
#[path = "presence/ops.rs"]
mod ops;
#[path = "presence/random.rs"]
mod random;
#[path = "presence/rows.rs"]
mod rows;
#[path = "presence/segments.rs"]
mod segments;
