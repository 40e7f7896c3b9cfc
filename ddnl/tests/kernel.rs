// SPDX-License-Identifier: GPL-2.0-only

//! Tests the transports with the netlink of the machine that runs the tests, which rarely has the
//! modules loaded. The expected result depends on the state of this machine, which the tests
//! determine by other means.

use ddnl::{Error, Side, blocking};
use netlink_sys::{Socket, protocols::NETLINK_GENERIC};
use std::{
    io::{self, Write as _},
    path::Path,
};

/// Returns whether this machine has netlink. If it has none, this function prints what is not
/// tried, and not by a macro, because the harness hides what passing tests print by macros and
/// cannot count a running test as ignored.
fn has_netlink(what: &str) -> bool {
    let opened = Socket::new(NETLINK_GENERIC);
    if let Err(error) = &opened {
        let line = format!("not tried: {what}, because there is no netlink ({error})\n");
        io::stderr().write_all(line.as_bytes()).unwrap();
    }
    opened.is_ok()
}

/// Checks the result of opening a transport against the state of this machine.
#[track_caller]
fn check<T>(opened: ddnl::Result<T>, side: Side) {
    let has_netlink = has_netlink(&format!("whether {} is found", side.module()));
    let is_loaded = Path::new("/sys/module").join(side.module()).exists();
    match opened {
        Ok(_) => assert!(is_loaded, "opened without a module"),
        Err(Error::NotLoaded { side: missing }) => {
            assert!(has_netlink && !is_loaded && missing == side);
        }
        Err(Error::Io(error)) => assert!(!has_netlink, "{error}"),
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn a_missing_module_is_reported() {
    check(blocking::HostClient::open(), Side::Host);
    check(blocking::GuestClient::open(), Side::Guest);
    check(blocking::Events::open(Side::Host), Side::Host);
}

#[cfg(feature = "tokio")]
#[tokio::test]
async fn a_missing_module_is_reported_to_daemons() {
    check(ddnl::tokio::GuestClient::open().await, Side::Guest);
    check(ddnl::tokio::Events::open(Side::Guest).await, Side::Guest);
    // The kernel's own announcements can be received without any module.
    let has_netlink = has_netlink("announcements of the kernel");
    let heard = ddnl::tokio::Registrations::open(Side::Guest).await;
    assert_eq!(heard.is_ok(), has_netlink);
}
