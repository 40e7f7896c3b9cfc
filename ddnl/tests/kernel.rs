// SPDX-License-Identifier: GPL-2.0-only

//! Tests the transports with the netlink of the machine that runs the tests, which rarely has the
//! modules loaded. The expected result depends on the state of this machine, which the tests
//! determine by other means.

use ddnl::{Error, Side, blocking};
use netlink_sys::{Socket, protocols::NETLINK_GENERIC};
use std::path::Path;

/// Checks the result of opening a transport against the state of this machine.
#[track_caller]
fn check<T>(opened: ddnl::Result<T>, side: Side) {
    let has_netlink = Socket::new(NETLINK_GENERIC).is_ok();
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
    let has_netlink = Socket::new(NETLINK_GENERIC).is_ok();
    let heard = ddnl::tokio::Registrations::open(Side::Guest).await;
    assert_eq!(heard.is_ok(), has_netlink);
}
