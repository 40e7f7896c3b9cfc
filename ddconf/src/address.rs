// SPDX-License-Identifier: GPL-2.0-only

//! Addresses of the daemons' pages for Prometheus.

use std::net::{IpAddr, SocketAddr};

/// Port of policyd's page unless the file gives another one. Ports 9100 to 9999, which Prometheus'
/// list of default ports gives to exporters, are all in use, and the list goes on from 10000.
pub const POLICYD_PORT: u16 = 19469;

/// Port of ddhostd's page unless the file gives another one.
pub const DDHOSTD_PORT: u16 = 19470;

/// Parses an IP address, with a port if that is not to be `port`. The error is a message.
pub fn address(text: &str, port: u16) -> Result<SocketAddr, String> {
    let bracketed = text.strip_prefix('[').and_then(|it| it.strip_suffix(']'));
    let alone = bracketed.unwrap_or(text).parse::<IpAddr>();
    text.parse()
        .or_else(|_| alone.map(|address| SocketAddr::new(address, port)))
        .map_err(|_| {
            format!("`{text}` is not an IP address, such as 127.0.0.1 or 127.0.0.1:{port}")
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_need_no_port() {
        let right = |text: &str| address(text, 1).unwrap().to_string();
        assert_eq!(right("127.0.0.1"), "127.0.0.1:1");
        assert_eq!(right("127.0.0.1:2"), "127.0.0.1:2");
        assert_eq!(right("::"), "[::]:1");
        assert_eq!(right("[::1]"), "[::1]:1");
        assert_eq!(right("[::1]:2"), "[::1]:2");
        for wrong in [
            "",
            "everywhere",
            "localhost:2",
            "127.0.0.1:",
            "[127.0.0.1",
            ":2",
        ] {
            assert!(address(wrong, 1).is_err(), "{wrong}");
        }
    }

    /// Ports in the range of Prometheus' list collide with exporters on the same machine.
    #[test]
    fn ports_are_not_those_of_other_exporters() {
        for port in [POLICYD_PORT, DDHOSTD_PORT] {
            assert!(!(9090..11000).contains(&port), "{port}");
            // The ports are not ephemeral ones, which the kernel gives to clients.
            assert!((1024..32768).contains(&port), "{port}");
        }
        assert_ne!(POLICYD_PORT, DDHOSTD_PORT);
    }
}
