//! Generic netlink client of both kernel modules.
