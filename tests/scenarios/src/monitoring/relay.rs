// SPDX-License-Identifier: GPL-2.0-only

//! Carries requests from this machine to a server in a machine of the lab, which has no network.

use std::{
    io::{Read as _, Write as _},
    net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use anyhow::{Result, ensure};
use ddlab::{Command, Machine};

/// The longest time in which a request arrives here.
const PATIENCE: Duration = Duration::from_secs(5);
/// The largest head of a request. There are no bodies.
const HEAD: usize = 16 << 10;

/// A port of this machine that stands for a port of a machine. One request is carried at a time. A
/// connection is closed without an answer if the server cannot be reached.
pub(super) struct Relay {
    address: SocketAddr,
    ends: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Relay {
    pub(super) fn start(machine: &Machine, port: u16) -> Result<Self> {
        machine.exec_ok(["ip", "link", "set", "lo", "up"])?;
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let address = listener.local_addr()?;
        let ends = Arc::new(AtomicBool::new(false));
        let (machine, seen) = (machine.clone(), Arc::clone(&ends));
        let carry_all = move || {
            for stream in listener.incoming().flatten() {
                if seen.load(Ordering::Relaxed) {
                    break;
                }
                // A failure is that of the scrape, which Prometheus reports.
                let _ = carry(&machine, port, stream);
            }
        };
        Ok(Self {
            address,
            ends,
            thread: Some(thread::spawn(carry_all)),
        })
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Relaxed);
        // The thread waits for a connection.
        let woken = TcpStream::connect(self.address);
        if let (Ok(_), Some(thread)) = (woken, self.thread.take()) {
            let _ = thread.join();
        }
    }
}

/// Carries a request and its answer unchanged. The server closes each connection after an answer.
fn carry(machine: &Machine, port: u16, mut stream: TcpStream) -> Result<()> {
    stream.set_read_timeout(Some(PATIENCE))?;
    let mut request = Vec::new();
    let mut buffer = [0; 4096];
    while !request.ends_with(b"\r\n\r\n") {
        let count = stream.read(&mut buffer)?;
        request.extend(&buffer[..count]);
        ensure!(count > 0 && request.len() < HEAD, "the request has no end");
    }
    let talk = format!("exec 3<>/dev/tcp/127.0.0.1/{port} && cat >&3 && cat <&3");
    let output = machine.run(&Command::new(["bash", "-c", &talk]).stdin(request))?;
    ensure!(output.exit.success(), "port {port} gives no answer");
    Ok(stream.write_all(&output.stdout)?)
}
