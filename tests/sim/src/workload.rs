// SPDX-License-Identifier: GPL-2.0

//! What runs in the containers.

pub mod synthetic;
