//! Everything that crosses guest to host and kernel to user.
