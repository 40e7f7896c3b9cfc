//! What is shown on real kernels.
