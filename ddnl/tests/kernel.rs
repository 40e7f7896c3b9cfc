// SPDX-License-Identifier: GPL-2.0

//! The transports against the netlink of the machine the tests run on, where the modules are
//! not expected.

use ddnl::{Error, Side, blocking};

fn absent<T>(opened: ddnl::Result<T>, side: Side) -> bool {
    match opened {
        Err(Error::NotLoaded { side: missing }) => missing == side,
        // Sandboxes without netlink, and machines that have the module.
        Err(Error::Io(_)) | Ok(_) => true,
        Err(_) => false,
    }
}

#[test]
fn a_module_that_is_not_loaded_is_told() {
    assert!(absent(blocking::Host::open(), Side::Host));
    assert!(absent(blocking::Guest::open(), Side::Guest));
    assert!(absent(blocking::Events::open(Side::Host), Side::Host));
}

#[cfg(feature = "tokio")]
#[test]
fn a_module_that_is_not_loaded_is_told_to_daemons() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        assert!(absent(ddnl::tokio::Guest::open().await, Side::Guest));
        assert!(absent(
            ddnl::tokio::Events::open(Side::Guest).await,
            Side::Guest
        ));
        // The kernel's own announcements can be heard without any module.
        match ddnl::tokio::Registrations::open(Side::Guest).await {
            Ok(_) | Err(Error::Io(_)) => {}
            Err(error) => panic!("{error}"),
        }
    });
}
