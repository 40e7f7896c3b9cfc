// SPDX-License-Identifier: GPL-2.0

//! What is shown on real kernels.
